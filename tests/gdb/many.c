// A run of many ranks for the debugger: collectives on the world and on parts of it, then one rank
// is late. `many RANKS`.
#include <stdio.h>
#include <stdlib.h>

#include "ranks/ranks.h"

static int program(ls_rank *self, void *arg) {
    (void)arg;
    int rank = ls_rank_id(self), status = LS_OK;
    float *grad = ls_rank_alloc(self, 64 * sizeof *grad);
    for (int i = 0; i < 64; i++) {
        grad[i] = (float)(i + 1);
    }
    if (rank == 5) {
        grad[40] = 41.000004F;  // one ulp more
    }
    for (int step = 0; step < 3 && status == LS_OK; step++) {
        if (rank == 2) {
            printf("%s", "");  // late
        }
        status = ls_barrier(ls_rank_world(self));
    }
    if (status == LS_OK) {
        status = ls_all_reduce(grad, grad, 64, LS_F32, LS_AVG, ls_rank_world(self));
    }
    ls_rank_free(self, grad);
    return status;
}

int main(int argc, char **argv) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1024};
    int status = ls_spmd_run(&result, program, NULL, &options);
    ls_spmd_result_free(result);
    return status == LS_OK ? 0 : 1;
}
