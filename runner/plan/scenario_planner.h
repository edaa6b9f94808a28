// Derives the planner's input from a scenario: its tables with the ids that it generates, and the
// choices that its `sharding:` keys leave open.
#pragma once

#include "planner/planner.h"
#include "runner/scenario/scenario.h"

// *tables [scenario->table_count] in `arena`. Ids per bag, skew and duplicates are those of the
// batches of up to LS_PLANNER_SAMPLED_RANKS ranks. No batch is begun that would probably end after
// `deadline` (monotonic clock in seconds; INFINITY: none). After it, few ids of the first rank's
// features are read. *cut: either happened, so another run may read other ids. LS_ERR_INVALID: the
// scenario has no tables.
#define LS_PLANNER_SAMPLED_RANKS 8
int ls_scenario_planner_tables(ls_planner_table **tables, bool *cut, const ls_scenario *scenario,
                               double deadline, ls_arena *arena);
