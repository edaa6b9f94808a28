// plan --measured: a plan's forward stages, predicted against measured times.
#pragma once

#include "backends/kinds.h"
#include "runner/plan/stage_times.h"

// The value of --measured: a backend that can be measured, or NULL: a file of times.
const ls_backend_kind *cli_plan_times_live(const char *measured);

// Reads the file of times and checks it against the scenario. Returns an exit code; errors are on
// stderr.
int cli_plan_times_read(ls_stage_times *out, const char *path, const ls_scenario *scenario,
                        ls_arena *arena);

// Does the plan's steps on `backend` and times them.
int cli_plan_times_measure(ls_stage_times *out, const ls_backend_kind *backend,
                           const ls_scenario *scenario, const ls_plan *plan, ls_arena *arena);

// Prints and writes (--json, `keep`: the file of times, NULL: none) the comparison.
int cli_plan_times_report(const ls_stage_times *times, const ls_planner_problem *problem,
                          const ls_planner_result *result, const char *keep, ls_arena *arena);
