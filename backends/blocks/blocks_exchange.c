// Exchanges the data that calls of a block need from other blocks: a parcel goes to every process
// with members of their communicators or with the receive of one of their messages, and one comes
// from each. A parcel has the calls, then their sent data. For a collective with a block for every
// pair of members, only the receiver's blocks are sent; for any other, all of a member's input.
#include "backends/blocks/blocks.h"
#include <sched.h>
#include <string.h>

#include "backends/blocks/blocks_internal.h"
#include "backends/mpi/mpi.h"
#include "collectives/check.h"

#define PIECE_BYTES ((size_t)1 << 30)  // of one message: MPI counts in an int

// A call as it travels; its counts follow, [comm->size] each. All processes run one program, so
// bytes will do.
typedef struct wire {
    int64_t kind, dtype, op, root, rank, comm;
    uint64_t count, seq;
    int64_t has_send_counts, has_recv_counts;
    double premul;
} wire;

// Calls of one process in this exchange, and what is on its way.
typedef struct exchange {
    const ls_world *world;
    ls_arena *arena;
    const ls_call *calls;  // [call_count] of this process
    int call_count;
    ls_call *out;  // [out_count] what is completed here
    int out_count, out_room;
    int process, processes;
    MPI_Request *requests;
    int request_count, request_room;
    int sent;     // of these, those that send: the first
    void *spare;  // [spare_bytes] for results of other processes' members, which are not read
    size_t spare_bytes;
    bool failed;  // another process has
} exchange;

// ---- Pairs of processes -------------------------------------------------------------------------
static int holder(const exchange *e, int rank) {
    int64_t ranks = ls_world_size(e->world);
    return (int)((((int64_t)rank + 1) * e->processes - 1) / ranks);
}

// Whether the process holds members.
static bool has_members(const exchange *e, const ls_comm *comm, int process) {
    int first = 0, count = 0, low = 0, high = comm->size;
    ls_blocks_of(&first, &count, ls_world_size(e->world), process, e->processes);
    while (low < high) {  // the first member of a rank from `first` on
        int middle = low + (high - low) / 2;
        bool before = comm->ranks[comm->by_rank[middle]] < first;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low < comm->size && comm->ranks[comm->by_rank[low]] < first + count;
}

static int peer_of(const exchange *e, const ls_call *call) {
    return holder(e, call->comm->ranks[call->root]);
}

static bool goes_to(const exchange *e, const ls_call *call, int process) {
    return ls_kind_is_message(call->kind) ? call->kind == LS_SEND && peer_of(e, call) == process
                                          : has_members(e, call->comm, process);
}

static bool needs(const exchange *e, const ls_call *call, int process) {
    return ls_kind_is_message(call->kind) ? call->kind == LS_RECV && peer_of(e, call) == process
                                          : has_members(e, call->comm, process);
}

static bool any(const exchange *e, int process,
                bool (*is)(const exchange *e, const ls_call *call, int process)) {
    bool found = false;
    for (int i = 0; i < e->call_count && !found; i++) {
        const ls_call *call = &e->calls[i], *before = i > 0 ? call - 1 : NULL;
        bool again = before != NULL && before->comm == call->comm &&  // many are alike
                     !ls_kind_is_message(call->kind) && !ls_kind_is_message(before->kind);
        found = !again && is(e, call, process);
    }
    return found;
}

// ---- On the way ---------------------------------------------------------------------------------
static int request(MPI_Request **out, exchange *e) {
    MPI_Request *more =
        ls_arena_grow(e->arena, e->requests, e->request_count, &e->request_room, sizeof *more);
    LS_TRY_MEMORY(more != NULL);
    e->requests = more;
    *out = &e->requests[e->request_count++];
    **out = MPI_REQUEST_NULL;
    return LS_OK;
}

static int move_bytes(exchange *e, void *data, size_t bytes, int process, int tag, bool sends) {
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        int length = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
        MPI_Request *made = NULL;
        LS_TRY(request(&made, e));
        LS_MPI_TRY(sends ? MPI_Isend((char *)data + at, length, MPI_BYTE, process, tag,
                                     MPI_COMM_WORLD, made)
                         : MPI_Irecv((char *)data + at, length, MPI_BYTE, process, tag,
                                     MPI_COMM_WORLD, made),
                   sends ? "MPI_Isend" : "MPI_Irecv");
    }
    return LS_OK;
}

