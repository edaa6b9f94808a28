// Shared by the files of the coordinator.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "exec/coordinator.h"
#include "exec/memory.h"
#include "exec/wire.h"
#include "process/reaper.h"
#include "ranks/remote.h"

typedef struct ls_exec ls_exec;
typedef struct ls_exec_process ls_exec_process;
typedef struct ls_exec_rank ls_exec_rank;
typedef struct ls_exec_op ls_exec_op;
typedef struct ls_exec_stream ls_exec_stream;
typedef struct ls_exec_record ls_exec_record;
typedef struct ls_exec_flight ls_exec_flight;
typedef struct ls_exec_host ls_exec_host;

typedef struct ls_exec_site {
    const char *file;  // in the run's arena
    int line;
    const char *stack;    // in lines; NULL: none
    const char *purpose;  // name of the data that its calls move; NULL: not known
} ls_exec_site;

// Memory of a GPU that a process has given out.
typedef struct ls_exec_staging {
    char *at;  // NULL: it is not reached, and no call is in it
    uint64_t bytes;
} ls_exec_staging;

// A communicator as a process holds it.
typedef struct ls_exec_comm {
    ls_rank_comm *handle;  // NULL: not made yet, or destroyed
    ls_exec_rank *rank;    // the member's
    uint32_t subsets;      // made of it so far
    int run;               // of which it is
} ls_exec_comm;

#define LS_EXEC_RECENT 64  // calls of a process whose sites are kept

// A thread of a process that makes calls.
typedef struct ls_exec_caller {
    uint32_t thread;
    bool ended;  // as far as is known
    bool waits;  // given by this
    ls_wire_wait wait;
} ls_exec_caller;

struct ls_exec_process {
    ls_exec_process *next;
    int socket, watch;  // its connection, and its end (pidfd); -1: gone
    pid_t pid;
    ls_exec_host *host;  // another one, whose agent relays for it; NULL: this one
    uint32_t number;     // an agent's for it
    bool own;            // of the job's processes
    bool session;        // of tests: it continues after the run
    int attempt;         // of an elastic launcher that the coordinator has started, from 0
    int last_attempt;    // that this launcher makes at most
    int run;             // the run it has joined last; -1: none
    int rank, ranks;     // from the launcher, or -1
    ls_wire_control *control;
    ls_exec_staging *stagings;
    uint32_t staging_count;
    ls_exec_site *sites;
    uint32_t site_count;
    uint32_t recent[LS_EXEC_RECENT];  // sites of its last calls, a ring
    uint32_t recent_count;            // calls so far
    ls_exec_comm *comms;              // by the process's numbers
    uint32_t comm_room;
    bool bye;        // it has announced its end, with
    int status;      // that
    bool end_known;  // of another host: as waitpid had it there
    int end_status;  //
    bool gone;
    bool killed;  // by an injected fault
    int places;   // the same was reported so many times, as nothing moved
    const char *place_file;
    int place_line;
    uint32_t place_waits;     // an ls_wire_waits
    const char *raised;       // an exception that ends it, from that place; NULL: none is known
    ls_exec_caller *callers;  // its threads that have made calls or waited, the first of all first
    int caller_count;
};

// Of a stream of a rank: its calls run one after another.
struct ls_exec_stream {
    uint64_t stream;
    int unmet;  // calls that wait for other ranks
    ls_exec_stream *next;
};

struct ls_exec_rank {
    int id;
    int device;
    ls_exec_process *process;
    ls_rank *rank;
    ls_exec_op *first, *last;      // made, and not posted yet
    ls_exec_op *open, *open_last;  // posted, and not done
    int splits;                    // of these
    uint64_t made;                 // calls, so far
    ls_exec_stream *streams;
    bool ended;
};

// A call on its way.
struct ls_exec_op {
    ls_exec_op *next;    // of its rank's: first or open
    ls_exec_op *before;  // of open
    ls_exec_rank *rank;
    ls_exec_process *process;
    ls_exec_stream *stream;
    ls_rank_comm *handle;
    ls_remote_call call;
    ls_request *request;
    uint64_t number;  // among its rank's calls, from 0
    uint32_t slot;
    uint32_t comm;  // LS_COMM_SPLIT: the process's number of the new one
    ls_rank_comm *made;
    char name[LS_WIRE_NAME_BYTES];
    char overlap[96];  // of its call
    bool grouped, group_ends;
    bool on_device;  // its data is
    bool met;
    uint64_t noted;         // flight.c's number of it; 0: none
    ls_wire_piece *pieces;  // [members], of the result that its process collects; NULL: it does not
    int32_t piece_count;    // how many of them there are
    uint64_t result;        // taken for that, whole; 0: none
    size_t *counts;         // of each member, as far as the call has some
};

