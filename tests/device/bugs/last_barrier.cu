// A put without a wait, and a barrier without a fence before its data is read.
#include "common.h"

#ifdef CORRECT
#define FENCE ncclGinFenceLevel::Put
#else
#define FENCE ncclGinFenceLevel::None
#endif

__global__ void exchange(ncclWindow_t send, ncclWindow_t recv, int *out, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamTagWorld(), 0};
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
    if (threadIdx.x == 0) {
        gin.put(ncclTeamWorld(dev), (dev.rank + 1) % dev.nRanks, recv, 0, send, 0,
                128);  // bug: rma.race
    }
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel, FENCE);
    out[threadIdx.x] = ((int *)ncclGetLocalPointer(recv, 0))[threadIdx.x];
}

static void body(setup *s) {
    int *out, all[32];
    CHECK(cudaMalloc(&out, sizeof all));
    exchange<<<1, 32, 0, s->stream>>>(s->send, s->recv, out, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(all, out, sizeof all, cudaMemcpyDeviceToHost));
    CHECK(all[0] != ((s->rank + s->size - 1) % s->size + 1) * 0x01010101);
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
