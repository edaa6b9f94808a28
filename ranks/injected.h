// Faults in a rank's own computation, not in one of its calls. Private to the runner.
#pragma once

#include "ranks/ranks.h"

// Whether a fault of training is injected in the rank in step `amount`. The caller must then apply
// it, and it counts as reached.
bool ls_rank_injected(ls_rank *self, ls_fault_type type, int64_t amount);
