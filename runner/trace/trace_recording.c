// The trace of a run that was recorded: its calls, matched again. A recording keeps what each rank
// called, in its order, and not who met whom: collectives of a communicator meet in order, and the
// n-th send from one rank to another meets the n-th receive.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/recording.h"
#include "runner/trace/trace_internal.h"

// One recorded call; what it meets with has the same comm, from, to and ordinal.
typedef struct traced_call {
    const ls_recorded_call *recorded;
    ls_call call;  // with its communicator
    int index;     // among its rank's calls
    int comm;      // index into comms
    int from, to;  // messages: world ranks; -1: a collective
    int ordinal;   // among those of the same rank with the same comm, from and to
    size_t set;
    bool emitted;
} traced_call;

typedef struct traced_set {
    size_t first;  // of its calls, in the order by set
    int size;
    int waiting;  // calls that are not yet their rank's next
} traced_set;

typedef struct matching {
    ls_arena *arena;
    const ls_recording *recording;
    const char *dir;
    int ranks;
    traced_call *calls;  // [count] by rank, in its order
    size_t *rank_first;  // [ranks + 1]
    size_t count;
    traced_call **order;  // [count] by what they meet with
    traced_set *sets;     // [set_count]
    size_t set_count;
    size_t *next;   // [ranks] index into calls
    size_t *queue;  // [set_count] sets whose calls are all next
    size_t queue_first, queue_end;
} matching;

static int fail(const matching *m, const traced_call *at, const char *why) {
    return LS_FAIL(LS_ERR_FORMAT,
                   "the calls recorded in \"%s\" do not meet: rank %d, call %d, %s: %s", m->dir,
                   at->call.rank, at->index, ls_kind_name(at->call.kind), why);
}

