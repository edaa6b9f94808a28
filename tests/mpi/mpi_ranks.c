// SPMD programs on real MPI processes: without arguments one that makes the calls which exist there
// and checks what it gets; with the name of a bug that bug, which may hang; with "explain" before
// it the same bug in the simulator, which must not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ranks/bugs.h"
#include "collectives/backend/mpi.h"

#define EXPECT(x)                                                                                  \
    do {                                                                                           \
        if (!(x))                                                                                  \
            return __LINE__;                                                                       \
    } while (0)

static int good(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *world = ls_rank_world(self), *axis = NULL;
    int r = ls_rank_id(self), n = ls_rank_count(self);
    EXPECT(n <= 16);
    float a[16], b[16];
    for (int i = 0; i < 16; i++) {
        a[i] = (float)r;
        b[i] = -1;
    }
    float sum = (float)(n * (n - 1)) / 2.0f;
    LS_TRY(ls_all_reduce(a, b, 16, LS_F32, LS_SUM, world));
    EXPECT(b[15] == sum);
    LS_TRY(ls_all_gather(a, b, 1, LS_F32, world));
    EXPECT(b[n - 1] == (float)(n - 1));
    LS_TRY(ls_reduce_scatter(a, b, 1, LS_F32, LS_SUM, world));
    EXPECT(b[0] == sum);
    LS_TRY(ls_all_to_all(a, b, 1, LS_F32, world));
    EXPECT(b[n - 1] == (float)(n - 1));
    LS_TRY(ls_broadcast(a, b, 2, LS_F32, n - 1, world));
    EXPECT(b[1] == (float)(n - 1));
    ls_request *all = NULL, *send = NULL, *recv = NULL;
    float in = -1, out = (float)r, total = 0, one = 1;
    LS_TRY(ls_all_reduce_async(&one, &total, 1, LS_F32, LS_SUM, world, &all));
    LS_TRY(ls_recv_async(&in, 1, LS_F32, (r + n - 1) % n, world, &recv));
    LS_TRY(ls_send_async(&out, 1, LS_F32, (r + 1) % n, world, &send));
    LS_TRY(ls_wait(send));
    LS_TRY(ls_wait(recv));
    LS_TRY(ls_wait(all));
    EXPECT(in == (float)((r + n - 1) % n) && total == (float)n);
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_send(&out, 1, LS_F32, (r + n - 1) % n, world));
    LS_TRY(ls_recv(&in, 1, LS_F32, (r + 1) % n, world));
    LS_TRY(ls_group_end(self));
    EXPECT(in == (float)((r + 1) % n));
    LS_TRY(ls_rank_axis(&axis, self, 0));
    LS_TRY(ls_all_reduce(a, b, 1, LS_F32, LS_MAX, axis));
    EXPECT(b[0] == (float)(n - 1));
    return ls_barrier(world);
}

static const bug *find(const char *name) {
    for (int i = 0; i < bug_count; i++) {
        if (strcmp(bugs[i].name, name) == 0) {
            return &bugs[i];
        }
    }
    (void)fprintf(stderr, "no bug is called %s\n", name);
    exit(2);
}

static int explain(const bug *b) {
    bug_run run = {0};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = b->ranks, .lookahead = b->lookahead};
    int status = ls_spmd_run(&result, b->program, &run, &options);
    printf("%s: %s\n%s", b->name, ls_error_last()->text,
           status != LS_OK ? ls_spmd_finding(result, 0)->text : "nothing\n");
    ls_spmd_result_free(result);
    return status != LS_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "explain") == 0) {
        return explain(find(argv[2]));
    }
    int rank = 0, size = 0, exit_status = 0;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    if (ls_mpi_init(&rank, &size) != LS_OK) {
        (void)fprintf(stderr, "%s\n", ls_error_last()->text);
        return 1;
    }
    const ls_world_options options = {.mesh = LS_MESH(size), .held = &rank, .held_count = 1};
    if (ls_world_create(&world, &options) != LS_OK ||
        ls_backend_mpi_create(&backend, world) != LS_OK) {
        (void)fprintf(stderr, "%s\n", ls_error_last()->text);
        ls_mpi_abort(1);
    }
    bug_run run = {0};
    int status = argc > 1 ? ls_spmd_run_backend(&exit_status, find(argv[1])->program, &run, backend)
                          : ls_spmd_run_backend(&exit_status, good, NULL, backend);
    if (status != LS_OK || exit_status != 0) {
        (void)fprintf(stderr, "rank %d: exit status %d: %s\n", rank, exit_status,
                      ls_error_last()->text);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    ls_mpi_finalize();
    return status != LS_OK || exit_status != 0;
}
