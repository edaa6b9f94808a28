// The state of a run: shared by the files of ranks/, and read by debuggers. Programs use only
// ranks.h. LS_RANKS_ABI counts changes of this file; hooks.h has the functions to stop at.
//
// One rank runs at a time unless the schedule is parallel: it holds the run token, which is the
// only protection that the run needs. In a parallel run the same functions hold run->mutex instead.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

#include "ranks/ranks.h"
#include "ranks/remote.h"

#define LS_RANKS_ABI 12

typedef struct ls_spmd ls_spmd;
typedef struct ls_shared_comm ls_shared_comm;
typedef struct ls_meet ls_meet;
typedef struct ls_lookahead ls_lookahead;
typedef struct ls_rank_check ls_rank_check;
typedef struct ls_replica_set ls_replica_set;
typedef struct ls_sites ls_sites;
typedef struct ls_crossing ls_crossing;
typedef struct ls_sums ls_sums;
typedef struct ls_remote ls_remote;
typedef struct ls_fibers ls_fibers;
#define LS_SUMS_KEPT 64  // results of sums of a communicator

typedef enum ls_rank_state {
    LS_RANK_READY,    // could run, waits for the run token
    LS_RANK_RUNNING,  //
    LS_RANK_BLOCKED,  // in a call that others must complete
    LS_RANK_STALLED,  // by a fault; never continues
    LS_RANK_RETURNED,
    LS_RANK_DIED,  // by a fault; its program may still be unwinding
} ls_rank_state;

typedef enum ls_request_state {
    LS_REQUEST_GROUPED,  // waits for the end of its group
    LS_REQUEST_POSTED,   // waits for the other ranks' calls
    LS_REQUEST_MATCHED,  // its data is being moved
    LS_REQUEST_DONE,     // complete; asynchronous ones wait for ls_wait
    LS_REQUEST_FREED,    // waited for; kept for a while to detect use after free
} ls_request_state;

// A copy that a request owns, because the program's may be gone before the call is complete.
typedef struct ls_kept {
    struct ls_kept *next;
    size_t bytes;  // of what follows it
} ls_kept;

// Pages of a program's buffer that are closed while a call is in flight, see flight.c.
typedef struct ls_guard {
    uintptr_t low, high;
    ls_request *request;
    bool readable;  // it is sent from
    struct ls_guard *next, **before;
} ls_guard;

#define LS_GUARDS_MAX 3  // of a request
#define LS_PAGE_BYTES ((uintptr_t)4096)

// Where memory, or the result of an asynchronous call, that holds nothing yet comes from.
typedef struct ls_origin {
    int rank;
    int line;  // where it was allocated, or the call was made
    const char *file;
    bool in_flight;  // of an asynchronous call
    bool told;
    uint32_t next;  // of the same rank; 0: none
} ls_origin;

// A call's further state while its data is elsewhere; apart, since blocking calls, of which many
// ranks have one each, never do.
typedef struct ls_flight {
    ls_call moved;  // the call with its buffers where they are meanwhile
    ls_guard guards[LS_GUARDS_MAX];
} ls_flight;

// A call on its way: on the stack of a blocking rank, or on the heap for one that is waited for.
// The lists of unmatched messages that one is in: all of its receiver, those of its key.
enum { LS_P2P_ALL, LS_P2P_KEY };

