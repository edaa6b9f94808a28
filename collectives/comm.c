// Communicators over any ranks of a world, and the sibling communicators along a mesh axis.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "collectives/check.h"
#include "collectives/hooks.h"

static int compare_pairs(const void *a, const void *b) {
    const int *x = a, *y = b;  // rank, member
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

// Fills comm->ranks and comm->by_rank; the ranks must be distinct and of the world.
static int fill_members(ls_comm *comm, const int *ranks, int world_size) {
    void *memory = NULL;
    size_t size = (size_t)comm->size;
    LS_TRY(ls_alloc(&memory, 2 * size, sizeof(int)));
    int *pairs = memory, status = LS_OK;
    for (int i = 0; i < comm->size; i++) {
        int rank = ranks != NULL ? ranks[i] : i;
        if (rank < 0 || rank >= world_size) {
            status = LS_FAIL(LS_ERR_INVALID,
                             "communicator %s: member %d is rank %d, which is not in [0, %d)",
                             comm->name, i, rank, world_size);
            goto out;
        }
        comm->ranks[i] = rank;
        pairs[2 * i] = rank;
        pairs[2 * i + 1] = i;
    }
    qsort(pairs, size, 2 * sizeof(int), compare_pairs);
    for (int i = 0; i < comm->size; i++) {
        comm->by_rank[i] = pairs[2 * i + 1];
        if (i > 0 && pairs[2 * i] == pairs[2 * i - 2]) {
            status = LS_FAIL_RANK(LS_ERR_INVALID, pairs[2 * i],
                                  "communicator %s: rank %d is both member %d and member %d",
                                  comm->name, pairs[2 * i], pairs[2 * i - 1], pairs[2 * i + 1]);
            goto out;
        }
    }
out:
    ls_free(memory, 2 * size, sizeof(int));
    return status;
}

static void free_memory(ls_comm *comm) {
    size_t size = (size_t)comm->size;
    ls_free(comm->ranks, size, sizeof(int));
    ls_free(comm->by_rank, size, sizeof(int));
    ls_free(comm->seq, size, sizeof(uint64_t));
    ls_free(comm, 1, sizeof *comm);
}

// The record alone, without the backend's part.
static int make_comm(ls_comm **out, ls_backend *backend, const int *ranks, int size,
                     const char *name) {
    int world_size = ls_world_size(backend->world);
    if (size < 1 || size > world_size) {
        return LS_FAIL(LS_ERR_INVALID, "communicator %s: %d members in a world of %d ranks",
                       name != NULL ? name : "", size, world_size);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_comm)));
    ls_comm *comm = memory;
    comm->backend = backend;
    comm->size = size;
    (void)snprintf(comm->name, sizeof comm->name, "%s", name != NULL ? name : "unnamed");
    int status = ls_alloc(&memory, (size_t)size, sizeof(int));
    comm->ranks = memory;
    if (status == LS_OK) {
        status = ls_alloc(&memory, (size_t)size, sizeof(int));
        comm->by_rank = memory;
    }
    if (status == LS_OK) {
        status = ls_alloc(&memory, (size_t)size, sizeof(uint64_t));
        comm->seq = memory;
    }
    status = status == LS_OK ? fill_members(comm, ranks, world_size) : status;
    if (status != LS_OK) {
        free_memory(comm);
        return status;
    }
    *out = comm;
    return LS_OK;
}

int ls_comm_create(ls_comm **out, ls_backend *backend, const int *ranks, int size,
                   const char *name) {
    LS_ASSERT(out != NULL && backend != NULL);
    *out = NULL;
    ls_comm *comm = NULL;
    LS_TRY(make_comm(&comm, backend, ranks, ranks == NULL ? ls_world_size(backend->world) : size,
                     name));
    comm->id = backend->comm_next_id;
    comm->family = (uint64_t)comm->id;
    int status = backend->ops->comm_open != NULL ? backend->ops->comm_open(backend, comm) : LS_OK;
    if (status != LS_OK) {
        free_memory(comm);
        return status;
    }
    backend->comm_next_id += 1;
    ls_hooks__comm_open(comm);
    *out = comm;
    return LS_OK;
}

void ls_comm_subset_name(char out[LS_COMM_NAME_BYTES], const ls_comm *of) {
    (void)snprintf(out, LS_COMM_NAME_BYTES, "%.24s subset #%d", of->name,
                   of->backend->comm_next_id);
}

uint64_t ls_comm_family(uint64_t parent, const char *file, int line) {
    uint64_t family = ls_hash(LS_HASH_START, &parent, sizeof parent);
    family = ls_hash(family, &line, sizeof line);
    return file != NULL ? ls_hash(family, file, strlen(file)) : family;
}

