// No rank can run although some are alive: the ranks that wait, their calls, and the reason. In
// this order: a rank died or stalls; ranks wait for each other in a cycle; a rank returned.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

#define AWAITED_MAX 64  // requests of one rank that are examined
#define STARTS_MAX  64  // ranks from which a cycle is searched

// ---- The graph: a rank waits for the ranks that its calls still need ---------------------------
typedef struct edge {
    int to;
    const ls_request *request;
} edge;

typedef struct search {
    ls_spmd *run;
    int *parent;                 // [ranks] -1: not reached
    const ls_request **through;  // [ranks] the call of `parent` that waits for this rank
    int *queue;                  // [ranks]
    int start;
    int end;  // its call waits for `start` again: a cycle
    const ls_request *closing;
} search;

// The i-th rank that `request` waits for, counting from *next; -1: no more.
static int next_target(const ls_request *request, int *next) {
    const ls_comm *comm = request->call.comm;
    if (request->meet == NULL && request->call.root < 0) {  // a receive from any member
        for (; *next < comm->size; (*next)++) {
            if (*next != request->comm->member) {
                return comm->ranks[(*next)++];
            }
        }
        return -1;
    }
    if (request->meet == NULL) {
        return (*next)++ == 0 ? comm->ranks[request->call.root] : -1;
    }
    for (; *next < comm->size; (*next)++) {
        if (request->meet->requests[*next] == NULL) {
            return comm->ranks[(*next)++];
        }
    }
    return -1;
}

static bool reach(search *s, int from, const ls_request *request, int *tail) {
    if (request->meet != NULL) {
        if (request->meet->mark == s->run->marks) {
            return false;  // all that wait in this collective wait for the same ranks
        }
        request->meet->mark = s->run->marks;
    }
    int next = 0;
    for (int to; (to = next_target(request, &next)) >= 0;) {
        if (to == s->start) {
            s->end = from;
            s->closing = request;
            return true;
        }
        if (s->run->ranks[to].state == LS_RANK_BLOCKED && s->parent[to] < 0) {
            s->parent[to] = from;
            s->through[to] = request;
            s->queue[(*tail)++] = to;
        }
    }
    return false;
}

// Breadth first, so the cycle is a shortest one through `start`.
static bool find_circle(search *s, int start) {
    for (int r = 0; r < s->run->rank_count; r++) {
        s->parent[r] = -1;
    }
    s->run->marks += 1;
    s->start = start;
    s->queue[0] = start;
    for (int head = 0, tail = 1; head < tail; head++) {
        const ls_request *awaited[AWAITED_MAX];
        int from = s->queue[head];
        int count = ls_request__awaited(awaited, AWAITED_MAX, &s->run->ranks[from]);
        for (int i = 0; i < count; i++) {
            if (reach(s, from, awaited[i], &tail)) {
                return true;
            }
        }
    }
    return false;
}

// ---- Texts -------------------------------------------------------------------------------------
static void describe_wait(ls_text *text, const ls_request *request, const char *for_whom) {
    char what[256], where[LS_CALL_WHERE_MAX], by[32] = "";
    if (request->awaited != NULL && request->rank->threads_made > 0) {
        (void)snprintf(by, sizeof by, ", thread %d,", request->awaited->number);
    }
    ls_call_describe(what, sizeof what, &request->call);
    ls_text_printf(text, "  rank %d%s waits for %s: %s at %s\n", request->call.rank, by, for_whom,
                   what, ls_call__where(where, &request->call));
}

// The threads of a rank that are in calls, where it has made any.
static void describe_threads(ls_text *text, const ls_rank *rank) {
    const ls_request *awaited[AWAITED_MAX];
    int count = rank->threads_made > 0 ? ls_request__awaited(awaited, AWAITED_MAX, rank) : 0;
    for (int i = 0; i < count; i++) {
        describe_wait(text, awaited[i], "others");
    }
    for (const ls_thread *at = &rank->main; rank->threads_made > 0 && at != NULL; at = at->next) {
        if (at->state == LS_THREAD_OUT && !at->ended && rank->state == LS_RANK_BLOCKED) {
            ls_text_printf(text, "  rank %d, thread %d, is in no call%s\n", rank->id, at->number,
                           at->tid == 0 ? " and has not started" : "");
        }
    }
}

