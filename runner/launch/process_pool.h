// The processes of real runs, kept for the runs that follow: starting them takes longer than most
// scenarios do.
#ifndef LS_RUNNER_LAUNCH_PROCESS_POOL_H
#define LS_RUNNER_LAUNCH_PROCESS_POOL_H

#include "process/reaper.h"
#include "runner/launch/real.h"

#define LS_PROCESS_POOL_MAX 4  // numbers of ranks whose processes wait at the same time

// All zero: none yet.
typedef struct ls_process_pool {
    struct ls_kept_set {
        ls_process_set *set;  // NULL: this place is free
        const ls_backend_kind *backend;
        int processes;
        uint64_t used;  // the higher, the later
        double deadline_seconds;
        ls_reaper reaper;  // of its processes and their directory
    } at[LS_PROCESS_POOL_MAX];
    uint64_t uses;
} ls_process_pool;

// Gives processes that wait for a run such as this, and starts them where there are none. The
// caller gives them back. LS_ERR_BACKEND: the backend is not there, or cannot be started.
int ls_process_pool_take(ls_process_set **out, ls_process_pool *pool,
                         const ls_real_request *request);
// `reuse`: they may take another run. Else, or where they are not ready for one, they are ended; an
// error says what they failed with after the run.
int ls_process_pool_give_back(ls_process_pool *pool, ls_process_set *set, bool reuse);
// Ends all of them: the same.
int ls_process_pool_end(ls_process_pool *pool);

#endif
