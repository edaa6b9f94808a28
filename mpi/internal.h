// Declarations that the files of mpi/ share. Handles are indices of their rank's tables.
#pragma once

#include "mpi/clock.h"
#include "mpi/data.h"
#include "mpi/intervals.h"
#include "mpi/mpi_run.h"
#include "ranks/front.h"
#include "ranks/seen.h"

// Weak: a program that is executed directly is loaded before lockstep defines them.
#pragma weak ls_seen__here
#pragma weak ls_seen__forked

typedef struct mpi_comm mpi_comm;
typedef struct mpi_request mpi_request;
typedef struct mpi_win mpi_win;
typedef struct mpi_parts mpi_parts;

// ---- handle.c -----------------------------------------------------------------------------------
typedef enum mpi_kind {
    MPI_KIND_COMM = 1,
    MPI_KIND_GROUP,
    MPI_KIND_TYPE,
    MPI_KIND_OP,
    MPI_KIND_REQUEST,
    MPI_KIND_WIN,
    MPI_KIND_ERRHANDLER,
    MPI_KIND_INFO,
    MPI_KIND_MESSAGE,
    MPI_KIND_COUNT
} mpi_kind;

typedef struct mpi_slot {
    void *object;  // NULL: free
    unsigned generation;
    const char *file;  // where it was made or freed
    int line;
    const char *function;  // the MPI function that made it
    int next_free;
    bool internal;  // the library made it; it is no leak
} mpi_slot;

typedef struct mpi_table {
    mpi_slot *slots;
    int count, room, first_free;  // first_free 0: none
} mpi_table;

#define LS_MPI_FIRST_OWN 64  // smaller numbers are MPI's constants
int ls_mpi__handle_add(mpi_rank *me, mpi_kind kind, void *object);
// NULL: no such object; *why names what the handle is ("MPI_COMM_NULL", "was freed at ...").
void *ls_mpi__handle_get(mpi_rank *me, mpi_kind kind, int handle, const char **why);
void ls_mpi__handle_free(mpi_rank *me, int handle);
void ls_mpi__handle_constant(mpi_rank *me, mpi_kind kind, int number, void *object);
mpi_slot *ls_mpi__handle_slot(mpi_rank *me, int handle);
void ls_mpi__handles_close(mpi_rank *me);

// ---- Objects ------------------------------------------------------------------------------------
typedef struct mpi_group {
    int size;
    int ranks[];  // [size] ranks of the world
} mpi_group;

typedef struct mpi_errhandler {
    MPI_Comm_errhandler_function *comm;
    MPI_Win_errhandler_function *win;
    int references;  // of the program
} mpi_errhandler;

typedef struct mpi_topology {
    int kind;  // MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
    int ndims, *dims, *periods, *coords;
    int nodes, *index, *edges;
    int in_count, out_count, *in, *out, *in_weights, *out_weights;
    bool weighted, agreed;  // agreed: both ends name every edge
} mpi_topology;

struct mpi_comm {
    int handle;
    ls_rank_comm *inner;
    int channels;  // number of persistent collectives and windows made so far
    bool inter;
    int size, rank;  // in its own group
    int first;       // index of the own group's first member
    int remote_size, remote_first;
    char name[MPI_MAX_OBJECT_NAME];
    int errhandler;
    mpi_attribute *attributes;
    mpi_topology *topology;
    mpi_rank *owner;
};

// ---- Calls --------------------------------------------------------------------------------------
typedef enum mpi_mode {
    MPI_MODE_STANDARD,
    MPI_MODE_SYNC,
    MPI_MODE_BUFFERED,
    MPI_MODE_READY
} mpi_mode;

// A side of a collective: one buffer, or one block for each member.
typedef struct mpi_side {
    const void *buf;
    int count;
    const int *counts;  // [members] NULL: count for each
    const int *displs;
    const MPI_Aint *byte_displs;  // of neighbor_alltoallw
    const mpi_type *type;
    const MPI_Datatype *types;       // of alltoallw
    const mpi_type *const *objects;  // of a request: the handles may be freed before it completes
} mpi_side;

