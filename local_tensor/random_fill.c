// Random values and dropout: the same logical numbers under any sharding, or a stream per rank.
#include "local_tensor/internal.h"

#include "kernels/field.h"

static int check_float(const ls_local_tensor *tensor) {
    if (!ls_dtype_is_float(tensor->dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "normal values need a floating-point type, not %s",
                       ls_dtype_name(tensor->dtype));
    }
    return LS_OK;
}

// Fills one shard; element i of the logical tensor of `shape` is normal number i.
static void fill_logical(ls_shard *shard, const ls_shape *shape, ls_dtype dtype, uint64_t seed,
                         uint32_t stream) {
    if (shard->count == 0) {
        return;
    }
    int ndim = shape->ndim;
    size_t bytes = ls_dtype_bytes(dtype);
    int64_t strides[LS_DIMS_MAX];
    ls_shape__strides(strides, shape);
    size_t row = ndim == 0 ? 1 : (size_t)shard->block.size.dim[ndim - 1];
    for (size_t start = 0; start < shard->count; start += row) {
        // The logical index of the row's first element.
        size_t rest = start;
        uint64_t index = 0;
        for (int d = ndim - 1; d >= 0; d--) {
            size_t size = (size_t)shard->block.size.dim[d];
            index += (rest % size + (size_t)shard->block.offset.dim[d]) * (uint64_t)strides[d];
            rest /= size;
        }
        for (size_t i = 0; i < row; i++) {
            double value = ls_random_normal(seed, stream, LS_RANDOM_LOGICAL, index + i);
            ls_element_from_f64((char *)shard->data + (start + i) * bytes, dtype, value);
        }
    }
}

int ls_local_tensor_randn(ls_local_tensor *tensor, const char *stream) {
    LS_TRY(check_float(tensor));
    if (!tensor->has_shape) {
        return LS_FAIL(LS_ERR_INVALID, "the tensor has no logical shape to number its elements by");
    }
    const ls_world *world = tensor->world;
    uint32_t number = ls_random_stream(stream);
    for (int i = 0; i < tensor->rank_count; i++) {
        int op = -1;
        if (tensor->has_placements) {
            op = ls_placements__neutral_op(&tensor->placements, &world->mesh, tensor->ranks[i]);
        }
        for (size_t s = tensor->first[i]; s < tensor->first[i + 1]; s++) {
            ls_shard *shard = &tensor->shards[s];
            if (op >= 0) {
                ls_local_tensor__fill_neutral(shard, tensor->dtype, (ls_op)op);
            } else {
                fill_logical(shard, &tensor->shape, tensor->dtype, world->seed, number);
            }
        }
    }
    return LS_OK;
}

// ---- Dropout ------------------------------------------------------------------------------------
typedef struct dropping {
    uint64_t seed;
    uint32_t stream;
    double p;
} dropping;

static void drop(const dropping *d, char *element, ls_dtype dtype, uint32_t rank, uint64_t index) {
    bool dropped = ls_random_uniform(d->seed, d->stream, rank, index) < d->p;
    double value = ls_element_to_f64(element, dtype);
    if (dropped) {
        value = 0;
    } else {
        value = dtype == LS_FIELD ? ls_field_quotient_f64(value, 1 - d->p) : value / (1 - d->p);
    }
    ls_element_from_f64(element, dtype, value);
}

int ls_local_tensor_dropout(ls_local_tensor *tensor, double p, const char *stream, bool per_rank) {
    LS_TRY(check_float(tensor));
    if (!(p >= 0 && p < 1)) {
        return LS_FAIL(LS_ERR_INVALID, "a dropout of %g; it must be at least 0 and less than 1", p);
    }
    if (!per_rank && !tensor->has_shape) {
        return LS_FAIL(LS_ERR_INVALID, "the tensor has no logical shape to number its elements by");
    }
    for (int d = 0; tensor->has_placements && d < tensor->placements.count; d++) {
        if (tensor->placements.at[d].kind == LS_PLACE_PARTIAL) {
            return LS_FAIL(
                LS_ERR_INVALID,
                "partial values must be reduced before a dropout, which would drop terms");
        }
    }
    dropping dropout = {tensor->world->seed, ls_random_stream(stream), p};
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->rank_count; i++) {
        uint64_t own = 0;
        for (size_t s = tensor->first[i]; s < tensor->first[i + 1]; s++) {
            const ls_shard *shard = &tensor->shards[s];
            for (size_t e = 0; e < shard->count; e++) {
                uint64_t index =
                    per_rank ? own++ : ls_shape__position(&tensor->shape, &shard->block, e);
                drop(&dropout, (char *)shard->data + e * bytes, tensor->dtype,
                     per_rank ? (uint32_t)tensor->ranks[i] : LS_RANDOM_LOGICAL, index);
            }
        }
    }
    return LS_OK;
}
