// Whether what a scenario expects appeared: a finding, or a verdict of a stage.
#ifndef LS_SCENARIOS_RUNNER_EXPECT_H
#define LS_SCENARIOS_RUNNER_EXPECT_H

#include "scenarios/runner/compare.h"
#include "scenarios/runner/result.h"
#include "scenarios/runner/scenario.h"

// Whether one of the result's findings has the expected name, ranks, place and words.
bool ls_expect_finding(const ls_case_result *result, const ls_scenario_expect *expect);
// Whether a stage has the expected class, and diverges where it should.
bool ls_expect_divergence(const ls_comparison *comparison, const ls_scenario_expect *expect);

#endif
