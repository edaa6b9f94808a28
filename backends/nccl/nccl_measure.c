// Tools to measure with: GPUs, their memory, and the time of calls.
#include <stdio.h>

#include "backends/nccl/nccl_internal.h"

// ---- Resources ----------------------------------------------------------------------------------
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
    LS_TRY(ls_alloc(&memory, (size_t)owner->held, sizeof(device_job)));
    device_job *jobs = memory;
    jobs[index] = *job;
    int status = ls_nccl__on_all(owner, run_device_job, jobs, sizeof *jobs);
    *job = jobs[index];
    ls_free(memory, (size_t)owner->held, sizeof(device_job));
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
    int warmup, batches, repetitions;
    double *seconds;  // [batches] of this rank, `stride` apart
    int stride;
} time_job;

static int time_batch(nccl_worker *worker, const time_job *job, cudaEvent_t start, cudaEvent_t end,
                      double *seconds) {
    LS_CUDA_TRY(cudaEventRecord(start, worker->stream), "cudaEventRecord");
    for (int i = 0; i < job->repetitions; i++) {
        LS_TRY(ls_nccl__issue(worker));
    }
    LS_CUDA_TRY(cudaEventRecord(end, worker->stream), "cudaEventRecord");
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "timing");
    float milliseconds = 0;
    LS_CUDA_TRY(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    *seconds = (double)milliseconds / 1e3 / job->repetitions;
    return LS_OK;
}

static int run_time_job(nccl_worker *worker, void *arg) {
    const time_job *job = arg;
    if (worker->call_count == 0) {
        return LS_OK;
    }
    cudaEvent_t start = NULL, end = NULL;
    LS_CUDA_TRY(cudaEventCreate(&start), "cudaEventCreate");
    int status = ls_nccl__cuda(cudaEventCreate(&end), "cudaEventCreate");
    for (int i = 0; i < job->warmup && status == LS_OK; i++) {
        status = ls_nccl__issue(worker);
    }
    if (status == LS_OK) {
        status = ls_nccl__cuda(cudaStreamSynchronize(worker->stream), "warming up");
    }
    for (int b = 0; b < job->batches && status == LS_OK; b++) {
        status = time_batch(worker, job, start, end, &job->seconds[b * job->stride]);
    }
    (void)cudaEventDestroy(start);
    if (end != NULL) {
        (void)cudaEventDestroy(end);
    }
    return status;
}

int ls_nccl_time_each(double *seconds, ls_backend *backend, const ls_call *calls, int call_count,
                      int warmup, int batches, int repetitions) {
    nccl_owner *owner = backend->impl;
    LS_ASSERT(call_count >= 1 && call_count <= owner->held);
    LS_ASSERT(batches >= 1 && repetitions >= 1 && warmup >= 1);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)owner->held, sizeof(time_job)));
    time_job *jobs = memory;
    int status = LS_OK;
    for (int i = 0; i < owner->held; i++) {
        owner->workers[i].call_count = 0;
    }
    for (int i = 0; i < call_count && status == LS_OK; i++) {
        nccl_worker *worker = &owner->workers[ls_world_held_index(backend->world, calls[i].rank)];
        jobs[worker->index] = (time_job){.warmup = warmup,
                                         .batches = batches,
                                         .repetitions = repetitions,
                                         .seconds = seconds + i,
                                         .stride = call_count};
        status = ls_nccl__room_for(worker, 1);
        if (status == LS_OK) {
            worker->calls[0] = &calls[i];
            worker->call_count = 1;
        }
    }
    status = status == LS_OK ? ls_nccl__on_all(owner, ls_nccl__stage_job, NULL, 0) : status;
    if (status == LS_OK) {
        ls_nccl__set_deadline(owner);
        status = ls_nccl__on_all(owner, run_time_job, jobs, sizeof *jobs);
    }
    ls_free(memory, (size_t)owner->held, sizeof(time_job));
    return status;
}

int ls_nccl_time(double *seconds, ls_backend *backend, const ls_call *calls, int call_count,
                 int warmup, int repetitions) {
    double *each = NULL;
    *seconds = 0;
    LS_TRY(ls_alloc((void **)&each, (size_t)call_count, sizeof *each));
    int status = ls_nccl_time_each(each, backend, calls, call_count, warmup, 1, repetitions);
    for (int i = 0; i < call_count && status == LS_OK; i++) {
        *seconds = each[i] > *seconds ? each[i] : *seconds;
    }
    ls_free(each, (size_t)call_count, sizeof *each);
    return status;
}

// ---- The ranks' own threads ---------------------------------------------------------------------
typedef struct rank_job {
    int (*job)(void *arg, int rank, void *stream);
    void *arg;
} rank_job;

static int run_rank_job(nccl_worker *worker, void *arg) {
    const rank_job *job = arg;
    return job->job(job->arg, worker->rank, worker->stream);
}

int ls_nccl_on_ranks(ls_backend *backend, int (*job)(void *arg, int rank, void *stream),
                     void *arg) {
    rank_job one = {.job = job, .arg = arg};
    return ls_nccl__on_all(backend->impl, run_rank_job, &one, 0);
}

// ---- For programs that hold device memory -------------------------------------------------------
int ls_nccl__enter_rank(ls_backend *backend, int rank) {
    const nccl_owner *owner = backend->impl;
    int index = ls_world_held_index(backend->world, rank);
    LS_ASSERT(index >= 0);
    LS_CUDA_TRY(cudaSetDevice(owner->workers[index].device), "cudaSetDevice");
    return LS_OK;
}
