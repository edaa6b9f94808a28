// What there is to measure with: GPUs, their memory, and the time of calls.
#include <stdio.h>

#include "collectives/backend/nccl_internal.h"

// ---- What there is ------------------------------------------------------------------------------
int ls_nccl_device_count(void) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary) {
        int driver = 0;
        (void)cudaDriverGetVersion(&driver);
        (void)(driver == 0
                   ? LS_FAIL(LS_ERR_BACKEND, "this machine has no NVIDIA driver")
                   : LS_FAIL(LS_ERR_BACKEND,
                             "the NVIDIA driver supports CUDA %d.%d, this build needs %d.%d",
                             driver / 1000, driver / 10 % 100, CUDART_VERSION / 1000,
                             CUDART_VERSION / 10 % 100));
        return 0;
    }
    if (error != cudaSuccess || count == 0) {
        (void)LS_FAIL(LS_ERR_BACKEND, "this machine has no usable GPU: %s",
                      cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error));
        return 0;
    }
    return count;
}

int ls_nccl_describe(char *out, size_t out_bytes) {
    const ls_nccl_library *library = NULL;
    LS_TRY(ls_nccl__load(&library));
    int count = ls_nccl_device_count(), runtime = CUDART_VERSION;
    if (count == 0) {
        ls_error_clear();
        (void)ls_nccl_device_count();
        return ls_error_wrap("NCCL %s was found", library->text);
    }
    struct cudaDeviceProp properties;
    LS_CUDA_TRY(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    (void)snprintf(out, out_bytes, "nccl %s, cuda %d.%d, %d GPU%s: %s", library->text,
                   runtime / 1000, runtime / 10 % 100, count, count == 1 ? "" : "s",
                   properties.name);
    return LS_OK;
}

// ---- Measuring ----------------------------------------------------------------------------------
typedef struct device_job {
    void *device;
    const void *from;
    void *to;
    size_t bytes;
    bool allocate, release;
} device_job;

static int run_device_job(nccl_worker *worker, void *arg) {
    device_job *job = arg;
    if (job->allocate) {
        const ls_nccl_library *library = worker->owner->library;
        return ls_nccl__status(library, library->ncclMemAlloc(&job->device, job->bytes),
                               "ncclMemAlloc");
    }
    if (job->release) {
        (void)worker->owner->library->ncclMemFree(job->device);
    }
    if (job->to != NULL) {
        LS_CUDA_TRY(cudaMemcpy(job->to, job->from, job->bytes, cudaMemcpyDefault), "cudaMemcpy");
    }
    return LS_OK;
}

static int on_rank(ls_backend *backend, int rank, device_job *job) {
    nccl_owner *owner = backend->impl;
    int index = ls_world_held_index(backend->world, rank);
    LS_ASSERT(index >= 0);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)owner->held, sizeof(device_job)));
    device_job *jobs = memory;
    jobs[index] = *job;
    int status = ls_nccl__on_all(owner, run_device_job, jobs, sizeof *jobs);
    *job = jobs[index];
    ls_free(NULL, memory, (size_t)owner->held, sizeof(device_job));
    return status;
}

int ls_nccl_alloc(void **out, ls_backend *backend, int rank, size_t bytes) {
    device_job job = {.bytes = bytes, .allocate = true};
    int status = on_rank(backend, rank, &job);
    *out = job.device;
    return status;
}

void ls_nccl_free(ls_backend *backend, int rank, void *pointer) {
    if (pointer != NULL) {
        device_job job = {.device = pointer, .release = true};
        (void)on_rank(backend, rank, &job);
    }
}

int ls_nccl_copy_in(ls_backend *backend, int rank, void *device, const void *host, size_t bytes) {
    device_job job = {.from = host, .to = device, .bytes = bytes};
    return on_rank(backend, rank, &job);
}

int ls_nccl_copy_out(ls_backend *backend, int rank, void *host, const void *device, size_t bytes) {
    device_job job = {.from = device, .to = host, .bytes = bytes};
    return on_rank(backend, rank, &job);
}

typedef struct time_job {
    int warmup, repetitions;
    double seconds;
} time_job;

static int run_time_job(nccl_worker *worker, void *arg) {
    time_job *job = arg;
    if (worker->call_count == 0) {
        return LS_OK;
    }
    cudaEvent_t start = NULL, end = NULL;
    LS_CUDA_TRY(cudaEventCreate(&start), "cudaEventCreate");
    LS_CUDA_TRY(cudaEventCreate(&end), "cudaEventCreate");
    for (int i = -job->warmup; i < job->repetitions; i++) {
        if (i == 0) {
            LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "warming up");
            LS_CUDA_TRY(cudaEventRecord(start, worker->stream), "cudaEventRecord");
        }
        LS_TRY(ls_nccl__issue(worker));
    }
    LS_CUDA_TRY(cudaEventRecord(end, worker->stream), "cudaEventRecord");
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "timing");
    float milliseconds = 0;
    LS_CUDA_TRY(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    job->seconds = (double)milliseconds / 1e3 / job->repetitions;
    (void)cudaEventDestroy(start);
    (void)cudaEventDestroy(end);
    return LS_OK;
}

int ls_nccl_time(double *seconds, ls_backend *backend, const ls_call *calls, int call_count,
                 int warmup, int repetitions) {
    nccl_owner *owner = backend->impl;
    LS_ASSERT(call_count == owner->held && repetitions >= 1 && warmup >= 1);
    *seconds = 0;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)owner->held, sizeof(time_job)));
    time_job *jobs = memory;
    int status = LS_OK;
    for (int i = 0; i < call_count && status == LS_OK; i++) {
        nccl_worker *worker = &owner->workers[ls_world_held_index(backend->world, calls[i].rank)];
        jobs[worker->index] = (time_job){.warmup = warmup, .repetitions = repetitions};
        status = ls_nccl__room_for(worker, 1);
        if (status == LS_OK) {
            worker->calls[0] = &calls[i];
            worker->call_count = 1;
        }
    }
    if (status == LS_OK) {
        status = ls_nccl__on_all(owner, ls_nccl__stage_job, NULL, 0);
    }
    if (status == LS_OK) {
        ls_nccl__set_deadline(owner);
        status = ls_nccl__on_all(owner, run_time_job, jobs, sizeof *jobs);
    }
    for (int i = 0; i < owner->held; i++) {
        *seconds = jobs[i].seconds > *seconds ? jobs[i].seconds : *seconds;
    }
    ls_free(NULL, memory, (size_t)owner->held, sizeof(time_job));
    return status;
}
