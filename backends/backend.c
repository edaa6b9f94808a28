// Common to all backends: call numbers, the observer, and buffers of a group that overlap; and the
// math, for those that do it themselves.
#include "backends/backend.h"

#include <stdlib.h>

#include "backends/sim/sim_device.h"
#include "collectives/check.h"
#include "collectives/hooks.h"

ls_world *ls_backend_world(const ls_backend *backend) {
    return backend->world;
}

void ls_backend_free(ls_backend *backend) {
    if (backend == NULL) {
        return;
    }
    for (int axis = 0; axis < LS_MESH_DIMS_MAX; axis++) {
        ls_axis_free(backend->axes[axis]);
    }
    ls_comm_free(backend->everyone);
    backend->ops->destroy(backend);
}

// A call must be one of a rank held here, on a communicator of this backend, before it gets a
// number.
static int admit(const ls_backend *backend, const ls_call *call) {
    char text[256];
    if (call->comm == NULL || call->comm->backend != backend) {
        ls_call_format(text, sizeof text, call);
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank,
                            "%s: its communicator belongs to another backend", text);
    }
    if (call->comm->closed) {
        ls_call_format(text, sizeof text, call);
        ls_check__note(LS_FINDING_HANDLE_USE_AFTER_FREE, call);
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "%s: its communicator was closed", text);
    }
    if (ls_comm_member(call->comm, call->rank) < 0) {
        ls_call_format(text, sizeof text, call);
        ls_check__note(LS_FINDING_GROUP_MISMATCH, call);
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank,
                            "%s: the rank is not a member of the communicator", text);
    }
    if (ls_world_held_index(backend->world, call->rank) < 0) {
        ls_call_format(text, sizeof text, call);
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "%s: the rank is not held by this process",
                            text);
    }
    return LS_OK;
}

// Runs them as debuggers see it.
static int run_told(ls_backend *backend, ls_call *calls, int call_count) {
    const ls_gdb_group before = ls_gdb_now;
    ls_gdb_now = (ls_gdb_group){.backend = backend, .calls = calls, .count = call_count};
    ls_hooks__group(backend, calls, call_count);
    int status = backend->ops->run(backend, calls, call_count);
    if (status != LS_OK) {
        if (ls_check_last()->found) {
            ls_hooks__before_stop();
        }
        ls_gdb_hook_refused(backend, calls, call_count, ls_check_last());
    }
    ls_gdb_now = before;
    return status;
}

int ls_backend_run(ls_backend *backend, ls_call *calls, int call_count) {
    LS_ASSERT(backend != NULL && call_count >= 0 && (calls != NULL || call_count == 0));
    ls_check_clear();
    for (int i = 0; i < call_count; i++) {
        LS_TRY(admit(backend, &calls[i]));
    }
    for (int i = 0; i < call_count; i++) {
        const ls_comm *comm = calls[i].comm;
        calls[i].seq = comm->seq[ls_comm_member(comm, calls[i].rank)]++;
    }
    int status = backend->ops->forwards ? backend->ops->run(backend, calls, call_count)
                                        : run_told(backend, calls, call_count);
    if (status != LS_OK) {
        for (int i = 0; i < call_count; i++) {
            const ls_comm *comm = calls[i].comm;
            comm->seq[ls_comm_member(comm, calls[i].rank)]--;
        }
        return status;
    }
    for (int i = 0; i < call_count && backend->observer != NULL; i++) {
        backend->observer(backend->observer_arg, &calls[i]);
    }
    return LS_OK;
}

int ls_backend_start(void **pending, ls_backend *backend, ls_call *call) {
    LS_ASSERT(pending != NULL && backend != NULL && call != NULL);
    *pending = NULL;
    if (backend->ops->start == NULL) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "the %s backend completes calls one after another",
                       backend->ops->name);
    }
    ls_check_clear();
    LS_TRY(admit(backend, call));
    call->seq = call->comm->seq[ls_comm_member(call->comm, call->rank)]++;
    ls_gdb_hook_group(backend, call, 1);
    LS_TRY(backend->ops->start(backend, call, pending));
    // Noted when it starts, so that the log has the order in which the program makes calls,
    // whichever ends first.
    if (backend->observer != NULL) {
        backend->observer(backend->observer_arg, call);
    }
    return LS_OK;
}

int ls_backend_test(bool *done, ls_backend *backend, void *pending, const ls_call *call) {
    *done = false;
    ls_check_clear();
    int status = backend->ops->test(backend, pending, done);
    if (status != LS_OK) {
        if (ls_check_last()->found) {
            ls_hooks__before_stop();
        }
        ls_gdb_hook_refused(backend, call, 1, ls_check_last());
    }
    return status;
}

