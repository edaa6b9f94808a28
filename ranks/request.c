// Requests: calls on their way, and how a rank waits for them.
#include "base/time.h"
#include "ranks/internal.h"

#define POLLS_MAX      10000  // in a row, while no rank made or completed a call
#define IDLE_POLLS_MAX 200000
#define FREED_KEPT     256  // requests that are kept after ls_wait, to detect use after free

typedef struct heap_request {
    ls_request request;
    ls_flight flight;
} heap_request;

static void release(ls_request *request) {
    ls_flight__drop(request);
    ls_kept__drop(request);
    ls_free(request, 1, sizeof(heap_request));
}

ls_request *ls_request__make(const ls_request *filled) {
    void *memory = NULL;
    if (ls_alloc(&memory, 1, sizeof(heap_request)) != LS_OK) {
        return NULL;
    }
    ls_request *request = memory;
    *request = *filled;
    request->flight = &((heap_request *)memory)->flight;
    request->kept = NULL;
    const size_t bytes = (size_t)ls_comm_size(filled->comm) * sizeof(size_t);
    const size_t **counts[] = {&request->call.send_counts, &request->call.recv_counts};
    for (int i = 0; i < 2; i++) {
        if (*counts[i] != NULL) {
            *counts[i] = ls_kept__copy(request, *counts[i], bytes);
            if (*counts[i] == NULL) {
                release(request);
                return NULL;
            }
        }
    }
    return request;
}

void ls_request__list(ls_rank *rank, ls_request *request) {
    request->next = NULL;
    request->before = rank->open_last;
    *(rank->open_last != NULL ? &rank->open_last->next : &rank->open) = request;
    rank->open_last = request;
}

void ls_request__unlist(ls_rank *rank, ls_request *request) {
    ls_request *before = request->before, *next = request->next;
    LS_ASSERT(before != NULL ? before->next == request : rank->open == request);
    *(before != NULL ? &before->next : &rank->open) = next;
    *(next != NULL ? &next->before : &rank->open_last) = before;
}

// Keeps the memory for a while, so that a second wait is distinguished from a first.
void ls_request__free(ls_rank *rank, ls_request *request) {
    ls_flight__land(request);
    ls_request__unlist(rank, request);
    ls_kept__drop(request);
    request->state = LS_REQUEST_FREED;
    request->next = NULL;
    if (rank->freed_last != NULL) {
        rank->freed_last->next = request;
    } else {
        rank->freed = request;
    }
    rank->freed_last = request;
    rank->freed_count += 1;
    if (rank->freed_count > FREED_KEPT) {
        ls_request *oldest = rank->freed;
        rank->freed = oldest->next;
        rank->freed_count -= 1;
        release(oldest);
    }
}

void ls_request__close(ls_rank *rank) {
    while (rank->open != NULL) {
        ls_request *next = rank->open->next;
        release(rank->open);
        rank->open = next;
    }
    while (rank->freed != NULL) {
        ls_request *next = rank->freed->next;
        release(rank->freed);
        rank->freed = next;
    }
}

void ls_request__done(ls_request *request, int status) {
    ls_rank *rank = request->rank;
    ls_spmd *run = rank->run;
    request->state = LS_REQUEST_DONE;
    run->completed += 1;
    request->status = status;
    ls_history_entry *entry = &rank->history[request->number % (uint64_t)run->history];
    if (entry->number == request->number) {
        entry->done = status == LS_OK;
    }
    ls_gdb_hook_complete(run, rank, request);
    if (request->awaited) {
        ls_thread *by = request->awaited;
        request->awaited = NULL;
        by->waiting = by->waits_for_any ? 0 : by->waiting - 1;
    }
    if (rank->state != LS_RANK_STALLED && ls_turns__wake(rank) && rank->state == LS_RANK_BLOCKED) {
        ls_schedule__make_ready(rank);
    }
    if (request->detached) {
        ls_request__free(rank, request);
    }
}

static bool moving(ls_rank *rank) {
    const ls_thread *me = ls_turns__me(rank);
    if (me->current != NULL && me->current->state == LS_REQUEST_MATCHED) {
        return true;
    }
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        if (at->state == LS_REQUEST_MATCHED) {
            return true;
        }
    }
    return false;
}

