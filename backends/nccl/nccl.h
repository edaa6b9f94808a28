// The NCCL backend: one GPU and one thread per held rank. Only in programs that link
// lockstep_nccl_backend; the simulator has no CUDA and no NCCL inside.
//
// Buffers may be ordinary memory, which is moved to and from the GPUs, or memory of the rank's own
// GPU, which is used as it is.
#ifndef LS_BACKENDS_NCCL_NCCL_H
#define LS_BACKENDS_NCCL_NCCL_H

#include "collectives/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

// A message to or from another process.
typedef struct ls_nccl_message {
    void *data;
    size_t bytes;
} ls_nccl_message;

// How the processes of a job reach each other apart from NCCL: MPI, in lockstep-mpi. Every function
// returns a status. post and poll never wait.
typedef struct ls_nccl_bootstrap {
    void *data;
    int local_rank;  // among the processes of this host
    int (*broadcast)(void *data, void *buffer, size_t bytes, int root);
    // Sends a copy of `bytes` to rank `to`. Messages of two ranks under one tag arrive in order.
    int (*post)(void *data, int to, int tag, const void *bytes, size_t count);
    // The next message of rank `from` under `tag`: its bytes are ls_alloc'ed, the caller's. *there:
    // whether there is one.
    int (*poll)(void *data, int from, int tag, ls_nccl_message *out, bool *there);
} ls_nccl_bootstrap;

// The parts of its backends that a process keeps for its next run of as many ranks: threads, GPU
// memory and NCCL's communicators, whose making takes longer than most runs. Starts as {0}. Every
// process of a job keeps, or none, and runs the same; a backend that failed is not kept.
typedef struct ls_nccl_kept {
    struct nccl_owner *first;
} ls_nccl_kept;
// Closes what is kept; every process of the job does.
void ls_nccl_kept_free(ls_nccl_kept *kept);

typedef struct ls_nccl_options {
    size_t size;              // sizeof this struct (LS_OPTIONS); 0: as this header has it
    double deadline_seconds;  // of one call, and of making a communicator; 0: 60
    const ls_nccl_bootstrap *bootstrap;  // NULL: every rank of the world is held here
    bool unchecked;  // skip the checks before a call: mismatches then hang until the deadline. For
                     // tests of the deadline.
    bool blocking;   // blocking communicators without a deadline, as benchmarks want them
    bool quiet_log;  // leave NCCL's logging unchanged; then NCCL's choices are unknown
    ls_nccl_kept *kept;  // the caller's, outlives the backend; NULL: nothing is kept
} ls_nccl_options;

// LS_ERR_BACKEND, with one clear line: no driver, no GPU, too few GPUs, no NCCL library, or
// versions that differ between the ranks.
LS_API int ls_backend_nccl_create(ls_backend **out, ls_world *world,
                                  const ls_nccl_options *options);

// "nccl 2.28.9, cuda 13.0, 4 GPUs: NVIDIA H200": for doctor and manifests. LS_ERR_BACKEND: why not.
int ls_nccl_describe(char *out, size_t out_bytes);
// Number of GPUs; 0 with the reason as the last error.
LS_API int ls_nccl_device_count(void);
// GPUs of this machine that a backend of these options needs: one a rank, unless NCCL is one that
// lets ranks share them (2.30) and has been asked to (NCCL_MULTI_RANK_GPU_ENABLE=1).
int ls_nccl_devices_needed(const ls_world *world, const ls_nccl_options *options);

// ---- For measuring ------------------------------------------------------------------------------
// Memory on the GPU of a held rank, for calls of that rank.
LS_API int ls_nccl_alloc(void **out, ls_backend *backend, int rank, size_t bytes);
LS_API void ls_nccl_free(ls_backend *backend, int rank, void *pointer);
LS_API int ls_nccl_copy_in(ls_backend *backend, int rank, void *device, const void *host,
                           size_t bytes);
LS_API int ls_nccl_copy_out(ls_backend *backend, int rank, void *host, const void *device,
                            size_t bytes);
// Issues calls [call_count] (one per held rank, device buffers) `warmup` + `repetitions` times and
// gives the mean seconds of one, as the slowest rank's GPU timed it.
int ls_nccl_time(double *seconds, ls_backend *backend, const ls_call *calls, int call_count,
                 int warmup, int repetitions);
// The same rank by rank, in batches: after `warmup` calls, `batches` times `repetitions` of them,
// one after another without a pause. seconds [batches][call_count]: the mean of one call in each
// batch, as the GPU of that call's rank timed it.
int ls_nccl_time_each(double *seconds, ls_backend *backend, const ls_call *calls, int call_count,
                      int warmup, int batches, int repetitions);
// Runs `job` for every held rank at once, each in its rank's own thread with its GPU current;
// `stream` is that rank's cudaStream_t, idle at the time. The first failure is this thread's error.
int ls_nccl_on_ranks(ls_backend *backend, int (*job)(void *arg, int rank, void *stream), void *arg);

#ifdef __cplusplus
}
#endif
#endif
