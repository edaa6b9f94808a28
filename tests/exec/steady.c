// A program without a defect that stops half way, for tests that disturb what observes it: each
// rank makes CALLS calls, says so in a file, waits for another file, and makes as many again.
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include <unistd.h>

#include "nccl.h"

int main(int argc, char **argv) {
    ncclUniqueId id = meet();
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
    float values[4] = {0};
    char path[4096];
    ncclComm_t world;
    cudaStream_t stream;
    void *at = to_device(values, sizeof values);
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclCommInitRank(&world, rank_count, id, own_rank));
    for (int half = 0; half < 2; half++) {
        struct timespec began, ended;
        (void)clock_gettime(CLOCK_MONOTONIC, &began);
        for (long i = 0; i < calls; i++) {
            CHECK(ncclAllReduce(at, at, 4, ncclFloat32, ncclSum, world, stream));
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &ended);
        double seconds =
            (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
        (void)printf("rank %d made %ld calls in %.6f s\n", own_rank, calls, seconds);
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
