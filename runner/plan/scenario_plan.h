// From a scenario's `sharding:` keys to a plan: which rank holds which block of which table. Tables
// without a sharding are cut and placed by the planner (for ranks of `machine:`, from the ids that
// the scenario generates; the same on every machine), those with a type but no places are placed by
// it, and both around the load of those whose places are given.
#ifndef LS_RUNNER_PLAN_SCENARIO_PLAN_H
#define LS_RUNNER_PLAN_SCENARIO_PLAN_H

#include "planner/plan.h"
#include "runner/scenario/scenario.h"

// *out lives in `arena` and borrows names from the scenario. LS_ERR_INVALID names the table and
// where it stands in the file; the plan is not yet checked (ls_plan_check), since a scenario may
// hold a broken one on purpose.
int ls_scenario_plan(ls_plan *out, const ls_scenario *scenario, ls_arena *arena);

#endif
