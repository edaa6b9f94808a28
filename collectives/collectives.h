// collectives: what ranks say to each other. One descriptor per collective (its argument rules,
// traffic, local math and plain reference), communicators, backends that complete matched calls,
// and the operations on local tensors that need communication.
//
// One math, two front doors. A collective's local math takes the calls of all ranks of a group at
// once. Front door A: one controller holds every shard and hands all calls over (ls_backend_run).
// Front door B: each rank's thread posts its own call and the matcher (ranks/) hands the matched
// set to the same function.
#ifndef LS_COLLECTIVES_COLLECTIVES_H
#define LS_COLLECTIVES_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "collectives/calls.h"
#include "collectives/finding.h"
#include "orders/order.h"
#include "local_tensor/local_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Calls --------------------------------------------------------------------------------------
LS_API_BACKENDS const char *ls_kind_name(ls_kind kind);  // "unknown kind" of a number that is none
int ls_kind_parse(ls_kind *out, const char *text);

typedef struct ls_comm ls_comm;

// One rank's call: the rank, its arguments and its place. Checks, recordings, traces, gdb and error
// texts all read this one record.
//
// Meaning of count, in elements (as in NCCL):
//   all_reduce, reduce, broadcast, scan: the whole buffer; all_gather: what each rank sends;
//   reduce_scatter: what each rank receives; all_to_all, gather, scatter: per pair of ranks;
//   send, recv: the message; barrier: 0.
// Uneven forms give counts per member of the communicator [size]; blocks lie one after another:
//   all_gather: recv_counts (the same on all ranks), count = recv_counts[own member];
//   reduce_scatter: send_counts (the same on all ranks), count = send_counts[own member];
//   all_to_all: send_counts and recv_counts, each rank its own; gather: recv_counts on the root;
//   scatter: send_counts on the root.
typedef struct ls_call {
    ls_kind kind;
    const ls_comm *comm;
    int rank;      // the caller, as a rank of the world
    uint64_t seq;  // this rank's calls on this communicator, from 0; set by the backend
    ls_dtype dtype;
    ls_op op;                   // reductions
    double premul;              // this rank's factor for premul_sum
    int root;                   // member of the communicator: root, or the peer of send and recv
    size_t count;               // see above
    const size_t *send_counts;  // borrowed while the call is in flight; NULL: even
    const size_t *recv_counts;  //
    const void *send;           // NULL where this rank sends nothing
    void *recv;                 // NULL where it receives nothing
    const char *file;           // where the program made the call; static storage
    int line;
    bool recv_shared;  // members with equal results share one `recv`; each of them sets this
    const char
        *purpose;  // name of the moved data: "input_dist sizes"; NULL: not said; static storage
    // Inside the library: 6 words
    // Calls of another front (mpi/) are reported in its words: writes the call without its rank and
    // place. words: what it needs for that, since the call may be over by then. NULL: none.
    void (*say)(char *out, size_t out_bytes, const struct ls_call *call);
    int words[8];
    int stage_of_tables;  // an ls_stage (embedding/stages.h), of a module's call in one; else 0
    bool overstated;      // a fault made its count exceed its buffers: nothing reads past their end
} ls_call;

// ---- Inside the library: what a call comes to ---------------------------------------------------
// "all_reduce sum of 1024 f32 on world". A purpose stands before "on"; of a call with counts for
// each rank there is no one number to tell.
LS_API_BACKENDS void ls_call_describe(char *out, size_t out_bytes, const ls_call *call);
// The same with " (rank 3, call 7, train.c:41)".
LS_API_BACKENDS void ls_call_format(char *out, size_t out_bytes, const ls_call *call);
// Elements in the send and receive buffer of a call (0 where it has none on this rank).
// LS_ERR_OVERFLOW when they or their bytes do not fit; LS_ERR_INVALID for a call that makes no
// sense.
LS_API_BACKENDS int ls_call_send_elements(size_t *out, const ls_call *call);
LS_API_BACKENDS int ls_call_recv_elements(size_t *out, const ls_call *call);
// Elements before `member`'s own block in the side that has a block for each member, where one side
// has; else 0. Of a call whose counts do not overflow.
size_t ls_call_own_offset(const ls_call *call, int member);

