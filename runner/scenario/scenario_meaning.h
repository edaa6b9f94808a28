// The meaning of a scenario as text: one line for each key that affects its run, given or by
// default. Scenarios with equal lines have equal runs.
#pragma once

#include "runner/scenario/scenario.h"

// Appends lines such as "tables[0].rows: 10". Omits keys that affect only the verdict: description,
// order, checks and expect. A file is replaced by its contents. LS_ERR_IO: a file cannot be read;
// LS_ERR_MEMORY.
int ls_scenario_meaning(ls_text *out, const ls_scenario *scenario);