struct ls_request {
    ls_call call;
    ls_request_state state;
    int status;  // once DONE
    bool asynchronous;
    bool poisoned;              // its send buffer was never written, which was reported
    struct ls_thread *awaited;  // a thread waits for it, in one call or in several of a group
    uint64_t group;             // the ls_group_start that it belongs to, from 1; 0: none
    bool detached;              // no wait follows: the second of a call that a fault doubled
    ls_rank *rank;
    ls_rank_comm *comm;
    uint64_t number;   // among all calls of the rank, from 0
    ls_issuer issuer;  // of a rank with several threads or streams; else all 0
    ls_meet *meet;     // collectives, while POSTED
    void *pending;     // the backend's, where it completes calls side by side
    size_t send_bytes, recv_bytes;
    const char *overlap;              // which blocks of its lists share memory; NULL: none
    bool recounted;                   // a fault changed its counts; before that it needed so many
    size_t send_before, recv_before;  // elements of its buffers
    uint64_t send_hash, recv_hash;    // buffer.modified_in_flight
    // Of another front (ranks/front.h): its record of the call, and a message's envelope.
    const struct ls_front *front;
    void *record;
    int tag;             // LS_TAG_ANY: of a receive, any
    bool any_source;     // a receive from any member: held until no rank can continue
    bool probe;          // takes no message
    int color, key;      // SPLIT
    const int *members;  // SUBSET [member_count]
    int member_count;
    ls_rank_comm **made_out;  // SPLIT, SUBSET: where this rank's new communicator goes
    ls_request *next;         // in the rank's list (asynchronous, grouped)
    ls_request *before;       // in its rank's list of open ones
    // In two lists of unmatched calls, see p2p.c: [LS_P2P_ALL], [LS_P2P_KEY].
    ls_request *next_p2p[2];
    ls_request *before_p2p[2];  // of the first one: the last
    uint64_t number_p2p;        // of its communicator's, from 1
    ls_kept *kept;              // on the heap: its counts
    char *shadow;               // of an asynchronous call: its result until the wait (flight.c)
    ls_flight *flight;          // of a request on the heap; NULL: on its rank's stack
    uint32_t origin;            // of the pattern that its receive buffer holds
    bool trapped;               // a closed page of it was touched
    bool trapped_writing;       // by a write
    bool told;                  // its early use was reported,
    const char *told_file;      // there
    int told_line;
    int guard_count;          // of the flight's
    bool staged;              // a remote rank's: its data is not in the program's buffers but in
    const void *staged_send;  // these
    void *staged_recv;        //
    bool collected;           // and its process copies the result for itself
    void *owner;              // owner of the call, for its poster
    uint64_t flip;            // the bit of its data, from 1, that a fault flips; 0: none
};

#define LS_SPLITS_SHOWN 8  // of a call's counts, in texts

typedef struct ls_history_entry {
    ls_call call;  // its counts are in its rank's splits
    uint64_t number;
    bool done;
} ls_history_entry;

// Counts of an uneven call; apart, since most calls have none and entries should fit the cache.
typedef struct ls_splits {
    size_t counts[2][LS_SPLITS_SHOWN];
} ls_splits;

typedef struct ls_allocation {
    char *start;
    uint64_t number;  // among those that the rank made, from 1
    size_t bytes;
    size_t clean_start, clean_end;  // nothing unwritten was found in it
    bool pages;                     // it has its pages for itself
    uint32_t origin;                // of its pattern
    void *block;                    // its address and size
    size_t block_bytes;             //
    bool overrun;                   // a write beside it was reported
    bool let_go;                    // its release while a call used it was reported
    bool freed;                     // kept for a while to detect use after free
    const char *file;
    int line;
    const char *freed_file;
    int freed_line;
} ls_allocation;

typedef enum ls_thread_state {
    LS_THREAD_OUT,      // runs its program, or sleeps there
    LS_THREAD_READY,    // in a call, could continue
    LS_THREAD_BLOCKED,  // in a call that others must complete
    LS_THREAD_INSIDE,   // runs in the library; one of its rank at most
} ls_thread_state;

// A thread of a rank's program. See turns.c.
typedef struct ls_thread {
    ls_rank *rank;
    struct ls_thread *next;  // in the order in which the rank has made them
    int number;              // in that order; 0: the rank's main thread
    atomic_int tid;          // 0: it has not started yet
    ls_thread_state state;
    int depth;                  // how many functions of the library it is in
    uint64_t cpu_ns;            // that it had used when its rank first waited for it; 0: it has not
    uint64_t times;             // that it had begun to run by then
    bool spins;                 // it computes for long: its rank waits for it no more
    bool left;                  // it has ended, or will without another call
    bool ended;                 // it makes no more calls
    sem_t go;                   // it is chosen
    const ls_request *current;  // the call it is in; NULL between calls
    int waiting;                // awaited requests that are not done
    bool waits_for_any;         // one of them is enough
    const char *file;           // of its last call, where there are several threads
    int line;
} ls_thread;

