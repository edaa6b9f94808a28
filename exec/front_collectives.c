// NCCL's collectives, messages and groups, as programs call them.
#include "exec/front.h"

LS_NCCL_EXPORT ncclResult_t ncclGroupStart(void) {
    ls_front__group_start();
    return ncclSuccess;
}

LS_NCCL_EXPORT ncclResult_t ncclGroupEnd(void) {
    return ls_front__group_end();
}

// As it would be: nothing is issued, and no time is known.
LS_NCCL_EXPORT ncclResult_t ncclGroupSimulateEnd(ls_nccl_sim_info *info) {
    ls_front__group_drop();
    if (info != NULL) {
        info->estimated_time = 0;
    }
    return ls_front__group_end();
}

LS_NCCL_EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
                                          ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                          cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_ALL_REDUCE, send, recv, count, type, op, 0, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count,
                                       ncclDataType_t type, ncclRedOp_t op, int root,
                                       ncclComm_t comm, cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_REDUCE, send, recv, count, type, op, root, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                                          ncclDataType_t type, int root, ncclComm_t comm,
                                          cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_BROADCAST, send, recv, count, type, 0, root, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_BROADCAST, buffer, buffer, count, type, 0, root, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
                                          ncclDataType_t type, ncclComm_t comm,
                                          cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_ALL_GATHER, send, recv, count, type, 0, 0, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                                              ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                              cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_REDUCE_SCATTER, send, recv, count, type, op, 0, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count,
                                         ncclDataType_t type, ncclComm_t comm,
                                         cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_ALL_TO_ALL, send, recv, count, type, 0, 0, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count,
                                       ncclDataType_t type, int root, ncclComm_t comm,
                                       cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_GATHER, send, recv, count, type, 0, root, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_SCATTER, send, recv, count, type, 0, root, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                                     ncclComm_t comm, cudaStream_t stream) {
    if (!ls_front__grouped() && comm != NULL && comm->magic == LS_FRONT_MAGIC &&
        peer == comm->rank) {
        return ls_front__fail(ncclInvalidUsage, "Trying to send to self without a matching recv");
    }
    return ls_front__make(
        &(ls_front_issue){LS_SEND, send, NULL, count, type, 0, peer, comm, stream});
}

LS_NCCL_EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer,
                                     ncclComm_t comm, cudaStream_t stream) {
    return ls_front__make(
        &(ls_front_issue){LS_RECV, NULL, recv, count, type, 0, peer, comm, stream});
}
