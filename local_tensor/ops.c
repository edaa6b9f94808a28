// Plain arithmetic, rank by rank: elementwise, scaling, matrix products, sums along a dimension;
// and which placement the result has, where the operands' imply one.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/device.h"

// Names the first rank that one of two tensors has and the other has not.
static int check_same_ranks(const ls_local_tensor *a, const ls_local_tensor *b) {
    int i = 0;
    int j = 0;
    while (i < a->rank_count || j < b->rank_count) {
        int x = i < a->rank_count ? a->ranks[i] : INT32_MAX;
        int y = j < b->rank_count ? b->ranks[j] : INT32_MAX;
        if (x != y) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, x < y ? x : y,
                                "rank %d has a shard of the %s operand alone", x < y ? x : y,
                                x < y ? "first" : "second");
        }
        i += 1;
        j += 1;
    }
    return LS_OK;
}

int ls_local_tensor__check_pair(const ls_local_tensor *a, const ls_local_tensor *b) {
    if (a->world != b->world) {
        return LS_FAIL(LS_ERR_INVALID, "the operands are of different worlds");
    }
    if (a->dtype != b->dtype) {
        return LS_FAIL(LS_ERR_INVALID, "the operands are of types %s and %s",
                       ls_dtype_name(a->dtype), ls_dtype_name(b->dtype));
    }
    LS_TRY(check_same_ranks(a, b));
    LS_TRY(ls_local_tensor__check_single(a));
    return ls_local_tensor__check_single(b);
}

int ls_local_tensor__finish(ls_local_tensor **out, ls_local_tensor *tensor, int status,
                            const ls_shape *shape, const ls_placements *placements) {
    if (status == LS_OK && placements != NULL) {
        status = ls_local_tensor_place(tensor, shape, placements);
    }
    if (status != LS_OK) {
        ls_local_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return LS_OK;
}

static bool same_placements(const ls_local_tensor *a, const ls_local_tensor *b) {
    const ls_mesh *mesh = &a->world->mesh;
    return a->has_placements && b->has_placements && ls_shape_equal(&a->shape, &b->shape) &&
           ls_placements_equal(&a->placements, &b->placements, mesh->ndim, mesh->dim);
}

// ---- Elementwise ----
static int check_same_place(const ls_local_tensor *a, const ls_local_tensor *b, int i) {
    const ls_block *x = &a->shards[i].block;
    const ls_block *y = &b->shards[i].block;
    int rank = a->ranks[i];
    char x_text[LS_SHAPE_TEXT_MAX];
    char y_text[LS_SHAPE_TEXT_MAX];
    if (!ls_shape_equal(&x->size, &y->size)) {
        ls_shape_format(x_text, sizeof x_text, &x->size);
        ls_shape_format(y_text, sizeof y_text, &y->size);
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d: the operands have the shapes %s and %s", rank, x_text,
                            y_text);
    }
    if (a->has_shape && b->has_shape && !ls_shape_equal(&x->offset, &y->offset)) {
        ls_shape_format(x_text, sizeof x_text, &x->offset);
        ls_shape_format(y_text, sizeof y_text, &y->offset);
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d: the operands lie at %s and %s of their logical tensors", rank,
                            x_text, y_text);
    }
    return LS_OK;
}

// Partial values combine elementwise only under their own op, or sums under sums.
static bool elementwise_keeps(const ls_placements *placements, ls_op op) {
    for (int d = 0; d < placements->count; d++) {
        const ls_placement *at = &placements->at[d];
        bool linear = at->op == LS_AVG && op == LS_SUM;
        if (at->kind == LS_PLACE_PARTIAL && (op == LS_AVG || (at->op != op && !linear))) {
            return false;
        }
    }
    return true;
}

int ls_local_tensor_elementwise(ls_local_tensor **out, const ls_local_tensor *a,
                                const ls_local_tensor *b, ls_op op) {
    *out = NULL;
    LS_TRY(ls_local_tensor__check_pair(a, b));
    if (!ls_op_valid((int)op) || op == LS_PREMUL_SUM || !ls_op_supports(op, a->dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "%s is no elementwise operation on %s",
                       ls_op_valid((int)op) ? ls_op_name(op) : "this", ls_dtype_name(a->dtype));
    }
    for (int i = 0; i < a->rank_count; i++) {
        LS_TRY(check_same_place(a, b, i));
    }
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__new(&result, a->world, a->dtype, a->ranks, a->rank_count, NULL));
    for (int i = 0; i < a->rank_count; i++) {
        result->shards[i].block.size = a->shards[i].block.size;
        result->shards[i].block.offset.ndim = a->shards[i].block.size.ndim;
    }
    int status = ls_local_tensor__allocate(result);
    ls_device *device = a->world->device;
    for (int i = 0; i < a->rank_count && status == LS_OK; i++) {
        const void *in[2] = {a->shards[i].data, b->shards[i].data};
        if (a->shards[i].count != 0) {
            status = device->ops->reduce(device, result->shards[i].data, in, 2, a->dtype, op, NULL,
                                         a->shards[i].count);
        }
    }
    status = status == LS_OK ? device->ops->wait(device) : status;
    bool implied = same_placements(a, b) && elementwise_keeps(&a->placements, op);
    return ls_local_tensor__finish(out, result, status, &a->shape, implied ? &a->placements : NULL);
}

