// Faults that act in what a rank runs, not at one of its calls. For the runner alone.
#ifndef LS_RANKS_PLANTED_H
#define LS_RANKS_PLANTED_H

#include "ranks/ranks.h"

// Whether a fault of training is injected in the rank in step `amount`: who asks must then do it,
// and it is not missed.
bool ls_rank_planted(ls_rank *self, ls_fault_type type, int64_t amount);

#endif
