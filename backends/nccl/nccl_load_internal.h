// NCCL's functions, found at run time: programs start where there is no NCCL. Private to the NCCL
// backend.
#pragma once

#include <nccl.h>

#include "base/base.h"

// X(name): functions every supported version has.
#define LS_NCCL_FUNCTIONS(X)                                                                       \
    X(ncclGetVersion)                                                                              \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommSplit)                                                                               \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclRedOpCreatePreMulSum)                                                                    \
    X(ncclRedOpDestroy)                                                                            \
    X(ncclAllReduce)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclReduce)                                                                                  \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllGather)                                                                               \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclMemAlloc)                                                                                \
    X(ncclMemFree)

// Functions of 2.28 and later; NULL where the library is older.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#define LS_NCCL_FUNCTIONS_NEW(X) X(ncclAlltoAll)
#else
#define LS_NCCL_FUNCTIONS_NEW(X)
#endif

typedef struct ls_nccl_library {
#define LS_NCCL_MEMBER(name) __typeof__(&name) name;
    LS_NCCL_FUNCTIONS(LS_NCCL_MEMBER)
    LS_NCCL_FUNCTIONS_NEW(LS_NCCL_MEMBER)
#undef LS_NCCL_MEMBER
    int version;    // as NCCL_VERSION_CODE
    char text[32];  // "2.28.9"
} ls_nccl_library;

// Opens the library once for each process: LOCKSTEP_NCCL_LIBRARY (an environment variable), else
// libnccl.so.2 on the loader's path, else the one that configure found. LS_ERR_BACKEND gives the
// reason.
int ls_nccl__load(const ls_nccl_library **out);

// LS_OK, or LS_ERR_BACKEND with NCCL's words; ncclInProgress is LS_OK.
int ls_nccl__status(const ls_nccl_library *nccl, ncclResult_t result, const char *what);
