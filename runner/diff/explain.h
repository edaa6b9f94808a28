// Why a tensor of a run is not that of another: the factor, the sum or the shard that would make it
// the same. Guesses, said as such: what is wrong was judged before.
#ifndef LS_RUNNER_DIFF_EXPLAIN_H
#define LS_RUNNER_DIFF_EXPLAIN_H

#include "runner/diff/assemble.h"

// Appends lines to `out`; whether any. copy: of the run's replicas, a wrong one. ref [run->count]
// of run's type; parts: what the run's ranks had before they were added up, one whole each; NULL:
// not known. Uses `arena` for a while.
bool ls_diff_explain(ls_text *out, ls_arena *arena, const void *ref, const ls_assembled *run,
                     int copy, const ls_assembled *parts, int ranks);

#endif
