// Shared by the measurements on a GPU: CUDA's errors, arrays on the device, and launches timed by
// events. Private to the bench.
#pragma once

#include <cuda_runtime_api.h>

#include "base/base.h"

// LS_OK, or the error of CUDA's with what failed.
int ls_gpu__cuda(cudaError_t error, const char *what);
// A device array of `bytes` (and a little more, so that none is of no size), with what the host has
// there; NULL: with zeros. The caller frees *out with cudaFree.
int ls_gpu__upload(void **out, const void *host, size_t bytes);
// Launches so often on the stream, first `warmup` times unmeasured: samples[i * stride], in
// milliseconds.
typedef struct ls_gpu_timing {
    int warmup, count;
    void *stream;
    double *samples;
    int stride;
} ls_gpu_timing;
int ls_gpu__time(const ls_gpu_timing *timing, int (*launch)(void *arg), void *arg);
