// Checks that look at one call, or at what it moved; and which checks are on.
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ranks/internal.h"

// ---- Which are on ------------------------------------------------------------------------------
// "all" means what is wrong; what may be meant (padding that nobody reads, a mask's infinity, a
// replica between its update and its gather) is looked for where the check is named.
static void apply_named(ls_spmd *run, ls_finding_id id) {
    run->moved_garbage = run->moved_garbage || id == LS_FINDING_BUFFER_UNINITIALISED;
    run->brought_inf = run->brought_inf || id == LS_FINDING_VALUE_INF_FIRST;
    run->replicas_always = run->replicas_always || id == LS_FINDING_REPLICA_DIVERGED;
}

static int apply_glob(ls_spmd *run, const char *glob, bool on) {
    bool any = false, all = strcmp(glob, "all") == 0 || strcmp(glob, "*") == 0;
    for (int i = 0; i < LS_FINDING_COUNT; i++) {
        ls_finding_id id = (ls_finding_id)i;
        if (fnmatch(all ? "*" : glob, ls_finding_name(id), 0) != 0) {
            continue;
        }
        any = true;
        run->checks[id] = on;
        if (on && !all) {
            apply_named(run, id);
        }
        run->warned = run->warned || (on && id == LS_FINDING_REDUNDANT_REDUCE &&
                                      strcmp(glob, ls_finding_name(id)) == 0);
        run->moved_values =
            run->moved_values ||
            (on && (id == LS_FINDING_VALUE_NAN_FIRST || id == LS_FINDING_VALUE_INF_FIRST));
    }
    if (!any) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "no check is called \"%s\"", glob);
    }
    return LS_OK;
}

int ls_checks__select(ls_spmd *run, const char *globs) {
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        run->checks[id] = ls_finding_default((ls_finding_id)id);
    }
    while (globs != NULL && *globs != '\0') {
        char glob[64];
        size_t length = strcspn(globs, ",");
        bool on = *globs != '-';
        const char *start = on ? globs : globs + 1;
        size_t bytes = length - (on ? 0 : 1);
        if (bytes == 0 || bytes >= sizeof glob) {
            return LS_FAIL(LS_ERR_INVALID, "\"%.64s\" is no list of checks", globs);
        }
        memcpy(glob, start, bytes);
        glob[bytes] = '\0';
        LS_TRY(on && strchr(glob, '=') != NULL ? ls_sites__select(run, glob)
                                               : apply_glob(run, glob, on));
        globs += length;
        globs += *globs == ',' ? 1 : 0;
    }
    return LS_OK;
}

void ls_checks__without_data(ls_spmd *run) {
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        run->checks[id] = run->checks[id] && !ls_finding_needs_data((ls_finding_id)id);
    }
}

int ls_spmd_check_on(bool *out, const char *checks, ls_finding_id id) {
    LS_ASSERT(out != NULL && (int)id >= 0 && id < LS_FINDING_COUNT);
    ls_spmd run = {0};
    LS_TRY(ls_checks__select(&run, checks));
    *out = run.checks[id];
    return LS_OK;
}

// ---- One call ----------------------------------------------------------------------------------
// A call that makes no sense by itself, under the name of what is wrong with it.
static ls_finding_id name_of_bad(const ls_call *call, int status) {
    if (ls_check_last()->found) {
        return ls_check_last()->id;
    }
    if (status == LS_ERR_OVERFLOW) {
        return LS_FINDING_COUNT_MISMATCH;
    }
    if ((int)call->kind < 0 || call->kind >= LS_KIND_COUNT) {
        return LS_FINDING_KIND_MISMATCH;
    }
    if (!ls_dtype_valid((int)call->dtype)) {
        return LS_FINDING_DTYPE_MISMATCH;
    }
    if (call->root < 0 || call->root >= call->comm->size) {
        if (ls_kind_is_message(call->kind)) {
            return call->kind == LS_SEND ? LS_FINDING_P2P_UNMATCHED_SEND
                                         : LS_FINDING_P2P_UNMATCHED_RECV;
        }
        return LS_FINDING_ROOT_MISMATCH;
    }
    return LS_FINDING_OP_MISMATCH;
}

