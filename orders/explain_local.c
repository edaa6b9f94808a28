// Small changes to an order: one chunk folded in another sequence (a hop elsewhere), or a boundary
// between two chunks elsewhere. A change must account for every element of what it
// touches.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "orders/explain_internal.h"

#define RUNS_MAX          ((size_t)1 << 14)
#define EVIDENCE_MIN      2  // elements that a change must explain: one could be chance
#define PART_EVIDENCE_MIN 8  // position, for a part of a chunk

typedef struct run {
    ls_order_run at;
    ls_text fold;
} run;

typedef struct local {
    const ls_order_observation *observation;
    uint64_t *budget;
    const char *base;  // text of the order that is changed
    int target;
    run *runs;  // of this target
    size_t run_count;
    size_t run_capacity;
    size_t cursor;            // the next run of the second visit
    unsigned char *expected;  // [count] elements; also where candidates are tried
    unsigned char *differs;   // [count]
    ls_text overrides;        // accepted so far, for the at= key
    ls_text sentence;
    size_t span_first;  // elements that a hop elsewhere is tried for
    size_t span_end;    //
    int changes;
    int changes_max;
    bool failed;  // a chunk that no small change explains
} local;

static int collect(void *arg, const ls_order_run *at) {
    local *l = arg;
    if (l->run_count == l->run_capacity) {
        return LS_ERR_LIMIT;
    }
    run *r = &l->runs[l->run_count++];
    r->at = *at;
    ls_fold__write(&r->fold, at->fold);
    return r->fold.failed ? LS_ERR_MEMORY : LS_OK;
}

// Whether [first, end) folded as `fold` has the observed bits.
static bool fits(local *l, size_t first, size_t end, const char *fold) {
    ls_text text = {0};
    if (!ls_explain__spend(l->budget, l->observation, end - first)) {
        return false;
    }
    ls_text_printf(&text, "%s,at=%zu..%zu:%s", l->base, first, end, fold);
    ls_order *order = NULL;
    bool equal = false;
    if (!text.failed && ls_order_parse(&order, ls_text_string(&text)) == LS_OK) {
        const ls_reduction *reduction = l->observation->reduction;
        size_t bytes = ls_dtype_bytes(reduction->dtype);
        size_t block = l->observation->call == LS_ORDER_REDUCE_SCATTER ? (size_t)l->target : 0;
        const unsigned char *actual = (const unsigned char *)l->observation->actual +
                                      (block * reduction->count + first) * bytes;
        unsigned char *differs = l->differs + reduction->count;
        equal =
            ls_explain__reduce(order, l->expected, l->observation, l->target, first, end - first) ==
                LS_OK &&
            ls_explain__compare(reduction->dtype, l->expected, actual, end - first, differs) == 0;
    }
    ls_order_free(order);
    ls_text_free(&text);
    return equal;
}

static void accept(local *l, size_t first, size_t end, const char *fold) {
    ls_text_puts(&l->overrides, l->overrides.length == 0 ? "" : "/");
    if (l->observation->call != LS_ORDER_ALL_REDUCE) {
        ls_text_printf(&l->overrides, "%d@", l->target);
    }
    ls_text_printf(&l->overrides, "%zu..%zu:%s", first, end, fold);
    l->changes++;
}

static void describe(ls_text *out, const local *l, const ls_order_run *at) {
    if (l->observation->call == LS_ORDER_REDUCE_SCATTER) {
        ls_text_printf(out, "block %d, ", l->target);
    }
    ls_text_printf(out, "channel %d", at->channel);
    if (at->chunk >= 0) {
        ls_text_printf(out, ", loop %zu, chunk %d", at->loop, at->chunk);
    }
}

static bool try_boundaries(local *l, size_t index, size_t low, size_t high) {
    const ls_order_run *at = &l->runs[index].at;
    size_t end = at->first + at->length;
    if (index + 1 < l->run_count && low > at->first) {
        const run *next = &l->runs[index + 1];
        if (fits(l, low, end, ls_text_string(&next->fold))) {
            accept(l, low, end, ls_text_string(&next->fold));
            ls_text_puts(&l->sentence, "one chunk boundary: ");
            describe(&l->sentence, l, at);
            ls_text_printf(&l->sentence, " ends by element %zu instead of %zu", low, end);
            return true;
        }
    }
    if (index > 0 && high + 1 < end) {
        const run *previous = &l->runs[index - 1];
        if (fits(l, at->first, high + 1, ls_text_string(&previous->fold))) {
            accept(l, at->first, high + 1, ls_text_string(&previous->fold));
            ls_text_puts(&l->sentence, "one chunk boundary: ");
            describe(&l->sentence, l, at);
            ls_text_printf(&l->sentence, " begins after element %zu instead of at %zu", high,
                           at->first);
            return true;
        }
    }
    return false;
}

