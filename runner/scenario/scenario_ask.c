// Properties of a whole scenario.
#include <string.h>
#include "runner/scenario/memory_need.h"
#include <stdio.h>

bool ls_scenario_injects(const ls_scenario *scenario) {
    bool injects = scenario->fault_count > 0;
    for (int i = 0; i < scenario->step_count; i++) {
        injects = injects || scenario->steps[i].except_count > 0;
    }
    return injects;
}

double ls_memory_copies(const ls_scenario *scenario, const ls_placements *placements) {
    double copies = 1;
    for (int i = 0; i < placements->count && i < scenario->mesh.ndim; i++) {
        copies *= placements->at[i].kind == LS_PLACE_SHARD ? 1 : scenario->mesh.dim[i];
    }
    return copies;
}

bool ls_scenario_runs(const ls_scenario *scenario, ls_tables_step step) {
    for (int i = 0; i < scenario->tables_step_count; i++) {
        if (scenario->tables_steps[i] == step) {
            return true;
        }
    }
    return false;
}
