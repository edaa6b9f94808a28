// The failure of a run.
#include <stdio.h>

#include "ranks/internal.h"

void ls_spmd__fail(ls_spmd *run, int status, const char *why) {
    LS_ASSERT(status != LS_OK);
    if (run->status != LS_OK) {
        return;
    }
    if (run->suspects[0] != NULL) {
        run->core->decide_pair(run);
        return;
    }
    if (run->lookahead != NULL) {  // later differences are consequences of the mismatch
        run->core->decide_calls(run);
        return;
    }
    run->status = status;
    (void)snprintf(run->why, sizeof run->why, "%s", why);
    for (int r = 0; r < run->rank_count; r++) {
        ls_rank *rank = &run->ranks[r];
        (void)ls_turns__wake(rank);
        if (rank->state == LS_RANK_BLOCKED || rank->state == LS_RANK_STALLED) {
            ls_schedule__make_ready(rank);
        }
    }
}

int ls_spmd__failed(const ls_spmd *run, const ls_rank *rank) {
    return LS_FAIL_RANK(run->status, rank->id, "rank %d: the run has ended: %s", rank->id,
                        run->why);
}
