// dropout: sets elements to 0 with probability p and divides the others by 1 - p.
#include "base/random.h"
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    {"p", LS_FIELD_REAL, .flags = LS_FIELD_REQUIRED, LS_MEMBER(dropout.p), .min = 0, .max = 1,
     .doc = "The probability with which an element is dropped.", .example = "p: 0.1"},
    {"stream", LS_FIELD_STRING, LS_MEMBER(dropout.stream), .otherwise = "the step's name",
     .doc = "Which random numbers: equal streams drop the same.", .example = "stream: attention"},
    {"per_rank", LS_FIELD_BOOL, LS_MEMBER(dropout.per_rank), .fallback = "false",
     .doc = "Each rank draws its own numbers. By default each element of the full tensor is drawn "
            "once.",
     .example = "per_rank: true"},
};
// clang-format on

static const char *stream_of(const ls_scenario_step *step) {
    return step->dropout.stream != NULL ? step->dropout.stream : step->name;
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    LS_TRY(ls_local_tensor_clone(out, in[0]));
    return ls_local_tensor_dropout(*out, step->dropout.p, stream_of(step), step->dropout.per_rank);
}

typedef struct drawing {
    uint64_t seed;
    uint32_t stream, rank;
    double p;
    uint64_t first;  // a rank continues its sequence across its shards
} drawing;

static bool drops(void *arg, size_t index) {
    const drawing *d = arg;
    return ls_random_uniform(d->seed, d->stream, d->rank, d->first + index) < d->p;
}

// Draws for the whole, element by element; for ranks that draw separately, for the shards of each.
static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    ls_dtype dtype = ls_local_tensor_dtype(made);
    const ls_world *world = ls_local_tensor_world(made);
    drawing draw = {.seed = ls_world_seed(world),
                    .stream = ls_random_stream(stream_of(step)),
                    .rank = LS_RANDOM_LOGICAL,
                    .p = step->dropout.p};
    if (!step->dropout.per_rank) {
        out->whole = in->known.whole != NULL ? ls_arena_alloc(arena, 1, sizeof *out->whole) : NULL;
        return out->whole != NULL
                   ? ls_cells__drop(out->whole, arena, in->known.whole, dtype, draw.p, drops, &draw)
                   : LS_OK;
    }
    out->ranks = ls_arena_alloc(arena, (size_t)ls_world_size(world), sizeof *out->ranks);
    LS_TRY(out->ranks != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int rank = 0; rank < ls_world_size(world); rank++) {
        ls_cells own;
        bool known = false;
        if (ls_local_tensor_shard_count(made, rank) != 1) {
            *out = (ls_known){0};  // several shards, or none: not judged
            return LS_OK;
        }
        const ls_shard *shard = ls_local_tensor_shard(made, rank, 0);
        LS_TRY(ls_known__shard(&own, &known, arena, in, rank, &shard->block));
        draw.rank = (uint32_t)rank;
        LS_TRY(ls_cells__drop(&out->ranks[rank], arena, &own, dtype, draw.p, drops, &draw));
    }
    return ls_known__of_shards(out, arena, made);
}

const ls_step_type ls_step__dropout = {
    LS_STEP_RECORD("dropout", fields, "Drops elements at random and enlarges the others."),
    .form = LS_STEP_OF_TENSORS,
    .run = ls_program__tensor_step,
    .make = make,
    .refuses = true,
    .know = know,
};
