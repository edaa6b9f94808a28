// The places of ranks in their programs: recorded with a finding in a stuck run, and reported by a
// process with one rank, so that a real hang can be compared with the simulated one.
#include <stdio.h>

#include "ranks/internal.h"

static void fill(ls_place *out, const ls_rank *rank, ls_place_state state,
                 const ls_request *awaited) {
    *out = (ls_place){.state = state, .calls = rank->call_count};
    if (awaited != NULL) {
        out->line = awaited->call.line;
        out->awaited = awaited->number;
        ls_call_describe(out->what, sizeof out->what, &awaited->call);
    }
}

void ls_place__tell(const ls_rank *rank, ls_place_state state, const ls_request *awaited) {
    const ls_backend *backend = rank->run->backend;
    if (backend->place != NULL) {
        ls_place place;
        fill(&place, rank, state, awaited);
        backend->place(backend->place_arg, &place);
    }
}

// The oldest incomplete call of a rank. A process whose program has returned waits for those at its
// end.
static const ls_request *open_call(const ls_rank *rank) {
    const ls_request *at = rank->open;
    while (at != NULL && at->state != LS_REQUEST_POSTED) {
        at = at->next;
    }
    return at;
}

static void note(ls_place *out, const ls_rank *rank) {
    const ls_request *awaited = NULL;
    switch (rank->state) {
    case LS_RANK_BLOCKED:
        if (ls_request__awaited(&awaited, 1, rank) == 1) {
            fill(out, rank, LS_PLACE_WAITS, awaited);
            return;
        }
        break;
    case LS_RANK_RETURNED:
        awaited = open_call(rank);
        fill(out, rank, awaited != NULL ? LS_PLACE_WAITS : LS_PLACE_RETURNED, awaited);
        return;
    case LS_RANK_STALLED:
        fill(out, rank, LS_PLACE_STALLS, NULL);
        return;
    case LS_RANK_DIED:
        fill(out, rank, LS_PLACE_DIED, NULL);
        return;
    case LS_RANK_READY:
    case LS_RANK_RUNNING:
        break;
    }
    fill(out, rank, LS_PLACE_RUNS, NULL);
}

void ls_place__note(ls_spmd *run) {
    ls_spmd_result *result = run->result;
    ls_place *places = ls_arena_alloc(result->arena, (size_t)run->rank_count, sizeof *places);
    if (places == NULL || result->finding_count == 0) {
        return;  // the finding is enough for the simulation
    }
    for (int r = 0; r < run->rank_count; r++) {
        note(&places[r], &run->ranks[r]);
    }
    ls_finding *finding = &result->findings[result->finding_count - 1];
    finding->places = places;
    finding->place_count = run->rank_count;
}