// Moves the part of a call's input that `receiver` needs, from or to `process`. packed: data has
// only that part, else all of the input.
static int move_input(exchange *e, const ls_call *call, void *data, bool packed, int receiver,
                      int process) {
    size_t element = ls_dtype_bytes(call->dtype), elements = 0;
    if (!ls_collective_has_splits(ls_collective_of(call->kind))) {
        LS_TRY(ls_call_send_elements(&elements, call));
        return move_bytes(e, data, elements * element, process, LS_BLOCKS_TAG_DATA, !packed);
    }
    char *at = data, *start = data;  // of adjacent blocks
    for (int m = 0; m <= call->comm->size; m++) {
        bool is = m < call->comm->size, mine = is && holder(e, call->comm->ranks[m]) == receiver;
        size_t bytes = is ? ls_block__count(call->send_counts, call->count, m) * element : 0;
        if (!mine && at > start) {
            LS_TRY(
                move_bytes(e, start, (size_t)(at - start), process, LS_BLOCKS_TAG_DATA, !packed));
        }
        at += mine || !packed ? bytes : 0;
        start = mine ? start : at;
    }
    return LS_OK;
}

// ---- Sending ------------------------------------------------------------------------------------
static size_t count_bytes(const ls_call *call) {
    size_t counts = (call->send_counts != NULL ? 1u : 0u) + (call->recv_counts != NULL ? 1u : 0u);
    return counts * (size_t)call->comm->size * sizeof(size_t);
}

static char *put_call(char *at, const ls_call *call) {
    const wire header = {
        .kind = call->kind,
        .dtype = call->dtype,
        .op = call->op,
        .root = call->root,
        .rank = call->rank,
        .comm = call->comm->id,
        .count = call->count,
        .seq = call->seq,
        .has_send_counts = call->send_counts != NULL,
        .has_recv_counts = call->recv_counts != NULL,
        .premul = call->premul,
    };
    size_t bytes = (size_t)call->comm->size * sizeof(size_t);
    memcpy(at, &header, sizeof header);
    at += sizeof header;
    if (call->send_counts != NULL) {
        memcpy(at, call->send_counts, bytes);
        at += bytes;
    }
    if (call->recv_counts != NULL) {
        memcpy(at, call->recv_counts, bytes);
        at += bytes;
    }
    return at;
}

static int send_parcel(exchange *e, int process) {
    size_t bytes = 0;
    for (int i = 0; i < e->call_count; i++) {
        bool goes = goes_to(e, &e->calls[i], process);
        bytes += goes ? sizeof(wire) + count_bytes(&e->calls[i]) : 0;
    }
    if (bytes > PIECE_BYTES) {
        return LS_FAIL(LS_ERR_LIMIT, "the calls of a group are too many to go to another process");
    }
    char *text = ls_arena_alloc(e->arena, bytes, 1), *at = text;
    LS_TRY_MEMORY(text != NULL);
    for (int i = 0; i < e->call_count; i++) {
        at = goes_to(e, &e->calls[i], process) ? put_call(at, &e->calls[i]) : at;
    }
    LS_TRY(move_bytes(e, text, bytes, process, LS_BLOCKS_TAG_CALLS, true));
    for (int i = 0; i < e->call_count; i++) {
        if (goes_to(e, &e->calls[i], process)) {
            void *data = (void *)(uintptr_t)e->calls[i].send;
            LS_TRY(move_input(e, &e->calls[i], data, false, process, process));
        }
    }
    return LS_OK;
}

