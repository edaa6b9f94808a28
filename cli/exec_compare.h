// `lockstep exec --compare`: what the two runs of a program are held to.
#pragma once

#include "runner/compare/run.h"
#include "runner/replay/exec_runs.h"

// Compares both runs, whose cases are the last two of `results`, and repeats each call of the
// second from its inputs. how: of that; NULL: the second run made no call. If nothing was compared,
// the runs' cases do not pass.
int cli_exec_compare(ls_results *results, ls_text *summary, const ls_exec_runs *runs,
                     const ls_run_options *how);