struct ls_rank {
    uint32_t abi;  // LS_RANKS_ABI
    int id;
    ls_rank_state state;
    int exit_status;
    const char *why;  // the error that it returned with, in the run's arena; NULL: none is known
    char name[16];    // of its thread
    int tid;  // of its thread, as the kernel numbers it; 0: not started, or a fiber that waits
    ls_spmd *run;
    uint64_t call_count;
    const char *file;  // of its last call, or ""
    int line;
    pthread_t thread;
    ls_thread main;        // of its threads the first in a list
    int thread_count;      // in that list
    int threads_made;      // so far
    const ls_thread *in;   // which runs in the library; NULL: none
    int last;              // the number of the one which was chosen last; -1: none
    ls_thread *warden;     // which waits until the others sleep, and then chooses; NULL: none
    bool holds;            // it has the run token
    bool calls_at_once;    // its threads may be in calls at once: their order is chosen
    int spins;             // times that it waited in vain for a thread that computed
    atomic_bool arrived;   // a thread is about to make a call while another rank has the run token
    bool waits;            // in the library, for the run token
    bool parted;           // a debugger took the run token from it while it ran its program
    bool slow;             // by a fault
    int polls;             // of ls_test in a row, while nothing happened
    uint64_t polls_since;  // events up to then
    int group_depth;       // of ls_group_start
    uint64_t groups;       // outermost ones so far
    ls_request *open;      // asynchronous and grouped calls, oldest first
    ls_request *open_last;
    ls_request *freed, *freed_last;  // FREED requests, oldest first
    int freed_count;
    ls_history_entry *history;   // [run->history]; call n at n % history
    ls_splits *splits;           // [run->history] alike; NULL until an uneven call
    ls_allocation *allocations;  // ascending by start
    int allocation_count, allocation_room;
    int freed_allocations;
    uint64_t allocations_made;
    uint32_t origins;     // the newest of its; 0: none
    uintptr_t stack_low;  // of its thread
    size_t stack_bytes;
    void *handler_stack;  // of signals, above the other
    stack_t other_stack;
    char **environment;      // its own, while it does not run; NULL: it has that of the process
    int escaping;            // how its program is to be left; 0: as one beyond its deadline
    bool left_behind;        // its program did not return: its thread stays
    const char *ended_by;    // the function by which its program ended it: exit, _exit
    sigjmp_buf *escape;      // out of its program; NULL: not in it
    pthread_mutex_t turn;    // protects its threads' states
    bool erred;              // a call of it was refused and reported
    const char *group_file;  // where its open group, or else its last one, was opened
    int group_line;
    const char *group_end_file;  // and ended; NULL: not yet
    int group_end_line;
    _Atomic(const char *) foreign_file;  // a call for it by a thread that is not attached
    atomic_int foreign_line;
    int lookahead_left;  // calls it may still make after a mismatch,
    int witness_left;    // and such that are made as ever
    ls_rank_comm *world;
    ls_rank_comm *axes[LS_MESH_DIMS_MAX];
};

#define LS_RANK_COMM_MAGIC 0x6c73636fu
// The newest message of two members: the groups in which they made it, 0 for none.
typedef struct ls_met_groups {
    uint64_t own, peer;
    bool told;
} ls_met_groups;

struct ls_rank_comm {
    uint32_t magic;
    ls_rank *rank;
    ls_shared_comm *shared;
    int member;
    uint64_t replicas;  // declared so far
    bool destroyed;
    bool abandoned;  // destroyed with calls in flight, which are matched none the less
    bool of_run;     // world and axes: never destroyed
    const char *file;
    int line;
    ls_met_groups *met_groups;  // [size] by peer; NULL before a message of a group
    ls_rank_comm *next;         // in run->handles
};