// ---- Communicators ------------------------------------------------------------------------------
static int by_comm(const void *a, const void *b) {
    const traced_call *x = *(traced_call *const *)a, *y = *(traced_call *const *)b;
    if (x->recorded->comm_id != y->recorded->comm_id) {
        return x->recorded->comm_id < y->recorded->comm_id ? -1 : 1;
    }
    int names = strcmp(x->recorded->comm, y->recorded->comm);
    if (names != 0 || x->recorded->comm_size != y->recorded->comm_size) {
        return names != 0 ? names : x->recorded->comm_size < y->recorded->comm_size ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static bool same_comm(const traced_call *x, const traced_call *y) {
    return x->recorded->comm_id == y->recorded->comm_id &&
           x->recorded->comm_size == y->recorded->comm_size &&
           strcmp(x->recorded->comm, y->recorded->comm) == 0;
}

typedef struct place {
    int rank, member;
} place;

static int by_rank(const void *a, const void *b) {
    const place *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

// Fills comm->by_rank.
static int sort_members(ls_comm *comm, ls_arena *arena) {
    size_t size = (size_t)comm->size;
    place *places = ls_arena_alloc(arena, size, sizeof *places);
    comm->by_rank = ls_arena_alloc(arena, size, sizeof *comm->by_rank);
    if (places == NULL || comm->by_rank == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < comm->size; i++) {
        places[i] = (place){.rank = comm->ranks[i], .member = i};
    }
    qsort(places, size, sizeof *places, by_rank);
    for (int i = 0; i < comm->size; i++) {
        comm->by_rank[i] = places[i].member;
    }
    return LS_OK;
}

// The communicator of calls [count], which are sorted by rank. Members that never called on it get
// numbers below zero, but for a communicator of all ranks; without recorded places, ranks ascend.
static int make_comm(ls_comm **out, matching *m, traced_call *const *calls, size_t count) {
    const ls_recorded_call *first = calls[0]->recorded;
    int size = first->comm_size;
    ls_comm *comm = ls_arena_alloc(m->arena, 1, sizeof *comm);
    int *ranks = ls_arena_alloc(m->arena, (size_t)size, sizeof *ranks);
    if (comm == NULL || ranks == NULL) {
        return LS_ERR_MEMORY;
    }
    *comm = (ls_comm){.id = first->comm_id, .size = size, .ranks = ranks};
    (void)snprintf(comm->name, sizeof comm->name, "%s", first->comm);
    for (int i = 0; i < size; i++) {
        ranks[i] = size == m->ranks && first->member < 0 ? i : -1 - i;
    }
    int seen = 0, last = -1;
    for (size_t i = 0; i < count; i++) {
        int rank = calls[i]->call.rank;
        if (rank == last) {
            continue;
        }
        last = rank;
        int member = calls[i]->recorded->member;
        member = member >= 0 ? member : size == m->ranks ? rank : seen;
        if (seen >= size || (ranks[member] >= 0 && ranks[member] != rank)) {
            return fail(m, calls[i], "its communicator has more members than its size");
        }
        ranks[member] = rank;
        seen += 1;
    }
    *out = comm;
    return sort_members(comm, m->arena);
}

static int find_comms(matching *m) {
    for (size_t i = 0; i < m->count; i++) {
        m->order[i] = &m->calls[i];
    }
    qsort(m->order, m->count, sizeof *m->order, by_comm);
    int comms = 0;
    for (size_t first = 0, end; first < m->count; first = end) {
        end = first + 1;
        while (end < m->count && same_comm(m->order[first], m->order[end])) {
            end++;
        }
        ls_comm *comm = NULL;
        LS_TRY(make_comm(&comm, m, &m->order[first], end - first));
        for (size_t i = first; i < end; i++) {
            m->order[i]->call.comm = comm;
            m->order[i]->comm = comms;
        }
        comms++;
    }
    return LS_OK;
}

// ---- Sets ---------------------------------------------------------------------------------------
static bool is_message(const traced_call *call) {
    return ls_kind_is_message(call->call.kind);
}

static int by_stream(const void *a, const void *b) {
    const traced_call *x = *(traced_call *const *)a, *y = *(traced_call *const *)b;
    if (x->comm != y->comm) {
        return x->comm < y->comm ? -1 : 1;
    }
    if (x->from != y->from || x->to != y->to) {
        return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->to < y->to ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

// What meets, together; the send before the receive, else by rank.
static int by_set(const void *a, const void *b) {
    const traced_call *x = *(traced_call *const *)a, *y = *(traced_call *const *)b;
    if (x->comm != y->comm || x->from != y->from || x->to != y->to) {
        return by_stream(a, b);
    }
    if (x->ordinal != y->ordinal) {
        return x->ordinal < y->ordinal ? -1 : 1;
    }
    if (is_message(x) && x->call.kind != y->call.kind) {
        return x->call.kind == LS_SEND ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static bool same_stream(const traced_call *x, const traced_call *y) {
    return x->comm == y->comm && x->from == y->from && x->to == y->to;
}

// Gives messages their ends, and every call its place among those like it.
static int number_calls(matching *m) {
    for (size_t i = 0; i < m->count; i++) {
        traced_call *at = &m->calls[i];
        at->from = at->to = -1;
        if (is_message(at)) {
            int peer = at->call.comm->ranks[at->call.root];
            if (peer < 0) {
                return fail(m, at, "its peer made no call");
            }
            at->from = at->call.kind == LS_SEND ? at->call.rank : peer;
            at->to = at->call.kind == LS_SEND ? peer : at->call.rank;
        }
    }
    qsort(m->order, m->count, sizeof *m->order, by_stream);
    int collectives = 0, sends = 0, receives = 0;
    for (size_t i = 0; i < m->count; i++) {
        traced_call *at = m->order[i];
        const traced_call *before = i > 0 ? m->order[i - 1] : NULL;
        if (before == NULL || !same_stream(before, at)) {
            collectives = sends = receives = 0;
        } else if (before->call.rank != at->call.rank) {
            collectives = 0;
        }
        at->ordinal = at->call.kind == LS_SEND   ? sends++
                      : at->call.kind == LS_RECV ? receives++
                                                 : collectives++;
    }
    return LS_OK;
}

static int make_sets(matching *m) {
    qsort(m->order, m->count, sizeof *m->order, by_set);
    for (size_t first = 0, end; first < m->count; first = end) {
        const traced_call *head = m->order[first];
        end = first + 1;
        while (end < m->count && same_stream(head, m->order[end]) &&
               head->ordinal == m->order[end]->ordinal) {
            end++;
        }
        size_t size = end - first;
        if (is_message(head)) {
            if (size != 2 || head->call.kind != LS_SEND ||
                m->order[first + 1]->call.kind != LS_RECV) {
                return fail(m, head, "the other end of its message is missing");
            }
        } else if (size != (size_t)head->call.comm->size) {
            return fail(m, head, "not all members of its communicator made it");
        }
        for (size_t i = first; i < end; i++) {
            if (!is_message(head) && m->order[i]->call.kind != head->call.kind) {
                return fail(m, m->order[i], "another member made a call of another kind");
            }
            m->order[i]->set = m->set_count;
        }
        m->sets[m->set_count++] =
            (traced_set){.first = first, .size = (int)size, .waiting = (int)size};
    }
    return LS_OK;
}

// ---- The order of sets --------------------------------------------------------------------------
// The rank's next call that no set has taken is counted at its set.
static void advance(matching *m, int rank) {
    size_t end = m->rank_first[rank + 1];
    while (m->next[rank] < end && m->calls[m->next[rank]].emitted) {
        m->next[rank]++;
    }
    if (m->next[rank] < end) {
        traced_set *set = &m->sets[m->calls[m->next[rank]].set];
        set->waiting -= 1;
        if (set->waiting == 0) {
            m->queue[m->queue_end++] = m->calls[m->next[rank]].set;
        }
    }
}

// Not every rank records how a collective was done. algorithm and protocol: NULL is allowed.
static int say_how(ls_trace *trace, ls_trace_set *set, const char *algorithm, const char *protocol,
                   int channels) {
    if (algorithm == NULL || protocol == NULL) {
        return LS_OK;
    }
    set->algorithm = ls_arena_strdup(trace->arena, algorithm);
    set->protocol = ls_arena_strdup(trace->arena, protocol);
    set->channels = channels;
    return set->algorithm != NULL && set->protocol != NULL ? LS_OK : LS_ERR_MEMORY;
}

static int emit(matching *m, ls_trace *trace, size_t number, const ls_call **calls) {
    const traced_set *set = &m->sets[number];
    for (int i = 0; i < set->size; i++) {
        traced_call *at = m->order[set->first + (size_t)i];
        calls[i] = &at->call;
        at->emitted = true;
    }
    ls_trace_set *made = ls_trace__add(trace, calls, set->size);
    for (int i = 0; i < set->size && made != NULL && made->algorithm == NULL; i++) {
        const ls_recorded_call *recorded = m->order[set->first + (size_t)i]->recorded;
        LS_TRY(say_how(trace, made, recorded->algorithm, recorded->protocol, recorded->channels));
    }
    for (int i = 0; i < set->size; i++) {
        int rank = calls[i]->rank;
        if (&m->calls[m->next[rank]].call == calls[i]) {
            advance(m, rank);
        }
    }
    return trace->status;
}

// Each rank's calls in their order; where that is impossible, they were started together, and the
// next call of the lowest rank goes first.
static int emit_all(matching *m, ls_trace *trace) {
    const ls_call **calls = ls_arena_alloc(m->arena, (size_t)m->ranks + 2, sizeof *calls);
    if (calls == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int rank = 0; rank < m->ranks; rank++) {
        m->next[rank] = m->rank_first[rank];
        advance(m, rank);
    }
    int lowest = 0;
    for (size_t left = m->set_count; left > 0; left--) {
        if (m->queue_first < m->queue_end) {
            LS_TRY(emit(m, trace, m->queue[m->queue_first++], calls));
            continue;
        }
        while (m->next[lowest] == m->rank_first[lowest + 1]) {
            lowest++;
        }
        LS_TRY(emit(m, trace, m->calls[m->next[lowest]].set, calls));
    }
    return LS_OK;
}

// ---- A recording --------------------------------------------------------------------------------
static int take_calls(matching *m, ls_trace *trace) {
    m->rank_first = ls_arena_alloc(m->arena, (size_t)m->ranks + 1, sizeof *m->rank_first);
    m->next = ls_arena_alloc(m->arena, (size_t)m->ranks, sizeof *m->next);
    if (m->rank_first == NULL || m->next == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int rank = 0; rank < m->ranks; rank++) {
        m->rank_first[rank + 1] =
            m->rank_first[rank] + (size_t)ls_recording_call_count(m->recording, rank);
    }
    m->count = m->rank_first[m->ranks];
    m->calls = ls_arena_alloc(m->arena, m->count + 1, sizeof *m->calls);
    m->order = ls_arena_alloc(m->arena, m->count + 1, sizeof *m->order);
    m->sets = ls_arena_alloc(m->arena, m->count + 1, sizeof *m->sets);
    m->queue = ls_arena_alloc(m->arena, m->count + 1, sizeof *m->queue);
    if (m->calls == NULL || m->order == NULL || m->sets == NULL || m->queue == NULL) {
        return LS_ERR_MEMORY;
    }
    const char *file = "";  // kept by the trace
    for (int rank = 0; rank < m->ranks && file != NULL; rank++) {
        for (size_t i = m->rank_first[rank]; i < m->rank_first[rank + 1] && file != NULL; i++) {
            int index = (int)(i - m->rank_first[rank]);
            const ls_recorded_call *recorded = ls_recording_call(m->recording, rank, index);
            const char *own = recorded->call.file != NULL ? recorded->call.file : "";
            file = strcmp(own, file) == 0 ? file : ls_arena_strdup(trace->arena, own);
            m->calls[i] =
                (traced_call){.recorded = recorded, .call = recorded->call, .index = index};
            m->calls[i].call.file = file;
        }
    }
    return file != NULL ? LS_OK : LS_ERR_MEMORY;
}

static int trace_calls(ls_trace *trace, matching *m) {
    const ls_recording_info *about = ls_recording_about(m->recording);
    LS_TRY(take_calls(m, trace));
    LS_TRY(find_comms(m));
    LS_TRY(number_calls(m));
    LS_TRY(make_sets(m));
    const char *name =
        ls_arena_printf(m->arena, "%s (recorded with %s)", about->name, about->backend);
    if (name == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_trace_begin(trace, name, m->ranks, NULL));
    return emit_all(m, trace);
}

int ls_trace_recording(ls_trace *trace, const char *dir) {
    if (trace == NULL) {
        return LS_OK;
    }
    ls_recording *recording = NULL;
    LS_TRY(ls_recording_open(&recording, dir));
    matching m = {
        .recording = recording, .dir = dir, .ranks = ls_recording_about(recording)->ranks};
    int status = ls_arena_create(&m.arena);
    if (status == LS_OK) {
        status = trace_calls(trace, &m);
        ls_arena_free(m.arena);
    }
    ls_recording_free(recording);
    return status;
}