// The memory a call touches, for checks, recordings and backends.
typedef struct ls_call_extent {
    size_t send_bytes;  // read from call->send
    size_t recv_bytes;  // written to call->recv
    size_t own_offset;  // elements before this rank's own block in the buffer that has a block per
                        // member (all_gather, reduce_scatter, gather, scatter), else 0
    bool in_place;      // the buffers overlap in the one way the collective allows
} ls_call_extent;

// Checks one call by itself: communicator, rank, dtype, op, root, counts, buffers present, and the
// in-place rules, which are NCCL's: where one side has a block for each member, the other is the
// own block of it (all_gather, gather, reduce_scatter, scatter); where both have (all_to_all) there
// is none; else send == recv. *out may be NULL.
LS_API_BACKENDS int ls_call_check(ls_call_extent *out, const ls_call *call);
// Checks each call of a group by itself, then that they agree.
LS_API_BACKENDS int ls_calls_check(const ls_call *const *calls, int size);

// ---- Inside the library: descriptors ------------------------------------------------------------
// The elements that a side of a call has on a member.
typedef enum ls_side_form {
    LS_SIDE_NONE,
    LS_SIDE_COUNT,   // count
    LS_SIDE_BLOCKS,  // a block for each member: count each, or as the side's counts say
} ls_side_form;

typedef struct ls_side {
    ls_side_form form;
    bool root_only;  // the other members have nothing on this side
} ls_side;

// All that is special about a kind of call. All users of calls (checks, scenarios and their schema,
// backends, reports) follow from here.
struct ls_axis;  // see below

// The arguments of a collective on a tensor beside the tensor; each takes what it has a use for.
typedef struct ls_tensor_call {
    ls_op op;
    int dim, split_dim, cat_dim;
    int root;  // member of the fiber
} ls_tensor_call;

typedef struct ls_collective {
    const char *doc;        // one sentence
    ls_side send, recv;     //
    const char *root_word;  // joins the root, or the peer, in texts: "to", "from"; NULL: none
    bool reduces;           // the result depends on the order of a sum
    ls_order_call order;    // as what an order describes its sum; NONE: it has its own
    // Of a reduction over the first members alone: how many inputs go into what `member` gets; of 0
    // it is what changes nothing (ls_op_neutral). NULL: all.
    int (*terms)(int member);
    bool replicates;  // all members' results are the same
    // In all that follows calls [size] are the matched calls by member; for p2p they are the send
    // and its receive (size 2, members 0 and 1).
    unsigned agree;  // fields in which all members agree, bits of ls_agree_field (check.h)
    // Checks whether they agree, in place of `agree`. LS_ERR_MISMATCH or LS_ERR_INVALID, naming the
    // ranks and the call; ls_check_last() tells which finding it is.
    int (*check)(const ls_call *const *calls, int size);
    // ls_collective_bytes, where the two sides do not say it.
    uint64_t (*bytes)(const ls_call *const *calls, int from, int to);
    // The math on all members' buffers at once, in place or out of place. The calls must have
    // passed check.
    int (*math)(const ls_call *const *calls, int size, const ls_order *order);
    // The plain version of the math: element by element, rank order, copies its inputs first.
    int (*reference)(const ls_call *const *calls, int size);
    double bus_times;  // how often each rank sends to each other, see ls_collective_bus_factor
} ls_collective;