// The calls of all members that match as one collective.
struct ls_meet {
    ls_shared_comm *shared;
    uint64_t round;
    int arrived;
    int edge_count;         // orders of calls recorded for it, see order.c
    uint64_t mark;          // of the search for cycles, see stuck.c
    ls_request **requests;  // [size]; NULL: not arrived
    const ls_call **calls;  // [size]
    ls_meet *next_free;
};

struct ls_shared_comm {
    ls_comm *comm;
    uint64_t *rounds;  // [size] collectives of each member so far
    ls_meet **ring;    // matches [base, base + count) by round % room
    uint64_t base;
    uint64_t count;
    uint64_t room;
    ls_meet *free_meets;
    // Unmatched messages, oldest first, see p2p.c.
    ls_request **sends;   // [size] by receiver
    ls_request **recvs;   // [size] by receiver
    ls_request **any;     // [size] by receiver: receives from any member or with any tag
    ls_request **keyed;   // [keyed_room] sends and the other receives, by receiver, sender and tag
    uint64_t keyed_room;  // a power of two, or 0
    uint64_t keyed_count;
    uint64_t numbers_p2p;
    ls_shared_comm *next;           // in run->comms
    bool of_axis;                   // its ls_comm belongs to the axis
    uint64_t replicas;              // declared so far, by the member that has declared most
    ls_sums *sums;                  // its last results, see redundant.c; NULL: none
    const ls_shared_comm *crossed;  // calls on it in opposite orders were reported
    ls_sites *sites;                // the lines from which members matched, see sites.c; NULL: not
                                    // yet
};

// A call as its order with others is judged.
typedef struct ls_ordered_call {
    uint64_t number;  // of its rank
    ls_issuer issuer;
    const char *file;  // static storage
    int line;
} ls_ordered_call;

// An order of two communicators' calls that a rank made while the first was open, see order.c.
typedef struct ls_order_edge {
    ls_shared_comm *comm[2];
    uint64_t round[2];
    ls_ordered_call *calls[2];  // [size of comm] of its members, once it is complete
    ls_meet *meet[2];           // while it is not
    struct ls_order_edge *next;
} ls_order_edge;

// Equal calls that match from different lines of the program.
typedef enum ls_sites_check {
    LS_SITES_CROSSING,  // a finding if their order differs, by the rules of docs/ranks.md
    LS_SITES_OFF,
    LS_SITES_STRICT,  // always a finding
} ls_sites_check;

// Functions that schedule.c, request.c and fail.c call, of files that call those.
typedef struct ls_core {
    bool (*choose)(ls_spmd *run);        // p2p.c
    void (*explain)(ls_spmd *run);       // stuck.c
    void (*decide_pair)(ls_spmd *run);   // p2p.c, of run->suspects
    void (*decide_calls)(ls_spmd *run);  // lookahead.c, of run->lookahead
    int (*wait_direct)(ls_request *request);
    const ls_rank_check *const *checks;  // with NULL behind the last
} ls_core;

