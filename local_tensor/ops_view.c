// Views: another shape for the same elements, and slices of the logical tensor, where every rank
// can make them of what it holds; else the reason.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

// ---- Shapes -------------------------------------------------------------------------------------
// Replaces one -1 by what is left over; LS_ERR_INVALID where the elements do not fit.
static int resolve_shape(ls_shape *shape, const ls_shape *from) {
    int open = -1;
    ls_shape known = *shape;
    size_t have = 0, named = 0;
    char from_text[LS_SHAPE_TEXT_MAX], to_text[LS_SHAPE_TEXT_MAX];
    LS_TRY(ls_shape_count(&have, from));
    ls_shape_format(from_text, sizeof from_text, from);
    ls_shape_format(to_text, sizeof to_text, shape);
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dim[d] == -1 && open < 0) {
            open = d;
            known.dim[d] = 1;
        }
    }
    LS_TRY(ls_shape_count(&named, &known));
    if (open >= 0 && named != 0 && have % named == 0) {
        known.dim[open] = (int64_t)(have / named);
        named = have;
    }
    if (named != have || (open >= 0 && known.dim[open] * (int64_t)named == 0 && have != 0)) {
        return LS_FAIL(LS_ERR_INVALID, "%zu elements of shape %s cannot be viewed as %s", have,
                       from_text, to_text);
    }
    *shape = known;
    return LS_OK;
}

static int64_t product(const ls_shape *shape, int first, int last) {
    int64_t count = 1;
    for (int d = first; d < last; d++) {
        count *= shape->dim[d];
    }
    return count;
}

// The dimension of `to` that a shard along `dim` of `from` becomes, and how often the elements
// before it in that dimension split it; false: none.
static bool view_shard(ls_placement *at, const ls_shape *from, const ls_shape *to) {
    int dim = at->dim;
    int64_t outer = product(from, 0, dim), before = 1;
    if (from->dim[dim] == 1 && to->ndim > 0) {  // all lies with the first: along what has 1 as well
        int one = dim < to->ndim && to->dim[dim] == 1 ? dim : 0;
        while (to->dim[one] != 1 && one + 1 < to->ndim) {
            one += 1;
        }
        *at = LS_SHARD(to->dim[one] == 1 ? one : 0);
        return true;
    }
    for (int d = 0; d < to->ndim; d++) {
        bool inside = before <= outer && before * to->dim[d] > outer;
        if (inside && to->dim[d] > 1 && outer % before == 0 && outer / before <= LS_SPLIT_MAX) {
            at->dim = d;
            at->split = (int)(outer / before) * (at->split > 1 ? at->split : 1);
            at->sizes = NULL;
            return at->split <= LS_SPLIT_MAX;
        }
        before *= to->dim[d];
    }
    return false;
}

// ---- Where elements lie -------------------------------------------------------------------------
// Copies a rank's elements in order, each to its own position.
static bool copy_rank(ls_local_tensor *to, const ls_local_tensor *from, int i) {
    size_t bytes = ls_dtype_bytes(from->dtype), k = to->first[i], at = 0;
    for (size_t s = from->first[i]; s < from->first[i + 1]; s++) {
        const ls_shard *source = &from->shards[s];
        for (size_t e = 0; e < source->count; e++) {
            while (k < to->first[i + 1] && at == to->shards[k].count) {
                k += 1;
                at = 0;
            }
            if (k == to->first[i + 1] ||
                ls_shape__position(&from->shape, &source->block, e) !=
                    ls_shape__position(&to->shape, &to->shards[k].block, at)) {
                return false;
            }
            memcpy((char *)to->shards[k].data + at * bytes, (const char *)source->data + e * bytes,
                   bytes);
            at += 1;
        }
    }
    for (; k < to->first[i + 1] && at == to->shards[k].count; k++) {
        at = 0;
    }
    return k == to->first[i + 1];
}

