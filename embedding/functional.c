// Functional embedding: the steps that lookups of ids and of bags are made of, and the lookup of
// ids. Bags are in functional_bag.c, the checks in functional_check.c.
#include "embedding/functional_internal.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/training.h"

#define RENORM_EPS 1e-7  // torch's embedding_renorm_; column shards, like torch's, take none

const ls_comm *ls_functional__comm(const ls_functional *f, int i) {
    return f->axis->comms[f->axis->comm_of_rank[ls_world_held(f->world)[i]]];
}

void *ls_functional__need(const ls_functional *f, size_t count, size_t size) {
    return ls_arena_alloc(f->arena, count, size);
}

int ls_functional__gather(const ls_local_tensor **out, ls_local_tensor **owned,
                          const ls_functional *f, const ls_local_tensor *tensor) {
    *owned = NULL;
    *out = tensor;
    if (f->replicated) {
        return LS_OK;
    }
    LS_TRY(ls_tensor_all_gather(owned, tensor, 0, f->axis));
    *out = *owned;
    return LS_OK;
}

// ---- max_norm -----------------------------------------------------------------------------------
// The distinct rows of a shard that `seen` names, local and ascending.
static int distinct(int64_t **out, size_t *count, const ls_functional *f, const ls_shard *seen,
                    const ls_block *block) {
    int64_t start = f->dim == 0 ? block->offset.dim[0] : 0, rows = block->size.dim[0];
    unsigned char *used = ls_functional__need(f, (size_t)rows, 1);
    *out = ls_functional__need(f, (size_t)rows, sizeof **out);
    if (used == NULL || *out == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t k = 0; k < seen->count; k++) {
        int64_t row = ((const int64_t *)seen->data)[k] - start;
        if (row >= 0 && row < rows) {
            used[row] = 1;
        }
    }
    *count = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (used[row] != 0) {
            (*out)[(*count)++] = row;
        }
    }
    return LS_OK;
}

static double norm_type(const ls_functional *f) {
    return f->options->norm_type > 0 ? f->options->norm_type : 2;
}

// Norms of whole rows from the columns of each rank: sums of all ranks, of all rows.
static int sum_norms(ls_local_tensor **out, const ls_functional *f, int64_t *const *rows,
                     const size_t *counts) {
    ls_local_tensor *own = NULL;
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    if (shapes == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < f->held; i++) {
        shapes[i] = LS_SHAPE((int64_t)counts[i]);
    }
    LS_TRY(ls_local_tensor_from_shards(&own, f->world, LS_F64, NULL, f->held, shapes, NULL));
    for (int i = 0; i < f->held; i++) {
        const ls_shard *shard = ls_functional__shard(f, f->weight, i);
        ls_kernel_norm_sums(ls_functional__shard(f, own, i)->data, shard->data,
                            ls_local_tensor_dtype(f->weight), f->rows,
                            (size_t)shard->block.size.dim[1], rows[i], counts[i], norm_type(f));
    }
    int status = ls_tensor_all_reduce(out, own, isinf(norm_type(f)) ? LS_MAX : LS_SUM, f->axis);
    ls_local_tensor_free(own);
    return status;
}

int ls_functional__renormalise(ls_functional *f, const ls_local_tensor *seen) {
    if (!f->options->has_max_norm) {
        return LS_OK;
    }
    int64_t **rows = ls_functional__need(f, (size_t)f->held, sizeof *rows);
    size_t *counts = ls_functional__need(f, (size_t)f->held, sizeof *counts);
    ls_local_tensor *sums = NULL;
    if (rows == NULL || counts == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < f->held; i++) {
        LS_TRY(distinct(&rows[i], &counts[i], f, ls_functional__shard(f, seen, i),
                        &ls_functional__shard(f, f->weight, i)->block));
    }
    LS_TRY(f->dim == 1 ? sum_norms(&sums, f, rows, counts) : LS_OK);
    for (int i = 0; i < f->held; i++) {
        const ls_shard *shard = ls_functional__shard(f, f->weight, i);
        if (shard->count != 0) {
            ls_kernel_renormalise_rows(
                shard->data, ls_local_tensor_dtype(f->weight), shard->block.size.dim[0],
                (size_t)shard->block.size.dim[1], rows[i],
                sums != NULL ? ls_functional__shard(f, sums, i)->data : NULL, counts[i],
                f->options->max_norm, norm_type(f), sums != NULL ? 0 : RENORM_EPS);
        }
    }
    ls_local_tensor_free(sums);
    return LS_OK;
}

