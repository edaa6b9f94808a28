// Converts a scenario to a field: numbers of kernels/field.h replace its floats.
#pragma once

#include "runner/scenario/scenario.h"

// Changes the types of the scenario's floats to LS_FIELD and draws them: draw is the number of the
// draw, from 1. Returns NULL, or the part that the field cannot model, with the reason.
const char *ls_scenario_prove(ls_scenario *scenario, int draw, ls_arena *arena);
