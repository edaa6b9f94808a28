// Shared by the files of the NCCL backend. Private to it.
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/time.h"
#include "backends/backend.h"
#include "backends/match.h"
#include "backends/nccl/nccl.h"
#include "backends/nccl/nccl_load_internal.h"
#include "collectives/check.h"

#define LS_NCCL_CHANNELS_MAX 64
#define LS_NCCL_CHILDREN_MAX 3

int ls_nccl__cuda(cudaError_t error, const char *what);
#define LS_CUDA_TRY(call, what) LS_TRY(ls_nccl__cuda((call), (what)))

// ---- NCCL's log (nccl_log.c) --------------------------------------------------------------------
typedef struct ls_nccl_node {
    int children[LS_NCCL_CHILDREN_MAX];  // members; -1: none
    bool known;
} ls_nccl_node;

// Rings and trees of a communicator.
typedef struct ls_nccl_topology {
    int size;                     // members
    int channels;                 // 0: not known
    int *rings;                   // [channels, size] members from member 0 on
    bool *ring_known;             // [channels]
    ls_nccl_node *nodes;          // [channels, size]
    char *ring_text, *tree_text;  // the part of an order's text after the protocol; NULL: not known
} ls_nccl_topology;

// NCCL's choice for one call.
typedef struct ls_nccl_choice {
    char algorithm[24], protocol[16];  // lower case; "" where the log does not say
    int channels;                      // used; 0: not known
} ls_nccl_choice;

// NCCL reads its environment once, so that a process has one log, whatever backends it opens.
int ls_nccl__log_open(void);     // sets the environment; before NCCL's first call
void ls_nccl__log_unlink(void);  // once NCCL has opened it: nothing stays behind
// The text that came since the last call. The caller frees it.
int ls_nccl__log_new(ls_text *out);
int ls_nccl__topology_parse(ls_nccl_topology *topology, const char *text);
void ls_nccl__topology_write(ls_nccl_topology *topology);  // the texts
void ls_nccl__topology_free(ls_nccl_topology *topology);
void ls_nccl__choice_parse(ls_nccl_choice *out, const char *text, ls_kind kind);

// ---- Communicators and workers ------------------------------------------------------------------
typedef struct nccl_owner nccl_owner;

// A communicator: the handles of the held ranks.
typedef struct nccl_comm {
    struct nccl_comm *next;
    const ls_comm *comm;
    ncclComm_t *handles;  // [held ranks] NULL where the rank is no member
    bool borrowed;        // the world's own
    bool everywhere;      // every rank of the world took part in making it
    ls_nccl_topology topology;
    int *ranks, size;  // of one that is kept, in place of `comm`
} nccl_comm;

// The thread of one held rank, with its GPU.
typedef struct nccl_worker {
    nccl_owner *owner;
    int index;  // among the held ranks
    int rank;   //
    int device;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int (*job)(struct nccl_worker *worker, void *arg);  // NULL: idle
    void *arg;
    bool quit;
    bool stopped;  // its job ended because another rank's failed
    int status;
    ls_error error;
    cudaStream_t stream;
    char *staging;  // device memory
    size_t staging_bytes;
    ncclComm_t world;  // the base communicator
    // The calls of this rank in the step being run:
    const ls_call **calls;
    int call_count, call_room;
    struct nccl_staged *staged;  // [call_room]
    double deadline;             // on ls_time_now
    const ls_call *waiting;      // the call that it waits for; NULL: none
} nccl_worker;

// Where a call's buffers are on the GPU.
typedef struct nccl_staged {
    const void *send;
    void *recv;
    const void *host_send;  // to be copied to send first; NULL: nothing
    void *host_recv;        // to be copied from recv after; NULL: nothing
    size_t send_bytes, recv_bytes;
    char *gathered;  // of a call that NCCL does not have: a piece for each member; NULL: it has it
} nccl_staged;

// A member's data for a call that NCCL lacks: its input, and then its factor.
static inline size_t ls_nccl__piece_bytes(const nccl_staged *staged) {
    return staged->send_bytes + sizeof(double);
}

// NCCL's choice for a call of the last group; only member 0 of a communicator knows.
typedef struct nccl_used {
    int comm_id;
    uint64_t seq;
    ls_nccl_choice choice;
    char *order;  // text; NULL: not known
} nccl_used;

struct nccl_owner {
    ls_backend backend;
    const ls_nccl_library *library;
    ls_nccl_options options;
    nccl_worker *workers;  // [held]
    int held, size;        // ranks: here, and of the world
    nccl_comm *comms;
    nccl_comm *kept_comms;  // closed, for the next request of the same members
    nccl_owner *next_kept;  // of ls_nccl_kept
    ls_nccl_topology world_topology;
    pthread_mutex_t jobs;  // one job for the workers at a time, whichever thread asks
    atomic_bool failing;   // some worker failed: the others stop waiting
    bool broken;           // communicators were aborted
    nccl_used *used;       // [used_count]
    int used_count, used_room;
    ls_arena *names;  // files named by other processes' calls
};