static void describe_all(ls_text *text, ls_spmd *run) {
    void *memory = NULL;
    if (ls_alloc(&memory, (size_t)run->rank_count, sizeof(ls_request *)) != LS_OK) {
        return;
    }
    ls_request **waiting = memory;
    int count = 0;
    for (int r = 0; r < run->rank_count; r++) {
        const ls_request *awaited[1];
        if (run->ranks[r].state == LS_RANK_BLOCKED &&
            ls_request__awaited(awaited, 1, &run->ranks[r]) == 1) {
            waiting[count++] = (ls_request *)(uintptr_t)awaited[0];
        }
    }
    ls_text_printf(text, "%d of %d ranks wait:\n", count, run->rank_count);
    ls_findings__sides(text, waiting, count);
    for (int r = 0; r < run->rank_count; r++) {
        describe_threads(text, &run->ranks[r]);
    }
    ls_free(memory, (size_t)run->rank_count, sizeof(ls_request *));
}

static void finish(ls_spmd *run, int status, ls_finding_id id, const int *ranks, int rank_count,
                   const char *file, int line, ls_text *text) {
    describe_all(text, run);
    ls_stuck__end(run, status, id, ranks, rank_count, file, line, text);
}

// ---- A circle ----------------------------------------------------------------------------------
// The ranks of the cycle from `start` on: out [rank count], and the call in which each waits.
static int circle_of(int *out, const ls_request **calls, const search *s) {
    int count = 0;
    const ls_request *through = s->closing;
    for (int r = s->end; r >= 0; r = r == s->start ? -1 : s->parent[r]) {
        out[count] = r;
        calls[count++] = through;
        through = s->through[r];
    }
    for (int i = 0; i < count / 2; i++) {
        int rank = out[i];
        const ls_request *call = calls[i];
        out[i] = out[count - 1 - i];
        calls[i] = calls[count - 1 - i];
        out[count - 1 - i] = rank;
        calls[count - 1 - i] = call;
    }
    return count;
}

static int circle_length(const search *s) {
    int count = 1;
    for (int r = s->end; r != s->start; r = s->parent[r]) {
        count += 1;
    }
    return count;
}

// The call of `rank` in what it waits for with others; the one that stands for all of them else.
static const ls_request *own_of(const ls_request *request, int rank) {
    int member = request->meet != NULL ? ls_comm_member(request->call.comm, rank) : -1;
    return member >= 0 && request->meet->requests[member] != NULL ? request->meet->requests[member]
                                                                  : request;
}

static int threads_in_calls(const ls_rank *rank) {
    int count = 0;
    for (const ls_thread *at = &rank->main; at != NULL; at = at->next) {
        count += at->state == LS_THREAD_BLOCKED ? 1 : 0;
    }
    return count;
}

static void report_circle(ls_spmd *run, const int *ranks, const ls_request **calls, int count) {
    bool cross = false, collectives = true, alone = true;
    for (int i = 0; i < count; i++) {
        cross = cross || calls[i]->comm->shared != calls[0]->comm->shared;
        alone = alone && threads_in_calls(&run->ranks[ranks[i]]) <= 1;
        collectives = collectives && calls[i]->meet != NULL;
        calls[i] = own_of(calls[i], ranks[i]);
    }
    cross = cross && alone;  // the order of calls of several threads is no mistake
    ls_text text = {0};
    const char *in_what =
        cross ? "for each other in a circle, across communicators" : "for each other in a circle";
    if (count == 1) {
        in_what = "for itself";
    }
    ls_text_printf(&text, "deadlock: %d rank%s wait%s %s\n", count, count > 1 ? "s" : "",
                   count > 1 ? "" : "s", in_what);
    for (int i = 0; i < count; i++) {
        char whom[32];
        (void)snprintf(whom, sizeof whom, "rank %d", ranks[(i + 1) % count]);
        describe_wait(&text, calls[i], whom);
    }
    int odd = -1;
    if (cross && collectives && count == 2) {
        const ls_call *both[2] = {&calls[0]->call, &calls[1]->call};
        odd = ls_witness__odd(run, ranks, both);
    }
    if (odd >= 0) {
        char where[LS_CALL_WHERE_MAX];
        ls_text_printf(&text, "rank %d reached %s in another order than the other ranks\n",
                       ranks[odd], ls_call__where(where, &calls[odd]->call));
    }
    const ls_call *place = &calls[odd >= 0 ? odd : 0]->call;
    finish(run, LS_ERR_DEADLOCK,
           cross ? LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR : LS_FINDING_DEADLOCK_CYCLE,
           odd >= 0 ? &ranks[odd] : ranks, odd >= 0 ? 1 : count, place->file, place->line, &text);
}