struct ls_spmd {
    uint32_t abi;  // LS_RANKS_ABI
    int rank_count;
    ls_rank *ranks;          // [rank_count]
    const ls_rank *running;  // rank that holds the run token; NULL in a parallel run
    int status;              // LS_OK until the run has failed
    char why[160];           // the finding that ended it
    ls_spmd_options options;
    ls_spmd_program program;
    void *arg;
    bool parallel;
    const ls_core *core;
    int (*remote_met)(ls_spmd *run, ls_request *const *requests, int size);  // see remote.c
    bool checks[LS_FINDING_COUNT];
    bool moved_values;     // value.*: also in what is only moved
    bool moved_garbage;    // buffer.uninitialised: also in what is only moved
    bool brought_inf;      // value.inf_first: also where a rank brought it
    bool warned;           // collective.redundant_reduce is a finding like others
    bool replicas_always;  // replica.diverged: after every collective
    ls_sites_check sites;  // collective.order_mismatch: of equal calls
    ls_world *world;
    ls_backend *backend;
    bool direct;    // calls go to `backend`, which holds one rank; no threads
    bool borrowed;  // `backend` and `world` are the caller's, and data moves there
    int history;
    double deadline_seconds;     // of a rank without a call; at most 0: none
    atomic_uint_least64_t beat;  // calls and turns so far, for the watchdog
    atomic_int token;            // rank with the token; -1: none
    pthread_mutex_t mutex;
    sem_t done;         // the starting thread waits for it; with a debugger, first for its ranks
    int process;        // that the threads are of
    uintptr_t shapes;   // of a run without data: the address of the next allocation
    ls_fibers *fibers;  // ranks are fibers of one thread, see fibers.h; NULL: threads
    int carrier_tid;    // of that thread
    char *stacks;       // of all threads: a guard, the stack of the program, that of handlers
    size_t stacks_bytes;
    bool parks;          // threads stay until the run was judged: a debugger has the process
    sem_t over;          // they wait for
    int alive;           // ranks whose program has not returned
    int running_count;   // parallel: ranks that are not blocked
    uint64_t *ready[2];  // bit sets of ranks that could run: [1] only after all of [0]
    int ready_count[2];  // in each
    size_t ready_words;
    uint64_t switches;
    uint64_t digest;
    uint64_t calls;
    uint64_t completed;  // requests
    // Times that a rank asked what the schedule had done by then (tests, any-source without a front
    // that chooses, locks): without any, all interleavings that make the same choices are one.
    atomic_uint_least64_t observed;
    atomic_bool started;  // by a rank: the library of the run's frontend
    ls_shared_comm *comms;
    ls_rank_comm *handles;
    ls_axis *axes[LS_MESH_DIMS_MAX];
    ls_shared_comm **axis_comms[LS_MESH_DIMS_MAX];  // [comm_count of the axis]
    ls_shared_comm *world_comm;
    ls_replica_set *replicas;  // declared, see replica.c
    ls_order_edge *edges;
    int edge_count;
    uint64_t marks;           // searches for cycles so far
    int held;                 // receives from any member that wait for a choice, see p2p.c
    atomic_bool has_threads;  // its ranks have made threads
    atomic_bool arrivals;     // a rank's `arrived`
    uint64_t thread_choices;
    int passed_over;  // polls since a delayed rank has run
    int idle_polls;   // in a row, by all ranks, while nothing happened
    uint64_t idle_since;
    double idle_from;        // when that was
    bool outside_known;      // since then, these: of the threads outside of calls
    uint64_t outside_times;  // that they had begun to run
    int outside_count;
    ls_request *suspects[2];  // a send and its receive that do not fit, see p2p.c; else NULL
    ls_lookahead *lookahead;  // after a mismatch, see lookahead.c
    ls_crossing *crossings;   // [crossing_count] to be reported at the end, see sites.c
    int crossing_count;
    const struct ls_front *front;  // its programs' calls are made through it (front.h); NULL: none
    const ls_remote *remote;  // its ranks' programs are elsewhere, see remote.h; NULL: threads here
    ls_origin *origins;       // [origin_room], from 1
    uint32_t origin_count, origin_room;
    ls_spmd_result *result;
    ls_spmd *next_run;  // in ls_gdb_runs
    ls_arena *arena;    // everything that lives as long as the run
};

#define LS_WARNINGS_MAX 16

struct ls_spmd_result {
    ls_arena *arena;
    ls_finding *findings;
    int finding_count, finding_room;
    const char **first_texts;  // [finding_room] before the same was found on more ranks
    const int **first_ranks;   // [finding_room][first_counts]
    int *first_counts;         // [finding_room]
    ls_finding warnings[LS_WARNINGS_MAX];
    int warning_count;
    int rank_count;
    int *exit_status;     // [rank_count]
    const char **missed;  // [fault_count] why a fault was not injected; NULL: it was
    uint64_t calls;
    uint64_t switches;
    uint64_t digest;
    uint64_t observed;
    bool started;
};