void ls_request__drain(ls_rank *rank) {
    while (moving(rank)) {
        ls_schedule__block(rank, LS_RANK_BLOCKED);
    }
}

int ls_request__await(ls_rank *rank) {
    ls_spmd *run = rank->run;
    ls_thread *me = ls_turns__me(rank);
    while (me->waiting > 0 && run->status == LS_OK) {
        ls_schedule__block(rank, LS_RANK_BLOCKED);
    }
    if (run->status == LS_OK) {
        return LS_OK;
    }
    ls_request__drain(rank);
    bool complete = me->waiting == 0;
    me->waiting = 0;
    return complete ? LS_OK : run->status;
}

// A poll of another frontend that found nothing: others run first. In a stuck run a receive from
// any member is released. Returns the run's status; *hopeless: no rank will ever change the result
// of the poll.
int ls_request__poll(bool *hopeless, ls_rank *rank) {
    ls_spmd *run = rank->run;
    *hopeless = false;
    uint64_t now = run->calls + run->completed;
    if (run->idle_since != now || run->idle_polls == 0) {
        run->idle_since = now;
        run->idle_polls = 0;
        run->idle_from = ls_time_now();
        run->outside_known = false;
    }
    run->idle_polls += 1;
    if (run->idle_polls > 2 * run->rank_count + 2) {
        (void)run->core->choose(run);
    }
    if (run->idle_polls > IDLE_POLLS_MAX) {
        *hopeless = !run->has_threads || !ls_outside__may_change(run);
        run->idle_polls = 1;
    }
    if (run->status == LS_OK) {
        ls_schedule__give_way(rank);
    }
    return run->status;
}

// ---- ls_wait -----------------------------------------------------------------------------------
static bool listed(const ls_request *list, const ls_request *request) {
    while (list != NULL && list != request) {
        list = list->next;
    }
    return list != NULL;
}

// A request that is not among the rank's open ones: one waited for before, another rank's, or a
// pointer to nothing, which is not followed.
static int refuse(ls_rank *rank, const ls_request *request, const char *file, int line) {
    ls_spmd *run = rank->run;
    const ls_rank *owner = listed(rank->freed, request) ? rank : NULL;
    for (int r = 0; r < run->rank_count && owner == NULL; r++) {
        const ls_rank *other = &run->ranks[r];
        owner = listed(other->open, request) || listed(other->freed, request) ? other : NULL;
    }
    ls_text text = {0};
    ls_text_printf(&text, "rank %d, ls_wait: ", rank->id);
    if (owner != NULL) {
        char what[256], where[LS_CALL_WHERE_MAX];
        ls_call_describe(what, sizeof what, &request->call);
        if (owner == rank) {
            ls_text_printf(&text, "the request was waited for already");
        } else {
            ls_text_printf(&text, "it waits for a request of rank %d", owner->id);
        }
        ls_text_printf(&text, ": %s, made at %s\n", what, ls_call__where(where, &request->call));
    } else {
        ls_text_printf(&text,
                       "its argument is not a request of this rank, or was waited for long ago\n");
    }
    ls_findings__history(&text, rank, 4);
    bool on = ls_findings__add(run, LS_FINDING_HANDLE_USE_AFTER_FREE, &rank->id, 1, file, line,
                               ls_findings__string(run, &text));
    ls_text_free(&text);
    ls_spmd__fail(run, on ? LS_ERR_FINDING : LS_ERR_MISMATCH,
                  ls_finding_name(LS_FINDING_HANDLE_USE_AFTER_FREE));
    return ls_spmd__failed(run, rank);
}

static int wait_for(ls_rank *rank, ls_request *request, const char *file, int line) {
    ls_spmd *run = rank->run;
    if (run->status != LS_OK) {
        ls_request__drain(rank);
        return ls_spmd__failed(run, rank);
    }
    if (!listed(rank->open, request)) {
        return refuse(rank, request, file, line);
    }
    if (request->state == LS_REQUEST_GROUPED) {
        return ls_findings__fatal_call(run, LS_FINDING_DEADLOCK_CYCLE, request,
                                       "it is waited for at %s:%d, inside of the group opened at "
                                       "%s:%d whose end starts it: the rank waits for itself",
                                       file, line, rank->group_file, rank->group_line);
    }
    int status = LS_OK;
    rank->file = file;  // whether or not it has to wait, so that no place depends on the schedule
    rank->line = line;
    ls_seen__at(rank->id, file, line);
    if (run->direct) {
        status = run->core->wait_direct(request);
    } else if (request->state != LS_REQUEST_DONE) {
        ls_thread *me = ls_turns__me(rank);
        me->current = request;
        request->awaited = me;
        me->waiting = 1;
        status = ls_request__await(rank);
        me->current = NULL;
    }
    if (status != LS_OK) {
        return run->status != LS_OK ? ls_spmd__failed(run, rank) : status;
    }
    status = request->status;
    ls_flight__land(request);
    if (status == LS_OK) {
        ls_checks__completed(request);
    }
    ls_request__free(rank, request);
    return status != LS_OK && run->status != LS_OK ? ls_spmd__failed(run, rank) : status;
}

