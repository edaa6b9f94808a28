// Data by one put, its notification by another with a weak signal, which does not make earlier puts
// visible.
#include "common.h"

#ifdef CORRECT
#define NOTICE ncclGin_StrongSignalInc
#else
#define NOTICE ncclGin_WeakSignalInc
#endif

__global__ void send_notice(ncclWindow_t send, ncclWindow_t recv, int *sum, ncclDevComm dev) {
    ncclGin gin{dev, 0};
    uint64_t base = gin.readSignal(0);
    ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamTagWorld(), 0};
    bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::None);
    if (dev.rank == 0) {
        if (threadIdx.x == 0) {
            gin.put(ncclTeamWorld(dev), 1, recv, 0, send, 0, 128);  // bug: rma.race
            gin.putValue(ncclTeamWorld(dev), 1, recv, 128, 7, NOTICE{0});
        }
    } else if (dev.rank == 1) {
        gin.waitSignal(ncclCoopCta(), 0, base + 1);
        sum[threadIdx.x] = ((int *)ncclGetLocalPointer(recv, 0))[threadIdx.x];
    }
    gin.flush(ncclCoopCta());
    bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

static void body(setup *s) {
    int *sum, all[32];
    CHECK(cudaMalloc(&sum, sizeof all));
    send_notice<<<1, 32, 0, s->stream>>>(s->send, s->recv, sum, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(all, sum, sizeof all, cudaMemcpyDeviceToHost));
    CHECK(s->rank == 1 && all[31] != 0x01010101);
    CHECK(cudaFree(sum));
}

int main() {
    return run_ranks(body);
}