// Matched requests whose data has not arrived.
typedef struct ls_exec_job {
    struct ls_exec_job *next;
    int size;
    ls_request *requests[];
} ls_exec_job;

// A member that waits for the others of its communicator.
typedef struct ls_exec_joining {
    struct ls_exec_joining *next;
    ls_exec_process *process;
    uint32_t comm, slot;
    int ranks, rank, device;
    bool told;
    const ls_exec_site *site;
    unsigned char id[LS_WIRE_ID_BYTES];
    char name[LS_WIRE_NAME_BYTES];
} ls_exec_joining;

// A process that the coordinator has started.
typedef struct ls_exec_child {
    pid_t pid;
    int watch;  // pidfd; -1: it has ended
    int status;
    int errors;  // its stderr; -1: it is closed
    char text[8192];
    size_t length;  // of that, which is not passed on yet
    char line[256];
    size_t columns;  // of that
    char last[256];  // line that is not empty
} ls_exec_child;

struct ls_exec {
    const ls_exec_options *options;
    ls_arena *arena;
    const char *dir;  // of the job; its processes have it in their environment
    int listening;
    int port_lock;  // keeps the program's port from other commands; -1: none
    char socket[64];
    ls_exec_process *processes;
    int process_count;
    ls_exec_memory memory;
    ls_spmd *run;           // NULL: no communicator yet
    int number;             // of that, from 0: runs follow one another
    int attempt;            // of the elastic launcher's that it is
    ls_exec_ended *before;  // runs before it, the first of all first
    ls_remote remote;
    ls_exec_rank *ranks;  // [rank_count]
    int rank_count;
    int most_ranks;  // of any run
    ls_exec_job *jobs, *jobs_last;
    ls_exec_joining *joining;
    uint32_t joined;    // communicators made so far
    int widest;         // members of the largest
    bool progress;      // progress since the last check
    double moved;       // seconds; when that was
    double asked;       // when processes were last asked where they are
    double looked;      // when their threads were last examined
    int restful_looks;  // looks in turn that saw all of them sleep
    ls_exec_child *children;
    int child_count;
    int forked;                              // of them
    char start_why[256];                     // why a rank could not fork others; "": it could
    bool over;                               // the run has failed, and all are informed
    struct ls_device *device;                // for data in GPU memory; NULL: not open
    bool no_device;                          // and never will be
    struct ls_exec_noted *noted;             // notes whose members have not all come
    struct ls_exec_difference *differences;  // of notes, the last one first
    struct ls_exec_apart *apart;             // values that no two ranks may share
    const char **hints;                      // [hint_count], in the order of their texts
    int hint_count;
    ls_exec_record *record;  // NULL: none is made
    ls_exec_flight *flight;  // likewise
    ls_exec_place *places;   // of what is over
    int place_count;
    ls_exec_calls *made;  // counters for the report
    int made_count;
    ls_call_set *sets;  // [LS_EXEC_SETS_MAX]
    int set_count;
    bool no_memory;
    bool unrecorded;  // a call could not be kept
    bool unmoved;     // a GPU's data could not be reached any more
    bool died;
    bool injected;  // a process was killed by an injected fault
    int failed_rank, failed_code;
    int debugger;          // its socket; -1: none
    bool held;             // ranks are stopped: no time passes for the run
    bool found, released;  // the debugger has the finding that ends the run; and lets ranks hear
    bool quit;             // the debugger ends the run
    char words[PATH_MAX + 16];  // of the debugger's, that are not whole yet
    size_t words_length;
    ls_reaper kept;               // folder for core files and post-mortems until it has its name
    struct ls_exec_hosts *hosts;  // of a job on many; NULL: it is on one
    struct ls_exec_agent *agent;  // this is one, and no coordinator; NULL: it is one
    uint32_t numbers;             // of an agent's processes that have greeted
    bool lost;  // an agent, or the coordinator: nothing is checked any more, and the job goes on
    char loss[256];  // the sentence for that; or that the program failed on another host
    pid_t symbols;   // process that reads lines (symbols.c); 0: none
    int questions;   // where it is asked
    _Alignas(16) char buffer[LS_WIRE_MESSAGE_MAX];  // of a message
};

