// Shared by the files of the launcher.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "runner/launch/launch.h"

#define LS_LAUNCH_PATH_BYTES 4096
#define LS_LAUNCH_SAID       "said"  // the pipe on which ranks report their end

// out [LS_LAUNCH_PATH_BYTES] = "DIR/rank_R.SUFFIX"; false: too long.
bool ls_launch__mark(char *out, const char *dir, int rank, const char *suffix);
// Writes the text, which it frees, to that file, which appears whole.
int ls_launch__tell(const char *dir, int rank, const char *suffix, ls_text *text);
// Whether `a` was before `b`; 0: never.
bool ls_launch__earlier(const struct timespec *a, const struct timespec *b);

typedef struct ls_watched_rank {
    pid_t pid;                  // 0: not announced yet
    int fd;                     // its pidfd, or -1
    bool gone;                  // the process has ended
    pid_t reaper, launcher;     // its parent and grandparent; 0: none
    double cpu_seconds_before;  // its CPU time when it was last seen to enter its place
} ls_watched_rank;

typedef struct ls_watch {
    const char *home;  // of the processes, across runs
    const char *dir;   // directory of the marks of this run's ranks
    int ranks;
    ls_watched_rank *rank;
    int output;   // read end of the pipe; -1 at end of file
    int said;     // one byte for each rank that is done
    bool told;    // there was one in this run
    pid_t child;  // mpiexec; 0: it has ended
    bool killed;  // by a signal
    const ls_launch_hang *hang;
    double quiet_since;    // seconds; 0: some rank is not in its place
    double stopped_since;  // seconds; 0: no process was stopped at the last check
    double looked;         // seconds; time of that check
} ls_watch;

// ---- launch_hang.c: what is seen of a run that does not go on ----------------------------------
// Whether the run hangs as expected. Call often.
bool ls_launch__hangs(ls_watch *watch);
// Whether a process has been stopped for too long before all ranks have started.
bool ls_launch__never_starts(ls_watch *watch);
// The differences from the expected state, each with "; " after it.
void ls_launch__see(ls_text *out, const ls_watch *watch);
// The rank's last announced place.
ls_place ls_launch__place(const char *dir, int rank);
