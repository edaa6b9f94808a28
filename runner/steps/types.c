// The table of the kinds of steps.
#include "runner/steps/step.h"

void ls_step_settle_types(ls_scenario_step *steps, int count) {
#define LS_STEP_TYPE(name, text) [LS_STEP_##name] = &ls_step__##text,
    static const ls_step_type *const types[] = {LS_STEP_MAP(LS_STEP_TYPE)};
#undef LS_STEP_TYPE
    for (int i = 0; i < count; i++) {
        ls_step_kind kind = steps[i].kind;
        LS_ASSERT((int)kind >= 0 && kind < LS_STEP_KIND_COUNT);
        steps[i].type = ls_step_is_collective(kind) ? &ls_step__collective : types[kind];
    }
}
