// cat: joins tensors along one dimension.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD,
    LS_STEP_EXCEPT_FIELD,
    {.key = "tensors", .type = LS_FIELD_STRINGS, .flags = LS_FIELD_REQUIRED,
     LS_MEMBER(cat.tensors), .doc = "What is joined, in order.", .example = "tensors: [a, b]"},
    {.key = "into", .type = LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(into),
     .doc = "The name of the result.", .example = "into: c"},
    LS_STEP_DIM_FIELD(cat.dim),
};
// clang-format on

static bool operand(ls_step_operand *out, const ls_scenario_step *step, int index) {
    const ls_string_list *tensors = &step->cat.tensors;
    if (index >= tensors->count) {
        return false;
    }
    *out = (ls_step_operand){tensors->at[index], tensors->marks[index]};
    return true;
}

// As if all of them were as large as the largest.
static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)scenario, (void)last, (void)first;
    made->copies *= step->cat.tensors.count;
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program;
    return ls_local_tensor_cat(out, in, count, step->cat.dim);
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    int *all = ls_arena_alloc(arena, (size_t)count, sizeof *all);
    for (int i = 0; all != NULL && i < count; i++) {
        all[i] = i;
    }
    return all != NULL ? ls_cells__join(out, arena, in, all, count, step->cat.dim, dtype)
                       : LS_ERR_MEMORY;
}

const ls_step_type ls_step__cat = {
    LS_STEP_RECORD("cat", fields, "Joins tensors along one dimension."),
    .form = LS_STEP_OF_TENSORS,
    .operand = operand,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};
