// A flag in a peer's memory that is raised without a fence of the system's scope after the data.
#include "common.h"

__global__ void notify(ncclWindow_t send, ncclWindow_t recv, int *out, ncclDevComm dev) {
    int next = (dev.rank + 1) % dev.nRanks;
    int *there = (int *)ncclGetLsaPointer(recv, 0, next);
    int *here = (int *)ncclGetLocalPointer(recv, 0);
    there[threadIdx.x] = dev.rank;  // bug: rma.race
#ifdef CORRECT
    __threadfence_system();
#else
    __threadfence();
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_system> raised(there[64]), own(here[64]);
        raised.store(1, cuda::memory_order_relaxed);
        while (own.load(cuda::memory_order_acquire) == 0) {
        }
    }
    __syncthreads();
    out[threadIdx.x] = here[threadIdx.x];
}

static void body(setup *s) {
    int *out, all[64];
    CHECK(cudaMalloc(&out, sizeof all));
    notify<<<1, 64, 0, s->stream>>>(s->send, s->recv, out, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(all, out, sizeof all, cudaMemcpyDeviceToHost));
    CHECK(all[63] != (s->rank + s->size - 1) % s->size);
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
