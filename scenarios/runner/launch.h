// Starting the real processes of a run: mpiexec under a deadline, with every rank watched, so that
// a rank that dies is named and nothing is left running.
#ifndef LS_SCENARIOS_RUNNER_LAUNCH_H
#define LS_SCENARIOS_RUNNER_LAUNCH_H

#include <stdbool.h>

#include "base/base.h"
#include "collectives/finding.h"

// How a launched run ended.
typedef struct ls_launch_result {
    int exit_code;    // mpiexec's; -1 when it was ended by the deadline
    bool timed_out;   //
    int died_rank;    // the first rank that died before it was done, or LS_RANK_NONE
    int died_signal;  // the signal that ended it, 0 when unknown or none
    double seconds;   // wall time
    ls_text output;   // stdout and stderr of all ranks, at most LS_LAUNCH_OUTPUT_MAX bytes; owned
} ls_launch_result;

#define LS_LAUNCH_OUTPUT_MAX ((size_t)1 << 20)

// Runs argv (NULL-terminated: mpiexec and its arguments) for `ranks` ranks. watch_dir is an
// existing directory where rank r's process writes "rank_R.pid" when it starts and "rank_R.done"
// when it has finished (ls_launch_announce and ls_launch_done). LS_ERR_BACKEND when it cannot be
// started.
int ls_launch(ls_launch_result *out, const char *const *argv, int ranks, const char *watch_dir,
              double deadline_seconds);
void ls_launch_result_free(ls_launch_result *result);

// Called by a launched process: says that rank `rank` lives, or that its work is complete.
int ls_launch_announce(const char *watch_dir, int rank);
int ls_launch_done(const char *watch_dir, int rank);
// Called first thing by a launched process: goes on in a child process, while this one waits for it
// and, should a signal end it, leaves "rank_R.died" with the signal before it ends itself. So the
// rank that died is known for certain, not by who was seen to vanish first. Returns in the child
// alone, or at once where the rank's number is not in the environment.
void ls_launch_keep(const char *watch_dir);
// Called by a launched process whose checks found a defect (ls_check_last of this thread): tells
// the finding with the last error's text. Nothing happens where there is none.
void ls_launch_tell_finding(const char *watch_dir, int rank);
// Reads the finding that a rank told, the lowest rank's first; texts live in `arena`. False: none.
bool ls_launch_finding(ls_finding *out, const char *watch_dir, int ranks, ls_arena *arena);

// Called by a launched process that fails, before it ends: tells the last error's text; and the
// first such text, in one line. False: none was told.
void ls_launch_tell_error(const char *watch_dir, int rank);
bool ls_launch_error(char *text, size_t text_bytes, const char *watch_dir, int ranks);
// Called by a launched process that needs more GPUs than there are, with the last error's text; and
// whether one said so.
void ls_launch_tell_too_few(const char *watch_dir, int rank);
bool ls_launch_too_few(char *text, size_t text_bytes, const char *watch_dir, int ranks);

#endif
