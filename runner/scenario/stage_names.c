// Formats and parses the stage names of a scenario's tables: "lookup", or "step2.lookup" with
// several steps. Stages of a program have the names of its steps.
#include "runner/scenario/stage_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_scenario_stage_name(char *out, size_t out_bytes, const ls_scenario *scenario, int step,
                            const char *stage) {
    if (scenario->train.steps > 1) {
        (void)snprintf(out, out_bytes, "step%d.%s", step, stage);
    } else {
        (void)snprintf(out, out_bytes, "%s", stage);
    }
}

bool ls_scenario_stage_find(ls_stage *stage, int *step, const ls_scenario *scenario,
                            const char *name) {
    const char *dot = scenario->train.steps > 1 ? strchr(name, '.') : NULL;
    const char *own = dot != NULL ? dot + 1 : name;
    *step = dot != NULL && dot - name > 4 ? (int)strtol(name + 4, NULL, 10) : 0;
    for (int s = LS_STAGE_NONE + 1; s < LS_STAGE_COUNT && !scenario->is_program; s++) {
        char made[LS_STAGE_KEY_MAX];
        ls_scenario_stage_name(made, sizeof made, scenario, *step, ls_stage_name((ls_stage)s));
        if (strcmp(own, ls_stage_name((ls_stage)s)) == 0 && strcmp(name, made) == 0 && *step >= 0 &&
            *step < scenario->train.steps) {
            *stage = (ls_stage)s;
            return true;
        }
    }
    return false;
}

// "weights", or "weights[2]" of a shard.
static ls_stage_field field_of(const char *name) {
    size_t length = strcspn(name, "[");
    for (int f = LS_STAGE_FIELD_NONE + 1; f < LS_STAGE_FIELD_COUNT; f++) {
        const char *known = ls_stage_field_name((ls_stage_field)f);
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            return (ls_stage_field)f;
        }
    }
    return LS_STAGE_FIELD_NONE;
}

static int emit_of_tables(void *arg, const ls_stage_output *output) {
    const ls_scenario_stages *to = arg;
    ls_stage_output of_tables = *output;
    ls_stage stage;
    int step;
    if (output->stage != NULL &&
        ls_scenario_stage_find(&stage, &step, to->scenario, output->stage)) {
        of_tables.stage_of_tables = (int)stage;
        of_tables.field_of_tables = output->field != NULL ? (int)field_of(output->field) : 0;
        of_tables.step_of_tables = step;
    }
    return to->sink.emit(to->sink.arg, &of_tables);
}

ls_stage_sink ls_scenario_stages_sink(ls_scenario_stages *stages) {
    return (ls_stage_sink){.arg = stages, .emit = emit_of_tables};
}
