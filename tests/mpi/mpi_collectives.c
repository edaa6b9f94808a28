// Every collective on real MPI processes against the plain reference: each process generates the
// calls of all ranks, runs the reference on them, and makes its own call through MPI. The values
// make any order of reduction exact. Prints the differences; exits 0 if there are none.
#include <stdio.h>
#include <string.h>

#include "backends/mpi/mpi.h"
#include "collectives/finding.h"
#include "tests/collectives/cases.h"

static int failures, checks;
static int own_rank;

static void expect(bool holds, const char *what) {
    checks += 1;
    if (!holds) {
        failures += 1;
        fprintf(stderr, "rank %d: %s: %s\n", own_rank, what, ls_error_last()->text);
    }
}

static void run_case(ls_backend *backend, const ls_comm *comm, const coll_case *c) {
    char text[160];
    coll_case_format(text, sizeof text, c, comm->size);
    int member = ls_comm_member(comm, own_rank);
    if (member < 0) {
        return;
    }
    coll_set ours, plain;
    coll_set_create(&ours, comm, c, 5);
    coll_set_create(&plain, comm, c, 5);
    const ls_call *calls[16];
    for (int i = 0; i < comm->size; i++) {
        calls[i] = &plain.calls[i];
    }
    expect(ls_collective_of(c->kind)->reference(calls, comm->size) == LS_OK, text);
    expect(ls_backend_run(backend, &ours.calls[member], 1) == LS_OK, text);
    expect(coll_set_differs(&ours, &plain, member, 1) < 0, text);
    coll_set_free(&ours);
    coll_set_free(&plain);
}

static void run_all_cases(ls_backend *backend, const ls_comm *comm) {
    static const size_t counts[] = {0, 1, 7, 1000};
    for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
        if (ls_kind_is_message(kind)) {
            continue;
        }
        bool reduces = ls_collective_of((ls_kind)kind)->reduces;
        for (int i = 0; i < LS_DTYPE_COUNT * (reduces ? LS_OP_COUNT : 1) * 16; i++) {
            coll_case c = {.kind = (ls_kind)kind,
                           .count = counts[i & 3],
                           .uneven = (i & 4) != 0,
                           .in_place = (i & 8) != 0,
                           .exact = true,
                           .dtype = (ls_dtype)(i / 16 % LS_DTYPE_COUNT),
                           .op = (ls_op)(i / 16 / LS_DTYPE_COUNT),
                           .root = i % comm->size};
            // Sums use every count; each other operation one of them, to save time.
            bool wanted = c.op == LS_SUM || (i & 3) == 2 + ((int)c.op & 1);
            if (wanted && coll_case_valid(&c)) {
                run_case(backend, comm, &c);
            }
        }
    }
}

// A ring of sends and receives, and an all_reduce, in one group.
static void run_group(ls_backend *backend, const ls_comm *comm) {
    int n = comm->size, next = (own_rank + 1) % n, last = (own_rank + n - 1) % n;
    int32_t out[2] = {own_rank, 10 * own_rank}, in[2] = {-1, -1}, one = 1, sum = 0;
    ls_call calls[] = {
        {.kind = LS_SEND,
         .comm = comm,
         .rank = own_rank,
         .dtype = LS_I32,
         .root = next,
         .count = 1,
         .send = &out[0],
         LS_HERE},
        {.kind = LS_ALL_REDUCE,
         .comm = comm,
         .rank = own_rank,
         .dtype = LS_I32,
         .count = 1,
         .send = &one,
         .recv = &sum,
         LS_HERE},
        {.kind = LS_SEND,
         .comm = comm,
         .rank = own_rank,
         .dtype = LS_I32,
         .root = next,
         .count = 1,
         .send = &out[1],
         LS_HERE},
        {.kind = LS_RECV,
         .comm = comm,
         .rank = own_rank,
         .dtype = LS_I32,
         .root = last,
         .count = 1,
         .recv = &in[0],
         LS_HERE},
        {.kind = LS_RECV,
         .comm = comm,
         .rank = own_rank,
         .dtype = LS_I32,
         .root = last,
         .count = 1,
         .recv = &in[1],
         LS_HERE},
    };
    expect(ls_backend_run(backend, calls, 5) == LS_OK, "group");
    expect(in[0] == last && in[1] == 10 * last && sum == n, "group's results");
}

static void expect_mismatch(ls_backend *backend, ls_call *call, ls_finding_id id) {
    expect(ls_backend_run(backend, call, 1) == LS_ERR_MISMATCH, ls_finding_name(id));
    expect(ls_check_last()->found && ls_check_last()->id == id, ls_finding_name(id));
}

