// The communicator of a functional lookup: its members, its memory and its renormalised rows.
#include "embedding/functional_internal.h"

#include <math.h>

#include "kernels/training.h"

#define RENORM_EPS 1e-7  // torch's embedding_renorm_; column shards, like torch's, take none

const ls_comm *ls_functional__comm(const ls_functional *f, int i) {
    return f->axis->comms[f->axis->comm_of_rank[ls_world_held(f->world)[i]]];
}

void *ls_functional__need(const ls_functional *f, size_t count, size_t size) {
    return ls_arena_alloc(f->arena, count, size);
}

// ---- max_norm -----------------------------------------------------------------------------------
// The distinct rows of a shard that `seen` names, local and ascending.
static int distinct(int64_t **out, size_t *count, const ls_functional *f, const ls_shard *seen,
                    const ls_block *block) {
    int64_t start = f->dim == 0 ? block->offset.dim[0] : 0, rows = block->size.dim[0];
    unsigned char *used = ls_functional__need(f, (size_t)rows, 1);
    *out = ls_functional__need(f, (size_t)rows, sizeof **out);
    LS_TRY_MEMORY(used != NULL && *out != NULL);
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
    LS_TRY_MEMORY(shapes != NULL);
    for (int i = 0; i < f->held; i++) {
        shapes[i] = LS_SHAPE((int64_t)counts[i]);
    }
    LS_TRY(ls_local_tensor_from_shards(&own, f->world, LS_F64, NULL, f->held, shapes, NULL));
    for (int i = 0; i < f->held; i++) {
        const ls_shard *shard = ls_functional__shard(f, f->weight, i);
        ls_kernel_norm_sums(ls_functional__shard(f, own, i)->data, shard->data,
                            &(const ls_table_shape){ls_local_tensor_dtype(f->weight), f->rows,
                                                    (size_t)shard->block.size.dim[1]},
                            rows[i], counts[i], norm_type(f));
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
    LS_TRY_MEMORY(rows != NULL && counts != NULL);
    for (int i = 0; i < f->held; i++) {
        LS_TRY(distinct(&rows[i], &counts[i], f, ls_functional__shard(f, seen, i),
                        &ls_functional__shard(f, f->weight, i)->block));
    }
    LS_TRY(f->dim == 1 ? sum_norms(&sums, f, rows, counts) : LS_OK);
    for (int i = 0; i < f->held; i++) {
        const ls_shard *shard = ls_functional__shard(f, f->weight, i);
        if (shard->count != 0) {
            ls_kernel_renormalise_rows(
                shard->data,
                &(const ls_table_shape){ls_local_tensor_dtype(f->weight), shard->block.size.dim[0],
                                        (size_t)shard->block.size.dim[1]},
                rows[i], sums != NULL ? ls_functional__shard(f, sums, i)->data : NULL, counts[i],
                &(const ls_norm_limit){f->options->max_norm, norm_type(f),
                                       sums != NULL ? 0 : RENORM_EPS});
        }
    }
    ls_local_tensor_free(sums);
    return LS_OK;
}
