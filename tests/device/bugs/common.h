// Shared by the kernels of this folder: one process, a thread for each device, a communicator, two
// windows and a device communicator.
#pragma once

#include <nccl_device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (int)(call);                                                                   \
        if (code_ != 0) {                                                                          \
            fprintf(stderr, "%s:%d: %d\n", __FILE__, __LINE__, code_);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct setup {
    int rank, size;
    size_t bytes;
    ncclComm_t comm;
    ncclDevComm dev;
    ncclWindow_t send, recv;
    char *send_memory, *recv_memory;
    cudaStream_t stream;
};

static int rank_total;
static ncclUniqueId unique_id;
static size_t window_bytes = 4096;
static void (*rank_body)(setup *);

static void *run_rank(void *arg) {
    setup s = {};
    s.rank = (int)(intptr_t)arg;
    s.size = rank_total;
    s.bytes = window_bytes;
    CHECK(cudaSetDevice(s.rank));
    CHECK(ncclCommInitRank(&s.comm, s.size, unique_id, s.rank));
    CHECK(ncclMemAlloc(&s.send_memory, s.bytes));
    CHECK(ncclMemAlloc(&s.recv_memory, s.bytes));
    CHECK(cudaMemset(s.send_memory, s.rank + 1, s.bytes));
    CHECK(cudaMemset(s.recv_memory, 0, s.bytes));
    CHECK(ncclCommWindowRegister(s.comm, s.send_memory, s.bytes, &s.send, NCCL_WIN_COLL_SYMMETRIC));
    CHECK(ncclCommWindowRegister(s.comm, s.recv_memory, s.bytes, &s.recv, NCCL_WIN_COLL_SYMMETRIC));
    ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
    wanted.barrierCount = 8;
    wanted.lsaBarrierCount = 160;
    wanted.lsaMultimem = true;
    wanted.ginSignalCount = 8;
    wanted.ginCounterCount = 8;
    wanted.worldGinBarrierCount = 8;
    wanted.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
    CHECK(ncclDevCommCreate(s.comm, &wanted, &s.dev));
    CHECK(cudaStreamCreate(&s.stream));
    rank_body(&s);
    CHECK(cudaStreamSynchronize(s.stream));
    CHECK(ncclDevCommDestroy(s.comm, &s.dev));
    CHECK(ncclCommWindowDeregister(s.comm, s.send));
    CHECK(ncclCommWindowDeregister(s.comm, s.recv));
    CHECK(ncclMemFree(s.send_memory));
    CHECK(ncclMemFree(s.recv_memory));
    CHECK(ncclCommFinalize(s.comm));
    CHECK(ncclCommDestroy(s.comm));
    return NULL;
}

static int run_ranks(void (*body)(setup *)) {
    pthread_t threads[64];
    CHECK(cudaGetDeviceCount(&rank_total));
    CHECK(ncclGetUniqueId(&unique_id));
    rank_body = body;
    for (int r = 0; r < rank_total; r++) {
        pthread_create(&threads[r], NULL, run_rank, (void *)(intptr_t)r);
    }
    for (int r = 0; r < rank_total; r++) {
        pthread_join(threads[r], NULL);
    }
    return 0;
}

// Checks that every byte of the block from `peer` is what that rank sent.
static void expect(const setup *s, size_t block, int peer) {
    char all[4096];
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(all, s->recv_memory, s->bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < block; i++) {
        if (all[(size_t)peer * block + i] != peer + 1) {
            fprintf(stderr, "rank %d: byte %zu of rank %d is %d\n", s->rank, i, peer,
                    all[(size_t)peer * block + i]);
            exit(1);
        }
    }
}
