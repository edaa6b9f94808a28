// Rank 0 waits for a signal that rank 1 sends only after a barrier at which rank 0 never arrives.
#include "../bugs/common.h"

__global__ void circle(ncclWindow_t recv, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamTagWorld(), 0};
    if (dev.rank == 0) {
        gin.waitSignal(ncclCoopCta(), 3, 1);  // bug: deadlock.cycle
    }
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
    if (dev.rank == 1 && threadIdx.x == 0) {
        gin.signal(ncclTeamWorld(dev), 0, ncclGin_SignalInc{3});
    }
}

__global__ void straight(ncclWindow_t recv, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamTagWorld(), 0};
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
    if (dev.rank == 1 && threadIdx.x == 0) {
        gin.signal(ncclTeamWorld(dev), 0, ncclGin_SignalInc{3});
    }
    if (dev.rank == 0) {
        gin.waitSignal(ncclCoopCta(), 3, 1);
    }
}

static void body(setup *s) {
#ifdef CORRECT
    straight<<<1, 32, 0, s->stream>>>(s->recv, s->dev);
#else
    circle<<<1, 32, 0, s->stream>>>(s->recv, s->dev);
#endif
}

int main() {
    return run_ranks(body);
}