typedef struct mpi_collective mpi_collective;
// A request's arguments, for the matcher.
typedef struct mpi_record {
    const mpi_collective *collective;  // NULL: a message
    mpi_comm *comm;
    ls_rank_comm *channel;  // communicator of a window's collectives; NULL: `comm`
    const char *function;
    mpi_side send, recv;
    const mpi_op *op;
    int root;
    // Collectives that make an object.
    int color, key, assertion;
    struct mpi_attribute *attributes;  // of the new communicator
    bool merges;                       // merges the two groups of an intercommunicator
    const mpi_group *group;
    int *out;  // receives the new handle
    mpi_win *win;
    mpi_topology *topology;
    // Messages.
    int number;  // sequence number on its rank
    mpi_mode mode;
    bool whole;  // a matched probe: the receive takes the message and no data yet
    void *packed;
    size_t packed_bytes;
    MPI_Status status;
    bool truncated;
    uint64_t *clock;            // the sender's clock at the send
    struct mpi_thread *thread;  // the thread that called a collective
} mpi_record;

struct mpi_collective {
    const char *name;  // the name of the blocking form
    bool rooted, reduces, neighbors;
    bool two_sided;                                     // it has separate receive arguments
    bool out_blocks, in_blocks;                         // the side has one block for each peer
    int (*move)(mpi_record *const *records, int size);  // NULL: no data
    int (*make)(ls_spmd *run, ls_request *const *requests, int size);
    enum { MPI_SYNC_ALL, MPI_SYNC_FROM_ROOT, MPI_SYNC_TO_ROOT, MPI_SYNC_PREFIX } sync;
};

typedef enum mpi_request_kind {
    MPI_REQUEST_SEND,
    MPI_REQUEST_RECV,
    MPI_REQUEST_COLLECTIVE,
    MPI_REQUEST_RMA,
    MPI_REQUEST_GENERAL
} mpi_request_kind;

typedef struct mpi_held {
    mpi_interval at;
    struct mpi_owned *owned;
} mpi_held;

typedef struct mpi_owned {  // a buffer that a call owns until it completes
    bool writes;            // the call writes it: nothing else may even read it
    bool told;
    const char *function, *file;
    int line;
    mpi_win *win;  // of an RMA call, until its epoch ends
    int target;
    struct mpi_owned *next, **of_epoch;  // list of the same epoch; the pointer to this element
    struct mpi_owned **holder;           // the request's pointer; the request may be freed first
    const ls_request *until;  // of a freed request: owned until this completes; NULL: disowned
    size_t held_count;
    mpi_held held[];
} mpi_owned;

#define LS_MPI_OWNED 10
struct mpi_request {
    int handle;
    mpi_request_kind kind;
    bool persistent, active, cancelled;
    ls_request proto;
    mpi_record record;
    ls_request *inner;  // NULL: complete
    mpi_comm *comm;
    ls_rank_comm *channel;  // of a persistent collective; NULL otherwise
    const char *file;
    int line;
    mpi_owned *owned[LS_MPI_OWNED];                   // its buffers and lists
    void (*own)(mpi_rank *me, mpi_request *request);  // of a collective: records them
    void *lists;                          // copies of the counts and displacements at the call
    const void *given[LS_MPI_OWNED - 2];  // the program's own arrays
    mpi_parts *parts;                     // of a partitioned message; NULL otherwise
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *release;
    MPI_Grequest_cancel_function *cancel;
    void *state;
    bool general_done, freed;   // freed: before it was done
    const ls_thread *waiter;    // the only thread that waits for it
    struct mpi_access *access;  // of an RMA call; NULL: it can no longer race
    mpi_request *next_freed;
};

typedef struct mpi_keyval {
    mpi_kind kind;
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *release;
    void *state;
    bool used;       // not freed
    int references;  // the number of attributes with this key
} mpi_keyval;

// A buffer on the stack that was found large enough, and the place of its call.
#define LS_MPI_LOOKED 64
typedef struct mpi_looked {
    const char *low, *high, *stack, *file;
    int line;
} mpi_looked;

