// Stage names of a scenario's tables, and the identity of such outputs.
#pragma once

#include "collectives/recording.h"
#include "embedding/stages.h"
#include "runner/scenario/scenario.h"

// The name of a stage of a step: "lookup", or "step2.lookup" with several steps.
void ls_scenario_stage_name(char *out, size_t out_bytes, const ls_scenario *scenario, int step,
                            const char *stage);
// The stage of the scenario's tables, and the step, with this name in a run. false: none.
bool ls_scenario_stage_find(ls_stage *stage, int *step, const ls_scenario *scenario,
                            const char *name);

// Passes outputs that come from a file with only a name on to `sink`, with their identity.
typedef struct ls_scenario_stages {
    const ls_scenario *scenario;
    ls_stage_sink sink;
} ls_scenario_stages;
ls_stage_sink ls_scenario_stages_sink(ls_scenario_stages *stages);
