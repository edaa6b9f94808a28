// NCCL's collectives and messages of the host: work of streams. A stream waits at a call until the
// streams of the other members have reached theirs; then all of it is checked and computed at once.
#include <stdlib.h>

#include "device/internal.h"

enum { NCCL_SUCCESS = 0, NCCL_INVALID_ARGUMENT = 4 };

// The calls of a group on a stream, or one call.
struct device_batch {
    struct part *parts;
    int left;
};

typedef struct part {
    device_comm *comm;
    ls_call call;
    size_t send_bytes, recv_bytes;
    uint64_t number;  // of its communicator's collectives; of messages: not used
    ls_cuda_site at;
    device_stream *stream;
    device_thread *by;
    device_batch *batch, own;  // own: if it is the first of them
    struct part *next, *next_waiting, *all;
} part;

static part *grouped, *waiting, *all;

static const ls_kind kinds[] = {[LS_NCCL_ALL_REDUCE] = LS_ALL_REDUCE,
                                [LS_NCCL_REDUCE] = LS_REDUCE,
                                [LS_NCCL_BROADCAST] = LS_BROADCAST,
                                [LS_NCCL_ALL_GATHER] = LS_ALL_GATHER,
                                [LS_NCCL_REDUCE_SCATTER] = LS_REDUCE_SCATTER,
                                [LS_NCCL_ALL_TO_ALL] = LS_ALL_TO_ALL,
                                [LS_NCCL_GATHER] = LS_GATHER,
                                [LS_NCCL_SCATTER] = LS_SCATTER,
                                [LS_NCCL_SEND] = LS_SEND,
                                [LS_NCCL_RECV] = LS_RECV};

// ---- Issuing ------------------------------------------------------------------------------------
static const ls_comm *comm_of(device_shared *shared) {
    int ranks[RANKS_MAX];
    for (int r = 0; r < shared->size; r++) {
        ranks[r] = r;
    }
    if (shared->comm == NULL) {
        int status = ls_comm_create(&shared->comm, ls_device__state.run->backend, ranks,
                                    shared->size, "the communicator");
        LS_ASSERT(status == LS_OK);
    }
    return shared->comm;
}

// Reports the failure of the last check of calls.
static void find_last(int rank, ls_cuda_site at) {
    const ls_check_failure *last = ls_check_last();
    ls_text text = {0};
    ls_text_puts(&text, ls_error_last()->text);
    ls_device__find(last->found ? last->id : LS_FINDING_CALL_INVALID,
                    last->found ? last->ranks : &rank, last->found ? last->rank_count : 1, at,
                    &text);
}

// The calls of `from` that the thread made become one work of each stream.
static void launch(device_thread *by) {
    part *rest = NULL;
    while (grouped != NULL) {
        part *first = grouped;
        grouped = first->next;
        if (first->by != by) {
            first->next = rest;
            rest = first;
            continue;
        }
        device_batch *batch = &first->own;
        first->next = NULL;
        *batch = (device_batch){first, 1};
        first->batch = batch;
        for (part **link = &grouped, *last = first; *link != NULL;) {
            part *other = *link;
            if (other->by != by || other->stream != first->stream) {
                link = &other->next;
                continue;
            }
            *link = other->next;
            other->next = NULL;
            last->next = other;
            last = other;
            other->batch = batch;
            batch->left += 1;
        }
        ls_device__stream_calls(first->stream, batch, first->at);
    }
    grouped = rest;
}

void ls_device__calls_launch(void) {
    launch(ls_device__state.running);
}

static void queue(part *made) {
    part **link = &grouped;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = made;
}

int ls_nccl_call(ls_cuda_call what) {
    device_thread *self = ls_device__state.running;
    device_comm *comm = what.comm;
    ls_device__state.calls += 1;
    part *made = ls_device__alloc(sizeof *made);
    made->comm = comm;
    made->at = what.at;
    made->by = self;
    made->stream = ls_device__stream_of(what.stream, comm->device);
    made->call = (ls_call){.kind = kinds[what.kind],
                           .comm = comm_of(comm->shared),
                           .rank = comm->rank,
                           .dtype = (ls_dtype)what.dtype,
                           .op = (ls_op)what.op,
                           .premul = 1,
                           .root = what.root,
                           .count = what.count,
                           .send = what.send,
                           .recv = what.recv,
                           .file = what.at.file,
                           .line = what.at.line};
    ls_call_extent extent = {0};
    bool message = what.kind == LS_NCCL_SEND || what.kind == LS_NCCL_RECV;
    if (what.count == 0 && !message) {
        free(made);
        return NCCL_SUCCESS;  // NCCL drops it
    }
    if (ls_call_check(&extent, &made->call) != LS_OK) {
        find_last(comm->rank, what.at);
        free(made);
        return NCCL_INVALID_ARGUMENT;
    }
    made->all = all;
    all = made;
    made->send_bytes = extent.send_bytes;
    made->recv_bytes = extent.recv_bytes;
    made->number = message ? 0 : ++comm->collectives;
    queue(made);
    if (self->grouped == 0) {
        launch(self);
    }
    return NCCL_SUCCESS;
}

// ---- Matching -----------------------------------------------------------------------------------
static bool is_message(const part *one) {
    return one->number == 0;
}

