// Buffers that change between an asynchronous call and its completion.
#include "base/hash.h"
#include "ranks/internal.h"

static uint64_t hash_of(const ls_request *request, const void *data, size_t bytes) {
    ls_view view = ls_memory__view(request->rank->run, data, bytes);
    uint64_t hash = ls_hash(LS_HASH_START, view.data, view.data != NULL ? bytes : 0);
    ls_memory__unview(&view);
    return hash;
}

static bool hashes(const ls_request *request) {
    return request->rank->run->checks[LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT] &&
           request->asynchronous && !request->staged;
}

// Of a block that is received in the place of what is sent, the others stay in the program's
// memory.
static uint64_t hash_sent(const ls_request *request) {
    const char *send = request->call.send, *recv = request->call.recv;
    const char *moved = ls_flight__send(request);
    size_t before = (size_t)(recv - send), end = before + request->recv_bytes;
    if (moved == send || (uintptr_t)recv < (uintptr_t)send || end > request->send_bytes) {
        return hash_of(request, moved, request->send_bytes);
    }
    return hash_of(request, send, before) ^
           ~hash_of(request, send + end, request->send_bytes - end);
}

// A call in flight receives into separate memory, and its buffer is compared at the wait.
static size_t hashed_recv_bytes(const ls_request *request) {
    return request->shadow == NULL ? request->recv_bytes : 0;
}

static void hash_posted(ls_request *request) {
    if (hashes(request)) {
        request->send_hash = hash_sent(request);
        request->recv_hash = hash_of(request, request->call.recv, hashed_recv_bytes(request));
    }
}

static void compare_matched(ls_request *request) {
    if (!hashes(request)) {
        return;
    }
    bool send = request->send_hash != hash_sent(request);
    bool recv =
        request->recv_hash != hash_of(request, request->call.recv, hashed_recv_bytes(request));
    if (send || recv) {
        (void)ls_findings__add_call(
            request->rank->run, LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT, request,
            "its %s buffer changed between the call and its completion", send ? "send" : "recv");
    }
}

const ls_rank_check ls_rank_check__in_flight = {.posted = hash_posted, .matched = compare_matched};