// ---- Receiving ----------------------------------------------------------------------------------
// Waits for the calls of a process, or until it is known to have failed without sending them.
static int await_calls(exchange *e, int process, int *bytes) {
    MPI_Status status;
    for (int there = 0, gone = 0; !there;) {
        LS_MPI_TRY(MPI_Iprobe(process, LS_BLOCKS_TAG_CALLS, MPI_COMM_WORLD, &there, &status),
                   "MPI_Iprobe");
        if (!there && gone) {
            e->failed = true;
            *bytes = 0;
            return LS_OK;
        }
        if (!there) {
            // Messages that it sent before are seen by another look.
            LS_MPI_TRY(
                MPI_Iprobe(process, LS_BLOCKS_TAG_FAILED, MPI_COMM_WORLD, &gone, MPI_STATUS_IGNORE),
                "MPI_Iprobe");
            (void)sched_yield();
        }
    }
    return ls_mpi__status(MPI_Get_count(&status, MPI_BYTE, bytes), "MPI_Get_count");
}

// The call of this process that matches one of another's: it has the communicator and the arguments
// that are equal on all members and are not sent. *from: the index to try first.
static const ls_call *counterpart(const exchange *e, int64_t comm, int *from) {
    for (int i = 0; i < e->call_count; i++) {
        int at = (*from + i) % e->call_count;
        if (e->calls[at].comm->id == comm) {
            *from = at;
            return &e->calls[at];
        }
    }
    return NULL;
}

// Counts of a call whose blocks for other processes' members have stayed there.
static int keep_own(const exchange *e, const ls_call *call, const size_t **counts) {
    size_t *own = ls_arena_alloc(e->arena, (size_t)call->comm->size, sizeof *own);
    LS_TRY_MEMORY(own != NULL);
    for (int m = 0; m < call->comm->size; m++) {
        bool mine = holder(e, call->comm->ranks[m]) == e->process;
        own[m] = mine ? ls_block__count(*counts, call->count, m) : 0;
    }
    *counts = own;
    return LS_OK;
}

// A scan's results go into each other; what other collectives have written they do not read.
static int give_room(exchange *e, ls_call *call) {
    size_t elements = 0, bytes = 0;
    LS_TRY(ls_call_recv_elements(&elements, call));
    LS_TRY(ls_size_mul(&bytes, elements, ls_dtype_bytes(call->dtype)));
    bool reads = ls_collective_of(call->kind)->terms != NULL;
    if (bytes == 0) {
        return LS_OK;
    }
    if (reads || bytes > e->spare_bytes) {
        call->recv = ls_arena_alloc(e->arena, bytes, 1);
        e->spare = reads ? e->spare : call->recv;
        e->spare_bytes = reads ? e->spare_bytes : bytes;
        return call->recv != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    call->recv = e->spare;
    return LS_OK;
}

// Gives a call that came its memory: its input, which is on its way, and room for its result.
static int take_call(exchange *e, ls_call *call, int process) {
    ls_call as_made = *call;
    bool splits = ls_collective_has_splits(ls_collective_of(call->kind));
    if (splits) {
        LS_TRY(keep_own(e, &as_made, &call->send_counts));
        LS_TRY(keep_own(e, &as_made, &call->recv_counts));
    }
    size_t elements = 0;
    LS_TRY(ls_call_send_elements(&elements, call));
    if (elements > 0) {
        void *data = ls_arena_alloc(e->arena, elements, ls_dtype_bytes(call->dtype));
        LS_TRY_MEMORY(data != NULL);
        call->send = data;
        LS_TRY(move_input(e, &as_made, data, true, e->process, process));
    }
    return give_room(e, call);
}

static int read_call(ls_call *out, const exchange *e, const char **at, int *from) {
    wire header;
    memcpy(&header, *at, sizeof header);
    *at += sizeof header;
    const ls_call *own = counterpart(e, header.comm, from);
    if (own == NULL) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, (int)header.rank,
                            "rank %d calls on communicator %d, whose members in another process "
                            "make no call",
                            (int)header.rank, (int)header.comm);
    }
    *out = (ls_call){
        .kind = (ls_kind)header.kind,
        .comm = own->comm,
        .rank = (int)header.rank,
        .seq = header.seq,
        .dtype = (ls_dtype)header.dtype,
        .op = (ls_op)header.op,
        .premul = header.premul,
        .root = (int)header.root,
        .count = header.count,
        .file = own->file,
        .line = own->line,
        .purpose = own->purpose,
        .stage_of_tables = own->stage_of_tables,
    };
    if (header.has_send_counts) {
        out->send_counts = (const size_t *)(const void *)*at;
        *at += (size_t)own->comm->size * sizeof(size_t);
    }
    if (header.has_recv_counts) {
        out->recv_counts = (const size_t *)(const void *)*at;
        *at += (size_t)own->comm->size * sizeof(size_t);
    }
    return LS_OK;
}

