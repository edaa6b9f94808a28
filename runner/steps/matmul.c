// matmul: the matrix product of the shards on each rank.
#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {LS_STEP_TENSOR_FIELDS, LS_STEP_OTHER_FIELD};

static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)scenario, (void)step, (void)first;
    if (made->shape.ndim == 2 && last->shape.ndim == 2) {
        made->shape.dim[1] = last->shape.dim[1];
    }
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)step, (void)count;
    return ls_local_tensor_matmul(out, in[0], in[1]);
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)step, (void)count;
    return ls_cells__matmul(out, arena, &in[0], &in[1], dtype);
}

const ls_step_type ls_step__matmul = {
    LS_STEP_RECORD("matmul", fields, "The matrix product of the shards on each rank."),
    .form = LS_STEP_OF_TENSORS,
    .operand = ls_step__binary_operand,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};
