// Functional embedding: the steps that lookups of ids and of bags are made of, and the lookup of
// ids. Bags are in functional_bag.c, the checks in functional_check.c.
#include "embedding/functional_internal.h"

#include <string.h>

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

// ---- Lookups ------------------------------------------------------------------------------------
// Rows of the shard for all ids seen, 0 where another rank has the row: [ids, columns].
static int look_up(ls_local_tensor **out, const ls_functional *f, const ls_local_tensor *seen) {
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    LS_TRY_MEMORY(shapes != NULL);
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

// Checks that each rank has its torch.chunk of the ids, so that its chunk of the result is its own.
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

// The result has the placement of the ids, if they have one.
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
    ls_functional_options own;
    ls_functional f = {.options = &own, .axis = axis, .ids = ids, .weight = weight};
    *out = NULL;
    LS_TRY(ls_options_take(&own, sizeof own, options));
    if (ls_functional__check(&f, false) != LS_OK) {
        return ls_error_wrap("embedding");
    }
    LS_TRY(ls_arena_create(&f.arena));
    bool exchanged = f.dim == 0 && own.way == LS_ROWS_EXCHANGED;
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