// The descriptor of a kind; send and recv share their functions. Never NULL for a valid kind.
LS_API_BACKENDS const ls_collective *ls_collective_of(ls_kind kind);
// Bytes of member `from`'s input that member `to`'s result depends on, whatever the algorithm.
// If both are the same member, these are the bytes that it keeps.
uint64_t ls_collective_bytes(const ls_call *const *calls, int from, int to);
// Bus bandwidth factor of nccl-tests' PERFORMANCE.md for `size` ranks: bus_times (size - 1) / size;
// without bus_times 1, where data is moved.
double ls_collective_bus_factor(const ls_collective *collective, int size);
// The ls_tensor_NAME of a kind; NULL: none.
typedef int (*ls_collective_on_tensor)(ls_local_tensor **out, const ls_local_tensor *in,
                                       const ls_tensor_call *call, const struct ls_axis *axis);
ls_collective_on_tensor ls_collective_tensor_form(ls_kind kind);

// A collective whose blocks may differ in size.
static inline bool ls_collective_has_counts(const ls_collective *collective) {
    return collective->send.form == LS_SIDE_BLOCKS || collective->recv.form == LS_SIDE_BLOCKS;
}
// How many inputs are folded into what `member` gets of a reduction among `size`.
static inline int ls_collective_term_count(const ls_collective *collective, int member, int size) {
    return collective->terms != NULL ? collective->terms(member) : size;
}
// Every member has a block for every other, in both directions: all_to_all.
static inline bool ls_collective_has_splits(const ls_collective *collective) {
    return collective->send.form == LS_SIDE_BLOCKS && collective->recv.form == LS_SIDE_BLOCKS;
}
// There is an input and a result that may share memory: see ls_call_check.
static inline bool ls_collective_has_in_place(const ls_collective *collective) {
    return collective->send.form != LS_SIDE_NONE && collective->recv.form != LS_SIDE_NONE &&
           !ls_collective_has_splits(collective);
}
static inline bool ls_collective_has_data(const ls_collective *collective) {
    return collective->send.form != LS_SIDE_NONE || collective->recv.form != LS_SIDE_NONE;
}
static inline bool ls_kind_is_ask(ls_kind kind) {
    return kind > LS_KIND_COUNT && kind < LS_ASK_END;
}
static inline bool ls_kind_is_message(ls_kind kind) {
    return kind == LS_SEND || kind == LS_RECV;
}

// ---- Backends -----------------------------------------------------------------------------------
typedef struct ls_backend ls_backend;

// Sees every set of calls [size, by member; 2 for a message: the send, then its receive] that has
// met in this process and agrees, before its data moves. Counts are valid during the call alone.
typedef void (*ls_met_observer)(void *arg, const ls_call *const *calls, int size);

LS_API ls_world *ls_backend_world(const ls_backend *backend);  // borrowed

// The simulator: every rank of the world must be held. Owned by the caller.
LS_API int ls_backend_sim_create(ls_backend **out, ls_world *world);
// The same with the buffers, and the math on them, on a device (borrowed). Calls may also name
// ordinary memory: the data then go to the device and the results come back.
int ls_backend_sim_create_on(ls_backend **out, ls_world *world, struct ls_device *device);
LS_API void ls_backend_free(ls_backend *backend);  // NULL is allowed

// Completes calls [call_count] of held ranks as one group: for every communicator and rank, the
// i-th collective is matched with the i-th of the other members; sends and receives are matched by
// (communicator, sender, receiver, order). Checks everything first, so a failing group moves no
// data and uses up no call numbers. Calls of one group are concurrent: a buffer that one of them
// writes may not be touched by another (LS_ERR_INVALID). LS_ERR_MISMATCH names rank and call where
// calls disagree or are missing. Sets seq of every call.
LS_API int ls_backend_run(ls_backend *backend, ls_call *calls, int call_count);

// The same for one call without waiting for the others, on backends that can (ops->start is set;
// else LS_ERR_UNSUPPORTED). *call and what it points to must stay until ls_backend_test says that
// it is done, with its status; *pending is gone then. Collectives of one communicator, and messages
// one way between two ranks, keep the order in which they were started; all else goes on at once.
int ls_backend_start(void **pending, ls_backend *backend, ls_call *call);
int ls_backend_test(bool *done, ls_backend *backend, void *pending, const ls_call *call);