#define LS_MPI_KEYVALS 256
struct mpi_rank {
    ls_rank *rank;
    int id, thread_level;
    int posted;     // number of messages and probes so far
    uint64_t ends;  // number of locks, flushes and RMA requests, see ls_mpi__let_others
    bool initialised, finalised;
    pthread_t main_thread;    // the thread that called MPI_Init
    ls_seen_place thread_at;  // of main_thread
    uint64_t entered;         // number of MPI calls so far
    mpi_table tables[MPI_KIND_COUNT];
    mpi_comm *world, *self;
    void *bsend_buffer;
    mpi_owned *bsend_owned;
    size_t bsend_size, bsend_used, bsend_all;  // all: total since the buffer was attached
    mpi_request *freed;                        // freed before their messages were complete
    int freed_count, freed_limit;
    mpi_intervals owned[2];       // [0]: read by calls; [1]: written
    mpi_keyval *keyvals;          // [LS_MPI_KEYVALS] index 0 unused
    mpi_thread main;              // then the others, in the order of their first call
    struct mpi_touches *touches;  // accesses of its threads; NULL: none
    uint64_t *synchronised;       // clock of its threads' last releases; NULL: none
    uint64_t *forked;             // clock of the last start of a thread or region
    uint64_t *ended;              // clock of the last exit from the program's functions
    bool has_tasks;               // tasks may begin after other tasks have ended
    bool unordered;               // thread order is unknown: treat its threads as one
    pthread_mutex_t turn;         // guards these thread clocks
    mpi_win *windows;
    int window_count;
    struct mpi_signals *signals;       // its signal handlers, see signals.c
    void *library;                     // its image
    const char *code_low, *code_high;  // address range of the image
    mpi_looked looked[LS_MPI_LOOKED];
    mpi_intervals blocks;    // allocations of the program
    const char *block_seen;  // allocations below it have been checked
    int argc;
    char **argv;
    struct mpi_codes *codes;  // error codes that the rank has added; NULL: none
    pthread_mutex_t look;
    atomic_bool looks;  // a thread is checking ownership outside of a call; under `look`
};

// The current run. Invariant: there is one at a time.
typedef struct mpi_state {
    const ls_mpi_options *options;
    ls_spmd *run;
    mpi_rank *ranks;  // [rank_count]
    int rank_count;
    const char *folder;  // for temporary files
    void *pending;       // communicators under construction, see comm_make.c
    int window_count;
    int made_comms;
    int choice_count;
    struct mpi_sleeping *sleeping;  // see choice.c
    struct mpi_pairs **pairs;       // see part.c
    int pair_count;
} mpi_state;
extern mpi_state ls_mpi__state;
extern const ls_front ls_mpi__front;

// ---- launch.c: copies of files ------------------------------------------------------------------
// A file without a name, so that no end of this process leaves it behind. Its path through /proc
// holds the bits of `number`: the loader takes two libraries of one path for one.
int ls_mpi__unnamed_file(char *path, size_t bytes, const char *folder, int number);
int ls_mpi__copy_file(int out, const char *to, const char *from);
extern _Thread_local const char *ls_mpi__file;
extern _Thread_local int ls_mpi__line;

// ---- state.c: a rank, its findings and its end --------------------------------------------------
mpi_rank *ls_mpi__rank_of_code(const void *address);  // NULL: no rank
// A defect that returns no error: always a finding with this id.
void ls_mpi__finding(mpi_rank *me, ls_finding_id id, const char *file, int line, const char *format,
                     ...) LS_PRINTF(5, 6);
_Noreturn void ls_mpi__end(mpi_rank *me, int exit_status);  // ends the rank's program
int ls_mpi__leave(mpi_rank *me, int status);                // ends the rank if the run has failed
_Noreturn void ls_mpi__exhausted(const char *format, ...) LS_PRINTF(1, 2);

// ---- enter.c: entry to and exit from MPI functions ----------------------------------------------
// The calling rank, between MPI_Init and MPI_Finalize; does not return where there is none.
mpi_rank *ls_mpi__enter(const char *function);
mpi_rank *ls_mpi__enter_any(const char *function);      // outside of that, too
mpi_rank *ls_mpi__enter_waiting(const char *function);  // waits for its turn
void ls_mpi__return(mpi_rank *const *me);
int *ls_mpi__last_code(const mpi_rank *me);  // MPI_LASTUSEDCODE
void *ls_mpi__alloc(size_t bytes);           // zeroed; ends the run if memory is exhausted
bool ls_mpi__on_stack(const mpi_rank *me, const void *at);  // of the calling thread
// First in a function: `name` is the rank until the function returns.
#define MPI_ENTERED(name, how)                                                                     \
    mpi_rank *name __attribute__((cleanup(ls_mpi__return))) = how(__func__)
