// One process with four devices: communicators created together and used in groups, and a thread
// for each device.
#include <pthread.h>
#include <string.h>

#include "nccl.h"

#define DEVICES 4
#define N       100

static void check_sum(const void *at, cudaStream_t stream, int expected) {
    int64_t got[N];
    from_device(got, at, sizeof got, stream);
    for (int i = 0; i < N; i++) {
        EXPECT(got[i] == expected + DEVICES * i);
    }
}

static void *numbers(int first) {
    int64_t values[N];
    for (int i = 0; i < N; i++) {
        values[i] = first + i;
    }
    return to_device(values, sizeof values);
}

static void in_groups(void) {
    ncclComm_t comms[DEVICES];
    cudaStream_t streams[DEVICES];
    void *at[DEVICES];
    CHECK(ncclCommInitAll(comms, DEVICES, NULL));
    for (int d = 0; d < DEVICES; d++) {
        int rank = -1;
        CHECK(ncclCommUserRank(comms[d], &rank));
        EXPECT(rank == d);
        CHECK(cudaSetDevice(d));
        CHECK(cudaStreamCreate(&streams[d]));
        at[d] = numbers(d);
    }
    CHECK(ncclGroupStart());
    for (int d = 0; d < DEVICES; d++) {
        CHECK(ncclAllReduce(at[d], at[d], N, ncclInt64, ncclSum, comms[d], streams[d]));
    }
    CHECK(ncclGroupEnd());
    for (int d = 0; d < DEVICES; d++) {
        check_sum(at[d], streams[d], DEVICES * (DEVICES - 1) / 2);
        CHECK(ncclCommDestroy(comms[d]));
    }
}

static ncclUniqueId id;

static void *run(void *arg) {
    int rank = (int)(intptr_t)arg;
    ncclComm_t comm;
    cudaStream_t stream;
    CHECK(cudaSetDevice(rank));
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclCommInitRank(&comm, DEVICES, id, rank));
    void *at = numbers(2 * rank);
    for (int round = 0; round < 20; round++) {
        CHECK(ncclAllReduce(at, at, N, ncclInt64, round == 0 ? ncclSum : ncclMax, comm, stream));
    }
    check_sum(at, stream, DEVICES * (DEVICES - 1));
    CHECK(ncclCommDestroy(comm));
    return NULL;
}

int main(void) {
    in_groups();
    pthread_t threads[DEVICES];
    CHECK(ncclGetUniqueId(&id));
    for (int d = 0; d < DEVICES; d++) {
        EXPECT(pthread_create(&threads[d], NULL, run, (void *)(intptr_t)d) == 0);
    }
    for (int d = 0; d < DEVICES; d++) {
        EXPECT(pthread_join(threads[d], NULL) == 0);
    }
    return 0;
}
