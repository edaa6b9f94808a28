// Provides a real run's outputs: from processes that are started for it, or from an earlier
// recording. In both cases a comparison reads a recording.
#pragma once

#include "runner/compare/call_orders.h"
#include "runner/launch/launch.h"
#include "runner/compare/run.h"
#include "runner/compare/stages.h"

typedef struct ls_real_request {
    const ls_scenario *scenario;
    ls_real_source source;
    const ls_run_options *options;
    bool *too_few_gpus;       // set if the machine has fewer GPUs than the scenario has ranks
    ls_call_orders **orders;  // receives the orders of the run's calls; NULL: not wanted
    bool own_calls;           // every rank makes its calls itself, as injected defects require
    ls_launch_hang hang;      // the place of the expected hang, if any
    ls_recording **calls;     // receives the recording, for its calls only; NULL: not wanted
} ls_real_request;

// The number of MPI processes that the simulation is spread over; 0: not a spread simulation.
int ls_real_spread(const ls_real_request *request);
// Whether the ranks of such a run share one process: this one or a started one.
bool ls_real_one_process(const ls_real_request *request);

// Runs or reads, and adds every stage output to `stages` (NULL: not wanted). A reported finding or
// a dead rank is a finding in `arena` (*found is set): LS_ERR_RANK_DIED if a process died of
// something that the scenario does not inject, else LS_ERR_FINDING. LS_ERR_BACKEND: the backend is
// missing, or its processes or their launcher failed, with their output. LS_ERR_DEADLOCK: it hangs
// as request->hang expects. LS_ERR_TIMEOUT: the deadline passed, with the observed state.
// LS_ERR_FORMAT: a recording cannot be used, or is of another scenario.
int ls_real_run(ls_stages *stages, const ls_real_request *request, ls_arena *arena,
                ls_finding *finding, bool *found);

// The path of `scenario`'s recording in a directory of recordings: DIR/NAME, with the name reduced
// to letters, digits, '.', '_' and '-'.
void ls_real_recording_dir(char *out, size_t out_bytes, const char *dir,
                           const ls_scenario *scenario);
