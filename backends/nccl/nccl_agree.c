// Messages between the processes of a job before NCCL is called: which calls they are about to
// make, so that a mismatch has a name instead of hanging, and what their logs say.
#include <string.h>

#include "backends/nccl/nccl_internal.h"

// A call without its buffers. All processes run one program, so bytes will do.
typedef struct packed_call {
    int64_t kind, dtype, op, root, count, seq, rank, line;
    int64_t has_send_counts, has_recv_counts;
    int64_t offset;  // of recv from send in bytes where in_place
    double premul;
    char file[96];
} packed_call;

// ---- Packing ------------------------------------------------------------------------------------
static void pack_counts(ls_text *out, const size_t *counts, int size) {
    for (int i = 0; counts != NULL && i < size; i++) {
        uint64_t count = counts[i];
        ls_text_append(out, (const char *)&count, sizeof count);
    }
}

void ls_nccl__pack_call(ls_text *out, const ls_call *call) {
    packed_call packed;
    memset(&packed, 0, sizeof packed);
    packed.kind = (int64_t)call->kind;
    packed.dtype = (int64_t)call->dtype;
    packed.op = (int64_t)call->op;
    packed.root = call->root;
    packed.count = (int64_t)call->count;
    packed.seq = (int64_t)call->seq;
    packed.rank = call->rank;
    packed.line = call->line;
    packed.has_send_counts = call->send_counts != NULL;
    packed.has_recv_counts = call->recv_counts != NULL;
    packed.premul = call->premul;
    if (call->file != NULL) {
        size_t length = strlen(call->file), room = sizeof packed.file - 1;
        memcpy(packed.file, call->file + (length > room ? length - room : 0),
               length > room ? room : length);
    }
    ls_text_append(out, (const char *)&packed, sizeof packed);
    pack_counts(out, call->send_counts, call->comm->size);
    pack_counts(out, call->recv_counts, call->comm->size);
}

static bool take(void *out, ls_nccl_reader *r, size_t bytes) {
    if ((size_t)(r->end - r->at) < bytes) {
        return false;
    }
    memcpy(out, r->at, bytes);
    r->at += bytes;
    return true;
}

static const size_t *take_counts(ls_nccl_reader *r, int size, ls_arena *arena) {
    size_t *counts = ls_arena_alloc(arena, (size_t)size, sizeof *counts);
    for (int i = 0; counts != NULL && i < size; i++) {
        uint64_t count = 0;
        if (!take(&count, r, sizeof count)) {
            return NULL;
        }
        counts[i] = (size_t)count;
    }
    return counts;
}

// Buffers of other processes: never touched, but present where a call must have them.
static void *stand_in(void) {
    return (void *)(uintptr_t)64;
}

int ls_nccl__unpack_call(ls_call *out, ls_nccl_reader *r, nccl_owner *owner, const ls_comm *comm,
                         ls_arena *arena) {
    packed_call packed;
    if (!take(&packed, r, sizeof packed)) {
        return LS_FAIL(LS_ERR_BACKEND, "communicator %s: a process sent a truncated call",
                       comm->name);
    }
    *out = (ls_call){.kind = (ls_kind)packed.kind,
                     .comm = comm,
                     .rank = (int)packed.rank,
                     .seq = (uint64_t)packed.seq,
                     .dtype = (ls_dtype)packed.dtype,
                     .op = (ls_op)packed.op,
                     .premul = packed.premul,
                     .root = (int)packed.root,
                     .count = (size_t)packed.count,
                     .line = (int)packed.line};
    packed.file[sizeof packed.file - 1] = '\0';
    // Findings keep call sites: their text must outlive the call. It is the program's own files.
    out->file = packed.file[0] != '\0' ? ls_arena_strdup(owner->names, packed.file) : NULL;
    if (packed.has_send_counts != 0) {
        out->send_counts = take_counts(r, comm->size, arena);
    }
    if (packed.has_recv_counts != 0) {
        out->recv_counts = take_counts(r, comm->size, arena);
    }
    size_t send = 0, recv = 0;
    (void)(ls_call_send_elements(&send, out) == LS_OK &&
           ls_call_recv_elements(&recv, out) == LS_OK);
    // Far enough apart that no in-place rule takes them for one.
    out->send = send != 0 ? stand_in() : NULL;
    out->recv = recv != 0 ? (char *)stand_in() + ((uintptr_t)1 << 62) : NULL;
    return LS_OK;
}

