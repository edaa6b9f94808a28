// change: some ranks write an element of their shards, as a defect would.
#include "kernels/element.h"
#include "runner/steps/fields.h"

#include <string.h>

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD,
    LS_STEP_TENSOR_FIELD(LS_FIELD_REQUIRED),
    {"ranks", LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED | LS_FIELD_SOME, LS_MEMBER(change.ranks),
     .min = 0, .max = LS_RANKS_MAX - 1, .doc = "The ranks that do it.", .example = "ranks: [2]"},
    {"element", LS_FIELD_INT, LS_MEMBER(change.element), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .fallback = "0", .doc = "Which of the rank's own elements, row by row.",
     .example = "element: 3"},
    {"value", LS_FIELD_REAL, .flags = LS_FIELD_REQUIRED, LS_MEMBER(change.value),
     .min = -(INT64_C(1) << 53), .max = INT64_C(1) << 53, .doc = "Its new value.",
     .example = "value: 0.5"},
};
// clang-format on

static void check(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    ls_check__members(reader, scenario, &step->change.ranks, "rank");
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    size_t element = (size_t)step->change.element;
    ls_dtype dtype = ls_local_tensor_dtype(in[0]);
    LS_TRY(ls_local_tensor_clone(out, in[0]));
    for (int i = 0; i < step->change.ranks.count; i++) {
        int rank = (int)step->change.ranks.at[i];
        if (ls_world_held_index(program->world, rank) < 0) {
            continue;
        }
        ls_shard *shard = ls_local_tensor_shard_count(*out, rank) == 1
                              ? ls_local_tensor_shard(*out, rank, 0)
                              : NULL;
        if (shard == NULL || element >= shard->count) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d has no element %zu of its own", rank,
                                element);
        }
        size_t bytes = ls_dtype_bytes(dtype);
        unsigned char value[sizeof(int64_t)];
        char *at = (char *)shard->data + element * bytes;
        ls_element_from_f64(value, dtype, step->change.value);
        if (memcmp(at, value, bytes) == 0) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "element %zu of rank %d is %g already",
                                element, rank, step->change.value);
        }
        memcpy(at, value, bytes);
    }
    return LS_OK;
}

static bool writes(const ls_scenario_step *step, int rank) {
    int i = 0;
    while (i < step->change.ranks.count && step->change.ranks.at[i] != rank) {
        i += 1;
    }
    return i < step->change.ranks.count;
}

// A write is correct only if all ranks that hold the element write it, and write no other.
static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count, (void)made;
    const ls_placements *placements = ls_local_tensor_placements(in->tensor);
    ls_dtype dtype = ls_local_tensor_dtype(in->tensor);
    int ranks = ls_world_size(ls_local_tensor_world(in->tensor));
    size_t element = (size_t)step->change.element;
    *out = in->known;
    if (ls_placements_any_partial(placements) || in->known.whole == NULL ||
        step->change.ranks.count == 0) {
        return LS_OK;
    }
    const ls_shape *shape = &in->known.whole->shape;
    const ls_shard *first = ls_local_tensor_shard(in->tensor, (int)step->change.ranks.at[0], 0);
    if (first == NULL || element >= first->count) {
        return LS_OK;
    }
    size_t place = ls_cells__global(shape, &first->block, element);
    for (int rank = 0; rank < ranks; rank++) {
        const ls_shard *shard = ls_local_tensor_shard(in->tensor, rank, 0);
        for (size_t i = 0; shard != NULL && i < shard->count; i++) {
            bool here = ls_cells__global(shape, &shard->block, i) == place;
            if (here != (writes(step, rank) && i == element)) {
                return LS_OK;
            }
        }
    }
    ls_block all = {.offset.ndim = shape->ndim, .size = *shape};
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    LS_TRY(out->whole != NULL ? ls_cells__cut(out->whole, arena, in->known.whole, &all, dtype)
                              : LS_ERR_MEMORY);
    ls_cells__set(out->whole, place, dtype, step->change.value);
    out->ranks = NULL;
    return LS_OK;
}

const ls_step_type ls_step__change = {
    LS_STEP_RECORD("change", fields, "Some ranks write an element of their shards: a defect."),
    .form = LS_STEP_OF_TENSORS,
    .check = check,
    .run = ls_program__tensor_step,
    .make = make,
    .is_defect = true,
    .know = know,
};
