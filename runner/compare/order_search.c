// Finds the orders of a real run's calls. See order_search.h.
#include "runner/compare/order_search.h"

#include <string.h>

#include "orders/explain.h"

// Limit on the input elements of all folds for one comparison, over all orders: a few seconds. A
// count, so that every machine tries the same orders.
#define FOLDED_MAX ((uint64_t)1 << 30)

// The place of a part of one rank's result: elements [first, first + length) are the array of
// `entry` and rank `holder`.
typedef struct site {
    const ls_stage_entry *entry;
    int holder;
    size_t first, length;
    struct site *next;
} site;

// A reducing call of one rank.
typedef struct result {
    int comm_id;
    uint64_t seq;
    int rank;
    size_t elements, covered;
    site *sites;
    struct result *next;
} result;

// The order of a call of all its ranks.
typedef struct known {
    int comm_id;
    uint64_t seq;
    ls_order *order;
    const char *sentence;  // name of the order; NULL: the stated one
    bool proven;           // no other order explains its differences
    struct known *next;
} known;

struct ls_order_search {
    ls_arena *arena;
    const ls_stages *simulated, *real;
    const ls_stages *filled;  // in the current simulation
    ls_call_orders *recorded;
    bool located;
    result *results;
    known *knowns;
    uint64_t budget;
    const char *guess;            // order of the calls that no stage shows; NULL: stated
    bool guesses;                 // there are such calls
    const ls_call *const *calls;  // calls that have matched
    int size;
    int status;  // error of a callback that cannot return one
};

int ls_order_search_create(ls_order_search **out, const ls_stages *simulated, const ls_stages *real,
                           ls_call_orders *recorded) {
    ls_arena *arena = NULL;
    *out = NULL;
    ls_order_search *made = ls_arena_create_with(&arena, sizeof *made);
    LS_TRY_MEMORY(made != NULL);
    *made = (ls_order_search){.arena = arena,
                              .simulated = simulated,
                              .real = real,
                              .recorded = recorded,
                              .budget = FOLDED_MAX};
    *out = made;
    return LS_OK;
}

void ls_order_search_restart(ls_order_search *search, const char *order) {
    for (known *k = search->knowns; k != NULL; k = k->next) {
        ls_order_free(k->order);
    }
    search->knowns = NULL;
    search->guess = order;
}

void ls_order_search_free(ls_order_search *search) {
    if (search != NULL) {
        ls_order_search_restart(search, NULL);
        ls_arena_free(search->arena);
    }
}

bool ls_order_search_guesses(const ls_order_search *search) {
    return search->guesses;
}

int ls_order_search_located(ls_order_search *search) {
    search->located = true;
    return search->status;
}

// ---- Where results go ---------------------------------------------------------------------------
static bool is_covered(const result *r, size_t first, size_t length) {
    for (const site *s = r->sites; s != NULL; s = s->next) {
        if (first < s->first + s->length && s->first < first + length) {
            return true;
        }
    }
    return false;
}

// The first place of the array's bits in the uncovered part of a result; elements: none.
static size_t place_of(const result *r, const unsigned char *data, const ls_stage_array *array,
                       size_t bytes) {
    for (size_t at = 0; at + array->count <= r->elements; at++) {
        if (memcmp(data + at * bytes, array->data, array->count * bytes) == 0 &&
            !is_covered(r, at, array->count)) {
            return at;
        }
    }
    return r->elements;
}

// Whether the call's rank produced this stage before the call was complete. Then the stage does not
// contain its result, even if the bits are equal, as with the average of equal numbers.
static bool came_before(const ls_order_search *search, const ls_stage_entry *entry,
                        const ls_call *call) {
    const ls_stage_entry *now = ls_stages_find(search->filled, entry->key);
    return now != NULL && now->ranks[call->rank].present;
}

static int cover(ls_order_search *search, result *r, const ls_call *call, int holder, bool whole) {
    size_t bytes = ls_dtype_bytes(call->dtype);
    for (int i = 0; i < ls_stages_count(search->simulated) && r->covered < r->elements; i++) {
        const ls_stage_entry *entry = ls_stages_at(search->simulated, i);
        const ls_stage_array *array = &entry->ranks[holder];
        if (entry->dtype != call->dtype || !array->present || array->count == 0 ||
            (array->count == r->elements) != whole || came_before(search, entry, call)) {
            continue;
        }
        size_t at = place_of(r, call->recv, array, bytes);
        if (at == r->elements) {
            continue;
        }
        site *made = ls_arena_alloc(search->arena, 1, sizeof *made);
        LS_TRY_MEMORY(made != NULL);
        *made = (site){.entry = entry,
                       .holder = holder,
                       .first = at,
                       .length = array->count,
                       .next = r->sites};
        r->sites = made;
        r->covered += array->count;
    }
    return LS_OK;
}

