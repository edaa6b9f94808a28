// Plain arithmetic, rank by rank: scaling, casts and matrix products; and which placement the
// result has, where the operands' imply one. See ops_elementwise.c and ops_reduce.c for the rest.
#include "local_tensor/internal.h"

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
                                "rank %d has a shard of the %s operand only", x < y ? x : y,
                                x < y ? "first" : "second");
        }
        i += 1;
        j += 1;
    }
    return LS_OK;
}

int ls_local_tensor__check_pair(const ls_local_tensor *a, const ls_local_tensor *b) {
    if (a->world != b->world) {
        return LS_FAIL(LS_ERR_INVALID, "the operands belong to different worlds");
    }
    if (a->dtype != b->dtype) {
        return LS_FAIL(LS_ERR_INVALID, "the operands have types %s and %s", ls_dtype_name(a->dtype),
                       ls_dtype_name(b->dtype));
    }
    return check_same_ranks(a, b);
}

bool ls_placement_scales(const ls_placement *at, ls_dtype dtype, double factor) {
    bool linear = at->op == LS_SUM || at->op == LS_AVG;
    bool extreme = at->op == LS_MAX || at->op == LS_MIN;
    // Integers wrap, above all those that change no maximum.
    bool keeps_order = factor >= 0 && (ls_dtype_is_float(dtype) || factor <= 1);
    return at->kind != LS_PLACE_PARTIAL || linear || (extreme && keeps_order);
}

int ls_local_tensor_scale(ls_local_tensor *tensor, double factor) {
    if (!ls_dtype_is_float(tensor->dtype)) {
        char element[8] = {0};
        ls_element_from_f64(element, tensor->dtype, factor);
        if (ls_element_to_f64(element, tensor->dtype) != factor) {
            return LS_FAIL(LS_ERR_INVALID, "the factor %.17g is not a value of %s", factor,
                           ls_dtype_name(tensor->dtype));
        }
    }
    for (int d = 0; tensor->has_placements && d < tensor->placements.count; d++) {
        const ls_placement *at = &tensor->placements.at[d];
        if (!ls_placement_scales(at, tensor->dtype, factor)) {
            return LS_FAIL(LS_ERR_INVALID, "%s values partial by %s cannot be scaled by %.17g",
                           ls_dtype_name(tensor->dtype), ls_op_name(at->op), factor);
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

// ---- Casts --------------------------------------------------------------------------------------
// Rounding a sum's terms is not rounding the sum, but within the new type's precision; between
// integers and floats, and of products, it is another value.
static bool cast_keeps(const ls_local_tensor *tensor, ls_dtype dtype) {
    bool keeps = true;
    for (int d = 0; tensor->has_placements && d < tensor->placements.count; d++) {
        const ls_placement *at = &tensor->placements.at[d];
        bool extreme = at->op == LS_MAX || at->op == LS_MIN;
        bool floats = ls_dtype_is_float(dtype) && ls_dtype_is_float(tensor->dtype);
        if (at->kind == LS_PLACE_PARTIAL) {
            keeps = keeps && ls_op_supports(at->op, dtype) &&
                    (extreme || (floats && ls_placement__is_linear_or_whole(at)));
        }
    }
    return keeps;
}

int ls_local_tensor_cast(ls_local_tensor **out, const ls_local_tensor *tensor, ls_dtype dtype) {
    *out = NULL;
    if (!ls_dtype_valid((int)dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "%d is not an element type", (int)dtype);
    }
    if (!cast_keeps(tensor, dtype)) {
        char text[256];
        ls_placements_format(text, sizeof text, &tensor->placements);
        return LS_FAIL(LS_ERR_INVALID,
                       "%s values placed %s must be reduced before they are cast to %s",
                       ls_dtype_name(tensor->dtype), text, ls_dtype_name(dtype));
    }
    ls_local_tensor *result = NULL;
    LS_TRY(ls_local_tensor__like(&result, tensor, dtype));
    ls_device *device = tensor->world->device;
    int status = LS_OK;
    for (size_t s = 0; s < tensor->shard_count && status == LS_OK; s++) {
        const ls_shard *from = &tensor->shards[s];
        if (from->count != 0) {
            status = device->ops->convert(device, result->shards[s].data, dtype, from->data,
                                          tensor->dtype, from->count);
        }
    }
    status = status == LS_OK ? device->ops->wait(device) : status;
    return ls_local_tensor__finish(out, result, status, NULL, NULL);
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
                        "rank %d: shapes %s and %s have no matrix product", a->ranks[i], x_text,
                        y_text);
}

static bool is_shard(const ls_placement *placement, int dim) {
    return placement->kind == LS_PLACE_SHARD && placement->dim == dim;
}

bool ls_placement__is_linear_or_whole(const ls_placement *placement) {
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
        if ((is_shard(x, 0) || ls_placement__is_linear_or_whole(x)) && y_whole) {
            out->at[d] = *x;
        } else if (x_whole && (is_shard(y, 1) || ls_placement__is_linear_or_whole(y))) {
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
    LS_TRY(ls_local_tensor__check_single(a));
    LS_TRY(ls_local_tensor__check_single(b));
    if (a->dtype != LS_F32 && a->dtype != LS_F64 && a->dtype != LS_FIELD) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "matrix products need f32 or f64, not %s",
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
