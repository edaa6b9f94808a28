// The coordinator of `lockstep exec`: starts a program, or a launcher that starts its ranks, and
// takes the calls of every process that a front (client.h) connects: each member of a communicator
// is a rank of one SPMD run, whose calls are matched, checked and explained as those of threads.
#pragma once

#include "base/text.h"
#include "runner/result.h"
#include "ranks/ranks.h"

// The data in a recording.
typedef enum ls_exec_kept {
    LS_EXEC_KEPT_NOTHING,
    LS_EXEC_KEPT_HASHES,   // of what was sent and received
    LS_EXEC_KEPT_PAYLOAD,  // all of it
} ls_exec_kept;

// How ranks start.
typedef enum ls_exec_start {
    LS_EXEC_START_AUTO,  // two import torch and fork the others, where that changes nothing
    LS_EXEC_START_EXEC,  // each is started
    LS_EXEC_START_FORK,  // one forks all others
} ls_exec_start;

typedef struct ls_exec_options {
    int processes;            // to start, one for each rank; 0: one, which starts the others
    const char *const *argv;  // NULL-terminated
    const char *preload;      // the front's path, for LD_PRELOAD
    const char *python;       // a folder that comes first on PYTHONPATH; NULL: none
    const char *watch;        // values that Python programs note: "off", "default", "all"; or NULL
    bool strict;              // a hint is a finding
    ls_exec_start start;      // of ranks of Python programs
    const char *modules;      // to import before a fork, "a,b"; NULL: those of torch in use
    bool observe;             // data moves elsewhere; calls are only matched
    const char *real;         // where: "nccl", or "gloo" for host memory; NULL: nccl
    const char *listen;       // "[HOST:]PORT" for agents of other hosts; NULL: one host
    int agents;               // so many
    const char *join;         // "HOST:PORT" of the coordinator of which this is an agent; or NULL
    const char *key;          // file of the key that they share
    const char *record;       // a folder to make, for the recording; NULL: none
    ls_exec_kept kept;        // beside the list of the calls
    const char *flight;       // prefix of the flight recorder's files; NULL: none
    bool quiet_stdout;        // the program's stdout goes to stderr
    double deadline_seconds;  // nothing moves for so long: the run ends; at most 0: never
    bool deadline_given;      // also where no rank is known to wait
    // Opens the device that moves data in GPU memory, if there is one; NULL: none.
    int (*open_device)(struct ls_device **out);
    // checks, order, faults, seed, history, lookahead, met. Ranks come from the program.
    ls_spmd_options spmd;
    int (*opened)(void *arg, int ranks);  // it is known how many there are; may be NULL
    void *opened_arg;
} ls_exec_options;

// A place that a rank's last calls came from, and what had called that.
typedef struct ls_exec_place {
    int run;  // from 1
    int rank;
    const char *file;
    int line;
    const char *stack;  // "FILE:LINE FUNCTION" in lines, nearest first
} ls_exec_place;

// Calls that are alike: of a kind, on a communicator, and for the same purpose or, where none is
// known, from the same place.
typedef struct ls_exec_calls {
    ls_kind kind;
    const char *communicator;
    const char *purpose;  // NULL: not known
    const char *file;     // of the first
    int line;
    uint64_t calls;
    uint64_t bytes;  // that all members sent
} ls_exec_calls;

// A run before the last one: in a session of tests one ends with its finding, and with an elastic
// launcher's attempt.
typedef struct ls_exec_ended {
    struct ls_exec_ended *next;
    ls_spmd_result *spmd;
    int status;
    int attempt;
    bool forgiven;  // a rank of it ended, and the launcher started all again
} ls_exec_ended;

#define LS_EXEC_SETS_MAX  1000  // of calls, that a result has
#define LS_EXEC_RANKS_MAX 64    // a run of more ranks has none

typedef struct ls_exec_result {
    ls_spmd_result *spmd;         // of the last run; NULL: no communicator was made
    ls_exec_ended *before;        // runs before it, the first of all first
    int ranks;                    // of the largest run; 0: none
    int status;                   // of the run
    char why[LS_ERROR_TEXT_MAX];  // its sentence
    uint64_t calls;
    int processes;          // that connected
    int forked;             // ranks that another one forked
    char start_why[256];    // why none was, where it was tried; else ""
    bool quit;              // its debugger ended it before anything was found
    const char *hints;      // lines of what may be meant; NULL: none
    int widest;             // members of the largest communicator
    double seconds;         // wall time
    int agent_status;       // of an agent's program, as waitpid has it
    const char *loss;       // of an agent, or a program that failed on another host; NULL: none
    bool died;              // a process died, which was not injected
    int failed_rank;        // the first process that ended with an exit status; -1: none
    int failed_code;        //
    char failed_line[256];  // the last that it wrote to stderr; "": nothing
    ls_arena *arena;        // of what follows
    const struct ls_exec_place *places;  // of each rank, its last call's first
    int place_count;
    const ls_exec_calls *made;  // in the order in which the first of each was done
    int made_count;
    const ls_call_set *sets;  // the first ones, in the order of their matches; then the unmatched
                              // ones
    int set_count;
} ls_exec_result;

// Runs the program to its end; no process remains. LS_OK also if the run failed, with the reason in
// out->status and the last error's text; otherwise nothing was run.
int ls_exec_run(ls_exec_result *out, const ls_exec_options *options);
void ls_exec_result_free(ls_exec_result *result);
