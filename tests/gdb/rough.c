// Difficult states for debuggers: two runs at once in two
// worlds, a parallel schedule, a freed tensor. `rough
// [parallel]`.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ranks/ranks.h"

static ls_schedule_kind schedule;

static int program(ls_rank *self, void *arg) {
    const int *most = arg;
    float *sum = ls_rank_alloc(self, 4 * sizeof *sum);
    int status = LS_OK;
    for (int i = 0; i < 4; i++) {
        sum[i] = (float)ls_rank_id(self);
    }
    for (int step = 0; step < *most && status == LS_OK; step++) {
        status = ls_all_reduce(sum, sum, 4, LS_F32, LS_MAX, ls_rank_world(self));
        if (*most > 100) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    ls_rank_free(self, sum);
    return status;
}

static void *run(void *arg) {
    int *most = arg;
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = *most == 3 ? 2 : 4, .schedule = schedule};
    (void)ls_spmd_run(&result, program, most, &options);
    ls_spmd_result_free(result);
    return NULL;
}

static void stop_here(const ls_local_tensor *tensor) {
    printf("%s", tensor == NULL ? "none\n" : "");
}

static int tensor_that_goes(void) {
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {2}}, .seed = 3};
    const ls_placements placements = LS_PLACE(LS_SHARD(0));
    const ls_shape shape = LS_SHAPE(4), wide = LS_SHAPE(6);
    const float full[6] = {1, 2, 3, 4, 5, 6};
    ls_world *world = NULL;
    ls_local_tensor *tensor = NULL, *other = NULL;
    if (ls_world_create(&world, &options) != LS_OK ||
        ls_local_tensor_distribute(&tensor, world, full, &shape, LS_F32, &placements) != LS_OK ||
        ls_local_tensor_distribute(&other, world, full, &wide, LS_F32, &placements) != LS_OK) {
        return 1;
    }
    stop_here(tensor);
    ls_local_tensor_free(other);
    ls_local_tensor *gone = tensor;
    ls_local_tensor_free(tensor);
    stop_here(gone);
    ls_world_free(world);
    return 0;
}

int main(int argc, char **argv) {
    schedule = argc > 1 && strcmp(argv[1], "parallel") == 0 ? LS_SCHEDULE_PARALLEL
                                                            : LS_SCHEDULE_ROUND_ROBIN;
    int few = 3, more = argc > 1 && strcmp(argv[1], "long") == 0 ? 100000 : 5;
    pthread_t other;
    if (tensor_that_goes() != 0 || pthread_create(&other, NULL, run, &few) != 0) {
        return 1;
    }
    (void)run(&more);
    return pthread_join(other, NULL);
}