// ---- Exchanging ---------------------------------------------------------------------------------
typedef struct list {
    ls_call *calls;
    int count, room;
    ls_arena *arena;
} list;

static ls_call *append(list *l) {
    ls_call *grown = ls_arena_grow(l->arena, l->calls, l->count, &l->room, sizeof *grown);
    if (grown == NULL) {
        return NULL;
    }
    l->calls = grown;
    return &l->calls[l->count++];
}

// The members at other ends, and one message to each.
typedef struct round_of {
    const ls_comm *comm;
    int *peers;  // world ranks [count]
    ls_text *texts;
    ls_nccl_message *in;
    bool *there;
    int count;
} round_of;

static int round_open(round_of *round, const ls_comm *comm, ls_arena *arena) {
    size_t size = (size_t)comm->size;
    *round = (round_of){.comm = comm};
    round->peers = ls_arena_alloc(arena, size, sizeof *round->peers);
    round->texts = ls_arena_alloc(arena, size, sizeof *round->texts);
    round->in = ls_arena_alloc(arena, size, sizeof *round->in);
    round->there = ls_arena_alloc(arena, size, sizeof *round->there);
    return round->peers == NULL || round->texts == NULL || round->in == NULL || round->there == NULL
               ? LS_ERR_MEMORY
               : LS_OK;
}

static void round_close(round_of *round) {
    for (int i = 0; i < round->count; i++) {
        ls_text_free(&round->texts[i]);
        ls_free(round->in[i].data, round->in[i].bytes, 1);
    }
}

// Receives the messages that have arrived; *missing: the first peer without one.
static int receive(round_of *round, const ls_nccl_bootstrap *bootstrap, int tag, int *missing) {
    *missing = LS_RANK_NONE;
    for (int i = 0; i < round->count; i++) {
        if (!round->there[i]) {
            LS_TRY(bootstrap->poll(bootstrap->data, round->peers[i], tag, &round->in[i],
                                   &round->there[i]));
        }
        if (!round->there[i] && *missing == LS_RANK_NONE) {
            *missing = round->peers[i];
        }
    }
    return LS_OK;
}

// LS_ERR_TIMEOUT: *missing sent nothing in time.
static int exchange(round_of *round, nccl_owner *owner, int what, int *missing) {
    const ls_nccl_bootstrap *bootstrap = owner->options.bootstrap;
    int tag = ls_nccl__tag(round->comm, what);
    for (int i = 0; i < round->count; i++) {
        LS_TRY(bootstrap->post(bootstrap->data, round->peers[i], tag, round->texts[i].data,
                               round->texts[i].length));
    }
    double deadline = ls_time_now() + owner->options.deadline_seconds;
    for (int turn = 0;; turn++) {
        LS_TRY(receive(round, bootstrap, tag, missing));
        if (*missing == LS_RANK_NONE) {
            return LS_OK;
        }
        if (ls_time_now() > deadline) {
            return LS_FAIL(LS_ERR_TIMEOUT, "rank %d sent nothing within %.3g s", *missing,
                           owner->options.deadline_seconds);
        }
        ls_nccl__rest(turn);
    }
}

// No answer: names the missing call as the simulator does.
int ls_nccl__fail_missing(const ls_call *call, int missing, double deadline_seconds) {
    char text[256];
    ls_call_format(text, sizeof text, call);
    if (ls_kind_is_message(call->kind)) {
        ls_check__note(call->kind == LS_SEND ? LS_FINDING_P2P_UNMATCHED_SEND
                                             : LS_FINDING_P2P_UNMATCHED_RECV,
                       call);
    } else {
        ls_check__note(LS_FINDING_MISSING_RANK, call);
        ls_check__restart_ranks();
        ls_check__note_rank_number(missing);
    }
    return LS_FAIL_RANK(LS_ERR_MISMATCH, missing, "%s: rank %d made no such call within %.3g s",
                        text, missing, deadline_seconds);
}

