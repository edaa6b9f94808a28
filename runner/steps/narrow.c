// narrow: a range of indices along one dimension.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD,
    LS_STEP_EXCEPT_FIELD,
    LS_STEP_INTO_FIELD,
    LS_STEP_TENSOR_FIELD(LS_FIELD_REQUIRED),
    LS_STEP_DIM_FIELD(narrow.dim),
    {.key = "start", .type = LS_FIELD_INT, LS_MEMBER(narrow.start), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .fallback = "0", .doc = "The first index that is kept.",
     .example = "start: 2"},
    {.key = "length", .type = LS_FIELD_INT, .flags = LS_FIELD_REQUIRED, LS_MEMBER(narrow.length),
     .min = 0, .max = LS_SCENARIO_COUNT_MAX, .doc = "How many are kept.", .example = "length: 3"},
};
// clang-format on

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    ls_rank_int *start = NULL;
    ls_rank_int *length = NULL;
    int status = ls_rank_int_same(&start, program->world, step->narrow.start);
    if (status == LS_OK) {
        status = ls_rank_int_same(&length, program->world, step->narrow.length);
    }
    if (status == LS_OK) {
        status = ls_local_tensor_narrow(out, in[0], step->narrow.dim, start, length);
    }
    ls_rank_int_free(start);
    ls_rank_int_free(length);
    return status;
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)count;
    return ls_cells__narrow(out, arena, &in[0], step->narrow.dim, step->narrow.start,
                            step->narrow.length, dtype);
}

const ls_step_type ls_step__narrow = {
    LS_STEP_RECORD("narrow", fields, "A range of indices along one dimension."),
    .form = LS_STEP_OF_TENSORS,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};
