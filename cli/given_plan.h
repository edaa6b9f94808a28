// A plan that TorchRec's planner made: whose it is, whether it can be, and what it costs. For the
// commands that take one.
#pragma once

#include "cli/cli.h"
#include "runner/scenario/scenario.h"

// Shards the scenario's tables by the plan in `path`, which has exactly these tables. An exit code;
// errors are printed.
int cli_given_plan_take(ls_scenario *scenario, const char *path, ls_arena *arena);

// Appends the report of what the plan in `path` costs `ranks` ranks (0: as many as `tables` says).
// tables: the scenario of its tables and inputs; NULL: tables as large as its shards say, and a
// batch of 512 samples on each rank with an id for each table. machine: NULL: the scenario's. An
// exit code: 1 where it does not fit the machine, with the report of what is short.
int cli_given_plan_cost(ls_text *out, const char *path, const char *tables, int ranks,
                        const char *machine);
