// The processes of real runs: mpiexec is started once for several runs. Each run has a deadline,
// and every rank is watched: a rank that dies is named, and no process outlives the run.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/base.h"
#include "collectives/finding.h"

// How a launched run ended.
typedef struct ls_launch_result {
    int exit_code;       // mpiexec's; -1 if it was ended for one of the next two reasons
    bool timed_out;      // by the deadline, or because a stopped launcher never started the ranks
    bool hung;           // it hangs as expected
    bool launcher_died;  // mpiexec, or the process through which it starts ranks, ended before the
                         // ranks
    int started;         // ranks that have announced themselves
    int died_rank;       // the first rank that died before it was done, or LS_RANK_NONE
    int died_signal;     // the signal that ended it; 0: unknown or none
    struct timespec died_at;  // time of its reaper's report; 0: none
    bool died_injected;       // that rank's program ended itself
    double seconds;           // wall time
    ls_text output;  // stdout and stderr of all ranks, at most LS_LAUNCH_OUTPUT_MAX bytes; owned
    ls_text seen;    // timed_out: the observed state of the ranks, each with "; " after it; owned
} ls_launch_result;

// A run that is expected to hang. It hangs if every rank has announced its expected place, no
// process is stopped or gone, and nothing changes for `quiet_seconds`. In that time each waiting
// rank must have used `cpu_seconds` to poll. A busy machine takes longer and gets the same result.
typedef struct ls_launch_hang {
    const ls_place *places;  // [ranks]; NULL: no hang is expected
    double quiet_seconds;
    double cpu_seconds;
} ls_launch_hang;

#define LS_LAUNCH_OUTPUT_MAX ((size_t)1 << 20)

// A run, as sent to the processes. They are the same build, so the struct is sent as it is in
// memory.
typedef struct ls_launch_run {
    char scenario[PATH_MAX];   // its file
    char recording[PATH_MAX];  // the directory in which the ranks write their parts of the
                               // recording
    char marks[PATH_MAX];      // an existing directory for this run only, see ls_launch_announce
    char order[PATH_MAX];      // of reductions, of a simulation; "": the scenario's
    uint64_t seed;
    double deadline_seconds;
    bool own_calls;  // a program's rank makes its collectives itself
} ls_launch_run;

// Processes that are started once and execute one run after the other, until one fails.
typedef struct ls_process_set ls_process_set;

// Starts argv (NULL-terminated: mpiexec and its arguments, or the single process of all ranks). It
// must start `processes` processes that call ls_launch_join (one, if that passes the runs on).
// home: an existing directory for these processes only. LS_ERR_BACKEND: it cannot be started.
// ls_process_set_end ends and frees it.
int ls_process_set_start(ls_process_set **out, const char *const *argv, int processes,
                         const char *home);
// Assigns a run of `ranks` ranks to a ready process set and watches it. Unless every rank is done,
// all remaining processes are ended, even detached ones, and the process set takes no other run.
int ls_process_set_run(ls_launch_result *out, ls_process_set *set, const ls_launch_run *run,
                       int ranks, const ls_launch_hang *hang);
bool ls_process_set_ready(const ls_process_set *set);
// Lets the processes end; ends them after deadline_seconds. LS_ERR_BACKEND, with their output: they
// failed after a run that was done.
int ls_process_set_end(ls_process_set *set, double deadline_seconds);
void ls_launch_result_free(ls_launch_result *result);

// ---- The launched processes' side ---------------------------------------------------------------
// A launched process calls this first. It continues in a child process while the parent waits for
// the child. If a signal ends the child, the parent writes the signal to "rank_R.died" in `home`
// and then ends itself. So the rank that died first is recorded, not guessed from the order of
// exits. If the process that started this one ends first, the parent writes "rank_R.orphaned" and
// ends the child. Returns only in the child, or at once if the environment has no rank number.
void ls_launch_keep(const char *home);
// Opens the pipe on which process `process` of the process set receives its runs, and waits for the
// next run. False: there is no more run, or the launcher is gone.
int ls_launch_join(const char *home, int process);
bool ls_launch_next(ls_launch_run *out);
// Announces rank `rank` in "rank_R.pid" of the run's marks, or the end of its work in
// "rank_R.done".
int ls_launch_announce(const char *watch_dir, int rank);
int ls_launch_done(const char *watch_dir, int rank);
// A launched process calls this before it announces itself: ls_launch_place (an ls_place_observer)
// writes the rank's place to *page.
int ls_launch_place_open(void **page, const char *watch_dir, int rank);
void ls_launch_place_close(void *page);  // NULL: nothing
void ls_launch_place(void *page, const ls_place *place);
// A launched process that found a defect calls this.
void ls_launch_tell_finding(const char *watch_dir, int rank, const ls_finding *finding);
// Reads the finding of the lowest rank that reported one; texts are in `arena`. False: none.
bool ls_launch_finding(ls_finding *out, const char *watch_dir, int ranks, ls_arena *arena);

// A launched process that fails calls this before it ends: reports the last error's code and text.
// The second function reads the first such code, with its text in one line. False: none was
// reported before `death` (0: at all), since other ranks fail when they miss a rank that a signal
// has ended.
void ls_launch_tell_error(const char *watch_dir, int rank);
bool ls_launch_error(int *code, char *text, size_t text_bytes, const char *watch_dir, int ranks,
                     const struct timespec *death);
// A launched process calls this if it needs more GPUs than there are, with the last error's text;
// the second function reads it.
void ls_launch_tell_too_few(const char *watch_dir, int rank);
bool ls_launch_too_few(char *text, size_t text_bytes, const char *watch_dir, int ranks);
