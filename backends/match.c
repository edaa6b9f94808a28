// Matching: the i-th collective of each rank on a communicator matches the i-th of the other
// members; sends match receives by (communicator, sender, receiver, order).
#include "backends/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/check.h"

// Per communicator, between calls all zero.
typedef struct tally {
    int *counts;  // [size] collectives of each member in this group
    bool touched;
    int rounds;         // the fewest collectives of any member
    bool uneven;        // some member made more
    size_t first_slot;  // rounds * size slots from here
    int first_event;
} tally;

typedef struct placed {
    int member;
    int round;
    int event;  // or -1
} placed;

typedef struct p2p_entry {
    int comm;
    int sender;
    int receiver;
    int index;  // of the call
} p2p_entry;

typedef struct work {
    const ls_call *calls;
    int call_count;
    bool checks;           // whether matched calls must agree; else only in their kinds
    placed *placed;        // [call_count]
    const ls_comm **used;  // [used_count] communicators with collectives, in order of appearance
    int used_count;
    p2p_entry *sends, *recvs;  // [call_count] each
    int send_count, recv_count;
    ls_match *match;
    ls_event *events;  // unordered
    int *last;         // [event] index of the last call
    int event_count;
} work;

int ls_match__open(ls_comm *comm) {
    void *memory = NULL, *counts = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(tally)));
    int status = ls_alloc(&counts, (size_t)comm->size, sizeof(int));
    if (status != LS_OK) {
        ls_free(memory, 1, sizeof(tally));
        return status;
    }
    ((tally *)memory)->counts = counts;
    comm->impl = memory;
    return LS_OK;
}

void ls_match__close(ls_comm *comm) {
    tally *t = comm->impl;
    if (t != NULL) {
        ls_free(t->counts, (size_t)comm->size, sizeof(int));
        ls_free(t, 1, sizeof *t);
        comm->impl = NULL;
    }
}

// ---- Collectives --------------------------------------------------------------------------------
static void count_calls(work *w) {
    for (int i = 0; i < w->call_count; i++) {
        const ls_call *call = &w->calls[i];
        int member = ls_comm_member(call->comm, call->rank);
        w->placed[i] = (placed){.member = member, .event = -1};
        if (call->kind == LS_SEND) {
            w->sends[w->send_count++] = (p2p_entry){call->comm->id, member, call->root, i};
            continue;
        }
        if (call->kind == LS_RECV) {
            w->recvs[w->recv_count++] = (p2p_entry){call->comm->id, call->root, member, i};
            continue;
        }
        tally *t = call->comm->impl;
        if (!t->touched) {
            t->touched = true;
            w->used[w->used_count++] = call->comm;
        }
        w->placed[i].round = t->counts[member]++;
    }
}

static void count_rounds(work *w, size_t *slots) {
    for (int u = 0; u < w->used_count; u++) {
        tally *t = w->used[u]->impl;
        int size = w->used[u]->size, most = 0;
        t->rounds = t->counts[0];
        for (int m = 0; m < size; m++) {
            t->rounds = t->counts[m] < t->rounds ? t->counts[m] : t->rounds;
            most = t->counts[m] > most ? t->counts[m] : most;
        }
        t->uneven = most > t->rounds;
        t->first_slot = *slots;
        t->first_event = w->event_count;
        *slots += (size_t)t->rounds * (size_t)size;
        w->event_count += t->rounds;
    }
}

// Members that made fewer collectives than others: at fault are the few.
static int fail_missing(const work *w, const ls_comm *comm) {
    const tally *t = comm->impl;
    int behind = 0;
    for (int m = 0; m < comm->size; m++) {
        behind += t->counts[m] == t->rounds ? 1 : 0;
    }
    bool extra = comm->size - behind < behind;
    const ls_call *waiting = NULL;
    for (int i = 0; i < w->call_count && waiting == NULL; i++) {
        const ls_call *call = &w->calls[i];
        if (call->comm == comm && !ls_kind_is_message(call->kind) &&
            w->placed[i].round == t->rounds) {
            waiting = call;
        }
    }
    LS_ASSERT(waiting != NULL);
    char text[256], list[256] = "";
    ls_call_format(text, sizeof text, waiting);
    int listed = 0, first = -1;
    size_t length = 0;
    for (int m = 0; m < comm->size; m++) {
        if (t->counts[m] != t->rounds) {
            continue;
        }
        first = first < 0 ? comm->ranks[m] : first;
        if (listed < 8) {
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%d",
                                       listed != 0 ? ", " : "", comm->ranks[m]);
        }
        listed += 1;
    }
    ls_check__note(extra ? LS_FINDING_EXTRA_CALL : LS_FINDING_MISSING_RANK, waiting);
    ls_check__restart_ranks();
    for (int m = 0; m < comm->size; m++) {
        if ((t->counts[m] == t->rounds) != extra) {
            ls_check__note_rank_number(comm->ranks[m]);
        }
    }
    return LS_FAIL_RANK(LS_ERR_MISMATCH, extra ? waiting->rank : first,
                        "%s: %d of %d ranks made no such call: %s%s", text, listed, comm->size,
                        list, listed > 8 ? ", ..." : "");
}