// Whether the span of a run were folded as `fold`.
static bool try_fold(local *l, const run *r, const char *fold) {
    if (strcmp(fold, ls_text_string(&r->fold)) == 0 || !fits(l, l->span_first, l->span_end, fold)) {
        return false;
    }
    accept(l, l->span_first, l->span_end, fold);
    ls_text_puts(&l->sentence, "one hop: ");
    describe(&l->sentence, l, &r->at);
    ls_text_printf(&l->sentence, " (elements %zu..%zu) is folded %s instead of %s", l->span_first,
                   l->span_end - 1, fold, ls_text_string(&r->fold));
    return true;
}

static bool try_chain(local *l, const run *r, const int *ranks, int count) {
    ls_text text = {0};
    for (int i = count - 1; i >= 0; i--) {
        ls_text_printf(&text, "%s%d", i == count - 1 ? "" : "(", ranks[i]);
    }
    ls_text_repeat(&text, ')', (size_t)count - 1);
    bool found = !text.failed && try_fold(l, r, ls_text_string(&text));
    ls_text_free(&text);
    return found;
}

// Every other way of adding few terms; two ranks exchanged where there are more.
static bool try_hops(local *l, const run *r) {
    int count = l->observation->reduction->in_count;
    int ranks[64];
    if (count > (int)(sizeof ranks / sizeof *ranks) || !r->at.fold->linear) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        ranks[i] = count <= 5 ? i : r->at.fold->steps[i].rank;
    }
    if (count <= 5) {
        do {
            char pairs[64];
            (void)snprintf(pairs, sizeof pairs, "%d(%d+%d(%d))", ranks[0], ranks[1],
                           ranks[2 % count], ranks[3 % count]);
            if (try_chain(l, r, ranks, count) || (count == 4 && try_fold(l, r, pairs))) {
                return true;
            }
        } while (ls_explain__next_permutation(ranks, count));
        return false;
    }
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            int swap = ranks[a];
            ranks[a] = ranks[b];
            ranks[b] = swap;
            if (try_chain(l, r, ranks, count)) {
                return true;
            }
            ranks[b] = ranks[a];
            ranks[a] = swap;
        }
    }
    return false;
}

// A hop elsewhere for the whole chunk, or for the part of it that differs.
static bool try_spans(local *l, size_t index, size_t low, size_t high, size_t differing) {
    const run *r = &l->runs[index];
    l->span_first = r->at.first;
    l->span_end = r->at.first + r->at.length;
    if (try_hops(l, r)) {
        return true;
    }
    l->span_first = low;
    l->span_end = high + 1;
    return differing >= PART_EVIDENCE_MIN && try_hops(l, r);
}

static int explain_run(void *arg, const ls_order_run *at) {
    local *l = arg;
    size_t index = l->cursor++;
    LS_ASSERT(index < l->run_count && l->runs[index].at.first == at->first);
    l->runs[index].at.fold = at->fold;
    size_t low = SIZE_MAX;
    size_t high = 0;
    size_t differing = 0;
    for (size_t i = at->first; i < at->first + at->length; i++) {
        if (l->differs[i] != 0) {
            low = i < low ? i : low;
            high = i;
            differing++;
        }
    }
    if (differing == 0 || l->failed) {
        return LS_OK;
    }
    ls_text_puts(&l->sentence, l->changes == 0 ? "" : "; ");
    if (differing < EVIDENCE_MIN || l->changes == l->changes_max ||
        (!try_boundaries(l, index, low, high) && !try_spans(l, index, low, high, differing))) {
        l->failed = true;
    }
    return LS_OK;
}

