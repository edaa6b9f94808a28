// A load through an LSA pointer beyond the end of a peer's window.
#include "../bugs/common.h"

__global__ void load(ncclWindow_t recv, int *out, ncclDevComm dev) {
#ifdef CORRECT
    int last = 1023;
#else
    int last = 1024;
#endif
    out[0] = ((int *)ncclGetLsaPointer(recv, 0, 1))[last];  // bug: buffer.too_small
}

static void body(setup *s) {
    int *out;
    CHECK(cudaMalloc(&out, 4));
    load<<<1, 1, 0, s->stream>>>(s->recv, out, s->dev);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
