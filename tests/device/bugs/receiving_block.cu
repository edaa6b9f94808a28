// An all-to-all by GIN on one signal for all blocks, on which every block waits (rocm-systems
// 8954): a block reads its baseline while another block's puts arrive.
#include "common.h"

template <typename T>
__global__ void all_to_all(ncclWindow_t send, ncclWindow_t recv, size_t count, ncclDevComm dev) {
#ifdef CORRECT
    unsigned signal = blockIdx.x;
#else
    unsigned signal = 0;
#endif
    ncclGin gin{dev, 0};
    uint64_t base = gin.readSignal(signal);  // bug: rma.race
    ncclBarrierSession<ncclCoopCta> bar{ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x};
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);
    int tid = (int)(threadIdx.x + blockIdx.x * blockDim.x), all = (int)(blockDim.x * gridDim.x);
    size_t size = count * sizeof(T);
    for (int r = tid; r < dev.nRanks; r += all) {
        gin.put(ncclTeamWorld(dev), r, recv, (size_t)dev.rank * size, send, (size_t)r * size, size,
                ncclGin_SignalInc{signal});
    }
#ifdef CORRECT
    if (blockIdx.x == (dev.rank % all) / blockDim.x)
#endif
        gin.waitSignal(ncclCoopCta(), signal, base + (uint64_t)dev.nRanks);
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
}

static void body(setup *s) {
    all_to_all<float><<<4, 32, 0, s->stream>>>(s->send, s->recv, 16, s->dev);
    for (int r = 0; r < s->size; r++) {
        expect(s, 64, r);
    }
}

int main() {
    return run_ranks(body);
}
