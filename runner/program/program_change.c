// What ranks that write an element of a tensor must make of it.
#include "runner/program/program_cells.h"
#include "runner/program/program_oracle.h"

static bool writes(const ls_scenario_step *step, int rank) {
    int i = 0;
    while (i < step->ranks.count && step->ranks.at[i] != rank) {
        i += 1;
    }
    return i < step->ranks.count;
}

// Ranks that write an element do what the program means only where all that hold it do, and write
// no other.
int ls_known__change(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                     const ls_known_tensor *in) {
    ls_dtype dtype = ls_local_tensor_dtype(in->tensor);
    int ranks = ls_world_size(ls_local_tensor_world(in->tensor));
    *out = in->known;
    if (in->known.whole == NULL || step->ranks.count == 0) {
        return LS_OK;
    }
    const ls_shape *shape = &in->known.whole->shape;
    const ls_shard *first = ls_local_tensor_shard(in->tensor, (int)step->ranks.at[0], 0);
    if (first == NULL || (size_t)step->element >= first->count) {
        return LS_OK;
    }
    size_t place = ls_cells__global(shape, &first->block, (size_t)step->element);
    for (int rank = 0; rank < ranks; rank++) {
        const ls_shard *shard = ls_local_tensor_shard(in->tensor, rank, 0);
        for (size_t i = 0; shard != NULL && i < shard->count; i++) {
            bool here = ls_cells__global(shape, &shard->block, i) == place;
            if (here != (writes(step, rank) && i == (size_t)step->element)) {
                return LS_OK;
            }
        }
    }
    ls_block all = {.offset.ndim = shape->ndim, .size = *shape};
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    LS_TRY(out->whole != NULL ? ls_cells__cut(out->whole, arena, in->known.whole, &all, dtype)
                              : LS_ERR_MEMORY);
    ls_cells__set(out->whole, place, dtype, step->factor);
    out->ranks = NULL;
    return LS_OK;
}
