// Programs where this process holds one rank (MPI): calls go to the backend, which meets the
// others. Asynchronous and grouped calls wait in the rank's list; they are handed over as one group
// when one of them is waited for, and those on a communicator before any later collective on it.
#include "ranks/internal.h"

// Hands over the open calls that `wanted` selects, in order, with `last` behind them (or NULL).
static int flush(ls_rank *rank, const ls_shared_comm *only, ls_request *last) {
    int count = last != NULL ? 1 : 0;
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        count += at->state == LS_REQUEST_POSTED && at != last &&
                         (only == NULL || at->comm->shared == only)
                     ? 1
                     : 0;
    }
    if (count == 0) {
        return LS_OK;
    }
    void *memory = NULL, *requests_memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)count, sizeof(ls_call)));
    int status = ls_alloc(&requests_memory, NULL, (size_t)count, sizeof(ls_request *));
    ls_call *calls = memory;
    ls_request **requests = requests_memory;
    if (status == LS_OK) {
        int next = 0;
        for (ls_request *at = rank->open; at != NULL; at = at->next) {
            if (at->state == LS_REQUEST_POSTED && at != last &&
                (only == NULL || at->comm->shared == only)) {
                requests[next] = at;
                calls[next++] = at->call;
            }
        }
        if (last != NULL) {
            requests[next] = last;
            calls[next++] = last->call;
        }
        status = ls_backend_run(rank->run->backend, calls, count);
        for (int i = 0; i < count && status == LS_OK; i++) {
            requests[i]->state = LS_REQUEST_DONE;
            requests[i]->status = LS_OK;
            rank->waiting -= requests[i]->awaited ? 1 : 0;
            requests[i]->awaited = false;
        }
    }
    ls_free(NULL, memory, (size_t)count, sizeof(ls_call));
    ls_free(NULL, requests_memory, (size_t)count, sizeof(ls_request *));
    return status;
}

static int refuse(const ls_request *request) {
    return LS_FAIL_RANK(LS_ERR_UNSUPPORTED, request->rank->id,
                        "%s is not possible where every process holds one rank; use a mesh axis",
                        ls_findings__verb_name(&request->call, request->verb));
}

int ls_direct__submit(ls_request *request) {
    if (request->verb != LS_VERB_CALL) {
        return refuse(request);
    }
    if (request->asynchronous || request->awaited) {
        return LS_OK;  // waits for ls_wait, or for the end of its group
    }
    bool p2p = request->call.kind == LS_SEND || request->call.kind == LS_RECV;
    if (p2p) {
        return flush(request->rank, NULL, request);
    }
    return flush(request->rank, request->comm->shared, request);
}

int ls_direct__wait(ls_request *request) {
    if (request == NULL) {  // the end of a group
        return flush(ls_schedule__current(), NULL, NULL);
    }
    return request->state == LS_REQUEST_DONE ? LS_OK : flush(request->rank, NULL, NULL);
}
