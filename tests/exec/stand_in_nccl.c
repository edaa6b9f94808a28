// A stand-in for NCCL's own library under observation: every call succeeds and moves nothing.
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

#define EXPORT __attribute__((visibility("default")))

struct ncclComm {
    int rank, size;
};

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    FILE *file = fopen("/dev/urandom", "rb");
    EXPECT(file != NULL && fread(id, sizeof *id, 1, file) == 1 && fclose(file) == 0);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    (void)id;
    *comm = malloc(sizeof **comm);
    **comm = (struct ncclComm){rank, ranks};
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                                  ncclConfig_t *config) {
    (void)key;
    (void)config;
    *out = color >= 0 ? malloc(sizeof **out) : NULL;
    if (*out != NULL) {
        **out = *comm;
    }
    return ncclSuccess;
}

#define NOTHING(name, ...)                                                                         \
    EXPORT ncclResult_t name(__VA_ARGS__) {                                                        \
        return ncclSuccess;                                                                        \
    }
NOTHING(ncclCommDestroy, ncclComm_t comm)
NOTHING(ncclCommAbort, ncclComm_t comm)
NOTHING(ncclGroupStart, void)
NOTHING(ncclGroupEnd, void)
NOTHING(ncclAllReduce, const void *send, void *recv, size_t count, ncclDataType_t type,
        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
NOTHING(ncclReduce, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
        int root, ncclComm_t comm, cudaStream_t stream)
NOTHING(ncclBroadcast, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
        ncclComm_t comm, cudaStream_t stream)
// Like the real one: through its public name.
EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
NOTHING(ncclSend, const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
        cudaStream_t stream)
NOTHING(ncclRecv, void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
        cudaStream_t stream)

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    (void)comm;
    *error = ncclSuccess;
    return ncclSuccess;
}

EXPORT const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}