int ls_comm_split_off(ls_comm **out, const ls_comm *parent, int color, const int *ranks, int size,
                      int id, const char *name) {
    LS_ASSERT(out != NULL && parent != NULL && !parent->closed);
    *out = NULL;
    ls_backend *backend = parent->backend;
    if (backend->ops->comm_split == NULL) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "the %s backend holds every rank: nothing to split off",
                       backend->ops->name);
    }
    if (color < 0) {
        return backend->ops->comm_split(backend, NULL, parent, -1);
    }
    ls_comm *comm = NULL;
    LS_TRY(make_comm(&comm, backend, ranks, size, name));
    comm->id = id;
    int status = backend->ops->comm_split(backend, comm, parent, color);
    if (status != LS_OK) {
        free_memory(comm);
        return ls_error_wrap("communicator %s", name);
    }
    backend->comm_next_id = id >= backend->comm_next_id ? id + 1 : backend->comm_next_id;
    ls_hooks__comm_open(comm);
    *out = comm;
    return LS_OK;
}

void ls_comm_close(ls_comm *comm) {
    if (comm->backend->ops->comm_close != NULL && !comm->closed) {
        comm->backend->ops->comm_close(comm->backend, comm);
    }
    comm->closed = true;
    comm->impl = NULL;
}

void ls_comm_free(ls_comm *comm) {
    if (comm == NULL) {
        return;
    }
    ls_hooks__comm_close(comm);
    ls_comm_close(comm);
    free_memory(comm);
}

int ls_comm_member(const ls_comm *comm, int rank) {
    // Most communicators list ranks in steps; then the member is known at once.
    if (comm->size > 1) {
        int step = comm->ranks[1] - comm->ranks[0];
        int guess = (rank - comm->ranks[0]) / step;
        if (guess >= 0 && guess < comm->size && comm->ranks[guess] == rank) {
            return guess;
        }
    }
    int low = 0, high = comm->size;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int member = comm->by_rank[middle];
        if (comm->ranks[member] == rank) {
            return member;
        }
        if (comm->ranks[member] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

// ---- Axes ---------------------------------------------------------------------------------------
static int open_fibers(ls_axis *axis, ls_backend *backend, const ls_mesh *mesh, int *fiber) {
    int world_size = ls_world_size(backend->world);
    for (int rank = 0; rank < world_size; rank++) {
        axis->comm_of_rank[rank] = -1;
    }
    int next = 0;
    for (int rank = 0; rank < world_size; rank++) {
        if (axis->comm_of_rank[rank] >= 0) {
            continue;
        }
        ls_mesh_fiber(fiber, mesh, axis->axis, rank);
        char name[48];
        if (mesh->name[axis->axis][0] != '\0') {
            (void)snprintf(name, sizeof name, "%s[%d]", mesh->name[axis->axis], next);
        } else {
            (void)snprintf(name, sizeof name, "axis%d[%d]", axis->axis, next);
        }
        LS_TRY(ls_comm_create(&axis->comms[next], backend, fiber, mesh->dim[axis->axis], name));
        axis->comms[next]->family = axis->comms[0]->family;
        for (int i = 0; i < mesh->dim[axis->axis]; i++) {
            axis->comm_of_rank[fiber[i]] = next;
        }
        next += 1;
    }
    LS_ASSERT(next == axis->comm_count);
    return LS_OK;
}

int ls_axis_create(ls_axis **out, ls_backend *backend, int axis) {
    LS_ASSERT(out != NULL && backend != NULL);
    *out = NULL;
    const ls_mesh *mesh = ls_world_mesh(backend->world);
    if (axis < 0 || axis >= mesh->ndim) {
        return LS_FAIL(LS_ERR_INVALID, "mesh axis %d is not in [0, %d)", axis, mesh->ndim);
    }
    size_t world_size = (size_t)ls_world_size(backend->world);
    void *memory = NULL, *fiber = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_axis)));
    ls_axis *made = memory;
    made->axis = axis;
    made->comm_count = (int)world_size / mesh->dim[axis];
    made->world_size = (int)world_size;
    int status = ls_alloc(&memory, (size_t)made->comm_count, sizeof(ls_comm *));
    made->comms = memory;
    if (status == LS_OK) {
        status = ls_alloc(&memory, world_size, sizeof(int));
        made->comm_of_rank = memory;
    }
    status = status == LS_OK ? ls_alloc(&fiber, (size_t)mesh->dim[axis], sizeof(int)) : status;
    status = status == LS_OK ? open_fibers(made, backend, mesh, fiber) : status;
    ls_free(fiber, (size_t)mesh->dim[axis], sizeof(int));
    if (status != LS_OK) {
        ls_axis_free(made);
        return status;
    }
    *out = made;
    return LS_OK;
}

void ls_axis_free(ls_axis *axis) {
    if (axis == NULL) {
        return;
    }
    for (int i = 0; axis->comms != NULL && i < axis->comm_count; i++) {
        ls_comm_free(axis->comms[i]);
    }
    ls_free(axis->comms, (size_t)axis->comm_count, sizeof(ls_comm *));
    ls_free(axis->comm_of_rank, (size_t)axis->world_size, sizeof(int));
    ls_free(axis, 1, sizeof *axis);
}
