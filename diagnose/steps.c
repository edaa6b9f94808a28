// A history as the steps of a scenario, and its finding in the least of them. A step stands for one
// event: a collective of a group, or a message. It is made by the ranks that have it next, and
// skipped by the others; where ranks have events in different orders, an event is several steps.
#include "diagnose/steps.h"

#include <string.h>

#define STEPS_MAX 4000

typedef struct event {
    int group;
    int from, to;      // ranks of a message; -1: a collective
    uint64_t ordinal;  // among those of the group, or of the two ranks in it
} event;

// A group, or two ranks in it, and how many calls of one rank there are.
typedef struct place {
    event at;
    uint64_t calls, met;
} place;

typedef struct maker {
    int event, rank;
    const ls_history_call *call;
} maker;

typedef struct steps {
    const ls_history *history;
    ls_arena *arena;
    event *events;
    int event_count;
    maker *makers;  // rank by rank, in the order of its calls; only of included events
    int maker_count;
    int *starts;    // [rank_count + 1] of each rank's makers
    int *next;      // [rank_count] the first that is not emitted
    bool *gone;     // [rank_count] its end is in a step
    place *places;  // [most calls of a rank]
    bool async;
    ls_steps_rest rest;
    json_t *list;
} steps;

// ---- Events -------------------------------------------------------------------------------------
static bool is_message(const ls_history_call *call) {
    return ls_kind_is_message(call->call.kind);
}

static event event_of(const ls_history *history, const ls_history_call *call, int rank) {
    event of = {.group = call->group, .from = -1, .to = -1};
    if (is_message(call)) {
        const int peer = history->groups[call->group].ranks[call->call.root];
        of.from = call->call.kind == LS_SEND ? rank : peer;
        of.to = call->call.kind == LS_SEND ? peer : rank;
    }
    return of;
}

static bool same_place(const event *a, const event *b) {
    return a->group == b->group && a->from == b->from && a->to == b->to;
}

static place *find_place(place *places, int *count, const event *wanted) {
    for (int i = 0; i < *count; i++) {
        if (same_place(&places[i].at, wanted)) {
            return &places[i];
        }
    }
    places[*count] = (place){.at = *wanted};
    return &places[(*count)++];
}

static int find_event(steps *s, event wanted) {
    for (int i = 0; i < s->event_count; i++) {
        if (same_place(&s->events[i], &wanted) && s->events[i].ordinal == wanted.ordinal) {
            return i;
        }
    }
    s->events[s->event_count] = wanted;
    return s->event_count++;
}

// Adds the rank's unmatched calls, and the last `window` matched ones of each place. False: there
// are too many.
static bool include_rank(steps *s, int rank, uint64_t window) {
    const ls_history_rank *of = &s->history->ranks[rank];
    int places = 0;
    for (int i = 0; i < of->call_count; i++) {
        const event at = event_of(s->history, &of->calls[i], rank);
        find_place(s->places, &places, &at)->met += of->calls[i].met ? 1 : 0;
    }
    for (int i = 0; i < of->call_count; i++) {
        event at = event_of(s->history, &of->calls[i], rank);
        place *in = find_place(s->places, &places, &at);
        at.ordinal = in->calls++;
        if (of->calls[i].met && window != LS_STEPS_WHOLE && at.ordinal + window < in->met) {
            continue;
        }
        if (s->maker_count == STEPS_MAX) {
            return false;
        }
        s->makers[s->maker_count++] =
            (maker){.event = find_event(s, at), .rank = rank, .call = &of->calls[i]};
    }
    return true;
}

static bool include(steps *s, uint64_t window) {
    for (int r = 0; r < s->history->rank_count; r++) {
        s->starts[r] = s->next[r] = s->maker_count;
        if (!include_rank(s, r, window)) {
            return false;
        }
    }
    s->starts[s->history->rank_count] = s->maker_count;
    return true;
}

// ---- One step -----------------------------------------------------------------------------------
static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value);
}

static json_t *list_of(const int *ranks, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        (void)json_array_append_new(list, json_integer(ranks[i]));
    }
    return list;
}

