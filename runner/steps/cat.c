// cat: joins tensors along one dimension.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD,
    LS_STEP_EXCEPT_FIELD,
    {"tensors", LS_FIELD_STRINGS, .flags = LS_FIELD_REQUIRED, LS_MEMBER(cat.tensors),
     .doc = "The joined tensors, in order.", .example = "tensors: [a, b]"},
    {"into", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(into),
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

// As if all were as large as the largest.
static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)scenario, (void)last, (void)first;
    made->copies *= step->cat.tensors.count;
}

// As in DTensor: a shard of another dimension of one operand is applied to all; a shard of `dim` is
// gathered; values are partial if all are, or if all others are whole.
static ls_placement common(const ls_local_tensor *const *in, int count, int d, int dim) {
    ls_placement found = LS_REPLICATE;
    bool gathers = false;
    for (int i = 0; i < count; i++) {
        const ls_placement *at = &ls_local_tensor_placements(in[i])->at[d];
        if (at->kind == LS_PLACE_SHARD && at->dim != dim) {
            return *at;
        }
        bool other = at->kind == LS_PLACE_PARTIAL && found.kind == LS_PLACE_PARTIAL;
        gathers = gathers || at->kind == LS_PLACE_SHARD || (other && at->op != found.op);
        found = at->kind == LS_PLACE_PARTIAL ? *at : found;
    }
    return gathers ? LS_REPLICATE : found;
}

static bool bring(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index) {
    for (int i = 0; i < count; i++) {
        const ls_shape *shape = ls_local_tensor_shape(in[i]);
        if (ls_local_tensor_placements(in[i]) == NULL ||
            shape->ndim != ls_local_tensor_shape(in[0])->ndim) {
            return false;
        }
    }
    int ndim = ls_local_tensor_shape(in[0])->ndim;
    int dim = step->cat.dim + (step->cat.dim < 0 ? ndim : 0);
    *to = *ls_local_tensor_placements(in[index]);
    for (int d = 0; d < to->count; d++) {
        to->at[d] = common(in, count, d, dim);
    }
    return !ls_placements_equal(to, ls_local_tensor_placements(in[index]), to->count,
                                ls_world_mesh(ls_local_tensor_world(in[index]))->dim);
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
    .bring = bring,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};
