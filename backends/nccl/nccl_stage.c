// Moves one rank's buffers to its GPU and back, and executes on the CPUs the operations that NCCL
// lacks.
#include <string.h>

#include "backends/nccl/nccl_internal.h"

bool ls_nccl__is_device(ls_backend *backend, const void *pointer) {
    (void)backend;
    struct cudaPointerAttributes attributes;
    if (pointer == NULL || cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return attributes.type == cudaMemoryTypeDevice;
}

int ls_nccl__read_device(ls_backend *backend, void *host, const void *device, size_t bytes) {
    (void)backend;
    LS_CUDA_TRY(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return LS_OK;
}

int ls_nccl__room_for(nccl_worker *worker, int count) {
    if (count <= worker->call_room) {
        return LS_OK;
    }
    ls_free(worker->calls, (size_t)worker->call_room, sizeof *worker->calls);
    ls_free(worker->staged, (size_t)worker->call_room, sizeof *worker->staged);
    worker->calls = NULL;
    worker->staged = NULL;
    worker->call_room = 0;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof *worker->calls));
    worker->calls = memory;
    worker->call_room = count;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof *worker->staged));
    worker->staged = memory;
    return LS_OK;
}

#define ALIGNMENT ((size_t)512)

static size_t place(size_t *total, size_t bytes) {
    size_t offset = *total;
    *total += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

// Fills worker->staged[index] but for the staging memory's address: offsets stand for pointers.
static int plan_call(nccl_worker *worker, int index, size_t *total) {
    const ls_call *call = worker->calls[index];
    nccl_staged *staged = &worker->staged[index];
    ls_call_extent extent;
    LS_TRY(ls_call_check(&extent, call));
    *staged = (nccl_staged){.send = call->send,
                            .recv = call->recv,
                            .send_bytes = extent.send_bytes,
                            .recv_bytes = extent.recv_bytes};
    if (call->kind == LS_BARRIER) {
        staged->recv = (void *)(uintptr_t)place(total, ALIGNMENT);
        return LS_OK;
    }
    if (ls_nccl__is_gathered(call)) {
        size_t all = 0;
        LS_TRY(ls_size_mul(&all, (size_t)call->comm->size, ls_nccl__piece_bytes(staged)));
        staged->gathered = (char *)(uintptr_t)place(total, all);
        return LS_OK;
    }
    bool send = extent.send_bytes != 0 && !ls_nccl__is_device(NULL, call->send);
    bool recv = extent.recv_bytes != 0 && !ls_nccl__is_device(NULL, call->recv);
    staged->host_send = send ? call->send : NULL;
    staged->host_recv = recv ? call->recv : NULL;
    if (extent.in_place && send && recv) {
        const char *a = call->send, *b = call->recv;
        const char *start = a < b ? a : b;
        const char *a_end = a + extent.send_bytes, *b_end = b + extent.recv_bytes;
        size_t offset = place(total, (size_t)((a_end > b_end ? a_end : b_end) - start));
        staged->send = (const void *)(uintptr_t)(offset + (size_t)(a - start));
        staged->recv = (void *)(uintptr_t)(offset + (size_t)(b - start));
        return LS_OK;
    }
    if (send) {
        staged->send = (const void *)(uintptr_t)place(total, extent.send_bytes);
    }
    if (recv) {
        staged->recv = (void *)(uintptr_t)place(total, extent.recv_bytes);
    }
    return LS_OK;
}

static int grow_staging(nccl_worker *worker, size_t bytes) {
    if (bytes <= worker->staging_bytes) {
        return LS_OK;
    }
    if (worker->staging != NULL) {
        (void)cudaFree(worker->staging);
        worker->staging = NULL;
        worker->staging_bytes = 0;
    }
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return LS_FAIL_RANK(error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_BACKEND,
                            worker->rank,
                            "rank %d: GPU %d cannot allocate %zu bytes for its buffers: %s",
                            worker->rank, worker->device, bytes, cudaGetErrorString(error));
    }
    worker->staging = memory;
    worker->staging_bytes = bytes;
    return LS_OK;
}

static int stage_piece(nccl_worker *worker, const ls_call *call, const nccl_staged *staged) {
    size_t member = (size_t)ls_comm_member(call->comm, call->rank);
    char *piece = staged->gathered + member * ls_nccl__piece_bytes(staged);
    LS_CUDA_TRY(
        cudaMemcpyAsync(piece, call->send, staged->send_bytes, cudaMemcpyDefault, worker->stream),
        "copying to the GPU");
    LS_CUDA_TRY(cudaMemcpyAsync(piece + staged->send_bytes, &call->premul, sizeof call->premul,
                                cudaMemcpyHostToDevice, worker->stream),
                "copying to the GPU");
    return LS_OK;
}

