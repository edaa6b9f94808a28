// Explains a wrong tensor: the factor, sum or shard that would make it equal to the reference.
// These are guesses, and the report says so: the tensor was judged before.
#pragma once

#include "runner/diff/diff_internal.h"

// Appends lines to `out`; returns whether it did. copy: a wrong one of the run's replicas.
bool ls_diff_explain(ls_text *out, const ls_diff_sides *sides, const ls_diff_pair *pair, int copy);
