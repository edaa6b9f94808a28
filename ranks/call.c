// Calls of programs: each becomes a request, is checked separately, and goes to the matcher.
#include <signal.h>
#include <unistd.h>

#include "base/time.h"
#include "ranks/internal.h"

#define SLOW_NANOSECONDS 20000000L  // a slow rank's delay before each call

// A handle that cannot be used here ends the run. Kept apart, as are calls that a fault doubles: a
// rank that waits keeps the frame of `post`, and of many ranks each page of it is dear.
__attribute__((noinline)) static int refuse_handle(ls_rank *rank, const ls_rank_comm *comm,
                                                   const ls_request *own, const char *file,
                                                   int line) {
    ls_request here = *own;
    here.rank = rank;
    here.call.rank = rank->id;
    here.call.file = file;
    here.call.line = line;
    if (comm == NULL) {
        return ls_findings__fatal_call(rank->run, LS_FINDING_GROUP_MISMATCH, &here,
                                       "its communicator is NULL: the rank is not a member of it");
    }
    here.call.comm = comm->shared->comm;
    if (comm->destroyed) {
        return ls_findings__fatal_call(rank->run, LS_FINDING_HANDLE_USE_AFTER_FREE, &here,
                                       "the communicator was destroyed at %s:%d", comm->file,
                                       comm->line);
    }
    return ls_findings__fatal_call(
        rank->run, LS_FINDING_GROUP_MISMATCH, &here,
        "it uses the handle of rank %d; each rank has its own handle of a communicator",
        comm->rank->id);
}

// The program's counts may be gone when the call is reported.
static void remember_splits(ls_rank *rank, ls_call *call, size_t slot, int size) {
    const size_t **counts[2] = {&call->send_counts, &call->recv_counts};
    if (rank->splits == NULL) {
        rank->splits =
            ls_arena_alloc(rank->run->arena, (size_t)rank->run->history, sizeof *rank->splits);
    }
    for (int side = 0; side < 2; side++) {
        for (int m = 0; rank->splits != NULL && *counts[side] != NULL && m < size; m++) {
            if (m < LS_SPLITS_SHOWN) {
                rank->splits[slot].counts[side][m] = (*counts[side])[m];
            }
        }
        bool kept = *counts[side] != NULL && rank->splits != NULL;
        *counts[side] = kept ? rank->splits[slot].counts[side] : NULL;
    }
}

static void remember(ls_rank *rank, const ls_request *request) {
    size_t slot = (size_t)(request->number % (uint64_t)rank->run->history);
    ls_history_entry *entry = &rank->history[slot];
    entry->call = request->call;
    entry->number = request->number;
    entry->done = false;
    if (entry->call.send_counts != NULL || entry->call.recv_counts != NULL) {
        remember_splits(rank, &entry->call, slot, ls_comm_size(request->comm));
    }
}

// The second of a call that a fault doubled.
static void again(ls_rank *rank, ls_request *request) {
    request->number = rank->call_count++;
    request->call.seq = request->comm->shared->comm->seq[request->comm->member];
    remember(rank, request);
}

static void fill(ls_request *request, ls_rank_comm *comm, const char *file, int line) {
    ls_rank *rank = comm->rank;
    request->rank = rank;
    request->comm = comm;
    request->state = LS_REQUEST_GROUPED;
    request->number = rank->call_count++;
    request->call.comm = comm->shared->comm;
    request->call.rank = rank->id;
    request->call.file = file;
    request->call.line = line;
    // The uneven forms say a member's own count once.
    if (request->call.kind == LS_REDUCE_SCATTER && request->call.send_counts != NULL) {
        request->call.count = request->call.send_counts[comm->member];
    }
    rank->file = file;
    rank->line = line;
    ls_seen__at(rank->id, file, line);
    rank->polls = 0;
    request->call.seq = comm->shared->comm->seq[comm->member];
    rank->run->calls += 1;
}