// ---- children.c ---------------------------------------------------------------------------------
// Whether the program goes on when lockstep ends, as on many hosts.
bool ls_exec__stays(const ls_exec_options *options);
int ls_exec__start(ls_exec *exec, const char *dir);
void ls_exec__reap(ls_exec *exec, ls_exec_child *child, bool block);
// How a process ended that this one has started; false: it has not, or is none of those.
bool ls_exec__child_status(ls_exec *exec, pid_t pid, int *status);
int ls_exec__living_children(const ls_exec *exec);
// Reports the ranks whose processes have ended; returns the first of them, -1: none. *died: by a
// signal.
int ls_exec__ended_child(const ls_exec *exec, ls_text *out, bool *died);
// How the process ended, behind "rank R"; and the last line of its stderr, if it failed.
void ls_exec__describe_end(ls_text *out, const ls_exec_child *child);
void ls_exec__describe_stderr(ls_text *out, const ls_exec_child *child, int rank);

// ---- stderr.c ----------------------------------------------------------------------------------
// Passes what the process has written to stderr on to this one's, in whole lines, so that those of
// two ranks do not mix; and keeps the last one. last: the text after the last line, too.
void ls_exec__hear(ls_exec *exec, ls_exec_child *child, bool last);
void ls_exec__warn(const char *sentence);  // on stderr

// ---- start.c ------------------------------------------------------------------------------------
// How many of the first ranks may fork others; 0: none, each rank is started.
int ls_exec__starters(const ls_exec *exec);
void ls_exec__set_starter(const ls_exec *exec, int socket);  // in the environment
// Has them fork the other ranks; closes their sockets. A rank without a process is to be started.
int ls_exec__fork(ls_exec *exec, const int *sockets, int starters);
// A child that waits at a socket to become a rank: another program forked it, and became this one.
typedef struct ls_exec_forked {
    pid_t pid;
    int socket;
    const char *next;
} ls_exec_forked;
bool ls_exec__next_forked(ls_exec_forked *forked);  // of the environment; false: there is none
// settings: lines NAME=VALUE, each behind a line's end. Closes the socket.
int ls_exec__adopt(ls_exec *exec, int rank, const ls_exec_forked *forked, const char *settings);

// ---- debugged.c ---------------------------------------------------------------------------------
int ls_exec__debug_open(ls_exec *exec);
void ls_exec__debug_close(ls_exec *exec);
void ls_exec__debug_read(ls_exec *exec);
// Whether the debugger pauses the run; sends it a finding that ends the run.
bool ls_exec__debug_holds(ls_exec *exec);

// ---- gdb.c --------------------------------------------------------------------------------------
// Around the start of processes: gdb gets them, if it wants them, before they have run anything.
int ls_exec__gdb_open(ls_exec *exec, int gate[2]);
extern volatile int ls_gdb_debugs_processes;  // gdb does
void ls_exec__gdb_child(void);                // in a child, before its program
void ls_exec__gdb_started(ls_exec *exec, const int gate[2]);

// ---- early.c ------------------------------------------------------------------------------------
// Ends the run where a rank has, and the others wait or it failed; whether it did.
bool ls_exec__judge_early(ls_exec *exec, double quiet);
int ls_exec__fail_late(const ls_exec *exec);  // LS_ERR_TIMEOUT, with where the ranks are

// ---- runs.c -------------------------------------------------------------------------------------
// Whether the joining member is of the run that goes on, or of the next one, which may begin with
// it; else its run is over.
int ls_exec__admit(bool *out, ls_exec *exec, ls_exec_process *process,
                   const ls_wire_comm_init *message);
// Whether the process's communicator of that number is of a run that is over.
bool ls_exec__is_past(const ls_exec *exec, const ls_exec_process *process, uint32_t comm);
// Ends the run: *out is its result. status: the error, if any, with its text.
int ls_exec__end_run(ls_exec *exec, ls_spmd_result **out, int status, const char *why);
void ls_exec__forget_joining(ls_exec *exec);

// ---- coordinator.c ------------------------------------------------------------------------------
// Ends a run that is stuck: no progress for `quiet` seconds.
void ls_exec__judge(ls_exec *exec, double quiet);
// The end of the run after all processes have ended: the result, and all memory given back.
void ls_exec__close(ls_exec *exec, ls_exec_result *out, int status);