int ls_nccl__stage_job(nccl_worker *worker, void *unused) {
    (void)unused;
    size_t total = 0;
    for (int i = 0; i < worker->call_count; i++) {
        LS_TRY(plan_call(worker, i, &total));
    }
    LS_TRY(grow_staging(worker, total));
    for (int i = 0; i < worker->call_count; i++) {
        nccl_staged *staged = &worker->staged[i];
        if (staged->host_send != NULL) {
            staged->send = worker->staging + (uintptr_t)staged->send;
            LS_CUDA_TRY(cudaMemcpyAsync((void *)(uintptr_t)staged->send, staged->host_send,
                                        staged->send_bytes, cudaMemcpyHostToDevice, worker->stream),
                        "copying to the GPU");
        }
        if (staged->host_recv != NULL || worker->calls[i]->kind == LS_BARRIER) {
            staged->recv = worker->staging + (uintptr_t)staged->recv;
        }
        if (ls_nccl__is_gathered(worker->calls[i])) {
            staged->gathered = worker->staging + (uintptr_t)staged->gathered;
            LS_TRY(stage_piece(worker, worker->calls[i], staged));
        }
    }
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "copying to the GPU");
    return LS_OK;
}

// ---- Calls that NCCL does not have --------------------------------------------------------------
// All members' inputs and factors are gathered everywhere, and each rank's CPU does the math of the
// collective, of all members, and keeps its own result. Only for those whose sides all have `count`
// elements.
static int run_gathered(char *results, const char *gathered, const ls_call *call,
                        const nccl_staged *staged) {
    int size = call->comm->size;
    void *memory = NULL, *pointers = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call)));
    int status = ls_alloc(&pointers, (size_t)size, sizeof(ls_call *));
    ls_call *calls = memory;
    const ls_call **members = pointers;
    for (int m = 0; m < size && status == LS_OK; m++) {
        const char *piece = gathered + (size_t)m * ls_nccl__piece_bytes(staged);
        calls[m] = *call;
        calls[m].rank = call->comm->ranks[m];
        calls[m].send = piece;
        calls[m].recv = results + (size_t)m * staged->recv_bytes;
        memcpy(&calls[m].premul, piece + staged->send_bytes, sizeof calls[m].premul);
        members[m] = &calls[m];
    }
    status = status == LS_OK ? ls_collective_of(call->kind)->math(members, size, NULL) : status;
    ls_free(pointers, (size_t)size, sizeof(ls_call *));
    ls_free(memory, (size_t)size, sizeof(ls_call));
    return status;
}

static int copy_out(const nccl_worker *worker, void *to, const void *from, size_t bytes) {
    LS_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, worker->stream),
                "copying a result");
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "copying a result");
    return LS_OK;
}

static int unstage_gathered(nccl_worker *worker, const ls_call *call, const nccl_staged *staged) {
    size_t size = (size_t)call->comm->size, all = size * ls_nccl__piece_bytes(staged);
    size_t member = (size_t)ls_comm_member(call->comm, call->rank);
    void *gathered = NULL, *results = NULL;
    LS_TRY(ls_alloc(&gathered, all, 1));
    int status = ls_alloc(&results, size, staged->recv_bytes);
    status = status == LS_OK ? ls_nccl__read_device(NULL, gathered, staged->gathered, all) : status;
    status = status == LS_OK ? run_gathered(results, gathered, call, staged) : status;
    if (status == LS_OK && staged->recv_bytes > 0) {
        const char *own = (char *)results + member * staged->recv_bytes;
        status = copy_out(worker, call->recv, own, staged->recv_bytes);
    }
    ls_free(results, size, staged->recv_bytes);
    ls_free(gathered, all, 1);
    return status;
}

int ls_nccl__unstage(nccl_worker *worker) {
    for (int i = 0; i < worker->call_count; i++) {
        const nccl_staged *staged = &worker->staged[i];
        if (ls_nccl__is_gathered(worker->calls[i])) {
            LS_TRY(unstage_gathered(worker, worker->calls[i], staged));
        }
        if (staged->host_recv != NULL) {
            LS_CUDA_TRY(cudaMemcpyAsync(staged->host_recv, staged->recv, staged->recv_bytes,
                                        cudaMemcpyDeviceToHost, worker->stream),
                        "copying from the GPU");
        }
    }
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "copying from the GPU");
    return LS_OK;
}
