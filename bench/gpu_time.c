// CUDA's errors, arrays on the device, and launches timed by events.
#include "bench/gpu_time.h"

#define LEAST_BYTES ((size_t)64)

int ls_gpu__cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) {
        return LS_OK;
    }
    return LS_FAIL(error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_BACKEND, "%s: %s",
                   what, cudaGetErrorString(error));
}

int ls_gpu__upload(void **out, const void *host, size_t bytes) {
    LS_TRY(ls_gpu__cuda(cudaMalloc(out, bytes + LEAST_BYTES), "cudaMalloc"));
    if (host != NULL) {
        return ls_gpu__cuda(cudaMemcpy(*out, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    LS_TRY(ls_gpu__cuda(cudaMemset(*out, 0, bytes), "cudaMemset"));
    return ls_gpu__cuda(cudaDeviceSynchronize(), "cudaMemset");  // no stream waits for it
}

static int time_one(float *ms, cudaEvent_t start, cudaEvent_t end, void *stream,
                    int (*launch)(void *arg), void *arg) {
    LS_TRY(ls_gpu__cuda(cudaEventRecord(start, stream), "cudaEventRecord"));
    LS_TRY(launch(arg));
    LS_TRY(ls_gpu__cuda(cudaEventRecord(end, stream), "cudaEventRecord"));
    LS_TRY(ls_gpu__cuda(cudaEventSynchronize(end), "the kernels"));
    return ls_gpu__cuda(cudaEventElapsedTime(ms, start, end), "cudaEventElapsedTime");
}

int ls_gpu__time(const ls_gpu_timing *timing, int (*launch)(void *arg), void *arg) {
    cudaEvent_t start = NULL, end = NULL;
    LS_TRY(ls_gpu__cuda(cudaEventCreate(&start), "cudaEventCreate"));
    int status = ls_gpu__cuda(cudaEventCreate(&end), "cudaEventCreate");
    for (int i = -timing->warmup; i < timing->count && status == LS_OK; i++) {
        float ms = 0;
        status = time_one(&ms, start, end, timing->stream, launch, arg);
        if (i >= 0) {
            timing->samples[i * timing->stride] = (double)ms;
        }
    }
    (void)cudaEventDestroy(start);
    (void)(end != NULL && cudaEventDestroy(end));
    return status;
}
