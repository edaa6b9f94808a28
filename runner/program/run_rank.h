// The work of one process of a real run. Private to the program and the runner.
#pragma once

#include "collectives/collectives.h"
#include "runner/scenario/scenario.h"

// The arguments of a process.
typedef struct ls_rank_run {
    const ls_scenario *scenario;
    ls_backend *backend;   // its world holds these ranks
    const char *versions;  // of the relevant libraries, or NULL
    const char *dir;       // of the recording
    bool own_calls;        // each rank makes its calls itself
} ls_rank_run;

// Called in each process that ls_run_* started, and for the simulator in this one. After a failed
// check *found is set and *finding is the defect, in `arena`.
int ls_run_rank(const ls_rank_run *run, ls_arena *arena, ls_finding *finding, bool *found);
