// Part of nccl.h: collectives and messages of the host.
#ifndef LS_DEVICE_INCLUDE_NCCL_COLLECTIVES_H
#define LS_DEVICE_INCLUDE_NCCL_COLLECTIVES_H

enum ncclDataType_t {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

inline ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                  LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_call(
        {LS_NCCL_ALL_REDUCE, send, recv, count, type, op, 0, comm, stream, ls_at});
}
inline ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                               LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_call(
        {LS_NCCL_REDUCE, send, recv, count, type, op, root, comm, stream, ls_at});
}
inline ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_call(
        {LS_NCCL_REDUCE_SCATTER, send, recv, count, type, op, 0, comm, stream, ls_at});
}
#define LS_NCCL_MOVES(name, kind)                                                                  \
    inline ncclResult_t name(const void *send, void *recv, size_t count, ncclDataType_t type,      \
                             ncclComm_t comm, cudaStream_t stream, LS_CUDA_HERE) {                 \
        return (ncclResult_t)ls_nccl_call(                                                         \
            {kind, send, recv, count, type, ncclSum, 0, comm, stream, ls_at});                     \
    }
LS_NCCL_MOVES(ncclAllGather, LS_NCCL_ALL_GATHER)
LS_NCCL_MOVES(ncclAlltoAll, LS_NCCL_ALL_TO_ALL)
#define LS_NCCL_ROOTED(name, kind)                                                                 \
    inline ncclResult_t name(const void *send, void *recv, size_t count, ncclDataType_t type,      \
                             int root, ncclComm_t comm, cudaStream_t stream, LS_CUDA_HERE) {       \
        return (ncclResult_t)ls_nccl_call(                                                         \
            {kind, send, recv, count, type, ncclSum, root, comm, stream, ls_at});                  \
    }
LS_NCCL_ROOTED(ncclBroadcast, LS_NCCL_BROADCAST)
LS_NCCL_ROOTED(ncclGather, LS_NCCL_GATHER)
LS_NCCL_ROOTED(ncclScatter, LS_NCCL_SCATTER)
inline ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream, LS_CUDA_HERE) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream, ls_at);
}
inline ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_call(
        {LS_NCCL_SEND, send, nullptr, count, type, ncclSum, peer, comm, stream, ls_at});
}
inline ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_call(
        {LS_NCCL_RECV, nullptr, recv, count, type, ncclSum, peer, comm, stream, ls_at});
}

#endif
