// The judgement of a run at its end.
#include "ranks/internal.h"

void ls_spmd__judge(ls_spmd *run) {
    int status = LS_OK;
    if (ls_seen__here != NULL && ls_seen__here->forked[0] != 0 && run->status == LS_OK) {
        (void)ls_findings__add(run, LS_FINDING_CALL_INVALID, &ls_seen__here->forked_rank, 1,
                               ls_seen__here->forked_at.file, ls_seen__here->forked_at.line,
                               ls_seen__here->forked);
    }
    if (run->suspects[0] != NULL) {
        ls_p2p__decide(run);
    }
    if (run->lookahead != NULL) {
        ls_lookahead__end(run);
    }
    if (run->status == LS_OK) {
        ls_stuck__leftovers(run);
    }
    if (run->status == LS_OK && (status = ls_checks__ended(run)) != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
}
