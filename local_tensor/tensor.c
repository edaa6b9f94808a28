// Local tensors: the steps of making one, its end, and access to its parts.
#include "local_tensor/internal.h"

#include <string.h>

static int check_ranks(const ls_world *world, const int *ranks, int rank_count) {
    for (int i = 0; i < rank_count; i++) {
        if (ls_world_held_index(world, ranks[i]) < 0) {
            char held[128];
            ls_ranks_format(held, sizeof held, world->held, world->held_count);
            return LS_FAIL_RANK(LS_ERR_INVALID, ranks[i],
                                "rank %d is not held here; this process holds %s", ranks[i], held);
        }
        if (i > 0 && ranks[i] <= ranks[i - 1]) {
            return LS_FAIL_RANK(LS_ERR_INVALID, ranks[i],
                                "ranks must ascend: rank %d comes after rank %d", ranks[i],
                                ranks[i - 1]);
        }
    }
    return LS_OK;
}

// Allocates and fills ranks, first and shards.
static int fill_ranks(ls_local_tensor *tensor, const int *ranks, const int *shard_counts) {
    size_t rank_count = (size_t)tensor->rank_count;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, rank_count, sizeof *tensor->ranks));
    tensor->ranks = memory;
    if (rank_count != 0) {
        memcpy(tensor->ranks, ranks, rank_count * sizeof *ranks);
    }
    LS_TRY(ls_alloc(&memory, rank_count + 1, sizeof *tensor->first));
    tensor->first = memory;
    for (size_t i = 0; i < rank_count; i++) {
        LS_ASSERT(shard_counts == NULL || shard_counts[i] >= 0);
        tensor->first[i + 1] =
            tensor->first[i] + (shard_counts != NULL ? (size_t)shard_counts[i] : 1);
    }
    size_t shard_count = tensor->first[rank_count];
    LS_TRY(ls_alloc(&memory, shard_count, sizeof *tensor->shards));
    tensor->shards = memory;
    tensor->shard_count = shard_count;
    return LS_OK;
}

int ls_local_tensor__new(ls_local_tensor **out, ls_world *world, ls_dtype dtype, const int *ranks,
                         int rank_count, const int *shard_counts) {
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    if (!ls_dtype_valid((int)dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "%d is not an element type", (int)dtype);
    }
    LS_TRY(check_ranks(world, ranks, rank_count));
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_local_tensor)));
    ls_local_tensor *tensor = memory;
    tensor->world = world;
    tensor->dtype = dtype;
    tensor->rank_count = rank_count;
    atomic_fetch_add(&world->tensors, 1);
    int status = fill_ranks(tensor, ranks, shard_counts);
    if (status != LS_OK) {
        ls_local_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return LS_OK;
}

static int alloc_data(ls_shard *shard, ls_world *world, size_t count, size_t element_bytes) {
    ls_device *device = world->device;
    size_t bytes = 0;
    LS_TRY(ls_size_mul(&bytes, count, element_bytes));
    LS_TRY(ls_world_ask_gate(world, bytes));
    if (device->ops->is_host) {
        return ls_alloc(&shard->data, count, element_bytes);
    }
    return device->ops->share(device, &shard->data, bytes);
}

static void free_data(ls_shard *shard, ls_world *world, size_t element_bytes) {
    ls_device *device = world->device;
    if (device->ops->is_host) {
        ls_free(shard->data, shard->count, element_bytes);
    } else {
        device->ops->free_shared(device, shard->data, shard->count * element_bytes);
    }
}

int ls_local_tensor__allocate(ls_local_tensor *tensor) {
    size_t element_bytes = ls_dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->rank_count; i++) {
        for (size_t s = tensor->first[i]; s < tensor->first[i + 1]; s++) {
            ls_shard *shard = &tensor->shards[s];
            size_t count = 0;
            if (ls_shape_count(&count, &shard->block.size) != LS_OK) {
                return ls_error_wrap("rank %d", tensor->ranks[i]);
            }
            if (count != 0 && alloc_data(shard, tensor->world, count, element_bytes) != LS_OK) {
                return ls_error_wrap("the shard of rank %d", tensor->ranks[i]);
            }
            shard->count = count;
        }
    }
    return LS_OK;
}

