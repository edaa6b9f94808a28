// Compares stage outputs with an oracle and with another run's, stage by stage.
#include "runner/compare/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "embedding/stages.h"
#include "kernels/kernels.h"
#include "kernels/ulps.h"
#include "orders/bound.h"
#include "runner/compare/reason.h"

static ls_class worse(ls_class a, ls_class b) {
    return a > b ? a : b;
}

// ---- Expectations -------------------------------------------------------------------------------
int ls_comparison__allowed(ls_expected *out, ls_allowance *allowed, bool *sums,
                           const ls_expectation *expectation, const ls_stage_entry *entry,
                           int rank) {
    *out = (ls_expected){0};
    *sums = false;
    if (expectation->expected != NULL) {
        const ls_stage_entry *known = ls_stages_find(expectation->expected, entry->key);
        const ls_stage_array *array = known != NULL ? &known->ranks[rank] : NULL;
        if (array == NULL || !array->present || array->count != entry->ranks[rank].count) {
            return LS_ERR_NOT_FOUND;
        }
        *sums = array->exact != NULL;
        *allowed = (ls_allowance){
            .exact = array->exact, .bounds = array->bounds, .overflow = array->overflow};
        return LS_OK;
    }
    if (expectation->oracle == NULL) {
        return LS_ERR_NOT_FOUND;
    }
    ls_stage_output output = ls_stage_entry_output(entry, rank);
    const ls_oracle *oracle = ls_execute_oracle_of(expectation->oracle, &output);
    LS_TRY(ls_oracle_expect(oracle, &output, out));
    if (out->count != entry->ranks[rank].count) {
        ls_expected_free(out);
        return LS_ERR_NOT_FOUND;
    }
    *sums = out->values != NULL && !out->moves;
    // documented differences of a sharding type are by design in its own runs
    *allowed =
        out->documented != NULL
            ? (ls_allowance){.exact = out->documented,
                             .bounds = out->documented_bounds,
                             .overflow = out->documented_vacuous}
            : (ls_allowance){.exact = out->values, .bounds = out->bounds, .overflow = out->vacuous};
    return LS_OK;
}

// ---- Array by array -----------------------------------------------------------------------------
struct pair {
    const ls_stage_entry *entry;  // of the run, or expected
    const ls_stage_array *a, *b;  // of one rank: the expected or simulated output, the run's output
    int rank;
    const ls_expectation *expectation;
    const char *a_name, *b_name;
    bool expected;              // a: expected, b: of the run
    const ls_stages *injected;  // of a
    int roundings;              // of b, see ls_stage_output
};

static void note_pair(ls_comparison *comparison, const ls_stage_result *stage,
                      const struct pair *pair, ls_class class_, size_t element) {
    const ls_stage_array *ours = pair->expected ? pair->b : pair->a;
    const ls_stage_array *theirs = pair->expected ? pair->a : pair->b;
    ls_comparison__place(comparison, stage,
                         &(ls_divergence_place){.class_ = class_,
                                                .key = pair->entry->key,
                                                .table = pair->entry->table,
                                                .feature = pair->entry->feature,
                                                .dtype = pair->entry->dtype,
                                                .rank = pair->rank,
                                                .element = element,
                                                .count = ours->count,
                                                .ours = ours->data,
                                                .theirs = theirs->data});
}

static void format_place(ls_text *text, const struct pair *pair, size_t element) {
    const ls_stage_entry *entry = pair->entry;
    ls_text_printf(text, "stage %s", entry->stage);
    if (entry->table != NULL) {
        ls_text_printf(text, ", table %s", entry->table);
    }
    if (entry->feature != NULL) {
        ls_text_printf(text, ", feature %s", entry->feature);
    }
    ls_text_printf(text, ", %s, rank %d", entry->field, pair->rank);
    if (element < pair->a->count) {
        ls_text_printf(text, ", element %zu", element);
        const ls_shape *shape = &pair->a->shape;
        size_t rest = element;
        ls_text_puts(text, " [");
        size_t stride = pair->a->count;
        for (int d = 0; d < shape->ndim; d++) {
            stride /= (size_t)shape->dim[d];
            ls_text_printf(text, "%s%zu", d > 0 ? ", " : "", rest / stride);
            rest %= stride;
        }
        ls_text_puts(text, "]");
    }
}