static int check_event(const work *w, const ls_event *event) {
    if (w->checks) {
        return ls_calls_check(event->calls, event->size);
    }
    for (int i = 1; i < event->size; i++) {
        const ls_call *first = event->calls[0], *call = event->calls[i];
        if (call->kind != first->kind && !ls_kind_is_message(call->kind)) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, call->rank,
                                "rank %d makes %s where rank %d makes %s", call->rank,
                                ls_kind_name(call->kind), first->rank, ls_kind_name(first->kind));
        }
    }
    return LS_OK;
}

static int match_collectives(work *w) {
    for (int i = 0; i < w->call_count; i++) {
        const ls_call *call = &w->calls[i];
        const tally *t = call->comm->impl;
        if (ls_kind_is_message(call->kind) || w->placed[i].round >= t->rounds) {
            continue;
        }
        size_t row = t->first_slot + (size_t)w->placed[i].round * (size_t)call->comm->size;
        int event = t->first_event + w->placed[i].round;
        w->match->slots[row + (size_t)w->placed[i].member] = call;
        w->last[event] = i;
        w->events[event] = (ls_event){.calls = &w->match->slots[row], .size = call->comm->size};
    }
    for (int u = 0; u < w->used_count; u++) {
        const tally *t = w->used[u]->impl;
        for (int round = 0; round < t->rounds; round++) {
            ls_event *event = &w->events[t->first_event + round];
            if ((int)event->calls[0]->kind < 0 || event->calls[0]->kind >= LS_KIND_COUNT) {
                return ls_call_check(NULL, event->calls[0]);
            }
            event->collective = ls_collective_of(event->calls[0]->kind);
            LS_TRY(check_event(w, event));
        }
        if (t->uneven) {
            return fail_missing(w, w->used[u]);
        }
    }
    return LS_OK;
}

// ---- Sends and receives -------------------------------------------------------------------------
static int compare_pair(const p2p_entry *x, const p2p_entry *y) {
    if (x->comm != y->comm) {
        return x->comm < y->comm ? -1 : 1;
    }
    if (x->sender != y->sender) {
        return x->sender < y->sender ? -1 : 1;
    }
    return (x->receiver > y->receiver) - (x->receiver < y->receiver);
}

static int compare_entries(const void *a, const void *b) {
    const p2p_entry *x = a, *y = b;
    int pair = compare_pair(x, y);
    return pair != 0 ? pair : (x->index > y->index) - (x->index < y->index);
}

static int fail_unmatched(const work *w, const ls_call *call) {
    char text[256];
    if (w->checks) {
        LS_TRY(ls_call_check(NULL, call));  // a peer out of range is a better explanation than
                                            // "unmatched"
    }
    ls_call_format(text, sizeof text, call);
    bool send = call->kind == LS_SEND;
    ls_check__note(send ? LS_FINDING_P2P_UNMATCHED_SEND : LS_FINDING_P2P_UNMATCHED_RECV, call);
    return LS_FAIL_RANK(LS_ERR_MISMATCH, call->rank, "%s: rank %d posts no %s for it", text,
                        call->comm->ranks[call->root], send ? "receive" : "send");
}

static bool fits(const ls_call *send, const ls_call *recv) {
    return send->count == recv->count && send->dtype == recv->dtype;
}

// A send that does not fit its receive, but would fit a later one of the same two ranks, was most
// likely posted in another order.
static int explain_order(const work *w, int pair) {
    const p2p_entry *s = &w->sends[pair], *r = &w->recvs[pair];
    const ls_call *send = &w->calls[s->index], *recv = &w->calls[r->index];
    int count = w->send_count < w->recv_count ? w->send_count : w->recv_count;
    for (int k = pair + 1; k < count; k++) {
        if (compare_pair(&w->sends[k], s) != 0 || compare_pair(&w->recvs[k], r) != 0) {
            break;
        }
        if (fits(send, &w->calls[w->recvs[k].index]) && fits(&w->calls[w->sends[k].index], recv)) {
            ls_check__note(LS_FINDING_P2P_ORDER_MISMATCH, send);
            ls_check__note_rank(recv);
            return ls_error_wrap("the two ranks post their messages in different orders");
        }
    }
    return ls_error_last()->code;
}

