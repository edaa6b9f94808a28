// Elementwise operations: operands with equal placements, and operands that are combined without
// communication, as in DTensor: broadcast dimensions, and a replicated operand that is cut to the
// other's shards.
#include "local_tensor/internal.h"

#include <string.h>

// ---- Where the result lies ----------------------------------------------------------------------
static bool is_linear(ls_op op) {
    return op == LS_SUM || op == LS_AVG;
}

// Whether op on values partial by `partial`, and others of the same kind, gives such values.
static bool keeps_with_partial(ls_op partial, ls_op op) {
    return op != LS_AVG && (partial == op || (partial == LS_AVG && op == LS_SUM));
}

// The same with values that every rank has whole. Sums of integers wrap, which keeps no order.
static bool keeps_with_whole(ls_op partial, ls_op op, ls_dtype dtype) {
    bool extreme = partial == LS_MAX || partial == LS_MIN;
    return (is_linear(partial) && op == LS_PROD) || (partial == LS_AVG && op == LS_SUM) ||
           (extreme && ((op == LS_SUM && ls_dtype_is_float(dtype)) || op == partial));
}

// The shape that two shapes broadcast to, aligned at their last dimensions.
static bool broadcast_shape(ls_shape *out, const ls_shape *a, const ls_shape *b) {
    *out = (ls_shape){.ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
    for (int d = 0; d < out->ndim; d++) {
        int i = d - out->ndim + a->ndim, k = d - out->ndim + b->ndim;
        int64_t x = i >= 0 ? a->dim[i] : 1, y = k >= 0 ? b->dim[k] : 1;
        if (x != y && x != 1 && y != 1) {
            return false;
        }
        out->dim[d] = x == 1 ? y : x;
    }
    return true;
}

// A placement of an operand in the dimensions of the result; false where it shards a dimension that
// is broadcast.
static bool in_result(ls_placement *out, const ls_placement *at, const ls_shape *operand,
                      const ls_shape *result) {
    *out = *at;
    if (at->kind != LS_PLACE_SHARD) {
        return true;
    }
    out->dim += result->ndim - operand->ndim;
    return operand->dim[at->dim] == result->dim[out->dim];
}

static bool combine(ls_placement *out, const ls_placement *x, const ls_placement *y, int mesh_dim,
                    ls_op op, ls_dtype dtype) {
    bool x_whole = x->kind == LS_PLACE_REPLICATE, y_whole = y->kind == LS_PLACE_REPLICATE;
    *out = x_whole ? *y : *x;
    if (x_whole && y_whole) {
        return true;
    }
    if (out->kind == LS_PLACE_SHARD) {
        return x_whole || y_whole || ls_placement_equal(x, y, mesh_dim);
    }
    if (x_whole || y_whole) {
        return keeps_with_whole(out->op, op, dtype);
    }
    return ls_placement_equal(x, y, mesh_dim) && keeps_with_partial(x->op, op);
}

// Whether a tensor that is replicated in mesh dimension `d` lacks parts of a result that `at`
// shards there: another mesh dimension, which cuts after `d`, shards the same of it.
static bool lacks(const ls_placements *own, const ls_shape *shape, const ls_shape *result,
                  const ls_placement *at, int d) {
    int dim = at->dim - (result->ndim - shape->ndim);
    bool lacks = false;
    for (int e = 0; e < own->count; e++) {
        const ls_placement *other = &own->at[e];
        bool later = at->turn < other->turn || (at->turn == other->turn && e > d);
        lacks = lacks || (other->kind == LS_PLACE_SHARD && other->dim == dim && later);
    }
    return lacks && own->at[d].kind == LS_PLACE_REPLICATE && at->kind == LS_PLACE_SHARD &&
           at->split <= 1;
}

static bool infer(ls_shape *shape, ls_placements *placements, const ls_local_tensor *a,
                  const ls_local_tensor *b, ls_op op) {
    const ls_mesh *mesh = &a->world->mesh;
    if (!a->has_placements || !b->has_placements || !broadcast_shape(shape, &a->shape, &b->shape)) {
        return false;
    }
    *placements = (ls_placements){.count = mesh->ndim};
    for (int d = 0; d < mesh->ndim; d++) {
        ls_placement x, y;
        if (!in_result(&x, &a->placements.at[d], &a->shape, shape) ||
            !in_result(&y, &b->placements.at[d], &b->shape, shape) ||
            !combine(&placements->at[d], &x, &y, mesh->dim[d], op, a->dtype) ||
            lacks(&a->placements, &a->shape, shape, &placements->at[d], d) ||
            lacks(&b->placements, &b->shape, shape, &placements->at[d], d)) {
            return false;
        }
    }
    return true;
}

// ---- Where operands that do not meet go ---------------------------------------------------------
static int shards_of(const ls_local_tensor *tensor) {
    int count = 0;
    for (int d = 0; d < tensor->placements.count; d++) {
        count += tensor->placements.at[d].kind == LS_PLACE_SHARD ? 1 : 0;
    }
    return count;
}

// A shard of the result as an operand has it: replicated where that dimension is broadcast.
static ls_placement in_operand(const ls_placement *at, const ls_shape *operand,
                               const ls_shape *result) {
    ls_placement own = *at;
    own.dim -= result->ndim - operand->ndim;
    bool has = own.dim >= 0 && operand->dim[own.dim] == result->dim[at->dim];
    return has ? own : LS_REPLICATE;
}

// Whether explicit sizes, which sum to all of a dimension, are of one that is cut elsewhere, too,
// since the tensor was to move.
static bool outgrown(const ls_placements *to, const ls_local_tensor *own, int d) {
    const ls_mesh *mesh = &own->world->mesh;
    bool twice = false;
    for (int e = 0; e < to->count; e++) {
        twice =
            twice || (e != d && to->at[e].kind == LS_PLACE_SHARD && to->at[e].dim == to->at[d].dim);
    }
    return twice && to->at[d].kind == LS_PLACE_SHARD && to->at[d].sizes != NULL &&
           !ls_placements_equal(to, &own->placements, mesh->ndim, mesh->dim);
}

bool ls_local_tensor_meeting(ls_placements *a_to, ls_placements *b_to, const ls_local_tensor *a,
                             const ls_local_tensor *b, ls_op op) {
    ls_shape shape;
    ls_placements implied;
    if (infer(&shape, &implied, a, b, op) || !a->has_placements || !b->has_placements ||
        !broadcast_shape(&shape, &a->shape, &b->shape)) {
        return false;
    }
    bool swapped = shards_of(b) > shards_of(a);
    const ls_local_tensor *first = swapped ? b : a, *second = swapped ? a : b;
    ls_placements *first_to = swapped ? b_to : a_to, *second_to = swapped ? a_to : b_to;
    *first_to = first->placements;
    *second_to = second->placements;
    for (int d = 0; d < first_to->count; d++) {
        int size = a->world->mesh.dim[d];
        ls_placement x, y, *x_to = &first_to->at[d], *y_to = &second_to->at[d];
        if (!in_result(&x, x_to, &first->shape, &shape)) {
            x = *x_to = LS_REPLICATE;
        }
        if (!in_result(&y, y_to, &second->shape, &shape)) {
            y = *y_to = LS_REPLICATE;
        }
        bool sharded = x.kind == LS_PLACE_SHARD || y.kind == LS_PLACE_SHARD;
        bool meet = combine(&implied.at[d], &x, &y, size, op, a->dtype);
        if (!meet && sharded) {
            const ls_placement *to = x.kind == LS_PLACE_SHARD ? &x : &y;
            *x_to = in_operand(to, &first->shape, &shape);
            *y_to = in_operand(to, &second->shape, &shape);
        } else if (!meet) {
            *x_to = *y_to = LS_REPLICATE;
        }
    }
    for (int d = 0; d < first_to->count; d++) {
        ls_placement x, y, *x_to = &first_to->at[d], *y_to = &second_to->at[d];
        (void)in_result(&x, x_to, &first->shape, &shape);
        (void)in_result(&y, y_to, &second->shape, &shape);
        if (lacks(first_to, &first->shape, &shape, &y, d)) {
            *x_to = in_operand(&y, &first->shape, &shape);
        } else if (lacks(second_to, &second->shape, &shape, &x, d)) {
            *y_to = in_operand(&x, &second->shape, &shape);
        }
    }
    for (int d = 0; d < first_to->count; d++) {
        if (outgrown(first_to, first, d) || outgrown(second_to, second, d)) {
            first_to->at[d].sizes = second_to->at[d].sizes = NULL;
        }
    }
    const ls_mesh *mesh = &a->world->mesh;
    return !ls_placements_equal(first_to, &first->placements, mesh->ndim, mesh->dim) ||
           !ls_placements_equal(second_to, &second->placements, mesh->ndim, mesh->dim);
}

// ---- Operands as the result lies ----------------------------------------------------------------
// Whether `in` (a block of a tensor of `shape`) has all that `want`, a block of the result, needs.
static bool holds(const ls_shard *in, const ls_shape *shape, const ls_block *want, bool placed) {
    int shift = want->size.ndim - in->block.size.ndim;
    for (int d = 0; d < in->block.size.ndim; d++) {
        int64_t at = placed ? in->block.offset.dim[d] : 0, size = in->block.size.dim[d];
        int64_t from = placed ? want->offset.dim[d + shift] : 0, needs = want->size.dim[d + shift];
        bool once = placed ? shape->dim[d] == 1 : size == 1;
        if (once ? size != 1 && needs != 0 : from < at || from + needs > at + size) {
            return false;
        }
    }
    return true;
}

static void expand_shard(ls_shard *to, const ls_shard *in, const ls_shape *shape, bool placed,
                         size_t bytes) {
    int shift = to->block.size.ndim - in->block.size.ndim;
    int64_t to_stride[LS_DIMS_MAX], own_stride[LS_DIMS_MAX], from_stride[LS_DIMS_MAX] = {0};
    int64_t start = 0;
    ls_shape__strides(to_stride, &to->block.size);
    ls_shape__strides(own_stride, &in->block.size);
    for (int d = 0; d < in->block.size.ndim; d++) {
        bool once = placed ? shape->dim[d] == 1 : in->block.size.dim[d] == 1;
        if (!once) {
            from_stride[d + shift] = own_stride[d];
            start +=
                placed ? (to->block.offset.dim[d + shift] - in->block.offset.dim[d]) * own_stride[d]
                       : 0;
        }
    }
    if (to->count != 0) {
        ls_shape__copy(to->data, to_stride, (const char *)in->data + (size_t)start * bytes,
                       from_stride, &to->block.size, bytes);
    }
}

// `operand` with the shards of `like`; *out is NULL where it has them already.
static int expand(ls_local_tensor **out, const ls_local_tensor *operand,
                  const ls_local_tensor *like) {
    bool same = operand->shard_count == like->shard_count;
    bool placed = like->has_placements;
    for (size_t s = 0; same && s < like->shard_count; s++) {
        const ls_block *x = &operand->shards[s].block, *y = &like->shards[s].block;
        same = ls_shape_equal(&x->size, &y->size) &&
               (!placed || ls_shape_equal(&x->offset, &y->offset));
    }
    *out = NULL;
    if (same) {
        return LS_OK;
    }
    LS_TRY(ls_local_tensor__like(out, like, operand->dtype));
    for (int i = 0; i < like->rank_count; i++) {
        for (size_t s = like->first[i]; s < like->first[i + 1]; s++) {
            ls_shard *to = &(*out)->shards[s];
            bool found = to->count == 0;
            for (size_t k = operand->first[i]; k < operand->first[i + 1] && !found; k++) {
                found = holds(&operand->shards[k], &operand->shape, &to->block, placed);
                if (found) {
                    expand_shard(to, &operand->shards[k], &operand->shape, placed,
                                 ls_dtype_bytes(operand->dtype));
                }
            }
            if (!found) {
                return LS_FAIL_RANK(
                    LS_ERR_MISMATCH, like->ranks[i],
                    "rank %d: an operand lacks elements that its part of the result needs",
                    like->ranks[i]);
            }
        }
    }
    return LS_OK;
}

// ---- Results without placements -----------------------------------------------------------------
static int check_same_place(ls_shape *shape, const ls_local_tensor *a, const ls_local_tensor *b,
                            int i) {
    const ls_block *x = &a->shards[i].block;
    const ls_block *y = &b->shards[i].block;
    int rank = a->ranks[i];
    char x_text[LS_SHAPE_TEXT_MAX];
    char y_text[LS_SHAPE_TEXT_MAX];
    bool both = a->has_shape && b->has_shape;
    *shape = x->size;
    if (both ? !ls_shape_equal(&x->size, &y->size) : !broadcast_shape(shape, &x->size, &y->size)) {
        ls_shape_format(x_text, sizeof x_text, &x->size);
        ls_shape_format(y_text, sizeof y_text, &y->size);
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d: the operands have the shapes %s and %s", rank, x_text,
                            y_text);
    }
    if (both && !ls_shape_equal(&x->offset, &y->offset)) {
        ls_shape_format(x_text, sizeof x_text, &x->offset);
        ls_shape_format(y_text, sizeof y_text, &y->offset);
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d: the operands are at %s and %s of their logical tensors", rank,
                            x_text, y_text);
    }
    return LS_OK;
}

