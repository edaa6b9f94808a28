// Operations that move elements within each rank: joining, narrowing, transposing; and sizes as
// rank-dependent integers.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

// A whole shard as a block at the start.
static ls_block at_start(const ls_shape *size) {
    return (ls_block){.offset.ndim = size->ndim, .size = *size};
}

// ---- Joining ----
// Adds tensor t's size along dim on rank index i; all other sizes must be the first tensor's.
static int join_size(ls_shape *total, const ls_local_tensor *const *tensors, int t, int i,
                     int dim) {
    const ls_shape *size = &tensors[t]->shards[i].block.size;
    int rank = tensors[t]->ranks[i];
    if (size->ndim != total->ndim) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d: tensor %d has %d dimensions, tensor 0 has %d", rank, t,
                            size->ndim, total->ndim);
    }
    for (int d = 0; d < size->ndim; d++) {
        if (d != dim && size->dim[d] != total->dim[d]) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "rank %d: dimension %d is %" PRId64 " in tensor %d but %" PRId64
                                " in tensor 0",
                                rank, d, size->dim[d], t, total->dim[d]);
        }
    }
    if (__builtin_add_overflow(total->dim[dim], size->dim[dim], &total->dim[dim])) {
        return LS_FAIL_RANK(LS_ERR_OVERFLOW, rank, "rank %d: the joined size overflows", rank);
    }
    return LS_OK;
}

static int join_shapes(ls_local_tensor *result, const ls_local_tensor *const *tensors,
                       int tensor_count, int dim) {
    for (int i = 0; i < result->rank_count; i++) {
        const ls_shape *first = &tensors[0]->shards[i].block.size;
        ls_shape total = *first;
        int d = 0;
        if (ls_shape__dim(&d, first->ndim, dim) != LS_OK) {
            return ls_error_wrap("rank %d", result->ranks[i]);
        }
        for (int t = 1; t < tensor_count; t++) {
            LS_TRY(join_size(&total, tensors, t, i, d));
        }
        result->shards[i].block = at_start(&total);
    }
    return ls_local_tensor__allocate(result);
}

// Joined along a dimension that no mesh dimension shards, equal placements stay.
static bool join_placements(ls_shape *shape, const ls_local_tensor *const *tensors,
                            int tensor_count, int dim) {
    const ls_mesh *mesh = &tensors[0]->world->mesh;
    const ls_placements *placements = &tensors[0]->placements;
    if (!tensors[0]->has_placements) {
        return false;
    }
    *shape = tensors[0]->shape;
    int d = dim < 0 ? dim + shape->ndim : dim;
    for (int m = 0; m < placements->count; m++) {
        if (placements->at[m].kind == LS_PLACE_SHARD && placements->at[m].dim == d) {
            return false;
        }
    }
    for (int t = 1; t < tensor_count; t++) {
        if (!tensors[t]->has_placements ||
            !ls_placements_equal(placements, &tensors[t]->placements, mesh->ndim, mesh->dim)) {
            return false;
        }
        for (int e = 0; e < shape->ndim; e++) {
            if (e != d && shape->dim[e] != tensors[t]->shape.dim[e]) {
                return false;
            }
        }
        shape->dim[d] += tensors[t]->shape.dim[d];
    }
    return true;
}

int ls_local_tensor_cat(ls_local_tensor **out, const ls_local_tensor *const *tensors,
                        int tensor_count, int dim) {
    *out = NULL;
    if (tensor_count < 1) {
        return LS_FAIL(LS_ERR_INVALID, "there is no tensor to join");
    }
    const ls_local_tensor *first = tensors[0];
    for (int t = 0; t < tensor_count; t++) {
        if (ls_local_tensor__check_pair(first, tensors[t]) != LS_OK ||
            ls_local_tensor__check_single(tensors[t]) != LS_OK) {
            return ls_error_wrap("joining tensors 0 and %d", t);
        }
    }
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__new(&result, first->world, first->dtype, first->ranks,
                                first->rank_count, NULL));
    int status = join_shapes(result, tensors, tensor_count, dim);
    for (int i = 0; i < first->rank_count && status == LS_OK; i++) {
        ls_shard *to = &result->shards[i];
        int d = dim < 0 ? dim + to->block.size.ndim : dim;
        int64_t start = 0;
        for (int t = 0; t < tensor_count; t++) {
            const ls_shard *from = &tensors[t]->shards[i];
            ls_block place = at_start(&from->block.size);
            place.offset.dim[d] = start;
            start += from->block.size.dim[d];
            (void)ls_block_copy(to->data, &to->block, from->data, &place,
                                ls_dtype_bytes(first->dtype));
        }
    }
    ls_shape shape = {0};
    bool implied = status == LS_OK && join_placements(&shape, tensors, tensor_count, dim);
    return ls_local_tensor__finish(out, result, status, &shape,
                                   implied ? &first->placements : NULL);
}

// ---- Narrowing ----
static int narrow_shard_shape(ls_block *out, const ls_local_tensor *tensor, int i, int dim,
                              int64_t start, int64_t length) {
    int rank = tensor->ranks[i];
    const ls_shape *size = &tensor->shards[i].block.size;
    int d = 0;
    if (ls_shape__dim(&d, size->ndim, dim) != LS_OK) {
        return ls_error_wrap("rank %d", rank);
    }
    if (start < 0 || length < 0 || start > size->dim[d] || length > size->dim[d] - start) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "rank %d: start %" PRId64 " and length %" PRId64
                            " reach outside dimension %d, which has %" PRId64,
                            rank, start, length, d, size->dim[d]);
    }
    *out = at_start(size);
    out->offset.dim[d] = start;
    out->size.dim[d] = length;
    return LS_OK;
}

