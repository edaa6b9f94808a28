// The interface between a compiled CUDA program and the library that runs it: the device's threads,
// its memory and its network. CUDA's, NCCL's and NVSHMEM's headers are made of this.
#ifndef LS_DEVICE_INCLUDE_LOCKSTEP_DEVICE_H
#define LS_DEVICE_INCLUDE_LOCKSTEP_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define LS_CUDA_BOOL bool
#else
#include <stdbool.h>
#endif

#define LS_CUDA_API __attribute__((visibility("default")))

// ---- The thread that runs -----------------------------------------------------------------------
typedef struct ls_cuda_dim {
    unsigned x, y, z;
} ls_cuda_dim;

typedef struct ls_cuda_thread {
    ls_cuda_dim thread_idx, block_idx, block_dim, grid_dim;
    unsigned lane;  // in its warp
} ls_cuda_thread;

extern LS_CUDA_API ls_cuda_thread *ls_cuda_self;  // of host code: all 0

typedef struct ls_cuda_site {
    const char *file;
    int line;
} ls_cuda_site;

// Waits for `count` threads of the block (0: all that have not ended) at barrier `id`.
LS_CUDA_API void ls_cuda_barrier(int id, unsigned count, ls_cuda_site at);
LS_CUDA_API void ls_cuda_grid_barrier(ls_cuda_site at);
// The lanes of `mask` give a value each and get all of them.
LS_CUDA_API void ls_cuda_exchange(unsigned mask, uint64_t value, uint64_t *out, ls_cuda_site at);
LS_CUDA_API unsigned ls_cuda_live_lanes(void);
LS_CUDA_API int ls_cuda_on_host(void);  // no kernel's thread runs
// Memory of the block, one for each key, and what the launch gives.
LS_CUDA_API void *ls_cuda_shared(const void *key, size_t bytes);
LS_CUDA_API void *ls_cuda_dynamic_shared(void);
LS_CUDA_API long long ls_cuda_clock(void);
LS_CUDA_API void ls_cuda_yield(void);

// ---- Memory -------------------------------------------------------------------------------------
enum { LS_CUDA_SCOPE_BLOCK, LS_CUDA_SCOPE_DEVICE, LS_CUDA_SCOPE_SYSTEM, LS_CUDA_SCOPE_THREAD };
enum { LS_CUDA_LOAD = 1, LS_CUDA_STORE = 2, LS_CUDA_UPDATE = 3 };
LS_CUDA_API void ls_cuda_fence(int scope);
// Around an atomic operation; order: the compiler's __ATOMIC_*. After it: whether it changed the
// value.
LS_CUDA_API void ls_cuda_atomic(const volatile void *at, size_t bytes, int kind, int order,
                                int scope, ls_cuda_site site);
LS_CUDA_API void ls_cuda_atomic_done(const volatile void *at, uint64_t value, bool changed,
                                     int order, ls_cuda_site site);

// A multimem instruction; its address is of ls_cuda_multimem_pointer().
typedef struct ls_cuda_multimem {
    int kind;              // LS_CUDA_LOAD reduces, LS_CUDA_UPDATE reduces into the memory
    int dtype, operation;  // NCCL's numbers
    int order, scope;      // order -1: weak
    ls_cuda_site at;
    int bytes, count;  // of a register, and of them
} ls_cuda_multimem;
LS_CUDA_API void ls_cuda_multimem_do(const ls_cuda_multimem *what, uint64_t address,
                                     uint64_t *registers);
// wanted: the device communicator was made with multimem.
LS_CUDA_API void *ls_cuda_multimem_pointer(void *window, size_t offset, bool wanted,
                                           ls_cuda_site at);

// ---- Launches -----------------------------------------------------------------------------------
typedef struct ls_cuda_launch {
    ls_cuda_dim grid, block;
    size_t shared;
    void *stream;
    void (*run)(void *arg);  // by each thread
    void (*drop)(void *arg);
    void *arg;
    const char *name;
    ls_cuda_site at;
} ls_cuda_launch;

LS_CUDA_API int ls_cuda_launch_kernel(const ls_cuda_launch *launch);

// ---- CUDA's runtime -----------------------------------------------------------------------------
LS_CUDA_API int ls_cuda_allocate(void **out, size_t bytes, const char *name, ls_cuda_site at);
LS_CUDA_API int ls_cuda_free(void *memory, ls_cuda_site at);
LS_CUDA_API int ls_cuda_copy(void *to, const void *from, size_t bytes, void *stream, bool waits,
                             ls_cuda_site at);
