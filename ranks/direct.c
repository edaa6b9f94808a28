// Programs in which this process holds one rank (MPI, NCCL with a process for each GPU). Calls go
// to the backend, which matches the others: at once, if it completes calls concurrently (MPI), else
// in call order, at the latest when one of them or a later one is waited for. A rank's other work
// delays the others, and cannot block them forever.
#include <string.h>

#include "ranks/internal.h"

static bool is_p2p(const ls_request *request) {
    return ls_kind_is_message(request->call.kind);
}

// Hands over requests [count] as one group.
static int run_group(ls_request **requests, int count) {
    void *memory = NULL;
    int status = ls_alloc(&memory, (size_t)count, sizeof(ls_call));
    ls_call *calls = memory;
    if (status == LS_OK) {
        for (int i = 0; i < count; i++) {
            calls[i] = requests[i]->call;
        }
        status = ls_backend_run(requests[0]->rank->run->backend, calls, count);
        ls_free(memory, (size_t)count, sizeof(ls_call));
    }
    if (status != LS_OK) {
        return ls_direct__fail(requests[0], status);
    }
    for (int i = 0; i < count; i++) {
        ls_request__done(requests[i], LS_OK);
    }
    return LS_OK;
}

// In a group, calls have no order of their own: collectives first, by communicator, as all ranks
// see them; then sends and receives together.
static void order_group(ls_request **requests, int count) {
    for (int i = 1; i < count; i++) {
        ls_request *moved = requests[i];
        int at = i;
        while (at > 0) {
            const ls_request *before = requests[at - 1];
            bool later = is_p2p(before) != is_p2p(moved)
                             ? is_p2p(before)
                             : !is_p2p(moved) && before->call.comm->id > moved->call.comm->id;
            if (!later) {
                break;
            }
            requests[at] = requests[at - 1];
            at -= 1;
        }
        requests[at] = moved;
    }
}

// The end of what belongs together from `first` on: a group, or sends and receives in a row.
static int end_of(ls_request *const *requests, int first, int count, bool groups) {
    int end = first + 1;
    if (groups) {
        while (end < count && requests[first]->group != 0 &&
               requests[end]->group == requests[first]->group) {
            end += 1;
        }
        return end;
    }
    while (end < count && is_p2p(requests[first]) && is_p2p(requests[end])) {
        end += 1;
    }
    return end;
}

// Hands over requests [count], in order, until `last` is done (NULL: all).
static int run_list(ls_request **requests, int count, const ls_request *last) {
    for (int first = 0, end; first < count; first = end) {
        end = end_of(requests, first, count, true);
        order_group(requests + first, end - first);
    }
    for (int first = 0, end; first < count; first = end) {
        end = end_of(requests, first, count, false);
        LS_TRY(run_group(requests + first, end - first));
        if (last != NULL && last->state == LS_REQUEST_DONE) {
            return LS_OK;
        }
    }
    return LS_OK;
}

// Hands over the calls that wait, and `own` (NULL: none), until `last` is done (NULL: all).
static int flush(ls_rank *rank, ls_request *own, const ls_request *last) {
    const ls_request *awaited = own != NULL ? own : last;
    int count = own != NULL ? 1 : 0;
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        count += at->state == LS_REQUEST_POSTED && at != own ? 1 : 0;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(ls_request *)));
    ls_request **requests = memory;
    int next = 0;
    for (ls_request *at = rank->open; at != NULL; at = at->next) {
        if (at->state == LS_REQUEST_POSTED && at != own) {
            awaited = awaited == NULL ? at : awaited;
            requests[next++] = at;
        }
    }
    if (own != NULL) {
        requests[next++] = own;
    }
    if (awaited != NULL) {
        ls_place__tell(rank, LS_PLACE_WAITS, awaited);
    }
    int status = run_list(requests, next, last);
    ls_place__tell(rank, LS_PLACE_RUNS, NULL);
    ls_free(memory, (size_t)count, sizeof(ls_request *));
    return status;
}

// ---- Backends that complete calls side by side --------------------------------------------------
static bool side_by_side(const ls_spmd *run) {
    return run->backend->ops->start != NULL;
}

static int await(ls_request *request) {
    ls_rank *rank = request->rank;
    bool done = request->state == LS_REQUEST_DONE, told = false;
    while (!done) {
        int status = ls_backend_test(&done, rank->run->backend, request->pending, &request->call);
        if (status != LS_OK) {
            return ls_direct__fail(request, status);
        }
        if (done) {
            ls_request__done(request, LS_OK);
        } else if (!told) {
            ls_place__tell(rank, LS_PLACE_WAITS, request);
            told = true;
        }
    }
    if (told) {
        ls_place__tell(rank, LS_PLACE_RUNS, NULL);
    }
    return LS_OK;
}

static int start(ls_request *request) {
    ls_backend *backend = request->rank->run->backend;
    int status = ls_backend_start(&request->pending, backend, &request->call);
    return status == LS_OK ? LS_OK : ls_direct__fail(request, status);
}

// All that is open, or all that the rank waits for at the end of a group.
static int await_all(ls_rank *rank, bool awaited_only) {
    for (ls_request *at = rank->open; at != NULL; at = at->next) {
        if (at->state == LS_REQUEST_POSTED && (at->awaited || !awaited_only)) {
            LS_TRY(await(at));
        }
    }
    return LS_OK;
}

// ---- Calls --------------------------------------------------------------------------------------
int ls_direct__submit(ls_request *request) {
    ls_spmd *run = request->rank->run;
    if (ls_kind_is_ask(request->call.kind)) {
        LS_TRY(side_by_side(run) ? LS_OK : flush(request->rank, NULL, NULL));
        ls_place__tell(request->rank, LS_PLACE_WAITS, request);
        int status = ls_direct__ask(request);
        ls_place__tell(request->rank, LS_PLACE_RUNS, NULL);
        return status;
    }
    bool later = request->asynchronous || request->awaited;  // at ls_wait, or its group's end
    if (side_by_side(run)) {
        LS_TRY(start(request));
        return later ? LS_OK : await(request);
    }
    return later ? LS_OK : flush(request->rank, request, NULL);
}

int ls_direct__group_end(ls_rank *rank) {
    return side_by_side(rank->run) ? await_all(rank, true) : flush(rank, NULL, NULL);
}

int ls_direct__wait(ls_request *request) {
    if (side_by_side(request->rank->run)) {
        return await(request);
    }
    return request->state == LS_REQUEST_DONE ? LS_OK : flush(request->rank, NULL, request);
}

int ls_direct__finish(ls_rank *rank) {
    return side_by_side(rank->run) ? await_all(rank, false) : flush(rank, NULL, NULL);
}
