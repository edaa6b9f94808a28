// Moving a tensor between any two layouts in one all_to_all of every rank: blocks that were listed,
// strided shards, mesh dimensions that cut in another order. A rank sends each other rank its part
// of that rank's new blocks; among replicas a rank takes from those that stand where it stands.
#include <string.h>

#include "collectives/tensor.h"

#define RANKS_MAX 4096  // each sends every other the size of its data

typedef struct exchange {
    ls_backend *backend;
    ls_world *world;
    const ls_local_tensor *in;
    ls_local_tensor *out;
    const ls_placements *from;  // NULL: listed blocks, each held once
    ls_layout old, new;
    ls_arena *arena;
    size_t element;
    int held;
    ls_call *calls;  // [held]
} exchange;

// The backend's communicator of all ranks, made on first use.
static int world_of(const ls_comm **out, ls_backend *backend) {
    if (backend->everyone == NULL) {
        LS_TRY(ls_comm_create(&backend->everyone, backend, NULL, 0, "world"));
    }
    *out = backend->everyone;
    return LS_OK;
}

// Whether `to` gets its part of the old blocks of `from`.
static bool feeds(const exchange *e, int from, int to) {
    const ls_mesh *mesh = ls_world_mesh(e->world);
    int a[LS_MESH_DIMS_MAX], b[LS_MESH_DIMS_MAX];
    bool together = true;
    ls_mesh_coordinates(a, mesh, from);
    ls_mesh_coordinates(b, mesh, to);
    for (int d = 0; e->from != NULL && d < mesh->ndim; d++) {
        together = together && (e->from->at[d].kind == LS_PLACE_SHARD || a[d] == b[d]);
    }
    return together;
}

// Goes through what `from` has of `to`'s new blocks, in the order in which it travels: counts it,
// and where packed is not NULL moves it, out of from's shards or, with `unpack`, into to's.
static size_t travel(const exchange *e, int from, int to, char *packed, bool unpack) {
    size_t total = 0;
    if (!feeds(e, from, to)) {
        return 0;
    }
    for (size_t i = e->old.first[from]; i < e->old.first[from + 1]; i++) {
        for (size_t k = e->new.first[to]; k < e->new.first[to + 1]; k++) {
            ls_block piece;
            size_t count = ls_block_intersect(&piece, &e->old.blocks[i], &e->new.blocks[k]);
            if (count == 0 || packed == NULL) {
                total += count;
                continue;
            }
            char *at = packed + total * e->element;
            if (unpack) {
                ls_shard *shard = ls_local_tensor_shard(e->out, to, (int)(k - e->new.first[to]));
                ls_block_copy(shard->data, &shard->block, at, &piece, e->element);
            } else {
                ls_shard *shard = ls_local_tensor_shard(e->in, from, (int)(i - e->old.first[from]));
                ls_block_copy(at, &piece, shard->data, &shard->block, e->element);
            }
            total += count;
        }
    }
    return total;
}

static int start_rank(exchange *e, int index, const ls_comm *comm) {
    int rank = ls_world_held(e->world)[index];
    size_t size = (size_t)comm->size, sent = 0, received = 0;
    size_t *sends = ls_arena_alloc(e->arena, size, sizeof *sends);
    size_t *recvs = ls_arena_alloc(e->arena, size, sizeof *recvs);
    LS_TRY_MEMORY(sends != NULL && recvs != NULL);
    for (int m = 0; m < comm->size; m++) {
        sends[m] = travel(e, rank, m, NULL, false);
        recvs[m] = travel(e, m, rank, NULL, false);
        sent += sends[m];
        received += recvs[m];
    }
    char *out = ls_arena_alloc(e->arena, sent, e->element);
    char *in = ls_arena_alloc(e->arena, received, e->element);
    LS_TRY_MEMORY(out != NULL && in != NULL);
    e->calls[index] = (ls_call){.kind = LS_ALL_TO_ALL,
                                .comm = comm,
                                .rank = rank,
                                .dtype = ls_local_tensor_dtype(e->in),
                                .send_counts = sends,
                                .recv_counts = recvs,
                                .send = out,
                                .recv = in,
                                LS_HERE};
    for (int m = 0; m < comm->size; m++) {
        out += travel(e, rank, m, out, false) * e->element;
    }
    return LS_OK;
}

