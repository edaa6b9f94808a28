// sum, mean, prod, amax, amin: fold one dimension, which disappears.
#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {LS_STEP_TENSOR_FIELDS, LS_STEP_DIM_FIELD(fold.dim)};

static ls_op op_of(const ls_scenario_step *step) {
    if (step->kind == LS_STEP_PROD) {
        return LS_PROD;
    }
    if (step->kind == LS_STEP_AMAX) {
        return LS_MAX;
    }
    return step->kind == LS_STEP_AMIN ? LS_MIN : LS_SUM;
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    return ls_local_tensor_reduce(out, in[0], step->fold.dim,
                                  step->kind == LS_STEP_MEAN ? LS_AVG : op_of(step));
}

// Partial values that do not commute with the fold are reduced first.
static bool bring(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index) {
    (void)count;
    const ls_placements *lie = ls_local_tensor_placements(in[index]);
    bool moves = false;
    *to = lie != NULL ? *lie : (ls_placements){0};
    for (int d = 0; d < to->count; d++) {
        ls_op op = to->at[d].op;
        bool swaps = op == op_of(step) || (op == LS_AVG && op_of(step) == LS_SUM);
        if (to->at[d].kind == LS_PLACE_PARTIAL && !swaps) {
            to->at[d] = LS_REPLICATE;
            moves = true;
        }
    }
    return moves;
}

// A mean with another divisor than the size, as a rank that knows only its part computes.
static int make_mean(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                     const ls_local_tensor *const *in, int count) {
    LS_TRY(make(out, program, step, in, count));
    const ls_shape *shape = ls_local_tensor_shape(in[0]);
    int dim = step->fold.dim + (step->fold.dim < 0 ? shape->ndim : 0);
    return step->fold.count != 0
               ? ls_local_tensor_scale(*out, (double)shape->dim[dim] / (double)step->fold.count)
               : LS_OK;
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)count;
    return ls_cells__fold_dim(out, arena, &in[0], step->fold.dim, dtype, op_of(step));
}

// The sum, in which every rank divides its part by the size of the whole.
static int know_mean(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                     const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    const ls_shape *shape = ls_local_tensor_shape(in->tensor);
    ls_dtype dtype = ls_local_tensor_dtype(made);
    LS_TRY(ls_known__operate(out, arena, step, in, count, made));
    int dim = step->fold.dim + (step->fold.dim < 0 ? shape->ndim : 0);
    for (int rank = 0; out->ranks != NULL && rank < ls_world_size(ls_local_tensor_world(made));
         rank++) {
        ls_cells__divide(&out->ranks[rank], dtype, shape->dim[dim]);
    }
    if (out->whole != NULL) {
        ls_cells__divide(out->whole, dtype, shape->dim[dim]);
    }
    return LS_OK;
}

#define TYPE(name_, doc_, make_, know_, excepts_, to_field_)                                       \
    const ls_step_type ls_step__##name_ = {LS_STEP_RECORD(#name_, fields, doc_),                   \
                                           .form = LS_STEP_OF_TENSORS,                             \
                                           .run = ls_program__tensor_step,                         \
                                           .excepts = (excepts_),                                  \
                                           .bring = bring,                                         \
                                           .make = (make_),                                        \
                                           .know = (know_),                                        \
                                           .to_field = (to_field_),                                \
                                           .cells = cells}

TYPE(sum, "Adds up along one dimension.", make, ls_known__operate, 0, NULL);
TYPE(mean, "The mean along one dimension; of a sharded one parts of it, which add up.", make_mean,
     know_mean, LS_EXCEPT_COUNT, NULL);
TYPE(prod, "The product along one dimension.", make, ls_known__operate, 0, NULL);
TYPE(amax, "The largest along one dimension.", make, ls_known__operate, 0, ls_step__compares);
TYPE(amin, "The least along one dimension.", make, ls_known__operate, 0, ls_step__compares);
