// A plan against what it does: every rank's bytes as counted from the plan, beside those that the
// simulator's collectives move when the scenario runs with it.
#ifndef LS_RUNNER_PLAN_VALIDATE_H
#define LS_RUNNER_PLAN_VALIDATE_H

#include "planner/traffic.h"
#include "runner/scenario/scenario.h"

typedef struct ls_validated_rank {
    ls_traffic_rank planned, simulated;
} ls_validated_rank;

// Counts, then runs the forward stages in the simulator. out [scenario->ranks]; the plan's tables
// are the scenario's, in its order. Backward and update move nothing in the modules. LS_ERR_INVALID
// for a program, and where an id is outside its table and the scenario does not let it pass.
int ls_validate_plan(ls_validated_rank *out, const ls_scenario *scenario, const ls_plan *plan);
// How many of the ranks' numbers (sent and received, per stage) differ.
int ls_validate_differing(const ls_validated_rank *ranks, int count);
// Appends the numbers for people: a line per rank and stage that moves anything.
void ls_validate_write_text(ls_text *out, const ls_validated_rank *ranks, int count);
// Appends them as JSON (documented in docs/reference.md).
void ls_validate_write_json(ls_text *out, const ls_validated_rank *ranks, int count);

#endif