int ls_local_tensor_scale(ls_local_tensor *tensor, double factor) {
    if (!ls_dtype_is_float(tensor->dtype)) {
        char element[8] = {0};
        ls_element_from_f64(element, tensor->dtype, factor);
        if (ls_element_to_f64(element, tensor->dtype) != factor) {
            return LS_FAIL(LS_ERR_INVALID, "the factor %.17g is no %s", factor,
                           ls_dtype_name(tensor->dtype));
        }
    }
    for (int d = 0; tensor->has_placements && d < tensor->placements.count; d++) {
        const ls_placement *at = &tensor->placements.at[d];
        bool linear = at->op == LS_SUM || at->op == LS_AVG;
        bool monotonic = (at->op == LS_MAX || at->op == LS_MIN) && factor >= 0;
        if (at->kind == LS_PLACE_PARTIAL && !linear && !monotonic) {
            return LS_FAIL(LS_ERR_INVALID, "values partial by %s cannot be scaled by %.17g",
                           ls_op_name(at->op), factor);
        }
    }
    ls_device *device = tensor->world->device;
    for (size_t s = 0; s < tensor->shard_count; s++) {
        ls_shard *shard = &tensor->shards[s];
        const void *in[1] = {shard->data};
        if (shard->count != 0) {
            LS_TRY(device->ops->reduce(device, shard->data, in, 1, tensor->dtype, LS_PREMUL_SUM,
                                       &factor, shard->count));
        }
    }
    return device->ops->wait(device);
}

// ---- Matrix product ----
static int check_factors(const ls_local_tensor *a, const ls_local_tensor *b, int i) {
    const ls_shape *x = &a->shards[i].block.size;
    const ls_shape *y = &b->shards[i].block.size;
    if (x->ndim == 2 && y->ndim == 2 && x->dim[1] == y->dim[0]) {
        return LS_OK;
    }
    char x_text[LS_SHAPE_TEXT_MAX];
    char y_text[LS_SHAPE_TEXT_MAX];
    ls_shape_format(x_text, sizeof x_text, x);
    ls_shape_format(y_text, sizeof y_text, y);
    return LS_FAIL_RANK(LS_ERR_MISMATCH, a->ranks[i],
                        "rank %d: no matrix product of the shapes %s and %s", a->ranks[i], x_text,
                        y_text);
}

static bool is_shard(const ls_placement *placement, int dim) {
    return placement->kind == LS_PLACE_SHARD && placement->dim == dim;
}

static bool is_linear_or_whole(const ls_placement *placement) {
    return placement->kind == LS_PLACE_REPLICATE ||
           (placement->kind == LS_PLACE_PARTIAL &&
            (placement->op == LS_SUM || placement->op == LS_AVG));
}

static bool matmul_placements(ls_placements *out, const ls_local_tensor *a,
                              const ls_local_tensor *b) {
    if (!a->has_placements || !b->has_placements || a->shape.dim[1] != b->shape.dim[0]) {
        return false;
    }
    *out = (ls_placements){.count = a->placements.count};
    for (int d = 0; d < out->count; d++) {
        const ls_placement *x = &a->placements.at[d];
        const ls_placement *y = &b->placements.at[d];
        bool x_whole = x->kind == LS_PLACE_REPLICATE;
        bool y_whole = y->kind == LS_PLACE_REPLICATE;
        if ((is_shard(x, 0) || is_linear_or_whole(x)) && y_whole) {
            out->at[d] = *x;
        } else if (x_whole && (is_shard(y, 1) || is_linear_or_whole(y))) {
            out->at[d] = *y;
        } else if (is_shard(x, 1) && is_shard(y, 0)) {
            out->at[d] = LS_PARTIAL(LS_SUM);
        } else {
            return false;
        }
    }
    // Products of different parts of the inner dimension are not the logical product's.
    for (int i = 0; i < a->rank_count; i++) {
        if (a->shards[i].block.offset.dim[1] != b->shards[i].block.offset.dim[0]) {
            return false;
        }
    }
    return true;
}

