// Derives a plan, the rank of each block of each table, from a scenario's `sharding:` keys. The
// planner shards and places tables without a sharding, for the ranks of `machine:` and the ids that
// the scenario generates, with the same result on every machine. It places tables that have a type
// but no ranks. Both take the load of the fixed tables into account.
#pragma once

#include "planner/plan.h"
#include "runner/scenario/scenario.h"

// *out is in `arena` and borrows names from the scenario. LS_ERR_INVALID names the table and its
// place in the file. The plan is not checked yet (ls_plan_check), since a scenario may contain a
// broken one on purpose.
int ls_scenario_plan(ls_plan *out, const ls_scenario *scenario, ls_arena *arena);
