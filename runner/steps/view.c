// view: the same elements in another shape, if none leaves its rank.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    {"shape", LS_FIELD_SHAPE, .flags = LS_FIELD_REQUIRED, LS_MEMBER(view.shape), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "The new shape of the whole.",
     .example = "shape: [4, 4, 2]"},
};
// clang-format on

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    return ls_local_tensor_view(out, in[0], &step->view.shape);
}

static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    int ranks = ls_world_size(ls_local_tensor_world(made));
    if (in->known.whole != NULL) {
        out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
        LS_TRY(out->whole != NULL ? LS_OK : LS_ERR_MEMORY);
        ls_cells__view(out->whole, in->known.whole, &step->view.shape);
    }
    if (in->known.ranks == NULL) {
        return LS_OK;
    }
    out->ranks = ls_arena_alloc(arena, (size_t)ranks, sizeof *out->ranks);
    for (int rank = 0; out->ranks != NULL && rank < ranks; rank++) {
        if (ls_local_tensor_shard_count(made, rank) != 1) {
            *out = (ls_known){0};  // partial values in several blocks of a rank: not judged
            return LS_OK;
        }
        ls_cells__view(&out->ranks[rank], &in->known.ranks[rank],
                       &ls_local_tensor_shard(made, rank, 0)->block.size);
    }
    return out->ranks != NULL ? LS_OK : LS_ERR_MEMORY;
}

static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)scenario, (void)first, (void)last;
    made->shape = step->view.shape;
}

const ls_step_type ls_step__view = {
    LS_STEP_RECORD("view", fields, "The same elements under another shape."),
    .form = LS_STEP_OF_TENSORS,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .refuses = true,
    .know = know,
};