int ls_local_tensor_matmul(ls_local_tensor **out, const ls_local_tensor *a,
                           const ls_local_tensor *b) {
    *out = NULL;
    LS_TRY(ls_local_tensor__check_pair(a, b));
    if (a->dtype != LS_F32 && a->dtype != LS_F64) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "matrix products are in f32 or f64, not %s",
                       ls_dtype_name(a->dtype));
    }
    for (int i = 0; i < a->rank_count; i++) {
        LS_TRY(check_factors(a, b, i));
    }
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__new(&result, a->world, a->dtype, a->ranks, a->rank_count, NULL));
    for (int i = 0; i < a->rank_count; i++) {
        result->shards[i].block.offset.ndim = 2;
        result->shards[i].block.size =
            LS_SHAPE(a->shards[i].block.size.dim[0], b->shards[i].block.size.dim[1]);
    }
    int status = ls_local_tensor__allocate(result);
    ls_device *device = a->world->device;
    for (int i = 0; i < a->rank_count && status == LS_OK; i++) {
        const int64_t *x = a->shards[i].block.size.dim;
        const int64_t *y = b->shards[i].block.size.dim;
        if (result->shards[i].count != 0 && x[1] != 0) {
            status = device->ops->matmul(device, result->shards[i].data, a->shards[i].data,
                                         b->shards[i].data, a->dtype, (size_t)x[0], (size_t)x[1],
                                         (size_t)y[1]);
        }
    }
    status = status == LS_OK ? device->ops->wait(device) : status;
    ls_placements placements;
    bool implied = status == LS_OK && matmul_placements(&placements, a, b);
    ls_shape shape = LS_SHAPE(a->shape.dim[0], b->shape.dim[1]);
    return ls_local_tensor__finish(out, result, status, &shape, implied ? &placements : NULL);
}

// ---- Sum along a dimension ----
static void remove_dim(ls_shape *shape, int dim) {
    for (int d = dim; d + 1 < shape->ndim; d++) {
        shape->dim[d] = shape->dim[d + 1];
    }
    shape->ndim -= 1;
}

static int sum_shard(ls_device *device, ls_shard *out, const ls_shard *in, ls_dtype dtype,
                     int dim) {
    size_t inner = 1;
    for (int d = dim + 1; d < in->block.size.ndim; d++) {
        inner *= (size_t)in->block.size.dim[d];
    }
    size_t length = (size_t)in->block.size.dim[dim];
    size_t row_bytes = inner * ls_dtype_bytes(dtype);
    size_t outer = out->count / (inner != 0 ? inner : 1);
    const char *from = in->data;
    char *to = out->data;
    for (size_t o = 0; o < outer && length != 0; o++) {
        LS_TRY(device->ops->copy(device, to, from, row_bytes));
        for (size_t k = 1; k < length; k++) {
            LS_TRY(device->ops->accumulate(device, to, from + k * row_bytes, dtype, LS_SUM, inner));
        }
        from += length * row_bytes;
        to += row_bytes;
    }
    return LS_OK;
}

static bool sum_placements(ls_placements *out, const ls_local_tensor *tensor, int dim) {
    if (!tensor->has_placements) {
        return false;
    }
    *out = tensor->placements;
    bool other_partial = false;
    for (int d = 0; d < out->count; d++) {
        ls_placement *at = &out->at[d];
        if (is_shard(at, dim)) {
            *at = LS_PARTIAL(LS_SUM);
        } else if (at->kind == LS_PLACE_SHARD) {
            at->dim -= at->dim > dim ? 1 : 0;
        } else {
            other_partial = other_partial || !is_linear_or_whole(at);
        }
    }
    return !other_partial;
}

int ls_local_tensor_sum(ls_local_tensor **out, const ls_local_tensor *tensor, int dim) {
    *out = NULL;
    LS_TRY(ls_local_tensor__check_single(tensor));
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__new(&result, tensor->world, tensor->dtype, tensor->ranks,
                                tensor->rank_count, NULL));
    int status = LS_OK;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        const ls_shape *from = &tensor->shards[i].block.size;
        int d = 0;
        status = ls_shape__dim(&d, from->ndim, dim);
        if (status != LS_OK) {
            (void)ls_error_wrap("rank %d", tensor->ranks[i]);
            break;
        }
        result->shards[i].block.size = *from;
        remove_dim(&result->shards[i].block.size, d);
        result->shards[i].block.offset.ndim = from->ndim - 1;
    }
    status = status == LS_OK ? ls_local_tensor__allocate(result) : status;
    ls_device *device = tensor->world->device;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        int ndim = tensor->shards[i].block.size.ndim;
        if (result->shards[i].count != 0) {
            status = sum_shard(device, &result->shards[i], &tensor->shards[i], tensor->dtype,
                               dim < 0 ? dim + ndim : dim);
        }
    }
    status = status == LS_OK ? device->ops->wait(device) : status;
    ls_shape shape = tensor->shape;
    ls_placements placements;
    bool implied = false;
    if (status == LS_OK && tensor->has_placements) {
        int d = dim < 0 ? dim + shape.ndim : dim;
        implied = sum_placements(&placements, tensor, d);
        remove_dim(&shape, d);
    }
    return ls_local_tensor__finish(out, result, status, &shape, implied ? &placements : NULL);
}
