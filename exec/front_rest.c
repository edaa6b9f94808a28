// The rest of NCCL's functions: memory, and functions that the frontend does not support, which
// report so.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/front.h"

#define WINDOW_MAGIC 0x77696e64u

LS_NCCL_EXPORT ncclResult_t ncclMemAlloc(void **out, size_t bytes) {
    return out == NULL ? ls_front__fail(ncclInvalidArgument, "ncclMemAlloc: NULL")
                       : ls_cuda__alloc(out, bytes);
}

LS_NCCL_EXPORT ncclResult_t ncclMemFree(void *at) {
    return ls_cuda__free(at);
}

// Registering makes real transfers faster; here it changes nothing.
LS_NCCL_EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void *at, size_t bytes,
                                             void **handle) {
    (void)bytes;
    ncclResult_t result = ls_front__check(comm, "ncclCommRegister");
    if (result == ncclSuccess && handle != NULL) {
        *handle = at;
    }
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
    (void)comm;
    (void)handle;
    return ncclSuccess;
}

// ---- Windows ------------------------------------------------------------------------------------
// Registering is a call of all members: a barrier that states the size. Collectives on the memory
// are those on any other.
typedef struct window {
    uint32_t magic;
    void *at;
} window;

static ncclResult_t window_of(window **out, void *handle, const char *call) {
    *out = handle;
    return *out != NULL && (*out)->magic == WINDOW_MAGIC
               ? ncclSuccess
               : ls_front__fail(ncclInvalidArgument, "%s: the window is none, or was deregistered",
                                call);
}

LS_NCCL_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes,
                                                   void **out, int flags) {
    char purpose[64];
    (void)flags;
    if (at == NULL || bytes == 0 || out == NULL) {
        return ls_front__fail(ncclInvalidArgument, "ncclCommWindowRegister: %zu bytes at %p", bytes,
                              at);
    }
    window *made = malloc(sizeof *made);
    if (made == NULL) {
        return ls_front__fail(ncclSystemError, "no memory");
    }
    *made = (window){WINDOW_MAGIC, at};
    (void)snprintf(purpose, sizeof purpose, "a window of %zu bytes", bytes);
    ncclResult_t result = ls_front__make(&(ls_front_issue){
        .kind = LS_BARRIER, .type = LS_I8, .op = LS_SUM, .comm = comm, .purpose = purpose});
    *out = result == ncclSuccess ? made : NULL;
    if (result != ncclSuccess) {
        free(made);
    }
    return result;
}

// Its memory stays, so that a use after its end is known as one.
LS_NCCL_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, void *handle) {
    window *gone = NULL;
    ncclResult_t result = ls_front__check_handle(comm, "ncclCommWindowDeregister");
    result = result == ncclSuccess ? window_of(&gone, handle, "ncclCommWindowDeregister") : result;
    if (result == ncclSuccess) {
        gone->magic = 0;
    }
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, void *handle, void **out) {
    window *of = NULL;
    ncclResult_t result = ls_front__check_handle(comm, "ncclWinGetUserPtr");
    result = result == ncclSuccess ? window_of(&of, handle, "ncclWinGetUserPtr") : result;
    if (result == ncclSuccess) {
        *out = of->at;
    }
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclDevCommCreate(void) {
    return ls_front__fail(ncclInvalidUsage,
                          "ncclDevCommCreate is not supported by lockstep exec --simulate; build "
                          "the program with lockstep-cuda-cc and run it with lockstep spmd, which "
                          "run kernels that communicate");
}

// The program may have another version's signature; no parameter is read.
#define REFUSED(name)                                                                              \
    LS_NCCL_EXPORT ncclResult_t name(void) {                                                       \
        return ls_front__fail(ncclInvalidUsage,                                                    \
                              #name " is not supported by lockstep exec --simulate");              \
    }

REFUSED(ncclDevCommDestroy)
REFUSED(ncclCommQueryProperties)
REFUSED(ncclCommGrow)
REFUSED(ncclCommGetUniqueId)
REFUSED(ncclCommSuspend)
REFUSED(ncclCommResume)
REFUSED(ncclCommMemStats)
REFUSED(ncclGetLsaDevicePointer)
REFUSED(ncclGetPeerDevicePointer)
REFUSED(ncclGetLsaMultimemDevicePointer)
REFUSED(ncclGetMultimemDevicePointer)
REFUSED(ncclPutSignal)
REFUSED(ncclSignal)
REFUSED(ncclWaitSignal)
REFUSED(ncclTeamWorld)
REFUSED(ncclTeamLsa)
REFUSED(ncclTeamRail)
REFUSED(ncclTeamRankToWorld)
REFUSED(ncclTeamRankToLsa)
REFUSED(ncclLsaBarrierCreateRequirement)
REFUSED(ncclGinBarrierCreateRequirement)
REFUSED(ncclLLA2ACreateRequirement)
REFUSED(ncclLLA2ACalcSlots)
REFUSED(ncclParamBind)
REFUSED(ncclParamGetI8)
REFUSED(ncclParamGetI16)
REFUSED(ncclParamGetI32)
REFUSED(ncclParamGetI64)
REFUSED(ncclParamGetU8)
REFUSED(ncclParamGetU16)
REFUSED(ncclParamGetU32)
REFUSED(ncclParamGetU64)
REFUSED(ncclParamGetStr)
REFUSED(ncclParamGet)
REFUSED(ncclParamGetParameter)
REFUSED(ncclParamGetAllParameterKeys)
REFUSED(ncclParamDumpAll)
