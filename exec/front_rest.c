// The rest of NCCL's functions: memory, and functions that the frontend does not support, which
// report so.
#include <string.h>

#include "exec/front.h"

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

// The program may have another version's signature; no parameter is read.
#define REFUSED(name)                                                                              \
    LS_NCCL_EXPORT ncclResult_t name(void) {                                                       \
        return ls_front__fail(ncclInvalidUsage,                                                    \
                              #name " is not supported by lockstep exec --simulate");              \
    }

REFUSED(ncclCommWindowRegister)
REFUSED(ncclCommWindowDeregister)
REFUSED(ncclDevCommCreate)
REFUSED(ncclDevCommDestroy)
REFUSED(ncclCommQueryProperties)
REFUSED(ncclCommGrow)
REFUSED(ncclCommGetUniqueId)
REFUSED(ncclCommSuspend)
REFUSED(ncclCommResume)
REFUSED(ncclCommMemStats)
REFUSED(ncclWinGetUserPtr)
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
