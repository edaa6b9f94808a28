// Calls that wait for returned ranks: whether those made one call less than the others, skipped one
// on the way, or whether the few that wait made an extra one. The call sites in the histories
// decide.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

bool ls_stuck__refused(ls_spmd *run) {
    for (int r = 0; r < run->rank_count; r++) {
        const ls_rank *rank = &run->ranks[r];
        if (rank->erred && rank->state == LS_RANK_RETURNED) {
            ls_spmd__fail(run, LS_ERR_FINDING, ls_finding_name(LS_FINDING_CALL_INVALID));
            return true;
        }
    }
    return false;
}

// Collectives of a rank on a communicator, newest last: out [most]; returns how many.
static int sequence(const ls_history_entry **out, int most, const ls_rank *rank,
                    const ls_comm *comm) {
    uint64_t room = (uint64_t)rank->run->history;
    uint64_t kept = rank->call_count < room ? rank->call_count : room;
    int count = 0;
    for (uint64_t n = rank->call_count - kept; n < rank->call_count && count < most; n++) {
        const ls_history_entry *entry = &rank->history[n % room];
        bool p2p = ls_kind_is_message(entry->call.kind);
        if (entry->number == n && entry->call.comm == comm && !p2p) {
            out[count++] = entry;
        }
    }
    return count;
}

static bool same_site(const ls_history_entry *a, const ls_history_entry *b) {
    return a->call.kind == b->call.kind && a->call.line == b->call.line &&
           a->call.count == b->call.count && a->call.dtype == b->call.dtype &&
           strcmp(a->call.file != NULL ? a->call.file : "",
                  b->call.file != NULL ? b->call.file : "") == 0;
}

// The call that `longer` made on the way and `shorter` did not, if both ended with the same call;
// NULL: `shorter` just made one less at the end, or it is unknown (a loop over one call).
static const ls_history_entry *odd_call(const ls_rank *longer, const ls_rank *shorter,
                                        const ls_comm *comm) {
    const ls_history_entry *a[64], *b[64];
    int i = sequence(a, 64, longer, comm) - 1, j = sequence(b, 64, shorter, comm) - 1;
    if (i < 0 || j < 0 || !same_site(a[i], b[j])) {
        return NULL;
    }
    while (i >= 0 && j >= 0 && same_site(a[i], b[j])) {
        i -= 1;
        j -= 1;
    }
    if (i < 0) {
        return NULL;
    }
    // The compared calls must really shift: one more in a run of equal calls has no meaning, unless
    // the run is known to have begun after another call.
    bool run_of_equals = same_site(a[i], a[i + 1]);
    return run_of_equals && j < 0 ? NULL : a[i];
}

static void add_where(ls_text *text, const char *what, const ls_history_entry *entry) {
    char call[256], where[LS_CALL_WHERE_MAX];
    ls_call_describe(call, sizeof call, &entry->call);
    ls_text_printf(text, "%s %s at %s\n", what, call, ls_call__where(where, &entry->call));
}

void ls_stuck__end(ls_spmd *run, int status, ls_finding_id id, const int *ranks, int count,
                   const char *file, int line, ls_text *text) {
    for (int i = 0; i < count && i < 2; i++) {
        ls_findings__history(text, &run->ranks[ranks[i]], 4);
    }
    ls_gdb_hook_deadlock(run, ls_text_string(text));
    bool on = ls_findings__add(run, id, ranks, count, file, line, ls_findings__string(run, text));
    ls_text_free(text);
    if (on) {
        ls_place__note(run);
    }
    ls_spmd__fail(run, on ? status : LS_ERR_DEADLOCK, ls_finding_name(id));
}

// After how many calls the sequence repeats itself: a step; 0: it does not, twice over.
static int period(const ls_history_entry *const *calls, int count) {
    for (int length = 1; 2 * length <= count; length++) {
        int i = count - 1;
        while (i >= count - length && same_site(calls[i], calls[i - length])) {
            i -= 1;
        }
        if (i < count - length) {
            return length;
        }
    }
    return 0;
}

static const char *ending_of(uint64_t number) {
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    const bool teen = number % 100 / 10 == 1;
    return endings[teen || number % 10 > 3 ? 0 : number % 10];
}

