// A put over memory that its owner has read, behind a barrier that does not acquire: the reads have
// ended. Without the barrier they may not.
#include "../bugs/common.h"

__global__ void swap(ncclWindow_t send, ncclWindow_t recv, ncclDevComm dev, int *out) {
    ncclCoopCta cta;
    ncclGin gin{dev, 0};
    ncclGinBarrierSession<ncclCoopCta> bar{cta, gin, ncclTeamTagWorld(), 0};
    int *own = (int *)ncclGetLocalPointer(recv, 0);
    if (threadIdx.x == 0) {
        *out = own[0];  // bug: rma.race
    }
#ifdef CORRECT
    bar.sync(cta, cuda::memory_order_release, ncclGinFenceLevel::None);
#endif
    int peer = (dev.rank + 1) % dev.nRanks;
    if (threadIdx.x == 0) {
        gin.put(ncclTeamWorld(dev), peer, recv, 0, send, 0, 4, ncclGin_SignalInc{0});
    }
    gin.waitSignal(cta, 0, 1);
    gin.flush(cta);
}

static void body(setup *s) {
    int *out;
    CHECK(cudaMalloc(&out, sizeof *out));
    swap<<<1, 32, 0, s->stream>>>(s->send, s->recv, s->dev, out);
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
