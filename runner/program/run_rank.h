// The ranks of one process: what a process that a real run starts does. For the program and the
// runner alone.
#ifndef LS_RUNNER_PROGRAM_RUN_RANK_H
#define LS_RUNNER_PROGRAM_RUN_RANK_H

#include "collectives/collectives.h"
#include "runner/scenario/scenario.h"

// The work of the ranks of a process.
typedef struct ls_rank_run {
    const ls_scenario *scenario;
    ls_backend *backend;   // its world holds these ranks
    const char *versions;  // of the libraries that mattered, or NULL
    const char *dir;       // of the recording, which they write their part of
    bool own_calls;        // each rank makes its calls by itself
} ls_rank_run;

// Called in each process that ls_run_* started, and for the simulator in this one. Where it fails
// by what a check found, *found is set and *finding says what, in `arena`.
int ls_run_rank(const ls_rank_run *run, ls_arena *arena, ls_finding *finding, bool *found);

#endif