static int check_buffer(ls_request *request, const void *buffer, size_t bytes, const char *which) {
    ls_spmd *run = request->rank->run;
    ls_allocation *allocation = ls_memory__find(request->rank, buffer);
    if (allocation == NULL || bytes == 0) {
        return LS_OK;
    }
    if (allocation->freed && run->checks[LS_FINDING_HANDLE_USE_AFTER_FREE]) {
        return ls_findings__fatal_call(run, LS_FINDING_HANDLE_USE_AFTER_FREE, request,
                                       "its %s buffer was freed at %s:%d", which,
                                       allocation->freed_file, allocation->freed_line);
    }
    size_t offset = (size_t)((const char *)buffer - allocation->start);
    if (bytes > allocation->bytes - offset && run->checks[LS_FINDING_BUFFER_TOO_SMALL]) {
        return ls_findings__fatal_call(run, LS_FINDING_BUFFER_TOO_SMALL, request,
                                       "it needs %zu bytes of %s buffer, and %zu are left of the "
                                       "%zu allocated at %s:%d",
                                       bytes, which, allocation->bytes - offset, allocation->bytes,
                                       allocation->file, allocation->line);
    }
    ls_memory__check_beside(request->rank, allocation, request->call.file, request->call.line);
    return LS_OK;
}

// A call whose buffers another one uses that is not waited for.
static void check_open(ls_request *request) {
    ls_spmd *run = request->rank->run;
    const ls_call *call = &request->call;
    if (!run->checks[LS_FINDING_BUFFER_USE_BEFORE_WAIT] || call->overstated) {
        return;
    }
    for (ls_request *at = request->rank->open; at != NULL; at = at->next) {
        if (at == request || at->told || at->call.overstated) {
            continue;
        }
        bool reads =
            ls_memory__meets(call->send, request->send_bytes, at->call.recv, at->recv_bytes);
        bool writes =
            ls_memory__meets(call->recv, request->recv_bytes, at->call.recv, at->recv_bytes) ||
            ls_memory__meets(call->recv, request->recv_bytes, at->call.send, at->send_bytes);
        if (reads || writes) {
            char where[LS_CALL_WHERE_MAX];
            (void)ls_findings__add_call(run, LS_FINDING_BUFFER_USE_BEFORE_WAIT, request,
                                        "it %s a buffer of the %s at %s, which was not waited for",
                                        writes ? "writes" : "reads", ls_kind_name(at->call.kind),
                                        ls_call__where(where, &at->call));
            ls_flight__settle(at, request->call.file, request->call.line);
            return;
        }
    }
}

// Buffers that overlap because they are too small are too small.
static int check_room(ls_request *request) {
    size_t send = 0, recv = 0, element = ls_dtype_bytes(request->call.dtype);
    LS_TRY(ls_call_send_elements(&send, &request->call));
    LS_TRY(ls_call_recv_elements(&recv, &request->call));
    LS_TRY(check_buffer(request, request->call.send, send * element, "send"));
    return check_buffer(request, request->call.recv, recv * element, "recv");
}

static int replica_bytes(size_t *out, const ls_call *call) {
    LS_TRY(ls_size_mul(out, call->count, ls_dtype_bytes(call->dtype)));
    if (*out > PTRDIFF_MAX) {
        return LS_FAIL_RANK(LS_ERR_OVERFLOW, call->rank, "a buffer of %zu elements overflows",
                            call->count);
    }
    if (*out != 0 && call->send == NULL) {
        ls_check__note(LS_FINDING_BUFFER_TOO_SMALL, call);
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "its buffer is NULL");
    }
    return LS_OK;
}

