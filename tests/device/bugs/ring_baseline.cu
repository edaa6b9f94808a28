// A ring in which each rank reads its signal's baseline and puts at once: an early neighbour has
// raised the signal before (the shape of NCCL issue 1941).
#include "common.h"

__global__ void ring(ncclWindow_t send, ncclWindow_t recv, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    int next = (dev.rank + 1) % dev.nRanks;
    ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamTagWorld(), 0};
#ifdef CORRECT
    uint64_t base = gin.readSignal(0);
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
#else
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
    uint64_t base = gin.readSignal(0);  // bug: rma.race
#endif
    if (threadIdx.x == 0) {
        gin.put(ncclTeamWorld(dev), next, recv, 0, send, 0, 64, ncclGin_SignalInc{0});
    }
    gin.waitSignal(ncclCoopCta(), 0, base + 1);
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
}

static void body(setup *s) {
    ring<<<1, 32, 0, s->stream>>>(s->send, s->recv, s->dev);
}

int main() {
    return run_ranks(body);
}
