// Since when replicas differ. After each collective of its communicator a member notes what its
// copy holds, as a hash: at once where it blocks, at the wait where it does not. Invariant: members
// that made the same calls noted the same data. A difference is no finding by itself, since a copy
// may be about to be gathered again; it is what a finding names, when the copies are compared.
//
// Hashing reads the copy, so a large one is looked at when as many bytes have been moved as it has.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "ranks/internal.h"
#include "ranks/checks/replica.h"

#define SMALL_BYTES ((size_t)64 << 10)

static void forget(ls_replica_mark *mark, int size) {
    ls_free(mark->hashes, (size_t)size, sizeof(uint64_t));
    *mark = (ls_replica_mark){0};
}

void ls_replica_marks__close(ls_replica_set *set) {
    for (int i = 0; i < LS_REPLICA_MARKS; i++) {
        forget(&set->marks[i], set->shared->comm->size);
    }
}

// The mark of that round; the oldest gives way.
static ls_replica_mark *mark_of(ls_replica_set *set, const ls_request *request) {
    ls_replica_mark *oldest = &set->marks[0];
    uint64_t seq = request->call.seq;
    for (int i = 0; i < LS_REPLICA_MARKS; i++) {
        ls_replica_mark *at = &set->marks[i];
        if (at->hashes != NULL && at->seq == seq) {
            return at;
        }
        if (at->hashes == NULL || (oldest->hashes != NULL && at->seq < oldest->seq)) {
            oldest = at;
        }
    }
    int size = set->shared->comm->size;
    void *memory = NULL;
    forget(oldest, size);
    if (ls_alloc(&memory, (size_t)size, sizeof(uint64_t)) != LS_OK) {
        return NULL;
    }
    *oldest = (ls_replica_mark){.seq = seq, .hashes = memory};
    return oldest;
}

// All members have noted: the first round after which they differ, until they are the same again.
static void conclude(ls_replica_set *set, const ls_replica_mark *mark, const ls_request *request) {
    ls_spmd *run = request->rank->run;
    bool same = true;
    for (int m = 0; m < set->shared->comm->size; m++) {
        same = same && mark->hashes[m] == mark->hashes[0];
    }
    ls_replica_since *since = &set->since;
    if (same) {
        since->known = false;
        return;
    }
    if (request->asynchronous &&
        ls_replica__touches(request, &set->copies[request->comm->member])) {
        ls_replica__differ(run, set, mark, request);
    }
    if (since->known) {
        return;
    }
    *since =
        (ls_replica_since){.known = true, .file = request->call.file, .line = request->call.line};
    ls_call_describe(since->what, sizeof since->what, &request->call);
}

static void note(ls_replica_set *set, const ls_request *request) {
    int member = request->comm->member;
    ls_replica_copy *own = &set->copies[member];
    size_t bytes = ls_replica__bytes(own);
    own->moved += request->send_bytes + request->recv_bytes;
    if (bytes > SMALL_BYTES && own->moved < bytes) {
        return;
    }
    own->moved = 0;
    ls_replica_mark *mark = mark_of(set, request);
    if (mark == NULL) {
        return;
    }
    if (ls_poison__any(request->rank->run, own->data, bytes)) {
        forget(mark, set->shared->comm->size);  // it is no value yet
        return;
    }
    mark->hashes[member] = ls_hash(LS_HASH_START, own->data, bytes);
    mark->noted += 1;
    if (mark->noted == set->shared->comm->size) {
        conclude(set, mark, request);
        forget(mark, set->shared->comm->size);
    }
}

void ls_replica_marks__complete(const ls_request *request) {
    const ls_spmd *run = request->rank->run;
    if (run->replicas == NULL || run->direct || run->borrowed || run->status != LS_OK ||
        !run->checks[LS_FINDING_REPLICA_DIVERGED] || ls_kind_is_message(request->call.kind)) {
        return;
    }
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        if (!set->over && set->shared == request->comm->shared && ls_replica__whole(set) &&
            !ls_replica__in_use(request, &set->copies[request->comm->member])) {
            note(set, request);
        }
    }
}