// ---- Inside the library: what a backend does ----------------------------------------------------
// Sees every call this process completed, in the order of completion, with its result in place; one
// that goes on by itself (ls_backend_start) as it begins.
typedef void (*ls_call_observer)(void *arg, const ls_call *call);

// Sees where this process's rank is in its program, whenever it begins to wait and goes on.
typedef void (*ls_place_observer)(void *arg, const ls_place *place);

typedef struct ls_backend_ops ls_backend_ops;  // what completes calls

struct ls_backend {
    const ls_backend_ops *ops;
    ls_world *world;           // borrowed
    struct ls_device *device;  // memory of its buffers and the kernels there; NULL: ordinary memory
    const ls_order *order;     // for reductions; borrowed; NULL: rank order
    // The order of one call, where calls have orders of their own (the call is member 0's; *out
    // stays as it is where the call has none). Simulator alone; NULL: `order` for all.
    int (*order_of)(void *arg, const ls_order **out, const ls_call *call);
    void *order_of_arg;
    ls_call_observer observer;  // NULL: none
    void *observer_arg;
    ls_met_observer met;  // NULL: none; of backends that hold every rank
    void *met_arg;
    ls_place_observer place;  // NULL: none; of backends that hold one rank, in ls_spmd_run_backend
    void *place_arg;
    // Compare a local tensor's replicas before it is redistributed or gathered: reads all of it, so
    // it is off unless asked for.
    bool check_replicas;
    int comm_next_id;                        // set by ls_comm_create
    struct ls_axis *axes[LS_MESH_DIMS_MAX];  // those that redistributing has made; owned
    ls_comm *everyone;                       // all ranks, likewise
    void *impl;
};

// This is what a backend used for a call. Strings are borrowed until the next run.
typedef struct ls_call_used {
    const char *algorithm;  // "ring", "tree", ...
    const char *protocol;   // "ll", "ll128", "simple"; NULL: not known
    int channels;           // 0: not known
    const char *order;      // text of the reduction order that follows from it; NULL: not known
} ls_call_used;

struct ls_backend_ops {
    const char *name;  // "sim", "mpi", "nccl"
    bool forwards;     // calls go on to another backend, which tells the hooks of them
    bool simulates;    // its ranks can be threads of one run, which is scheduled and watched
    // Memory that this backend's calls accept. NULL: ordinary memory.
    int (*alloc)(ls_backend *backend, void **out, size_t bytes);
    void (*free)(ls_backend *backend, void *pointer, size_t bytes);
    int (*copy_in)(ls_backend *backend, void *device, const void *host, size_t bytes);
    int (*copy_out)(ls_backend *backend, void *host, const void *device, size_t bytes);
    // Whether `pointer` is memory that only a device can read; NULL: none is. And a copy of it.
    bool (*is_device)(ls_backend *backend, const void *pointer);
    int (*read_device)(ls_backend *backend, void *host, const void *device, size_t bytes);
    // The calling thread is about to run a held rank's program (its GPU becomes the thread's); may
    // be NULL.
    int (*enter_rank)(ls_backend *backend, int rank);
    // A communicator came into being or goes; comm->impl is the backend's.
    int (*comm_open)(ls_backend *backend, ls_comm *comm);
    void (*comm_close)(ls_backend *backend, ls_comm *comm);
    // The same for one that splits off `parent`: every process of parent comes here, those of one
    // color with their communicator, the others with color -1 and NULL. Of backends that hold one
    // rank of several; else NULL.
    int (*comm_split)(ls_backend *backend, ls_comm *comm, const ls_comm *parent, int color);
    // Completes a set of calls of the ranks this process holds, as one group (below).
    int (*run)(ls_backend *backend, ls_call *calls, int call_count);
    // Begins a call of a held rank without waiting, and tells whether it is done, which moves on
    // all that are under way. Both or neither; NULL: run alone.
    int (*start)(ls_backend *backend, ls_call *call, void **pending);
    int (*test)(ls_backend *backend, void *pending, bool *done);
    // The algorithm that was used for a call of the last run; false where that is not known. May be
    // NULL.
    bool (*used)(ls_backend *backend, const ls_call *call, ls_call_used *out);
    void (*destroy)(ls_backend *backend);
};