static int make_unplaced(ls_local_tensor **out, const ls_local_tensor *a,
                         const ls_local_tensor *b) {
    LS_TRY(ls_local_tensor__check_single(a));
    LS_TRY(ls_local_tensor__check_single(b));
    LS_TRY(ls_local_tensor__new(out, a->world, a->dtype, a->ranks, a->rank_count, NULL));
    for (int i = 0; i < a->rank_count; i++) {
        ls_block *block = &(*out)->shards[i].block;
        LS_TRY(check_same_place(&block->size, a, b, i));
        block->offset.ndim = block->size.ndim;
    }
    return ls_local_tensor__allocate(*out);
}

static int compute(ls_local_tensor *result, const ls_local_tensor *a, const ls_local_tensor *b,
                   ls_op op) {
    ls_device *device = result->world->device;
    for (size_t s = 0; s < result->shard_count; s++) {
        const void *in[2] = {a->shards[s].data, b->shards[s].data};
        if (result->shards[s].count != 0) {
            LS_TRY(device->ops->reduce(device, result->shards[s].data, in, 2, result->dtype, op,
                                       NULL, result->shards[s].count));
        }
    }
    return device->ops->wait(device);
}

int ls_local_tensor_elementwise(ls_local_tensor **out, const ls_local_tensor *a,
                                const ls_local_tensor *b, ls_op op) {
    *out = NULL;
    LS_TRY(ls_local_tensor__check_pair(a, b));
    if (!ls_op_valid((int)op) || op == LS_PREMUL_SUM || !ls_op_supports(op, a->dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "%s is not an elementwise operation on %s",
                       ls_op_valid((int)op) ? ls_op_name(op) : "this", ls_dtype_name(a->dtype));
    }
    ls_shape shape;
    ls_placements placements;
    ls_local_tensor *result = NULL, *x = NULL, *y = NULL;
    int status = infer(&shape, &placements, a, b, op)
                     ? ls_local_tensor_zeros(&result, a->world, &shape, a->dtype, &placements)
                     : make_unplaced(&result, a, b);
    status = status == LS_OK ? expand(&x, a, result) : status;
    status = status == LS_OK ? expand(&y, b, result) : status;
    if (status == LS_OK) {
        status = compute(result, x != NULL ? x : a, y != NULL ? y : b, op);
    }
    ls_local_tensor_free(x);
    ls_local_tensor_free(y);
    return ls_local_tensor__finish(out, result, status, NULL, NULL);
}
