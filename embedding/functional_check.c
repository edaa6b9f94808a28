// Errors in the arguments of a functional embedding, in the order in which torch looks.
#include <inttypes.h>

#include "embedding/functional_internal.h"

ls_shard *ls_functional__shard(const ls_functional *f, const ls_local_tensor *tensor, int i) {
    return ls_local_tensor_shard(tensor, ls_world_held(f->world)[i], 0);
}

// That every held rank has one shard of an argument, of this type.
static int check_argument(const ls_functional *f, const ls_local_tensor *tensor, ls_dtype dtype,
                          const char *what) {
    if (ls_local_tensor_world(tensor) != f->world) {
        return LS_FAIL(LS_ERR_INVALID, "the %s belong to another world than the axis", what);
    }
    if (ls_local_tensor_dtype(tensor) != dtype) {
        return LS_FAIL(LS_ERR_INVALID, "the %s are %s; they must be %s", what,
                       ls_dtype_name(ls_local_tensor_dtype(tensor)), ls_dtype_name(dtype));
    }
    for (int i = 0; i < f->held; i++) {
        int rank = ls_world_held(f->world)[i];
        if (ls_local_tensor_shard_count(tensor, rank) != 1) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d has %d shards of the %s, not one",
                                rank, ls_local_tensor_shard_count(tensor, rank), what);
        }
    }
    return LS_OK;
}

static bool is_shard_kind(const ls_placement *at) {
    return at->kind == LS_PLACE_SHARD;
}

// One placement, along the axis, shards the weight, by rows or columns.
static int check_weight(ls_functional *f) {
    const ls_placements *placements = ls_local_tensor_placements(f->weight);
    const ls_shape *shape = ls_local_tensor_shape(f->weight);
    ls_dtype dtype = ls_local_tensor_dtype(f->weight);
    if (placements == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "the weight has no placement that shards it");
    }
    if (shape->ndim != 2) {
        return LS_FAIL(LS_ERR_INVALID, "the weight has %d dimensions; an embedding's has 2",
                       shape->ndim);
    }
    if (dtype != LS_F32 && dtype != LS_F64 && dtype != LS_F16 && dtype != LS_BF16 &&
        dtype != LS_FIELD) {
        return LS_FAIL(LS_ERR_INVALID, "the weight is %s; lookups support f32, f64, f16 and bf16",
                       ls_dtype_name(dtype));
    }
    LS_TRY(check_argument(f, f->weight, dtype, "weights"));
    const ls_placement *along = &placements->at[f->axis->axis];
    for (int d = 0; d < placements->count; d++) {
        if (d != f->axis->axis && placements->at[d].kind != LS_PLACE_REPLICATE) {
            return LS_FAIL(
                LS_ERR_INVALID,
                "the weight is also sharded or partial along mesh dimension %d; it must be "
                "replicated along all but the axis",
                d);
        }
    }
    if (!is_shard_kind(along)) {
        return LS_FAIL(LS_ERR_INVALID, "the weight is not sharded along the axis");
    }
    f->rows = shape->dim[0];
    f->columns = shape->dim[1];
    f->dim = along->dim;
    return LS_OK;
}

static int check_ids(const ls_functional *f) {
    LS_TRY(check_argument(f, f->ids, LS_I64, "ids"));
    for (int i = 0; i < f->held; i++) {
        const ls_shard *shard = ls_functional__shard(f, f->ids, i);
        const int64_t *id = shard->data;
        int rank = ls_world_held(f->world)[i];
        if (shard->block.size.ndim == 0 || shard->block.size.ndim == LS_DIMS_MAX) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "rank %d: ids have 1 to %d dimensions, not %d", rank,
                                LS_DIMS_MAX - 1, shard->block.size.ndim);
        }
        for (size_t k = 0; k < shard->count; k++) {
            if (id[k] < 0 || id[k] >= f->rows) {
                return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                    "rank %d: id %" PRId64 ", number %zu of its ids, is not one of "
                                    "the weight's %" PRId64 " rows",
                                    rank, id[k], k, f->rows);
            }
        }
    }
    return LS_OK;
}

static int check_flags(const ls_functional *f) {
    const ls_functional_options *o = f->options;
    if (o->scale_grad_by_freq || o->sparse) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "%s applies to gradients, and this lookup has no backward pass",
                       o->sparse ? "sparse" : "scale_grad_by_freq");
    }
    if (o->has_max_norm && !(o->max_norm > 0)) {
        return LS_FAIL(LS_ERR_INVALID, "max_norm is %g; it must be larger than zero", o->max_norm);
    }
    if (!(o->norm_type >= 0)) {
        return LS_FAIL(LS_ERR_INVALID, "norm_type is %g; it must be above zero", o->norm_type);
    }
    if (o->has_padding_id && (o->padding_id < 0 || o->padding_id >= f->rows)) {
        return LS_FAIL(LS_ERR_INVALID, "padding_id is %" PRId64 " of %" PRId64 " rows",
                       o->padding_id, f->rows);
    }
    return LS_OK;
}

