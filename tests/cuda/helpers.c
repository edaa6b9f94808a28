// Helpers of the tests of the CUDA kernels.
#include <math.h>

#include "tests/cuda/test.h"

int checks, failures;
bool brief;
static uint64_t state = 0x9E3779B97F4A7C15u;

uint64_t random_u64(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545F4914F6CDD1Du;
}

size_t below(size_t limit) {
    return (size_t)(random_u64() % limit);
}

void need(bool good, const char *what) {
    if (!good) {
        printf("FATAL %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
}

void need_ok(int status, const char *what) {
    if (status != LS_OK) {
        printf("FATAL %s: %s\n", what, ls_error_last()->text);
        exit(1);
    }
}

// ---- Memory on both sides -----------------------------------------------------------------------
void *host(size_t bytes) {
    void *memory = calloc(bytes + 1, 1);
    need(memory != NULL, "host memory");
    return memory;
}

// A copy of in [bytes] on the GPU; NULL: filled with 0xA5, which reveals unwritten bytes.
void *device(const void *in, size_t bytes) {
    void *memory = NULL;
    need(cudaMalloc(&memory, bytes + 1) == cudaSuccess, "cudaMalloc");
    if (in != NULL) {
        need(cudaMemcpy(memory, in, bytes, cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
    } else {
        need(cudaMemset(memory, 0xA5, bytes + 1) == cudaSuccess, "cudaMemset");
    }
    return memory;
}

void *back(const void *from, size_t bytes) {
    void *memory = host(bytes);
    need(cudaDeviceSynchronize() == cudaSuccess, "the kernel");
    need(cudaMemcpy(memory, from, bytes, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
    return memory;
}

static bool nan_element(const void *element, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) && isnan(ls_element_to_f64(element, dtype));
}

// Same bits, or both NaN.
void expect_same(const char *what, const void *expected, const void *device_actual, ls_dtype dtype,
                 size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    char *actual = back(device_actual, count * bytes);
    checks++;
    for (size_t i = 0; i < count; i++) {
        const char *a = (const char *)expected + i * bytes, *b = actual + i * bytes;
        if (memcmp(a, b, bytes) != 0 && !(nan_element(a, dtype) && nan_element(b, dtype))) {
            printf("FAIL %s: element %zu of %zu %s: expected %.17g, got %.17g\n", what, i, count,
                   ls_dtype_name(dtype), ls_element_to_f64(a, dtype), ls_element_to_f64(b, dtype));
            failures++;
            break;
        }
    }
    free(actual);
}

void expect(bool good, const char *what) {
    checks++;
    if (!good) {
        printf("FAIL %s\n", what);
        failures++;
    }
}

// Any bits: also NaN, infinities, subnormals and both zeros.
void random_bits(void *out, ls_dtype dtype, size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < count * bytes; i++) {
        ((unsigned char *)out)[i] = (unsigned char)(random_u64() >> 40);
    }
    const double edges[] = {0.0,  -0.0, INFINITY, -INFINITY, NAN,  1.0,
                            -1.0, 448,  57344,    65504,     1e300};
    for (size_t i = 0; i < sizeof edges / sizeof *edges && i < count; i++) {
        ls_element_from_f64((char *)out + below(count) * bytes, dtype, edges[i]);
    }
}

// Numbers of similar size, so that sums round but stay finite.
void random_numbers(void *out, ls_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double number = ((double)(random_u64() >> 11) * 0x1p-53 - 0.5) * 8;
        ls_element_from_f64((char *)out + i * ls_dtype_bytes(dtype), dtype, number);
    }
}
