// A program without a defect that stops half way, for tests that disturb what observes it: each
// rank makes CALLS calls, PAUSE us apart, says so in a file, waits for another file, and makes as
// many again.
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include <unistd.h>

#include "nccl.h"

static double seconds_of(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    ncclUniqueId id = meet();
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
    const struct timespec pause = {.tv_nsec = argc > 2 ? 1000 * strtol(argv[2], NULL, 10) : 0};
    float values[4] = {0};
    char path[4096];
    ncclComm_t world;
    cudaStream_t stream;
    void *at = to_device(values, sizeof values);
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclCommInitRank(&world, rank_count, id, own_rank));
    for (int half = 0; half < 2; half++) {
        const double began = seconds_of(CLOCK_MONOTONIC);
        const double own = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 0; i < calls; i++) {
            CHECK(ncclAllReduce(at, at, 4, ncclFloat32, ncclSum, world, stream));
            if (pause.tv_nsec > 0) {
                (void)nanosleep(&pause, NULL);
            }
        }
        (void)printf("rank %d made %ld calls in %.6f s, %.6f s of a processor\n", own_rank, calls,
                     seconds_of(CLOCK_MONOTONIC) - began,
                     seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own);
        (void)fflush(stdout);
        (void)snprintf(path, sizeof path, "%s.half%d", getenv("MEET"), own_rank);
        FILE *file = fopen(path, "w");
        EXPECT(file != NULL && fclose(file) == 0);
        (void)snprintf(path, sizeof path, "%s.on", getenv("MEET"));
        while (half == 0 && access(path, F_OK) != 0) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    CHECK(cudaStreamSynchronize(stream));
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(world, &state));
    EXPECT(state == ncclSuccess);
    CHECK(ncclCommDestroy(world));
    return 0;
}
