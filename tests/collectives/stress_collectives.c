// The simulator without a test framework, for valgrind and the sanitizers: every kind of call in
// every form, failing groups, redistributions, and a world of thousands of ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collectives/cases.h"

static void need(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, ls_error_last()->text);
        exit(1);
    }
}

static void run_cases(ls_backend *backend, const ls_comm *comm) {
    for (int i = 0; i < LS_KIND_COUNT * 4 * 3; i++) {
        coll_case c = {.kind = (ls_kind)(i / 12),
                       .dtype = i % 3 == 0 ? LS_F32 : LS_BF16,
                       .uneven = (i & 1) != 0,
                       .in_place = (i & 2) != 0,
                       .count = (size_t)(i % 12) * 5,
                       .root = i % comm->size};
        if (ls_kind_is_message(c.kind) || !coll_case_valid(&c)) {
            continue;
        }
        coll_set ours, plain;
        const ls_call *calls[16];
        coll_set_create(&ours, comm, &c, 1);
        coll_set_create(&plain, comm, &c, 1);
        for (int m = 0; m < comm->size; m++) {
            calls[m] = &plain.calls[m];
        }
        need(ls_collective_of(c.kind)->reference(calls, comm->size) == LS_OK, "reference");
        // First omits one member's call: the failure must not leak or write memory.
        need(ls_backend_run(backend, ours.calls, ours.size - 1) != LS_OK, "a missing call");
        need(ls_backend_run(backend, ours.calls, ours.size) == LS_OK, "run");
        need(coll_set_differs(&ours, &plain, 0, comm->size) < 0, "results");
        coll_set_free(&ours);
        coll_set_free(&plain);
    }
}

static void run_redistributions(ls_world *world, ls_backend *backend) {
    static const float values[7 * 3] = {1, 2, 3, 4, 5, 6, 7};
    const ls_placement menu[] = {LS_REPLICATE, LS_SHARD(0), LS_SHARD(1), LS_PARTIAL(LS_SUM)};
    const ls_shape shape = LS_SHAPE(7, 3);
    for (int pair = 0; pair < 16 * 16; pair += 3) {
        ls_placements from = LS_PLACE(menu[pair & 3], menu[pair >> 2 & 3]);
        ls_placements to = LS_PLACE(menu[pair >> 4 & 3], menu[pair >> 6 & 3]);
        ls_local_tensor *in = NULL, *out = NULL;
        float full[21];
        need(ls_local_tensor_distribute(&in, world, values, &shape, LS_F32, &from) == LS_OK, "in");
        need(ls_tensor_redistribute(&out, backend, in, &to) == LS_OK, "redistribute");
        need(ls_tensor_full(full, sizeof full, backend, out) == LS_OK, "full");
        need(memcmp(full, values, sizeof full) == 0, "full's values");
        ls_local_tensor_free(in);
        ls_local_tensor_free(out);
    }
}

// 4,096 ranks: a group of two collectives each, and a ring of messages.
static void run_large(void) {
    enum { RANKS = 4096 };
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    ls_world_options options = {.mesh = LS_MESH(RANKS)};
    need(ls_world_create(&world, &options) == LS_OK, "world");
    need(ls_backend_sim_create(&backend, world) == LS_OK, "backend");
    need(ls_comm_create(&comm, backend, NULL, 0, "world") == LS_OK, "comm");
    ls_call *calls = calloc(4 * RANKS, sizeof *calls);
    int32_t *own = calloc(RANKS, sizeof *own), *sum = calloc(RANKS, sizeof *sum);
    int32_t *last = calloc(RANKS, sizeof *last);
    need(calls != NULL && own != NULL && sum != NULL && last != NULL, "memory");
    for (int r = 0; r < RANKS; r++) {
        own[r] = r;
        ls_call base = {.comm = comm, .rank = r, .dtype = LS_I32, .count = 1, LS_HERE};
        for (int k = 0; k < 4; k++) {
            calls[4 * r + k] = base;
        }
        calls[4 * r].kind = LS_ALL_REDUCE;
        calls[4 * r].send = &own[r];
        calls[4 * r].recv = &sum[r];
        calls[4 * r + 1].kind = LS_BARRIER;
        calls[4 * r + 2].kind = LS_SEND;
        calls[4 * r + 2].send = &own[r];
        calls[4 * r + 2].root = (r + 1) % RANKS;
        calls[4 * r + 3].kind = LS_RECV;
        calls[4 * r + 3].recv = &last[r];
        calls[4 * r + 3].root = (r + RANKS - 1) % RANKS;
    }
    need(ls_backend_run(backend, calls, 4 * RANKS) == LS_OK, "large group");
    for (int r = 0; r < RANKS; r++) {
        need(sum[r] == RANKS / 2 * (RANKS - 1), "large sum");
        need(last[r] == (r + RANKS - 1) % RANKS, "large ring");
    }
    free(calls);
    free(own);
    free(sum);
    free(last);
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
}

int main(void) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    ls_world_options options = {.mesh = LS_MESH(2, 3)};
    need(ls_world_create(&world, &options) == LS_OK, "world");
    need(ls_backend_sim_create(&backend, world) == LS_OK, "backend");
    need(ls_comm_create(&comm, backend, (int[]){4, 1, 3}, 3, "some") == LS_OK, "comm");
    run_cases(backend, comm);
    run_redistributions(world, backend);
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
    run_large();
    return 0;
}