static void finish(part *one) {
    one->batch->left -= 1;
    if (one->batch->left > 0) {
        return;
    }
    one->stream->calls = NULL;
    ls_device__stream_done(one->stream);
}

void ls_device__calls_close(void) {
    while (all != NULL) {
        part *gone = all;
        all = gone->all;
        free(gone);
    }
    grouped = waiting = NULL;
}

// The streams that take part know afterwards what each of them knew.
static void compute(part **parts, int count) {
    const ls_call *calls[RANKS_MAX] = {NULL};
    device_clock known = {0};
    for (int i = 0; i < count; i++) {
        calls[i] = &parts[i]->call;
        ls_device__clock_join(&known, &parts[i]->stream->unit->known);
    }
    if (ls_calls_check(calls, count) != LS_OK) {
        find_last(parts[0]->comm->rank,
                  (ls_cuda_site){ls_check_last()->file, ls_check_last()->line});
        ls_device__fail(LS_ERR_FINDING, "calls of a communicator's ranks differ");
        ls_device__clock_free(&known);
        return;
    }
    for (int i = 0; i < 2 * count; i++) {
        const part *one = parts[i % count];
        device_unit *unit = one->stream->unit;
        ls_device__clock_join(&unit->known, &known);
        bool writes = i >= count;
        ls_device__access_by(unit, 0, writes ? one->call.recv : one->call.send,
                             writes ? one->recv_bytes : one->send_bytes, writes, &one->at);
    }
    ls_device__clock_free(&known);
    int status =
        ls_collective_of(calls[0]->kind)->math(calls, count, ls_device__state.run->backend->order);
    LS_ASSERT(status == LS_OK);
    ls_device__changed();
    for (int i = 0; i < count; i++) {
        ls_device__clock_join(&known, &parts[i]->stream->unit->known);
    }
    for (int i = 0; i < count; i++) {
        ls_device__clock_join(&parts[i]->stream->unit->known, &known);
        ls_device__unit_step(parts[i]->stream->unit);
        finish(parts[i]);
    }
    ls_device__clock_free(&known);
}

static bool belongs(const part *one, const part *other) {
    if (one->comm->shared != other->comm->shared || is_message(one) != is_message(other)) {
        return false;
    }
    return is_message(one)
               ? one->call.kind != other->call.kind && one->call.root == other->call.rank &&
                     one->call.rank == other->call.root
               : one->number == other->number;
}

// The parts of its call that wait; returns how many there are.
static int others_of(const part *one, part **out) {
    int count = 0, wanted = is_message(one) ? 1 : one->comm->shared->size;
    for (part *at = waiting; at != NULL && count < wanted; at = at->next_waiting) {
        if (belongs(one, at)) {
            out[count++] = at;
        }
    }
    return count;
}

static void stop_waiting(const part *one) {
    part **link = &waiting;
    while (*link != one) {
        link = &(*link)->next_waiting;
    }
    *link = one->next_waiting;
}

static void arrive(part *one) {
    part *found[RANKS_MAX], *parts[RANKS_MAX] = {NULL};
    int others = others_of(one, found), size = is_message(one) ? 2 : one->comm->shared->size;
    if (others + 1 < size) {
        part **link = &waiting;
        while (*link != NULL) {
            link = &(*link)->next_waiting;
        }
        *link = one;
        return;
    }
    for (int i = 0; i < size; i++) {
        part *at = i < others ? found[i] : one;
        int place = at->call.kind == LS_RECV ? 1 : 0;
        parts[is_message(one) ? place : at->call.rank] = at;
        if (at != one) {
            stop_waiting(at);
        }
    }
    compute(parts, size);
}

void ls_device__calls_arrive(device_batch *batch) {
    for (part *at = batch->parts; at != NULL && !ls_device__state.over; at = at->next) {
        arrive(at);
    }
}

// ---- Calls that nobody else makes ---------------------------------------------------------------
bool ls_device__calls_explain(void) {
    const part *one = waiting;
    if (one == NULL) {
        return false;
    }
    bool there[RANKS_MAX] = {false};
    int missing[RANKS_MAX], count = 0;
    for (const part *at = waiting; at != NULL; at = at->next_waiting) {
        there[at->call.rank] |= at == one || (!is_message(one) && belongs(one, at));
    }
    for (int r = 0; r < one->comm->shared->size; r++) {
        bool wanted = is_message(one) ? r == one->call.root : !there[r];
        missing[count] = r;
        count += wanted ? 1 : 0;
    }
    ls_finding_id id = LS_FINDING_MISSING_RANK;
    if (is_message(one)) {
        id = one->call.kind == LS_SEND ? LS_FINDING_P2P_UNMATCHED_SEND
                                       : LS_FINDING_P2P_UNMATCHED_RECV;
    }
    ls_text text = {0};
    ls_text_printf(&text, "rank %d waits in %s (%s:%d) for", one->call.rank,
                   ls_kind_name(one->call.kind), one->at.file, one->at.line);
    for (int i = 0; i < count; i++) {
        ls_text_printf(&text, " rank %d", missing[i]);
    }
    ls_text_puts(&text,
                 count == 1 ? ", which does not make the call" : ", which do not make the call");
    bool message = is_message(one);
    ls_device__find(id, message ? &one->call.rank : missing, message ? 1 : count, one->at, &text);
    ls_device__fail(LS_ERR_DEADLOCK, ls_finding_name(id));
    return true;
}