static json_t *counts_of(const size_t *counts, int size) {
    json_t *list = json_array();
    for (int i = 0; i < size; i++) {
        (void)json_array_append_new(list, json_integer((json_int_t)counts[i]));
    }
    return list;
}

static bool is_world(const ls_history *history, const ls_history_group *group) {
    for (int i = 0; i < group->size; i++) {
        if (group->ranks[i] != i) {
            return false;
        }
    }
    return group->size == history->rank_count;
}

// The group of the messages, which a scenario has on its world; -1: there are none.
static int messaging_group(const steps *s) {
    for (int i = 0; i < s->event_count; i++) {
        if (s->events[i].from >= 0) {
            return s->events[i].group;
        }
    }
    return -1;
}

// The group as a list of ranks. A scenario has one communicator for a list: a further group of the
// same ranks is listed in another order. The group of the messages counts as the first.
static json_t *ranks_of(const steps *s, int index) {
    const ls_history_group *group = &s->history->groups[index];
    const int first = messaging_group(s);
    json_t *list = list_of(group->ranks, group->size);
    for (int g = 0; g < s->history->group_count && index != first; g++) {
        const ls_history_group *other = &s->history->groups[g];
        if ((g < index || g == first) && other->size == group->size &&
            memcmp(other->ranks, group->ranks, (size_t)group->size * sizeof *group->ranks) == 0) {
            json_t *moved = json_incref(json_array_get(list, 0));
            (void)json_array_remove(list, 0);
            (void)json_array_append_new(list, moved);
        }
    }
    return list;
}

static bool has_data(const ls_call *call) {
    return ls_collective_has_data(ls_collective_of(call->kind));
}

// The exception of a member whose call is not the step's.
static json_t *differences(const ls_call *own, const ls_call *base, int size) {
    json_t *except = json_object();
    const ls_collective *collective = ls_collective_of(own->kind);
    if (own->kind != base->kind && !ls_kind_is_message(own->kind)) {
        set(except, "call", json_string(ls_kind_name(own->kind)));
    }
    if (has_data(own) && (own->count != base->count || own->kind != base->kind)) {
        set(except, "count", json_integer((json_int_t)own->count));
    }
    if (has_data(own) && own->dtype != base->dtype) {
        set(except, "dtype", json_string(ls_dtype_name(own->dtype)));
    }
    if (collective->reduces && own->op != base->op) {
        set(except, "op", json_string(ls_op_name(own->op)));
    }
    if (collective->root_word != NULL && own->root != base->root &&
        !ls_kind_is_message(own->kind)) {
        set(except, "root", json_integer(own->root));
    }
    if (own->send_counts != NULL && base->send_counts != NULL &&
        memcmp(own->send_counts, base->send_counts, (size_t)size * sizeof(size_t)) != 0) {
        set(except, "counts", counts_of(own->send_counts, size));
    }
    return except;
}

static void describe_collective(const steps *s, json_t *step, const ls_call *base, int group) {
    const ls_collective *collective = ls_collective_of(base->kind);
    json_t *ranks = ranks_of(s, group);
    if (is_world(s->history, &s->history->groups[group]) &&
        json_integer_value(json_array_get(ranks, 0)) == 0) {
        json_decref(ranks);
    } else {
        set(step, "ranks", ranks);
    }
    if (has_data(base)) {
        set(step, "count", json_integer((json_int_t)base->count));
    }
    if (has_data(base) && base->dtype != LS_F32) {
        set(step, "dtype", json_string(ls_dtype_name(base->dtype)));
    }
    if (collective->reduces && base->op != LS_SUM) {
        set(step, "op", json_string(ls_op_name(base->op)));
    }
    if (collective->root_word != NULL && base->root != 0) {
        set(step, "root", json_integer(base->root));
    }
}