static int match_p2p(work *w, size_t slot) {
    qsort(w->sends, (size_t)w->send_count, sizeof *w->sends, compare_entries);
    qsort(w->recvs, (size_t)w->recv_count, sizeof *w->recvs, compare_entries);
    int both = w->send_count < w->recv_count ? w->send_count : w->recv_count;
    for (int k = 0; k < both; k++) {
        int pair = compare_pair(&w->sends[k], &w->recvs[k]);
        if (pair != 0) {
            return fail_unmatched(w, &w->calls[pair < 0 ? w->sends[k].index : w->recvs[k].index]);
        }
        int send = w->sends[k].index, recv = w->recvs[k].index;
        const ls_call **row = &w->match->slots[slot + 2 * (size_t)k];
        row[0] = &w->calls[send];
        row[1] = &w->calls[recv];
        const ls_event event = {ls_collective_of(LS_SEND), row, 2};
        int status = check_event(w, &event);
        if (status != LS_OK) {
            return status == LS_ERR_MISMATCH ? explain_order(w, k) : status;
        }
        w->last[w->event_count] = send > recv ? send : recv;
        w->events[w->event_count++] = event;
    }
    if (w->send_count > both) {
        return fail_unmatched(w, &w->calls[w->sends[both].index]);
    }
    if (w->recv_count > both) {
        return fail_unmatched(w, &w->calls[w->recvs[both].index]);
    }
    return LS_OK;
}

// ---- The whole group ----------------------------------------------------------------------------
// Events in the order in which their last calls were made; each call is the last of one at most.
static void order_events(work *w) {
    for (int e = 0; e < w->event_count; e++) {
        w->placed[w->last[e]].event = e;
    }
    int next = 0;
    for (int i = 0; i < w->call_count; i++) {
        if (w->placed[i].event >= 0) {
            w->match->events[next++] = w->events[w->placed[i].event];
        }
    }
    LS_ASSERT(next == w->event_count);
    w->match->event_count = next;
}

static int match_all(work *w, ls_arena *arena) {
    size_t n = (size_t)w->call_count;
    w->placed = ls_arena_alloc(arena, n, sizeof *w->placed);
    w->used = ls_arena_alloc(arena, n, sizeof *w->used);
    w->sends = ls_arena_alloc(arena, n, sizeof *w->sends);
    w->recvs = ls_arena_alloc(arena, n, sizeof *w->recvs);
    w->events = ls_arena_alloc(arena, n, sizeof *w->events);
    w->last = ls_arena_alloc(arena, n, sizeof *w->last);
    LS_TRY_MEMORY(w->placed != NULL && w->used != NULL && w->sends != NULL && w->recvs != NULL &&
                  w->events != NULL && w->last != NULL);
    count_calls(w);
    size_t slots = 0;
    count_rounds(w, &slots);
    int both = w->send_count < w->recv_count ? w->send_count : w->recv_count;
    void *memory = NULL;
    w->match->slot_count = slots + 2 * (size_t)both;
    LS_TRY(ls_alloc(&memory, w->match->slot_count, sizeof(ls_call *)));
    w->match->slots = memory;
    w->match->event_room = w->event_count + both;
    LS_TRY(ls_alloc(&memory, (size_t)w->match->event_room, sizeof(ls_event)));
    w->match->events = memory;
    LS_TRY(match_collectives(w));
    LS_TRY(match_p2p(w, slots));
    order_events(w);
    return LS_OK;
}

static int match(ls_match *out, const ls_call *calls, int call_count, bool checks) {
    *out = (ls_match){0};
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    work w = {.calls = calls, .call_count = call_count, .checks = checks, .match = out};
    int status = match_all(&w, arena);
    for (int u = 0; u < w.used_count; u++) {
        tally *t = w.used[u]->impl;
        memset(t->counts, 0, (size_t)w.used[u]->size * sizeof(int));
        t->touched = false;
    }
    ls_arena_free(arena);
    if (status != LS_OK) {
        ls_match__free(out);
    }
    return status;
}

int ls_match__calls(ls_match *out, const ls_call *calls, int call_count) {
    return match(out, calls, call_count, true);
}

int ls_match__kinds(ls_match *out, const ls_call *calls, int call_count) {
    return match(out, calls, call_count, false);
}

void ls_match__free(ls_match *match) {
    ls_free(match->slots, match->slot_count, sizeof(ls_call *));
    ls_free(match->events, (size_t)match->event_room, sizeof(ls_event));
    *match = (ls_match){0};
}
