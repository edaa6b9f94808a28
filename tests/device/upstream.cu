// Runs one kernel of nccl-tests; nccl_tests.py writes their text into kernels.h. The argument names
// it. Another kernel writes the buffers before, and the result is checked.
#include "bugs/common.h"
#include "multimem_ops.h"
#include "vector_types.h"
constexpr int WARP_SIZE = 32;
#include "kernels.h"

#define COUNT 1000  // floats that each rank reduces, or sends to each
#define CTAS  2

typedef void (*kernel)(ncclWindow_t, size_t, ncclWindow_t, size_t, size_t, int, ncclDevComm);
static const struct {
    const char *name;
    kernel run;
    bool sums;
} kernels[] = {{"allReduceLsaKernel", allReduceLsaKernel<float>, true},
               {"allReduceLsaVectorizedKernel", allReduceLsaVectorizedKernel<float>, true},
               {"allReduceMultimemKernel", allReduceMultimemKernel<float>, true},
               {"allReduceMultimemVectorizedKernel", allReduceMultimemVectorizedKernel<float>,
                true},
               {"NvlAlltoAllKernel", NvlAlltoAllKernel<float>, false},
               {"NvlAlltoAllKernelOptimized", NvlAlltoAllKernelOptimized<float>, false},
               {"GinAlltoAllKernel", GinAlltoAllKernel<float>, false},
               {"HybridAlltoAllKernel", HybridAlltoAllKernel<float>, false}};
static int chosen;

__global__ void fill(float *send, float *recv, size_t count, int rank) {
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
        send[i] = (float)(i % 97) + 100.0f * (float)rank;
        recv[i] = -1;
    }
}

static float expected(const setup *s, size_t i) {
    if (kernels[chosen].sums) {
        return (float)(i % 97) * (float)s->size + 50.0f * (float)(s->size * (s->size - 1));
    }
    return (float)((i % COUNT + (size_t)s->rank * COUNT) % 97) + 100.0f * (float)(i / COUNT);
}

static void body(setup *s) {
    size_t count = COUNT * (kernels[chosen].sums ? 1 : (size_t)s->size);
    fill<<<1, 64, 0, s->stream>>>((float *)s->send_memory, (float *)s->recv_memory, count, s->rank);
    auto run = kernels[chosen].run;
    run<<<CTAS, 64, 0, s->stream>>>(s->send, 0, s->recv, 0, COUNT, 0, s->dev);
    float *got = (float *)malloc(count * sizeof(float));
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(got, s->recv_memory, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        CHECK(got[i] != expected(s, i));
    }
    free(got);
}

int main(int argc, char **argv) {
    for (; argc > 1 && strcmp(kernels[chosen].name, argv[1]) != 0; chosen++) {
    }
    window_bytes = 1 << 16;
    return run_ranks(body);
}