// How many calls on the communicator, and so how many whole steps, `gone` made less than `waiting`.
static void add_short(ls_text *text, const ls_rank *waiting, const ls_rank *gone,
                      const ls_shared_comm *shared) {
    const ls_history_entry *calls[64];
    int most = ls_comm_member(shared->comm, waiting->id);
    int least = ls_comm_member(shared->comm, gone->id);
    LS_ASSERT(most >= 0 && least >= 0);
    uint64_t missing = shared->rounds[most] - shared->rounds[least];
    int step = period(calls, sequence(calls, 64, waiting, shared->comm));
    const uint64_t made = shared->rounds[least];
    ls_text_printf(text, "rank %d made %llu call%s on %s, rank %d is in its %llu%s call", gone->id,
                   (unsigned long long)made, made == 1 ? "" : "s", shared->comm->name, waiting->id,
                   (unsigned long long)shared->rounds[most], ending_of(shared->rounds[most]));
    // A step's first calls are there when the others stop in it.
    uint64_t steps = step > 0 ? (missing + (uint64_t)step - 1) / (uint64_t)step : 0;
    if (steps > 0) {
        ls_text_printf(text, ": %s%.0llu step%s short (a step is %d call%s there)\n",
                       steps == 1 ? "one" : "", steps == 1 ? 0ULL : (unsigned long long)steps,
                       steps == 1 ? "" : "s", step, step == 1 ? "" : "s");
    } else {
        ls_text_printf(text, "\n");
    }
}

// The few that wait made a call too many.
static void report_extra(ls_spmd *run, const ls_meet *meet, const int *present, int present_count,
                         const ls_rank *gone) {
    const ls_request *first = meet->requests[ls_comm_member(meet->shared->comm, present[0])];
    const ls_history_entry *odd = odd_call(first->rank, gone, meet->shared->comm);
    ls_text text = {0};
    char ranks[128];
    ls_ranks_format(ranks, sizeof ranks, present, present_count);
    ls_text_printf(&text,
                   "rank%s %s wait%s in a call that the other %d of %d ranks of %s never make\n",
                   present_count > 1 ? "s" : "", ranks, present_count > 1 ? "" : "s",
                   meet->shared->comm->size - present_count, meet->shared->comm->size,
                   meet->shared->comm->name);
    ls_findings__sides(&text, meet->requests, meet->shared->comm->size);
    if (odd != NULL) {
        add_where(&text, "the call too many is", odd);
    }
    ls_findings__history(&text, gone, 4);
    ls_stuck__end(run, LS_ERR_FINDING, LS_FINDING_EXTRA_CALL, present, present_count,
                  odd != NULL ? odd->call.file : first->call.file,
                  odd != NULL ? odd->call.line : first->call.line, &text);
}

// The first of the ranks that ended with an error; NULL: none did.
static const ls_rank *first_failed(const ls_spmd *run, const int *ranks, int count) {
    for (int i = 0; i < count; i++) {
        if (run->ranks[ranks[i]].exit_status != 0) {
            return &run->ranks[ranks[i]];
        }
    }
    return NULL;
}

static void report_gone(ls_spmd *run, const ls_meet *meet, const int *absent, int absent_count,
                        const ls_rank *waiting) {
    const ls_rank *failed = first_failed(run, absent, absent_count);
    const ls_rank *gone = failed != NULL ? failed : &run->ranks[absent[0]];
    // A failed rank made no further call.
    const ls_history_entry *odd =
        failed != NULL ? NULL : odd_call(waiting, gone, meet->shared->comm);
    ls_text text = {0};
    char ranks[128];
    ls_ranks_format(ranks, sizeof ranks, absent, absent_count);
    if (odd != NULL) {
        ls_text_printf(&text, "rank%s %s left out a call on %s that the others made\n",
                       absent_count > 1 ? "s" : "", ranks, meet->shared->comm->name);
        add_where(&text, "left out:", odd);
    } else {
        ls_text_printf(&text,
                       "rank%s %s returned (status %d) while others wait for %s in a call on %s\n",
                       absent_count > 1 ? "s" : "", ranks, gone->exit_status,
                       absent_count > 1 ? "them" : "it", meet->shared->comm->name);
        if (gone->why != NULL) {
            ls_text_printf(&text, "rank %d: %s\n", gone->id, gone->why);
        }
        add_short(&text, waiting, gone, meet->shared);
    }
    ls_findings__sides(&text, meet->requests, meet->shared->comm->size);
    ls_findings__history(&text, waiting, 4);
    // A rank without a call is missed at the others' place.
    const ls_call *there = &meet->requests[ls_comm_member(meet->shared->comm, waiting->id)]->call;
    const char *file = gone->line > 0 ? gone->file : there->file;
    int line = gone->line > 0 ? gone->line : there->line;
    if (odd != NULL) {
        ls_stuck__end(run, LS_ERR_FINDING, LS_FINDING_MISSING_RANK, absent, absent_count,
                      odd->call.file, odd->call.line, &text);
    } else {
        ls_stuck__end(run, LS_ERR_FINDING, LS_FINDING_RANK_EXITED_EARLY, absent, absent_count, file,
                      line, &text);
    }
}

