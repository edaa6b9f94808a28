// Shared memory of a block that is read before a barrier, and the corrected version.
#include "../bugs/common.h"

__global__ void turn(int *out) {
    __shared__ int part[64], other;
    part[threadIdx.x] = (int)threadIdx.x;  // bug: rma.race
    if (threadIdx.x == 0) {
        other = 5;
    }
#ifdef CORRECT
    __syncthreads();
#endif
    int value = part[63 - threadIdx.x];
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = value + other;
}

template <typename T> __global__ void sum(const T *in, T *out) {
    extern __shared__ char raw[];
    T *all = (T *)raw;
    all[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) {
            all[threadIdx.x] += all[threadIdx.x + half];
        }
        __syncthreads();
    }
    T lanes = __shfl_xor_sync(~0u, (T)threadIdx.x, 1);
    if (threadIdx.x == 0) {
        out[0] = all[0];
        atomicAdd(out, lanes);
    }
}

static void body(setup *s) {
    int *out, all[128];
    CHECK(cudaMalloc(&out, sizeof all));
    turn<<<2, 64, 0, s->stream>>>(out);
    CHECK(cudaMemcpyAsync(all, out, sizeof all, cudaMemcpyDeviceToHost, s->stream));
    CHECK(cudaStreamSynchronize(s->stream));
#ifdef CORRECT
    CHECK(all[0] != 68 || all[127] != 5);
#endif
    sum<<<1, dim3(64), 64 * sizeof(int), s->stream>>>(out, out + 100);
    CHECK(cudaMemcpy(all, out, sizeof all, cudaMemcpyDeviceToHost));
#ifdef CORRECT
    CHECK(all[100] != 64 * 63 / 2 + 64 * 5 + 1);
#endif
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