// Narrowed alike on all ranks, along a dimension that is not sharded, placements stay.
static bool narrow_placements(ls_shape *shape, const ls_local_tensor *tensor, int dim,
                              const ls_rank_int *start, const ls_rank_int *length) {
    if (!tensor->has_placements || tensor->rank_count == 0) {
        return false;
    }
    *shape = tensor->shape;
    int d = dim < 0 ? dim + shape->ndim : dim;
    for (int m = 0; m < tensor->placements.count; m++) {
        const ls_placement *at = &tensor->placements.at[m];
        if (at->kind == LS_PLACE_SHARD && at->dim == d) {
            return false;
        }
    }
    for (int i = 1; i < tensor->rank_count; i++) {
        int rank = tensor->ranks[i];
        int first = tensor->ranks[0];
        if (ls_rank_int_at(start, rank) != ls_rank_int_at(start, first) ||
            ls_rank_int_at(length, rank) != ls_rank_int_at(length, first)) {
            return false;
        }
    }
    shape->dim[d] = ls_rank_int_at(length, tensor->ranks[0]);
    return true;
}

int ls_local_tensor_narrow(ls_local_tensor **out, const ls_local_tensor *tensor, int dim,
                           const ls_rank_int *start, const ls_rank_int *length) {
    *out = NULL;
    LS_TRY(ls_local_tensor__check_single(tensor));
    if (ls_rank_int__world(start) != tensor->world || ls_rank_int__world(length) != tensor->world) {
        return LS_FAIL(LS_ERR_INVALID, "start or length belongs to another world than the tensor");
    }
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__new(&result, tensor->world, tensor->dtype, tensor->ranks,
                                tensor->rank_count, NULL));
    int status = LS_OK;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        int rank = tensor->ranks[i];
        status = narrow_shard_shape(&result->shards[i].block, tensor, i, dim,
                                    ls_rank_int_at(start, rank), ls_rank_int_at(length, rank));
    }
    status = status == LS_OK ? ls_local_tensor__allocate(result) : status;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        ls_shard *to = &result->shards[i];
        ls_block from = at_start(&tensor->shards[i].block.size);
        (void)ls_block_copy(to->data, &to->block, tensor->shards[i].data, &from,
                            ls_dtype_bytes(tensor->dtype));
        to->block = at_start(&to->block.size);
    }
    ls_shape shape = {0};
    bool implied = status == LS_OK && narrow_placements(&shape, tensor, dim, start, length);
    return ls_local_tensor__finish(out, result, status, &shape,
                                   implied ? &tensor->placements : NULL);
}

// ---- Transposing ----
static void swap_dims(ls_shape *shape, int a, int b) {
    int64_t size = shape->dim[a];
    shape->dim[a] = shape->dim[b];
    shape->dim[b] = size;
}

static int transpose_shape(ls_shard *to, const ls_local_tensor *tensor, int i, int dim_a,
                           int dim_b) {
    const ls_shape *size = &tensor->shards[i].block.size;
    int a = 0;
    int b = 0;
    if (ls_shape__dim(&a, size->ndim, dim_a) != LS_OK ||
        ls_shape__dim(&b, size->ndim, dim_b) != LS_OK) {
        return ls_error_wrap("rank %d", tensor->ranks[i]);
    }
    to->block = at_start(size);
    swap_dims(&to->block.size, a, b);
    return LS_OK;
}

static void transpose_shard(ls_shard *to, const ls_shard *from, int a, int b, size_t bytes) {
    int64_t to_stride[LS_DIMS_MAX];
    ls_shape from_stride = {.ndim = from->block.size.ndim};
    ls_shape__strides(to_stride, &to->block.size);
    ls_shape__strides(from_stride.dim, &from->block.size);
    swap_dims(&from_stride, a, b);
    ls_shape__copy(to->data, to_stride, from->data, from_stride.dim, &to->block.size, bytes);
}

int ls_local_tensor_transpose(ls_local_tensor **out, const ls_local_tensor *tensor, int dim_a,
                              int dim_b) {
    *out = NULL;
    LS_TRY(ls_local_tensor__check_single(tensor));
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__new(&result, tensor->world, tensor->dtype, tensor->ranks,
                                tensor->rank_count, NULL));
    int status = LS_OK;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        status = transpose_shape(&result->shards[i], tensor, i, dim_a, dim_b);
    }
    status = status == LS_OK ? ls_local_tensor__allocate(result) : status;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        int ndim = tensor->shards[i].block.size.ndim;
        if (tensor->shards[i].count != 0) {
            transpose_shard(&result->shards[i], &tensor->shards[i],
                            dim_a < 0 ? dim_a + ndim : dim_a, dim_b < 0 ? dim_b + ndim : dim_b,
                            ls_dtype_bytes(tensor->dtype));
        }
    }
    ls_shape shape = tensor->shape;
    ls_placements placements = tensor->placements;
    bool implied = status == LS_OK && tensor->has_placements;
    if (implied) {
        int a = dim_a < 0 ? dim_a + shape.ndim : dim_a;
        int b = dim_b < 0 ? dim_b + shape.ndim : dim_b;
        swap_dims(&shape, a, b);
        for (int d = 0; d < placements.count; d++) {
            int dim = placements.at[d].dim;
            placements.at[d].dim = dim == b ? a : dim;
            if (dim == a) {
                placements.at[d].dim = b;
            }
        }
    }
    return ls_local_tensor__finish(out, result, status, &shape, implied ? &placements : NULL);
}
