// From a scenario to the planner's input: its tables with the ids that it really generates, and
// what its `sharding:` keys leave open.
#ifndef LS_RUNNER_PLAN_SCENARIO_PLANNER_H
#define LS_RUNNER_PLAN_SCENARIO_PLANNER_H

#include "planner/planner.h"
#include "runner/scenario/scenario.h"

// *tables [scenario->table_count] in `arena`. Ids per bag, skew and duplicates are those of the
// batches of up to LS_PLANNER_SAMPLED_RANKS ranks. No other rank's batch is begun that is likely to
// be made past `deadline`, of the monotonic clock in seconds (INFINITY: none), and of the first
// rank's features few ids are taken when it is past. *cut: either was so, and another run may look
// at other ids. LS_ERR_INVALID: the scenario has no tables.
#define LS_PLANNER_SAMPLED_RANKS 8
int ls_scenario_planner_tables(ls_planner_table **tables, bool *cut, const ls_scenario *scenario,
                               double deadline, ls_arena *arena);

#endif