// The effect of a fault on the call: true when the call is over with *status.
static bool inject(int *status, bool *twice, ls_request *request) {
    ls_rank *rank = request->rank;
    ls_fault_do what = LS_FAULT_DO_CALL;
    *status = ls_fault__apply(&what, twice, request);
    if (*status != LS_OK) {
        return true;
    }
    switch (what) {
    case LS_FAULT_DO_CALL:
        return false;
    case LS_FAULT_DO_SKIP:
        return true;
    case LS_FAULT_DO_DIE:
        if (rank->run->direct) {
            ls_place__tell(rank, LS_PLACE_DIED, NULL);
            (void)raise(SIGKILL);  // the rank is the process
        }
        rank->state = LS_RANK_DIED;
        *status = LS_FAIL_RANK(LS_ERR_RANK_DIED, rank->id, "rank %d died at %s:%d", rank->id,
                               rank->file, rank->line);
        return true;
    case LS_FAULT_DO_STALL:
        ls_turns__me(rank)->current = request;
        if (rank->run->direct) {
            ls_place__tell(rank, LS_PLACE_STALLS, NULL);
        }
        while (rank->run->direct) {
            (void)pause();
        }
        if (rank->run->remote != NULL) {  // no thread waits here for its program
            ls_remote__block(rank);
            rank->state = LS_RANK_STALLED;
            *status = LS_OK;
            return true;
        }
        ls_schedule__block(rank, LS_RANK_STALLED);
        ls_turns__me(rank)->current = NULL;
        *status = ls_spmd__failed(rank->run, rank);
        return true;
    }
    return false;
}

// Collectives of a communicator match in the order in which a rank makes them; calls that two
// threads make at once have no order.
static int check_threads(ls_request *request) {
    const ls_rank *rank = request->rank;
    for (const ls_thread *at = &rank->main; at != NULL; at = at->next) {
        const ls_request *other = at->current;
        if (other != NULL && other != request && other->comm == request->comm &&
            !ls_kind_is_message(other->call.kind) && !other->asynchronous) {
            char what[256], where[LS_CALL_WHERE_MAX];
            ls_call_describe(what, sizeof what, &other->call);
            return ls_findings__fatal_call(
                rank->run, LS_FINDING_CALL_INVALID, request,
                "thread %d of the rank is in %s at %s: two threads make collectives of one "
                "communicator at once, in no defined order",
                at->number, what, ls_call__where(where, &other->call));
        }
    }
    return LS_OK;
}

// Makes the call; a blocking one is on the caller's stack, and complete at the end.
static int make(ls_request *request) {
    ls_rank *rank = request->rank;
    ls_spmd *run = rank->run;
    if (rank->thread_count > 1 && !ls_kind_is_message(request->call.kind)) {
        LS_TRY(check_threads(request));
    }
    if (request->front == NULL) {
        LS_TRY(ls_checks__made(request));
        LS_TRY(ls_flight__open(request));
    }
    if (rank->group_depth > 0) {
        return LS_OK;
    }
    request->state = LS_REQUEST_POSTED;
    ls_hooks__enter(run, rank, request);
    if (run->direct) {
        return ls_direct__submit(request);
    }
    ls_thread *me = ls_turns__me(rank);
    me->current = request;
    int status = ls_meet__submit(request);
    if (status == LS_OK && !request->asynchronous && request->state != LS_REQUEST_DONE) {
        request->awaited = me;
        me->waiting = 1;
        status = ls_request__await(rank);
    }
    me->current = NULL;
    // A call that another rank's thread completed has no error in this thread.
    status = status == LS_OK && !request->asynchronous ? request->status : status;
    return status != LS_OK && run->status != LS_OK ? ls_spmd__failed(run, rank) : status;
}

static int post_heap(ls_rank_comm *comm, const ls_request *filled, ls_request **out,
                     bool detached) {
    ls_rank *rank = comm->rank;
    ls_request *request = ls_request__make(filled);
    LS_TRY_MEMORY(request != NULL);
    request->detached = detached;
    ls_request__list(rank, request);
    *out = request;
    return make(request);
}

__attribute__((noinline)) static int make_twice(ls_request *request) {
    ls_request first = *request;
    LS_TRY(make(&first));
    again(request->rank, request);
    return make(request);
}

static int post(const char *file, int line, ls_rank *rank, ls_rank_comm *comm, ls_request *own,
                ls_request **out) {
    ls_spmd *run = rank->run;
    if (rank->state == LS_RANK_DIED) {
        return LS_FAIL_RANK(LS_ERR_RANK_DIED, rank->id, "rank %d is dead", rank->id);
    }
    if (run->status == LS_OK) {
        ls_schedule__yield(rank);
    }
    if (run->status != LS_OK) {
        ls_request__drain(rank);
        return ls_spmd__failed(run, rank);
    }
    LS_ASSERT(comm == NULL || comm->magic == LS_RANK_COMM_MAGIC);
    if (comm == NULL || comm->destroyed || comm->rank != rank) {
        return refuse_handle(rank, comm, own, file, line);
    }
    fill(own, comm, file, line);
    bool twice = false;
    int status = LS_OK;
    if (run->options.fault_count > 0 && inject(&status, &twice, own)) {
        return status;
    }
    if (run->direct && rank->slow) {  // where no schedule can hold it back
        ls_time_sleep(1e-9 * SLOW_NANOSECONDS);
    }
    remember(rank, own);
    bool heap = out != NULL || rank->group_depth > 0;
    if (heap) {
        own->asynchronous = out != NULL;
        own->group = rank->group_depth > 0 ? rank->groups : 0;
        ls_request *made = NULL;
        if (twice) {
            LS_TRY(post_heap(comm, own, &made, out != NULL));
            again(rank, own);
        }
        LS_TRY(post_heap(comm, own, &made, false));
        if (out != NULL) {
            *out = made;
        }
        return LS_OK;
    }
    return twice ? make_twice(own) : make(own);
}