static int add(exchange *e, const ls_call *call) {
    ls_call *more = ls_arena_grow(e->arena, e->out, e->out_count, &e->out_room, sizeof *more);
    LS_TRY_MEMORY(more != NULL);
    e->out = more;
    e->out[e->out_count++] = *call;
    return LS_OK;
}

static int receive_parcel(exchange *e, int process) {
    int bytes = 0, from = 0;
    LS_TRY(await_calls(e, process, &bytes));
    if (bytes == 0) {
        return LS_OK;
    }
    char *text = ls_arena_alloc(e->arena, (size_t)bytes, 1);
    LS_TRY_MEMORY(text != NULL);
    LS_MPI_TRY(MPI_Recv(text, bytes, MPI_BYTE, process, LS_BLOCKS_TAG_CALLS, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE),
               "MPI_Recv");
    for (const char *at = text; at < text + bytes;) {
        ls_call call;
        LS_TRY(read_call(&call, e, &at, &from));
        LS_TRY(take_call(e, &call, process));
        LS_TRY(add(e, &call));
    }
    return LS_OK;
}

// ---- All of it ----------------------------------------------------------------------------------
static int wait_for_all(exchange *e) {
    for (int i = 0, done = 0; i < e->request_count; i += done) {
        LS_MPI_TRY(MPI_Test(&e->requests[i], &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (!done) {
            (void)sched_yield();
        }
    }
    return LS_OK;
}

static int start(exchange *e) {
    for (int p = 0; p < e->processes; p++) {
        if (p != e->process && any(e, p, goes_to)) {
            LS_TRY(send_parcel(e, p));
        }
    }
    e->sent = e->request_count;
    for (int i = 0; i < e->call_count; i++) {
        // The receiver of a message completes it.
        bool elsewhere = e->calls[i].kind == LS_SEND && peer_of(e, &e->calls[i]) != e->process;
        LS_TRY(elsewhere ? LS_OK : add(e, &e->calls[i]));
    }
    for (int p = 0; p < e->processes; p++) {
        if (p != e->process && any(e, p, needs)) {
            LS_TRY(receive_parcel(e, p));
        }
    }
    return LS_OK;
}

// No memory is in use any more when this returns.
static int run(exchange *e) {
    int status = start(e);
    if (status != LS_OK) {
        ls_error error = *ls_error_last();
        for (int i = e->sent; i < e->request_count; i++) {
            (void)MPI_Cancel(&e->requests[i]);
        }
        (void)wait_for_all(e);
        return ls_error__set(error.file, error.line, status, error.rank, "%s", error.text);
    }
    return wait_for_all(e);
}

int ls_blocks__exchange(ls_call **out, int *out_count, const ls_world *world, const ls_call *calls,
                        int call_count, ls_arena *arena) {
    exchange e = {.world = world, .arena = arena, .calls = calls, .call_count = call_count};
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &e.process), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &e.processes), "MPI_Comm_size");
    LS_TRY(run(&e));
    *out = e.out;
    *out_count = e.out_count;
    return !e.failed ? LS_OK : LS_FAIL(LS_ERR_RANK_DIED, "another process of this run has failed");
}

void ls_blocks_of(int *first, int *count, int ranks, int process, int processes) {
    LS_ASSERT(process >= 0 && process < processes && processes <= ranks);
    int64_t begin = (int64_t)process * ranks / processes;
    int64_t end = (int64_t)(process + 1) * ranks / processes;
    *first = (int)begin;
    *count = (int)(end - begin);
}
