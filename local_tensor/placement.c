// Placements: which block of a logical tensor a rank holds, and what ranks hold of partial values.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

void ls_chunk(int64_t *offset, int64_t *length, int64_t size, int64_t count, int64_t index) {
    LS_ASSERT(size >= 0 && count >= 1);
    LS_ASSERT(index >= 0 && index < count);
    int64_t full = size / count + (size % count != 0 ? 1 : 0);
    if (full == 0 || index > (size - 1) / full) {
        *offset = size;
        *length = 0;
        return;
    }
    *offset = full * index;
    *length = size - *offset < full ? size - *offset : full;
}

bool ls_placements_any_partial(const ls_placements *placements) {
    bool any = false;
    for (int d = 0; placements != NULL && d < placements->count; d++) {
        any = any || placements->at[d].kind == LS_PLACE_PARTIAL;
    }
    return any;
}

bool ls_placement_equal(const ls_placement *a, const ls_placement *b, int mesh_dim) {
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind != LS_PLACE_SHARD) {
        return a->kind == LS_PLACE_REPLICATE || a->op == b->op;
    }
    int a_split = a->split > 1 ? a->split : 1, b_split = b->split > 1 ? b->split : 1;
    if (a->dim != b->dim || a_split != b_split || a->turn != b->turn ||
        (a->sizes == NULL) != (b->sizes == NULL)) {
        return false;
    }
    return a->sizes == NULL || memcmp(a->sizes, b->sizes, (size_t)mesh_dim * sizeof *a->sizes) == 0;
}

bool ls_placements_equal(const ls_placements *a, const ls_placements *b, int mesh_dim_count,
                         const int *mesh_dims) {
    bool equal = a->count == b->count && a->count == mesh_dim_count;
    for (int d = 0; d < mesh_dim_count && equal; d++) {
        equal = ls_placement_equal(&a->at[d], &b->at[d], mesh_dims[d]);
    }
    return equal;
}

// Checks explicit sizes [count] and sums them.
static int sum_sizes(int64_t *out, const int64_t *sizes, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 0) {
            return LS_FAIL(LS_ERR_INVALID, "size %d of the explicit shard sizes is %" PRId64, i,
                           sizes[i]);
        }
        if (__builtin_add_overflow(sum, sizes[i], &sum)) {
            return LS_FAIL(LS_ERR_OVERFLOW, "the sum of the explicit shard sizes overflows");
        }
    }
    *out = sum;
    return LS_OK;
}

static int normalize_one(ls_placement *placement, const ls_shape *shape, int mesh_dim) {
    switch (placement->kind) {
    case LS_PLACE_REPLICATE:
        return LS_OK;
    case LS_PLACE_SHARD: {
        int64_t sum = 0;
        LS_TRY(ls_shape__dim(&placement->dim, shape->ndim, placement->dim));
        if (placement->split < 0 || placement->split > LS_SPLIT_MAX ||
            (placement->split > 1 && placement->sizes != NULL)) {
            return LS_FAIL(LS_ERR_INVALID,
                           placement->sizes != NULL
                               ? "a strided shard cannot have explicit sizes"
                               : "a strided shard is split into %d; 1 to %d are possible",
                           placement->split, LS_SPLIT_MAX);
        }
        placement->split = placement->split > 1 && mesh_dim > 1 ? placement->split : 0;
        return placement->sizes != NULL ? sum_sizes(&sum, placement->sizes, mesh_dim) : LS_OK;
    }
    case LS_PLACE_PARTIAL:
        if (!ls_op_valid((int)placement->op) || placement->op == LS_PREMUL_SUM) {
            return LS_FAIL(LS_ERR_INVALID, "a partial placement cannot combine by operation %d%s",
                           (int)placement->op,
                           placement->op == LS_PREMUL_SUM ? " (premul_sum)" : "");
        }
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INVALID, "%d is not a kind of placement", (int)placement->kind);
}

static bool is_linear(ls_op op) {
    return op == LS_SUM || op == LS_AVG;
}

void ls_placements__order(int *out, const ls_placements *placements) {
    for (int d = 0; d < placements->count; d++) {
        int at = d;
        while (at > 0 && placements->at[out[at - 1]].turn > placements->at[d].turn) {
            out[at] = out[at - 1];
            at -= 1;
        }
        out[at] = d;
    }
}

bool ls_placements__strided(const ls_placements *placements) {
    bool strided = false;
    for (int d = 0; d < placements->count; d++) {
        strided =
            strided || (placements->at[d].kind == LS_PLACE_SHARD && placements->at[d].split > 1);
    }
    return strided;
}

// Turns as 0, 1, ... among the mesh dimensions that shard one tensor dimension; all 0 where these
// cut from left to right anyway.
static void normalize_turns(ls_placements *placements) {
    int order[LS_MESH_DIMS_MAX], next[LS_DIMS_MAX] = {0}, last[LS_DIMS_MAX];
    bool ascending[LS_DIMS_MAX];
    ls_placements__order(order, placements);
    for (int t = 0; t < LS_DIMS_MAX; t++) {
        last[t] = -1;
        ascending[t] = true;
    }
    for (int i = 0; i < placements->count; i++) {
        ls_placement *at = &placements->at[order[i]];
        if (at->kind == LS_PLACE_SHARD) {
            ascending[at->dim] = ascending[at->dim] && order[i] > last[at->dim];
            last[at->dim] = order[i];
            at->turn = next[at->dim]++;
        }
    }
    for (int d = 0; d < placements->count; d++) {
        ls_placement *at = &placements->at[d];
        at->turn = at->kind == LS_PLACE_SHARD && !ascending[at->dim] ? at->turn : 0;
    }
}

