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
#define SKIP_MAX  256   // and that are passed over for that, such as those on its communicator

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

static void posted(ls_request *request) {
    ls_rank *rank = request->rank;
    ls_spmd *run = rank->run;
    int looked = 0, skipped = 0;
    if (request->meet == NULL || !run->checks[LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR]) {
        return;
    }
    for (const ls_request *at = rank->open; at != NULL && looked < LOOK_MAX && skipped < SKIP_MAX;
         at = at->next) {
        if (at == request || at->state != LS_REQUEST_POSTED || at->meet == NULL ||
            at->comm->shared == request->comm->shared || run->edge_count >= EDGES_MAX ||
            !ordered(&at->issuer, &request->issuer)) {
            skipped += 1;
            continue;
        }
        looked += 1;
        ls_order_edge made = {
            .comm = {at->comm->shared, request->comm->shared},
            .round = {at->meet->round, request->meet->round},
            .meet = {at->meet, request->meet},
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

static void closed(ls_spmd *run) {
    while (run->edges != NULL) {
        ls_order_edge *next = run->edges->next;
        free_edge(run->edges);
        run->edges = next;
    }
}

// A member of both communicators and the two calls that it made on them.
typedef struct both_calls {
    int rank;    // -1: none
    int before;  // the side that it called on first
    const ls_ordered_call *calls[2];
} both_calls;

static void say_order(ls_text *text, const ls_order_edge *edge, const both_calls *of) {
    char where[LS_CALL_WHERE_MAX];
    const ls_ordered_call *later = of->calls[1 - of->before];
    const ls_call call = {.file = later->file, .line = later->line};
    ls_text_printf(text, "  rank %d: %s before %s (at %s)\n", of->rank,
                   edge->comm[of->before]->comm->name, edge->comm[1 - of->before]->comm->name,
                   ls_call__where(where, &call));
}

// Both collectives are complete: members of both may have made the calls in opposite orders. The
// finding names the lowest such rank and the lowest that differs from it, whichever came last.
static void compare(ls_spmd *run, const ls_order_edge *edge) {
    const ls_comm *a = edge->comm[0]->comm, *b = edge->comm[1]->comm;
    if (edge->comm[0]->crossed == edge->comm[1] || edge->comm[1]->crossed == edge->comm[0]) {
        return;  // one bug, reported once
    }
    both_calls lowest[2] = {{.rank = -1}, {.rank = -1}};  // [side called on first]
    for (int i = 0; i < a->size; i++) {
        int rank = a->ranks[i], j = ls_comm_member(b, rank);
        const ls_ordered_call *calls[2] = {&edge->calls[0][i], j < 0 ? NULL : &edge->calls[1][j]};
        if (j < 0 || !ordered(&calls[0]->issuer, &calls[1]->issuer)) {
            continue;
        }
        int before = calls[0]->number < calls[1]->number ? 0 : 1;
        if (lowest[before].rank < 0 || rank < lowest[before].rank) {
            lowest[before] = (both_calls){rank, before, {calls[0], calls[1]}};
        }
    }
    if (lowest[0].rank < 0 || lowest[1].rank < 0) {
        return;
    }
    int low = lowest[0].rank < lowest[1].rank ? 0 : 1;
    const both_calls *first = &lowest[low], *second = &lowest[1 - low];
    const int ranks[2] = {first->rank, second->rank};
    ls_text text = {0};
    ls_text_printf(&text,
                   "ranks %d and %d call on %s and %s in opposite orders; this schedule finished "
                   "because one of them did not wait; if the call blocks, the ranks deadlock\n",
                   ranks[0], ranks[1], edge->comm[low]->comm->name,
                   edge->comm[1 - low]->comm->name);
    say_order(&text, edge, first);
    say_order(&text, edge, second);
    ls_findings__history(&text, &run->ranks[ranks[0]], 4);
    ls_findings__history(&text, &run->ranks[ranks[1]], 4);
    edge->comm[0]->crossed = edge->comm[1];
    const ls_ordered_call *later = first->calls[1 - low];
    (void)ls_findings__add(run, LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR, ranks, 2, later->file,
                           later->line, ls_findings__string(run, &text));
    ls_text_free(&text);
}

static bool keep_calls(ls_order_edge *edge, int side, const ls_meet *meet) {
    size_t size = (size_t)edge->comm[side]->comm->size;
    void *memory = NULL;
    if (ls_alloc(&memory, size, sizeof(ls_ordered_call)) != LS_OK) {
        return false;
    }
    edge->calls[side] = memory;
    for (size_t m = 0; m < size; m++) {
        const ls_request *request = meet->requests[m];
        edge->calls[side][m] = (ls_ordered_call){request->number, request->issuer,
                                                 request->call.file, request->call.line};
    }
    edge->meet[side] = NULL;
    return true;
}

static int agreed(ls_spmd *run, ls_meet *meet) {
    if (meet->edge_count == 0) {
        return LS_OK;
    }
    ls_order_edge **at = &run->edges;
    while (*at != NULL) {
        ls_order_edge *edge = *at;
        int side = 0;
        if (edge->meet[0] != meet) {
            side = edge->meet[1] == meet ? 1 : -1;
        }
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
            compare(run, edge);
        } else if (edge->meet[1 - side] != NULL) {
            edge->meet[1 - side]->edge_count -= 1;
        }
        *at = edge->next;
        run->edge_count -= 1;
        free_edge(edge);
    }
    return LS_OK;
}

const ls_rank_check ls_rank_check__order = {.posted = posted, .agreed = agreed, .closed = closed};
