// Layouts: the blocks of ranks if a placement gives a rank several, and the blocks of every rank of
// the world, from a placement or a list.
#include "local_tensor/internal.h"

#include <string.h>

// ---- The blocks of every rank -------------------------------------------------------------------
static int make_layout(ls_layout *out, int rank_count, size_t block_count) {
    void *memory = NULL;
    *out = (ls_layout){.rank_count = rank_count};
    LS_TRY(ls_alloc(&memory, (size_t)rank_count + 1, sizeof *out->first));
    out->first = memory;
    LS_TRY(ls_alloc(&memory, block_count, sizeof *out->blocks));
    out->blocks = memory;
    out->room = block_count;
    return LS_OK;
}

void ls_layout_free(ls_layout *layout) {
    size_t ranks = layout->first != NULL ? (size_t)layout->rank_count + 1 : 0;
    ls_free(layout->first, ranks, sizeof *layout->first);
    ls_free(layout->blocks, layout->room, sizeof *layout->blocks);
    *layout = (ls_layout){0};
}

static int add_rank(ls_layout *layout, const ls_shape *shape, const ls_mesh *mesh,
                    const ls_placements *placements, const int64_t *const *starts, int rank) {
    ls_pieces pieces;
    LS_TRY(ls_pieces__create(&pieces, shape, mesh, placements, starts, rank));
    size_t first = layout->first[rank], needed = first + pieces.count;
    int status = LS_OK;
    if (needed > layout->room) {
        void *memory = NULL;
        status = ls_alloc(&memory, 2 * needed, sizeof *layout->blocks);
        if (status == LS_OK) {
            memcpy(memory, layout->blocks, first * sizeof *layout->blocks);
            ls_free(layout->blocks, layout->room, sizeof *layout->blocks);
            layout->blocks = memory;
            layout->room = 2 * needed;
        }
    }
    for (size_t i = 0; i < pieces.count && status == LS_OK; i++) {
        layout->blocks[first + i] = *ls_pieces__at(&pieces, i);
    }
    layout->first[rank + 1] = needed;
    ls_pieces__free(&pieces);
    return status;
}

int ls_layout_of_placements(ls_layout *out, const ls_mesh *mesh, const ls_shape *shape,
                            const ls_placements *placements) {
    ls_placements normal;
    ls_starts starts = {0};
    int ranks = 0;
    *out = (ls_layout){0};
    LS_TRY(ls_mesh_size(&ranks, mesh));
    LS_TRY(ls_placements_normalize(&normal, placements, shape, mesh));
    int status = make_layout(out, ranks, (size_t)ranks);
    status = status == LS_OK ? ls_starts__create(&starts, &normal, mesh) : status;
    for (int rank = 0; rank < ranks && status == LS_OK; rank++) {
        status = add_rank(out, shape, mesh, &normal, starts.of, rank);
    }
    ls_starts__free(&starts);
    if (status != LS_OK) {
        ls_layout_free(out);
    }
    return status;
}

int ls_layout__of_list(ls_layout *out, const ls_world *world, const int *block_ranks,
                       const ls_block *blocks, int block_count) {
    int status = make_layout(out, world->size, (size_t)block_count);
    if (status != LS_OK) {
        ls_layout_free(out);
        return status;
    }
    size_t next = 0;
    for (int rank = 0; rank < world->size; rank++) {
        out->first[rank + 1] = out->first[rank];
    }
    for (int b = 0; b < block_count; b++) {
        out->first[block_ranks[b] + 1] += 1;
    }
    for (int rank = 0; rank < world->size; rank++) {
        out->first[rank + 1] += out->first[rank];
    }
    // A rank's blocks keep their order.
    for (int rank = 0; rank < world->size; rank++) {
        for (int b = 0; b < block_count && next < out->first[rank + 1]; b++) {
            if (block_ranks[b] == rank) {
                out->blocks[next++] = blocks[b];
            }
        }
    }
    return LS_OK;
}

int ls_layout__copy(ls_layout *out, const ls_layout *layout) {
    size_t count = layout->first[layout->rank_count];
    int status = make_layout(out, layout->rank_count, count);
    if (status != LS_OK) {
        ls_layout_free(out);
        return status;
    }
    memcpy(out->first, layout->first, ((size_t)layout->rank_count + 1) * sizeof *out->first);
    if (count != 0) {
        memcpy(out->blocks, layout->blocks, count * sizeof *out->blocks);
    }
    return LS_OK;
}

int ls_layout_of_tensor(ls_layout *out, const ls_local_tensor *tensor) {
    *out = (ls_layout){0};
    if (tensor->has_placements) {
        return ls_layout_of_placements(out, &tensor->world->mesh, &tensor->shape,
                                       &tensor->placements);
    }
    if (!tensor->has_shape) {
        return LS_FAIL(LS_ERR_INVALID, "the tensor has no logical shape or placement");
    }
    return ls_layout__copy(out, &tensor->listed);
}
