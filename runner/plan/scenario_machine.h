// The machine that a scenario is planned for: a preset by name, or a file.
#ifndef LS_RUNNER_PLAN_SCENARIO_MACHINE_H
#define LS_RUNNER_PLAN_SCENARIO_MACHINE_H

#include "planner/topology.h"
#include "runner/scenario/scenario.h"

// Whether `name` is a path: it has a dot or a slash in it, as no preset's name has.
bool ls_scenario_machine_is_path(const char *name);

// The machine `name` (NULL: the scenario's own, else LS_SCENARIO_MACHINE) for the scenario's ranks.
// LS_ERR_NOT_FOUND: no such preset, with a near name; LS_ERR_IO; LS_ERR_FORMAT: the file is wrong,
// and `errors` says where; LS_ERR_INVALID: it is a machine of other ranks.
int ls_scenario_machine(ls_topology *out, ls_text *errors, const ls_scenario *scenario,
                        const char *name);

#endif