int ls_placements_normalize(ls_placements *out, const ls_placements *placements,
                            const ls_shape *shape, const ls_mesh *mesh) {
    if (placements->count != mesh->ndim) {
        return LS_FAIL(LS_ERR_INVALID, "%d placement%s given for a mesh of %d dimension%s",
                       placements->count, placements->count == 1 ? " is" : "s are", mesh->ndim,
                       mesh->ndim == 1 ? "" : "s");
    }
    ls_placements normal = *placements;
    int partial = -1;
    for (int d = 0; d < normal.count; d++) {
        ls_placement *at = &normal.at[d];
        if (normalize_one(at, shape, mesh->dim[d]) != LS_OK) {
            return ls_error_wrap("placement %d", d);
        }
        if (at->kind != LS_PLACE_PARTIAL) {
            continue;
        }
        if (partial >= 0 && at->op != normal.at[partial].op &&
            !(is_linear(at->op) && is_linear(normal.at[partial].op))) {
            return LS_FAIL(LS_ERR_INVALID,
                           "placements %d and %d are partial by %s and by %s: the value would "
                           "depend on which is reduced first",
                           partial, d, ls_op_name(normal.at[partial].op), ls_op_name(at->op));
        }
        partial = d;
    }
    normalize_turns(&normal);
    *out = normal;
    return LS_OK;
}

int ls_placements__check_ops(const ls_placements *placements, ls_dtype dtype) {
    for (int d = 0; d < placements->count; d++) {
        const ls_placement *at = &placements->at[d];
        if (at->kind == LS_PLACE_PARTIAL && !ls_op_supports(at->op, dtype)) {
            return LS_FAIL(LS_ERR_INVALID, "placement %d: %s is not defined on %s", d,
                           ls_op_name(at->op), ls_dtype_name(dtype));
        }
    }
    return LS_OK;
}

// The part of coordinate `c` of `parts` in `size` elements under explicit sizes.
static int cut_by_sizes(int64_t *offset, int64_t *length, int64_t *sum, const int64_t *sizes,
                        const int64_t *starts, int parts, int c) {
    *length = sizes[c];
    if (starts != NULL) {
        *offset = starts[c];
        *sum = starts[parts];
        return LS_OK;
    }
    LS_TRY(sum_sizes(offset, sizes, c));
    return sum_sizes(sum, sizes, parts);
}

int ls_starts__create(ls_starts *out, const ls_placements *placements, const ls_mesh *mesh) {
    *out = (ls_starts){0};
    for (int d = 0; d < placements->count; d++) {
        out->count += placements->at[d].sizes != NULL ? (size_t)mesh->dim[d] + 1 : 0;
    }
    if (out->count == 0) {
        return LS_OK;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, out->count, sizeof(int64_t)));
    out->memory = memory;
    int64_t *next = memory;
    for (int d = 0; d < placements->count; d++) {
        const int64_t *sizes = placements->at[d].sizes;
        if (sizes == NULL) {
            continue;
        }
        for (int i = 0; i < mesh->dim[d]; i++) {
            next[i + 1] = next[i] + sizes[i];
        }
        out->of[d] = next;
        next += mesh->dim[d] + 1;
    }
    return LS_OK;
}

void ls_starts__free(ls_starts *starts) {
    ls_free(starts->memory, starts->count, sizeof(int64_t));
}

int ls_placement__block(ls_block *out, const ls_shape *shape, const ls_mesh *mesh,
                        const ls_placements *placements, const int64_t *const *starts, int rank) {
    int coordinates[LS_MESH_DIMS_MAX], order[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(coordinates, mesh, rank);
    ls_placements__order(order, placements);
    ls_block block = {.offset.ndim = shape->ndim, .size = *shape};
    for (int i = 0; i < mesh->ndim; i++) {
        int d = order[i];
        const ls_placement *at = &placements->at[d];
        if (at->kind != LS_PLACE_SHARD) {
            continue;
        }
        int64_t size = block.size.dim[at->dim];
        int64_t offset = 0;
        int64_t length = 0;
        if (at->sizes == NULL) {
            ls_chunk(&offset, &length, size, mesh->dim[d], coordinates[d]);
        } else {
            int64_t sum = 0;
            LS_TRY(cut_by_sizes(&offset, &length, &sum, at->sizes,
                                starts != NULL ? starts[d] : NULL, mesh->dim[d], coordinates[d]));
            if (sum != size) {
                return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                    "placement %d: the explicit sizes sum to %" PRId64
                                    ", but rank %d has %" PRId64 " of dimension %d to cut",
                                    d, sum, rank, size, at->dim);
            }
        }
        block.offset.dim[at->dim] += offset;
        block.size.dim[at->dim] = length;
    }
    *out = block;
    return LS_OK;
}

int ls_placements__neutral_op(const ls_placements *placements, const ls_mesh *mesh, int rank) {
    int coordinates[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(coordinates, mesh, rank);
    for (int d = 0; d < mesh->ndim; d++) {
        const ls_placement *at = &placements->at[d];
        // The average of equal values is the value, so under avg every rank holds it.
        if (at->kind == LS_PLACE_PARTIAL && at->op != LS_AVG && coordinates[d] != 0) {
            return (int)at->op;
        }
    }
    return -1;
}
