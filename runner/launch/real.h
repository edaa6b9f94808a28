// Getting a real run's outputs: from processes that are started for it, or from a recording made
// earlier. Either way a comparison reads a recording.
#ifndef LS_RUNNER_LAUNCH_REAL_H
#define LS_RUNNER_LAUNCH_REAL_H

#include "runner/compare/call_orders.h"
#include "runner/launch/launch.h"
#include "runner/compare/run.h"
#include "runner/compare/stages.h"

typedef struct ls_real_request {
    const ls_scenario *scenario;
    ls_real_source source;
    const ls_run_options *options;
    bool *too_few_gpus;       // set where the machine has fewer GPUs than the scenario has ranks
    ls_call_orders **orders;  // gets the orders that the run's calls used; NULL: not wanted
    bool own_calls;           // every rank makes its calls by itself, as injected defects need it
    ls_launch_hang hang;      // where the run is to hang, if it is
    ls_recording **calls;     // gets the recording, for its calls alone; NULL: not wanted
} ls_real_request;

// The MPI processes that such a simulation is spread over; 0: it is no simulation, or not spread.
int ls_real_spread(const ls_real_request *request);
// Whether the ranks of such a run share one process: this one, or one that is started for it.
bool ls_real_one_process(const ls_real_request *request);

// Runs or reads, and gives every stage output to `stages` (NULL: none wanted). What a rank
// reported, or that one died, is a finding in `arena` (*found is set): LS_ERR_RANK_DIED where its
// process died of something else than the scenario, else LS_ERR_FINDING. LS_ERR_BACKEND: the
// backend is missing, or its processes or their launcher failed, with what they printed;
// LS_ERR_DEADLOCK: it hangs as request->hang says; LS_ERR_TIMEOUT: the deadline passed, with what
// was seen; LS_ERR_FORMAT: a recording cannot be used, or is of another scenario.
int ls_real_run(ls_stages *stages, const ls_real_request *request, ls_arena *arena,
                ls_finding *finding, bool *found);

// Where the recording of `scenario` lies in a directory of recordings: DIR/NAME, the name reduced
// to letters, digits, '.', '_' and '-'.
void ls_real_recording_dir(char *out, size_t out_bytes, const char *dir,
                           const ls_scenario *scenario);

#endif
