// The scenario and the calls that a recording contains beside its outputs. Both are compared with
// the simulated scenario.
#pragma once

#include "collectives/recording.h"
#include "runner/compare/compare.h"

// Loads the scenario from the recording in `dir`, with its files and its seed. The caller frees
// *out. LS_ERR_FORMAT: it has no usable scenario.
int ls_recorded_scenario(ls_scenario **out, const ls_recording *recording, const char *dir,
                         bool allow_outside);

// Whether the recording is one of `scenario`: LS_ERR_FORMAT names the first thing that differs.
int ls_recorded_check(const ls_recording *recording, const char *dir, const ls_scenario *scenario,
                      bool allow_outside);

// Observes the calls that a backend completes, until ls_recorded_calls takes them.
int ls_recorded_watch(ls_recording_writer **out, ls_backend *backend, const ls_scenario *scenario);
// The observed calls, as a recording without outputs; frees the writer. `status`: of the observed
// run; if it is not LS_OK it is returned, without calls.
int ls_recorded_calls(ls_recording **out, ls_recording_writer *writer, int status);
// Adds the stage "calls" if the recorded calls differ from the simulated ones.
int ls_recorded_compare_calls(ls_comparison *comparison, const ls_recording *simulated,
                              const ls_recording *recorded);
