// What the files of mpi/ share. Every object belongs to one rank; MPI's handles are numbers that
// index its rank's tables.
#ifndef LS_MPI_INTERNAL_H
#define LS_MPI_INTERNAL_H

#include "mpi/clock.h"
#include "mpi/data.h"
#include "mpi/intervals.h"
#include "mpi/mpi_run.h"
#include "ranks/front.h"
#include "ranks/seen.h"

// A program that somebody starts by itself is loaded before lockstep is there to define them.
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
    const char *file;  // where it was made, or freed
    int line;
    const char *function;  // that made it
    int next_free;
    bool internal;  // its leak is nobody's
} mpi_slot;

typedef struct mpi_table {
    mpi_slot *slots;
    int count, room, first_free;  // first_free 0: none
} mpi_table;

#define LS_MPI_FIRST_OWN 64  // numbers below are MPI's constants
int ls_mpi__handle_add(mpi_rank *me, mpi_kind kind, void *object);
// NULL: none; *why says what the handle is instead ("MPI_COMM_NULL", "was freed at ...").
void *ls_mpi__handle_get(mpi_rank *me, mpi_kind kind, int handle, const char **why);
void ls_mpi__handle_free(mpi_rank *me, int handle);
void ls_mpi__handle_constant(mpi_rank *me, mpi_kind kind, int number, void *object);
mpi_slot *ls_mpi__handle_slot(mpi_rank *me, int handle);
void ls_mpi__handles_close(mpi_rank *me);

// ---- Objects ------------------------------------------------------------------------------------
typedef struct mpi_group {
    int size;
    int ranks[];  // [size] of the world
} mpi_group;

typedef struct mpi_errhandler {
    MPI_Comm_errhandler_function *comm;
    MPI_Win_errhandler_function *win;
} mpi_errhandler;

typedef struct mpi_topology {
    int kind;  // MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
    int ndims, *dims, *periods, *coords;
    int nodes, *index, *edges;
    int in_count, out_count, *in, *out, *in_weights, *out_weights;
    bool weighted;
} mpi_topology;