// ---- process.c ----------------------------------------------------------------------------------
int ls_exec__accept(ls_exec *exec);
// Reads what the process has said; and that it has ended, which gives what reading its last words
// came to.
int ls_exec__read(ls_exec *exec, ls_exec_process *process);
int ls_exec__ended(ls_exec *exec, ls_exec_process *process);
void ls_exec__free_process(const ls_exec *exec, ls_exec_process *process);
// Answers in a slot and wakes the waiting process.
void ls_exec__answer(const ls_exec_process *process, uint32_t slot, uint32_t done, int status);
// The run is over: all waiting calls get the reason. Later calls are answered at once.
void ls_exec__answer_over(const ls_exec_process *process, uint32_t slot);
void ls_exec__tell(ls_exec_process *process, uint32_t failed, const char *why);  // its control
void ls_exec__tell_all(const ls_exec *exec, uint32_t failed, const char *why);
// An agent is lost, or the coordinator: from now on the job is not observed.
void ls_exec__lose(ls_exec *exec, const char *why);
// A message of so many bytes that a process has sent.
int ls_exec__heard(ls_exec *exec, ls_exec_process *process, const ls_wire_head *head, size_t bytes,
                   int descriptor);
ls_exec_process *ls_exec__add_process(ls_exec *exec, pid_t pid);  // NULL: no memory
// Whether the process takes part: it has greeted and is of the job, or has joined a communicator.
bool ls_exec__takes_part(const ls_exec_process *process);
void ls_exec__note_site(ls_exec_process *process, uint32_t site);  // of a call
const ls_exec_site *ls_exec__site(const ls_exec_process *process, uint32_t site);

// ---- elsewhere.c --------------------------------------------------------------------------------
// The process of a rank, be it gone; NULL: it has not connected.
const ls_exec_process *ls_exec__own_process(const ls_exec *exec, int rank);
bool ls_exec__has_joined(const ls_exec *exec, int rank);   // a communicator
bool ls_exec__ended_early(const ls_exec *exec, int rank);  // before it joined one
bool ls_exec__any_ended(const ls_exec *exec);              // a process of a rank
// The deadline is over: ranks that have reported their place wait there, whatever their threads do.
void ls_exec__place_running(const ls_exec *exec);
int ls_exec__place(ls_exec *exec, ls_exec_process *process, const ls_wire_place *message);
// The thread of the process, made known; NULL with a sentence: no memory.
ls_exec_caller *ls_exec__caller(ls_exec_process *process, uint32_t thread);
bool ls_exec__waits(const ls_exec_process *process);  // any of its threads, for a call
// Looks which of its threads have ended, if it is of this host.
bool ls_exec__has_ended(const ls_exec_process *process, int caller);
// Nothing has moved for `quiet` seconds: asks processes where they are, and believes those that
// wait inside of torch.distributed. Whether that ended the run.
bool ls_exec__all_rest(const ls_exec *exec);  // all threads have slept for some time
bool ls_exec__judge_elsewhere(ls_exec *exec, double quiet);
// Whether the process waits in torch.distributed, or for a communicator to be made; and where.
bool ls_exec__waits_outside(const ls_exec *exec, const ls_exec_process *process);
const char *ls_exec__outside_place(const ls_exec *exec, const ls_exec_process *process, int *line);

// ---- comms.c ------------------------------------------------------------------------------------
int ls_exec__open_run(ls_exec *exec, int ranks);
int ls_exec__init(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_init *message);
int ls_exec__subset(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_subset *message);
int ls_exec__keep_comm(ls_exec_process *process, uint32_t number, ls_rank_comm *handle,
                       ls_exec_rank *rank);
// The process's communicator of that number; NULL with a sentence: there is none.
ls_exec_comm *ls_exec__comm(ls_exec_process *process, uint32_t number);
void ls_exec__answer_comm(ls_exec *exec, const ls_exec_process *process, uint32_t slot,
                          const ls_rank_comm *handle);
// The ranks that joined a communicator that was never completed; false: none.
bool ls_exec__explain_joining(ls_exec *exec);
bool ls_exec__never_joined(const ls_exec *exec);  // since too few processes are left

