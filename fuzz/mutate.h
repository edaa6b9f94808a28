// How good are a scenario's checks? Defects are injected in it, one at a time, and what notices
// each is reported.
#pragma once

#include "runner/compare/run.h"

// Injects up to `most` defects in the scenario of a file, and adds a case for each: passed where
// the scenario's checks notice it, skipped where it changes nothing, failed where it survives, with
// what would notice it. `table` gets a row for each kind. LS_ERR_INVALID: the scenario does not
// pass as it is, or injects a defect already.
int ls_fuzz_mutate(ls_results *results, ls_text *table, const char *file, int most,
                   const ls_run_options *options);
