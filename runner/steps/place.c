// place: declares the placements of the ranks' own arrays, as DTensor.from_local does.
#include <inttypes.h>

#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    {"shape", LS_FIELD_SHAPE, .flags = LS_FIELD_REQUIRED, LS_MEMBER(to.shape), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "The shape of the whole.", .example = "shape: [10, 4]"},
    {"to", LS_FIELD_PLACEMENTS, .flags = LS_FIELD_REQUIRED, LS_MEMBER(to.placements),
     LS_AUX(to.given),
     .doc = "The part of the whole in each rank's array: S(dim), R or P(op) for each mesh "
            "dimension.",
     .example = "to: \"S(1), R\""},
};
// clang-format on

void ls_step__check_to(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    if (step->to.given) {
        ls_check__placements(reader, scenario, &step->node, "to", &step->to.placements, NULL);
    }
}

static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)last, (void)first;
    made->shape = step->to.shape;
    made->copies = ls_memory_copies(scenario, &step->to.placements);
}

// The place of piece `index` of a rank's shards in the rank's array, and the array's size: along
// each dimension the pieces follow one another.
static ls_block own_block(const ls_local_tensor *made, int rank, int index, ls_shape *array) {
    const ls_block *at = &ls_local_tensor_shard(made, rank, index)->block;
    ls_block own = {.offset.ndim = at->size.ndim, .size = at->size};
    *array = (ls_shape){.ndim = at->size.ndim};
    for (int d = 0; d < at->size.ndim; d++) {
        int64_t last = -1;
        for (int k = 0; k < ls_local_tensor_shard_count(made, rank); k++) {
            const ls_block *block = &ls_local_tensor_shard(made, rank, k)->block;
            int64_t offset = block->offset.dim[d];
            if (offset > last) {  // row-major: offsets ascend until they repeat
                array->dim[d] += block->size.dim[d];
                own.offset.dim[d] += offset < at->offset.dim[d] ? block->size.dim[d] : 0;
                last = offset;
            }
        }
    }
    return own;
}

static int check_array(const ls_shape *has, const ls_shape *wants, int rank) {
    if (has->ndim != wants->ndim) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d has an array of %d dimensions, the whole has %d", rank,
                            has->ndim, wants->ndim);
    }
    for (int d = 0; d < has->ndim; d++) {
        if (has->dim[d] != wants->dim[d]) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "rank %d has %" PRId64 " of dimension %d; its placements "
                                "require %" PRId64,
                                rank, has->dim[d], d, wants->dim[d]);
        }
    }
    return LS_OK;
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    ls_dtype dtype = ls_local_tensor_dtype(in[0]);
    LS_TRY(
        ls_local_tensor_zeros(out, program->world, &step->to.shape, dtype, &step->to.placements));
    for (int i = 0; i < ls_local_tensor_rank_count(*out); i++) {
        int rank = ls_local_tensor_ranks(*out)[i];
        if (ls_local_tensor_shard_count(in[0], rank) != 1) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d has %d arrays where one is needed",
                                rank, ls_local_tensor_shard_count(in[0], rank));
        }
        const ls_shard *from = ls_local_tensor_shard(in[0], rank, 0);
        ls_block array = {.offset.ndim = from->block.size.ndim, .size = from->block.size};
        for (int k = 0; k < ls_local_tensor_shard_count(*out, rank); k++) {
            const ls_shard *to = ls_local_tensor_shard(*out, rank, k);
            ls_shape wants;
            ls_block own = own_block(*out, rank, k, &wants);
            LS_TRY(check_array(&array.size, &wants, rank));
            (void)ls_block_copy(to->data, &own, from->data, &array, ls_dtype_bytes(dtype));
        }
    }
    return LS_OK;
}

// The whole that the arrays form; of partial values each rank's own.
static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    ls_dtype dtype = ls_local_tensor_dtype(made);
    bool partial = ls_placements_any_partial(&step->to.placements);
    int ranks = ls_world_size(ls_local_tensor_world(made));
    ls_cells whole, *arrays = ls_arena_alloc(arena, (size_t)ranks, sizeof *arrays);
    bool known = arrays != NULL, moved = true;
    for (int rank = 0; known && rank < ranks; rank++) {
        const ls_shard *from = ls_local_tensor_shard(in->tensor, rank, 0);
        LS_TRY(ls_known__shard(&arrays[rank], &known, arena, in, rank, &from->block));
        known = known && (!partial || ls_local_tensor_shard_count(made, rank) == 1);
        moved = moved && arrays[rank].bits != NULL;
    }
    if (!known) {
        return arrays != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    if (partial) {
        out->ranks = arrays;
        return LS_OK;
    }
    LS_TRY(moved ? ls_cells__room(&whole, arena, &step->to.shape, dtype)
                 : ls_cells__new(&whole, arena, &step->to.shape, dtype));
    for (int rank = 0; rank < ranks; rank++) {
        for (int k = 0; k < ls_local_tensor_shard_count(made, rank); k++) {
            ls_shape array;
            ls_cells part;
            ls_block own = own_block(made, rank, k, &array);
            LS_TRY(ls_cells__cut(&part, arena, &arrays[rank], &own, dtype));
            ls_cells__paste(&whole, &part, &ls_local_tensor_shard(made, rank, k)->block, dtype);
        }
    }
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    LS_TRY(out->whole != NULL ? LS_OK : LS_ERR_MEMORY);
    *out->whole = whole;
    return LS_OK;
}

const ls_step_type ls_step__place = {
    LS_STEP_RECORD(
        "place", fields,
        "Declares the tensor of which each rank's array is a shard: DTensor's from_local."),
    .form = LS_STEP_OF_TENSORS,
    .to_field = ls_step__places,
    .check = ls_step__check_to,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .refuses = true,
    .know = know,
};