static int exchange_calls(round_of *round, nccl_owner *owner, const ls_call *first, list *all) {
    int missing = LS_RANK_NONE;
    int status = exchange(round, owner, LS_NCCL_TAG_COLLECTIVES, &missing);
    if (status == LS_ERR_TIMEOUT && missing != LS_RANK_NONE) {
        return ls_nccl__fail_missing(first, missing, owner->options.deadline_seconds);
    }
    LS_TRY(status);
    for (int i = 0; i < round->count; i++) {
        ls_nccl_reader r = {round->in[i].data,
                            (const char *)round->in[i].data + round->in[i].bytes};
        while (r.at < r.end) {
            ls_call *call = append(all);
            LS_TRY_MEMORY(call != NULL);
            LS_TRY(ls_nccl__unpack_call(call, &r, owner, round->comm, all->arena));
        }
    }
    return LS_OK;
}

static bool is_p2p(const ls_call *call) {
    return ls_kind_is_message(call->kind);
}

// Sends every other member of `comm` this rank's collectives there.
static int gather_collectives(list *all, nccl_owner *owner, const ls_comm *comm,
                              const ls_call *calls, int call_count) {
    round_of round;
    LS_TRY(round_open(&round, comm, all->arena));
    const ls_call *first = NULL;
    for (int m = 0; m < comm->size; m++) {
        if (comm->ranks[m] != owner->workers[0].rank) {
            round.peers[round.count++] = comm->ranks[m];
        }
    }
    for (int i = 0; i < call_count; i++) {
        if (calls[i].comm != comm || is_p2p(&calls[i])) {
            continue;
        }
        first = first == NULL ? &calls[i] : first;
        for (int k = 0; k < round.count; k++) {
            ls_nccl__pack_call(&round.texts[k], &calls[i]);
        }
    }
    int status = first != NULL ? exchange_calls(&round, owner, first, all) : LS_OK;
    round_close(&round);
    return status;
}

int ls_nccl__gather_calls(ls_call **out, int *count, nccl_owner *owner, const ls_call *calls,
                          int call_count, ls_arena *arena) {
    list all = {.arena = arena};
    for (int i = 0; i < call_count; i++) {
        ls_call *own = is_p2p(&calls[i]) ? NULL : append(&all);
        if (own == NULL && !is_p2p(&calls[i])) {
            return LS_ERR_MEMORY;
        }
        if (own != NULL) {
            *own = calls[i];
        }
    }
    // In the order in which the communicators were made, which is the same everywhere.
    for (int id = 0; id < owner->backend.comm_next_id; id++) {
        const ls_comm *comm = NULL;
        for (int i = 0; i < call_count && comm == NULL; i++) {
            comm = calls[i].comm->id == id ? calls[i].comm : NULL;
        }
        if (comm != NULL) {
            LS_TRY(gather_collectives(&all, owner, comm, calls, call_count));
        }
    }
    *out = all.calls;
    *count = all.count;
    return LS_OK;
}

// ---- Topologies ---------------------------------------------------------------------------------
int ls_nccl__gather_topology(ls_nccl_topology *topology, nccl_owner *owner, const int *ranks,
                             int size, int comm_id) {
    int own = -1;
    for (int m = 0; m < size; m++) {
        own = ranks[m] == owner->workers[0].rank ? m : own;
    }
    if (own < 0) {
        return LS_OK;
    }
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    const ls_comm comm = {.id = comm_id, .size = size, .name = "topology"};
    round_of round;
    int status = round_open(&round, &comm, arena);
    for (int m = 0; m < size && status == LS_OK; m++) {
        if (m == own) {
            continue;
        }
        ls_text *text = &round.texts[round.count];
        for (int c = 0; c < topology->channels; c++) {
            const ls_nccl_node *node = &topology->nodes[c * size + own];
            ls_text_append(text, (const char *)node, sizeof *node);
        }
        round.peers[round.count++] = ranks[m];
    }
    int missing = LS_RANK_NONE;
    if (status == LS_OK && round.count > 0) {
        status = exchange(&round, owner, LS_NCCL_TAG_TOPOLOGY, &missing);
    }
    for (int i = 0; i < round.count && status == LS_OK; i++) {
        int member = i < own ? i : i + 1;
        ls_nccl_reader r = {round.in[i].data, (const char *)round.in[i].data + round.in[i].bytes};
        for (int c = 0; c < topology->channels; c++) {
            (void)take(&topology->nodes[c * size + member], &r, sizeof(ls_nccl_node));
        }
    }
    if (arena != NULL) {
        round_close(&round);
    }
    ls_arena_free(arena);
    return status;
}
