// The trace of a recorded run: its calls, matched again. A recording has each rank's calls in
// order, but not their matches.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/match.h"
#include "collectives/recording.h"
#include "runner/trace/trace_internal.h"

// Facts about a call that are not in the call.
typedef struct traced_call {
    const ls_recorded_call *recorded;
    int set;  // of match.events
    bool emitted;
} traced_call;

typedef struct matching {
    ls_arena *arena;
    const ls_recording *recording;
    const char *dir;
    int ranks;
    size_t *rank_first;   // [ranks + 1]
    ls_call *calls;       // [count] by rank, in its order, with their communicators
    traced_call *traced;  // [count]
    size_t count;
    traced_call **order;  // [count] by communicator
    ls_comm **comms;      // [comm_count]
    int comm_count;
    ls_match match;
    int *waiting;  // [match.event_count] the number of a set's calls that are not yet next on their
                   // rank
    size_t *next;  // [ranks] index into calls
    int *queue;    // [match.event_count] sets whose calls are all next
    int queue_first, queue_end;
} matching;

static ls_call *call_of(const matching *m, const traced_call *traced) {
    return &m->calls[traced - m->traced];
}

static int fail(const matching *m, const traced_call *at, const char *why) {
    const ls_call *call = call_of(m, at);
    return LS_FAIL(LS_ERR_FORMAT,
                   "the calls recorded in \"%s\" do not match: rank %d, call %zu, %s: %s", m->dir,
                   call->rank, (size_t)(at - m->traced) - m->rank_first[call->rank],
                   ls_kind_name(call->kind), why);
}

// ---- Communicators ------------------------------------------------------------------------------
static int compare_comms(const ls_recorded_call *x, const ls_recorded_call *y) {
    if (x->comm_id != y->comm_id) {
        return x->comm_id < y->comm_id ? -1 : 1;
    }
    int names = strcmp(x->comm, y->comm);
    return names != 0 ? names : (x->comm_size > y->comm_size) - (x->comm_size < y->comm_size);
}

static int by_comm(const void *a, const void *b) {
    const traced_call *x = *(traced_call *const *)a, *y = *(traced_call *const *)b;
    int comms = compare_comms(x->recorded, y->recorded);
    return comms != 0 ? comms : (x > y) - (x < y);
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
    LS_TRY_MEMORY(places != NULL && comm->by_rank != NULL);
    for (int i = 0; i < comm->size; i++) {
        places[i] = (place){.rank = comm->ranks[i], .member = i};
    }
    qsort(places, size, sizeof *places, by_rank);
    for (int i = 0; i < comm->size; i++) {
        comm->by_rank[i] = places[i].member;
    }
    return LS_OK;
}

// The communicator of calls [count], sorted by rank. Members that never called on it get negative
// numbers, except in a communicator of all ranks; without recorded positions, ranks ascend.
static int make_comm(ls_comm **out, matching *m, traced_call *const *calls, size_t count) {
    const ls_recorded_call *first = calls[0]->recorded;
    int size = first->comm_size;
    ls_comm *comm = ls_arena_alloc(m->arena, 1, sizeof *comm);
    int *ranks = ls_arena_alloc(m->arena, (size_t)size, sizeof *ranks);
    LS_TRY_MEMORY(comm != NULL && ranks != NULL);
    *comm = (ls_comm){.id = m->comm_count, .size = size, .ranks = ranks};
    (void)snprintf(comm->name, sizeof comm->name, "%s", first->comm);
    for (int i = 0; i < size; i++) {
        ranks[i] = size == m->ranks && first->member < 0 ? i : -1 - i;
    }
    int seen = 0, last = -1;
    for (size_t i = 0; i < count; i++) {
        int rank = call_of(m, calls[i])->rank;
        if (rank == last) {
            continue;
        }
        last = rank;
        int member = calls[i]->recorded->member;
        if (member < 0) {
            member = size == m->ranks ? rank : seen;
        }
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
        m->order[i] = &m->traced[i];
    }
    qsort(m->order, m->count, sizeof *m->order, by_comm);
    for (size_t first = 0, end; first < m->count; first = end) {
        end = first + 1;
        while (end < m->count &&
               compare_comms(m->order[first]->recorded, m->order[end]->recorded) == 0) {
            end++;
        }
        ls_comm *comm = NULL;
        LS_TRY(make_comm(&comm, m, &m->order[first], end - first));
        LS_TRY(ls_match__open(comm));
        m->comms[m->comm_count++] = comm;
        for (size_t i = first; i < end; i++) {
            call_of(m, m->order[i])->comm = comm;
        }
    }
    return LS_OK;
}

// ---- Sets ---------------------------------------------------------------------------------------
// A member without a call has no reportable rank.
static int check_known(const matching *m) {
    for (size_t i = 0; i < m->count; i++) {
        const ls_call *call = &m->calls[i];
        bool message = ls_kind_is_message(call->kind);
        for (int member = 0; member < call->comm->size; member++) {
            if (call->comm->ranks[member] < 0 && (!message || member == call->root)) {
                return fail(m, &m->traced[i],
                            message ? "its peer made no call" : "not all members made it");
            }
        }
    }
    return LS_OK;
}

