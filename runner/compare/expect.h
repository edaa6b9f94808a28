// Checks that the scenario's expectation, a finding or stage verdicts, appeared and nothing else.
#pragma once

#include "runner/compare/compare.h"
#include "runner/result.h"
#include "runner/scenario/scenario.h"

// Whether one of the result's findings has the expected name, ranks, place and words, and all of
// them have that name and no other ranks. Else *why gives the difference, in `arena`.
bool ls_expect_finding(const char **why, const ls_case_result *result,
                       const ls_scenario_expect *expect, ls_arena *arena);
// Whether the failing stages (fails [stage_count]) are the expected ones, of the expected class,
// and the first of them diverges at the expected place. oracle: finds the sample; NULL: none.
bool ls_expect_divergence(const char **why, const ls_comparison *comparison, const bool *fails,
                          const ls_scenario_expect *expect, const ls_scenario_oracle *oracle,
                          ls_arena *arena);