#define MPI_ENTER(name)     MPI_ENTERED(name, ls_mpi__enter)
#define MPI_ENTER_ANY(name) MPI_ENTERED(name, ls_mpi__enter_waiting)

// ---- arguments.c --------------------------------------------------------------------------------
// Reports a call that MPI forbids. By the error handler of `comm` (NULL: of the world) the run ends
// with a finding, or the error class is returned.
int ls_mpi__error(mpi_rank *me, const mpi_comm *comm, int error_class, const char *function,
                  const char *format, ...) LS_PRINTF(5, 6);
int ls_mpi__win_error(mpi_rank *me, const mpi_win *win, int error_class, const char *function,
                      const char *format, ...) LS_PRINTF(5, 6);
const char *ls_mpi__class_name(int error_class);
// The functions below return MPI_SUCCESS or the result of ls_mpi__error.
typedef struct mpi_where {
    mpi_rank *me;
    const char *function;
} mpi_where;
int ls_mpi__refuse(mpi_where at, const char *file, int line, const char *what);  // ends the run
void ls_mpi__return_at(const mpi_where *at);
#define MPI_ENTERED_AT(name, how)                                                                  \
    mpi_where name __attribute__((cleanup(ls_mpi__return_at))) = {how(__func__), __func__}
#define MPI_ENTER_AT(name)     MPI_ENTERED_AT(name, ls_mpi__enter)
#define MPI_ENTER_ANY_AT(name) MPI_ENTERED_AT(name, ls_mpi__enter_waiting)
int ls_mpi__comm_arg(mpi_comm **out, mpi_where at, MPI_Comm handle);
int ls_mpi__group_arg(mpi_group **out, mpi_where at, MPI_Group handle);
int ls_mpi__type_arg(mpi_type **out, mpi_where at, mpi_comm *comm, MPI_Datatype handle,
                     bool committed);
int ls_mpi__op_arg(mpi_op **out, mpi_where at, mpi_comm *comm, MPI_Op handle, const mpi_type *type);
int ls_mpi__reduce_op_arg(mpi_where at, mpi_comm *comm, const mpi_op *op);  // rejects operations
                                                                            // for accumulates only
int ls_mpi__count_arg(mpi_where at, mpi_comm *comm, const char *what, long count);
int ls_mpi__buffer_arg(mpi_where at, mpi_comm *comm, const void *buf, long count,
                       const mpi_type *type);
int ls_mpi__reach_arg(mpi_where at, mpi_comm *comm, const void *buf, size_t elements,
                      const mpi_type *type);  // they are within memory; buf NULL: anywhere
// Checks that no two elements of a receive buffer overlap.
int ls_mpi__receive_arg(mpi_where at, mpi_comm *comm, long count, const mpi_type *type);
int ls_mpi__root_arg(mpi_where at, mpi_comm *comm, int root);
// Checks an output argument for NULL.
int ls_mpi__out_arg(mpi_where at, const char *what, const void *out);
// Rejects NULL, which is not MPI_STATUS_IGNORE. An empty list of statuses may be NULL.
int ls_mpi__status_arg(mpi_where at, const MPI_Status *status, int count);
// Checks a status that the function reads: MPI_STATUS_IGNORE is not one.
int ls_mpi__read_status_arg(mpi_where at, const MPI_Status *status);

#define MPI_TRY(expression)                                                                        \
    do {                                                                                           \
        int mpi_status_ = (expression);                                                            \
        if (mpi_status_ != MPI_SUCCESS) {                                                          \
            return mpi_status_;                                                                    \
        }                                                                                          \
    } while (0)