// Disagreements are errors on all ranks under their name, never a hang.
static void run_mismatches(ls_backend *backend, const ls_comm *comm) {
    if (comm->size < 2) {
        return;
    }
    float in[8] = {0}, out[8];
    bool odd = own_rank == 1;
    ls_call good = {.kind = LS_REDUCE,
                    .comm = comm,
                    .rank = own_rank,
                    .dtype = LS_F32,
                    .op = LS_SUM,
                    .count = 4,
                    .send = in,
                    .recv = out,
                    LS_HERE};
    ls_call call = good;
    call.op = odd ? LS_MAX : LS_SUM;
    expect_mismatch(backend, &call, LS_FINDING_OP_MISMATCH);
    call = good;
    call.count = odd ? 3 : 4;
    expect_mismatch(backend, &call, LS_FINDING_COUNT_MISMATCH);
    call = good;
    call.kind = odd ? LS_ALL_REDUCE : LS_REDUCE;
    expect_mismatch(backend, &call, LS_FINDING_KIND_MISMATCH);
    call = good;
    call.send = odd ? NULL : in;
    expect(ls_backend_run(backend, &call, 1) == LS_ERR_INVALID, "a rank's bad call stops all");
    expect(strstr(ls_error_last()->text, "rank 1") != NULL, "a rank's bad call is named");
    size_t ones[16], twos[16];
    for (int i = 0; i < 16; i++) {
        ones[i] = 1;
        twos[i] = 1;
    }
    twos[0] = odd ? 0 : 1;
    char bytes_in[16] = {0}, bytes_out[16];
    call = (ls_call){.kind = LS_ALL_TO_ALL,
                     .comm = comm,
                     .rank = own_rank,
                     .dtype = LS_U8,
                     .send_counts = twos,
                     .recv_counts = ones,
                     .send = bytes_in,
                     .recv = bytes_out,
                     LS_HERE};
    expect_mismatch(backend, &call, LS_FINDING_SPLIT_MISMATCH);
    expect(strstr(ls_error_last()->text, "rank 1 sends 0 elements to rank 0") != NULL, "the pair");
    if (own_rank < 2) {
        ls_call pair = {.kind = own_rank == 0 ? LS_SEND : LS_RECV,
                        .comm = comm,
                        .rank = own_rank,
                        .dtype = LS_F32,
                        .root = 1 - own_rank,
                        .count = own_rank == 0 ? 3 : 4,
                        .send = in,
                        .recv = out,
                        LS_HERE};
        expect_mismatch(backend, &pair, LS_FINDING_P2P_COUNT_MISMATCH);
        expect(strstr(ls_error_last()->text, "call 0,") == NULL, "neither is its rank's first");
    }
    ls_call lost = {.kind = LS_SEND,
                    .comm = comm,
                    .rank = own_rank,
                    .dtype = LS_F32,
                    .root = comm->size,
                    .count = 1,
                    .send = in,
                    LS_HERE};
    expect(ls_backend_run(backend, &lost, 1) == LS_ERR_INVALID, "there is no such peer");
    expect(ls_backend_run(backend, &good, 1) == LS_OK, "after errors all agree again");
}

// Of several calls in a group the differing one is reported with its place, or that some are
// missing.
static void run_differing_groups(ls_backend *backend, const ls_comm *comm) {
    if (comm->size < 2) {
        return;
    }
    float in[4] = {0}, out[3][4];
    ls_call calls[3];
    const bool odd = own_rank == 1;
    for (int differs = 0; differs < 3; differs++) {
        for (int i = 0; i < 3; i++) {
            calls[i] = (ls_call){.kind = LS_ALL_REDUCE,
                                 .comm = comm,
                                 .rank = own_rank,
                                 .dtype = LS_F32,
                                 .op = odd && i == differs ? LS_MAX : LS_SUM,
                                 .count = 4,
                                 .send = in,
                                 .recv = out[i],
                                 .file = odd ? "odd.c" : "even.c",
                                 .line = 4240 + i};
        }
        char place[32];
        (void)snprintf(place, sizeof place, "odd.c:%d", 4240 + differs);
        expect(ls_backend_run(backend, calls, 3) == LS_ERR_MISMATCH, "one of three differs");
        expect(ls_check_last()->found && ls_check_last()->id == LS_FINDING_OP_MISMATCH, "by op");
        expect(strstr(ls_error_last()->text, place) != NULL, ls_error_last()->text);
    }
    calls[2].op = LS_SUM;
    expect(ls_backend_run(backend, calls, odd ? 2 : 3) == LS_ERR_MISMATCH, "one is missing");
    expect(strstr(ls_error_last()->text, "rank 0 makes 3 collectives and rank 1 2") != NULL,
           ls_error_last()->text);
    expect(ls_check_last()->line == 4240, "at the first");
    expect(ls_backend_run(backend, calls, 3) == LS_OK, "after errors all agree again");
}

