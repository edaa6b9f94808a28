// Checks of a single call: its arguments and the size of its buffers.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

// A call that is invalid by itself, under the name of its defect.
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

// A fault may make the call of the only rank in its group reach beyond buffers that no check knows;
// otherwise a member would disagree before any data moves.
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

const ls_rank_check ls_rank_check__arguments = {.made = ls_checks__arguments};
