// Asynchronous calls between the call and its ls_wait, as a program sees them: nothing of the
// result is in its buffer before the wait. The data moves into a shadow, the buffer holds a pattern
// (poison.c), and ls_wait puts the result where the program expects it. So a program that reads too
// early reads NaN under every schedule, and one that writes is found out at the wait. In memory of
// ls_rank_alloc the pages are closed besides, so that the access itself is seen, by whom (trap.c).
//
// Memory that a real machine does not change stays readable: the buffer that a call sends from, and
// of an in-place gather the rank's own block.
#include <string.h>
#include <sys/mman.h>

#include "ranks/internal.h"

static pthread_mutex_t guards_mutex = PTHREAD_MUTEX_INITIALIZER;
static ls_guard *guards;        // all closed pages of this process
static uint64_t guards_opened;  // so far

// ---- Closed pages ------------------------------------------------------------------------------
// The pages of [at, at + bytes) that hold nothing else.
static bool own_pages(uintptr_t *low, uintptr_t *high, ls_rank *rank, const void *at,
                      size_t bytes) {
    const ls_allocation *allocation = bytes > 0 ? ls_memory__find(rank, at) : NULL;
    if (allocation == NULL || !allocation->pages || allocation->freed) {
        return false;
    }
    uintptr_t start = (uintptr_t)at, end = start + bytes, mask = LS_PAGE_BYTES - 1;
    uintptr_t last = (uintptr_t)allocation->start + allocation->bytes;
    *low = (start + mask) & ~mask;
    *high = end >= last ? (last + mask) & ~mask : end & ~mask;
    return *low < *high;
}

static void apply(const ls_guard *guard) {
    (void)mprotect((void *)guard->low, guard->high - guard->low,
                   guard->readable ? PROT_READ : PROT_NONE);
}

static void close_pages(ls_request *request, const void *at, size_t bytes, bool readable) {
    ls_guard *guard = &request->flight->guards[request->guard_count];
    LS_ASSERT(request->guard_count < LS_GUARDS_MAX);
    if (!own_pages(&guard->low, &guard->high, request->rank, at, bytes)) {
        return;
    }
    request->guard_count += 1;
    guard->request = request;
    guard->readable = readable;
    (void)pthread_mutex_lock(&guards_mutex);
    guard->next = guards;
    guard->before = &guards;
    if (guards != NULL) {
        guards->before = &guard->next;
    }
    guards = guard;
    apply(guard);
    (void)pthread_mutex_unlock(&guards_mutex);
}

// Call with the mutex held. Other calls may read the same memory, and keep it closed to writes.
static void open_guard(ls_guard *guard) {
    guards_opened += 1;
    *guard->before = guard->next;
    if (guard->next != NULL) {
        guard->next->before = guard->before;
    }
    (void)mprotect((void *)guard->low, guard->high - guard->low, PROT_READ | PROT_WRITE);
    for (const ls_request *at = guard->request->rank->open; at != NULL; at = at->next) {
        for (int i = 0; at != guard->request && i < at->guard_count; i++) {
            if (at->flight->guards[i].low < guard->high &&
                guard->low < at->flight->guards[i].high) {
                apply(&at->flight->guards[i]);
            }
        }
    }
}

static void open_pages(ls_request *request) {
    if (request->guard_count == 0) {
        return;
    }
    (void)pthread_mutex_lock(&guards_mutex);
    for (int i = 0; i < request->guard_count; i++) {
        open_guard(&request->flight->guards[i]);
    }
    request->guard_count = 0;
    (void)pthread_mutex_unlock(&guards_mutex);
}

