// The processes of real runs, kept for later runs: starting them takes longer than most scenarios.
#pragma once

#include "process/reaper.h"
#include "runner/launch/real.h"

#define LS_PROCESS_POOL_MAX 4  // limit on process sets that wait at the same time

// All zero: none yet.
typedef struct ls_process_pool {
    struct ls_kept_set {
        ls_process_set *set;  // NULL: the slot is free
        const ls_backend_kind *backend;
        int processes;
        uint64_t used;  // larger: used later
        double deadline_seconds;
        ls_reaper reaper;  // of its processes and their directory
    } at[LS_PROCESS_POOL_MAX];
    uint64_t uses;
} ls_process_pool;

// Takes waiting processes that fit the run, or starts new ones. The caller returns them.
// LS_ERR_BACKEND: the backend is missing or cannot be started.
int ls_process_pool_take(ls_process_set **out, ls_process_pool *pool,
                         const ls_real_request *request);
// `reuse`: they may take another run. Otherwise, or if they are not ready, they are ended; an error
// contains their failure after the run.
int ls_process_pool_give_back(ls_process_pool *pool, ls_process_set *set, bool reuse);
// Ends all of them; errors as above.
int ls_process_pool_end(ls_process_pool *pool);
