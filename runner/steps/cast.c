// cast: converts a tensor to another element type.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    {"dtype", LS_FIELD_ENUM, .flags = LS_FIELD_REQUIRED, LS_MEMBER(cast.dtype),
     .names = &ls_schema__dtypes, .doc = "The new element type.", .example = "dtype: bf16"},
};
// clang-format on

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    return ls_local_tensor_cast(out, in[0], step->cast.dtype);
}

static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    ls_dtype from = ls_local_tensor_dtype(in->tensor), to = step->cast.dtype;
    int ranks = ls_world_size(ls_local_tensor_world(made));
    bool known = true;
    if (in->known.whole != NULL) {
        out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
        LS_TRY(out->whole != NULL
                   ? ls_cells__cast(out->whole, &known, arena, in->known.whole, from, to)
                   : LS_ERR_MEMORY);
        out->whole = known ? out->whole : NULL;
    }
    if (in->known.ranks == NULL) {
        return LS_OK;
    }
    out->ranks = ls_arena_alloc(arena, (size_t)ranks, sizeof *out->ranks);
    for (int rank = 0; out->ranks != NULL && rank < ranks; rank++) {
        LS_TRY(ls_cells__cast(&out->ranks[rank], &known, arena, &in->known.ranks[rank], from, to));
        if (!known) {
            *out = (ls_known){0};
            return LS_OK;
        }
    }
    return out->ranks != NULL ? LS_OK : LS_ERR_MEMORY;
}

static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)scenario, (void)first, (void)last;
    made->element = (double)ls_dtype_bytes(step->cast.dtype);
}

static const char *to_field(ls_scenario_step *step) {
    if (step->except_count > 0) {
        return "has exceptions, and a cast is the identity here";
    }
    if (!ls_dtype_is_float(step->cast.dtype)) {
        return "casts to integers, which loses bits";
    }
    step->cast.dtype = LS_FIELD;
    return NULL;
}

const ls_step_type ls_step__cast = {
    LS_STEP_RECORD("cast", fields, "The same values in another element type."),
    .form = LS_STEP_OF_TENSORS,
    .to_field = to_field,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .know = know,
};
