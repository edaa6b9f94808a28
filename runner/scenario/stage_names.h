// Names of the stages of a scenario's tables, and the content of such outputs.
#ifndef LS_RUNNER_SCENARIO_STAGE_NAMES_H
#define LS_RUNNER_SCENARIO_STAGE_NAMES_H

#include "collectives/recording.h"
#include "embedding/stages.h"
#include "runner/scenario/scenario.h"

// The name of a stage of a step: "lookup", or "step2.lookup" where there are several.
void ls_scenario_stage_name(char *out, size_t out_bytes, const ls_scenario *scenario, int step,
                            const char *stage);
// The stage of the scenario's tables, and the step, that a run calls so. false: none.
bool ls_scenario_stage_find(ls_stage *stage, int *step, const ls_scenario *scenario,
                            const char *name);

// Outputs that come by name alone, from a file, on their way to `sink`, which is reported what they
// are of.
typedef struct ls_scenario_stages {
    const ls_scenario *scenario;
    ls_stage_sink sink;
} ls_scenario_stages;
ls_stage_sink ls_scenario_stages_sink(ls_scenario_stages *stages);

#endif
