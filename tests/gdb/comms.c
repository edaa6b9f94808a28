// Several communicators for the debugger: the world, the axes of a mesh, parts of a split, and,
// before that, a controller with two communicators of one name.
#include <stdio.h>

#include "ranks/ranks.h"

static int controller(void) {
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {4}}, .seed = 3};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *pair[2] = {NULL, NULL};
    int status = ls_world_create(&world, &options);
    if (status == LS_OK) {
        status = ls_backend_sim_create(&backend, world);
    }
    for (int half = 0; half < 2 && status == LS_OK; half++) {
        status =
            ls_comm_create(&pair[half], backend, (const int[]){2 * half, 2 * half + 1}, 2, "pair");
    }
    int numbers[4] = {1, 2, 3, 4};
    for (int step = 0; step < 4 && status == LS_OK; step++) {
        ls_call calls[2];
        for (int i = 0; i < 2; i++) {
            int rank = 2 * (step % 2) + i;
            calls[i] = (ls_call){.kind = LS_ALL_REDUCE,
                                 .comm = pair[step % 2],
                                 .rank = rank,
                                 .dtype = LS_I32,
                                 .op = LS_SUM,
                                 .count = 1,
                                 .send = &numbers[rank],
                                 .recv = &numbers[rank],
                                 .file = "comms.c",
                                 .line = 100 + step};
        }
        status = ls_backend_run(backend, calls, 2);
    }
    ls_comm_free(pair[1]);
    ls_comm_free(pair[0]);
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

static int program(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *row = NULL, *part = NULL;
    int rank = ls_rank_id(self), status = ls_rank_axis(&row, self, 1);
    int *number = ls_rank_alloc(self, sizeof *number);
    *number = rank;
    if (status == LS_OK) {
        status = ls_comm_split(&part, ls_rank_world(self), rank % 2, rank);
    }
    for (int step = 0; step < 3 && status == LS_OK; step++) {
        status = ls_all_reduce(number, number, 1, LS_I32, LS_MAX, ls_rank_world(self));
        if (status == LS_OK) {
            status = ls_broadcast(number, number, 1, LS_I32, step % 2, row);
        }
        if (status == LS_OK && step > 0) {
            status = ls_barrier(part);
        }
    }
    int member = ls_comm_rank(row);
    if (status == LS_OK) {
        status =
            member == 0 ? ls_send(number, 1, LS_I32, 1, row) : ls_recv(number, 1, LS_I32, 0, row);
    }
    if (part != NULL) {
        (void)ls_comm_destroy(part);
    }
    ls_rank_free(self, number);
    return status;
}

int main(void) {
    int status = controller();
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 4,
                                     .mesh = {.ndim = 2, .dim = {2, 2}, .name = {"host", "gpu"}}};
    if (status == LS_OK) {
        status = ls_spmd_run(&result, program, NULL, &options);
    }
    ls_spmd_result_free(result);
    printf("ended with %d\n", status);
    return status == LS_OK ? 0 : 1;
}
