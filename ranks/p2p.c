// Where sends and receives meet: of each pair of members of a communicator, the i-th send with the
// i-th receive. A send is complete when its receive is there (rendezvous), so a program that counts
// on buffering shows.
#include "ranks/internal.h"

static ls_request **list_of(const ls_request *request) {
    ls_shared_comm *shared = request->comm->shared;
    // Both lists hang at the receiver.
    return request->call.kind == LS_SEND ? &shared->sends[request->call.root]
                                         : &shared->recvs[request->comm->member];
}

static int sender_of(const ls_request *request) {
    return request->call.kind == LS_SEND ? request->comm->member : request->call.root;
}

// The oldest waiting counterpart, taken from its list; NULL: none.
static ls_request *take_counterpart(const ls_request *request) {
    ls_shared_comm *shared = request->comm->shared;
    bool send = request->call.kind == LS_SEND;
    ls_request **at =
        send ? &shared->recvs[request->call.root] : &shared->sends[request->comm->member];
    for (; *at != NULL; at = &(*at)->next_p2p) {
        if (sender_of(*at) == sender_of(request)) {
            ls_request *found = *at;
            *at = found->next_p2p;
            return found;
        }
    }
    return NULL;
}

static bool fits(const ls_request *a, const ls_request *b) {
    return a->call.count == b->call.count && a->call.dtype == b->call.dtype;
}

// Whether the rank of `request` has another open call to the same peer that would fit `other`.
static bool posts_later(const ls_request *request, const ls_request *other) {
    for (const ls_request *at = request->rank->open; at != NULL; at = at->next) {
        if (at != request && at->comm == request->comm && at->state <= LS_REQUEST_POSTED &&
            at->call.kind == request->call.kind && at->call.root == request->call.root &&
            fits(at, other)) {
            return true;
        }
    }
    return false;
}

// A message that does not fit its receive, but a later one of the same two ranks, was most likely
// posted in another order. What they post later is known when nobody can go on.
void ls_p2p__decide(ls_spmd *run) {
    ls_request *pair[2] = {run->suspects[0], run->suspects[1]};
    const ls_call *calls[2] = {&pair[0]->call, &pair[1]->call};
    run->suspects[0] = run->suspects[1] = NULL;
    int status = ls_collective_of(LS_SEND)->check(calls, 2);
    LS_ASSERT(status != LS_OK);
    ls_finding_id id = ls_check_last()->id;
    bool mismatch = ls_check_last()->found &&
                    (id == LS_FINDING_P2P_COUNT_MISMATCH || id == LS_FINDING_P2P_DTYPE_MISMATCH);
    if (mismatch && (posts_later(pair[1], pair[0]) || posts_later(pair[0], pair[1]))) {
        (void)ls_error_wrap("the two ranks post their messages in different orders");
        ls_check__note(LS_FINDING_P2P_ORDER_MISMATCH, calls[0]);
        if (calls[1]->rank != calls[0]->rank) {
            ls_check__note_rank(calls[1]);
        }
    }
    status = ls_findings__add_check(run, pair, 2);
    ls_spmd__fail(run, status,
                  ls_check_last()->found ? ls_finding_name(ls_check_last()->id)
                                         : ls_error_last()->text);
}

static int meet(ls_spmd *run, ls_request *send, ls_request *recv) {
    const ls_call *calls[2] = {&send->call, &recv->call};
    if (ls_collective_of(LS_SEND)->check(calls, 2) != LS_OK) {
        run->suspects[0] = send;
        run->suspects[1] = recv;
        return LS_OK;  // until nobody can go on
    }
    send->state = LS_REQUEST_MATCHED;
    recv->state = LS_REQUEST_MATCHED;
    ls_checks__hash_check(send);
    ls_checks__hash_check(recv);
    ls_hooks__met(run->backend, calls, 2);
    ls_request *pair[2] = {send, recv};
    return run->remote != NULL ? ls_remote__met(run, pair, 2) : ls_p2p__move(run, pair);
}

int ls_p2p__move(ls_spmd *run, ls_request *const pair[2]) {
    const ls_call *calls[2] = {ls_flight__call(pair[0]), ls_flight__call(pair[1])};
    int status = ls_spmd__complete(run, calls, 2);
    if (status == LS_OK) {
        ls_values__met(run, pair, &(ls_value_watch){.size = 2});
    }
    ls_request__done(pair[0], status);
    ls_request__done(pair[1], status);
    if (status != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    return status;
}

int ls_p2p__submit(ls_request *request) {
    ls_spmd *run = request->rank->run;
    ls_checks__hash(request);
    ls_request *other = take_counterpart(request);
    if (other == NULL) {
        ls_request **at = list_of(request);
        while (*at != NULL) {
            at = &(*at)->next_p2p;
        }
        request->next_p2p = NULL;
        *at = request;
        return LS_OK;
    }
    return request->call.kind == LS_SEND ? meet(run, request, other) : meet(run, other, request);
}
