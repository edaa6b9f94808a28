// check_equal: a tensor must equal another one as a whole, whatever their placements.
#include "runner/steps/fields.h"

#include <string.h>

static const ls_schema_field fields[] = {LS_STEP_NAME_FIELD, LS_STEP_EXCEPT_FIELD,
                                         LS_STEP_TENSOR_FIELD(LS_FIELD_REQUIRED),
                                         LS_STEP_OTHER_FIELD};

static void check(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    (void)scenario;
    if (step->tensor != NULL && step->binary.other != NULL &&
        strcmp(step->tensor, step->binary.other) == 0) {
        ls_check__error(reader, ls_node_mark(&step->node, "other"), "another tensor", NULL,
                        "check_equal: %.60s is compared with itself", step->tensor);
    }
}

// Values that are still partial have no elements to compare.
static bool bring(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index) {
    (void)step, (void)count;
    const ls_placements *lie = ls_local_tensor_placements(in[index]);
    *to = (ls_placements){.count = lie != NULL ? lie->count : 0};
    for (int d = 0; d < to->count; d++) {
        to->at[d] = lie->at[d].kind == LS_PLACE_PARTIAL ? LS_REPLICATE : lie->at[d];
    }
    return ls_placements_any_partial(lie);
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)step, (void)count;
    const ls_shape *a = ls_local_tensor_shape(in[0]), *b = ls_local_tensor_shape(in[1]);
    if (a == NULL || b == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "the %s tensor has no logical shape",
                       a == NULL ? "first" : "other");
    }
    if (!ls_shape_equal(a, b) || ls_local_tensor_dtype(in[0]) != ls_local_tensor_dtype(in[1])) {
        char a_text[LS_SHAPE_TEXT_MAX], b_text[LS_SHAPE_TEXT_MAX];
        ls_shape_format(a_text, sizeof a_text, a);
        ls_shape_format(b_text, sizeof b_text, b);
        return LS_FAIL(LS_ERR_MISMATCH, "the tensors are %s %s and %s %s",
                       ls_dtype_name(ls_local_tensor_dtype(in[0])), a_text,
                       ls_dtype_name(ls_local_tensor_dtype(in[1])), b_text);
    }
    return ls_local_tensor_clone(out, in[0]);
}

// The other tensor's expected value, with the bounds of both.
static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)step, (void)count;
    const ls_cells *self = in[0].known.whole, *other = in[1].known.whole;
    if (self == NULL || other == NULL) {
        return LS_OK;
    }
    ls_block all = {.offset.ndim = other->shape.ndim, .size = other->shape};
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    LS_TRY(out->whole != NULL
               ? ls_cells__cut(out->whole, arena, other, &all, ls_local_tensor_dtype(made))
               : LS_ERR_MEMORY);
    for (size_t i = 0; out->whole->exact != NULL && i < out->whole->count; i++) {
        out->whole->bounds[i] += self->bounds[i];
        out->whole->overflow[i] |= self->overflow[i];
    }
    bool computed = out->whole->exact != NULL && self->bits == NULL;
    out->whole->bits = computed ? NULL : out->whole->bits;
    return LS_OK;
}

const ls_step_type ls_step__check_equal = {
    LS_STEP_RECORD("check_equal", fields, "A tensor must be what another one is, as a whole."),
    .form = LS_STEP_OF_TENSORS,
    .check = check,
    .operand = ls_step__binary_operand,
    .bring = bring,
    .run = ls_program__tensor_step,
    .make = make,
    .refuses = true,
    .know = know,
};