// Receives a call with its result in place. Stages of its own rank are searched first, then those
// of others, since results travel on; whole arrays before parts.
static int locate(ls_order_search *search, const ls_call *call) {
    size_t elements = 0;
    int ranks = ls_stages_ranks(search->simulated);
    LS_TRY(ls_call_recv_elements(&elements, call));
    if (elements == 0) {
        return LS_OK;
    }
    result *made = ls_arena_alloc(search->arena, 1, sizeof *made);
    LS_TRY_MEMORY(made != NULL);
    *made = (result){.comm_id = call->comm->id,
                     .seq = call->seq,
                     .rank = call->rank,
                     .elements = elements,
                     .next = search->results};
    search->results = made;
    for (int i = 0; i < ranks; i++) {
        LS_TRY(cover(search, made, call, (call->rank + i) % ranks, true));
    }
    for (int i = 0; i < ranks; i++) {
        LS_TRY(cover(search, made, call, (call->rank + i) % ranks, false));
    }
    return LS_OK;
}

static void observe(void *arg, const ls_call *call) {
    ls_order_search *search = arg;
    if (search->status == LS_OK && ls_collective_of(call->kind)->reduces &&
        ls_dtype_is_float(call->dtype)) {
        search->status = locate(search, call);
    }
}

// ---- Searching ----------------------------------------------------------------------------------
static const result *result_of(const ls_order_search *search, const ls_call *call) {
    for (const result *r = search->results; r != NULL; r = r->next) {
        if (r->comm_id == call->comm->id && r->seq == call->seq && r->rank == call->rank) {
            return r;
        }
    }
    return NULL;
}

// Assembles the call's result from the real run's stages; false: some of it is missing.
static bool take_real(unsigned char *out, const ls_order_search *search, const ls_call *call,
                      size_t elements) {
    const result *r = result_of(search, call);
    if (r == NULL || r->elements != elements || r->covered < elements) {
        return false;
    }
    size_t bytes = ls_dtype_bytes(call->dtype);
    for (const site *s = r->sites; s != NULL; s = s->next) {
        const ls_stage_entry *entry = ls_stages_find(search->real, s->entry->key);
        const ls_stage_array *array = entry != NULL ? &entry->ranks[s->holder] : NULL;
        if (array == NULL || entry->dtype != call->dtype || array->count != s->length) {
            return false;
        }
        memcpy(out + s->first * bytes, array->data, s->length * bytes);
    }
    return true;
}

// Tries the orders on one observed result: first those of other calls, then all known ones.
static int explain(ls_order_search *search, known *out, const ls_order *stated,
                   const ls_order_observation *observation) {
    size_t differing = 0, first = 0;
    LS_TRY(ls_order_differing(&differing, &first, stated, observation, 1));
    if (differing == 0) {
        return ls_order_parse(&out->order, ls_order_text(stated));
    }
    for (const known *k = search->knowns; k != NULL; k = k->next) {
        if (k->sentence == NULL || k->order == NULL) {
            continue;
        }
        int status = ls_order_differing(&differing, &first, k->order, observation, 1);
        if (status == LS_OK && differing == 0) {
            out->sentence = k->sentence;
            return ls_order_parse(&out->order, ls_order_text(k->order));
        }
        LS_TRY(status == LS_ERR_MEMORY ? status : LS_OK);
        ls_error_clear();  // of other ranks
    }
    ls_order_explanation explanation;
    LS_TRY(ls_order_explain(&explanation, stated, observation, &search->budget));
    if (!explanation.found && !explanation.proven) {
        ls_order_explanation_clear(&explanation);
        return LS_OK;
    }
    out->order = explanation.order;
    out->proven = !explanation.found;
    out->sentence = ls_arena_strdup(search->arena, explanation.text);
    return out->sentence != NULL ? LS_OK : LS_ERR_MEMORY;
}