// ---- Views --------------------------------------------------------------------------------------
// Sizes along the new dimension, from what each rank holds: rows of the one placement that shards.
static int uneven_sizes(int64_t *sizes, const ls_local_tensor *tensor, int axis, int64_t inner) {
    const ls_mesh *mesh = &tensor->world->mesh;
    int at[LS_MESH_DIMS_MAX] = {0};
    for (int c = 0; c < mesh->dim[axis]; c++) {
        ls_block block;
        size_t count = 0;
        at[axis] = c;
        LS_TRY(ls_placement_block(&block, &tensor->shape, mesh, &tensor->placements,
                                  ls_mesh_rank(mesh, at)));
        LS_TRY(ls_shape_count(&count, &block.size));
        sizes[c] = inner > 0 ? (int64_t)count / inner : 0;
    }
    return LS_OK;
}

static int refuse(const ls_local_tensor *tensor, const ls_shape *shape) {
    char from[LS_SHAPE_TEXT_MAX], to[LS_SHAPE_TEXT_MAX], placed[256];
    ls_shape_format(from, sizeof from, &tensor->shape);
    ls_shape_format(to, sizeof to, shape);
    ls_placements_format(placed, sizeof placed, &tensor->placements);
    return LS_FAIL(LS_ERR_UNSUPPORTED,
                   "a view of %s as %s would move elements between ranks: %s splits a dimension of "
                   "the new shape; redistribute it first",
                   from, to, placed);
}

// Makes the view under `placements`; *fits is false where elements would have to move.
static int try_view(ls_local_tensor **out, bool *fits, const ls_local_tensor *tensor,
                    const ls_shape *shape, const ls_placements *placements) {
    *fits = true;
    LS_TRY(ls_local_tensor_zeros(out, tensor->world, shape, tensor->dtype, placements));
    for (int i = 0; i < tensor->rank_count && *fits; i++) {
        *fits = copy_rank(*out, tensor, i);
    }
    if (!*fits) {
        ls_local_tensor_free(*out);
        *out = NULL;
    }
    return LS_OK;
}

// A view whose cuts are no chunks: the sizes that each rank has, where one mesh dimension cuts.
static int view_by_sizes(ls_local_tensor **out, const ls_local_tensor *tensor,
                         const ls_shape *shape, ls_placements *placements) {
    int axis = -1, shards = 0;
    for (int d = 0; d < placements->count; d++) {
        if (placements->at[d].kind == LS_PLACE_SHARD) {
            axis = d;
            shards += 1;
        }
    }
    if (shards != 1 || placements->at[axis].split > 1 ||
        ls_placements__strided(&tensor->placements)) {
        return refuse(tensor, shape);
    }
    void *memory = NULL;
    size_t parts = (size_t)tensor->world->mesh.dim[axis];
    int64_t along = shape->dim[placements->at[axis].dim], all = product(shape, 0, shape->ndim);
    LS_TRY(ls_alloc(&memory, parts, sizeof(int64_t)));
    int64_t *sizes = memory, sum = 0;
    bool fits = false;
    int status = uneven_sizes(sizes, tensor, axis, along > 0 ? all / along : 0);
    for (size_t c = 0; c < parts; c++) {
        sum += sizes[c];
    }
    placements->at[axis].sizes = sizes;
    if (status == LS_OK && sum == along) {
        status = try_view(out, &fits, tensor, shape, placements);
    }
    ls_free(memory, parts, sizeof(int64_t));
    return status == LS_OK && !fits ? refuse(tensor, shape) : status;
}

int ls_local_tensor_view(ls_local_tensor **out, const ls_local_tensor *tensor,
                         const ls_shape *shape) {
    *out = NULL;
    if (!tensor->has_placements) {
        return LS_FAIL(LS_ERR_INVALID, "a tensor without placements has no logical shape to view");
    }
    ls_shape to = *shape;
    LS_TRY(resolve_shape(&to, &tensor->shape));
    ls_placements placements = tensor->placements;
    bool fits = true;
    for (int d = 0; d < placements.count && fits; d++) {
        ls_placement *at = &placements.at[d];
        bool empty = product(&tensor->shape, 0, tensor->shape.ndim) == 0;
        if (at->kind == LS_PLACE_SHARD && !empty) {
            fits = view_shard(at, &tensor->shape, &to);
        } else if (at->kind == LS_PLACE_SHARD) {
            *at = LS_REPLICATE;  // no rank holds anything
        }
    }
    if (!fits) {
        return refuse(tensor, &to);
    }
    LS_TRY(try_view(out, &fits, tensor, &to, &placements));
    return fits ? LS_OK : view_by_sizes(out, tensor, &to, &placements);
}

