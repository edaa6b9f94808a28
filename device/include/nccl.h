// NCCL's host side for programs that lockstep-cuda-cc compiles: communicators, windows, device
// communicators. Written from NCCL's documentation.
#ifndef LS_DEVICE_INCLUDE_NCCL_H
#define LS_DEVICE_INCLUDE_NCCL_H

#include <cuda_runtime.h>

#define NCCL_MAJOR            2
#define NCCL_MINOR            30
#define NCCL_PATCH            5
#define NCCL_VERSION_CODE     23005
#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
#define NCCL_UNIQUE_ID_BYTES  128

typedef struct lockstep_comm *ncclComm_t;
typedef struct lockstep_window *ncclWindow_t;
typedef ls_cuda_unique_id ncclUniqueId;

enum ncclResult_t {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
};
enum {
    NCCL_WIN_DEFAULT = 0,
    NCCL_WIN_COLL_SYMMETRIC = 1,
    NCCL_WIN_STRICT_ORDERING = 2,
    NCCL_WIN_REQUIRED_ALIGNMENT = 4096
};

inline const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : "an error that lockstep reports";
}
inline const char *ncclGetLastError(ncclComm_t) {
    return "";
}
inline ncclResult_t ncclGetVersion(int *version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
inline ncclResult_t ncclGetUniqueId(ncclUniqueId *out) {
    return (ncclResult_t)ls_nccl_unique_id(out);
}
inline ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id, int rank,
                                     LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_init((void **)out, size, &id, rank, ls_at);
}
inline ncclResult_t ncclCommInitAll(ncclComm_t *out, int count, const int *devices, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_init_all((void **)out, count, devices, ls_at);
}
inline ncclResult_t ncclCommFinalize(ncclComm_t comm, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_destroy(comm, "ncclCommFinalize", ls_at);
}
inline ncclResult_t ncclCommDestroy(ncclComm_t) {
    return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t) {
    return ncclSuccess;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *error) {
    *error = ncclSuccess;
    return ncclSuccess;
}
inline ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
    *count = ls_nccl_size(comm);
    return ncclSuccess;
}
inline ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
    *rank = ls_nccl_rank(comm);
    return ncclSuccess;
}
inline ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) {
    *device = ls_nccl_rank(comm);
    return ncclSuccess;
}
inline ncclResult_t ncclGroupStart(LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_group(1, ls_at);
}
inline ncclResult_t ncclGroupEnd(LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_group(-1, ls_at);
}
template <class T> inline ncclResult_t ncclMemAlloc(T **out, size_t bytes, LS_CUDA_HERE) {
    int code = ls_cuda_allocate((void **)out, bytes, "memory", ls_at);
    return code == 0 ? ncclSuccess : ncclUnhandledCudaError;
}
inline ncclResult_t ncclMemFree(void *at, LS_CUDA_HERE) {
    return ls_nccl_free(at, ls_at) == 0 ? ncclSuccess : ncclInvalidArgument;
}
inline ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes,
                                           ncclWindow_t *out, int flags, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_window(comm, at, bytes, (void **)out, flags, ls_at);
}
inline ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_window_close(comm, window, ls_at);
}

#include <nccl_collectives.h>

#endif
