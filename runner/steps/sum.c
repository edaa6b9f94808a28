// sum: adds up along one dimension.
#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD, LS_STEP_EXCEPT_FIELD, LS_STEP_INTO_FIELD,
    LS_STEP_TENSOR_FIELD(LS_FIELD_REQUIRED), LS_STEP_DIM_FIELD(sum.dim)};

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    return ls_local_tensor_reduce(out, in[0], step->sum.dim, LS_SUM);
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)count;
    return ls_cells__sum(out, arena, &in[0], step->sum.dim, dtype);
}

const ls_step_type ls_step__sum = {
    LS_STEP_RECORD("sum", fields, "Adds up along one dimension."),
    .form = LS_STEP_OF_TENSORS,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};
