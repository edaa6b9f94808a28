// Gradient descent on four ranks. `crash`: rank 2 reads address 0; `absent`: rank 3 never joins;
// `fork`: ranks have children; `late`: rank 1 broadcasts where the others sum.
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"

#define N 4

static ncclComm_t world;
static cudaStream_t stream;
static float weights[N] = {1, 2, 3, 4}, gradient[N];
static void *device;

static void compute(int step) {
    for (int i = 0; i < N; i++) {
        gradient[i] = weights[i] * (float)(own_rank + 1) + (float)step;
    }
}

static void update(void) {
    for (int i = 0; i < N; i++) {
        weights[i] -= 0.25F * gradient[i] / (float)rank_count;
    }
}

static void sum(int late) {
    CHECK(cudaMemcpy(device, gradient, sizeof gradient, 1));
    if (late && own_rank == 1) {
        CHECK(ncclBroadcast(device, device, N, ncclFloat32, 0, world, stream));
    } else {
        CHECK(ncclAllReduce(device, device, N, ncclFloat32, ncclSum, world, stream));
    }
    from_device(gradient, device, sizeof gradient, stream);
}

static void wait_a_little(void) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void child(void) {
    pid_t made = fork();
    if (made == 0) {
        wait_a_little();
        _exit(0);
    }
    EXPECT(waitpid(made, NULL, 0) == made);
    EXPECT(system("true") == 0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    ncclUniqueId id = meet();
    if (strcmp(what, "fork") == 0) {
        child();
    }
    while (strcmp(what, "absent") == 0 && own_rank == 3) {
        wait_a_little();
    }
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclCommInitRank(&world, rank_count, id, own_rank));
    device = to_device(gradient, sizeof gradient);
    for (int step = 0; step < 4; step++) {
        compute(step);
        sum(step == 2 && strcmp(what, "late") == 0);
        update();
        if (step == 1 && strcmp(what, "fork") == 0) {
            child();
        }
        if (step == 1 && own_rank == 2 && strcmp(what, "crash") == 0) {
            *(volatile int *)NULL = 1;
        }
    }
    CHECK(ncclCommDestroy(world));
    return 0;
}
