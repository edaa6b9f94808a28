// Creates tensors: zeroed, sharded from a whole array, from given shards, cloned; and declares a
// placement for existing shards.
#include "local_tensor/internal.h"

#include <string.h>

// How many shards each held rank has under normalized placements: counts [held].
static int count_shards(int *counts, const ls_world *world, const ls_shape *shape,
                        const ls_placements *normal) {
    for (int i = 0; i < world->held_count; i++) {
        ls_pieces pieces;
        LS_TRY(ls_pieces__create(&pieces, shape, &world->mesh, normal, NULL, world->held[i]));
        counts[i] = (int)pieces.count;
        ls_pieces__free(&pieces);
    }
    return LS_OK;
}

// Sets every shard's block from the tensor's placements.
static int place_blocks(ls_local_tensor *tensor) {
    const ls_mesh *mesh = &tensor->world->mesh;
    ls_starts starts;
    LS_TRY(ls_starts__create(&starts, &tensor->placements, mesh));
    int status = LS_OK;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        ls_pieces pieces;
        status = ls_pieces__create(&pieces, &tensor->shape, mesh, &tensor->placements, starts.of,
                                   tensor->ranks[i]);
        for (size_t k = 0; status == LS_OK && k < pieces.count; k++) {
            tensor->shards[tensor->first[i] + k].block = *ls_pieces__at(&pieces, k);
        }
        if (status == LS_OK) {
            ls_pieces__free(&pieces);
        }
    }
    ls_starts__free(&starts);
    return status;
}

static int make_zeros(ls_local_tensor **out, ls_world *world, const ls_shape *shape, ls_dtype dtype,
                      const ls_placements *normal) {
    void *counts = NULL;
    size_t held = (size_t)world->held_count;
    if (ls_placements__strided(normal)) {
        LS_TRY(ls_alloc(&counts, held, sizeof(int)));
    }
    int status = counts != NULL ? count_shards(counts, world, shape, normal) : LS_OK;
    if (status == LS_OK) {
        status = ls_local_tensor__new(out, world, dtype, world->held, world->held_count, counts);
    }
    ls_free(counts, counts != NULL ? held : 0, sizeof(int));
    LS_TRY(status);
    LS_TRY(ls_local_tensor__set_placements(*out, shape, normal));
    LS_TRY(place_blocks(*out));
    return ls_local_tensor__allocate(*out);
}

int ls_local_tensor_zeros(ls_local_tensor **out, ls_world *world, const ls_shape *shape,
                          ls_dtype dtype, const ls_placements *placements) {
    size_t count = 0;
    size_t bytes = 0;
    ls_placements normal;
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    if (!ls_dtype_valid((int)dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "%d is not an element type", (int)dtype);
    }
    LS_TRY(ls_shape_count(&count, shape));
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(dtype)));
    LS_TRY(ls_placements_normalize(&normal, placements, shape, &world->mesh));
    LS_TRY(ls_placements__check_ops(&normal, dtype));
    int status = make_zeros(out, world, shape, dtype, &normal);
    if (status != LS_OK) {
        ls_local_tensor_free(*out);
        *out = NULL;
    }
    return status;
}

void ls_local_tensor__fill_neutral(ls_shard *shard, ls_dtype dtype, ls_op op) {
    char element[8];
    size_t bytes = ls_dtype_bytes(dtype);
    ls_op_neutral(element, op, dtype);
    for (size_t i = 0; i < shard->count; i++) {
        memcpy((char *)shard->data + i * bytes, element, bytes);
    }
}

int ls_local_tensor_distribute(ls_local_tensor **out, ls_world *world, const void *full,
                               const ls_shape *shape, ls_dtype dtype,
                               const ls_placements *placements) {
    LS_TRY(ls_local_tensor_zeros(out, world, shape, dtype, placements));
    ls_local_tensor *tensor = *out;
    const ls_block whole = {.offset.ndim = shape->ndim, .size = *shape};
    for (int i = 0; i < tensor->rank_count; i++) {
        int op = ls_placements__neutral_op(&tensor->placements, &world->mesh, tensor->ranks[i]);
        for (size_t k = tensor->first[i]; k < tensor->first[i + 1]; k++) {
            ls_shard *shard = &tensor->shards[k];
            if (shard->count == 0) {
                continue;
            }
            LS_ASSERT(full != NULL);
            if (op >= 0) {
                ls_local_tensor__fill_neutral(shard, dtype, (ls_op)op);
                continue;
            }
            size_t copied =
                ls_block_copy(shard->data, &shard->block, full, &whole, ls_dtype_bytes(dtype));
            LS_ASSERT(copied == shard->count);
        }
    }
    return LS_OK;
}

