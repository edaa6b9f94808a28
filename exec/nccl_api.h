// NCCL's interface as programs of 2.20 to 2.30 were built against it: the numbers and layouts that
// its library and a program agree on. Declared here, so that the front needs no header of NCCL's or
// CUDA's to build.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LS_NCCL_VERSION 22809

typedef enum ls_nccl_result {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
} ncclResult_t;

typedef struct ls_nccl_comm *ncclComm_t;
typedef struct {
    unsigned char internal[128];
} ncclUniqueId;
typedef int ncclDataType_t;  // an ls_dtype
typedef int ncclRedOp_t;     // an ls_op up to avg; from 5 on made by the program
typedef void *cudaStream_t;
typedef int cudaError_t;

#define LS_NCCL_CONFIG_MAGIC 0xcafebeefu

// The part of ncclConfig_t that is read, whose members have kept their places; `size` is that of
// the program's, which may end before any of them.
typedef struct ls_nccl_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;      // from 2.26
    const char *comm_name;  // from 2.27
} ls_nccl_config;

typedef struct ls_nccl_sim_info {
    size_t size;
    unsigned magic;
    unsigned version;
    float estimated_time;
} ls_nccl_sim_info;

#define LS_NCCL_EXPORT __attribute__((visibility("default")))