// The call that most makers of a step make.
static const ls_call *usual_call(const steps *s, const int *makers, int count) {
    int best = 0, most = 0;
    for (int i = 0; i < count; i++) {
        int alike = 0;
        for (int k = 0; k < count; k++) {
            json_t *apart =
                differences(&s->makers[makers[i]].call->call, &s->makers[makers[k]].call->call, 1);
            alike += json_object_size(apart) == 0 ? 1 : 0;
            json_decref(apart);
        }
        best = alike > most ? i : best;
        most = alike > most ? alike : most;
    }
    return &s->makers[makers[best]].call->call;
}

// The rank makes no call of the step: it has ended, or it skips this one.
static void leave_out(steps *s, int rank, json_t *skipping, json_t *excepts) {
    const char *ended = s->history->ranks[rank].ended;
    if (s->next[rank] < s->starts[rank + 1] ||
        (ended == NULL && s->rest == LS_STEPS_REST_RETURNS)) {
        (void)json_array_append_new(skipping, json_integer(rank));
    } else if (ended == NULL) {
        s->gone[rank] = s->rest == LS_STEPS_REST_STALLS;
    } else if (!s->gone[rank]) {  // a process that died is a fault of the scenario
        s->gone[rank] = true;
        if (ls_history_returned(ended)) {
            (void)json_array_append_new(excepts,
                                        json_pack("{s:[i],s:b}", "ranks", rank, "exit", 1));
        }
    }
}

// A step that the makers [count] make together.
static int emit(steps *s, const int *makers, int count) {
    const event *of = &s->events[s->makers[makers[0]].event];
    const ls_history_group *group = &s->history->groups[of->group];
    const bool message = of->from >= 0;
    const ls_call *base = usual_call(s, makers, count);
    const int pair[] = {of->from, of->to};
    const int *members = message ? pair : group->ranks, size = message ? 2 : group->size;
    json_t *step = json_object(), *excepts = json_array(), *skipping = json_array();
    if (message) {
        set(step, "pairs", json_pack("[[i,i]]", of->from, of->to));
        set(step, "count", json_integer((json_int_t)base->count));
        if (base->dtype != LS_F32) {
            set(step, "dtype", json_string(ls_dtype_name(base->dtype)));
        }
        if (!s->async) {
            set(step, "blocking", json_true());
        }
    } else {
        describe_collective(s, step, base, of->group);
    }
    for (int m = 0; m < (of->from == of->to && message ? 1 : size); m++) {
        int made = -1;
        for (int i = 0; i < count; i++) {
            made = s->makers[makers[i]].rank == members[m] ? makers[i] : made;
        }
        json_t *except =
            made < 0 ? NULL : differences(&s->makers[made].call->call, base, group->size);
        if (made < 0) {
            leave_out(s, members[m], skipping, excepts);
        } else if (json_object_size(except) > 0) {
            set(except, "ranks", list_of(&members[m], 1));
            (void)json_array_append_new(excepts, except);
            except = NULL;
        }
        json_decref(except);
    }
    if (json_array_size(skipping) > 0) {
        (void)json_array_append_new(excepts, json_pack("{s:O,s:b}", "ranks", skipping, "skip", 1));
    }
    json_decref(skipping);
    if (s->async) {
        set(step, "async", json_true());
        set(step, "name", json_sprintf("call %d", (int)json_array_size(s->list)));
    }
    if (json_array_size(excepts) > 0) {
        set(step, "except", excepts);
    } else {
        json_decref(excepts);
    }
    json_t *named = json_object();
    set(named, message ? "send_recv" : ls_kind_name(base->kind), step);
    for (int i = 0; i < count; i++) {
        s->next[s->makers[makers[i]].rank] += 1;
    }
    return json_array_append_new(s->list, named) == 0 ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory");
}

// ---- All steps ----------------------------------------------------------------------------------
// The ranks that have the event next; *all: no other rank has it later.
static int makers_of(int *out, bool *all, const steps *s, int wanted) {
    int count = 0;
    *all = true;
    for (int r = 0; r < s->history->rank_count; r++) {
        for (int i = s->next[r]; i < s->starts[r + 1]; i++) {
            if (s->makers[i].event == wanted) {
                *all = *all && i == s->next[r];
                if (i == s->next[r]) {
                    out[count++] = i;
                }
                break;
            }
        }
    }
    return count;
}