// --- type_make.c, misc.c -------------------------------------------------------------------------
int ls_mpi__type_copy(mpi_where at, const mpi_type *of, MPI_Datatype *out);
void ls_mpi__infos_open(mpi_rank *me);  // misc.c
// ---- comm.c, comm_make.c ------------------------------------------------------------------------
void ls_mpi__comms_open(mpi_rank *me);
mpi_comm *ls_mpi__comm_object(mpi_rank *me, ls_shared_comm *shared, int first_size, int *out);
mpi_comm *ls_mpi__comm_like(const mpi_comm *comm);
int ls_mpi__comm_world_rank(const mpi_comm *comm, int member);
int ls_mpi__make_comms(ls_spmd *run, ls_request *const *requests, int size);
int ls_mpi__comm_pending(mpi_rank *me, const mpi_comm *parent, const int *ranks, int count,
                         int first_size, int tag, const char *function, int *out);
// The shared communicator of the communicator's next persistent collective.
int ls_mpi__comm_channel(ls_rank_comm **out, mpi_comm *comm, const char *of);
mpi_group *ls_mpi__group_make(int size);
int ls_mpi__group_rank(const mpi_group *group, int world_rank);
mpi_group *ls_mpi__group_of(const mpi_comm *comm, bool remote);
int ls_mpi__group_handle(mpi_rank *me, mpi_group *group);
// ---- attr.c: a key value belongs to one kind of object ------------------------------------------
int ls_mpi__attributes_copy(mpi_where where, const mpi_comm *comm, int old_handle,
                            const mpi_attribute *from, mpi_attribute **to);
int ls_mpi__attributes_free(mpi_where at, int handle, mpi_attribute **attributes);
int ls_mpi__attribute_set(mpi_where at, mpi_kind kind, int handle, mpi_attribute **list, int keyval,
                          void *value);
int ls_mpi__attribute_remove(mpi_where at, mpi_kind kind, int handle, mpi_attribute **list,
                             int keyval);
int ls_mpi__attribute_get(mpi_where at, mpi_kind kind, mpi_attribute **list, int keyval,
                          void *value, int *flag);
// ---- p2p.c, wait.c ------------------------------------------------------------------------------
int ls_mpi__message(ls_spmd *run, ls_request *send, ls_request *recv);
void ls_mpi__found(const ls_request *probe, const ls_request *send);
void ls_mpi__status(MPI_Status *out, const MPI_Status *from);
void ls_mpi__status_empty(MPI_Status *out);
mpi_request *ls_mpi__request_of(mpi_rank *me, MPI_Request handle, const char **why);
mpi_request *ls_mpi__request_make(mpi_rank *me, mpi_request_kind kind, const char *function);
int ls_mpi__request_start(mpi_rank *me, mpi_request *request);
bool ls_mpi__request_to_nobody(const mpi_request *request);  // the peer is MPI_PROC_NULL
// The arguments of a send or a receive.
typedef struct mpi_message {
    bool send;
    mpi_mode mode;
    const void *buf;
    int count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
    const mpi_type *as;  // the layout, if it differs from the type; NULL: as the type
} mpi_message;
// Checks the arguments and fills in the record.
int ls_mpi__message_read(mpi_record *out, mpi_where at, const mpi_message *m);
// Makes a request for it and does not start it.
mpi_request *ls_mpi__message_request(mpi_where at, const mpi_message *m, const mpi_record *record,
                                     bool persistent);
void ls_mpi__message_proto(ls_request *proto, mpi_record *record, bool send, int peer, int tag);
void ls_mpi__collective_proto(ls_request *proto, mpi_record *record);
int ls_mpi__message_post(mpi_rank *me, const ls_request *proto, mpi_record *record,
                         ls_request **inner);
int ls_mpi__received(mpi_rank *me, mpi_record *record);
// Fills the status, releases the buffer and sets the handle to MPI_REQUEST_NULL.
int ls_mpi__request_finish(mpi_rank *me, MPI_Request *handle, MPI_Status *status);
bool ls_mpi__request_done(const mpi_request *request);
// ---- part.c: partitioned messages ---------------------------------------------------------------
bool ls_mpi__parts_open(const mpi_request *request);  // a send lacks some of its parts
int ls_mpi__parts_tag(const mpi_request *request);    // the tag that the program passed
int ls_mpi__parts_start(mpi_rank *me, mpi_request *request);
void ls_mpi__parts_done(mpi_rank *me, mpi_request *request);
void ls_mpi__parts_free(mpi_rank *me, mpi_request *request);
void ls_mpi__parts_end(void);
void ls_mpi__request_close(mpi_rank *me, mpi_request *request);
// Releases freed requests whose messages are complete. wait: all of them, complete or not.
void ls_mpi__requests_settle(mpi_rank *me, bool wait);
int ls_mpi__await(mpi_rank *me, ls_request **inner, int count, bool any);
void ls_mpi__poll(mpi_rank *me, const char *function);
void ls_mpi__say(char *out, size_t out_bytes, const ls_call *call);