static int check_arguments(ls_request *request) {
    ls_spmd *run = request->rank->run;
    const ls_call *call = &request->call;
    ls_call_extent extent = {0};
    int status = LS_OK;
    if (request->call.kind == LS_CHECK_REPLICA) {
        ls_check_clear();
        status = replica_bytes(&extent.send_bytes, call);
    } else if (!ls_kind_is_ask(request->call.kind)) {
        status = ls_call_check(&extent, call);
    }
    if (status != LS_OK && ls_check_last()->found &&
        ls_check_last()->id == LS_FINDING_BUFFER_OVERLAP) {
        LS_TRY(check_room(request));
        status = ls_call_check(&extent, call);
    }
    if (status != LS_OK) {
        char said[LS_ERROR_TEXT_MAX];
        (void)snprintf(said, sizeof said, "%s", ls_error_last()->text);
        return ls_findings__fatal_call(run, name_of_bad(call, status), request, "%s", said);
    }
    request->send_bytes = extent.send_bytes;
    request->recv_bytes = extent.recv_bytes;
    return LS_OK;
}

// A fault may have the call of a rank alone in its group reach beyond buffers that no check knows;
// in others a member would disagree before anything is moved.
static int check_recounted(const ls_request *request) {
    if (!request->recounted || request->comm->shared->comm->size > 1) {
        return LS_OK;
    }
    size_t element = ls_dtype_bytes(request->call.dtype);
    size_t send = request->send_before * element, recv = request->recv_before * element;
    if (request->send_bytes <= send && request->recv_bytes <= recv) {
        return LS_OK;
    }
    bool sends = request->send_bytes > send;
    return ls_findings__fatal_call(request->rank->run, LS_FINDING_BUFFER_TOO_SMALL, request,
                                   "it needs %zu bytes of %s buffer, which has %zu",
                                   sends ? request->send_bytes : request->recv_bytes,
                                   sends ? "send" : "recv", sends ? send : recv);
}

int ls_checks__arguments(ls_request *request) {
    int root = request->call.root;
    if (request->any_source) {
        request->call.root = request->comm->member;  // the one that sends: the sizes are the same
    }
    int status = check_arguments(request);
    request->call.root = root;
    LS_TRY(status);
    ls_spmd *run = request->rank->run;
    if (request->overlap != NULL && run->checks[LS_FINDING_BUFFER_OVERLAP]) {
        return ls_findings__fatal_call(run, LS_FINDING_BUFFER_OVERLAP, request, "%s",
                                       request->overlap);
    }
    LS_TRY(check_buffer(request, request->call.send, request->send_bytes, "send"));
    LS_TRY(check_buffer(request, request->call.recv, request->recv_bytes, "recv"));
    return check_recounted(request);
}

int ls_checks__call(ls_request *request) {
    LS_TRY(ls_checks__arguments(request));
    if (request->rank->open != NULL) {
        check_open(request);
    }
    ls_values__posted(request);
    return LS_OK;
}

// ---- Changed in flight -------------------------------------------------------------------------
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

void ls_checks__hash(ls_request *request) {
    if (hashes(request)) {
        request->send_hash = hash_sent(request);
        request->recv_hash = hash_of(request, request->call.recv, hashed_recv_bytes(request));
    }
}

