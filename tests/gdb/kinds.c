// `ranks`, `calls` and `diff-ranks` with waits, groups, splits and structs; and a finding at the
// end of the run. Built without optimisation, so that all lines and variables exist.
#include <stdio.h>

#include "ranks/ranks.h"

enum { COUNT = 6 };

typedef struct optimizer {
    double rate;
    int step;
} optimizer;

typedef struct model {
    float weight[COUNT];
    optimizer sgd;
    float *grad;  // [COUNT]
    const char *name;
} model;

static float grow(float value) {
    float more = value * 2;
    return more + 1;
}

static int program(ls_rank *self, void *arg) {
    ls_rank_comm *world = ls_rank_world(self);
    int rank = ls_rank_id(self), ranks = ls_rank_count(self);
    model m = {.sgd = {.rate = 0.5, .step = 1}, .name = arg};
    m.grad = ls_rank_alloc(self, COUNT * sizeof *m.grad);
    for (int i = 0; i < COUNT; i++) {
        m.weight[i] = (float)i;
        m.grad[i] = rank == 2 && i == 3 ? 9 : 1;
    }
    m.sgd.step += rank == 1 ? 1 : 0;
    LS_TRY(ls_barrier(world));
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_async(m.weight, m.weight, COUNT, LS_F32, LS_SUM, world, &request));
    LS_TRY(ls_wait(request));
    size_t sent[3] = {1, 2, (size_t)rank}, received[3] = {(size_t)(rank + 1)};
    for (int from = 0; from < ranks; from++) {
        received[from] = rank < 2 ? (size_t)rank + 1 : (size_t)from;
    }
    float out[8];
    LS_TRY(ls_all_to_all_v(m.weight, out, sent, received, LS_F32, world));
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_send(m.grad, 2, LS_F32, (rank + 1) % ranks, world));
    LS_TRY(ls_recv(out, 2, LS_F32, (rank + ranks - 1) % ranks, world));
    LS_TRY(ls_group_end(self));
    float grown = grow(out[0]);
    grown += 1;
    if (rank != 1) {
        ls_rank_free(self, m.grad);  // rank 1 leaks it
    }
    return grown > 0 ? 0 : 1;
}

int main(void) {
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run(&result, program, "kinds", &(ls_spmd_options){.ranks = 3});
    printf("ended with %d, %d findings\n", status, ls_spmd_finding_count(result));
    ls_spmd_result_free(result);
    return 0;
}
