// How a table's `sharding:` key cuts it, and where the blocks lie as far as the key says.
#ifndef LS_RUNNER_SCENARIO_SCENARIO_LAYOUT_H
#define LS_RUNNER_SCENARIO_SCENARIO_LAYOUT_H

#include <stdbool.h>

#include "planner/plan.h"
#include "runner/scenario/scenario.h"

// Whether the key gives more than the type: a plan file, ranks, a host, or the blocks' sizes.
bool ls_scenario_layout_given(const ls_scenario_table *table);

// A plan file, ours or TorchRec's, of a scenario with those ranks and tables.
int ls_scenario_plan_read(ls_plan *out, const ls_scenario *scenario, const char *path,
                          ls_arena *arena);
// The same; fails where the plan is for another world than the scenario's.
int ls_scenario_plan_open(ls_plan *out, const ls_scenario *scenario, const char *path,
                          ls_arena *arena);

// The blocks of a table whose key gives a type or a plan file. Every rank is -1 where the key says
// nothing of places and the type has several. *out lives in `arena` and borrows names from the
// scenario. LS_ERR_INVALID, LS_ERR_IO.
int ls_scenario_layout(ls_plan_table *out, const ls_scenario *scenario,
                       const ls_scenario_table *table, ls_arena *arena);

// Whether the blocks of a table lie within it, which allow_broken leaves open. LS_ERR_INVALID says
// which does not, and where its sizes are given.
int ls_scenario_layout_check(const ls_plan_table *placed, const ls_scenario *scenario,
                             const ls_scenario_table *table);

#endif