int ls_call__post(const char *file, int line, ls_rank_comm *comm, ls_request *own,
                  ls_request **request) {
    ls_rank *rank = ls_schedule__current();
    if (request != NULL) {
        *request = NULL;
    }
    if (rank == NULL) {
        if (comm != NULL && comm->magic == LS_RANK_COMM_MAGIC) {
            atomic_store(&comm->rank->foreign_line, line);
            atomic_store(&comm->rank->foreign_file, file);
        }
        return LS_FAIL(LS_ERR_INVALID,
                       "%s:%d: a call outside of a program, or by a thread that is not attached to "
                       "a rank (ls_rank_attach)",
                       file, line);
    }
    ls_schedule__enter(rank);
    int status = post(file, line, rank, comm, own, request);
    ls_schedule__leave(rank);
    return status;
}

// ---- Groups ------------------------------------------------------------------------------------
int ls_group_start_at(const char *file, int line, ls_rank *self) {
    if (self == NULL || self != ls_schedule__current()) {
        return ls_findings__refuse(ls_schedule__current(), file, line,
                                   "ls_group_start of another rank");
    }
    if (self->group_depth == 0) {
        self->group_file = file;
        self->group_line = line;
        self->group_end_file = NULL;
    }
    self->group_depth += 1;
    self->groups += self->group_depth == 1 ? 1 : 0;
    return LS_OK;
}

static int submit_group(ls_rank *rank) {
    ls_spmd *run = rank->run;
    ls_thread *me = ls_turns__me(rank);
    me->waiting = 0;
    for (ls_request *at = rank->open, *next; at != NULL; at = next) {
        next = at->next;
        if (at->state != LS_REQUEST_GROUPED) {
            continue;
        }
        at->state = LS_REQUEST_POSTED;
        ls_hooks__enter(run, rank, at);
        bool blocking = !at->asynchronous;
        at->awaited = blocking ? me : NULL;
        me->waiting += blocking ? 1 : 0;
        LS_TRY(run->direct ? ls_direct__submit(at) : ls_meet__submit(at));
    }
    return LS_OK;
}

static int end_group(const char *file, int line, ls_rank *rank) {
    ls_spmd *run = rank->run;
    rank->file = file;
    rank->line = line;
    ls_seen__at(rank->id, file, line);
    if (run->status != LS_OK) {
        ls_request__drain(rank);
        return ls_spmd__failed(run, rank);
    }
    int status = submit_group(rank);
    if (status == LS_OK) {
        status = run->direct ? ls_direct__group_end(rank) : ls_request__await(rank);
    }
    if (status != LS_OK) {
        return run->status != LS_OK ? ls_spmd__failed(run, rank) : status;
    }
    for (ls_request *at = rank->open, *next; at != NULL; at = next) {
        next = at->next;
        if (!at->asynchronous && at->state == LS_REQUEST_DONE) {
            ls_request__free(rank, at);
        }
    }
    return LS_OK;
}

int ls_group_end_at(const char *file, int line, ls_rank *self) {
    if (self == NULL || self != ls_schedule__current() || self->group_depth == 0) {
        ls_rank *rank = ls_schedule__current();
        if (rank == NULL || rank != self || rank->group_end_file == NULL) {
            return ls_findings__refuse(rank, file, line, "ls_group_end without its ls_group_start");
        }
        return ls_findings__refuse(rank, file, line,
                                   "ls_group_end without its ls_group_start: the last group was "
                                   "opened at %s:%d and ended at %s:%d",
                                   rank->group_file, rank->group_line, rank->group_end_file,
                                   rank->group_end_line);
    }
    self->group_depth -= 1;
    self->group_end_file = self->group_depth == 0 ? file : NULL;
    self->group_end_line = line;
    if (self->group_depth > 0 || self->state == LS_RANK_DIED) {
        return LS_OK;
    }
    ls_schedule__enter(self);
    int status = end_group(file, line, self);
    ls_schedule__leave(self);
    return status;
}
