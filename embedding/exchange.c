// One collective of the module: all held ranks' calls, handed to the backend together.
#include "embedding/internal.h"

// The elements that count says, of the kinds that have it.
static size_t count_of(const embedding_exchange *exchange, const embedding_side *side, int member) {
    switch (exchange->kind) {
    case LS_REDUCE_SCATTER:
        return side->send_counts[member];
    case LS_ALL_GATHER:
        return side->recv_counts[member];
    case LS_ALL_REDUCE:
        return side->count;
    default:
        LS_ASSERT(exchange->kind == LS_ALL_TO_ALL);
        return 0;
    }
}

bool ls_embedding__exchange_shares(const ls_backend *backend) {
    return backend->ops->simulates && ls_world_held_count(backend->world) > 1;
}

static ls_call make_call(const embedding_exchange *exchange, const embedding_side *side) {
    int member = ls_comm_member(exchange->comm, side->rank);
    LS_ASSERT(member >= 0);
    return (ls_call){.kind = exchange->kind,
                     .comm = exchange->comm,
                     .rank = side->rank,
                     .dtype = exchange->dtype,
                     .op = exchange->op,
                     .count = count_of(exchange, side, member),
                     .send_counts = side->send_counts,
                     .recv_counts = side->recv_counts,
                     .send = side->send,
                     .recv = side->recv,
                     .recv_shared = side->recv_shared,
                     .purpose = exchange->what,
                     .stage_of_tables = (int)exchange->stage,
                     LS_HERE};
}

int ls_embedding__exchange(ls_backend *backend, const embedding_exchange *exchange,
                           const embedding_side *sides, int side_count) {
    if (side_count == 0) {
        return LS_OK;
    }
    ls_call *calls;
    LS_TRY(ls_alloc((void **)&calls, (size_t)side_count, sizeof(*calls)));
    for (int i = 0; i < side_count; i++) {
        calls[i] = make_call(exchange, &sides[i]);
    }
    int status = ls_backend_run(backend, calls, side_count);
    ls_free(calls, (size_t)side_count, sizeof(*calls));
    return status ? ls_error_wrap("%s", exchange->what) : LS_OK;
}

int ls_embedding__exchange_start(embedding_pending *out, ls_backend *backend,
                                 const embedding_exchange *exchange, const embedding_side *sides,
                                 int side_count, ls_arena *arena) {
    *out = (embedding_pending){.what = exchange->what};
    if (!backend->ops->start) {
        return ls_embedding__exchange(backend, exchange, sides, side_count);
    }
    ARENA_NEW(out->calls, arena, side_count);
    ARENA_NEW(out->handles, arena, side_count);
    for (; out->count < side_count; out->count++) {
        ls_call *call = &out->calls[out->count];
        *call = make_call(exchange, &sides[out->count]);
        if (ls_backend_start(&out->handles[out->count], backend, call)) {
            return ls_error_wrap("%s", exchange->what);
        }
    }
    return LS_OK;
}

int ls_embedding__exchange_wait(embedding_pending *pending, ls_backend *backend) {
    while (pending->done < pending->count) {
        bool done = false;
        if (ls_backend_test(&done, backend, pending->handles[pending->done],
                            &pending->calls[pending->done])) {
            return ls_error_wrap("%s", pending->what);
        }
        pending->done += done ? 1 : 0;
    }
    return LS_OK;
}