static void format_distance(ls_text *text, const struct pair *pair, size_t element) {
    ls_dtype dtype = pair->entry->dtype;
    if (dtype == LS_FIELD) {
        ls_text_puts(text, ", numbers of the field");
        return;
    }
    size_t offset = element * ls_dtype_bytes(dtype);
    uint64_t distance = ls_element_ulps((const char *)pair->a->data + offset,
                                        (const char *)pair->b->data + offset, dtype);
    const char *word = ls_dtype_is_float(dtype) ? ls_ulps_word(distance) : NULL;
    if (distance == 0) {
        ls_text_puts(text, ": the same value in other bits");
    } else if (word != NULL) {
        ls_text_printf(text, ": %s%s", word, distance == LS_ULPS_SIGN ? "" : " against a number");
    } else {
        ls_text_printf(text, ": %" PRIu64 "%s apart", distance,
                       ls_dtype_is_float(dtype) ? " ulps" : "");
    }
}

static const char *proven_order(const struct pair *pair) {
    const ls_order_search *orders = pair->expectation->orders;
    return orders == NULL ? NULL : ls_order_search_proven(orders, pair->entry->key, pair->rank);
}

static void explain(ls_text *text, const struct pair *pair, const ls_allowance *allowed,
                    const ls_difference *difference) {
    bool out_of_bound = difference->first_wrong < difference->elements;
    size_t element = out_of_bound ? difference->first_wrong : difference->first;
    format_place(text, pair, element);
    ls_text_printf(text, "\n  %s ", pair->a_name);
    ls_difference_tell(text, pair->a->data, pair->entry->dtype, element);
    ls_text_printf(text, ", %s ", pair->b_name);
    ls_difference_tell(text, pair->b->data, pair->entry->dtype, element);
    format_distance(text, pair, element);
    if (pair->entry->dtype == LS_FIELD) {
        // Integers are equal or not.
    } else if (allowed == NULL) {
        ls_text_puts(text, " where every bit must match");
    } else {
        ls_text_printf(text, "; exactly %.9g, allowed difference %.3g", allowed->exact[element],
                       allowed->bounds[element]);
    }
    const char *order = proven_order(pair);
    if (order != NULL) {
        ls_text_printf(
            text,
            "\n  the other elements match %s bit for bit, and no similar order gives this element",
            order);
    }
    if (pair->expectation->oracle == NULL) {
        return;
    }
    ls_stage_output output = ls_stage_entry_output(pair->entry, pair->rank);
    const ls_oracle *oracle = ls_execute_oracle_of(pair->expectation->oracle, &output);
    ls_provenance from;
    if (ls_oracle_provenance(oracle, &output, element, &from) != LS_OK) {
        return;
    }
    if (from.source_rank >= 0) {
        ls_text_printf(text, "\n  %s %" PRId64 " of rank %d", from.is_bag ? "bag" : "sample",
                       from.sample, from.source_rank);
    }
    if (from.id >= 0) {
        bool asked = from.source_rank >= 0;  // else it is an element of the table
        if (asked) {
            ls_text_printf(text, ", id %" PRId64 " at position %" PRId64, from.id, from.position);
        } else {
            ls_text_printf(text, ", row %" PRId64 " of the table", from.id);
        }
        if (from.owner_rank >= 0) {
            ls_text_printf(text, ", %s rank %d holds", asked ? "whose row" : "which",
                           from.owner_rank);
        }
    }
}

static int due_of(double **out, ls_arena *arena, const void *arg, const ls_stage_entry *entry,
                  int rank) {
    (void)arg;
    const ls_stage_array *array = &entry->ranks[rank];
    *out = ls_reason_widened(arena, array->data, entry->dtype, array->count);
    return *out != NULL ? LS_OK : LS_ERR_MEMORY;
}

static void note_shape(ls_comparison *comparison, ls_stage_result *stage, const struct pair *pair) {
    char a[96], b[96];
    ls_text text = {0};
    ls_shape_format(a, sizeof a, &pair->a->shape);
    ls_shape_format(b, sizeof b, &pair->b->shape);
    format_place(&text, pair, pair->a->count);
    ls_text_printf(&text, "\n  %s has shape %s, %s has %s", pair->a_name, a, pair->b_name,
                   pair->b->present ? b : "no such output");
    stage->differing += pair->a->count;
    stage->bound_ratio = INFINITY;
    ls_comparison__note_wrong(comparison, stage, &text);
    note_pair(comparison, stage, pair, LS_CLASS_WRONG, SIZE_MAX);
}

