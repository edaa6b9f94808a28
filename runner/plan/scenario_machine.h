// The machine that a scenario is planned for: a preset or a file.
#pragma once

#include "planner/topology.h"
#include "runner/scenario/scenario.h"

// Whether `name` is a path: it contains a dot or a slash, which no preset's name does.
bool ls_scenario_machine_is_path(const char *name);

// The machine `name` (NULL: the scenario's own, else LS_SCENARIO_MACHINE) for the scenario's ranks.
// LS_ERR_NOT_FOUND: no such preset, with a similar name; LS_ERR_IO; LS_ERR_FORMAT: the file is
// wrong, with the place in `errors`; LS_ERR_INVALID: it has another number of ranks.
int ls_scenario_machine(ls_topology *out, ls_text *errors, const ls_scenario *scenario,
                        const char *name);
