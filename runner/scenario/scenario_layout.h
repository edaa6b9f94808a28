// The blocks of a table by its `sharding:` key, and their ranks as far as the key gives them.
#pragma once

#include <stdbool.h>

#include "planner/plan.h"
#include "runner/scenario/scenario.h"

// Whether the key gives more than the type: a plan file, ranks, a host, or block sizes.
bool ls_scenario_layout_given(const ls_scenario_table *table);

// Reads a plan file, lockstep's or TorchRec's, for a scenario with those ranks and tables.
int ls_scenario_plan_read(ls_plan *out, const ls_scenario *scenario, const char *path,
                          ls_arena *arena);
// The same; fails if the plan is for another world size.
int ls_scenario_plan_open(ls_plan *out, const ls_scenario *scenario, const char *path,
                          ls_arena *arena);

// The blocks of a table whose key gives a type or a plan file. Every rank is -1 if the key gives no
// ranks and the type has several blocks. *out is in `arena` and borrows names from the scenario.
// LS_ERR_INVALID, LS_ERR_IO.
int ls_scenario_layout(ls_plan_table *out, const ls_scenario *scenario,
                       const ls_scenario_table *table, ls_arena *arena);

// Whether the blocks of a table are inside of it, which allow_broken does not ensure.
// LS_ERR_INVALID names the block and the place of its sizes.
int ls_scenario_layout_check(const ls_plan_table *placed, const ls_scenario *scenario,
                             const ls_scenario_table *table);
