// scale: a tensor times a number.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    {"factor", LS_FIELD_REAL, .flags = LS_FIELD_REQUIRED, LS_MEMBER(factor),
     .min = -(INT64_C(1) << 53), .max = INT64_C(1) << 53, .doc = "The factor of every element.",
     .example = "factor: 0.5"},
};
// clang-format on

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    LS_TRY(ls_local_tensor_clone(out, in[0]));
    return ls_local_tensor_scale(*out, step->factor);
}

// Partial values that do not commute with a factor are reduced first.
static bool bring(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index) {
    (void)count;
    const ls_placements *lie = ls_local_tensor_placements(in[index]);
    bool moves = false;
    *to = lie != NULL ? *lie : (ls_placements){0};
    for (int d = 0; d < to->count; d++) {
        if (!ls_placement_scales(&to->at[d], ls_local_tensor_dtype(in[index]), step->factor)) {
            to->at[d] = LS_REPLICATE;
            moves = true;
        }
    }
    return moves;
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)count;
    return ls_cells__scale(out, arena, &in[0], dtype, step->factor);
}

const ls_step_type ls_step__scale = {
    LS_STEP_RECORD("scale", fields, "A tensor times a number."),
    .form = LS_STEP_OF_TENSORS,
    .bring = bring,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
    .moves_nothing = true,
};