int ls_local_tensor_from_shards(ls_local_tensor **out, ls_world *world, ls_dtype dtype,
                                const int *ranks, int rank_count, const ls_shape *shapes,
                                const void *const *data) {
    LS_ASSERT(out != NULL && world != NULL && shapes != NULL);
    *out = NULL;
    if (ranks == NULL) {
        ranks = world->held;
        if (rank_count != world->held_count) {
            return LS_FAIL(LS_ERR_INVALID, "%d shards are given, but this process holds %d ranks",
                           rank_count, world->held_count);
        }
    }
    if (rank_count < 1) {
        return LS_FAIL(LS_ERR_INVALID, "a tensor needs the shard of one rank at least");
    }
    ls_local_tensor *tensor = NULL;
    LS_TRY(ls_local_tensor__new(&tensor, world, dtype, ranks, rank_count, NULL));
    for (int i = 0; i < rank_count; i++) {
        tensor->shards[i].block = (ls_block){.offset.ndim = shapes[i].ndim, .size = shapes[i]};
    }
    int status = ls_local_tensor__allocate(tensor);
    if (status != LS_OK) {
        ls_local_tensor_free(tensor);
        return status;
    }
    for (int i = 0; i < rank_count; i++) {
        const ls_shard *shard = &tensor->shards[i];
        if (data != NULL && data[i] != NULL && shard->count != 0) {
            memcpy(shard->data, data[i], shard->count * ls_dtype_bytes(dtype));
        }
    }
    *out = tensor;
    return LS_OK;
}

int ls_local_tensor__like(ls_local_tensor **out, const ls_local_tensor *tensor, ls_dtype dtype) {
    LS_ASSERT(out != NULL && tensor != NULL);
    size_t rank_count = (size_t)tensor->rank_count;
    void *memory = NULL;
    *out = NULL;
    LS_TRY(ls_alloc(&memory, rank_count, sizeof(int)));
    int *counts = memory;
    for (size_t i = 0; i < rank_count; i++) {
        counts[i] = (int)(tensor->first[i + 1] - tensor->first[i]);
    }
    ls_local_tensor *like = NULL;
    int status = ls_local_tensor__new(&like, tensor->world, dtype, tensor->ranks,
                                      tensor->rank_count, counts);
    ls_free(counts, rank_count, sizeof(int));
    if (status != LS_OK) {
        return status;
    }
    for (size_t s = 0; s < tensor->shard_count; s++) {
        like->shards[s].block = tensor->shards[s].block;
    }
    like->has_shape = tensor->has_shape;
    like->shape = tensor->shape;
    if (tensor->has_placements) {
        status = ls_local_tensor__set_placements(like, &tensor->shape, &tensor->placements);
    } else if (tensor->has_shape) {
        status = ls_layout__copy(&like->listed, &tensor->listed);
    }
    status = status == LS_OK ? ls_local_tensor__allocate(like) : status;
    return ls_local_tensor__finish(out, like, status, NULL, NULL);
}

int ls_local_tensor_clone(ls_local_tensor **out, const ls_local_tensor *tensor) {
    LS_TRY(ls_local_tensor__like(out, tensor, tensor->dtype));
    for (size_t s = 0; s < tensor->shard_count; s++) {
        const ls_shard *from = &tensor->shards[s];
        ls_shard *to = &(*out)->shards[s];
        LS_ASSERT(from->count == to->count);
        if (from->count != 0) {
            memcpy(to->data, from->data, from->count * ls_dtype_bytes(tensor->dtype));
        }
    }
    return LS_OK;
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
