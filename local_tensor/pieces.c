// Pieces of a dimension.
#include "local_tensor/internal.h"

// ---- Ranges of one dimension --------------------------------------------------------------------
typedef struct range {
    int64_t start, length;
} range;

typedef struct ranges {
    range *at;  // ascending, none touches the next; an empty one only where it is the only one
    size_t count, room;
} ranges;

static int64_t total_of(const ranges *list) {
    int64_t total = 0;
    for (size_t i = 0; i < list->count; i++) {
        total += list->at[i].length;
    }
    return total;
}

static int64_t end_of(const ranges *list) {
    const range *last = &list->at[list->count - 1];
    return last->start + last->length;
}

// Appends what elements [start, start + length) of `from`, counted through its ranges, are.
static void append_window(ranges *to, const ranges *from, int64_t start, int64_t length) {
    for (size_t i = 0; i < from->count && length > 0; i++) {
        const range *source = &from->at[i];
        if (start >= source->length) {
            start -= source->length;
            continue;
        }
        int64_t part = source->length - start < length ? source->length - start : length;
        if (to->count > 0 && end_of(to) == source->start + start) {
            to->at[to->count - 1].length += part;
        } else {
            LS_ASSERT(to->count < to->room);
            to->at[to->count++] = (range){source->start + start, part};
        }
        start = 0;
        length -= part;
    }
}

static int make_ranges(ranges *out, size_t room) {
    void *memory = NULL;
    *out = (ranges){.room = room};
    LS_TRY(ls_alloc(&memory, room, sizeof(range)));
    out->at = memory;
    return LS_OK;
}

static void free_ranges(ranges *list) {
    ls_free(list->at, list->room, sizeof(range));
    *list = (ranges){0};
}

// Leaves what coordinate `c` of `parts` gets of the list under one placement.
static int cut(ranges *list, const ls_placement *at, int parts, int c) {
    int splits = at->split > 1 ? at->split : 1;
    int64_t total = total_of(list);
    ranges kept;
    LS_TRY(make_ranges(&kept, list->count + (size_t)splits));
    for (int k = 0; k < splits; k++) {
        int64_t start = 0, length = 0, offset = 0, own = 0;
        ls_chunk(&start, &length, total, splits, k);
        if (at->sizes == NULL) {
            ls_chunk(&offset, &own, length, parts, c);
        } else {
            for (int i = 0; i < c; i++) {
                offset += at->sizes[i];
            }
            own = at->sizes[c];
        }
        append_window(&kept, list, start + offset, own);
    }
    if (kept.count == 0) {
        kept.at[kept.count++] = (range){end_of(list), 0};
    }
    free_ranges(list);
    *list = kept;
    return LS_OK;
}

// ---- The blocks of one rank ---------------------------------------------------------------------
static int cut_all(ranges *dims, const ls_mesh *mesh, const ls_placements *placements, int rank) {
    int order[LS_MESH_DIMS_MAX], coordinates[LS_MESH_DIMS_MAX];
    ls_placements__order(order, placements);
    ls_mesh_coordinates(coordinates, mesh, rank);
    for (int i = 0; i < placements->count; i++) {
        int d = order[i];
        const ls_placement *at = &placements->at[d];
        if (at->kind == LS_PLACE_SHARD) {
            LS_TRY(cut(&dims[at->dim], at, mesh->dim[d], coordinates[d]));
        }
    }
    return LS_OK;
}

// Every combination of one range per dimension, row-major.
static int combine(ls_pieces *out, const ranges *dims, int ndim) {
    size_t count = 1;
    for (int d = 0; d < ndim; d++) {
        LS_TRY(ls_size_mul(&count, count, dims[d].count));
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, count, sizeof(ls_block)));
    *out = (ls_pieces){.at = memory, .count = count, .allocated = count};
    for (size_t i = 0; i < count; i++) {
        size_t rest = i;
        ls_block *block = &out->at[i];
        block->offset.ndim = block->size.ndim = ndim;
        for (int d = ndim; d-- > 0;) {
            const range *own = &dims[d].at[rest % dims[d].count];
            rest /= dims[d].count;
            block->offset.dim[d] = own->start;
            block->size.dim[d] = own->length;
        }
    }
    return LS_OK;
}

int ls_pieces__create(ls_pieces *out, const ls_shape *shape, const ls_mesh *mesh,
                      const ls_placements *placements, const int64_t *const *starts, int rank) {
    *out = (ls_pieces){.count = 1};
    if (!ls_placements__strided(placements)) {
        return ls_placement__block(&out->one, shape, mesh, placements, starts, rank);
    }
    ranges dims[LS_DIMS_MAX] = {0};
    int status = LS_OK;
    for (int d = 0; d < shape->ndim && status == LS_OK; d++) {
        status = make_ranges(&dims[d], 1);
        if (status == LS_OK) {
            dims[d].at[dims[d].count++] = (range){0, shape->dim[d]};
        }
    }
    status = status == LS_OK ? cut_all(dims, mesh, placements, rank) : status;
    status = status == LS_OK ? combine(out, dims, shape->ndim) : status;
    for (int d = 0; d < shape->ndim; d++) {
        free_ranges(&dims[d]);
    }
    return status;
}

void ls_pieces__free(ls_pieces *pieces) {
    ls_free(pieces->at, pieces->allocated, sizeof(ls_block));
}

const ls_block *ls_pieces__at(const ls_pieces *pieces, size_t index) {
    LS_ASSERT(index < pieces->count);
    return pieces->at != NULL ? &pieces->at[index] : &pieces->one;
}

int ls_placement_block(ls_block *out, const ls_shape *shape, const ls_mesh *mesh,
                       const ls_placements *placements, int rank) {
    int ranks = 0;
    size_t count = 0;
    ls_placements normal;
    LS_TRY(ls_mesh_size(&ranks, mesh));
    LS_TRY(ls_shape_count(&count, shape));
    LS_TRY(ls_placements_normalize(&normal, placements, shape, mesh));
    if (rank < 0 || rank >= ranks) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d is not one of the mesh's %d ranks", rank,
                            ranks);
    }
    ls_pieces pieces;
    LS_TRY(ls_pieces__create(&pieces, shape, mesh, &normal, NULL, rank));
    *out = *ls_pieces__at(&pieces, 0);
    size_t blocks = pieces.count;
    ls_pieces__free(&pieces);
    if (blocks != 1) {
        char text[256];
        ls_placements_format(text, sizeof text, &normal);
        return LS_FAIL_RANK(LS_ERR_UNSUPPORTED, rank,
                            "rank %d holds %zu blocks of the tensor under %s where one is needed",
                            rank, blocks, text);
    }
    return LS_OK;
}