ls_request *ls_flight__trapped(uint64_t *opened, uintptr_t address, bool write) {
    (void)pthread_mutex_lock(&guards_mutex);
    *opened = guards_opened;
    ls_guard *at = guards;
    while (at != NULL && (address < at->low || address >= at->high)) {
        at = at->next;
    }
    ls_request *request = at != NULL ? at->request : NULL;
    // All calls that keep this page closed release it: the access proceeds.
    for (ls_guard *next; at != NULL; at = next) {
        next = at->next;
        if (address < at->low || address >= at->high) {
            continue;
        }
        ls_request *own = at->request;
        for (int i = 0; i < own->guard_count; i++) {
            open_guard(&own->flight->guards[i]);
        }
        own->guard_count = 0;
        own->trapped = true;
        own->trapped_writing = write;
        next = guards;  // several of them may be gone
    }
    (void)pthread_mutex_unlock(&guards_mutex);
    return request;
}

// ---- Hidden buffers -----------------------------------------------------------------------------
typedef struct part {
    char *at;
    size_t bytes;
} part;

// The buffer of the shadow: the receive buffer, or all that is sent where that is a block of it
// (reduce_scatter in place), since the block is hidden before it is sent.
static part shadowed(const ls_request *request) {
    char *send = (char *)(uintptr_t)request->call.send, *recv = request->call.recv;
    size_t bytes = request->recv_bytes;
    bool block = (uintptr_t)send <= (uintptr_t)recv &&
                 (uintptr_t)recv + bytes <= (uintptr_t)send + request->send_bytes;
    return block ? (part){send, request->send_bytes} : (part){recv, bytes};
}

// The parts of the receive buffer that change: out [2]; returns how many.
static int hidden_parts(part *out, const ls_request *request) {
    char *recv = request->call.recv;
    const char *send = request->call.send;
    size_t bytes = request->recv_bytes;
    if (bytes == 0) {
        return 0;
    }
    bool moves = !ls_collective_of(request->call.kind)->reduces;
    if (!moves || !ls_memory__meets(send, request->send_bytes, recv, bytes)) {
        out[0] = (part){recv, bytes};
        return 1;
    }
    if ((uintptr_t)send <= (uintptr_t)recv) {  // a root's own: it has arrived already
        size_t own = request->send_bytes - (size_t)(recv - send);
        out[0] = (part){recv + own, own < bytes ? bytes - own : 0};
        return own < bytes ? 1 : 0;
    }
    size_t before = (size_t)(send - recv), end = before + request->send_bytes;
    out[0] = (part){recv, before};
    out[1] = (part){recv + end, end < bytes ? bytes - end : 0};
    return end < bytes ? 2 : 1;
}

static bool hides(const ls_request *request) {
    const ls_spmd *run = request->rank->run;
    bool later = request->asynchronous || request->rank->group_depth > 0;
    return later && !run->direct && !run->borrowed && run->remote == NULL &&
           run->lookahead == NULL && run->checks[LS_FINDING_BUFFER_USE_BEFORE_WAIT] &&
           !ls_kind_is_ask(request->call.kind);
}

int ls_flight__open(ls_request *request) {
    ls_rank *rank = request->rank;
    if (!hides(request)) {
        return LS_OK;
    }
    part parts[2];
    int count = hidden_parts(parts, request);
    if (count > 0) {
        void *memory = NULL;
        const part own = shadowed(request);
        if (ls_alloc(&memory, own.bytes, 1) != LS_OK) {
            return LS_FAIL_RANK(LS_ERR_MEMORY, rank->id,
                                "rank %d: cannot allocate %zu bytes for an asynchronous %s",
                                rank->id, own.bytes, ls_kind_name(request->call.kind));
        }
        request->shadow = memory;
        memcpy(memory, own.at, own.bytes);
        request->origin = ls_poison__call(rank, &request->call);
    }
    for (int i = 0; i < count; i++) {
        ls_poison__fill(parts[i].at, parts[i].bytes, request->call.dtype, request->origin);
        close_pages(request, parts[i].at, parts[i].bytes, false);
    }
    bool in_place = ls_memory__meets(request->call.send, request->send_bytes, request->call.recv,
                                     request->recv_bytes);
    if (!in_place) {
        close_pages(request, request->call.send, request->send_bytes, true);
    }
    return LS_OK;
}

