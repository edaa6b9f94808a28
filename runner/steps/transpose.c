// transpose: swaps the two dimensions of a matrix.
#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {LS_STEP_TENSOR_FIELDS};

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)step, (void)count;
    return ls_local_tensor_transpose(out, in[0], 0, 1);
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)step, (void)count;
    return ls_cells__transpose(out, arena, &in[0], dtype);
}

const ls_step_type ls_step__transpose = {
    LS_STEP_RECORD("transpose", fields, "Swaps the two dimensions of a matrix."),
    .form = LS_STEP_OF_TENSORS,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};