static void note_difference(ls_comparison *comparison, ls_stage_result *stage,
                            const struct pair *pair, const ls_allowance *allowed,
                            const ls_difference *difference) {
    stage->differing += difference->differing;
    ls_stage_result_distance(stage, pair->entry->dtype, difference->max_ulps);
    if (difference->bound_ratio > stage->bound_ratio) {
        stage->bound_ratio = difference->bound_ratio;
    }
    if (difference->differing == 0) {
        return;
    }
    if (difference->bound_ratio <= 1.0 && proven_order(pair) == NULL) {
        stage->class_ = worse(stage->class_, LS_CLASS_WITHIN_BOUND);
        note_pair(comparison, stage, pair, LS_CLASS_WITHIN_BOUND, difference->first);
        return;
    }
    ls_text text = {0};
    explain(&text, pair, allowed, difference);
    if (ls_comparison__explains(stage)) {
        (void)ls_reason_tell(&text, &(ls_reason_output){.stages = pair->injected,
                                                        .entry = pair->entry,
                                                        .rank = pair->rank,
                                                        .due = due_of,
                                                        .got = pair->b->data,
                                                        .of = pair->a_name});
    }
    ls_comparison__note_wrong(comparison, stage, &text);
    bool out_of_bound = difference->first_wrong < difference->elements;
    note_pair(comparison, stage, pair, LS_CLASS_WRONG,
              out_of_bound ? difference->first_wrong : difference->first);
}

// Bounds [count] for elements of b, which was rounded more often than the bounds count. Values that
// are not computed are not rounded.
static void widen(double *bounds, const double *exact, const struct pair *pair) {
    for (size_t i = 0; i < pair->b->count; i++) {
        for (int k = 0; k < pair->roundings && bounds[i] > 0; k++) {
            bounds[i] += ls_bound_step(pair->entry->dtype, fabs(exact[i]) + bounds[i]);
        }
    }
}

// ---- Sums of injected values --------------------------------------------------------------------
// The stage whose values this stage sums over ranks; LS_STAGE_NONE: none.
static ls_stage terms_of(int stage) {
    if (stage == LS_STAGE_OUTPUT_DIST) {
        return LS_STAGE_LOOKUP;
    }
    return stage == LS_STAGE_ALL_REDUCE ? LS_STAGE_LOOKUP_BACKWARD : LS_STAGE_NONE;
}

// The largest increase that injected defects can cause in the terms of an element: the largest
// change of each array of the table's terms, summed.
static double change_of_terms(const struct pair *pair, const ls_stages *injected) {
    ls_stage terms = terms_of(pair->entry->stage_of_tables);
    double sum = 0;
    for (int i = 0; i < ls_stages_count(injected) && terms != LS_STAGE_NONE; i++) {
        const ls_stage_entry *entry = ls_stages_at(injected, i);
        const ls_stage_entry *clean = ls_stages_find(pair->expectation->clean, entry->key);
        if (clean == NULL || entry->stage_of_tables != (int)terms ||
            entry->step_of_tables != pair->entry->step_of_tables ||
            strcmp(entry->table, pair->entry->table) != 0) {
            continue;
        }
        size_t bytes = ls_dtype_bytes(entry->dtype);
        for (int rank = 0; rank < ls_stages_ranks(injected); rank++) {
            const ls_stage_array *a = &entry->ranks[rank], *b = &clean->ranks[rank];
            double largest = 0;
            for (size_t k = 0; k < a->count && b->count == a->count; k++) {
                double x = ls_element_to_f64((const char *)a->data + k * bytes, entry->dtype);
                double y = ls_element_to_f64((const char *)b->data + k * bytes, entry->dtype);
                double change = fabs(x - y);
                if (!(change <= largest)) {  // NaN too
                    largest = isnan(change) ? INFINITY : change;
                }
            }
            sum += largest;
        }
    }
    return sum;
}