int ls_wait_at(const char *file, int line, ls_request *request) {
    ls_rank *rank = ls_schedule__current();
    if (rank == NULL || request == NULL) {
        return ls_findings__refuse(rank, file, line, "a wait %s",
                                   rank == NULL ? "outside of a program" : "for no request (NULL)");
    }
    ls_schedule__enter(rank);
    int status = wait_for(rank, request, file, line);
    ls_schedule__leave(rank);
    return status;
}

// ---- Several, and polling ----------------------------------------------------------------------
int ls_wait_all_at(const char *file, int line, ls_request **requests, int count) {
    int first = LS_OK;
    for (int i = 0; i < count; i++) {
        int status = requests[i] != NULL ? ls_wait_at(file, line, requests[i]) : LS_OK;
        requests[i] = NULL;
        first = first == LS_OK ? status : first;
    }
    return first;
}

// Others run before a poll, so that a loop of polls ends; if no other can, the rank waits, and the
// run is explained if none ever can.
static int poll(bool *done, ls_rank *rank, ls_request *request, const char *file, int line) {
    ls_spmd *run = rank->run;
    *done = false;
    rank->file = file;
    rank->line = line;
    if (run->status == LS_OK && !listed(rank->open, request)) {
        return refuse(rank, request, file, line);
    }
    run->observed += 1;
    if (run->status == LS_OK && !run->direct && request->state != LS_REQUEST_DONE) {
        rank->polls = rank->polls_since == run->calls + run->completed ? rank->polls + 1 : 0;
        rank->polls_since = run->calls + run->completed;
        ls_schedule__give_way(rank);
    }
    if (rank->polls > POLLS_MAX && run->status == LS_OK) {
        *done = true;  // nothing can change any more: as a wait it is explained
        return wait_for(rank, request, file, line);
    }
    if (run->status != LS_OK) {
        ls_request__drain(rank);
        return ls_spmd__failed(run, rank);
    }
    if (run->direct || request->state == LS_REQUEST_DONE || request->state == LS_REQUEST_GROUPED) {
        *done = true;
        return wait_for(rank, request, file, line);
    }
    return LS_OK;
}

int ls_test_at(const char *file, int line, bool *done, ls_request **request) {
    ls_rank *rank = ls_schedule__current();
    LS_ASSERT(done != NULL && request != NULL);
    *done = false;
    if (rank == NULL || *request == NULL) {
        return ls_findings__refuse(rank, file, line, "a test %s",
                                   rank == NULL ? "outside of a program" : "of no request (NULL)");
    }
    ls_schedule__enter(rank);
    int status = poll(done, rank, *request, file, line);
    ls_schedule__leave(rank);
    *request = *done ? NULL : *request;
    return status;
}

int ls_wait_any_at(const char *file, int line, int *index, ls_request **requests, int count) {
    LS_ASSERT(index != NULL);
    *index = -1;
    int first = -1, open = 0;
    for (int i = count - 1; i >= 0; i--) {
        first = requests[i] != NULL ? i : first;
        open += requests[i] != NULL ? 1 : 0;
    }
    while (open > 1) {
        for (int i = 0; i < count; i++) {
            bool done = false;
            int status = requests[i] != NULL ? ls_test_at(file, line, &done, &requests[i]) : LS_OK;
            if (done || status != LS_OK) {
                *index = i;
                return status;
            }
        }
    }
    if (first < 0) {
        return LS_OK;
    }
    int status = ls_wait_at(file, line, requests[first]);
    requests[first] = NULL;
    *index = first;
    return status;
}