// ---- calls.c ------------------------------------------------------------------------------------
int ls_exec__call(ls_exec *exec, ls_exec_process *process, const ls_wire_call *message);
int ls_exec__split(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_split *message);
bool ls_exec__in_flight(const ls_exec_rank *rank, const ls_rank_comm *comm);  // calls on it
void ls_exec__met(void *exec, ls_request *const *requests, int size);
// Posts what can be posted and moves data that has come; whether anything did.
bool ls_exec__advance(ls_exec *exec);
void ls_exec__wait(ls_exec *exec, ls_exec_process *process);  // for what it says it waits for
void ls_exec__resume(ls_exec *exec, const ls_exec_process *process);
bool ls_exec__has_arrived(const ls_exec_op *op);  // its data: the process's stream got there
// The first call of a job whose data has not come; NULL: all has.
ls_exec_op *ls_exec__first_missing(const ls_exec_job *job);
void ls_exec__free_op(ls_exec_op *op);

// ---- undone.c -----------------------------------------------------------------------------------
// Of matched calls whose data does not arrive; gone: because a process has ended. False: none.
bool ls_exec__explain_data(ls_exec *exec, bool gone);
// Tells the flight record which matched calls have begun: before it is written or they are dropped.
void ls_exec__note_begun(const ls_exec *exec);
void ls_exec__drop_calls(ls_exec *exec);

// ---- notes.c ------------------------------------------------------------------------------------
// The error of a message that breaks the protocol; the process that sent it is at fault.
static inline int ls_exec__malformed(const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "it sends a malformed message: %s", what);
}
int ls_exec__note(ls_exec *exec, const ls_exec_process *process, const ls_wire_note *message);
// Drops all; report: the run ends by itself, and a difference that stayed is a finding.
void ls_exec__end_notes(ls_exec *exec, bool report);

// ---- results.c ----------------------------------------------------------------------------------
// Before the data of a job is moved: where each member that collects finds its result. *collected:
// in what the others sent, so that nothing is to be moved here.
int ls_exec__place_results(ls_exec *exec, const ls_exec_job *job, bool *collected);
// Behind it: what was taken for results is the readers'.
void ls_exec__lend_results(ls_exec *exec, const ls_exec_job *job);

// ---- device.c -----------------------------------------------------------------------------------
// Says in the environment of the program how it uses GPUs: how many queues its streams have, and
// from which size on calls are staged in their memory.
void ls_exec__set_device(const ls_exec_options *options);
int ls_exec__staging(ls_exec *exec, ls_exec_process *process, const ls_wire_staging *message);
void ls_exec__free_stagings(const ls_exec *exec, ls_exec_process *process);
// Moves a job's data, in any memory; collected: as in ls_remote_move.
int ls_exec__move(ls_exec *exec, const ls_exec_job *job, bool collected);

// ---- record.c -----------------------------------------------------------------------------------
int ls_exec__record_open(ls_exec *exec);
// Around the moving of a job's data: what was sent [members][*each], or NULL; taken by the second.
bool ls_exec__records(const ls_exec *exec, const ls_exec_job *job);  // its data
char *ls_exec__record_before(ls_exec *exec, const ls_exec_job *job, size_t *each);
int ls_exec__record_after(ls_exec *exec, const ls_exec_job *job, char *sent, size_t each);
int ls_exec__record_close(ls_exec *exec);
// Counts the job's call for the report.
void ls_exec__count(ls_exec *exec, const ls_exec_job *job);
// Records the callers and places of matched calls; and at the end the unmatched ones.
void ls_exec__note_met(ls_exec *exec, const ls_exec_job *job);
void ls_exec__note_open(ls_exec *exec);

// ---- flight.c -----------------------------------------------------------------------------------
typedef enum ls_exec_flight_state {
    LS_EXEC_FLIGHT_SCHEDULED,
    LS_EXEC_FLIGHT_STARTED,
    LS_EXEC_FLIGHT_COMPLETED,
} ls_exec_flight_state;
int ls_exec__flight_open(ls_exec *exec);
int ls_exec__flight_call(ls_exec *exec, ls_exec_op *op, const ls_exec_site *site);
void ls_exec__flight_state(const ls_exec *exec, const ls_exec_op *op, ls_exec_flight_state state);
// The rank's process ended, before the run did.
void ls_exec__flight_ended(ls_exec *exec, int rank, const char *how);
int ls_exec__flight_close(ls_exec *exec);  // writes it

// ---- symbols.c ----------------------------------------------------------------------------------
// The place of a stack of addresses, as wire.h has them.
int ls_exec__symbols(ls_exec *exec, ls_exec_site *out, const char *stack);
void ls_exec__symbols_close(ls_exec *exec);