// An element that an injected defect has changed: both runs sum the same terms, each in its order,
// and the exact sum is unknown. Relative rounding grows with the new size.
static int allow_injected(ls_allowance *allowed, const struct pair *pair, ls_arena *arena) {
    const ls_stage_entry *of = ls_stages_find(pair->expectation->clean, pair->entry->key);
    const ls_stage_array *clean = of != NULL ? &of->ranks[pair->rank] : NULL;
    size_t bytes = ls_dtype_bytes(pair->entry->dtype), count = pair->a->count;
    if (clean == NULL || clean->count != count || count == 0) {
        return LS_OK;
    }
    double *exact = ls_arena_alloc(arena, count, sizeof *exact);
    double *bounds = ls_arena_alloc(arena, count, sizeof *bounds);
    LS_TRY_MEMORY(exact != NULL && bounds != NULL);
    double more = ls_bound_sum(pair->entry->dtype, (size_t)ls_stages_ranks(pair->injected),
                               change_of_terms(pair, pair->injected));
    for (size_t i = 0; i < count; i++) {
        const char *own = (const char *)pair->a->data + i * bytes;
        exact[i] = allowed->exact[i];
        bounds[i] = allowed->bounds[i];
        if (memcmp(own, (const char *)clean->data + i * bytes, bytes) != 0) {
            double is = ls_element_to_f64(own, pair->entry->dtype);
            double grown = exact[i] != 0 ? fmax(1, fabs(is / exact[i])) : 1;
            exact[i] = is;
            bounds[i] = 2 * (bounds[i] * grown + more);
        }
    }
    allowed->exact = exact;
    allowed->bounds = bounds;
    return LS_OK;
}

// Whether an earlier stage of the same judge differs, so that this stage's inputs may.
static bool differs_before(const ls_comparison *comparison, const ls_stage_result *stage) {
    bool differs = false;
    for (int i = 0; i < comparison->stage_count; i++) {
        const ls_stage_result *other = &comparison->stages[i];
        differs = differs ||
                  (other != stage && other->judge == stage->judge && ls_stage_wants_order(other));
    }
    return differs;
}

static int compare_pair(ls_comparison *comparison, ls_stage_result *stage,
                        const struct pair *pair) {
    if (!pair->b->present || !ls_shape_equal(&pair->a->shape, &pair->b->shape)) {
        ls_stage_result_compared(stage, pair->a->count);
        note_shape(comparison, stage, pair);
        return LS_OK;
    }
    ls_expected expected = {0};
    ls_allowance allowed;
    bool sums = false;
    int status = ls_comparison__allowed(&expected, &allowed, &sums, pair->expectation, pair->entry,
                                        pair->rank);
    if (status != LS_OK && status != LS_ERR_NOT_FOUND) {
        return status;
    }
    if (sums && expected.bounds != NULL) {
        widen(expected.bounds, expected.values, pair);
    }
    if (sums && pair->expectation->clean != NULL && !pair->expected) {
        status = allow_injected(&allowed, pair, comparison->arena);
        if (status != LS_OK) {
            ls_expected_free(&expected);
            return status;
        }
    }
    if (sums && !pair->expected && pair->expectation->oracle != NULL) {
        // The oracle has no value for the element: equal inputs give equal results in both runs.
        allowed.anything = differs_before(comparison, stage);
    }
    allowed.proven = proven_order(pair) != NULL;
    const ls_allowance *known = sums ? &allowed : NULL;
    ls_difference difference;
    if (pair->expected && sums) {
        ls_difference_from_exact(&difference, pair->b->data, pair->entry->dtype, pair->b->count,
                                 known);
    } else {
        ls_difference_compute(&difference, pair->a->data, pair->b->data, pair->entry->dtype,
                              pair->a->count, known);
    }
    ls_stage_result_compared(stage, pair->a->count - difference.unjudged);
    stage->unjudged += difference.unjudged;
    stage->vacuous += difference.vacuous;
    note_difference(comparison, stage, pair, known, &difference);
    ls_expected_free(&expected);
    return LS_OK;
}