void ls_checks__hash_check(ls_request *request) {
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

#define LEAK_SITES_MAX 64  // of a rank, that are reported

// ---- The end -----------------------------------------------------------------------------------
static int by_number(const void *a, const void *b) {
    const ls_allocation *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool same_site(const ls_allocation *a, const ls_allocation *b) {
    return a->line == b->line && strcmp(a->file, b->file) == 0;
}

// Leaks, by the places where it was allocated, in their order: where malloc put it says nothing.
static void leaked_memory(ls_spmd *run, ls_rank *rank) {
    const ls_allocation *sites[LEAK_SITES_MAX];
    int site_count = 0, count = rank->allocation_count;
    if (count > 0) {
        qsort(rank->allocations, (size_t)count, sizeof *rank->allocations, by_number);
    }
    for (int i = 0; i < count && site_count < LEAK_SITES_MAX; i++) {
        const ls_allocation *here = &rank->allocations[i];
        bool told = here->freed || here->let_go;
        for (int k = 0; k < site_count && !told; k++) {
            told = same_site(sites[k], here);
        }
        if (told) {
            continue;
        }
        sites[site_count++] = here;
        size_t bytes = 0, times = 0;
        for (int k = i; k < count; k++) {
            const ls_allocation *other = &rank->allocations[k];
            if (!other->freed && same_site(other, here)) {
                bytes += other->bytes;
                times += 1;
            }
        }
        ls_text text = {0};
        ls_text_printf(&text, "rank %d never freed the %zu bytes that it allocated at %s:%d%s",
                       rank->id, bytes, here->file, here->line, times > 1 ? "" : "\n");
        if (times > 1) {
            ls_text_printf(&text, ", %zu times\n", times);
        }
        (void)ls_findings__add(run, LS_FINDING_HANDLE_LEAK, &rank->id, 1, here->file, here->line,
                               ls_findings__string(run, &text));
        ls_text_free(&text);
    }
}

static bool is_leaked(const ls_request *request) {
    return !request->detached && request->state != LS_REQUEST_GROUPED;
}

// A request that is never waited for and what became of its buffer is one bug.
static bool used_leaked(const ls_spmd *run, int rank, const char *where) {
    const ls_rank *of = &run->ranks[rank];
    for (const ls_request *at = of->exit_status == 0 ? of->open : NULL; at != NULL; at = at->next) {
        char told[LS_CALL_WHERE_MAX + 256];
        (void)snprintf(told, sizeof told, "%s:%d", at->told ? at->told_file : "", at->told_line);
        if (is_leaked(at) && at->told && strcmp(told, where) == 0) {
            return true;
        }
    }
    return false;
}

static void end_of_rank(ls_spmd *run, ls_rank *rank) {
    for (int i = 0; i < rank->allocation_count; i++) {
        if (!rank->allocations[i].freed) {
            ls_memory__check_beside(rank, &rank->allocations[i], rank->file, rank->line);
        }
    }
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        if (is_leaked(at)) {
            (void)ls_findings__add_call(run, LS_FINDING_HANDLE_LEAK, at,
                                        "its request was never waited for%s",
                                        at->told ? ", and its buffer was used meanwhile" : "");
        }
    }
    leaked_memory(run, rank);
}

void ls_checks__end(ls_spmd *run) {
    if (run->checks[LS_FINDING_HANDLE_LEAK]) {
        ls_findings__withdraw(run, LS_FINDING_BUFFER_USE_BEFORE_WAIT, used_leaked);
    }
    for (int r = 0; r < run->rank_count; r++) {
        ls_rank *rank = &run->ranks[r];
        if (rank->state == LS_RANK_DIED) {
            ls_text text = {0};
            ls_text_printf(&text, "rank %d died at %s:%d\n", rank->id, rank->file, rank->line);
            ls_findings__history(&text, rank, 4);
            (void)ls_findings__add(run, LS_FINDING_RANK_DIED, &rank->id, 1, rank->file, rank->line,
                                   ls_findings__string(run, &text));
            ls_text_free(&text);
        } else if (rank->exit_status == 0) {
            end_of_rank(run, rank);
        }
    }
    for (const ls_rank_comm *comm = run->handles; comm != NULL; comm = comm->next) {
        const ls_rank *rank = comm->rank;
        if (comm->of_run || comm->destroyed || comm->abandoned || rank->exit_status != 0 ||
            rank->state == LS_RANK_DIED) {
            continue;
        }
        ls_text text = {0};
        ls_text_printf(&text, "rank %d never destroyed the communicator %s, made at %s:%d\n",
                       rank->id, comm->shared->comm->name, comm->file, comm->line);
        (void)ls_findings__add(run, LS_FINDING_HANDLE_LEAK, &rank->id, 1, comm->file, comm->line,
                               ls_findings__string(run, &text));
        ls_text_free(&text);
    }
}
