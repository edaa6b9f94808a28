// One collective of the module: all held ranks' calls, handed to the backend together. Backends
// whose buffers live on a device get device copies of the host arrays.
#include "embedding/internal.h"

#include <stdio.h>

typedef struct staged {
    void *send, *recv;  // device memory, or NULL
    size_t send_bytes, recv_bytes;
} staged;

static ls_call make_call(const embedding_exchange *exchange, const embedding_side *side) {
    bool scatters = exchange->kind == LS_REDUCE_SCATTER;
    int member = ls_comm_member(exchange->comm, side->rank);
    LS_ASSERT(member >= 0);
    return (ls_call){.kind = exchange->kind,
                     .comm = exchange->comm,
                     .rank = side->rank,
                     .dtype = exchange->dtype,
                     .op = exchange->op,
                     .count = scatters ? side->send_counts[member] : 0,
                     .send_counts = side->send_counts,
                     .recv_counts = scatters ? NULL : side->recv_counts,
                     .send = side->send,
                     .recv = side->recv,
                     LS_HERE};
}

static int stage_in(ls_backend *backend, ls_call *call, staged *copy) {
    const ls_backend_ops *ops = backend->ops;
    size_t send_count, recv_count, bytes = ls_dtype_bytes(call->dtype);
    LS_TRY(ls_call_send_elements(&send_count, call));
    LS_TRY(ls_call_recv_elements(&recv_count, call));
    LS_TRY(ls_size_mul(&copy->send_bytes, send_count, bytes));
    LS_TRY(ls_size_mul(&copy->recv_bytes, recv_count, bytes));
    if (copy->send_bytes > 0) {
        LS_TRY(ops->alloc(backend, &copy->send, copy->send_bytes));
        LS_TRY(ops->copy_in(backend, copy->send, call->send, copy->send_bytes));
        call->send = copy->send;
    }
    if (copy->recv_bytes > 0) {
        LS_TRY(ops->alloc(backend, &copy->recv, copy->recv_bytes));
        call->recv = copy->recv;
    }
    return LS_OK;
}

static int run_staged(ls_backend *backend, ls_call *calls, const embedding_side *sides, int count) {
    staged *copies;
    LS_TRY(ls_alloc((void **)&copies, NULL, (size_t)count, sizeof(*copies)));
    int status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        status = stage_in(backend, &calls[i], &copies[i]);
    }
    if (!status) {
        status = ls_backend_run(backend, calls, count);
    }
    for (int i = 0; i < count && !status; i++) {
        if (copies[i].recv) {
            status = backend->ops->copy_out(backend, sides[i].recv, copies[i].recv,
                                            copies[i].recv_bytes);
        }
    }
    for (int i = 0; i < count; i++) {
        if (copies[i].send) {
            backend->ops->free(backend, copies[i].send, copies[i].send_bytes);
        }
        if (copies[i].recv) {
            backend->ops->free(backend, copies[i].recv, copies[i].recv_bytes);
        }
    }
    ls_free(NULL, copies, (size_t)count, sizeof(*copies));
    return status;
}

int ls_embedding__exchange(ls_backend *backend, const embedding_exchange *exchange,
                           const embedding_side *sides, int side_count) {
    LS_ASSERT(exchange->kind == LS_ALL_TO_ALL || exchange->kind == LS_REDUCE_SCATTER);
    if (side_count == 0) {
        return LS_OK;
    }
    ls_call *calls;
    LS_TRY(ls_alloc((void **)&calls, NULL, (size_t)side_count, sizeof(*calls)));
    for (int i = 0; i < side_count; i++) {
        calls[i] = make_call(exchange, &sides[i]);
    }
    int status = backend->ops->on_device ? run_staged(backend, calls, sides, side_count)
                                         : ls_backend_run(backend, calls, side_count);
    ls_free(NULL, calls, (size_t)side_count, sizeof(*calls));
    return status ? ls_error_wrap("%s", exchange->what) : LS_OK;
}
