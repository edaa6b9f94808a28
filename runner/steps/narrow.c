// narrow: a range of indices of each rank's shard along one dimension; slice: of the whole tensor.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    LS_STEP_DIM_FIELD(narrow.dim),
    {"start", LS_FIELD_INT, LS_MEMBER(narrow.start), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .fallback = "0", .doc = "The first index that is kept.", .example = "start: 2"},
    {"length", LS_FIELD_INT, .flags = LS_FIELD_REQUIRED, LS_MEMBER(narrow.length), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "How many are kept.", .example = "length: 3"},
};
// clang-format on

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    ls_rank_int *start = NULL;
    ls_rank_int *length = NULL;
    int status = ls_rank_int_same(&start, program->world, step->narrow.start);
    if (status == LS_OK) {
        status = ls_rank_int_same(&length, program->world, step->narrow.length);
    }
    if (status == LS_OK) {
        status = ls_local_tensor_narrow(out, in[0], step->narrow.dim, start, length);
    }
    ls_rank_int_free(start);
    ls_rank_int_free(length);
    return status;
}

static int cells(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype) {
    (void)count;
    return ls_cells__narrow(out, arena, &in[0], step->narrow.dim, step->narrow.start,
                            step->narrow.length, dtype);
}

const ls_step_type ls_step__narrow = {
    LS_STEP_RECORD("narrow", fields, "A range of indices along one dimension."),
    .form = LS_STEP_OF_TENSORS,
    .run = ls_program__tensor_step,
    .make = make,
    .know = ls_known__operate,
    .cells = cells,
};

// ---- slice --------------------------------------------------------------------------------------
// Parts of a dimension that several mesh dimensions shard, or of a strided one, have no placement:
// it is gathered first.
static bool bring_slice(ls_placements *to, const ls_scenario_step *step,
                        const ls_local_tensor *const *in, int count, int index) {
    (void)count;
    const ls_placements *lie = ls_local_tensor_placements(in[index]);
    const ls_shape *shape = ls_local_tensor_shape(in[index]);
    int shards = 0;
    *to = lie != NULL ? *lie : (ls_placements){0};
    for (int d = 0; d < to->count; d++) {
        const ls_placement *at = &to->at[d];
        if (at->kind == LS_PLACE_SHARD &&
            at->dim == step->narrow.dim + (step->narrow.dim < 0 ? shape->ndim : 0)) {
            shards += at->split > 1 ? 2 : 1;
            to->at[d] = LS_REPLICATE;
        }
    }
    return shards > 1;
}

static int make_slice(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                      const ls_local_tensor *const *in, int count) {
    (void)program, (void)count;
    return ls_local_tensor_slice(out, in[0], step->narrow.dim, step->narrow.start,
                                 step->narrow.length);
}

// Each rank's part of the range; with partial values, its own part.
static int know_slice(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                      const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    ls_dtype dtype = ls_local_tensor_dtype(made);
    int ranks = ls_world_size(ls_local_tensor_world(made));
    int ndim = ls_local_tensor_shape(made)->ndim;
    int dim = step->narrow.dim + (step->narrow.dim < 0 ? ndim : 0);
    if (in->known.whole != NULL) {
        out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
        LS_TRY(out->whole != NULL ? LS_OK : LS_ERR_MEMORY);
        LS_TRY(ls_cells__narrow(out->whole, arena, in->known.whole, dim, step->narrow.start,
                                step->narrow.length, dtype));
    }
    out->ranks =
        in->known.ranks != NULL ? ls_arena_alloc(arena, (size_t)ranks, sizeof *out->ranks) : NULL;
    for (int rank = 0; out->ranks != NULL && rank < ranks; rank++) {
        ls_block part = ls_local_tensor_shard(made, rank, 0)->block;
        const ls_block *own = &ls_local_tensor_shard(in->tensor, rank, 0)->block;
        part.offset.dim[dim] += step->narrow.start;
        for (int d = 0; d < ndim; d++) {
            part.offset.dim[d] -= own->offset.dim[d];
        }
        LS_TRY(ls_cells__cut(&out->ranks[rank], arena, &in->known.ranks[rank], &part, dtype));
    }
    return LS_OK;
}

const ls_step_type ls_step__slice = {
    LS_STEP_RECORD(
        "slice", fields,
        "A range of indices of the whole along one dimension; ranks keep what they have."),
    .form = LS_STEP_OF_TENSORS,
    .bring = bring_slice,
    .run = ls_program__tensor_step,
    .make = make_slice,
    .know = know_slice,
};