static bool explain_circle(ls_spmd *run) {
    size_t n = (size_t)run->rank_count;
    search s = {.run = run};
    s.parent = ls_arena_alloc(run->arena, n, sizeof(int));
    s.queue = ls_arena_alloc(run->arena, n, sizeof(int));
    s.through = ls_arena_alloc(run->arena, n, sizeof(ls_request *));
    int *ranks = ls_arena_alloc(run->arena, n, sizeof(int));
    const ls_request **calls = ls_arena_alloc(run->arena, n, sizeof(ls_request *));
    if (s.parent == NULL || s.queue == NULL || s.through == NULL || ranks == NULL ||
        calls == NULL) {
        return false;
    }
    int best = -1, best_length = 0;
    for (int r = 0, starts = 0; r < run->rank_count && starts < STARTS_MAX; r++) {
        if (run->ranks[r].state != LS_RANK_BLOCKED) {
            continue;
        }
        starts += 1;
        if (find_circle(&s, r) && (best < 0 || circle_length(&s) < best_length)) {
            best = r;
            best_length = circle_length(&s);
        }
    }
    if (best < 0) {
        return false;
    }
    (void)find_circle(&s, best);
    report_circle(run, ranks, calls, circle_of(ranks, calls, &s));
    return true;
}

// ---- Somebody died, stalls or returned ---------------------------------------------------------
// The first call that waits for a rank in `state`; *whom is that rank.
static const ls_request *waits_for_state(const ls_spmd *run, ls_rank_state state, int *whom) {
    for (int r = 0; r < run->rank_count; r++) {
        const ls_request *awaited[AWAITED_MAX];
        int count = run->ranks[r].state == LS_RANK_BLOCKED
                        ? ls_request__awaited(awaited, AWAITED_MAX, &run->ranks[r])
                        : 0;
        for (int i = 0; i < count; i++) {
            int next = 0;
            for (int to; (to = next_target(awaited[i], &next)) >= 0;) {
                if (run->ranks[to].state == state) {
                    *whom = to;
                    return awaited[i];
                }
            }
        }
    }
    return NULL;
}

static bool explain_lost(ls_spmd *run, ls_rank_state state, ls_finding_id id, const char *what) {
    int whom = -1;
    const ls_request *request = waits_for_state(run, state, &whom);
    if (request == NULL) {
        return false;
    }
    const ls_rank *rank = &run->ranks[whom];
    ls_text text = {0};
    ls_text_printf(&text, "rank %d %s at %s:%d, and others wait for it\n", whom, what, rank->file,
                   rank->line);
    char name[32];
    (void)snprintf(name, sizeof name, "rank %d", whom);
    describe_wait(&text, request, name);
    finish(run, LS_ERR_FINDING, id, &whom, 1, rank->file, rank->line, &text);
    return true;
}

void ls_stuck__explain(ls_spmd *run) {
    if (run->suspects[0] != NULL) {
        ls_p2p__decide(run);
        return;
    }
    if (run->lookahead != NULL) {
        ls_lookahead__end(run);
        return;
    }
    LS_ASSERT(run->status == LS_OK);
    if (ls_stuck__refused(run)) {
        return;
    }
    if (explain_lost(run, LS_RANK_DIED, LS_FINDING_RANK_DIED, "died") ||
        explain_lost(run, LS_RANK_STALLED, LS_FINDING_MISSING_RANK, "stalls") ||
        explain_circle(run)) {
        return;
    }
    int whom = -1;
    const ls_request *request = waits_for_state(run, LS_RANK_RETURNED, &whom);
    if (request != NULL) {
        ls_stuck__returned(run, request);
        return;
    }
    // A stalled rank without waiting ranks.
    for (int r = 0; r < run->rank_count; r++) {
        if (run->ranks[r].state == LS_RANK_STALLED) {
            ls_text text = {0};
            ls_text_printf(&text, "rank %d stalls at %s:%d, and no other rank is left\n", r,
                           run->ranks[r].file, run->ranks[r].line);
            finish(run, LS_ERR_FINDING, LS_FINDING_MISSING_RANK, &r, 1, run->ranks[r].file,
                   run->ranks[r].line, &text);
            return;
        }
    }
    ls_spmd__fail(run, LS_ERR_DEADLOCK, "no rank can continue");
}