// A rank must receive all of its new blocks: listed blocks may leave elements out.
static int check_complete(const exchange *e, int rank) {
    size_t gets = 0, wants = 0;
    for (int from = 0; from < ls_world_size(e->world); from++) {
        gets += travel(e, from, rank, NULL, false);
    }
    for (int k = 0; k < ls_local_tensor_shard_count(e->out, rank); k++) {
        wants += ls_local_tensor_shard(e->out, rank, k)->count;
    }
    if (gets != wants) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "rank %d would get %zu of its %zu elements: no rank holds the others",
                            rank, gets, wants);
    }
    return LS_OK;
}

// Nothing leaves its rank: what all ranks know of all layouts.
static bool all_stays(const exchange *e) {
    int ranks = ls_world_size(e->world);
    for (int from = 0; from < ranks; from++) {
        for (int to = 0; to < ranks; to++) {
            if (from != to && travel(e, from, to, NULL, false) != 0) {
                return false;
            }
        }
    }
    return true;
}

static int stay(exchange *e) {
    for (int i = 0; i < e->held; i++) {
        int rank = ls_world_held(e->world)[i];
        size_t count = travel(e, rank, rank, NULL, false);
        char *buffer = ls_arena_alloc(e->arena, count, e->element);
        LS_TRY_MEMORY(buffer != NULL);
        (void)travel(e, rank, rank, buffer, false);
        (void)travel(e, rank, rank, buffer, true);
    }
    return LS_OK;
}

static int move(exchange *e) {
    const ls_comm *comm = NULL;
    e->calls = ls_arena_alloc(e->arena, (size_t)e->held, sizeof *e->calls);
    LS_TRY_MEMORY(e->calls != NULL);
    for (int i = 0; i < e->held; i++) {
        LS_TRY(check_complete(e, ls_world_held(e->world)[i]));
    }
    if (all_stays(e)) {
        return stay(e);
    }
    LS_TRY(world_of(&comm, e->backend));
    for (int i = 0; i < e->held; i++) {
        LS_TRY(start_rank(e, i, comm));
    }
    LS_TRY(ls_backend_run(e->backend, e->calls, e->held));
    for (int i = 0; i < e->held; i++) {
        char *in = e->calls[i].recv;
        for (int m = 0; m < comm->size; m++) {
            in += travel(e, m, e->calls[i].rank, in, true) * e->element;
        }
    }
    return LS_OK;
}

int ls_tensor__exchange(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                        const ls_placements *to) {
    const ls_shape *shape = ls_local_tensor_shape(in);
    ls_dtype dtype = ls_local_tensor_dtype(in);
    exchange e = {.backend = backend,
                  .world = backend->world,
                  .in = in,
                  .from = ls_local_tensor_placements(in),
                  .element = ls_dtype_bytes(dtype),
                  .held = ls_world_held_count(backend->world)};
    *out = NULL;
    if (ls_world_size(e.world) > RANKS_MAX) {
        return LS_FAIL(
            LS_ERR_UNSUPPORTED,
            "strided shards, turns and listed blocks move among at most %d ranks, not %d",
            RANKS_MAX, ls_world_size(e.world));
    }
    int status = ls_arena_create(&e.arena);
    status = status == LS_OK ? ls_layout_of_tensor(&e.old, in) : status;
    status = status == LS_OK ? ls_layout_of_placements(&e.new, ls_world_mesh(e.world), shape, to)
                             : status;
    status = status == LS_OK ? ls_local_tensor_zeros(&e.out, e.world, shape, dtype, to) : status;
    status = status == LS_OK ? move(&e) : status;
    ls_layout_free(&e.old);
    ls_layout_free(&e.new);
    ls_arena_free(e.arena);
    if (status != LS_OK) {
        ls_local_tensor_free(e.out);
        return status;
    }
    *out = e.out;
    return LS_OK;
}
