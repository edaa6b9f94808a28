// add, sub, mul: two tensors, element by element.
#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {LS_STEP_TENSOR_FIELDS, LS_STEP_OTHER_FIELD};

bool ls_step__binary_operand(ls_step_operand *out, const ls_scenario_step *step, int index) {
    const char *key = index == 0 ? "tensor" : "other";
    *out = (ls_step_operand){index == 0 ? step->tensor : step->binary.other,
                             ls_node_mark(&step->node, key)};
    return index < 2;
}

static ls_op op_of(const ls_scenario_step *step) {
    return step->kind == LS_STEP_MUL ? LS_PROD : LS_SUM;
}

static bool bring(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index) {
    (void)count;
    ls_placements both[2];
    const ls_placements *lie = ls_local_tensor_placements(in[index]);
    bool moves = ls_local_tensor_meeting(&both[0], &both[1], in[0], in[1], op_of(step));
    if (lie == NULL) {
        return false;
    }
    *to = moves ? both[index] : *lie;
    // A whole subtrahend is negated: the largest part becomes the smallest.
    for (int d = 0; step->kind == LS_STEP_SUB && index == 1 && d < to->count; d++) {
        bool turns = to->at[d].op == LS_MAX || to->at[d].op == LS_MIN;
        to->at[d] = to->at[d].kind == LS_PLACE_PARTIAL && turns ? LS_REPLICATE : to->at[d];
    }
    return !ls_placements_equal(to, lie, to->count,
                                ls_world_mesh(ls_local_tensor_world(in[index]))->dim);
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    return ls_local_tensor_elementwise(out, in[0], in[1], op_of(step));
}

static int make_difference(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                           const ls_local_tensor *const *in, int count) {
    ls_local_tensor *negative = NULL;
    LS_TRY(ls_local_tensor_clone(&negative, in[1]));
    const ls_local_tensor *const both[] = {in[0], negative};
    int status = ls_local_tensor_scale(negative, -1.0);
    status = status == LS_OK ? make(out, program, step, both, count) : status;
    ls_local_tensor_free(negative);
    return status;
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)count;
    return ls_cells__elementwise(out, arena, &in[0], &in[1], dtype, op_of(step));
}

static int cells_of_difference(ls_cells *out, ls_arena *arena, const ls_scenario_step *step,
                               const ls_cells *in, int count, ls_dtype dtype) {
    ls_cells both[] = {in[0], {.count = 0}};
    LS_TRY(ls_cells__scale(&both[1], arena, &in[1], dtype, -1.0));
    return cells(out, arena, step, both, count, dtype);
}

#define TYPE(name_, doc_, make_, cells_)                                                           \
    const ls_step_type ls_step__##name_ = {LS_STEP_RECORD(#name_, fields, doc_),                   \
                                           .form = LS_STEP_OF_TENSORS,                             \
                                           .operand = ls_step__binary_operand,                     \
                                           .bring = bring,                                         \
                                           .run = ls_program__tensor_step,                         \
                                           .make = (make_),                                        \
                                           .know = ls_known__operate,                              \
                                           .cells = (cells_),                                      \
                                           .elementwise = true}

TYPE(add, "The sum of two tensors, element by element.", make, cells);
TYPE(sub, "The difference of two tensors, element by element.", make_difference,
     cells_of_difference);
TYPE(mul, "The product of two tensors, element by element.", make, cells);