// ---- The math -----------------------------------------------------------------------------------
int ls_backend__compute(ls_backend *backend, const ls_match *match) {
    int status = LS_OK;
    for (int e = 0; e < match->event_count && status == LS_OK; e++) {
        const ls_event *event = &match->events[e];
        ls_hooks__met(backend, event->calls, event->size);
        const ls_order *order = backend->order;
        if (backend->order_of != NULL && event->collective->reduces) {
            status = backend->order_of(backend->order_of_arg, &order, event->calls[0]);
        }
        if (status == LS_OK) {
            status = backend->device == NULL
                         ? event->collective->math(event->calls, event->size, order)
                         : ls_sim_device__math(backend->device, event, order);
        }
        if (status != LS_OK) {
            char text[256];
            ls_call_format(text, sizeof text, event->calls[0]);
            status = ls_error_wrap("%s", text);
        }
    }
    return status;
}

// ---- Overlap ------------------------------------------------------------------------------------
typedef struct interval {
    uintptr_t start;
    uintptr_t end;
    bool written;
    int call;
} interval;

static int compare_intervals(const void *a, const void *b) {
    const interval *x = a, *y = b;
    if (x->start != y->start) {
        return x->start < y->start ? -1 : 1;
    }
    return (x->call > y->call) - (x->call < y->call);
}

static int fail_overlap(const ls_call *a, const ls_call *b) {
    char a_text[256], b_text[256];
    ls_call_format(a_text, sizeof a_text, a);
    ls_call_format(b_text, sizeof b_text, b);
    ls_check__note(LS_FINDING_BUFFER_OVERLAP, a);
    if (b->rank != a->rank) {
        ls_check__note_rank(b);
    }
    return LS_FAIL_RANK(LS_ERR_INVALID, a->rank,
                        "%s and %s are concurrent, and one writes memory that the other uses",
                        a_text, b_text);
}

// Calls in the backend's order, one after the other, or in the order of their matches.
typedef struct call_list {
    const ls_call *in_turn;
    const ls_call *const *met;
} call_list;

static const ls_call *call_at(const call_list *calls, int i) {
    return calls->met != NULL ? calls->met[i] : &calls->in_turn[i];
}

static int sweep(interval *intervals, size_t count, const call_list *calls) {
    qsort(intervals, count, sizeof *intervals, compare_intervals);
    const interval *reach = NULL, *reach_written = NULL;  // those that end last so far
    for (size_t i = 0; i < count; i++) {
        const interval *now = &intervals[i];
        const interval *other = now->written ? reach : reach_written;
        if (other != NULL && other->end > now->start) {
            return fail_overlap(call_at(calls, other->call), call_at(calls, now->call));
        }
        if (reach == NULL || now->end > reach->end) {
            reach = now;
        }
        if (now->written && (reach_written == NULL || now->end > reach_written->end)) {
            reach_written = now;
        }
    }
    return LS_OK;
}

// The result of the call before it, which both take in one buffer.
static bool takes_the_same(const ls_call *call, const ls_call *before) {
    return before != NULL && call->recv_shared && before->recv_shared &&
           call->recv == before->recv && call->kind == before->kind && call->comm == before->comm &&
           ls_collective_of(call->kind)->replicates;
}

static int check_overlap(const call_list *calls, int call_count) {
    void *memory = NULL;
    size_t room = 2 * (size_t)call_count, count = 0;
    LS_TRY(ls_alloc(&memory, room, sizeof(interval)));
    interval *intervals = memory;
    int status = LS_OK;
    for (int i = 0; i < call_count && status == LS_OK; i++) {
        const ls_call *call = call_at(calls, i), *before = i > 0 ? call_at(calls, i - 1) : NULL;
        ls_call_extent extent;
        status = ls_call_check(&extent, call);
        if (status != LS_OK) {
            break;
        }
        if (call->overstated) {
            continue;
        }
        uintptr_t send = (uintptr_t)call->send, recv = (uintptr_t)call->recv;
        uintptr_t send_end = send + extent.send_bytes, recv_end = recv + extent.recv_bytes;
        if (extent.in_place) {
            // One is inside of the other, and the call may access both.
            uintptr_t start = send < recv ? send : recv;
            uintptr_t end = send_end > recv_end ? send_end : recv_end;
            intervals[count++] = (interval){start, end, true, i};
            continue;
        }
        if (extent.send_bytes != 0) {
            intervals[count++] = (interval){send, send_end, false, i};
        }
        if (extent.recv_bytes != 0 && !takes_the_same(call, before)) {
            intervals[count++] = (interval){recv, recv_end, true, i};
        }
    }
    status = status == LS_OK ? sweep(intervals, count, calls) : status;
    ls_free(memory, room, sizeof(interval));
    return status;
}

int ls_backend__check_overlap(const ls_call *calls, int call_count) {
    return check_overlap(&(call_list){.in_turn = calls}, call_count);
}

int ls_backend__check_overlap_met(const ls_call *const *calls, int call_count) {
    return check_overlap(&(call_list){.met = calls}, call_count);
}
