// A multimem pointer is read through like any other.
#include "../bugs/common.h"

__global__ void read_all(ncclWindow_t send, ncclDevComm dev, float *out) {
    float *all = (float *)ncclGetLsaMultimemPointer(send, 0, dev);
#ifdef CORRECT
    asm volatile("multimem.ld_reduce.global.add.f32 %0, [%1];" : "=f"(*out) : "l"(all) : "memory");
#else
    *out = all[0];  // bug: call.invalid
#endif
}

static void body(setup *s) {
    float *out;
    CHECK(cudaMalloc(&out, sizeof *out));
    read_all<<<1, 1, 0, s->stream>>>(s->send, s->dev, out);
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
