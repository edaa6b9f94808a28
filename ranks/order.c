// Orders of calls over several communicators. A rank that calls on B while its call on A is still
// open has put A before B; if another member of both put B before A, the program lives on luck:
// with blocking calls, or where a machine runs one collective at a time, it hangs.
//
// Invariant: two calls of a rank are ordered only if one thread or one stream issued both. Calls of
// different threads may come in any order on any rank of a correct program.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

#define EDGES_MAX 4096  // open or kept at once
#define LOOK_MAX  16    // open calls of a rank that a new one is compared with

static bool ordered(const ls_issuer *a, const ls_issuer *b) {
    return a->thread == b->thread || (a->stream != 0 && a->stream == b->stream);
}

static bool reported(const ls_spmd *run, const ls_order_edge *edge) {
    for (const ls_order_edge *at = run->edges; at != NULL; at = at->next) {
        if (at->comm[0] == edge->comm[0] && at->comm[1] == edge->comm[1] &&
            at->round[0] == edge->round[0] && at->round[1] == edge->round[1]) {
            return true;
        }
    }
    return false;
}

void ls_order__posted(ls_request *request) {
    ls_rank *rank = request->rank;
    ls_spmd *run = rank->run;
    int looked = 0;
    if (!run->checks[LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR]) {
        return;
    }
    for (const ls_request *at = rank->open; at != NULL && looked < LOOK_MAX; at = at->next) {
        if (at == request || at->state != LS_REQUEST_POSTED || at->meet == NULL ||
            at->comm->shared == request->comm->shared || run->edge_count >= EDGES_MAX ||
            !ordered(&at->issuer, &request->issuer)) {
            continue;
        }
        looked += 1;
        ls_order_edge made = {
            .comm = {at->comm->shared, request->comm->shared},
            .round = {at->meet->round, request->meet->round},
            .meet = {at->meet, request->meet},
            .rank = rank->id,
        };
        void *memory = NULL;
        if (reported(run, &made) || ls_alloc(&memory, 1, sizeof(ls_order_edge)) != LS_OK) {
            continue;
        }
        ls_order_edge *edge = memory;
        *edge = made;
        edge->next = run->edges;
        run->edges = edge;
        run->edge_count += 1;
        at->meet->edge_count += 1;
        request->meet->edge_count += 1;
    }
}

static void free_edge(ls_order_edge *edge) {
    for (int side = 0; side < 2; side++) {
        ls_free(edge->calls[side], (size_t)edge->comm[side]->comm->size, sizeof(ls_ordered_call));
    }
    ls_free(edge, 1, sizeof *edge);
}

void ls_order__close(ls_spmd *run) {
    while (run->edges != NULL) {
        ls_order_edge *next = run->edges->next;
        free_edge(run->edges);
        run->edges = next;
    }
}

// Both collectives are complete: some member of both may have made the calls the other way round.
static void compare(ls_spmd *run, const ls_order_edge *edge, const ls_meet *last, int last_side) {
    const ls_comm *a = edge->comm[0]->comm, *b = edge->comm[1]->comm;
    if (edge->comm[0]->crossed == edge->comm[1] || edge->comm[1]->crossed == edge->comm[0]) {
        return;  // one bug, told once
    }
    for (int i = 0; i < a->size; i++) {
        int j = ls_comm_member(b, a->ranks[i]);
        const ls_ordered_call *first = &edge->calls[0][i];
        if (j < 0 || first->number < edge->calls[1][j].number ||
            !ordered(&first->issuer, &edge->calls[1][j].issuer)) {
            continue;
        }
        int other = a->ranks[i];
        const ls_comm *last_comm = last_side == 0 ? a : b;
        const ls_request *here = last->requests[ls_comm_member(last_comm, edge->rank)];
        const ls_request *there = last->requests[ls_comm_member(last_comm, other)];
        char where_here[LS_CALL_WHERE_MAX], where_there[LS_CALL_WHERE_MAX];
        ls_text text = {0};
        ls_text_printf(
            &text,
            "ranks %d and %d call on %s and %s in opposite orders; this schedule survived it, "
            "since "
            "one of them did not wait, but where a call blocks it is a deadlock\n  rank %d: %s "
            "before %s (the later completed one at %s)\n  rank %d: %s before %s (the later "
            "completed "
            "one at %s)\n",
            edge->rank, other, a->name, b->name, edge->rank, a->name, b->name,
            ls_call__where(where_here, &here->call), other, b->name, a->name,
            ls_call__where(where_there, &there->call));
        ls_findings__history(&text, &run->ranks[edge->rank], 4);
        ls_findings__history(&text, &run->ranks[other], 4);
        edge->comm[0]->crossed = edge->comm[1];
        const int ranks[2] = {edge->rank, other};
        (void)ls_findings__add(run, LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR, ranks, 2,
                               here->call.file, here->call.line, ls_findings__string(run, &text));
        ls_text_free(&text);
        return;
    }
}

static bool keep_calls(ls_order_edge *edge, int side, const ls_meet *meet) {
    size_t size = (size_t)edge->comm[side]->comm->size;
    void *memory = NULL;
    if (ls_alloc(&memory, size, sizeof(ls_ordered_call)) != LS_OK) {
        return false;
    }
    edge->calls[side] = memory;
    for (size_t m = 0; m < size; m++) {
        edge->calls[side][m] = (ls_ordered_call){.number = meet->requests[m]->number,
                                                 .issuer = meet->requests[m]->issuer};
    }
    edge->meet[side] = NULL;
    return true;
}

void ls_order__met(ls_spmd *run, ls_meet *meet) {
    if (meet->edge_count == 0) {
        return;
    }
    ls_order_edge **at = &run->edges;
    while (*at != NULL) {
        ls_order_edge *edge = *at;
        int side = edge->meet[0] == meet ? 0 : edge->meet[1] == meet ? 1 : -1;
        if (side < 0) {
            at = &edge->next;
            continue;
        }
        bool kept = keep_calls(edge, side, meet);
        if (kept && edge->meet[1 - side] != NULL) {
            at = &edge->next;
            continue;
        }
        if (kept) {
            compare(run, edge, meet, side);
        } else if (edge->meet[1 - side] != NULL) {
            edge->meet[1 - side]->edge_count -= 1;
        }
        *at = edge->next;
        run->edge_count -= 1;
        free_edge(edge);
    }
}
