// A flag that is raised on all ranks by multicast before they have set up their memory of it, which
// then overwrites the flag, and its owner waits forever (NCCL pull request 2290, where the library
// binds the memory and the copy engine raises the flag).
#include "common.h"

__global__ void notify(ncclWindow_t recv, ncclDevComm dev) {
    ncclCoopCta cta;
    ncclLsaBarrierSession<ncclCoopCta> bar{cta, dev, ncclTeamTagLsa(), 0, true};
    int *all = (int *)ncclGetLsaMultimemPointer(recv, 0, dev) + dev.rank;
    int *own = (int *)ncclGetLocalPointer(recv, 0);
    if (threadIdx.x < dev.nRanks) {
        own[threadIdx.x] = 0;  // bug: rma.race
    }
#ifdef CORRECT
    bar.sync(cta, cuda::memory_order_acq_rel);
#endif
    if (threadIdx.x == 0) {
        asm volatile("multimem.st.release.sys.global.u32 [%0], %1;" ::"l"(all), "r"(1) : "memory");
        for (int r = 0; r < dev.nRanks; r++) {
            cuda::atomic_ref<int, cuda::thread_scope_system> flag(own[r]);
            while (flag.load(cuda::memory_order_acquire) == 0) {
            }
        }
    }
}

static void body(setup *s) {
    notify<<<1, 32, 0, s->stream>>>(s->recv, s->dev);
}

int main() {
    return run_ranks(body);
}