// ---- owned.c: buffers that calls own ------------------------------------------------------------
mpi_owned *ls_mpi__own(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                       bool writes, const char *function);
void ls_mpi__disown(mpi_rank *me, mpi_owned *owned);
// The call that owns a byte of the range and forbids this read (write); NULL: none.
mpi_owned *ls_mpi__owner(mpi_rank *me, const char *low, const char *high, bool writes);
// The buffers that RMA calls on a window to a target (-1: any) own.
void ls_mpi__own_in_epoch(mpi_owned *owned, mpi_win *win, int target);
void ls_mpi__disown_epoch(mpi_rank *me, const mpi_win *win, int target);
// The program releases memory that a call owns or a window exposes: a finding.
bool ls_mpi__still_used(const char *low, const char *high, const void *code);
// Whether an earlier call to the target reads exactly this place and has no request.
bool ls_mpi__owned_in_epoch(mpi_rank *me, const mpi_win *win, int target, const mpi_place *place);
// Reports a call's access to memory that another call owns.
void ls_mpi__touch_typed(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                         bool writes, const char *function);
// The thread's rank while it owns or exposes memory. Every instrumented access reads it.
extern _Thread_local __attribute__((tls_model("initial-exec"))) mpi_rank *ls_mpi__watched;
void ls_mpi__watch(mpi_rank *me);
void ls_mpi__accessed(mpi_rank *me, const void *at, size_t bytes, bool writes, const void *code);
void ls_mpi__line_of(mpi_rank *me, const void *code, const char **file, int *line);

// ---- blocks.c, objects.c ------------------------------------------------------------------------
// An access of the program's to memory that may be behind an allocation, or freed.
void ls_mpi__block_touched(const void *at, size_t bytes, bool writes, const void *code);
// Checks whether the program has written behind some (all) of its allocations.
void ls_mpi__blocks_look(mpi_rank *me, bool all);
void ls_mpi__blocks_end(void);

// A variable of the program.
typedef struct mpi_object {
    const char *low, *high;
    const char *name, *file;  // file NULL: the declaration has not been looked up
    int line;
} mpi_object;
void ls_mpi__objects_open(const char *path);
void ls_mpi__objects_close(void);
bool ls_mpi__variable_at(mpi_object *out, const mpi_rank *me, const char *at);
// The line of the call that returns to `code`.
bool ls_mpi__code_line(const char **file, int *line, const mpi_rank *me, const char *code);
void ls_mpi__variable_declared(mpi_object *object, const mpi_rank *me);  // looks up the declaration
// A buffer that ends behind the memory that it begins in ends the run.
void ls_mpi__buffer_check(mpi_rank *me, const mpi_place *place, const char *function);
void ls_mpi__bytes_check(mpi_rank *me, const void *at, size_t bytes, const char *function);

// ---- rma.c, race_own.c, race.c ------------------------------------------------------------------
void ls_mpi__win_local(mpi_rank *me, const char *low, const char *high, bool writes,
                       const char *function, const char *file, int line);
int ls_mpi__make_win(ls_spmd *run, ls_request *const *requests, int size);
void ls_mpi__race_end(void);
// Lets other ranks run when a rank polls. A walk along a list needs no such turn at each step.
void ls_mpi__let_others(mpi_rank *me, const char *function);
void ls_mpi__race_request_done(mpi_rank *me, mpi_request *request);

// ---- explore.c, choice.c: a rank that observes acts on what others have done so far -------------
int ls_mpi__explore_choose(ls_spmd *run, const ls_match_choice *choices, int count);
void ls_mpi__explore_end(void);
void ls_mpi__observe(void);
void ls_mpi__returned(mpi_rank *me);  // init.c
