// Compares every rank's bytes as counted from the plan with the bytes of the simulator's
// collectives.
#pragma once

#include "planner/traffic.h"
#include "runner/scenario/scenario.h"

typedef struct ls_validated_rank {
    ls_traffic_rank planned, simulated;
} ls_validated_rank;

// Counts, then runs the forward stages in the simulator. out [scenario->ranks]; the plan has the
// scenario's tables in its order. Backward and update move nothing inside the modules.
// LS_ERR_INVALID for a program, or for an id outside of its table that the scenario does not allow.
int ls_validate_plan(ls_validated_rank *out, const ls_scenario *scenario, const ls_plan *plan);
// How many of the ranks' numbers (sent and received, for each stage) differ.
int ls_validate_differing(const ls_validated_rank *ranks, int count);
// Appends the numbers as text: a line for each rank and stage that moves anything.
void ls_validate_write_text(ls_text *out, const ls_validated_rank *ranks, int count);
// Appends them as JSON (documented in docs/reference.md).
void ls_validate_write_json(ls_text *out, const ls_validated_rank *ranks, int count);