static void explain_meet(ls_spmd *run, const ls_meet *meet) {
    const ls_comm *comm = meet->shared->comm;
    int *present = ls_arena_alloc(run->arena, (size_t)comm->size, sizeof(int));
    int *absent = ls_arena_alloc(run->arena, (size_t)comm->size, sizeof(int));
    if (present == NULL || absent == NULL) {
        ls_spmd__fail(run, LS_ERR_MEMORY, "out of memory");
        return;
    }
    int present_count = 0, absent_count = 0;
    for (int m = 0; m < comm->size; m++) {
        if (meet->requests[m] != NULL) {
            present[present_count++] = comm->ranks[m];
        } else if (run->ranks[comm->ranks[m]].state == LS_RANK_RETURNED) {
            absent[absent_count++] = comm->ranks[m];
        }
    }
    LS_ASSERT(present_count > 0 && absent_count > 0);
    if (2 * present_count < comm->size && absent_count == comm->size - present_count &&
        first_failed(run, absent, absent_count) == NULL) {
        report_extra(run, meet, present, present_count, &run->ranks[absent[0]]);
    } else {
        report_gone(run, meet, absent, absent_count, &run->ranks[present[0]]);
    }
}

static void explain_p2p(ls_spmd *run, const ls_request *request) {
    bool send = request->call.kind == LS_SEND;
    int rank = request->call.rank;
    char what[256];
    ls_call_describe(what, sizeof what, &request->call);
    ls_text text = {0};
    if (request->call.root < 0) {
        ls_text_printf(&text, "rank %d, %s: nobody posts a send for it\n", rank, what);
        ls_stuck__end(run, LS_ERR_FINDING, LS_FINDING_P2P_UNMATCHED_RECV, &rank, 1,
                      request->call.file, request->call.line, &text);
        return;
    }
    int peer = request->call.comm->ranks[request->call.root];
    ls_text_printf(&text, "rank %d, %s: rank %d never posts the %s%s\n", rank, what, peer,
                   send ? "receive" : "send",
                   run->ranks[peer].state == LS_RANK_RETURNED ? ", it has returned" : "");
    if (run->ranks[peer].why != NULL) {
        ls_text_printf(&text, "rank %d: %s\n", peer, run->ranks[peer].why);
    }
    ls_findings__history(&text, &run->ranks[peer], 4);
    ls_stuck__end(run, LS_ERR_FINDING,
                  send ? LS_FINDING_P2P_UNMATCHED_SEND : LS_FINDING_P2P_UNMATCHED_RECV, &rank, 1,
                  request->call.file, request->call.line, &text);
}

void ls_stuck__returned(ls_spmd *run, const ls_request *request) {
    if (request->meet != NULL) {
        explain_meet(run, request->meet);
    } else {
        explain_p2p(run, request);
    }
}

// ---- At the end of a run -----------------------------------------------------------------------
void ls_stuck__leftovers(ls_spmd *run) {
    if (ls_stuck__refused(run)) {
        return;
    }
    for (ls_shared_comm *at = run->comms; at != NULL && run->status == LS_OK; at = at->next) {
        for (int m = 0; m < at->comm->size && run->status == LS_OK; m++) {
            const ls_request *left = at->sends[m] != NULL ? at->sends[m] : at->recvs[m];
            if (left != NULL) {
                explain_p2p(run, left);
            }
        }
        const ls_meet *meet = ls_meet__at(at, at->base);
        bool somebody_returned = false;
        for (int m = 0; meet != NULL && m < at->comm->size; m++) {
            somebody_returned =
                somebody_returned || (meet->requests[m] == NULL &&
                                      run->ranks[at->comm->ranks[m]].state == LS_RANK_RETURNED);
        }
        if (somebody_returned && run->status == LS_OK) {
            explain_meet(run, meet);
        }
    }
}