struct mpi_comm {
    int handle;
    ls_rank_comm *inner;
    int channels;  // persistent collectives and windows made so far
    bool inter;
    int size, rank;  // of the own group
    int first;       // member of the own group's first
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

// A side of a collective: one buffer, or a block for each member.
typedef struct mpi_side {
    const void *buf;
    int count;
    const int *counts;  // [members] NULL: count each
    const int *displs;
    const MPI_Aint *byte_displs;  // of neighbor_alltoallw
    const mpi_type *type;
    const MPI_Datatype *types;       // of alltoallw
    const mpi_type *const *objects;  // of a request: their handles may be freed before it is done
} mpi_side;

typedef struct mpi_collective mpi_collective;
// What a request brings to where calls meet.
typedef struct mpi_record {
    const mpi_collective *collective;  // NULL: a message
    mpi_comm *comm;
    ls_rank_comm *channel;  // where a window's collectives meet; NULL: on `comm`
    const char *function;
    mpi_side send, recv;
    const mpi_op *op;
    int root;
    // Collectives that make something.
    int color, key;
    bool merges;  // the two groups of an intercommunicator into one
    const mpi_group *group;
    int *out;  // a handle
    mpi_win *win;
    int assertion;
    mpi_topology *topology;
    // Messages.
    int number;  // of its rank's
    mpi_mode mode;
    bool whole;  // a matched probe: the receive takes the message, and no data yet
    void *packed;
    size_t packed_bytes;
    MPI_Status status;
    bool truncated;
    uint64_t *clock;            // of the sender as it sent
    struct mpi_thread *thread;  // that has called a collective
} mpi_record;

struct mpi_collective {
    const char *name;  // as the blocking form is called
    bool rooted, reduces, neighbors;
    bool two_sided;                                     // it has a receive side of its own
    bool out_blocks, in_blocks;                         // a side has a block for each peer
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

typedef struct mpi_owned {  // a buffer that a call owns until it is complete
    bool writes;            // the call writes it: nobody else may even read it
    bool told;
    const char *function, *file;
    int line;
    mpi_win *win;  // of an RMA call, until its epoch ends
    int target;
    struct mpi_owned *next, **of_epoch;  // others of that epoch, and who points to this one
    struct mpi_owned **holder;           // the request's, which may go before that
    const ls_request *until;  // of a freed request: owned until this is complete; NULL: disowned
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
    mpi_owned *owned[LS_MPI_OWNED];                   // its buffers, its lists
    void (*own)(mpi_rank *me, mpi_request *request);  // of a collective: notes them
    void *lists;  // of counts and places, as they were when the call was made
    const void *given[LS_MPI_OWNED - 2];  // the program's
    mpi_parts *parts;                     // of a partitioned message; NULL otherwise
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *release;
    MPI_Grequest_cancel_function *cancel;
    void *state;
    bool general_done, freed;   // freed before it is done
    const ls_thread *waiter;    // waits for it, alone
    struct mpi_access *access;  // of an RMA call; NULL: nothing races with it any more
    mpi_request *next_freed;
};

typedef struct mpi_keyval {
    mpi_kind kind;
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *release;
    void *state;
    bool used;       // not freed
    int references;  // attributes that are set
} mpi_keyval;

// A buffer on the stack that was found to be large enough, and the call that it was given to.
#define LS_MPI_LOOKED 64
typedef struct mpi_looked {
    const char *low, *high, *stack, *file;
    int line;
} mpi_looked;

#define LS_MPI_KEYVALS 256
struct mpi_rank {
    ls_rank *rank;
    int id;
    int posted;     // messages and probes so far
    uint64_t ends;  // of locks, flushes and requests of RMA calls, see ls_mpi__let_others
    bool initialised, finalised;
    int thread_level;
    pthread_t main_thread;    // that has called MPI_Init
    ls_seen_place thread_at;  // there
    uint64_t entered;         // calls of MPI so far
    mpi_table tables[MPI_KIND_COUNT];
    mpi_comm *world, *self;
    void *bsend_buffer;
    int bsend_size, bsend_used;
    size_t bsend_all;    // since the buffer was attached
    mpi_request *freed;  // before their messages were complete
    int freed_count, freed_limit;
    mpi_intervals owned[2];  // that calls read; that they write
    mpi_keyval *keyvals;     // [LS_MPI_KEYVALS] from 1
    mpi_thread main;         // and others, in the order in which they were first seen
    uint64_t *synchronised;  // what its threads have released; NULL: nothing
    uint64_t *forked;        // the same as they started threads and regions
    uint64_t *ended;         // the same as they left the program's functions
    bool has_tasks;          // which begin after others have ended
    bool unordered;          // what orders its threads is not seen: they count as one
    pthread_mutex_t turn;    // of all these
    mpi_win *windows;
    int window_count;
    void *library;                     // its image
    const char *code_low, *code_high;  // where that is
    mpi_looked looked[LS_MPI_LOOKED];
    mpi_intervals blocks;    // that the program has allocated
    const char *block_seen;  // those before it have been looked at
    int argc, dup_depth;
    char **argv;
    struct mpi_codes *codes;  // of errors, which it has added; NULL: none
    pthread_mutex_t look;
    atomic_bool looks;  // a thread looks at what calls own, outside of a call; under `look`
};

// The run that is going on; one at a time.
typedef struct mpi_state {
    const ls_mpi_options *options;
    ls_spmd *run;
    mpi_rank *ranks;  // [rank_count]
    int rank_count;
    const char *folder;  // for temporary files
    void *pending;       // communicators that are being made, see comm_make.c
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

// ---- enter.c: in and out of a function ----------------------------------------------------------
// The calling rank, between MPI_Init and MPI_Finalize; does not return where there is none.
mpi_rank *ls_mpi__enter(const char *function);
mpi_rank *ls_mpi__enter_any(const char *function);      // also before and after
mpi_rank *ls_mpi__enter_waiting(const char *function);  // and waits until its thread is chosen
void ls_mpi__return(mpi_rank *const *me);               // from a function that has been entered
// The run is over: the rank's program ends here.
mpi_rank *ls_mpi__rank_of_code(const void *address);  // NULL: none's
_Noreturn void ls_mpi__end(mpi_rank *me, int exit_status);
int ls_mpi__leave(mpi_rank *me, int status);  // ends the rank where the run has failed
// A call that MPI forbids: by the handler of `comm` (NULL: of the world) an end with a finding, or
// the error class is returned.
int ls_mpi__error(mpi_rank *me, const mpi_comm *comm, int error_class, const char *function,
                  const char *format, ...) LS_PRINTF(5, 6);
int ls_mpi__win_error(mpi_rank *me, const mpi_win *win, int error_class, const char *function,
                      const char *format, ...) LS_PRINTF(5, 6);
// A defect that returns no error: always a finding, under its id.
void ls_mpi__finding(mpi_rank *me, ls_finding_id id, const char *file, int line, const char *format,
                     ...) LS_PRINTF(5, 6);
const char *ls_mpi__class_name(int error_class);
int *ls_mpi__last_code(const mpi_rank *me);  // MPI_LASTUSEDCODE
void *ls_mpi__alloc(size_t bytes);           // zeroed; ends the process where there is none
// First in a function: `name` is the rank until the function returns.
#define MPI_ENTERED(name, how)                                                                     \
    mpi_rank *name __attribute__((cleanup(ls_mpi__return))) = how(__func__)
#define MPI_ENTER(name)     MPI_ENTERED(name, ls_mpi__enter)
#define MPI_ENTER_ANY(name) MPI_ENTERED(name, ls_mpi__enter_waiting)

// ---- Arguments: each returns MPI_SUCCESS or what ls_mpi__error says -----------------------------
typedef struct mpi_where {
    mpi_rank *me;
    const char *function;
} mpi_where;
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
int ls_mpi__reduce_op_arg(mpi_where at, mpi_comm *comm, const mpi_op *op);  // none of accumulates
int ls_mpi__count_arg(mpi_where at, mpi_comm *comm, const char *what, long count);
int ls_mpi__buffer_arg(mpi_where at, mpi_comm *comm, const void *buf, long count,
                       const mpi_type *type);
// What is received into has each byte once.
int ls_mpi__receive_arg(mpi_where at, mpi_comm *comm, long count, const mpi_type *type);
int ls_mpi__root_arg(mpi_where at, mpi_comm *comm, int root);
// A place that the function writes to.
int ls_mpi__out_arg(mpi_where at, const char *what, const void *out);
// NULL is neither a status nor MPI_STATUS_IGNORE. A list of no statuses may be NULL.
int ls_mpi__status_arg(mpi_where at, const MPI_Status *status, int count);
// A status that the function reads: MPI_STATUS_IGNORE is none.
int ls_mpi__read_status_arg(mpi_where at, const MPI_Status *status);

#define MPI_TRY(expression)                                                                        \
    do {                                                                                           \
        int mpi_status_ = (expression);                                                            \
        if (mpi_status_ != MPI_SUCCESS) {                                                          \
            return mpi_status_;                                                                    \
        }                                                                                          \
    } while (0)

// --- type_make.c, misc.c -------------------------------------------------------------------------
// Another of the same making.
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
// Where the next persistent collective of the communicator meets.
int ls_mpi__comm_channel(ls_rank_comm **out, mpi_comm *comm, const char *of);
mpi_group *ls_mpi__group_make(int size);
int ls_mpi__group_rank(const mpi_group *group, int world_rank);
mpi_group *ls_mpi__group_of(const mpi_comm *comm, bool remote);
int ls_mpi__group_handle(mpi_rank *me, mpi_group *group);
// ---- attr.c -------------------------------------------------------------------------------------
int ls_mpi__attributes_copy(mpi_where where, const mpi_comm *comm, int old_handle,
                            const mpi_attribute *from, mpi_attribute **to);
int ls_mpi__attributes_free(mpi_rank *me, int handle, mpi_attribute **attributes);

// Key values are of one kind of objects.
int ls_mpi__attribute_set(mpi_where at, mpi_kind kind, int handle, mpi_attribute **list, int keyval,
                          void *value);
int ls_mpi__attribute_remove(mpi_where at, mpi_kind kind, int handle, mpi_attribute **list,
                             int keyval);
int ls_mpi__attribute_get(mpi_where at, mpi_kind kind, mpi_attribute **list, int keyval,
                          void *value, int *flag);

// ---- p2p.c, wait.c ------------------------------------------------------------------------------
int ls_mpi__message(ls_spmd *run, ls_request *send, ls_request *recv);
void ls_mpi__status(MPI_Status *out, const MPI_Status *from);
void ls_mpi__status_empty(MPI_Status *out);
mpi_request *ls_mpi__request_of(mpi_rank *me, MPI_Request handle, const char **why);
mpi_request *ls_mpi__request_make(mpi_rank *me, mpi_request_kind kind, const char *function);
int ls_mpi__request_start(mpi_rank *me, mpi_request *request);
bool ls_mpi__request_to_nobody(const mpi_request *request);  // MPI_PROC_NULL
// What a message's call says; `send` says which of its buffers.
typedef struct mpi_message {
    bool send;
    mpi_mode mode;
    const void *buf;
    int count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
    const mpi_type *as;  // how it lies where that is not as its type says; NULL: so
} mpi_message;
// Checks the arguments, and makes the record of them.
int ls_mpi__message_read(mpi_record *out, mpi_where at, const mpi_message *m);
// A request of it that is not started.
mpi_request *ls_mpi__message_request(mpi_where at, const mpi_message *m, const mpi_record *record,
                                     bool persistent);
void ls_mpi__message_proto(ls_request *proto, mpi_record *record, bool send, int peer, int tag);
void ls_mpi__collective_proto(ls_request *proto, mpi_record *record);
int ls_mpi__message_post(mpi_rank *me, const ls_request *proto, mpi_record *record,
                         ls_request **inner);
int ls_mpi__received(mpi_rank *me, mpi_record *record);
// A request whose call is complete: its status, its buffer; the handle becomes MPI_REQUEST_NULL.
int ls_mpi__request_finish(mpi_rank *me, MPI_Request *handle, MPI_Status *status);
bool ls_mpi__request_done(const mpi_request *request);
// ---- part.c: partitioned messages ---------------------------------------------------------------
bool ls_mpi__parts_open(const mpi_request *request);  // not all parts of a send are ready
int ls_mpi__parts_tag(const mpi_request *request);    // as the program gave it
int ls_mpi__parts_start(mpi_rank *me, mpi_request *request);
void ls_mpi__parts_done(mpi_rank *me, mpi_request *request);
void ls_mpi__parts_free(mpi_rank *me, mpi_request *request);
void ls_mpi__parts_end(void);

void ls_mpi__request_close(mpi_rank *me, mpi_request *request);
// Lets go of freed requests whose messages are complete; wait: of all, as they are.
void ls_mpi__requests_settle(mpi_rank *me, bool wait);
int ls_mpi__await(mpi_rank *me, ls_request **inner, int count, bool any);
void ls_mpi__poll(mpi_rank *me, const char *function);
void ls_mpi__say(char *out, size_t out_bytes, const ls_call *call);

// ---- owned.c: buffers that calls own ------------------------------------------------------------
mpi_owned *ls_mpi__own(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                       bool writes, const char *function);
void ls_mpi__disown(mpi_rank *me, mpi_owned *owned);
// Who owns a byte of it that may not be read (written) therefore; NULL: nobody.
mpi_owned *ls_mpi__owner(mpi_rank *me, const char *low, const char *high, bool writes);
// What RMA calls on a window to a target (-1: to any) own.
void ls_mpi__own_in_epoch(mpi_owned *owned, mpi_win *win, int target);
void ls_mpi__disown_epoch(mpi_rank *me, const mpi_win *win, int target);
// Memory that the program gives back, although a call owns or a window exposes it: a finding.
bool ls_mpi__still_used(const char *low, const char *high, const void *code);
// Whether an earlier call to the target reads just that, and has no request of its own.
bool ls_mpi__owned_in_epoch(mpi_rank *me, const mpi_win *win, int target, const mpi_place *place);
// An access by a call to what another call owns is a finding.
void ls_mpi__touch_typed(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                         bool writes, const char *function);
// The thread's rank while it owns or exposes memory. Each access of the program reads it.
extern _Thread_local __attribute__((tls_model("initial-exec"))) mpi_rank *ls_mpi__watched;
void ls_mpi__watch(mpi_rank *me);

void ls_mpi__accessed(mpi_rank *me, const void *at, size_t bytes, bool writes, const void *code);
void ls_mpi__line_of(mpi_rank *me, const void *code, const char **file, int *line);

// ---- blocks.c, objects.c ------------------------------------------------------------------------
// An access of the program's to memory that may be behind an allocation, or freed.
void ls_mpi__block_touched(const void *at, size_t bytes, bool writes, const void *code);
// Whether the program has written behind some of its allocations (all of them).
void ls_mpi__blocks_look(mpi_rank *me, bool all);
void ls_mpi__blocks_end(void);

// A variable of the program.
typedef struct mpi_object {
    const char *low, *high;
    const char *name, *file;  // file NULL: the place of its declaration has not been read
    int line;
} mpi_object;
void ls_mpi__objects_open(const char *path);
void ls_mpi__objects_close(void);
bool ls_mpi__variable_at(mpi_object *out, const mpi_rank *me, const char *at);
// The line of the call that returns to `code`.
bool ls_mpi__code_line(const char **file, int *line, const mpi_rank *me, const char *code);
void ls_mpi__variable_declared(mpi_object *object, const mpi_rank *me);  // fills in where that is
// A buffer that ends behind the memory that it begins in ends the run.
void ls_mpi__buffer_check(mpi_rank *me, const mpi_place *place, const char *function);
void ls_mpi__bytes_check(mpi_rank *me, const void *at, size_t bytes, const char *function);

// ---- rma.c, race.c ------------------------------------------------------------------------------
void ls_mpi__win_local(mpi_rank *me, const char *low, const char *high, bool writes,
                       const char *function, const char *file, int line);
int ls_mpi__make_win(ls_spmd *run, ls_request *const *requests, int size);
void ls_mpi__race_end(void);
// Who looks again and again lets others run; who walks along a list need not each time.
void ls_mpi__let_others(mpi_rank *me, const char *function);
void ls_mpi__race_request_done(mpi_rank *me, mpi_request *request);

// ---- explore.c ----------------------------------------------------------------------------------
int ls_mpi__explore_choose(ls_spmd *run, const ls_match_choice *choices, int count);
void ls_mpi__explore_end(void);
// What the rank does from here on may depend on what others have done by now.
void ls_mpi__observe(void);

// ---- init.c -------------------------------------------------------------------------------------
void ls_mpi__returned(mpi_rank *me);

#endif
