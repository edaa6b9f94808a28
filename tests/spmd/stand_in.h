// Shared by the two halves of the stand-in: operations in a stream.
#pragma once

#include "backends/nccl/nccl_internal.h"

#define STAND_IN_GPUS 8

// An operation of a stream: `advance` is called until it returns that it is done.
typedef struct operation {
    struct operation *next;  // of concurrent ones
    bool (*advance)(struct operation *o);
    const char *send;
    char *recv;
    size_t bytes;  // sent
    bool done;
    // NCCL's:
    int what, op, peer;
    size_t count;
    ncclDataType_t type;
    ncclComm_t comm;
    unsigned long number;  // among the communicator's calls
    bool begun;
} operation;

// The host's address of memory at a device address.
void *stand_in_real(const void *pointer);
// Appends concurrent operations; the stream frees them.
void stand_in_push(cudaStream_t stream, operation *operations);