// Calls of two communicators start in either order: neither waits for the other. In one group,
// those of each are checked.
static void run_both_ways(ls_backend *backend, const ls_comm *comm) {
    ls_comm *second = NULL;
    int32_t one = 1, sums[2] = {0};
    void *pending[2] = {NULL};
    ls_call calls[2];
    expect(ls_comm_create(&second, backend, NULL, 0, "second") == LS_OK, "comm");
    calls[0] = (ls_call){.kind = LS_BARRIER, .rank = own_rank};
    expect(ls_backend_start(&pending[0], backend, &calls[0]) == LS_ERR_INVALID, "of no backend");
    for (int i = 0; i < 2; i++) {
        int at = (own_rank + i) % 2;
        calls[at] = (ls_call){.kind = LS_ALL_REDUCE,
                              .comm = at == 0 ? comm : second,
                              .rank = own_rank,
                              .dtype = LS_I32,
                              .count = 1,
                              .send = &one,
                              .recv = &sums[at],
                              LS_HERE};
        expect(ls_backend_start(&pending[at], backend, &calls[at]) == LS_OK, "start");
    }
    for (bool done[2] = {false}; !done[0] || !done[1];) {
        for (int i = 0; i < 2; i++) {
            if (!done[i]) {
                expect(ls_backend_test(&done[i], backend, pending[i], &calls[i]) == LS_OK, "test");
            }
        }
    }
    expect(sums[0] == comm->size && sums[1] == comm->size, "sums of both");
    if (comm->size > 1) {
        calls[1].op = own_rank == 1 ? LS_MAX : LS_SUM;
        expect(ls_backend_run(backend, calls, 2) == LS_ERR_MISMATCH, "the second's differ");
        calls[1].op = LS_SUM;
    }
    expect(ls_backend_run(backend, calls, 2) == LS_OK, "both agree");
    ls_comm_free(second);
}

static void run_sub_groups(ls_backend *backend, int size) {
    if (size < 3) {
        return;
    }
    ls_comm *some = NULL;
    expect(ls_comm_create(&some, backend, (int[]){2, 0}, 2, "some") == LS_OK, "comm");
    for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
        coll_case c = {
            .kind = (ls_kind)kind, .dtype = LS_F32, .count = 9, .exact = true, .root = 1};
        if (!ls_kind_is_message(kind)) {
            run_case(backend, some, &c);
        }
    }
    ls_comm_free(some);
}

int main(void) {
    int size = 0;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    if (ls_mpi_init(&own_rank, &size) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_last()->text);
        return 1;
    }
    ls_world_options options = {.mesh = LS_MESH(size), .held = &own_rank, .held_count = 1};
    expect(ls_world_create(&world, &options) == LS_OK, "world");
    expect(ls_backend_mpi_create(&backend, world) == LS_OK, "backend");
    expect(ls_comm_create(&comm, backend, NULL, 0, "world") == LS_OK, "comm");
    if (failures != 0) {
        ls_mpi_abort(1);
    }
    expect(strncmp(ls_mpi_version(), "MPICH 4", 7) == 0, ls_mpi_version());
    run_all_cases(backend, comm);
    run_group(backend, comm);
    run_mismatches(backend, comm);
    run_differing_groups(backend, comm);
    run_both_ways(backend, comm);
    run_sub_groups(backend, size);
    int32_t own = failures, all = 0;
    ls_call sum = {.kind = LS_ALL_REDUCE,
                   .comm = comm,
                   .rank = own_rank,
                   .dtype = LS_I32,
                   .count = 1,
                   .send = &own,
                   .recv = &all,
                   LS_HERE};
    expect(ls_backend_run(backend, &sum, 1) == LS_OK, "sum of failures");
    if (own_rank == 0) {
        printf("%d ranks, %d checks on rank 0, %d failures in all\n", size, checks, (int)all);
    }
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
    ls_mpi_finalize();
    return all != 0 || failures != 0;
}
