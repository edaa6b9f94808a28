// A library with NCCL's interface and a version: 2.28.9, or 2.29.7 on the rank in
// STUB_NCCL_ODD_RANK. All other functions fail.
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "backends/nccl/nccl_load_internal.h"

#define STUB __attribute__((visibility("default")))

STUB ncclResult_t ncclGetVersion(int *version) {
    const char *rank = getenv("PMI_RANK"), *odd = getenv("STUB_NCCL_ODD_RANK");
    *version = rank != NULL && odd != NULL && strcmp(rank, odd) == 0 ? 22907 : 22809;
    return ncclSuccess;
}

STUB const char *ncclGetErrorString(ncclResult_t result) {
    (void)result;
    return "this is no NCCL";
}

STUB const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}

// The other functions, only by name: every call returns an error.
#define REFUSE(name)                                                                               \
    STUB ncclResult_t stub_##name(void) __asm__(#name);                                            \
    ncclResult_t stub_##name(void) {                                                               \
        return ncclInternalError;                                                                  \
    }
REFUSE(ncclGetUniqueId)
REFUSE(ncclCommInitRankConfig)
REFUSE(ncclCommSplit)
REFUSE(ncclCommFinalize)
REFUSE(ncclCommDestroy)
REFUSE(ncclCommAbort)
REFUSE(ncclCommGetAsyncError)
REFUSE(ncclRedOpCreatePreMulSum)
REFUSE(ncclRedOpDestroy)
REFUSE(ncclAllReduce)
REFUSE(ncclBroadcast)
REFUSE(ncclReduce)
REFUSE(ncclReduceScatter)
REFUSE(ncclAllGather)
REFUSE(ncclSend)
REFUSE(ncclRecv)
REFUSE(ncclGroupStart)
REFUSE(ncclGroupEnd)
REFUSE(ncclMemAlloc)
REFUSE(ncclMemFree)
REFUSE(ncclAlltoAll)
