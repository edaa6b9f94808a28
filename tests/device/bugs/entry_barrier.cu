// An LSA all-reduce with a relaxed entry barrier: earlier writes of peers are not visible
// (nccl-tests 081ea64).
#include "common.h"

#ifdef CORRECT
#define ENTRY cuda::memory_order_acquire
#else
#define ENTRY cuda::memory_order_relaxed
#endif

__global__ void fill(int *send, int count, int value) {
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        send[i] = value;  // bug: rma.race
    }
}

__global__ void all_reduce(ncclWindow_t send, ncclWindow_t recv, int count, ncclDevComm dev) {
    ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), dev, ncclTeamTagLsa(), blockIdx.x};
    bar.sync(ncclCoopCta(), ENTRY);
    int all = (int)(blockDim.x * gridDim.x) * dev.nRanks;
    int first = (int)threadIdx.x + (int)blockDim.x * (dev.rank + (int)blockIdx.x * dev.nRanks);
    for (int i = first; i < count; i += all) {
        int sum = 0;
        for (int peer = 0; peer < dev.nRanks; peer++) {
            sum += ((int *)ncclGetLsaPointer(send, 0, peer))[i];
        }
        for (int peer = 0; peer < dev.nRanks; peer++) {
            ((int *)ncclGetLsaPointer(recv, 0, peer))[i] = sum;
        }
    }
    bar.sync(ncclCoopCta(), cuda::memory_order_release);
}

static void body(setup *s) {
    int sum = 0, all[256];
    fill<<<1, 64, 0, s->stream>>>((int *)s->send_memory, 256, s->rank + 1);
    all_reduce<<<2, 64, 0, s->stream>>>(s->send, s->recv, 256, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(all, s->recv_memory, sizeof all, cudaMemcpyDeviceToHost));
    for (int r = 0; r < s->size; r++) {
        sum += r + 1;
    }
    for (int i = 0; i < 256; i++) {
        CHECK(all[i] != sum);
    }
}

int main() {
    return run_ranks(body);
}