// Matches the calls.
static int find_sets(matching *m) {
    LS_TRY(check_known(m));
    if (ls_match__kinds(&m->match, m->calls, (int)m->count) != LS_OK) {
        return LS_FAIL(LS_ERR_FORMAT, "the calls recorded in \"%s\" do not match: %s", m->dir,
                       ls_error_last()->text);
    }
    for (int set = 0; set < m->match.event_count; set++) {
        const ls_event *event = &m->match.events[set];
        for (int i = 0; i < event->size; i++) {
            m->traced[event->calls[i] - m->calls].set = set;
        }
        m->waiting[set] = event->size;
    }
    return LS_OK;
}

// ---- The order of sets --------------------------------------------------------------------------
// Counts the rank's next unmatched call at its set.
static void advance(matching *m, int rank) {
    size_t end = m->rank_first[rank + 1];
    while (m->next[rank] < end && m->traced[m->next[rank]].emitted) {
        m->next[rank]++;
    }
    if (m->next[rank] < end) {
        int set = m->traced[m->next[rank]].set;
        m->waiting[set] -= 1;
        if (m->waiting[set] == 0) {
            m->queue[m->queue_end++] = set;
        }
    }
}

// Not every rank records the algorithm of a collective. algorithm and protocol: NULL is allowed.
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

static int emit(matching *m, ls_trace *trace, int number) {
    const ls_event *set = &m->match.events[number];
    ls_trace_set *made = ls_trace__add(trace, set->calls, set->size);
    for (int i = 0; i < set->size; i++) {
        traced_call *at = &m->traced[set->calls[i] - m->calls];
        at->emitted = true;
        if (made != NULL && made->algorithm == NULL) {
            LS_TRY(say_how(trace, made, at->recorded->algorithm, at->recorded->protocol,
                           at->recorded->channels));
        }
    }
    for (int i = 0; i < set->size; i++) {
        int rank = set->calls[i]->rank;
        if (&m->calls[m->next[rank]] == set->calls[i]) {
            advance(m, rank);
        }
    }
    return trace->status;
}

// Each rank's calls in order; if that is impossible, they were started together, and the next call
// of the lowest rank goes first.
static int emit_all(matching *m, ls_trace *trace) {
    for (int rank = 0; rank < m->ranks; rank++) {
        m->next[rank] = m->rank_first[rank];
        advance(m, rank);
    }
    int lowest = 0;
    for (int left = m->match.event_count; left > 0; left--) {
        if (m->queue_first < m->queue_end) {
            LS_TRY(emit(m, trace, m->queue[m->queue_first++]));
            continue;
        }
        while (m->next[lowest] == m->rank_first[lowest + 1]) {
            lowest++;
        }
        LS_TRY(emit(m, trace, m->traced[m->next[lowest]].set));
    }
    return LS_OK;
}

// ---- A recording --------------------------------------------------------------------------------
static int take_calls(matching *m, ls_trace *trace) {
    m->rank_first = ls_arena_alloc(m->arena, (size_t)m->ranks + 1, sizeof *m->rank_first);
    m->next = ls_arena_alloc(m->arena, (size_t)m->ranks, sizeof *m->next);
    LS_TRY_MEMORY(m->rank_first != NULL && m->next != NULL);
    for (int rank = 0; rank < m->ranks; rank++) {
        m->rank_first[rank + 1] =
            m->rank_first[rank] + (size_t)ls_recording_call_count(m->recording, rank);
    }
    m->count = m->rank_first[m->ranks];
    size_t room = m->count + 1;
    m->calls = ls_arena_alloc(m->arena, room, sizeof *m->calls);
    m->traced = ls_arena_alloc(m->arena, room, sizeof *m->traced);
    m->order = ls_arena_alloc(m->arena, room, sizeof(traced_call *));
    m->comms = ls_arena_alloc(m->arena, room, sizeof(ls_comm *));
    m->waiting = ls_arena_alloc(m->arena, room, sizeof *m->waiting);
    m->queue = ls_arena_alloc(m->arena, room, sizeof *m->queue);
    LS_TRY_MEMORY(m->calls != NULL && m->traced != NULL && m->order != NULL && m->comms != NULL &&
                  m->waiting != NULL && m->queue != NULL);
    const char *file = "";  // owned by the trace
    for (int rank = 0; rank < m->ranks && file != NULL; rank++) {
        for (size_t i = m->rank_first[rank]; i < m->rank_first[rank + 1] && file != NULL; i++) {
            int index = (int)(i - m->rank_first[rank]);
            const ls_recorded_call *recorded = ls_recording_call(m->recording, rank, index);
            const char *own = recorded->call.file != NULL ? recorded->call.file : "";
            file = strcmp(own, file) == 0 ? file : ls_arena_strdup(trace->arena, own);
            m->traced[i].recorded = recorded;
            m->calls[i] = recorded->call;
            m->calls[i].file = file;
        }
    }
    return file != NULL ? LS_OK : LS_ERR_MEMORY;
}

static int trace_calls(ls_trace *trace, matching *m) {
    const ls_recording_info *about = ls_recording_about(m->recording);
    LS_TRY(take_calls(m, trace));
    LS_TRY(find_comms(m));
    LS_TRY(find_sets(m));
    const char *name =
        ls_arena_printf(m->arena, "%s (recorded with %s)", about->name, about->backend);
    LS_TRY_MEMORY(name != NULL);
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
        for (int i = 0; i < m.comm_count; i++) {
            ls_match__close(m.comms[i]);
        }
        ls_match__free(&m.match);
        ls_arena_free(m.arena);
    }
    ls_recording_free(recording);
    return status;
}