// ---- Slices -------------------------------------------------------------------------------------
// What is left of [at, at + size) in [start, start + length).
static int64_t overlap(int64_t at, int64_t size, int64_t start, int64_t length) {
    int64_t first = at > start ? at : start;
    int64_t last = at + size < start + length ? at + size : start + length;
    return last > first ? last - first : 0;
}

// Sizes of the parts of the mesh dimension that shards `dim` once the slice is taken; axis -1: none
// does.
static int slice_sizes(int64_t *sizes, const ls_local_tensor *tensor, int axis, int dim,
                       int64_t start, int64_t length) {
    const ls_mesh *mesh = &tensor->world->mesh;
    int at[LS_MESH_DIMS_MAX] = {0};
    for (int c = 0; c < mesh->dim[axis]; c++) {
        ls_block block;
        at[axis] = c;
        LS_TRY(ls_placement_block(&block, &tensor->shape, mesh, &tensor->placements,
                                  ls_mesh_rank(mesh, at)));
        sizes[c] = overlap(block.offset.dim[dim], block.size.dim[dim], start, length);
    }
    return LS_OK;
}

static int check_slice(int *axis, const ls_local_tensor *tensor, int dim, int64_t start,
                       int64_t length) {
    int64_t size = tensor->shape.dim[dim];
    *axis = -1;
    if (start < 0 || length < 0 || start > size || length > size - start) {
        return LS_FAIL(LS_ERR_INVALID,
                       "start %" PRId64 " and length %" PRId64
                       " reach outside dimension %d, which has %" PRId64,
                       start, length, dim, size);
    }
    for (int d = 0; d < tensor->placements.count; d++) {
        const ls_placement *at = &tensor->placements.at[d];
        if (at->kind != LS_PLACE_SHARD || at->dim != dim) {
            continue;
        }
        if (*axis >= 0 || at->split > 1) {
            return LS_FAIL(LS_ERR_UNSUPPORTED,
                           "a slice of dimension %d, which %s: its parts would not form a "
                           "placement; redistribute it first",
                           dim, at->split > 1 ? "is strided" : "several mesh dimensions shard");
        }
        *axis = d;
    }
    return LS_OK;
}

// Every rank keeps its part of the slice.
static void take_slice(ls_local_tensor *to, const ls_local_tensor *from, int dim, int64_t start) {
    for (size_t s = 0; s < to->shard_count; s++) {
        ls_shard *shard = &to->shards[s];
        ls_block place = shard->block;
        place.offset.dim[dim] += start;
        if (shard->count != 0) {
            size_t copied = ls_block_copy(shard->data, &place, from->shards[s].data,
                                          &from->shards[s].block, ls_dtype_bytes(from->dtype));
            LS_ASSERT(copied == shard->count);
        }
    }
}

int ls_local_tensor_slice(ls_local_tensor **out, const ls_local_tensor *tensor, int dim,
                          int64_t start, int64_t length) {
    *out = NULL;
    if (!tensor->has_placements) {
        return LS_FAIL(LS_ERR_INVALID, "a tensor without placements has no logical shape to slice");
    }
    int axis = -1;
    LS_TRY(ls_shape__dim(&dim, tensor->shape.ndim, dim));
    LS_TRY(check_slice(&axis, tensor, dim, start, length));
    ls_shape shape = tensor->shape;
    ls_placements placements = tensor->placements;
    shape.dim[dim] = length;
    void *sizes = NULL;
    size_t parts = axis >= 0 ? (size_t)tensor->world->mesh.dim[axis] : 0;
    int status = LS_OK;
    if (axis >= 0) {
        LS_TRY(ls_alloc(&sizes, parts, sizeof(int64_t)));
        status = slice_sizes(sizes, tensor, axis, dim, start, length);
        placements.at[axis].sizes = sizes;
    }
    status = status == LS_OK
                 ? ls_local_tensor_zeros(out, tensor->world, &shape, tensor->dtype, &placements)
                 : status;
    ls_free(sizes, parts, sizeof(int64_t));
    LS_TRY(status);
    take_slice(*out, tensor, dim, start);
    return LS_OK;
}
