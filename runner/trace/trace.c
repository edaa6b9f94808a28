// Records the events of a trace; trace_write.c writes them.
#include "runner/trace/trace.h"

#include <math.h>
#include <string.h>

#include "runner/trace/trace_internal.h"

int ls_trace_create(ls_trace **out, const ls_topology *machine, bool traffic) {
    *out = NULL;
    ls_arena *arena = NULL;
    ls_trace *trace = ls_arena_create_with(&arena, sizeof *trace);
    LS_TRY_MEMORY(trace != NULL);
    trace->arena = arena;
    trace->has_machine = machine != NULL;
    if (machine != NULL) {
        trace->machine = *machine;
    }
    trace->wants_traffic = traffic;
    *out = trace;
    return LS_OK;
}

void ls_trace_free(ls_trace *trace) {
    if (trace != NULL) {
        ls_arena_free(trace->arena);
    }
}

int ls_trace_status(const ls_trace *trace) {
    return trace->status;
}

int ls_trace_begin(ls_trace *trace, const char *name, int ranks, const void *owner) {
    LS_ASSERT(ranks > 0);
    if (trace == NULL) {
        return LS_OK;
    }
    if (trace->wants_traffic && ranks > LS_TRAFFIC_RANKS_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "a matrix of bytes between %d ranks; at most %d are drawn",
                       ranks, LS_TRAFFIC_RANKS_MAX);
    }
    if (owner != NULL && trace->case_count > 0 &&
        trace->cases[trace->case_count - 1].owner == owner) {
        trace->case_count -= 1;
        while (trace->set_count > 0 &&
               trace->sets[trace->set_count - 1].trace_case == trace->case_count) {
            trace->set_count -= 1;
        }
    }
    ls_trace_case *cases = ls_arena_grow(trace->arena, trace->cases, trace->case_count,
                                         &trace->case_room, sizeof *cases);
    LS_TRY_MEMORY(cases != NULL);
    trace->cases = cases;
    ls_trace_case *made = &cases[trace->case_count];
    *made =
        (ls_trace_case){.name = ls_arena_strdup(trace->arena, name),
                        .owner = owner,
                        .ranks = ranks,
                        .ready_us = ls_arena_alloc(trace->arena, (size_t)ranks, sizeof(double))};
    if (trace->wants_traffic) {
        trace->traffic =
            ls_arena_alloc(trace->arena, (size_t)ranks * (size_t)ranks, sizeof *trace->traffic);
    }
    LS_TRY_MEMORY(made->name != NULL && made->ready_us != NULL &&
                  (!trace->wants_traffic || trace->traffic != NULL));
    trace->case_count += 1;
    return LS_OK;
}

void ls_trace_watch(ls_trace *trace, ls_backend *backend, const char *name, const void *owner) {
    if (trace != NULL) {
        int status = ls_trace_begin(trace, name, ls_world_size(backend->world), owner);
        trace->status = trace->status == LS_OK ? status : trace->status;
        backend->met = ls_trace_met;
        backend->met_arg = trace;
    }
}

// ---- Time ---------------------------------------------------------------------------------------
static double whole_ticks(double us) {
    return fmax(ceil(us / LS_TRACE_TICK_US), 1.0) * LS_TRACE_TICK_US;
}

double ls_trace_duration_us(const ls_topology *machine, ls_kind kind, int size, uint64_t most,
                            bool one_host) {
    double bandwidth = one_host ? machine->intra_bandwidth : machine->inter_bandwidth;
    double latency = one_host ? machine->intra_latency_us : machine->inter_latency_us;
    double factor = ls_collective_bus_factor(ls_collective_of(kind), size);
    return whole_ticks(machine->launch_us + latency * ceil(log2((double)size)) +
                       factor * (double)most / bandwidth * 1000.0);
}

static double duration_us(const ls_trace *trace, const ls_trace_set *set, ls_kind kind) {
    if (!trace->has_machine) {
        return 1.0;
    }
    const ls_topology *machine = &trace->machine;
    uint64_t most = 0;
    bool one_host = true;
    for (int i = 0; i < set->size; i++) {
        const ls_trace_part *part = &set->parts[i];
        most = part->send_bytes > most ? part->send_bytes : most;
        most = part->recv_bytes > most ? part->recv_bytes : most;
        one_host = one_host && part->rank / machine->ranks_per_host ==
                                   set->parts[0].rank / machine->ranks_per_host;
    }
    return ls_trace_duration_us(machine, kind, set->size, most, one_host);
}

