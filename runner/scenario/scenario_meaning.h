// The meaning of a scenario as text: one line for each key that what a run does follows from, given
// or by default. Two scenarios with the same lines run alike.
#ifndef LS_RUNNER_SCENARIO_SCENARIO_MEANING_H
#define LS_RUNNER_SCENARIO_SCENARIO_MEANING_H

#include "runner/scenario/scenario.h"

// Appends the lines, as "tables[0].rows: 10". Left out is what concerns the judging alone:
// description, order, checks and expect. A file stands for its content. LS_ERR_IO where one cannot
// be read, LS_ERR_MEMORY.
int ls_scenario_meaning(ls_text *out, const ls_scenario *scenario);

#endif
