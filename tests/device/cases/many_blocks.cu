// More blocks than begin at once: each waits for its peers. Two blocks write the same part.
#include "../bugs/common.h"

#define BLOCKS 160

__global__ void exchange(ncclWindow_t recv, ncclDevComm dev) {
    ncclCoopCta cta;
    ncclLsaBarrierSession<ncclCoopCta> bar{cta, dev, ncclTeamTagLsa(), blockIdx.x};
    bar.sync(cta, cuda::memory_order_acquire);
#ifdef CORRECT
    unsigned part = blockIdx.x;
#else
    unsigned part = blockIdx.x / 2;
#endif
    int peer = (dev.rank + 1) % dev.nRanks;
    int *there = (int *)ncclGetLsaPointer(recv, 0, peer);
    if (threadIdx.x == 0) {
        there[part] = dev.rank + 1;  // bug: rma.race
    }
    bar.sync(cta, cuda::memory_order_release);
}

static void body(setup *s) {
    exchange<<<BLOCKS, 32, 0, s->stream>>>(s->recv, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    int got[BLOCKS], from = (s->rank + s->size - 1) % s->size;
    CHECK(cudaMemcpy(got, s->recv_memory, sizeof got, cudaMemcpyDeviceToHost));
#ifdef CORRECT
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(got[i] != from + 1);
    }
#endif
}

int main() {
    return run_ranks(body);
}