// ---- Sets ---------------------------------------------------------------------------------------
static void count_traffic(ls_trace *trace, const ls_call *const *calls, int size, int ranks) {
    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++) {
            if (from != to) {
                trace->traffic[(size_t)calls[from]->rank * (size_t)ranks +
                               (size_t)calls[to]->rank] += ls_collective_bytes(calls, from, to);
            }
        }
    }
}

static const char *keep_file(ls_trace *trace, const char *file) {
    if (file == NULL) {
        return "";
    }
    if (trace->file == NULL || strcmp(trace->file, file) != 0) {
        trace->file = ls_arena_strdup(trace->arena, file);
    }
    return trace->file;
}

static void fill_part(ls_trace_part *part, const ls_call *call, const ls_trace_case *of,
                      const char *file) {
    size_t send = 0, recv = 0;
    if (ls_call_send_elements(&send, call) != LS_OK ||
        ls_call_recv_elements(&recv, call) != LS_OK) {
        send = recv = 0;  // it has matched, so its sizes are valid
    }
    *part = (ls_trace_part){.rank = call->rank,
                            .kind = call->kind,
                            .seq = call->seq,
                            .count = call->count,
                            .send_bytes = send * ls_dtype_bytes(call->dtype),
                            .recv_bytes = recv * ls_dtype_bytes(call->dtype),
                            .start_us = of->ready_us[call->rank],
                            .file = file,
                            .line = call->line};
}

ls_trace_set *ls_trace__add(ls_trace *trace, const ls_call *const *calls, int size) {
    if (trace->status != LS_OK || trace->case_count == 0) {
        return NULL;
    }
    ls_trace_case *of = &trace->cases[trace->case_count - 1];
    ls_trace_set *sets = ls_arena_grow(trace->arena, trace->sets, (int)trace->set_count,
                                       &trace->set_room, sizeof *sets);
    ls_trace_part *parts = ls_arena_alloc(trace->arena, (size_t)size, sizeof *parts);
    const ls_call *first = calls[0];
    const ls_comm *comm = first->comm;
    const char *name = ls_arena_strdup(trace->arena, comm->name);
    if (sets == NULL || parts == NULL || name == NULL) {
        trace->status = LS_ERR_MEMORY;
        return NULL;
    }
    trace->sets = sets;
    ls_trace_set *set = &sets[trace->set_count++];
    const ls_collective *collective = ls_collective_of(first->kind);
    bool rooted = collective->root_word != NULL && !ls_kind_is_message(first->kind) &&
                  first->root >= 0 && first->root < comm->size;
    *set = (ls_trace_set){.trace_case = trace->case_count - 1,
                          .dtype = first->dtype,
                          .op = first->op,
                          .root = rooted ? comm->ranks[first->root] : -1,
                          .reduces = collective->reduces,
                          .comm = name,
                          .parts = parts,
                          .size = size};
    double start = 0;
    for (int i = 0; i < size; i++) {
        LS_ASSERT(calls[i]->rank >= 0 && calls[i]->rank < of->ranks);
        const char *file = keep_file(trace, calls[i]->file);
        if (file == NULL) {
            trace->set_count -= 1;
            trace->status = LS_ERR_MEMORY;
            return NULL;
        }
        fill_part(&parts[i], calls[i], of, file);
        start = parts[i].start_us > start ? parts[i].start_us : start;
    }
    set->end_us = start + duration_us(trace, set, first->kind);
    for (int i = 0; i < size; i++) {
        of->ready_us[calls[i]->rank] = set->end_us;
    }
    if (trace->wants_traffic) {
        count_traffic(trace, calls, size, of->ranks);
    }
    return set;
}

void ls_trace_met(void *arg, const ls_call *const *calls, int size) {
    (void)ls_trace__add(arg, calls, size);
}

size_t ls_trace_sets(const ls_trace *trace) {
    return trace->set_count;
}

const uint64_t *ls_trace_traffic(int *ranks, const ls_trace *trace) {
    *ranks = trace->case_count > 0 ? trace->cases[trace->case_count - 1].ranks : 0;
    return trace->traffic;
}
