// A put by a whole block. Its leader waits for the block a second time, where the other threads do
// not arrive (the shape of NCCL issue 1893).
#include "common.h"

template <class Coop>
__device__ void put_by(ncclGin gin, Coop coop, ncclWindow_t send, ncclWindow_t recv,
                       ncclDevComm dev) {
    coop.sync();
    if (coop.thread_rank() == 0) {
#ifdef CORRECT
        gin.put(ncclTeamWorld(dev), dev.rank ^ 1, recv, 0, send, 0, 64, ncclGin_SignalInc{0});
#else
        gin.put(ncclTeamWorld(dev), dev.rank ^ 1, recv, 0, send, 0, 64, ncclGin_SignalInc{0},
                ncclGin_None{}, coop);  // bug: call.invalid
#endif
    }
    coop.sync();
}

__global__ void ping_pong(ncclWindow_t send, ncclWindow_t recv, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    uint64_t base = gin.readSignal(0);
    ncclBarrierSession<ncclCoopCta> bar{ncclCoopCta(), ncclTeamTagWorld(), gin, 0};
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
    if (dev.rank == 0) {
        put_by(gin, ncclCoopCta(), send, recv, dev);
        gin.waitSignal(ncclCoopCta(), 0, base + 1);
    } else if (dev.rank == 1) {
        gin.waitSignal(ncclCoopCta(), 0, base + 1);
        put_by(gin, ncclCoopCta(), send, recv, dev);
    }
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
}

static void body(setup *s) {
    ping_pong<<<1, 64, 0, s->stream>>>(s->send, s->recv, s->dev);
}

int main() {
    return run_ranks(body);
}
