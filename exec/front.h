// Shared by the files of the NCCL frontend: communicators, calls on their way, CUDA's driver.
#pragma once

#include <stdbool.h>

#include "collectives/collectives.h"
#include "exec/client.h"
#include "exec/nccl_api.h"

#define LS_FRONT_OPS_MAX 64  // premultiplied sums of a communicator
#define LS_FRONT_MAGIC   UINT64_C(0x6c6f636b73746570)

typedef enum ls_front_state {
    LS_FRONT_JOINING,  // its slot is not answered yet
    LS_FRONT_READY,
    LS_FRONT_FAILED,
} ls_front_state;

// A call whose memory is still in use.
typedef struct ls_front_flight {
    struct ls_front_flight *next;
    uint32_t slot;
    ls_client_region send, recv;
} ls_front_flight;

struct ls_nccl_comm {
    uint64_t magic;  // LS_FRONT_MAGIC
    uint32_t number, slot;
    ls_front_state state;
    bool blocking;
    bool revoked;
    bool observed;  // the real library makes its calls
    int rank, size, device;
    ls_front_flight *flights, *flights_last;
    bool op_used[LS_FRONT_OPS_MAX];
    double op_scalar[LS_FRONT_OPS_MAX];
    int op_type[LS_FRONT_OPS_MAX];
};

// ---- front_nccl.c -------------------------------------------------------------------------------
// The sentence of this thread's last refusal.
ncclResult_t ls_front__fail(ncclResult_t result, const char *format, ...) LS_PRINTF(2, 3);
ncclResult_t ls_front__fail_last(void);  // the client's sentence
// Whether calls can be made on it: ready, in a run that is active.
ncclResult_t ls_front__check(ncclComm_t comm, const char *what);
// Whether it is one.
ncclResult_t ls_front__check_handle(ncclComm_t comm, const char *what);
// Checks whether it is ready; with `wait`, waits until it is.
ncclResult_t ls_front__settle(ncclComm_t comm, bool wait);

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

// ---- front_end.c --------------------------------------------------------------------------------
// Gives back the memory of calls that are over.
void ls_front__reclaim(ncclComm_t comm);

// ---- front_calls.c ------------------------------------------------------------------------------
// A call as the program makes it.
typedef struct ls_front_issue {
    ls_kind kind;
    const void *send;
    void *recv;
    size_t count;
    int type, op, root;
    ncclComm_t comm;
    cudaStream_t stream;
    const char *purpose;  // not NULL: a barrier of the host, which waits for it
} ls_front_issue;
// Makes the call, or keeps it until its group ends.
ncclResult_t ls_front__make(const ls_front_issue *what);
// Observed: the real library has been given the calls that were made.
void ls_front__watched(void);
void ls_front__group_start(void);
ncclResult_t ls_front__group_end(void);
void ls_front__group_drop(void);  // the group's calls are not made
// Whether this thread is in a group; and a communicator that is being made waits for its end.
bool ls_front__grouped(void);
ncclResult_t ls_front__group_comm(ncclComm_t comm);
bool ls_front__issued(void);  // whether this thread has made calls

// ---- front_cuda.c -------------------------------------------------------------------------------
// CUDA's driver, as far as it is needed; found when it is first used.
ncclResult_t ls_cuda__open(void);
ncclResult_t ls_cuda__device(int *device);  // the current one; makes a context where there is none
int ls_cuda__register(void *arg, void *at, size_t bytes);
ncclResult_t ls_cuda__copy(void *to, const void *from, size_t bytes, cudaStream_t stream);
ncclResult_t ls_cuda__write(uint32_t *at, uint32_t value, cudaStream_t stream);
ncclResult_t ls_cuda__wait(uint32_t *at, uint32_t value, cudaStream_t stream);  // until at least
ncclResult_t ls_cuda__capturing(bool *out, cudaStream_t stream);
ncclResult_t ls_cuda__read(void *to, const void *from, size_t bytes);  // from anywhere, at once
ncclResult_t ls_cuda__alloc(void **out, size_t bytes);
ncclResult_t ls_cuda__free(void *at);
ncclResult_t ls_cuda__lives(void);  // whether the GPU still works for this process
// A piece of the current device's memory for staging, and its handle for other processes; fails
// where it would leave the program too little.
int ls_cuda__stage(void **out, void *handle, size_t bytes);
ncclResult_t ls_cuda__use(int device);  // its primary context becomes current

// ---- front_preload.c ----------------------------------------------------------------------------
// The thread's device as the program counts them: there may be more than the machine has.
ncclResult_t ls_front__get_device(int *device);
ncclResult_t ls_front__set_device(int device);
// This thread begins to wait for its calls, or continues, if that means that the rank does.
void ls_front__tell_wait(bool begins);
