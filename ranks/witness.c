// The rank at fault if the ranks concerned do not show it: two members whose calls differ, or two
// ranks that wait for each other on two communicators. Other ranks came to the same lines, and show
// how the call is made there, and after which.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

static bool agrees(const ls_call *a, const ls_call *b) {
    if (a->kind != b->kind || a->comm->family != b->comm->family) {
        return false;
    }
    const ls_collective *of = ls_collective_of(a->kind);
    return a->dtype == b->dtype && a->count == b->count && (!of->reduces || a->op == b->op) &&
           (of->root_word == NULL || a->root == b->root);
}

// The newest call that a rank made at the line of `call`; NULL: none is remembered.
static const ls_call *at_line(const ls_rank *rank, const ls_call *call) {
    uint64_t room = (uint64_t)rank->run->history;
    for (uint64_t i = 0; i < rank->call_count && i < room; i++) {
        const ls_history_entry *entry = &rank->history[(rank->call_count - 1 - i) % room];
        const ls_call *made = &entry->call;
        if (made->comm != NULL && !ls_kind_is_ask(made->kind) && made->line == call->line &&
            made->file != NULL && strcmp(made->file, call->file) == 0) {
            return made;
        }
    }
    return NULL;
}

// How many ranks that are no members made the call of that line alike, less those that did not.
// *first: one that did.
static int testimony(int *first, const ls_spmd *run, const ls_call *call) {
    int sum = 0;
    for (int r = run->rank_count - 1; r >= 0; r--) {
        const ls_call *made =
            ls_comm_member(call->comm, r) < 0 ? at_line(&run->ranks[r], call) : NULL;
        if (made != NULL) {
            bool same = agrees(made, call);
            sum += same ? 1 : -1;
            *first = same ? r : *first;
        }
    }
    return sum;
}

static bool named(const ls_check_failure *failure, int rank) {
    return ls_ranks_find(failure->ranks, failure->rank_count, rank) >= 0;
}

// The first call of those that are named, or of the others; NULL: there is none.
static const ls_call *first_of(const ls_check_failure *failure, const ls_call *const *calls,
                               int count, bool blamed) {
    for (int i = 0; i < count; i++) {
        if (named(failure, calls[i]->rank) == blamed) {
            return calls[i];
        }
    }
    return NULL;
}

bool ls_witness__wanted(const ls_check_failure *failure, const ls_call *const *calls, int count) {
    if (!failure->found || failure->rank_total != failure->rank_count ||
        2 * failure->rank_count != count) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (ls_kind_is_ask(calls[i]->kind)) {
            return false;
        }
    }
    return first_of(failure, calls, count, true) != NULL;
}

void ls_witness__turn(ls_check_failure *failure, ls_text *text, const ls_spmd *run,
                      const ls_call *const *calls, int count) {
    LS_ASSERT(ls_witness__wanted(failure, calls, count));
    const ls_call *blamed = first_of(failure, calls, count, true);
    const ls_call *other = first_of(failure, calls, count, false);
    int first = -1, nobody = -1;
    if (testimony(&first, run, blamed) <= testimony(&nobody, run, other)) {
        return;
    }
    char where[LS_CALL_WHERE_MAX];
    if (first >= 0) {
        ls_text_printf(text, "rank %d makes the call at %s as rank %d does\n", first,
                       ls_call__where(where, blamed), blamed->rank);
    } else {
        ls_text_printf(text, "other ranks make the call at %s in another order than rank %d\n",
                       ls_call__where(where, other), other->rank);
    }
    ls_check_failure turned = {
        .found = true, .id = failure->id, .file = other->file, .line = other->line};
    for (int i = 0; i < count; i++) {
        if (!named(failure, calls[i]->rank)) {
            turned.ranks[turned.rank_count++] = calls[i]->rank;
        }
    }
    turned.rank_total = turned.rank_count;
    *failure = turned;
}

// ---- Two ranks that wait for each other ---------------------------------------------------------
static bool same_line(const ls_call *a, const ls_call *b) {
    return a->line == b->line && a->file != NULL && b->file != NULL &&
           strcmp(a->file, b->file) == 0;
}

typedef enum before { BEFORE_UNKNOWN, BEFORE_NONE, BEFORE_OTHER, BEFORE_ITSELF } before;

// Which of two lines a rank came to last before its newest call at the line of `call`.
static before before_newest(const ls_rank *rank, const ls_call *call, const ls_call *other) {
    uint64_t room = (uint64_t)rank->run->history;
    bool found = false;
    for (uint64_t i = 0; i < rank->call_count && i < room; i++) {
        const ls_call *made = &rank->history[(rank->call_count - 1 - i) % room].call;
        if (found && (same_line(made, call) || same_line(made, other))) {
            return same_line(made, call) ? BEFORE_ITSELF : BEFORE_OTHER;
        }
        found = found || same_line(made, call);
    }
    if (!found) {
        return BEFORE_UNKNOWN;
    }
    return rank->call_count > room ? BEFORE_UNKNOWN : BEFORE_NONE;
}

// Whether all uninvolved ranks that give evidence reach that line otherwise than this one did.
static bool contradicted(const ls_spmd *run, const int *circle, const ls_call *const *calls,
                         int which) {
    const ls_call *call = calls[which], *other = calls[1 - which];
    before own = before_newest(&run->ranks[circle[which]], call, other);
    int against = 0;
    for (int r = 0; own != BEFORE_UNKNOWN && r < run->rank_count; r++) {
        if (r == circle[0] || r == circle[1]) {
            continue;
        }
        before theirs = before_newest(&run->ranks[r], call, other);
        // A rank that went from the other line to that line again has no call in between.
        bool without = theirs == BEFORE_UNKNOWN && own == BEFORE_OTHER &&
                       before_newest(&run->ranks[r], other, call) == BEFORE_ITSELF;
        if (theirs == own) {
            return false;
        }
        against += theirs != BEFORE_UNKNOWN || without ? 1 : 0;
    }
    return against > 0;
}

int ls_witness__odd(const ls_spmd *run, const int *circle, const ls_call *const *calls) {
    bool first = contradicted(run, circle, calls, 0), second = contradicted(run, circle, calls, 1);
    if (first == second) {
        return -1;
    }
    return first ? 0 : 1;
}
