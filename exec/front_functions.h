// NCCL's calls, a row each: the function, its parameters, the names of these, and the call that it
// is: kind, send, recv, count, type, op, root. The fronts make their functions of the rows.
#pragma once

#include "exec/front.h"

#define LS_FRONT_FUNCTIONS(CALL)                                                                   \
    CALL(ncclAllReduce,                                                                            \
         (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,         \
          ncclComm_t comm, cudaStream_t stream),                                                   \
         (send, recv, count, type, op, comm, stream), LS_ALL_REDUCE, send, recv, count, type, op,  \
         0)                                                                                        \
    CALL(ncclReduce,                                                                               \
         (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,         \
          int root, ncclComm_t comm, cudaStream_t stream),                                         \
         (send, recv, count, type, op, root, comm, stream), LS_REDUCE, send, recv, count, type,    \
         op, root)                                                                                 \
    CALL(ncclBroadcast,                                                                            \
         (const void *send, void *recv, size_t count, ncclDataType_t type, int root,               \
          ncclComm_t comm, cudaStream_t stream),                                                   \
         (send, recv, count, type, root, comm, stream), LS_BROADCAST, send, recv, count, type, 0,  \
         root)                                                                                     \
    CALL(ncclBcast,                                                                                \
         (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,              \
          cudaStream_t stream),                                                                    \
         (buffer, count, type, root, comm, stream), LS_BROADCAST, buffer, buffer, count, type, 0,  \
         root)                                                                                     \
    CALL(ncclAllGather,                                                                            \
         (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,        \
          cudaStream_t stream),                                                                    \
         (send, recv, count, type, comm, stream), LS_ALL_GATHER, send, recv, count, type, 0, 0)    \
    CALL(ncclReduceScatter,                                                                        \
         (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,         \
          ncclComm_t comm, cudaStream_t stream),                                                   \
         (send, recv, count, type, op, comm, stream), LS_REDUCE_SCATTER, send, recv, count, type,  \
         op, 0)                                                                                    \
    CALL(ncclAlltoAll,                                                                             \
         (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,        \
          cudaStream_t stream),                                                                    \
         (send, recv, count, type, comm, stream), LS_ALL_TO_ALL, send, recv, count, type, 0, 0)    \
    CALL(ncclGather,                                                                               \
         (const void *send, void *recv, size_t count, ncclDataType_t type, int root,               \
          ncclComm_t comm, cudaStream_t stream),                                                   \
         (send, recv, count, type, root, comm, stream), LS_GATHER, send, recv, count, type, 0,     \
         root)                                                                                     \
    CALL(ncclScatter,                                                                              \
         (const void *send, void *recv, size_t count, ncclDataType_t type, int root,               \
          ncclComm_t comm, cudaStream_t stream),                                                   \
         (send, recv, count, type, root, comm, stream), LS_SCATTER, send, recv, count, type, 0,    \
         root)                                                                                     \
    CALL(ncclSend,                                                                                 \
         (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,          \
          cudaStream_t stream),                                                                    \
         (send, count, type, peer, comm, stream), LS_SEND, send, NULL, count, type, 0, peer)       \
    CALL(ncclRecv,                                                                                 \
         (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                \
          cudaStream_t stream),                                                                    \
         (recv, count, type, peer, comm, stream), LS_RECV, NULL, recv, count, type, 0, peer)
