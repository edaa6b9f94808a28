// The end of a run: its failure, its completion and its judgement.
#include <stdio.h>

#include "ranks/internal.h"

void ls_spmd__fail(ls_spmd *run, int status, const char *why) {
    LS_ASSERT(status != LS_OK);
    if (run->status != LS_OK) {
        return;
    }
    if (run->suspects[0] != NULL) {
        ls_p2p__decide(run);
        return;
    }
    if (run->lookahead != NULL) {  // later differences are consequences of the mismatch
        ls_lookahead__end(run);
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

// Elsewhere: the backend's own threads move the data, one set of calls at a time.
static int complete_elsewhere(ls_spmd *run, const ls_call *const *calls, int size) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call)));
    ls_call *copies = memory;
    for (int i = 0; i < size; i++) {
        copies[i] = *calls[i];
    }
    ls_backend *backend = run->backend;
    int status = backend->ops->run(backend, copies, size);
    for (int i = 0; status == LS_OK && backend->observer != NULL && i < size; i++) {
        backend->observer(backend->observer_arg, &copies[i]);
    }
    ls_free(memory, (size_t)size, sizeof(ls_call));
    return status;
}

int ls_spmd__complete(ls_spmd *run, const ls_call *const *calls, int size) {
    if (run->options.shape_only) {
        return LS_OK;
    }
    if (run->borrowed) {
        return complete_elsewhere(run, calls, size);
    }
    bool p2p = calls[0]->kind == LS_SEND;
    // In a parallel run other communicators go on meanwhile: nobody else touches these buffers.
    if (run->parallel && !p2p) {
        (void)pthread_mutex_unlock(&run->mutex);
    }
    int status = run->remote != NULL && !p2p
                     ? ls_remote__math(run, calls, size)
                     : ls_collective_of(calls[0]->kind)->math(calls, size, run->backend->order);
    if (run->parallel && !p2p) {
        (void)pthread_mutex_lock(&run->mutex);
    }
    return status;
}

// ---- Leftovers at the end -----------------------------------------------------------------------
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
    if (run->status == LS_OK && (status = ls_sites__end(run)) != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    if (run->status == LS_OK) {
        ls_replica__end(run);
        ls_checks__end(run);
    }
}