// Runs `job` on every worker at once (arg + index * arg_bytes) and waits. The first error that is a
// cause, not a consequence, is this thread's.
int ls_nccl__on_all(nccl_owner *owner, int (*job)(nccl_worker *worker, void *arg), void *arg,
                    size_t arg_bytes);
// The same, and calls `watch` meanwhile; when that fails, the workers stop, with its error.
int ls_nccl__on_all_watched(nccl_owner *owner, int (*job)(nccl_worker *worker, void *arg),
                            int (*watch)(void *arg), void *watch_arg);
// Waits until the communicator has nothing pending.
int ls_nccl__wait_comm(nccl_worker *worker, ncclComm_t comm, const char *what);
// Waits until the stream is done.
int ls_nccl__wait_stream(nccl_worker *worker, ncclComm_t comm);
int ls_nccl__workers_open(nccl_owner *owner);
void ls_nccl__workers_close(nccl_owner *owner);
void ls_nccl__abort(nccl_owner *owner);
nccl_comm *ls_nccl__comm(nccl_owner *owner, const ls_comm *comm);

// ---- nccl_comm.c --------------------------------------------------------------------------------
void ls_nccl__set_deadline(nccl_owner *owner);  // of every worker, from now on
int ls_nccl__world_open(nccl_owner *owner);
void ls_nccl__world_close(nccl_owner *owner);
int ls_nccl__comm_open(ls_backend *backend, ls_comm *comm);
void ls_nccl__comm_close(ls_backend *backend, ls_comm *comm);
int ls_nccl__comm_split(ls_backend *backend, ls_comm *comm, const ls_comm *parent, int color);

// ---- nccl_measure.c -----------------------------------------------------------------------------
bool ls_nccl__is_device(ls_backend *backend, const void *pointer);
int ls_nccl__read_device(ls_backend *backend, void *host, const void *device, size_t bytes);
int ls_nccl__enter_rank(ls_backend *backend, int rank);

// ---- nccl.c -------------------------------------------------------------------------------------
int ls_nccl__room_for(nccl_worker *worker, int count);
int ls_nccl__stage_job(nccl_worker *worker, void *unused);

// ---- Calls (nccl_stage.c, nccl_issue.c) ---------------------------------------------------------
// Issues the worker's calls: one collective, or any sends and receives as one group.
int ls_nccl__issue(nccl_worker *worker);
int ls_nccl__unstage(nccl_worker *worker);
// A collective that NCCL does not have: all inputs are gathered, and the CPUs do its math.
bool ls_nccl__is_gathered(const ls_call *call);
// Whether NCCL can do the call at all; LS_ERR_UNSUPPORTED names what it lacks.
int ls_nccl__supports(const ls_call *call);

// ---- Sends and receives between processes (nccl_messages.c) -------------------------------------
// A rank's sends and receives are checked against their other ends while NCCL runs: a group of one
// rank may match single calls of another, so no rank may wait for all of them first.
typedef struct ls_nccl_messages {
    nccl_owner *owner;
    const ls_call **calls;  // [count]
    bool *agreed;           // [count]
    int count;
    ls_arena *arena;
} ls_nccl_messages;
// Sends the other ends of calls [count] a description of the call.
int ls_nccl__messages_open(ls_nccl_messages *out, nccl_owner *owner, const ls_call **calls,
                           int count, ls_arena *arena);
// Checks the other ends that are known by now.
int ls_nccl__messages_check(void *messages);
// Waits for the rest, until the deadline.
int ls_nccl__messages_close(ls_nccl_messages *messages);

// ---- Other processes (nccl_agree.c) -------------------------------------------------------------
// The exchanged data, for each communicator.
enum {
    LS_NCCL_TAG_COLLECTIVES = 1,
    LS_NCCL_TAG_SEND,  // a sender's call, to the receiver
    LS_NCCL_TAG_RECV,  // a receiver's call, to the sender
    LS_NCCL_TAG_TOPOLOGY,
    LS_NCCL_TAGS
};
static inline int ls_nccl__tag(const ls_comm *comm, int what) {
    return comm->id * LS_NCCL_TAGS + what;
}

typedef struct ls_nccl_reader {
    const char *at, *end;
} ls_nccl_reader;
void ls_nccl__pack_call(ls_text *out, const ls_call *call);
// In `arena`, but for the file's name, which outlives the call.
int ls_nccl__unpack_call(ls_call *out, ls_nccl_reader *r, nccl_owner *owner, const ls_comm *comm,
                         ls_arena *arena);
// `call` waits for a call of rank `missing` that did not come.
int ls_nccl__fail_missing(const ls_call *call, int missing, double deadline_seconds);
void ls_nccl__rest(int turn);  // between two polls

// The collectives of this process and of the others of their communicators: *out [*count] for the
// matcher, in `arena`.
int ls_nccl__gather_calls(ls_call **out, int *count, nccl_owner *owner, const ls_call *calls,
                          int call_count, ls_arena *arena);
// Completes a topology with what the other members' logs say.
int ls_nccl__gather_topology(ls_nccl_topology *topology, nccl_owner *owner, const int *ranks,
                             int size, int comm_id);
