// Stores into a peer's memory, and a signal that releases to its device alone: the peer sees the
// signal before the data (DeepEP pull request 715).
#include "common.h"

__global__ void exchange(ncclWindow_t recv, int *out, ncclDevComm dev) {
    ncclCoopCta cta;
    ncclGin gin{dev, 0};
    int next = (dev.rank + 1) % dev.nRanks;
    int *there = (int *)ncclGetLsaPointer(recv, 0, next);
    there[threadIdx.x] = dev.rank;  // bug: rma.race
#ifdef CORRECT
    __threadfence_system();
#endif
    cta.sync();
    if (threadIdx.x == 0) {
        gin.signal(ncclTeamWorld(dev), next, ncclGin_StrongSignalInc{0});
    }
    gin.waitSignal(cta, 0, 1);
    out[threadIdx.x] = ((int *)ncclGetLocalPointer(recv, 0))[threadIdx.x];
}

static void body(setup *s) {
    int *out, all[64];
    CHECK(cudaMalloc(&out, sizeof all));
    exchange<<<1, 64, 0, s->stream>>>(s->recv, out, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(all, out, sizeof all, cudaMemcpyDeviceToHost));
    CHECK(all[63] != (s->rank + s->size - 1) % s->size);
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
