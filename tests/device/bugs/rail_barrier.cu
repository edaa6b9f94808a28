// An all-to-all whose barrier of all ranks uses the storage of a barrier of rails (a test of RCCL,
// in the review of rocm-systems 10388): where a host has several ranks, a rail has fewer than all.
#include "common.h"

__global__ void all_to_all(ncclWindow_t send, ncclWindow_t recv, size_t size, ncclDevComm dev) {
    ncclCoopCta cta;
    unsigned signal = blockIdx.x;
    ncclGin gin{dev, 0};
    uint64_t base = gin.readSignal(signal);
#ifdef CORRECT
    ncclGinBarrierSession<ncclCoopCta> bar{cta, gin, ncclTeamTagWorld(), blockIdx.x};
#else
    ncclGinBarrierSession<ncclCoopCta> bar{cta, gin, ncclTeamWorld(dev), dev.railGinBarrier,
                                           blockIdx.x};
#endif
    bar.sync(cta, cuda::memory_order_acquire, ncclGinFenceLevel::None);  // bug: call.invalid
    if (blockIdx.x == 0) {
        for (int r = (int)threadIdx.x; r < dev.nRanks; r += (int)blockDim.x) {
            gin.put(ncclTeamWorld(dev), r, recv, (size_t)dev.rank * size, send, (size_t)r * size,
                    size, ncclGin_SignalInc{signal});
        }
        gin.waitSignal(cta, signal, base + (uint64_t)dev.nRanks);
    }
    gin.flush(cta);
}

static void body(setup *s) {
    all_to_all<<<2, 32, 0, s->stream>>>(s->send, s->recv, 64, s->dev);
    for (int r = 0; r < s->size; r++) {
        expect(s, 64, r);
    }
}

int main() {
    return run_ranks(body);
}
