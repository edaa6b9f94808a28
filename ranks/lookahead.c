// After a mismatch, finds the odd call and its rank. The next calls of the ranks show whether they
// make the same calls in another order, or whether one skips a call or makes an extra one. Blocking
// calls stay blocked, so the ranks are observed until they wait. With options.lookahead every rank
// may make some more calls, which complete at once and move no data. If no majority decides who is
// at fault, ranks outside of the communicator continue for a while, as witnesses (witness.c).
#include <stdio.h>
#include <string.h>

#include "ranks/hooks.h"
#include "ranks/internal.h"
#include "ranks/checks/sites.h"

#define DEPTH_MAX     64
#define WITNESS_CALLS 16  // of each rank that is no member

typedef struct traced {
    ls_call call;
    uint64_t thread;  // that issues it; 0: the rank's only one
} traced;

struct ls_lookahead {
    ls_shared_comm *shared;
    int depth;
    traced *calls;  // [size][depth] from the mismatch on
    int *counts;    // [size]
    bool found;     // the mismatch has a name
    ls_check_failure failure;
    char error[LS_ERROR_TEXT_MAX];
    char *sides;          // each member's value
    const ls_call **met;  // [size] the matched calls, if witnesses are wanted; else NULL
};

static void trace(ls_lookahead *look, int member, const ls_request *request) {
    if (look->counts[member] < look->depth) {
        look->calls[(size_t)member * (size_t)look->depth + (size_t)look->counts[member]++] =
            (traced){request->call, request->issuer.thread};
    }
}

static const traced *at(const ls_lookahead *look, int member, int index) {
    return index < look->counts[member]
               ? &look->calls[(size_t)member * (size_t)look->depth + (size_t)index]
               : NULL;
}

static bool same_purpose(const char *a, const char *b) {
    return a == NULL || b == NULL || strcmp(a, b) == 0;
}

static bool same(const traced *a, const traced *b) {
    return a != NULL && b != NULL && a->call.kind == b->call.kind &&
           a->call.dtype == b->call.dtype && a->call.op == b->call.op &&
           a->call.root == b->call.root && a->call.count == b->call.count &&
           same_purpose(a->call.purpose, b->call.purpose);
}

static bool later(const ls_lookahead *look, int member, const traced *call) {
    for (int i = 1; i < look->counts[member]; i++) {
        if (same(at(look, member, i), call)) {
            return true;
        }
    }
    return false;
}

// Whether member a's calls without the first are member b's: by two calls, or by all there are.
static bool shifted(const ls_lookahead *look, int a, int b) {
    int compared = 0;
    for (int i = 0; at(look, a, i + 1) != NULL && at(look, b, i) != NULL; i++) {
        if (!same(at(look, a, i + 1), at(look, b, i))) {
            return false;
        }
        compared += 1;
    }
    return compared >= 2 || (compared == 1 && look->counts[a] == look->counts[b] + 1);
}

static bool at_fault(const ls_lookahead *look, int rank) {
    return ls_ranks_find(look->failure.ranks, look->failure.rank_count, rank) >= 0;
}

// Whether all ranks at fault say the same.
static bool alike(const ls_lookahead *look) {
    const traced *first = NULL;
    bool all = true;
    for (int m = 0; m < look->shared->comm->size; m++) {
        const traced *call = at(look, m, 0);
        if (at_fault(look, look->shared->comm->ranks[m])) {
            first = first == NULL ? call : first;
            all = all && same_purpose(first->call.purpose, call->call.purpose);
        }
    }
    return all;
}

static bool is_for(const ls_site_round *round, const char *purpose) {
    return round->call.purpose != NULL && strcmp(round->call.purpose, purpose) == 0;
}

// The earlier calls on which the ranks agreed: the rank at fault repeats the newest call, or
// continues with the call that followed the others'. If both do, it is unknown.
static void decide_by_history(ls_lookahead *look, const traced *here, const traced *there,
                              const char **why) {
    const ls_sites *sites = look->shared->sites;
    int count = sites != NULL ? sites->count : 0;
    bool again = count > 0 && is_for(&sites->rounds[count - 1], here->call.purpose);
    bool followed = false;
    for (int i = 0; i + 1 < count; i++) {
        followed = followed || (is_for(&sites->rounds[i], there->call.purpose) &&
                                is_for(&sites->rounds[i + 1], here->call.purpose));
    }
    if (followed && !again) {
        look->failure.id = LS_FINDING_MISSING_RANK;
        look->failure.file = there->call.file;
        look->failure.line = there->call.line;
        *why = "the rank at fault left out a call that the others make: it is already in the call "
               "that followed it before";
    } else if (again && !followed) {
        look->failure.id = LS_FINDING_EXTRA_CALL;
        *why = "the rank at fault repeats its previous call";
    }
}

