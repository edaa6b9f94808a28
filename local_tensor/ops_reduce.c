// Reductions along a dimension, rank by rank; a sharded dimension leaves partial values.
#include "local_tensor/internal.h"

#include "kernels/field.h"

static void remove_dim(ls_shape *shape, int dim) {
    for (int d = dim; d + 1 < shape->ndim; d++) {
        shape->dim[d] = shape->dim[d + 1];
    }
    shape->ndim -= 1;
}

// Folds one shard, left to right; a shard without elements along dim gives what changes nothing.
static int reduce_shard(ls_device *device, ls_shard *out, const ls_shard *in, ls_dtype dtype,
                        int dim, ls_op op) {
    size_t inner = 1;
    for (int d = dim + 1; d < in->block.size.ndim; d++) {
        inner *= (size_t)in->block.size.dim[d];
    }
    size_t length = (size_t)in->block.size.dim[dim];
    size_t row_bytes = inner * ls_dtype_bytes(dtype);
    size_t outer = out->count / (inner != 0 ? inner : 1);
    const char *from = in->data;
    char *to = out->data;
    if (length == 0) {
        ls_local_tensor__fill_neutral(out, dtype, op);
    }
    for (size_t o = 0; o < outer && length != 0; o++) {
        LS_TRY(device->ops->copy(device, to, from, row_bytes));
        for (size_t k = 1; k < length; k++) {
            LS_TRY(device->ops->accumulate(device, to, from + k * row_bytes, dtype, op, inner));
        }
        from += length * row_bytes;
        to += row_bytes;
    }
    return LS_OK;
}

// Whether folding by op and combining what is partial already may change places.
static bool commutes(const ls_placement *at, ls_op op) {
    return at->kind != LS_PLACE_PARTIAL || at->op == op || (at->op == LS_AVG && op == LS_SUM);
}

static bool reduced_placements(ls_placements *out, const ls_local_tensor *tensor, int dim,
                               ls_op op) {
    bool implied = tensor->has_placements;
    if (!implied) {
        return false;
    }
    *out = tensor->placements;
    for (int d = 0; d < out->count; d++) {
        ls_placement *at = &out->at[d];
        if (at->kind == LS_PLACE_SHARD && at->dim == dim) {
            *at = LS_PARTIAL(op);
        } else if (at->kind == LS_PLACE_SHARD) {
            at->dim -= at->dim > dim ? 1 : 0;
        } else {
            implied = implied && commutes(at, op);
        }
    }
    return implied;
}

static int make_result(ls_local_tensor **out, const ls_local_tensor *tensor, int dim) {
    LS_TRY(ls_local_tensor__new(out, tensor->world, tensor->dtype, tensor->ranks,
                                tensor->rank_count, NULL));
    for (int i = 0; i < tensor->rank_count; i++) {
        const ls_shape *from = &tensor->shards[i].block.size;
        ls_block *to = &(*out)->shards[i].block;
        int d = 0;
        if (ls_shape__dim(&d, from->ndim, dim) != LS_OK) {
            return ls_error_wrap("rank %d", tensor->ranks[i]);
        }
        to->size = *from;
        remove_dim(&to->size, d);
        to->offset.ndim = from->ndim - 1;
    }
    return ls_local_tensor__allocate(*out);
}

// Every element divided by a count, rounded once.
static void divide(ls_local_tensor *tensor, int64_t count) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    for (size_t s = 0; s < tensor->shard_count; s++) {
        for (size_t i = 0; i < tensor->shards[s].count; i++) {
            char *at = (char *)tensor->shards[s].data + i * bytes;
            double value = ls_element_to_f64(at, tensor->dtype);
            ls_element_from_f64(at, tensor->dtype,
                                tensor->dtype == LS_FIELD
                                    ? ls_field_quotient_f64(value, (double)count)
                                    : value / (double)count);
        }
    }
}

static int check_op(const ls_local_tensor *tensor, ls_op op) {
    bool known = op == LS_SUM || op == LS_AVG || op == LS_PROD || op == LS_MAX || op == LS_MIN;
    if (!known || (op == LS_AVG && !ls_dtype_is_float(tensor->dtype))) {
        return LS_FAIL(LS_ERR_INVALID, "%s along a dimension of %s is not defined",
                       ls_op_valid((int)op) ? ls_op_name(op) : "this operation",
                       ls_dtype_name(tensor->dtype));
    }
    if (op == LS_AVG && !tensor->has_shape) {
        return LS_FAIL(LS_ERR_INVALID,
                       "the tensor has no logical shape, so the divisor is unknown");
    }
    return ls_local_tensor__check_single(tensor);
}

int ls_local_tensor_reduce(ls_local_tensor **out, const ls_local_tensor *tensor, int dim,
                           ls_op op) {
    *out = NULL;
    LS_TRY(check_op(tensor, op));
    ls_op fold = op == LS_AVG ? LS_SUM : op;
    ls_local_tensor *result = NULL;
    int status = make_result(&result, tensor, dim);
    ls_device *device = tensor->world->device;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        int ndim = tensor->shards[i].block.size.ndim;
        if (result->shards[i].count != 0) {
            status = reduce_shard(device, &result->shards[i], &tensor->shards[i], tensor->dtype,
                                  dim < 0 ? dim + ndim : dim, fold);
        }
    }
    status = status == LS_OK ? device->ops->wait(device) : status;
    ls_shape shape = tensor->shape;
    ls_placements placements;
    bool implied = false;
    if (status == LS_OK && tensor->has_shape) {
        int d = dim < 0 ? dim + shape.ndim : dim;
        implied = reduced_placements(&placements, tensor, d, fold);
        if (op == LS_AVG) {
            divide(result, tensor->shape.dim[d]);
        }
        remove_dim(&shape, d);
    }
    return ls_local_tensor__finish(out, result, status, &shape, implied ? &placements : NULL);
}
