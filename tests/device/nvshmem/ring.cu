// NVSHMEM: a ring by put with signal, an all-to-all by put and barrier, and a flag after a fence.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;  // of this process

__global__ void ring(int *to, int *from, uint64_t *signal) {
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    from[threadIdx.x] = me * 100 + (int)threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        nvshmem_putmem_signal_nbi(to, from, 32 * sizeof(int), signal, 1, NVSHMEM_SIGNAL_ADD,
                                  (me + 1) % n);
        nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, 1);
    }
    __syncthreads();
    if (to[threadIdx.x] != (me + n - 1) % n * 100 + (int)threadIdx.x) {
        printf("ring: wrong at %d\n", (int)threadIdx.x);
    }
}

__global__ void exchange(int *to, int *from) {
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    for (int pe = 0; pe < n; pe++) {
        nvshmemx_int_put_nbi_block(to + me * 32, from, 32, pe);
    }
#ifdef CORRECT
    nvshmemx_barrier_all_block();
#else
    nvshmemx_sync_all_block();
#endif
    if (to[(me + 1) % n * 32 + (int)threadIdx.x] < 0) {  // bug: rma.race
        printf("exchange: wrong\n");
    }
}

__global__ void flag(int *data, int *raised, int *out) {
    int me = nvshmem_my_pe();
    if (me == 0) {
        nvshmem_int_put_nbi(data, out, 8, 1);  // bug: rma.race
#ifdef CORRECT
        nvshmem_fence();
#endif
        nvshmem_int_p(raised, 1, 1);
    } else if (me == 1) {
        nvshmem_int_wait_until(raised, NVSHMEM_CMP_EQ, 1);
        out[9] = data[7];
    }
    nvshmem_quiet();
}

int main() {
    nvshmem_init();
    calls += 1;
    int n = nvshmem_n_pes(), me = nvshmem_my_pe();
    int *to = (int *)nvshmem_malloc(4096), *from = (int *)nvshmem_malloc(4096), value = -1;
    uint64_t *signal = (uint64_t *)nvshmem_malloc(64);
    cudaMemset(to, 0, 4096);
    cudaMemset(from, 0, 4096);
    cudaMemset(signal, 0, 64);
    nvshmem_barrier_all();
    ring<<<1, 32>>>(to, from, signal);
    cudaDeviceSynchronize();
    cudaMemcpy(&value, to + 31, 4, cudaMemcpyDeviceToHost);
    nvshmem_barrier_all();
    exchange<<<1, 32>>>(to, from);
    cudaDeviceSynchronize();
    nvshmem_barrier_all();
    flag<<<1, 1>>>(to + 256, to + 512, to + 768);
    cudaDeviceSynchronize();
    nvshmem_free(to);
    nvshmem_free(from);
    nvshmem_free(signal);
    nvshmem_finalize();
    return calls == 1 && value == (me + n - 1) % n * 100 + 31 ? 0 : 1;
}