static int explain_target(local *l, const ls_order *order) {
    const ls_reduction *reduction = l->observation->reduction;
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    ls_order_range range = {l->observation->call, reduction->in_count, reduction->dtype,
                            reduction->count,     l->target,           0,
                            reduction->count};
    for (size_t i = 0; i < l->run_count; i++) {
        ls_text_free(&l->runs[i].fold);
    }
    memset(l->runs, 0, l->run_capacity * sizeof *l->runs);
    l->run_count = 0;
    l->cursor = 0;
    LS_TRY(ls_order_runs(order, &range, collect, l));
    LS_TRY(ls_explain__reduce(order, l->expected, l->observation, l->target, 0, reduction->count));
    size_t block = l->observation->call == LS_ORDER_REDUCE_SCATTER ? (size_t)l->target : 0;
    const unsigned char *actual = (const unsigned char *)l->observation->actual;
    if (ls_explain__compare(reduction->dtype, l->expected,
                            actual + block * reduction->count * bytes, reduction->count,
                            l->differs) == 0) {
        return LS_OK;
    }
    return ls_order_runs(order, &range, explain_run, l);
}

static int count_run(void *arg, const ls_order_run *at) {
    (void)at;
    size_t *count = arg;
    return ++*count > RUNS_MAX ? LS_ERR_LIMIT : LS_OK;
}

static int explain_all(local *l, ls_order_explanation *best) {
    const ls_order_observation *o = l->observation;
    bool scatter = o->call == LS_ORDER_REDUCE_SCATTER;
    int targets = scatter ? o->reduction->in_count : 1;
    for (int t = 0; t < targets && !l->failed; t++) {
        l->target = scatter ? t : o->root;
        LS_TRY(explain_target(l, best->order));
    }
    if (l->failed || l->changes == 0 || l->overrides.failed || l->sentence.failed) {
        return LS_OK;
    }
    ls_text text = {0};
    ls_text_printf(&text, "%s,at=%s", l->base, ls_text_string(&l->overrides));
    ls_order *order = NULL;
    size_t differing = 1;
    size_t first = 0;
    int status = ls_order_parse(&order, ls_text_string(&text));
    status = status == LS_OK ? ls_order_differing(&differing, &first, order, o, 1) : status;
    ls_text_free(&text);
    if (status != LS_OK || differing != 0) {
        ls_order_free(order);
        return status;
    }
    (void)snprintf(best->text, sizeof best->text, "%s", ls_text_string(&l->sentence));
    ls_order_free(best->order);
    best->order = order;
    best->found = true;
    best->differing = 0;
    return LS_OK;
}

int ls_explain__local(ls_order_explanation *best, const ls_order_observation *observation,
                      int changes_max, uint64_t *budget) {
    const ls_reduction *reduction = observation->reduction;
    if (best->order == NULL || strchr(ls_order_text(best->order), ':') == NULL ||
        best->order->override_count > 0 || !ls_fold__order_matters(reduction)) {
        return LS_OK;
    }
    local l = {.observation = observation, .budget = budget, .changes_max = changes_max};
    ls_order_range range = {observation->call, reduction->in_count, reduction->dtype,
                            reduction->count,  observation->root,   0,
                            reduction->count};
    if (ls_order_runs(best->order, &range, count_run, &l.run_capacity) != LS_OK) {
        return LS_OK;  // too many chunks to examine one by one
    }
    // The base text must outlive best->order, which the result replaces.
    ls_text base = {0};
    ls_text_puts(&base, ls_order_text(best->order));
    l.base = ls_text_string(&base);
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    void *runs = NULL;
    void *expected = NULL;
    void *differs = NULL;
    int status = ls_alloc(&runs, l.run_capacity, sizeof(run));
    status = status == LS_OK ? ls_alloc(&expected, reduction->count, bytes) : status;
    status = status == LS_OK ? ls_alloc(&differs, reduction->count, 2) : status;
    l.runs = runs;
    l.expected = expected;
    l.differs = differs;
    status = status == LS_OK ? explain_all(&l, best) : status;
    for (size_t i = 0; runs != NULL && i < l.run_count; i++) {
        ls_text_free(&l.runs[i].fold);
    }
    ls_free(runs, l.run_capacity, sizeof(run));
    ls_free(expected, reduction->count, bytes);
    ls_free(differs, reduction->count, 2);
    ls_text_free(&base);
    ls_text_free(&l.overrides);
    ls_text_free(&l.sentence);
    return status;
}