// ---- Communicators ------------------------------------------------------------------------------
// A communicator over `ranks` [size] (any distinct ranks of the world, in this order; NULL: all).
// Under MPI and NCCL every process of the world must make the same call.
LS_API int ls_comm_create(ls_comm **out, ls_backend *backend, const int *ranks, int size,
                          const char *name);
// Where each process holds one rank: the communicator of `color` split off `parent`, as by
// MPI_Comm_split. Every process of parent makes the call; those of one color give the same ranks
// [size] (this process's among them), id (one that no other communicator of theirs has; see
// backend->comm_next_id) and name. color < 0: *out is NULL, and nothing else is read.
int ls_comm_split_off(ls_comm **out, const ls_comm *parent, int color, const int *ranks, int size,
                      int id, const char *name);
// The family of those that a line (file may be NULL) makes of communicators of one family.
LS_API_BACKENDS uint64_t ls_comm_family(uint64_t parent, const char *file, int line);
// Gives up what the backend holds for it and keeps the record, which messages may still name.
void ls_comm_close(ls_comm *comm);
LS_API void ls_comm_free(ls_comm *comm);                            // NULL is allowed
LS_API_BACKENDS int ls_comm_member(const ls_comm *comm, int rank);  // -1: not a member

// All sibling communicators along one mesh axis, one per fiber, in ascending order of their first
// rank; member i of each has coordinate i. Owned. Every process of the world must make the call.
typedef struct ls_axis ls_axis;
LS_API int ls_axis_create(ls_axis **out, ls_backend *backend, int axis);
LS_API void ls_axis_free(ls_axis *axis);

#define LS_COMM_NAME_BYTES 48
// The name of the communicator of a subset of `of` that is made next.
void ls_comm_subset_name(char out[LS_COMM_NAME_BYTES], const ls_comm *of);

// ---- Inside the library: what communicators hold ------------------------------------------------
struct ls_comm {
    ls_backend *backend;            // borrowed
    int id;                         // unique within the backend; 0, 1, ... in order of creation
    char name[LS_COMM_NAME_BYTES];  // for messages: "world", "host", ...
    uint64_t family;                // of those made alike: along one axis, or at one line; else id
    int size;                       // members
    int *ranks;                     // [size] world rank of each member; owned
    int *by_rank;                   // [size] members in ascending order of their rank; owned
    uint64_t *seq;                  // [size] next call number of each member; owned
    void *impl;                     // the backend's
    bool closed;                    // the backend's part is gone; no calls are possible any more
    int number;                     // in order of creation in the process, for debuggers
    struct ls_comm *older, *newer;  // of all communicators of the process, likewise
};

struct ls_axis {
    int axis;  // mesh dimension
    int world_size;
    int comm_count;
    ls_comm **comms;    // [comm_count]
    int *comm_of_rank;  // [world size] index into comms
};

// ---- Recipes for calls --------------------------------------------------------------------------
// Each makes one rank's call record; hand all held ranks' calls to ls_backend_run together.
#define LS_HERE .file = __FILE__, .line = __LINE__

// ---- Collectives on local tensors (front door A) ------------------------------------------------
// Distributes `full` as `source_rank` holds it (other ranks' `full` is ignored and may be NULL)
// with a mesh scatter or broadcast per mesh dimension, outermost first; uneven shards travel as
// they are, without DTensor's padding, and come out the same.
LS_API int ls_tensor_scatter(ls_local_tensor **out, ls_backend *backend, const void *full,
                             int source_rank, const ls_shape *shape, ls_dtype dtype,
                             const ls_placements *placements);
