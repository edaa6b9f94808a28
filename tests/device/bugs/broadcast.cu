// A broadcast by GIN in which only block 0 puts, while every block waits for its increment from a
// baseline that its own barrier orders: a pattern of a review of RCCL (rocm-systems 11142).
#include "common.h"

#define BLOCKS 3

__global__ void broadcast(ncclWindow_t send, ncclWindow_t recv, size_t bytes, ncclDevComm dev) {
#ifdef CORRECT
    unsigned signal = blockIdx.x;
#else
    unsigned signal = 0;
#endif
    ncclGin gin{dev, 0};
    uint64_t base = gin.readSignal(signal);  // bug: rma.race
    ncclBarrierSession<ncclCoopCta> bar{ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x};
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
#ifdef CORRECT
    bool puts = true;
    size_t part = bytes / BLOCKS, at = part * blockIdx.x;
#else
    bool puts = blockIdx.x == 0;
    size_t part = bytes, at = 0;
#endif
    if (dev.rank == 0 && puts) {
        for (int r = 1 + (int)threadIdx.x; r < dev.nRanks; r += blockDim.x) {
            gin.put(ncclTeamWorld(dev), r, recv, at, send, at, part, ncclGin_SignalInc{signal});
        }
    }
    if (dev.rank != 0) {
        gin.waitSignal(ncclCoopCta(), signal, base + 1);
    }
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_release, ncclGinFenceLevel::None);
}

static void body(setup *s) {
    broadcast<<<BLOCKS, 64, 0, s->stream>>>(s->send, s->recv, 96, s->dev);
    if (s->rank != 0) {
        expect(s, 96, 0);
    }
}

int main() {
    return run_ranks(body);
}
