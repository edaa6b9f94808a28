// Whether the finding that a scenario expects appeared.
#ifndef LS_SCENARIOS_RUNNER_EXPECT_H
#define LS_SCENARIOS_RUNNER_EXPECT_H

#include "scenarios/runner/result.h"
#include "scenarios/runner/scenario.h"

// Whether one of the result's findings has the expected name, ranks, place and words.
bool ls_expect_finding(const ls_case_result *result, const ls_scenario_expect *expect);

#endif
