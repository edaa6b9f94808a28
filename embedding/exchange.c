// One collective of the module: all held ranks' calls, handed to the backend together.
#include "embedding/internal.h"

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
                     .purpose = exchange->what,
                     LS_HERE};
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
    int status = ls_backend_run(backend, calls, side_count);
    ls_free(NULL, calls, (size_t)side_count, sizeof(*calls));
    return status ? ls_error_wrap("%s", exchange->what) : LS_OK;
}
