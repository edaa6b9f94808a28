// The processes of real runs, kept for the runs that follow: starting them takes longer than most
// scenarios do.
#ifndef LS_RUNNER_LAUNCH_CREWS_H
#define LS_RUNNER_LAUNCH_CREWS_H

#include "runner/launch/keeper.h"
#include "runner/launch/real.h"

#define LS_CREWS_MAX 4  // numbers of ranks whose processes wait at the same time

// All zero: none yet.
typedef struct ls_crews {
    struct ls_kept_crew {
        ls_crew *crew;  // NULL: this place is free
        const ls_backend_kind *backend;
        int processes;
        uint64_t used;  // the higher, the later
        double deadline_seconds;
        ls_keeper keeper;  // of its processes and their directory
    } at[LS_CREWS_MAX];
    uint64_t uses;
} ls_crews;

// Gives processes that wait for a run such as this, and starts them where there are none. The
// caller gives them back. LS_ERR_BACKEND: the backend is not there, or cannot be started.
int ls_crews_take(ls_crew **out, ls_crews *crews, const ls_real_request *request);
// `reuse`: they may take another run. Else, or where they are not ready for one, they are ended; an
// error says what they failed with after the run.
int ls_crews_give_back(ls_crews *crews, ls_crew *crew, bool reuse);
// Ends all of them: the same.
int ls_crews_end(ls_crews *crews);

#endif
