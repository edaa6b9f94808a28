// The ranks of one process: what a process that a real run starts does. For the program and the
// runner alone.
#ifndef LS_RUNNER_PROGRAM_RUN_RANK_H
#define LS_RUNNER_PROGRAM_RUN_RANK_H

#include "collectives/collectives.h"
#include "runner/scenario/scenario.h"

// Called in each process that ls_run_* started, and for the simulator in this one: executes the
// scenario on `backend`, whose world holds these ranks, and writes their part of the recording in
// `dir`. versions: of the libraries that mattered, or NULL. own_calls: each rank makes its calls by
// itself.
int ls_run_rank(const ls_scenario *scenario, ls_backend *backend, const char *versions,
                const char *dir, bool own_calls);

#endif