// Names the odd call from what the ranks call next; *why stays NULL when nothing better is known.
static void decide(ls_lookahead *look, const char **why) {
    const ls_comm *comm = look->shared->comm;
    int wrong = -1, right = -1;
    for (int m = 0; m < comm->size; m++) {
        bool fault = at_fault(look, comm->ranks[m]);
        wrong = fault && wrong < 0 ? m : wrong;
        right = !fault && right < 0 ? m : right;
    }
    bool comparable = look->failure.id == LS_FINDING_KIND_MISMATCH ||
                      look->failure.id == LS_FINDING_COUNT_MISMATCH ||
                      look->failure.id == LS_FINDING_DTYPE_MISMATCH ||
                      look->failure.id == LS_FINDING_OP_MISMATCH ||
                      look->failure.id == LS_FINDING_PURPOSE_MISMATCH ||
                      look->failure.id == LS_FINDING_ROOT_MISMATCH;
    if (wrong < 0 || right < 0 || !comparable) {
        return;
    }
    const traced *here = at(look, wrong, 0), *there = at(look, right, 0);
    if (shifted(look, right, wrong)) {
        look->failure.id = LS_FINDING_MISSING_RANK;
        look->failure.file = there->call.file;
        look->failure.line = there->call.line;
        *why = "the rank at fault left out a call that the others make, and continued with the "
               "next one";
    } else if (shifted(look, wrong, right)) {
        look->failure.id = LS_FINDING_EXTRA_CALL;
        *why = "the rank at fault makes one extra call, and then the same calls as the others";
    } else if (later(look, wrong, there) && later(look, right, here)) {
        look->failure.id = LS_FINDING_ORDER_MISMATCH;
        *why = "the ranks make the same calls in different orders";
    } else if (look->failure.id == LS_FINDING_PURPOSE_MISMATCH && alike(look)) {
        decide_by_history(look, here, there, why);
    }
}

static void add_next_calls(ls_text *text, const ls_lookahead *look, int member) {
    if (look->counts[member] < 2) {
        return;
    }
    ls_text_printf(text, "next calls of rank %d on %s:\n", look->shared->comm->ranks[member],
                   look->shared->comm->name);
    for (int i = 1; i < look->counts[member] && i < 5; i++) {
        char what[256], where[LS_CALL_WHERE_MAX];
        const traced *call = at(look, member, i);
        ls_call_describe(what, sizeof what, &call->call);
        ls_text_printf(text, "  %s at %s\n", what, ls_call__where(where, &call->call));
    }
}

// Threads that share a communicator race for its order.
static void add_threads(ls_text *text, const ls_lookahead *look) {
    const ls_comm *comm = look->shared->comm;
    for (int m = 0; m < comm->size; m++) {
        for (int i = 1; i < look->counts[m]; i++) {
            if (at(look, m, i)->thread != at(look, m, 0)->thread) {
                ls_text_printf(text,
                               "several threads of rank %d call on %s, in no order; each thread "
                               "needs its own communicator or process group\n",
                               comm->ranks[m], comm->name);
                return;
            }
        }
    }
}

// Records the rank that the members would have named.
static void keep_others(ls_spmd *run, const ls_check_failure *before,
                        const ls_check_failure *after) {
    ls_spmd_result *result = run->result;
    size_t bytes = (size_t)before->rank_count * sizeof *before->ranks;
    if (result->finding_count > 0 && before->found && before->ranks[0] != after->ranks[0]) {
        ls_finding *finding = &result->findings[result->finding_count - 1];
        finding->others = ls_arena_copy(result->arena, before->ranks, bytes);
        finding->other_count = finding->others != NULL ? before->rank_count : 0;
    }
}

void ls_lookahead__end(ls_spmd *run) {
    ls_lookahead *look = run->lookahead;
    run->lookahead = NULL;
    const char *why = NULL;
    ls_text text = {0};
    ls_text_printf(&text, "%s\n", look->error);
    const ls_check_failure asked = look->failure;
    if (look->met != NULL) {
        ls_witness__turn(&look->failure, &text, run, look->met, look->shared->comm->size);
    }
    if (look->found) {
        decide(look, &why);
    }
    const char *name = look->found ? ls_finding_name(look->failure.id) : look->error;
    bool on = look->found && run->checks[look->failure.id];
    if (on) {
        ls_text_printf(&text, "%s%s", why != NULL ? why : "", why != NULL ? "\n" : "");
        add_threads(&text, look);
        ls_text_printf(&text, "%s", look->sides);
        const ls_comm *comm = look->shared->comm;
        int shown = 0;
        for (int m = 0; m < comm->size && shown < 2; m++) {
            if (at_fault(look, comm->ranks[m]) == (shown == 0)) {
                add_next_calls(&text, look, m);
                shown += 1;
                m = -1;
            }
        }
        (void)ls_findings__add(run, look->failure.id, look->failure.ranks, look->failure.rank_count,
                               look->failure.file, look->failure.line,
                               ls_findings__string(run, &text));
        keep_others(run, &asked, &look->failure);
    }
    ls_text_free(&text);
    ls_spmd__fail(run, on ? LS_ERR_FINDING : LS_ERR_MISMATCH, name);
}