LS_CUDA_API int ls_cuda_set(void *to, int value, size_t bytes, void *stream, bool waits,
                            ls_cuda_site at);
LS_CUDA_API int ls_cuda_host_call(void *stream, void (*call)(void *), void *arg, ls_cuda_site at);
LS_CUDA_API int ls_cuda_stream_make(void **out, bool apart);
LS_CUDA_API int ls_cuda_stream_finish(void *stream, ls_cuda_site at);
LS_CUDA_API int ls_cuda_stream_idle(void *stream);
LS_CUDA_API int ls_cuda_device_finish(ls_cuda_site at);
LS_CUDA_API int ls_cuda_device_set(int device);
LS_CUDA_API int ls_cuda_device(void);
LS_CUDA_API int ls_cuda_device_count(void);
LS_CUDA_API int ls_cuda_is_device(const void *at);  // its device; -1: not a device's
LS_CUDA_API int ls_cuda_event_make(void **out);
LS_CUDA_API int ls_cuda_event_record(void *event, void *stream, ls_cuda_site at);
LS_CUDA_API int ls_cuda_event_await(void *stream, void *event, ls_cuda_site at);
LS_CUDA_API int ls_cuda_event_finish(void *event, ls_cuda_site at);
LS_CUDA_API int ls_cuda_event_done(void *event);
LS_CUDA_API void *ls_device_memcpy(void *to, const void *from, size_t bytes);
LS_CUDA_API void *ls_device_memset(void *to, int value, size_t bytes);

// ---- NCCL and NVSHMEM ---------------------------------------------------------------------------
typedef struct ls_cuda_team {
    int size, rank, stride;  // member m is rank `rank of the caller + (m - rank) * stride`
} ls_cuda_team;

// How an ncclDevComm begins.
typedef struct ls_cuda_devcomm {
    int rank, nranks, lsa_rank, lsa_size;
    uint8_t contexts;
    void *resources;
} ls_cuda_devcomm;

typedef struct ls_cuda_unique_id {
    char internal[128];
} ls_cuda_unique_id;

typedef struct ls_cuda_requirements {
    int signals, counters, lsa_barriers, rail_barriers, world_barriers, both_barriers;
    bool weak, connected;
} ls_cuda_requirements;

// Host calls return an ncclResult_t.
LS_CUDA_API int ls_nccl_unique_id(ls_cuda_unique_id *out);
LS_CUDA_API int ls_nccl_init(void **comm, int size, const ls_cuda_unique_id *id, int rank,
                             ls_cuda_site at);
LS_CUDA_API int ls_nccl_init_all(void **comms, int count, const int *devices, ls_cuda_site at);
LS_CUDA_API int ls_nccl_destroy(void *comm, const char *call, ls_cuda_site at);
LS_CUDA_API int ls_nccl_group(int change, ls_cuda_site at);
LS_CUDA_API int ls_nccl_rank(void *comm);
LS_CUDA_API int ls_nccl_size(void *comm);
LS_CUDA_API int ls_nccl_lsa_size(void *comm);
LS_CUDA_API int ls_nccl_free(void *memory, ls_cuda_site at);
LS_CUDA_API int ls_nccl_window(void *comm, void *memory, size_t bytes, void **out, int flags,
                               ls_cuda_site at);
LS_CUDA_API int ls_nccl_window_rank(void *window);
LS_CUDA_API int ls_nccl_window_lsa(void *window);  // the size of its LSA teams
LS_CUDA_API int ls_nccl_window_close(void *comm, void *window, ls_cuda_site at);
LS_CUDA_API int ls_nccl_dev_comm(void *comm, const ls_cuda_requirements *wanted,
                                 ls_cuda_devcomm *out, ls_cuda_site at);
LS_CUDA_API int ls_nccl_dev_comm_close(void *comm, ls_cuda_site at);

enum {
    LS_NCCL_ALL_REDUCE,
    LS_NCCL_REDUCE,
    LS_NCCL_BROADCAST,
    LS_NCCL_ALL_GATHER,
    LS_NCCL_REDUCE_SCATTER,
    LS_NCCL_ALL_TO_ALL,
    LS_NCCL_GATHER,
    LS_NCCL_SCATTER,
    LS_NCCL_SEND,
    LS_NCCL_RECV
};
typedef struct ls_cuda_call {
    int kind;
    const void *send;
    void *recv;
    size_t count;
    int dtype, op, root;  // NCCL's numbers; root: the peer of a message
    void *comm, *stream;
    ls_cuda_site at;
} ls_cuda_call;
LS_CUDA_API int ls_nccl_call(ls_cuda_call call);