static int emit_all(steps *s) {
    const int ranks = s->history->rank_count;
    int *makers = ls_arena_alloc(s->arena, (size_t)ranks, sizeof *makers), emitted = 0;
    LS_TRY_MEMORY(makers != NULL);
    while (emitted < s->maker_count) {
        int count = 0, partly = -1;
        bool all = false;
        for (int r = 0; r < ranks && !all; r++) {
            if (s->next[r] < s->starts[r + 1]) {
                partly = partly < 0 ? s->makers[s->next[r]].event : partly;
                count = makers_of(makers, &all, s, s->makers[s->next[r]].event);
            }
        }
        if (!all) {
            count = makers_of(makers, &all, s, partly);
        }
        LS_TRY(emit(s, makers, count));
        emitted += count;
    }
    return LS_OK;
}

static void add_waits(json_t *list) {
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:{s:o}}", "wait", "step", json_sprintf("call %d", (int)i)));
    }
}

// A process that died before others waited for it dies in a barrier.
static void add_end(steps *s) {
    bool died = false;
    for (int r = 0; r < s->history->rank_count; r++) {
        const char *ended = s->history->ranks[r].ended;
        if (ended != NULL && !ls_history_returned(ended) && !s->gone[r]) {
            s->gone[r] = died = true;
        }
    }
    if (died) {
        (void)json_array_append_new(s->list, json_pack("{s:{}}", "barrier"));
    }
}

// A process that died or stalls does so at the call behind its last one.
static json_t *faults_of(const steps *s) {
    json_t *faults = json_array();
    for (int r = 0; r < s->history->rank_count; r++) {
        const char *ended = s->history->ranks[r].ended;
        if (s->gone[r] && !ls_history_returned(ended)) {
            (void)json_array_append_new(
                faults, json_pack("{s:s,s:i,s:i}", "type", ended != NULL ? "die" : "stall", "rank",
                                  r, "call", s->starts[r + 1] - s->starts[r]));
        }
    }
    return faults;
}

int ls_steps_make(json_t **out, const ls_history *history, ls_arena *arena, uint64_t window,
                  ls_steps_rest rest, bool async) {
    steps s = {.history = history, .arena = arena, .async = async, .rest = rest};
    size_t calls = 0, most = 0;
    *out = NULL;
    for (int r = 0; r < history->rank_count; r++) {
        const size_t own = (size_t)history->ranks[r].call_count;
        calls += own;
        most = own > most ? own : most;
    }
    const size_t room = calls < STEPS_MAX ? calls + 1 : STEPS_MAX + 1;
    const size_t ranks = (size_t)history->rank_count + 1;
    s.events = ls_arena_alloc(arena, room, sizeof *s.events);
    s.makers = ls_arena_alloc(arena, room, sizeof *s.makers);
    s.starts = ls_arena_alloc(arena, ranks, sizeof *s.starts);
    s.next = ls_arena_alloc(arena, ranks, sizeof *s.next);
    s.gone = ls_arena_alloc(arena, ranks, sizeof *s.gone);
    s.places = ls_arena_alloc(arena, most + 1, sizeof *s.places);
    LS_TRY_MEMORY(s.events != NULL && s.makers != NULL && s.starts != NULL && s.next != NULL &&
                  s.gone != NULL && s.places != NULL);
    if (!include(&s, window) || s.maker_count == 0) {
        return LS_OK;
    }
    s.list = json_array();
    int status = emit_all(&s);
    if (status == LS_OK) {
        if (async) {
            add_waits(s.list);
        }
        add_end(&s);
        *out = json_pack("{s:i,s:s,s:{s:[i]},s:{s:O}}", "lockstep", 1, "name", "extracted", "mesh",
                         "shape", history->rank_count, "program", "steps", s.list);
        json_t *faults = faults_of(&s);
        if (json_array_size(faults) > 0) {
            set(*out, "faults", faults);
        } else {
            json_decref(faults);
        }
    }
    json_decref(s.list);
    return status == LS_OK && *out == NULL ? LS_FAIL(LS_ERR_MEMORY, "no memory") : status;
}