// ---- Where the data is meanwhile ---------------------------------------------------------------
const void *ls_flight__send(const ls_request *request) {
    if (request->staged) {
        return request->staged_send;
    }
    const char *send = request->call.send;
    const part own = shadowed(request);
    bool inside = request->shadow != NULL && request->send_bytes > 0 &&
                  (uintptr_t)send >= (uintptr_t)own.at &&
                  (uintptr_t)send + request->send_bytes <= (uintptr_t)own.at + own.bytes;
    return inside ? request->shadow + (send - own.at) : send;
}

void *ls_flight__recv(const ls_request *request) {
    if (request->staged) {
        return request->staged_recv;
    }
    char *recv = request->call.recv;
    return request->shadow != NULL ? request->shadow + (recv - shadowed(request).at) : recv;
}

const ls_call *ls_flight__call(ls_request *request) {
    if (request->shadow == NULL && !request->staged) {
        return &request->call;
    }
    ls_call *moved = &request->flight->moved;
    *moved = request->call;
    moved->send = ls_flight__send(request);
    moved->recv = ls_flight__recv(request);
    return moved;
}

// ---- The end -----------------------------------------------------------------------------------
static void told_at(ls_request *request, const char *file, int line) {
    request->told = true;
    request->told_file = file;
    request->told_line = line;
}

static void tell_changed(ls_request *request) {
    part parts[2];
    int count = hidden_parts(parts, request);
    for (int i = 0; i < count; i++) {
        ptrdiff_t at =
            ls_poison__changed(parts[i].at, parts[i].bytes, request->call.dtype, request->origin);
        if (at < 0) {
            continue;
        }
        size_t element = ((size_t)at + (size_t)(parts[i].at - (char *)request->call.recv)) /
                         ls_dtype_bytes(request->call.dtype);
        told_at(request, request->call.file, request->call.line);
        (void)ls_findings__add_call(
            request->rank->run, LS_FINDING_BUFFER_USE_BEFORE_WAIT, request,
            "element %zu of its receive buffer was written between the call and its ls_wait; what "
            "was written there is lost",
            element);
        return;
    }
}

void ls_flight__settle(ls_request *request, const char *file, int line) {
    open_pages(request);
    told_at(request, file, line);
    if (request->shadow != NULL) {
        memcpy(request->call.recv, ls_flight__recv(request), request->recv_bytes);
    }
}

void ls_flight__tell(ls_request *request) {
    if (!request->trapped || request->told) {
        return;
    }
    told_at(request, request->call.file, request->call.line);
    const ls_rank *rank = request->rank;
    const char *does = request->trapped_writing ? "its buffer is written" : "its result is read";
    if (request->state == LS_REQUEST_GROUPED) {
        (void)ls_findings__fatal_call(
            rank->run, LS_FINDING_CALL_INVALID, request,
            "%s although its group, opened at %s:%d, was not ended (ls_group_end): it was not made",
            does, rank->group_file, rank->group_line);
    } else {
        (void)ls_findings__add_call(rank->run, LS_FINDING_BUFFER_USE_BEFORE_WAIT, request,
                                    "%s before it is waited for", does);
    }
}

void ls_flight__land(ls_request *request) {
    open_pages(request);
    ls_flight__tell(request);
    if (request->shadow == NULL) {
        return;
    }
    if (!request->told) {
        tell_changed(request);
    }
    part parts[2];
    int count = hidden_parts(parts, request);
    for (int i = 0; i < count; i++) {
        memcpy(parts[i].at, request->shadow + (parts[i].at - shadowed(request).at), parts[i].bytes);
    }
    ls_flight__drop(request);
}

void ls_flight__drop(ls_request *request) {
    open_pages(request);
    ls_free(request->shadow, shadowed(request).bytes, 1);
    request->shadow = NULL;
}
