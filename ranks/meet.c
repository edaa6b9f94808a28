// Matches collectives: call number i of every member of a communicator is one collective. The last
// to arrive checks that all agree and does the math on all buffers.
#include <string.h>

#include "backends/backend.h"
#include "ranks/internal.h"

static int make_meet(ls_meet **out, ls_shared_comm *shared) {
    if (shared->free_meets != NULL) {
        *out = shared->free_meets;
        shared->free_meets = (*out)->next_free;
        return LS_OK;
    }
    void *memory = NULL;
    size_t size = (size_t)shared->comm->size;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_meet)));
    ls_meet *meet = memory;
    int status = ls_alloc(&memory, size, sizeof(ls_request *));
    meet->requests = status == LS_OK ? memory : NULL;
    if (status == LS_OK) {
        status = ls_alloc(&memory, size, sizeof(ls_call *));
        meet->calls = status == LS_OK ? memory : NULL;
    }
    if (status != LS_OK) {
        ls_meet__free(shared, meet);
        return status;
    }
    meet->shared = shared;
    *out = meet;
    return LS_OK;
}

static int grow(ls_shared_comm *shared) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 2 * shared->room, sizeof(ls_meet *)));
    ls_meet **ring = memory;
    for (uint64_t i = 0; i < shared->count; i++) {
        uint64_t round = shared->base + i;
        ring[round % (2 * shared->room)] = shared->ring[round % shared->room];
    }
    ls_free((void *)shared->ring, shared->room, sizeof(ls_meet *));
    shared->ring = ring;
    shared->room *= 2;
    return LS_OK;
}

static int meet_for(ls_meet **out, ls_shared_comm *shared, uint64_t round) {
    LS_ASSERT(round >= shared->base && round <= shared->base + shared->count);
    *out = ls_meet__at(shared, round);
    if (*out != NULL) {
        return LS_OK;
    }
    if (shared->count == shared->room) {
        LS_TRY(grow(shared));
    }
    LS_TRY(make_meet(out, shared));
    (*out)->round = round;
    (*out)->arrived = 0;
    (*out)->edge_count = 0;
    memset((void *)(*out)->requests, 0, (size_t)shared->comm->size * sizeof(ls_request *));
    shared->ring[round % shared->room] = *out;
    shared->count += 1;
    return LS_OK;
}

// ---- Completing --------------------------------------------------------------------------------
// Calls agree elsewhere: here all are one.
static ls_kind ask_of(const ls_request *request) {
    return ls_kind_is_ask(request->call.kind) ? request->call.kind : LS_KIND_COUNT;
}

int ls_meet__check_asks(const ls_meet *meet) {
    int size = meet->shared->comm->size, changed = -1;
    for (int m = 1; m < size && changed < 0; m++) {
        changed = ask_of(meet->requests[m]) != ask_of(meet->requests[0]) ? m : -1;
    }
    if (changed < 0) {
        return LS_OK;
    }
    // The minority's kind is at fault; the first of them names the place.
    int like_first = 0;
    for (int m = 0; m < size; m++) {
        like_first += ask_of(meet->requests[m]) == ask_of(meet->requests[0]) ? 1 : 0;
    }
    bool first_is_wrong = 2 * like_first < size;
    bool noted = false;
    for (int m = 0; m < size; m++) {
        bool same = ask_of(meet->requests[m]) == ask_of(meet->requests[0]);
        if (same != first_is_wrong) {
            continue;
        }
        if (!noted) {
            ls_check__note(LS_FINDING_KIND_MISMATCH, meet->calls[m]);
        } else {
            ls_check__note_rank(meet->calls[m]);
        }
        noted = true;
    }
    const ls_request *a = meet->requests[0], *b = meet->requests[changed];
    return LS_FAIL_RANK(LS_ERR_MISMATCH, b->call.rank,
                        "call %llu on %s: kind differs: rank %d says %s, rank %d says %s",
                        (unsigned long long)a->call.seq, a->call.comm->name, a->call.rank,
                        ls_kind_name(a->call.kind), b->call.rank, ls_kind_name(b->call.kind));
}

static int check_overlap(const ls_spmd *run, const ls_meet *meet) {
    // Addresses of different processes are unrelated.
    if (!run->checks[LS_FINDING_BUFFER_OVERLAP] || run->remote != NULL) {
        return LS_OK;
    }
    return ls_backend__check_overlap_met(meet->calls, meet->shared->comm->size);
}