static int open_lookahead(ls_lookahead **out, ls_spmd *run, ls_meet *meet) {
    ls_shared_comm *shared = meet->shared;
    size_t size = (size_t)shared->comm->size;
    int depth = run->options.lookahead + (int)shared->count + 1;
    ls_lookahead *look = ls_arena_alloc(run->arena, 1, sizeof *look);
    LS_TRY_MEMORY(look != NULL);
    look->depth = depth < DEPTH_MAX ? depth : DEPTH_MAX;
    look->shared = shared;
    look->calls = ls_arena_alloc(run->arena, size * (size_t)look->depth, sizeof *look->calls);
    look->counts = ls_arena_alloc(run->arena, size, sizeof *look->counts);
    look->failure = *ls_check_last();
    look->found = look->failure.found;
    (void)snprintf(look->error, sizeof look->error, "%s", ls_error_last()->text);
    LS_TRY_MEMORY(look->calls != NULL && look->counts != NULL);
    ls_text text = {0};
    ls_findings__check_text(&text, &look->failure, meet->requests, shared->comm->size);
    look->sides = ls_arena_strdup(run->arena, ls_findings__string(run, &text));
    ls_text_free(&text);
    LS_TRY_MEMORY(look->sides != NULL);
    for (uint64_t i = 0; i < shared->count; i++) {
        const ls_meet *waiting = ls_meet__at(shared, shared->base + i);
        for (int m = 0; m < shared->comm->size; m++) {
            if (waiting->requests[m] != NULL) {
                trace(look, m, waiting->requests[m]);
            }
        }
    }
    const ls_call **met = ls_arena_alloc(run->arena, size, sizeof *met);
    LS_TRY_MEMORY(met != NULL);
    for (size_t m = 0; m < size; m++) {
        met[m] = &at(look, (int)m, 0)->call;
    }
    look->met = ls_witness__wanted(&look->failure, met, (int)size) ? met : NULL;
    *out = look;
    return LS_OK;
}

// A debugger stops here, while every rank is still in its call, which the next step ends.
static void stop_before(const ls_spmd *run, const ls_lookahead *look) {
    char where[LS_CALL_WHERE_MAX];
    ls_text text = {0};
    ls_text_printf(&text, "%s\n%s", look->error, look->sides);
    const ls_call at = {.file = look->failure.file, .line = look->failure.line};
    const ls_finding finding = {.id = look->failure.id,
                                .ranks = look->failure.ranks,
                                .rank_count = look->failure.rank_count,
                                .where = ls_call__where(where, &at),
                                .text = text.failed ? look->error : ls_text_string(&text)};
    ls_hooks__before_stop();
    ls_gdb_hook_mismatch(run, &finding);
    ls_text_free(&text);
}

int ls_lookahead__start(ls_spmd *run, ls_meet *meet) {
    ls_lookahead *look = NULL;
    int status = open_lookahead(&look, run, meet);
    if (status != LS_OK) {
        ls_spmd__fail(run, status, "out of memory");
        return status;
    }
    run->lookahead = look;
    if (!look->found) {
        ls_lookahead__end(run);
        return run->status;
    }
    if (run->checks[look->failure.id]) {
        stop_before(run, look);
    }
    if (run->options.lookahead == 0) {
        for (int r = 0; look->met != NULL && r < run->rank_count; r++) {
            bool member = ls_comm_member(look->shared->comm, r) >= 0;
            run->ranks[r].witness_left = member ? 0 : WITNESS_CALLS;
        }
        return LS_OK;  // ranks with asynchronous calls continue until they wait
    }
    for (int r = 0; r < run->rank_count; r++) {
        run->ranks[r].lookahead_left = run->options.lookahead;
    }
    for (int m = 0; m < meet->shared->comm->size; m++) {
        ls_request__done(meet->requests[m], LS_OK);
    }
    return LS_OK;
}

bool ls_lookahead__submit(ls_request *request) {
    ls_lookahead *look = request->rank->run->lookahead;
    bool p2p = ls_kind_is_message(request->call.kind);
    if (request->rank->witness_left > 0 && !p2p) {
        request->rank->witness_left -= 1;
        return false;
    }
    if (request->comm->shared == look->shared && !p2p) {
        trace(look, request->comm->member, request);
    }
    bool makes_handle = request->call.kind == LS_COMM_SPLIT || request->call.kind == LS_COMM_SUBSET;
    if (request->rank->lookahead_left > 0 && !makes_handle) {
        request->rank->lookahead_left -= 1;
        ls_request__done(request, LS_OK);
    }
    return true;
}
