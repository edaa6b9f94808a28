// The next piece is written into a put's source before a flush.
#include "common.h"

__global__ void pieces(ncclWindow_t send, ncclWindow_t recv, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    uint64_t base = gin.readSignal(0);
    ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamTagWorld(), 0};
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
    int peer = (dev.rank + 1) % dev.nRanks, *from = (int *)ncclGetLocalPointer(send, 0);
    for (int piece = 0; piece < 2; piece++) {
        from[threadIdx.x] = piece;  // bug: rma.race
        ncclCoopCta().sync();
        if (threadIdx.x == 0) {
            gin.put(ncclTeamWorld(dev), peer, recv, (size_t)piece * 128, send, 0, 128,
                    ncclGin_SignalInc{0});
        }
#ifdef CORRECT
        gin.flush(ncclCoopCta());
#endif
    }
    gin.waitSignal(ncclCoopCta(), 0, base + 2);
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
}

static void body(setup *s) {
    pieces<<<1, 32, 0, s->stream>>>(s->send, s->recv, s->dev);
}

int main() {
    return run_ranks(body);
}
