// What a recording says beside its outputs: the scenario that it is of, and the calls that its
// ranks made. Both are compared with the scenario that is simulated.
#ifndef LS_RUNNER_COMPARE_RECORDED_H
#define LS_RUNNER_COMPARE_RECORDED_H

#include "collectives/recording.h"
#include "runner/compare/compare.h"

// Loads the scenario that the recording in `dir` holds, with the files beside it and the seed that
// it was run with. The caller frees *out. LS_ERR_FORMAT: it holds none that can be used.
int ls_recorded_scenario(ls_scenario **out, const ls_recording *recording, const char *dir,
                         bool allow_outside);

// Whether the recording is one of `scenario`: LS_ERR_FORMAT names the first thing that differs.
int ls_recorded_check(const ls_recording *recording, const char *dir, const ls_scenario *scenario,
                      bool allow_outside);

// Sees the calls that a backend completes, until ls_recorded_calls takes them.
int ls_recorded_watch(ls_recording_writer **out, ls_backend *backend, const ls_scenario *scenario);
// The calls that were seen, as a recording without outputs; frees the writer. `status`: of the run
// that was watched; where it is not LS_OK there are none, and it is returned.
int ls_recorded_calls(ls_recording **out, ls_recording_writer *writer, int status);
// Adds the stage "calls" where the recorded calls are not the simulated ones.
int ls_recorded_compare_calls(ls_comparison *comparison, const ls_recording *simulated,
                              const ls_recording *recorded);

#endif