// Any placements to any others, one mesh dimension at a time from the last to the first, each by
// its collective (all_gather, reduce_scatter, all_reduce, all_to_all or a local cut). Where an
// inner mesh dimension shards the tensor dimension that an outer one changes, the inner one is
// gathered first and cut again at the end. Replicate to partial: as ls_local_tensor_distribute
// says. Blocks that were listed, strided shards and mesh dimensions that cut in turns of their own
// move in one all_to_all of all ranks (partial values are reduced first).
LS_API int ls_tensor_redistribute(ls_local_tensor **out, ls_backend *backend,
                                  const ls_local_tensor *in, const ls_placements *placements);
// exp(x) / sum over dim, or its logarithm, of f32 and f64: the largest values and the sums are
// all_reduced where dim is sharded, and nothing is gathered. Lies as `in`; computed in f64, rounded
// to the type where a result is kept.
LS_API int ls_tensor_softmax(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                             int dim, bool logarithm);
// torch's: the loss of a sample is (1 - smoothing) w[target] (-log p[target]) + smoothing / classes
// times the sum of w[c] (-log p[c]) over all classes, p being the softmax; 0 where the target is
// `ignored`. LS_LOSS_MEAN divides the losses' sum by the sum of w[target], ignored ones apart.
typedef enum ls_loss_reduction { LS_LOSS_EACH, LS_LOSS_SUM, LS_LOSS_MEAN } ls_loss_reduction;
typedef struct ls_loss_options {
    size_t size;                     // sizeof this struct (LS_OPTIONS); 0: as this header has it
    int64_t ignored;                 // torch: -100
    double smoothing;                // of labels: 0 to 1
    const ls_local_tensor *weights;  // w [classes], replicated, of the logits' type; NULL: 1
    ls_loss_reduction reduction;
} ls_loss_options;
// Of logits [samples, classes], where both may be sharded (loss parallel: no class is gathered):
// out [samples], or [] of their sum or mean, replicated. targets [samples] i64 lie as the logits'
// samples do.
LS_API int ls_tensor_cross_entropy(ls_local_tensor **out, ls_backend *backend,
                                   const ls_local_tensor *logits, const ls_local_tensor *targets,
                                   const ls_loss_options *options);
// The p-norm over dim, which disappears: p at least 1, or infinity. The sums of powers (the largest
// values) are all_reduced in f64 where dim is sharded; the result is replicated there.
LS_API int ls_tensor_norm(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                          int dim, double p);
// The whole tensor on every held rank: redistributed to replicate, reconciled, copied to out.
LS_API int ls_tensor_full(void *out, size_t out_bytes, ls_backend *backend,
                          const ls_local_tensor *in);

// ---- Inside the library: the collectives that these are made of ---------------------------------
// Each acts on the single shard of every held rank of the axis's (or communicator's) ranks.
int ls_tensor_all_reduce(ls_local_tensor **out, const ls_local_tensor *in, ls_op op,
                         const ls_axis *axis);
int ls_tensor_all_gather(ls_local_tensor **out, const ls_local_tensor *in, int dim,
                         const ls_axis *axis);  // uneven shards allowed
int ls_tensor_reduce_scatter(ls_local_tensor **out, const ls_local_tensor *in, ls_op op, int dim,
                             const ls_axis *axis);  // chunks of ceil(n / size)
int ls_tensor_all_to_all(ls_local_tensor **out, const ls_local_tensor *in, int split_dim,
                         int cat_dim, const ls_axis *axis);  // shard_dim_alltoall
int ls_tensor_broadcast(ls_local_tensor *tensor, int root, const ls_axis *axis);

// Checks that a tensor's replicas among the held ranks agree, as ls_local_tensor_check_replicas; a
// difference is the finding replica.diverged at file:line (ls_check_last). Redistributing and
// full do it by themselves, first, where backend->check_replicas is set.
int ls_tensor_check_replicas_at(const char *file, int line, const ls_local_tensor *tensor);
#define ls_tensor_check_replicas(tensor) ls_tensor_check_replicas_at(__FILE__, __LINE__, tensor)

#ifdef __cplusplus
}
#endif
#endif