// Every array of `a` with the same one of `b`.
static int compare_arrays(ls_comparison *comparison, ls_judge judge, const ls_stages *a,
                          const ls_stages *b, const ls_expectation *expectation, const char *a_name,
                          const char *b_name) {
    const ls_stage_array nothing = {0};
    for (int i = 0; i < ls_stages_count(a); i++) {
        const ls_stage_entry *entry = ls_stages_at(a, i);
        const ls_stage_entry *other = ls_stages_find(b, entry->key);
        bool same_dtype = other != NULL && other->dtype == entry->dtype;
        for (int rank = 0; rank < ls_stages_ranks(a); rank++) {
            const struct pair pair = {
                .entry = entry,
                .a = &entry->ranks[rank],
                .b = same_dtype ? &other->ranks[rank] : &nothing,
                .rank = rank,
                .expectation = expectation,
                .a_name = a_name,
                .b_name = b_name,
                .expected = a == expectation->expected,
                .injected = a,
                .roundings = same_dtype ? other->roundings : 0,
            };
            bool some = judge == LS_JUDGE_REAL ? comparison->partial : comparison->found;
            bool left_out = some && (other == NULL || !other->ranks[rank].present);
            if (!pair.a->present || left_out) {
                continue;
            }
            ls_stage_result *stage = ls_comparison__stage(comparison, judge, 0, entry->stage);
            LS_TRY(stage != NULL ? compare_pair(comparison, stage, &pair) : LS_ERR_MEMORY);
        }
    }
    return LS_OK;
}

// Calls `note` for each array of `b` that `a` (NULL: empty) lacks.
typedef int (*note_extra)(ls_comparison *comparison, ls_stage_result *stage,
                          const ls_stage_entry *entry, int rank, ls_text *text);

static int find_extra(ls_comparison *comparison, ls_judge judge, const ls_stages *a,
                      const ls_stages *b, const char *a_name, const char *b_name, note_extra note) {
    for (int i = 0; i < ls_stages_count(b); i++) {
        const ls_stage_entry *entry = ls_stages_at(b, i);
        const ls_stage_entry *own = a != NULL ? ls_stages_find(a, entry->key) : NULL;
        for (int rank = 0; rank < ls_stages_ranks(b); rank++) {
            if (!entry->ranks[rank].present || (own != NULL && own->ranks[rank].present)) {
                continue;
            }
            ls_stage_result *stage = ls_comparison__stage(comparison, judge, 0, entry->stage);
            LS_TRY_MEMORY(stage != NULL);
            ls_text text = {0};
            ls_text_printf(&text, "rank %d of the %s run has %s, which the %s run lacks", rank,
                           b_name, entry->key, a_name);
            LS_TRY(note(comparison, stage, entry, rank, &text));
        }
    }
    return LS_OK;
}

static int note_extra_wrong(ls_comparison *comparison, ls_stage_result *stage,
                            const ls_stage_entry *entry, int rank, ls_text *text) {
    const ls_stage_output output = ls_stage_entry_output(entry, rank);
    return ls_comparison__note_absent(comparison, stage, &output, text);
}

static int note_extra_unjudged(ls_comparison *comparison, ls_stage_result *stage,
                               const ls_stage_entry *entry, int rank, ls_text *text) {
    (void)comparison;
    ls_text_free(text);
    stage->unjudged += entry->ranks[rank].count;
    return LS_OK;
}

int ls_compare_runs(ls_comparison *comparison, const ls_stages *run, const ls_stages *real,
                    const ls_expectation *expectation, const char *run_name,
                    const char *real_name) {
    if (ls_stages_ranks(run) != ls_stages_ranks(real)) {
        return LS_FAIL(LS_ERR_INVALID, "the %s run has %d ranks, the %s one %d", run_name,
                       ls_stages_ranks(run), real_name, ls_stages_ranks(real));
    }
    LS_TRY(compare_arrays(comparison, LS_JUDGE_REAL, run, real, expectation, run_name, real_name));
    return find_extra(comparison, LS_JUDGE_REAL, run, real, run_name, real_name, note_extra_wrong);
}

int ls_compare_expected(ls_comparison *comparison, const ls_stages *run,
                        const ls_expectation *expectation, const char *run_name) {
    if (expectation->oracle != NULL) {
        return ls_comparison__oracle(comparison, run, expectation->oracle);
    }
    if (expectation->expected == NULL) {
        return ls_compare_nothing(comparison, run);
    }
    LS_TRY(compare_arrays(comparison, LS_JUDGE_ORACLE, expectation->expected, run, expectation,
                          "expected", run_name));
    return find_extra(comparison, LS_JUDGE_ORACLE, expectation->expected, run, "expected", run_name,
                      note_extra_unjudged);
}

int ls_compare_nothing(ls_comparison *comparison, const ls_stages *run) {
    return find_extra(comparison, LS_JUDGE_ORACLE, NULL, run, "", "", note_extra_unjudged);
}