static int check_meet(ls_spmd *run, ls_meet *meet) {
    LS_TRY(ls_meet__check_asks(meet));
    if (ls_kind_is_ask(meet->requests[0]->call.kind)) {
        return LS_OK;
    }
    int size = meet->shared->comm->size;
    // First: a purpose distinguishes ranks that are a call ahead or behind.
    if (run->checks[LS_FINDING_PURPOSE_MISMATCH]) {
        LS_TRY(ls_check__purposes(meet->calls, size));
    }
    LS_TRY(ls_calls_check(meet->calls, size));
    return check_overlap(run, meet);
}

static int do_meet(ls_spmd *run, ls_meet *meet) {
    ls_shared_comm *shared = meet->shared;
    int size = shared->comm->size;
    switch (meet->requests[0]->call.kind) {
    case LS_COMM_SPLIT:
        return ls_comm__split(run, shared, meet->requests);
    case LS_COMM_SUBSET:
        return ls_comm__subset(run, shared, meet->requests);
    case LS_CHECK_REPLICA:
    case LS_CHECK_REPLICAS:
        return ls_checks__asked(run, shared, meet->requests);
    default:
        break;
    }
    for (int m = 0; m < size; m++) {
        meet->requests[m]->state = LS_REQUEST_MATCHED;
        ls_checks__matched(meet->requests[m]);
    }
    ls_hooks__met(run->backend, meet->calls, size);
    return run->remote != NULL ? run->remote_met(run, meet->requests, size)
                               : ls_meet__move(run, meet);
}

int ls_meet__move(ls_spmd *run, ls_meet *meet) {
    int size = meet->shared->comm->size;
    for (int m = 0; m < size; m++) {
        meet->calls[m] = ls_flight__call(meet->requests[m]);
    }
    ls_move move = {.shared = meet->shared, .requests = meet->requests, .size = size};
    ls_checks__moving(run, &move);
    int status = meet->requests[0]->collected ? LS_OK : ls_spmd__complete(run, meet->calls, size);
    if (status == LS_OK) {
        ls_checks__moved(run, &move);
    }
    ls_checks__over(run, &move);
    return status;
}

static void pop(ls_shared_comm *shared, ls_meet *meet) {
    LS_ASSERT(shared->count > 0 && shared->ring[shared->base % shared->room] == meet);
    shared->base += 1;
    shared->count -= 1;
}

static int complete(ls_spmd *run, ls_meet *meet) {
    ls_shared_comm *shared = meet->shared;
    int size = shared->comm->size;
    for (int m = 0; m < size; m++) {
        meet->calls[m] = &meet->requests[m]->call;
    }
    if (meet->requests[0]->front == NULL && check_meet(run, meet) != LS_OK) {
        if (run->lookahead != NULL) {
            return LS_OK;  // a witness's: one mismatch is enough
        }
        int status = ls_lookahead__start(run, meet);
        if (status != LS_OK) {
            return status;
        }
        pop(shared, meet);
        meet->next_free = shared->free_meets;
        shared->free_meets = meet;
        return LS_OK;
    }
    int status = ls_checks__agreed(run, meet);
    pop(shared, meet);
    const ls_front *front = meet->requests[0]->front;
    if (status == LS_OK && front != NULL) {
        ls_hooks__matched(run->backend, meet->calls, size);
        status = front->met(run, meet->requests, size);
    } else if (status == LS_OK) {
        status = do_meet(run, meet);
    }
    for (int m = 0; m < size; m++) {
        if (status == LS_OK && meet->requests[m]->state == LS_REQUEST_MATCHED &&
            run->remote != NULL) {
            continue;  // until its data has arrived
        }
        if (status == LS_OK && !meet->requests[m]->asynchronous && front == NULL) {
            ls_checks__completed(meet->requests[m]);
        }
        ls_request__done(meet->requests[m], status);
    }
    meet->next_free = shared->free_meets;
    shared->free_meets = meet;
    if (status != LS_OK && run->status == LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    return status;
}

int ls_meet__submit(ls_request *request) {
    ls_spmd *run = request->rank->run;
    ls_shared_comm *shared = request->comm->shared;
    request->call.seq = shared->comm->seq[request->comm->member]++;
    if (run->suspects[0] != NULL) {
        return LS_OK;  // the run is over; posted calls help to explain it
    }
    if (run->lookahead != NULL && ls_lookahead__submit(request)) {
        return run->status;
    }
    if (ls_kind_is_message(request->call.kind)) {
        return ls_p2p__submit(request);
    }
    int member = request->comm->member;
    uint64_t round = shared->rounds[member];
    ls_meet *meet = NULL;
    int status = meet_for(&meet, shared, round);
    if (status != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
        return status;
    }
    shared->rounds[member] = round + 1;
    meet->requests[member] = request;
    meet->arrived += 1;
    request->meet = meet;
    if (request->front == NULL) {
        ls_checks__posted(request);
    }
    return meet->arrived == shared->comm->size ? complete(run, meet) : LS_OK;
}