// ---- Bags ---------------------------------------------------------------------------------------
static int check_offsets(const ls_functional *f, int i) {
    const ls_shard *ids = ls_functional__shard(f, f->ids, i);
    const ls_shard *offsets = ls_functional__shard(f, f->options->offsets, i);
    const int64_t *at = offsets->data;
    int rank = ls_world_held(f->world)[i];
    bool last = f->options->include_last_offset;
    if (offsets->block.size.ndim != 1) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d: offsets have 1 dimension, not %d", rank,
                            offsets->block.size.ndim);
    }
    if (offsets->count == 0 && (last || ids->count != 0)) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d: there are no offsets", rank);
    }
    for (size_t b = 0; b < offsets->count; b++) {
        int64_t least = b == 0 ? 0 : at[b - 1];
        if (at[b] < least || at[b] > (int64_t)ids->count || (b == 0 && at[b] != 0)) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "rank %d: offset %zu is %" PRId64
                                "; offsets start at 0, do not descend and end at most at the "
                                "number of ids, %zu",
                                rank, b, at[b], ids->count);
        }
    }
    if (last && at[offsets->count - 1] != (int64_t)ids->count) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "rank %d: with include_last_offset the last offset must be the number "
                            "of ids, %zu, not %" PRId64,
                            rank, ids->count, at[offsets->count - 1]);
    }
    return LS_OK;
}

static int check_bags_of(const ls_functional *f, int i) {
    const ls_functional_options *o = f->options;
    const ls_shard *ids = ls_functional__shard(f, f->ids, i);
    int rank = ls_world_held(f->world)[i], ndim = ids->block.size.ndim;
    if (ndim > 2) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "rank %d: ids of bags have 1 or 2 dimensions, not %d", rank, ndim);
    }
    if ((ndim == 1) != (o->offsets != NULL)) {
        return LS_FAIL_RANK(
            LS_ERR_INVALID, rank,
            ndim == 1 ? "rank %d: ids of 1 dimension need offsets"
                      : "rank %d: ids of 2 dimensions hold a bag in each row, and take no offsets",
            rank);
    }
    LS_TRY(o->offsets != NULL ? check_offsets(f, i) : LS_OK);
    if (o->weights != NULL &&
        !ls_shape_equal(&ids->block.size, &ls_functional__shard(f, o->weights, i)->block.size)) {
        char a[LS_SHAPE_TEXT_MAX], b[LS_SHAPE_TEXT_MAX];
        ls_shape_format(a, sizeof a, &ls_functional__shard(f, o->weights, i)->block.size);
        ls_shape_format(b, sizeof b, &ids->block.size);
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "rank %d: weights of shape %s for ids of shape %s", rank, a, b);
    }
    return LS_OK;
}

static int check_bags(const ls_functional *f) {
    const ls_functional_options *o = f->options;
    ls_dtype dtype = ls_local_tensor_dtype(f->weight);
    if (o->mode != LS_POOL_SUM && o->mode != LS_POOL_MEAN && o->mode != LS_POOL_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "the pooling must be sum, mean or max");
    }
    if (dtype != LS_F32 && dtype != LS_F64 && dtype != LS_FIELD) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "pooling supports f32 and f64 weights, not %s",
                       ls_dtype_name(dtype));
    }
    if (o->weights != NULL && o->mode != LS_POOL_SUM) {
        return LS_FAIL(LS_ERR_INVALID, "weights for each id require pooling by sum");
    }
    if (o->include_last_offset && o->offsets == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "include_last_offset needs offsets");
    }
    LS_TRY(o->offsets != NULL ? check_argument(f, o->offsets, LS_I64, "offsets") : LS_OK);
    if (o->weights != NULL) {
        LS_TRY(
            check_argument(f, o->weights, dtype == LS_FIELD ? LS_FIELD : LS_F32, "weights of ids"));
    }
    for (int i = 0; i < f->held; i++) {
        LS_TRY(check_bags_of(f, i));
    }
    return LS_OK;
}

int ls_functional__check(ls_functional *f, bool bag) {
    f->backend = f->axis->comms[0]->backend;
    f->world = f->backend->world;
    f->held = ls_world_held_count(f->world);
    LS_TRY(check_weight(f));
    LS_TRY(check_ids(f));
    LS_TRY(check_flags(f));
    LS_TRY(bag ? check_bags(f) : LS_OK);
    const ls_placements *placements = ls_local_tensor_placements(f->ids);
    f->replicated = placements != NULL && placements->at[f->axis->axis].kind == LS_PLACE_REPLICATE;
    return LS_OK;
}