// ---- Lookups ------------------------------------------------------------------------------------
// Rows of the shard for all ids seen, 0 where another rank has the row: [ids, columns].
static int look_up(ls_local_tensor **out, const ls_functional *f, const ls_local_tensor *seen) {
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    if (shapes == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < f->held; i++) {
        shapes[i] = ls_functional__shard(f, seen, i)->block.size;
        shapes[i].dim[shapes[i].ndim++] = ls_functional__shard(f, f->weight, i)->block.size.dim[1];
    }
    ls_dtype dtype = ls_local_tensor_dtype(f->weight);
    LS_TRY(ls_local_tensor_from_shards(out, f->world, dtype, NULL, f->held, shapes, NULL));
    for (int i = 0; i < f->held; i++) {
        const ls_shard *ids = ls_functional__shard(f, seen, i);
        const ls_shard *shard = ls_functional__shard(f, f->weight, i);
        const ls_block *block = &shard->block;
        size_t row_bytes = (size_t)block->size.dim[1] * ls_dtype_bytes(dtype);
        char *to = ls_functional__shard(f, *out, i)->data;
        for (size_t k = 0; k < ids->count; k++) {
            int64_t row = ((const int64_t *)ids->data)[k] - block->offset.dim[0];
            if (row >= 0 && row < block->size.dim[0] && row_bytes != 0) {
                memcpy(to + k * row_bytes, (const char *)shard->data + (size_t)row * row_bytes,
                       row_bytes);
            }
        }
    }
    return LS_OK;
}

// That each rank has what torch.chunk gives it of all, so that a chunk of the result is its own.
static int check_chunks(const ls_functional *f, const ls_local_tensor *made,
                        const ls_local_tensor *own) {
    for (int i = 0; i < f->held && !f->replicated; i++) {
        const ls_comm *comm = ls_functional__comm(f, i);
        int rank = ls_world_held(f->world)[i];
        int64_t start = 0, length = 0;
        int64_t all = ls_functional__shard(f, made, i)->block.size.dim[0];
        int64_t has = ls_functional__shard(f, own, i)->block.size.dim[0];
        ls_chunk(&start, &length, all, comm->size, ls_comm_member(comm, rank));
        if (length != has) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "rank %d asks for %lld of %lld along dimension 0, where equal "
                                "chunks would be %lld: only exchanged rows may be uneven",
                                rank, (long long)has, (long long)all, (long long)length);
        }
    }
    return LS_OK;
}

int ls_functional__combine(ls_local_tensor **out, const ls_functional *f,
                           const ls_local_tensor *made, const ls_local_tensor *own, ls_op op) {
    int columns = ls_functional__shard(f, made, 0)->block.size.ndim - 1;
    LS_TRY(check_chunks(f, made, own));
    if (f->dim == 1) {
        return f->replicated ? ls_tensor_all_gather(out, made, columns, f->axis)
                             : ls_tensor_all_to_all(out, made, 0, columns, f->axis);
    }
    return f->replicated ? ls_tensor_all_reduce(out, made, op, f->axis)
                         : ls_tensor_reduce_scatter(out, made, op, 0, f->axis);
}

// The result lies as the ids do, where these are placed.
static int place(ls_local_tensor *out, const ls_functional *f) {
    const ls_placements *placements = ls_local_tensor_placements(f->ids);
    if (placements == NULL) {
        return LS_OK;
    }
    ls_shape shape = *ls_local_tensor_shape(f->ids);
    shape.dim[shape.ndim++] = f->columns;
    return ls_local_tensor_place(out, &shape, placements);
}

static int masked(ls_local_tensor **out, ls_functional *f) {
    ls_local_tensor *gathered = NULL, *made = NULL;
    const ls_local_tensor *seen = NULL;
    int status = ls_functional__gather(&seen, &gathered, f, f->ids);
    status = status == LS_OK ? ls_functional__renormalise(f, seen) : status;
    status = status == LS_OK ? look_up(&made, f, seen) : status;
    status = status == LS_OK ? ls_functional__combine(out, f, made, f->ids, LS_SUM) : status;
    ls_local_tensor_free(gathered);
    ls_local_tensor_free(made);
    return status;
}

int ls_tensor_embedding(ls_local_tensor **out, const ls_local_tensor *ids, ls_local_tensor *weight,
                        const ls_functional_options *options, const ls_axis *axis) {
    LS_ASSERT(out != NULL && ids != NULL && weight != NULL && options != NULL && axis != NULL);
    ls_functional f = {.options = options, .axis = axis, .ids = ids, .weight = weight};
    *out = NULL;
    if (ls_functional__check(&f, false) != LS_OK) {
        return ls_error_wrap("embedding");
    }
    LS_TRY(ls_arena_create(&f.arena));
    bool exchanged = f.dim == 0 && options->way == LS_ROWS_EXCHANGED;
    int status = exchanged ? ls_functional__exchange(out, &f) : masked(out, &f);
    status = status == LS_OK ? place(*out, &f) : status;
    ls_arena_free(f.arena);
    if (status != LS_OK) {
        ls_local_tensor_free(*out);
        *out = NULL;
        return ls_error_wrap("embedding");
    }
    return LS_OK;
}
