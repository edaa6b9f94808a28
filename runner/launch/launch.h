// The real processes of runs: mpiexec started once for several, each run under a deadline, with
// every rank watched, so that a rank that dies is named and nothing is left running.
#ifndef LS_RUNNER_LAUNCH_LAUNCH_H
#define LS_RUNNER_LAUNCH_LAUNCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/base.h"
#include "collectives/finding.h"

// How a launched run ended.
typedef struct ls_launch_result {
    int exit_code;       // mpiexec's; -1 when it was ended, for one of the next two
    bool timed_out;      // by the deadline, or since a stopped launcher never started the ranks
    bool hung;           // it was seen to hang as expected
    bool launcher_died;  // mpiexec, or what it starts ranks through, ended before the ranks did
    int started;         // ranks that have said that they live
    int died_rank;       // the first rank that died before it was done, or LS_RANK_NONE
    int died_signal;     // the signal that ended it, 0 when unknown or none
    struct timespec died_at;  // when its reaper reported so; 0: none did
    bool died_planted;        // that rank's program ended itself
    double seconds;           // wall time
    ls_text output;  // stdout and stderr of all ranks, at most LS_LAUNCH_OUTPUT_MAX bytes; owned
    ls_text seen;    // timed_out: what was seen of the ranks, each with "; " behind it; owned
} ls_launch_result;

// A run that is to hang. It does when every rank says that it is in its place, nobody is stopped or
// gone, and nothing moves for `quiet_seconds`, in which each rank that waits was given
// `cpu_seconds` to look for what it waits for: a busy machine takes longer, and is equivalent.
typedef struct ls_launch_hang {
    const ls_place *places;  // [ranks] NULL: the run is not to hang
    double quiet_seconds;
    double cpu_seconds;
} ls_launch_hang;

#define LS_LAUNCH_OUTPUT_MAX ((size_t)1 << 20)

// A run, as the processes hear of it. They are of this build, and read it as it lies in memory.
typedef struct ls_launch_run {
    char scenario[PATH_MAX];   // its file
    char recording[PATH_MAX];  // the directory that the ranks write their parts of
    char marks[PATH_MAX];      // an existing directory of this run alone, see ls_launch_announce
    char order[PATH_MAX];      // of reductions, of a simulation; "": as the scenario says
    uint64_t seed;
    double deadline_seconds;
    bool own_calls;  // a program's rank makes its collectives by itself
} ls_launch_run;

// Processes that were started once and take one run after the other, while all goes well.
typedef struct ls_process_set ls_process_set;

// Starts argv (NULL-terminated: mpiexec and its arguments, or the one process of all ranks), which
// brings `processes` processes that call ls_launch_join (one, where it hands the runs on). home: an
// existing directory of these processes alone. LS_ERR_BACKEND when it cannot be started.
// ls_process_set_end ends and frees it.
int ls_process_set_start(ls_process_set **out, const char *const *argv, int processes,
                         const char *home);
// Gives a ready process set a run of `ranks` ranks and watches it. Unless every rank was done, all
// that is left of the processes is ended, wherever it went, and the process set takes no other run.
int ls_process_set_run(ls_launch_result *out, ls_process_set *set, const ls_launch_run *run,
                       int ranks, const ls_launch_hang *hang);
bool ls_process_set_ready(const ls_process_set *set);
// Lets the processes end, and ends them after deadline_seconds. LS_ERR_BACKEND, with what they
// printed: they failed after a run that was done.
int ls_process_set_end(ls_process_set *set, double deadline_seconds);
void ls_launch_result_free(ls_launch_result *result);

// ---- The launched processes' side ---------------------------------------------------------------
// Called first thing by a launched process: goes on in a child process, while this one waits for it
// and, should a signal end it, leaves "rank_R.died" in `home` with the signal before it ends
// itself. So the rank that died is known for certain, not by who was seen to vanish first. Where
// the process that had started this one is gone before, it leaves "rank_R.orphaned", and ends its
// child. Returns in the child alone, or at once where the rank's number is not in the environment.
void ls_launch_keep(const char *home);
// Opens the way on which process `process` of the process set hears of its runs; and waits for the
// next. False: there is none, or who starts them is gone.
int ls_launch_join(const char *home, int process);
bool ls_launch_next(ls_launch_run *out);
// Says that rank `rank` lives, in "rank_R.pid" of the run's marks, or that its work is complete, in
// "rank_R.done".
int ls_launch_announce(const char *watch_dir, int rank);
int ls_launch_done(const char *watch_dir, int rank);
// Called by a launched process before it announces itself: *page is where ls_launch_place (an
// ls_place_observer) says where the rank is.
int ls_launch_place_open(void **page, const char *watch_dir, int rank);
void ls_launch_place_close(void *page);  // NULL: nothing
void ls_launch_place(void *page, const ls_place *place);
// Called by a launched process that found a defect.
void ls_launch_tell_finding(const char *watch_dir, int rank, const ls_finding *finding);
// Reads the finding that a rank reported, the lowest rank's first; texts live in `arena`. False:
// none.
bool ls_launch_finding(ls_finding *out, const char *watch_dir, int ranks, ls_arena *arena);

// Called by a launched process that fails, before it ends: tells the last error's code and text;
// and the first such code, with its text in one line. False: none was reported before `death` (0:
// at all): the others fail where they miss a rank that a signal has ended.
void ls_launch_tell_error(const char *watch_dir, int rank);
bool ls_launch_error(int *code, char *text, size_t text_bytes, const char *watch_dir, int ranks,
                     const struct timespec *death);
// Called by a launched process that needs more GPUs than there are, with the last error's text; and
// whether one said so.
void ls_launch_tell_too_few(const char *watch_dir, int rank);
bool ls_launch_too_few(char *text, size_t text_bytes, const char *watch_dir, int ranks);

#endif