// Whether each rank's result has the order's bits, or enough of them that the other ranks must be
// damaged.
static int prove(known *out, const ls_order_observation *observation, const unsigned char *actual,
                 int copies) {
    size_t bytes = ls_order_elements(observation) * ls_dtype_bytes(observation->reduction->dtype);
    out->proven = true;
    for (int i = 0; i < copies && out->proven; i++) {
        ls_order_observation one = *observation;
        one.actual = actual + (size_t)i * bytes;
        LS_TRY(ls_order_proven(&out->proven, out->order, &one));
    }
    return LS_OK;
}

// The results of the real run, [*copies, elements]; one copy is enough if each rank has a separate
// part.
static bool observe_real(unsigned char *actual, int *copies, const ls_order_search *search,
                         size_t elements) {
    const ls_call *const *calls = search->calls;
    const ls_collective *collective = ls_collective_of(calls[0]->kind);
    bool parts = collective->send.form == LS_SIDE_BLOCKS;
    size_t bytes = elements * ls_dtype_bytes(calls[0]->dtype);
    *copies = 0;
    for (int i = 0; i < search->size; i++) {
        bool wanted = !collective->recv.root_only || i == calls[i]->root;
        int at = parts ? i : *copies;
        if (wanted && take_real(actual + (size_t)at * bytes, search, calls[i], elements)) {
            *copies += 1;
        } else if (parts) {
            return false;
        }
    }
    *copies = parts ? 1 : *copies;
    return *copies > 0;
}

// For calls whose results are not in the stages unchanged.
static int guess_order(ls_order_search *search, known *out) {
    search->guesses = true;
    out->sentence = "a common order, which explains every value computed from these sums";
    return search->guess != NULL ? ls_order_parse(&out->order, search->guess) : LS_OK;
}

static int search_order(ls_order_search *search, known *out, const ls_order *stated,
                        ls_order_observation *observation, unsigned char *actual) {
    int copies = 0;
    size_t count = observation->reduction->count;
    size_t bytes = ls_order_elements(observation) * ls_dtype_bytes(observation->reduction->dtype);
    if (!observe_real(actual, &copies, search, count)) {
        return guess_order(search, out);
    }
    for (int i = 0; i < copies && (out->order == NULL || out->proven); i++) {
        observation->actual = actual + (size_t)i * bytes;
        if (i > 0 && memcmp(observation->actual, actual, bytes) == 0) {
            continue;
        }
        ls_order_free(out->order);
        out->order = NULL;
        out->proven = false;
        LS_TRY(explain(search, out, stated, observation));
    }
    return out->order != NULL ? prove(out, observation, actual, copies) : LS_OK;
}

// Whether the order of such calls can be described, and all blocks are split in the same way.
static bool can_search(const ls_call *const *calls, int size) {
    if (ls_collective_of(calls[0]->kind)->order == LS_ORDER_NONE) {
        return false;
    }
    for (int i = 1; i < size; i++) {
        if (calls[i]->count != calls[0]->count) {
            return false;  // each block is split in its own way
        }
    }
    return true;
}

// Finds the order of the matched calls; *out stays NULL if none is found.
static int search_calls(ls_order_search *search, known *out, const ls_order *stated) {
    const ls_call *const *calls = search->calls;
    int size = search->size;
    size_t n = (size_t)size;
    const ls_collective *collective = ls_collective_of(calls[0]->kind);
    void *in = NULL, *factors = NULL, *actual = NULL;
    size_t room = 0;
    LS_TRY(ls_size_mul(&room, calls[0]->count, n));
    LS_TRY(ls_alloc(&in, n, sizeof(void *)));
    int status = ls_alloc(&factors, n, sizeof(double));
    status = status == LS_OK ? ls_alloc(&actual, room, ls_dtype_bytes(calls[0]->dtype)) : status;
    for (int i = 0; i < size && status == LS_OK; i++) {
        ((const void **)in)[i] = calls[i]->send;
        ((double *)factors)[i] = calls[i]->premul;
    }
    const ls_reduction reduction = {.in = in,
                                    .in_count = size,
                                    .dtype = calls[0]->dtype,
                                    .op = calls[0]->op,
                                    .premul = calls[0]->op == LS_PREMUL_SUM ? factors : NULL,
                                    .count = calls[0]->count};
    ls_order_observation observation = {.call = collective->order,
                                        .reduction = &reduction,
                                        .root = collective->recv.root_only ? calls[0]->root : 0};
    status = status == LS_OK ? search_order(search, out, stated, &observation, actual) : status;
    ls_free(in, n, sizeof(void *));
    ls_free(factors, n, sizeof(double));
    ls_free(actual, room, ls_dtype_bytes(calls[0]->dtype));
    return status;
}