enum { LS_CUDA_PUT_NONE, LS_CUDA_PUT_STRONG, LS_CUDA_PUT_WEAK };
typedef struct ls_cuda_put {
    const void *comm;   // an ncclDevComm
    int context, peer;  // a rank of the communicator
    void *to, *from;    // windows; from NULL: plain or, where that is NULL, value
    void *plain;        // memory of the rank that is in no window
    size_t to_offset, from_offset, bytes;
    uint64_t value;
    int signal;           // LS_CUDA_PUT_*
    void *signal_window;  // NULL: signal number signal_at
    uint64_t signal_at, add;
    int counter;  // -1: none
    bool sets;    // the signal's value is set, not added to
    bool gets;    // the other way round: from `to` of the peer into `from`
    bool eager;   // its source is read at once
    bool wide;    // the signal releases what the thread knows to the system, not its device alone
    const char *call;
    ls_cuda_site at;
} ls_cuda_put;

enum { LS_CUDA_SIGNAL, LS_CUDA_COUNTER };
typedef struct ls_cuda_cell {
    const void *comm;
    int kind;
    void *window;  // NULL: number `at`
    uint64_t number;
    int bits;
    ls_cuda_site at;
} ls_cuda_cell;

LS_CUDA_API void ls_cuda_put_data(const ls_cuda_put *put);
// Waits until the thread's puts have read their source; arrives: until they have arrived. comm NULL
// and context -1: all.
LS_CUDA_API void ls_cuda_flush(const void *comm, int context, bool arrives, ls_cuda_site at);
LS_CUDA_API uint64_t ls_cuda_cell_read(const ls_cuda_cell *cell);
LS_CUDA_API void ls_cuda_cell_wait(const ls_cuda_cell *cell, uint64_t least, const char *call);
LS_CUDA_API void ls_cuda_cell_reset(const ls_cuda_cell *cell);
LS_CUDA_API uint64_t *ls_cuda_shadow(const void *comm, uint64_t number);
LS_CUDA_API void *ls_cuda_window_pointer(void *window, size_t offset, int peer);

enum {
    LS_CUDA_BARRIER_LSA,
    LS_CUDA_BARRIER_RAIL,
    LS_CUDA_BARRIER_WORLD,
    LS_CUDA_BARRIER_BOTH,
    LS_CUDA_BARRIER_LSA_OF_BOTH,
    LS_CUDA_BARRIER_RAIL_OF_BOTH
};
typedef struct ls_cuda_meet {
    const void *comm;
    int kind, context;
    ls_cuda_team team;
    unsigned index;
    int order;
    bool puts;  // puts of the members have arrived
    const char *call;
    ls_cuda_site at;
} ls_cuda_meet;

LS_CUDA_API void ls_cuda_arrive(const ls_cuda_meet *meet);
LS_CUDA_API void ls_cuda_await(const ls_cuda_meet *meet);

// ---- NVSHMEM: addresses in place of windows -----------------------------------------------------
LS_CUDA_API int ls_nvshmem_init(ls_cuda_site at);
LS_CUDA_API int ls_nvshmem_rank(void);
LS_CUDA_API int ls_nvshmem_size(void);
LS_CUDA_API void *ls_nvshmem_allocate(size_t bytes, ls_cuda_site at);
LS_CUDA_API void ls_nvshmem_free(void *memory, ls_cuda_site at);
LS_CUDA_API void ls_nvshmem_host_barrier(const char *call, ls_cuda_site at);
LS_CUDA_API void *ls_nvshmem_pointer(const void *memory, int peer);  // NULL: not symmetric
// A put (gets: a get) of bytes, or of a value where from is NULL.
LS_CUDA_API void ls_nvshmem_put(ls_cuda_put put, void *to, const void *from);
LS_CUDA_API void ls_nvshmem_signal(ls_cuda_put *put, void *signal, uint64_t value, bool sets);
LS_CUDA_API void ls_nvshmem_quiet(ls_cuda_site at);
LS_CUDA_API void ls_nvshmem_fence(void);
LS_CUDA_API void ls_nvshmem_barrier(bool quiet, const char *call, ls_cuda_site at);
// Waits until the comparison (NVSHMEM_CMP_*) of the word with the value holds; returns the word.
LS_CUDA_API uint64_t ls_nvshmem_wait(const void *word, size_t bytes, int comparison, int64_t value,
                                     ls_cuda_site at);

#ifdef __cplusplus
}
#endif
#endif
