// A call's arguments may be gone before the call is complete: counts are copied; of a buffer on the
// stack of a program that has returned nothing is read or written any more.

#include "ranks/internal.h"

typedef struct span {
    uintptr_t low, high;
} span;

static bool holds(span stack, const void *buffer) {
    return (uintptr_t)buffer >= stack.low && (uintptr_t)buffer < stack.high;
}

// A group that is still open: its calls were not made, and others may wait for them.
static void tell_open_group(ls_rank *rank) {
    ls_spmd *run = rank->run;
    int calls = 0;
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        calls += at->state == LS_REQUEST_GROUPED ? 1 : 0;
    }
    if (run->status != LS_OK || rank->group_depth == 0 || calls == 0 || rank->erred) {
        return;
    }
    ls_text text = {0};
    ls_text_printf(&text,
                   "rank %d returned inside of the group that it opened at %s:%d: without its "
                   "ls_group_end %s not made\n",
                   rank->id, rank->group_file, rank->group_line,
                   calls == 1 ? "the call in it was" : "the calls in it were");
    ls_findings__history(&text, rank, 4);
    rank->erred = ls_findings__add(run, LS_FINDING_CALL_INVALID, &rank->id, 1, rank->group_file,
                                   rank->group_line, ls_findings__string(run, &text));
    ls_text_free(&text);
}

// Refused calls for the rank by a thread of another rank.
static void tell_foreign(ls_rank *rank) {
    const char *file = atomic_load(&rank->foreign_file);
    if (file == NULL || rank->run->status != LS_OK) {
        return;
    }
    ls_text text = {0};
    ls_text_printf(&text,
                   "rank %d: a thread that is not attached to a rank (ls_rank_attach) made a call "
                   "for it, which was refused\n",
                   rank->id);
    rank->erred =
        ls_findings__add(rank->run, LS_FINDING_CALL_INVALID, &rank->id, 1, file,
                         atomic_load(&rank->foreign_line), ls_findings__string(rank->run, &text));
    ls_text_free(&text);
}

void ls_kept__returned(ls_rank *rank) {
    ls_spmd *run = rank->run;
    const span stack = {rank->stack_low, rank->stack_low + rank->stack_bytes};
    tell_open_group(rank);
    tell_foreign(rank);
    for (const ls_request *at = rank->open; at != NULL && run->status == LS_OK; at = at->next) {
        if (at->state != LS_REQUEST_POSTED || !run->checks[LS_FINDING_HANDLE_LEAK]) {
            continue;
        }
        if (holds(stack, at->call.send) || holds(stack, at->call.recv)) {
            (void)ls_findings__fatal_call(
                run, LS_FINDING_HANDLE_LEAK, at,
                "the request was never waited for: its rank has returned, and its buffer was on "
                "the rank's stack");
        }
    }
}