static void remember_calls(void *arg, const ls_call *const *calls, int size) {
    ls_order_search *search = arg;
    search->calls = calls;
    search->size = size;
}

static int choose(void *arg, const ls_order **out, const ls_call *call) {
    ls_order_search *search = arg;
    if (search->recorded != NULL) {
        LS_TRY(ls_call_orders_of(search->recorded, out, call));
    }
    if (!search->located || !ls_dtype_is_float(call->dtype)) {
        return LS_OK;
    }
    known *made = ls_arena_alloc(search->arena, 1, sizeof *made);
    LS_TRY_MEMORY(made != NULL);
    *made = (known){.comm_id = call->comm->id, .seq = call->seq};
    int status = can_search(search->calls, search->size) ? search_calls(search, made, *out)
                                                         : guess_order(search, made);
    made->next = search->knowns;
    search->knowns = made;
    *out = made->order != NULL ? made->order : *out;
    return status;
}

void ls_order_search_watch(ls_order_search *search, ls_backend *backend, const ls_stages *filled) {
    search->filled = filled;
    backend->order_of = choose;
    backend->order_of_arg = search;
    backend->met = remember_calls;
    backend->met_arg = search;
    if (!search->located) {
        backend->observer = observe;
        backend->observer_arg = search;
    }
}

// ---- Telling ------------------------------------------------------------------------------------
static const known *known_of(const ls_order_search *search, const result *r) {
    for (const known *k = search->knowns; k != NULL; k = k->next) {
        if (k->comm_id == r->comm_id && k->seq == r->seq) {
            return k->order != NULL ? k : NULL;
        }
    }
    return NULL;
}

// Several calls may have equal results in one stage, as averages of equal numbers are: the stage
// may show any of them.
const char *ls_order_search_proven(const ls_order_search *search, const char *key, int rank) {
    const known *proven = NULL;
    for (const result *r = search->results; r != NULL; r = r->next) {
        for (const site *s = r->sites; s != NULL; s = s->next) {
            if (s->holder == rank && strcmp(s->entry->key, key) == 0) {
                proven = known_of(search, r);
                if (proven == NULL || !proven->proven) {
                    return NULL;
                }
            }
        }
    }
    return proven != NULL ? ls_order_text(proven->order) : NULL;
}

// The order of a stage: that of the first call whose result is in it. If its data only moves, that
// of any earlier call.
static const known *order_of_stage(const ls_order_search *search, const char *stage) {
    const known *any = NULL, *own = NULL;
    for (const result *r = search->results; r != NULL; r = r->next) {
        const known *k = known_of(search, r);
        if (k == NULL || k->sentence == NULL) {
            continue;
        }
        any = k;
        for (const site *s = r->sites; s != NULL; s = s->next) {
            own = strcmp(s->entry->stage, stage) == 0 ? k : own;
        }
    }
    return own != NULL ? own : any;
}

int ls_order_search_tell(const ls_order_search *search, ls_comparison *comparison,
                         const ls_comparison *again) {
    bool exact = true;  // all stages so far equal the real run's bit for bit
    for (int i = 0; i < again->stage_count; i++) {
        const ls_stage_result *now = &again->stages[i];
        ls_stage_result *stage =
            ls_comparison__stage(comparison, now->judge, now->reference, now->stage);
        const known *k = order_of_stage(search, now->stage);
        LS_TRY_MEMORY(stage != NULL);
        if (k != NULL && !ls_stage_wants_order(now) && ls_stage_wants_order(stage)) {
            stage->class_ = LS_CLASS_REORDERED;
            stage->elements = now->elements;
            stage->unjudged = now->unjudged;
            stage->vacuous = 0;
            stage->order = ls_arena_strdup(comparison->arena, ls_order_text(k->order));
            stage->divergence = ls_arena_strdup(comparison->arena, k->sentence);
            stage->bound_ratio = stage->bound_ratio <= 1.0 ? stage->bound_ratio : 0.0;
        } else if (exact && now->class_ == LS_CLASS_WRONG) {
            // Earlier stages are equal, so the call had the real run's inputs.
            const char *name = stage->name;
            *stage = *now;
            stage->name = name;
            comparison->places[stage - comparison->stages] = again->places[i];
        }
        exact = exact && !ls_stage_wants_order(now);
    }
    return LS_OK;
}