int ls_local_tensor__set_placements(ls_local_tensor *tensor, const ls_shape *shape,
                                    const ls_placements *normalized) {
    const ls_mesh *mesh = &tensor->world->mesh;
    ls_placements own = *normalized;
    size_t count = 0;
    for (int d = 0; d < own.count; d++) {
        count += own.at[d].sizes != NULL ? (size_t)mesh->dim[d] : 0;
    }
    int64_t *sizes = NULL;
    if (count != 0) {
        void *memory = NULL;
        LS_TRY(ls_alloc(&memory, count, sizeof *sizes));
        sizes = memory;
        int64_t *next = sizes;
        for (int d = 0; d < own.count; d++) {
            if (own.at[d].sizes != NULL) {
                memcpy(next, own.at[d].sizes, (size_t)mesh->dim[d] * sizeof *next);
                own.at[d].sizes = next;
                next += mesh->dim[d];
            }
        }
    }
    ls_free(tensor->sizes, tensor->sizes_count, sizeof *sizes);
    tensor->sizes = sizes;
    tensor->sizes_count = count;
    tensor->shape = *shape;
    tensor->placements = own;
    tensor->has_shape = true;
    tensor->has_placements = true;
    return LS_OK;
}

void ls_local_tensor_free(ls_local_tensor *tensor) {
    if (tensor == NULL) {
        return;
    }
    ls_world *world = tensor->world;
    for (size_t s = 0; s < tensor->shard_count; s++) {
        free_data(&tensor->shards[s], world, ls_dtype_bytes(tensor->dtype));
    }
    ls_free(tensor->shards, tensor->shard_count, sizeof *tensor->shards);
    ls_free(tensor->first, (size_t)tensor->rank_count + 1, sizeof *tensor->first);
    ls_free(tensor->ranks, (size_t)tensor->rank_count, sizeof *tensor->ranks);
    ls_free(tensor->sizes, tensor->sizes_count, sizeof *tensor->sizes);
    ls_layout_free(&tensor->listed);
    ls_free(tensor, 1, sizeof *tensor);
    int before = atomic_fetch_sub(&world->tensors, 1);
    LS_ASSERT(before >= 1);
}

ls_world *ls_local_tensor_world(const ls_local_tensor *tensor) {
    return tensor->world;
}

ls_dtype ls_local_tensor_dtype(const ls_local_tensor *tensor) {
    return tensor->dtype;
}

const ls_shape *ls_local_tensor_shape(const ls_local_tensor *tensor) {
    return tensor->has_shape ? &tensor->shape : NULL;
}

const ls_placements *ls_local_tensor_placements(const ls_local_tensor *tensor) {
    return tensor->has_placements ? &tensor->placements : NULL;
}

int ls_local_tensor_rank_count(const ls_local_tensor *tensor) {
    return tensor->rank_count;
}

const int *ls_local_tensor_ranks(const ls_local_tensor *tensor) {
    return tensor->ranks;
}

int ls_local_tensor__rank_index(const ls_local_tensor *tensor, int rank) {
    if (rank >= 0 && rank < tensor->rank_count && tensor->ranks[rank] == rank) {
        return rank;
    }
    int low = 0;
    int high = tensor->rank_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (tensor->ranks[middle] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < tensor->rank_count && tensor->ranks[low] == rank ? low : -1;
}

int ls_local_tensor_shard_count(const ls_local_tensor *tensor, int rank) {
    int i = ls_local_tensor__rank_index(tensor, rank);
    return i < 0 ? 0 : (int)(tensor->first[i + 1] - tensor->first[i]);
}

ls_shard *ls_local_tensor_shard(const ls_local_tensor *tensor, int rank, int index) {
    int i = ls_local_tensor__rank_index(tensor, rank);
    if (i < 0) {
        char ranks[128];
        ls_ranks_format(ranks, sizeof ranks, tensor->ranks, tensor->rank_count);
        (void)LS_FAIL_RANK(LS_ERR_NOT_FOUND, rank,
                           "the tensor has no shard on rank %d here, only on rank%s %s", rank,
                           tensor->rank_count == 1 ? "" : "s", ranks);
        return NULL;
    }
    size_t count = tensor->first[i + 1] - tensor->first[i];
    if (index < 0 || (size_t)index >= count) {
        (void)LS_FAIL_RANK(LS_ERR_NOT_FOUND, rank, "rank %d has no shard %d, but %zu shard%s", rank,
                           index, count, count == 1 ? "" : "s");
        return NULL;
    }
    return &tensor->shards[tensor->first[i] + (size_t)index];
}

int ls_local_tensor_map(ls_local_tensor *tensor, ls_rank_callback callback, void *arg) {
    for (int i = 0; i < tensor->rank_count; i++) {
        int rank = tensor->ranks[i];
        size_t first = tensor->first[i];
        // Cleared, so that a later error is this callback's.
        ls_error_clear();
        int result =
            callback(arg, rank, &tensor->shards[first], (int)(tensor->first[i + 1] - first));
        if (result == LS_OK) {
            continue;
        }
        if (ls_error_last()->code == LS_OK) {
            (void)LS_FAIL_RANK(LS_ERR_INVALID, rank, "the callback returned %d", result);
        }
        (void)ls_error_wrap("rank %d", rank);
        return result;
    }
    return LS_OK;
}
