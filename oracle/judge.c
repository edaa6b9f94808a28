// The oracle's judgement of an output, and where an element of it comes from.
#include "oracle/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/ulps.h"

// ---- Provenance ---------------------------------------------------------------------------------

// The holders of a cell of the table. Data parallel: the asking rank itself.
static void find_owner(const ls_oracle *oracle, const oracle_entry *entry, int source, int64_t row,
                       int64_t column, int *rank, int *count) {
    const ls_plan_table *plan = oracle->plans[entry->table];
    *rank = LS_RANK_NONE;
    *count = 0;
    for (int i = 0; i < plan->shard_count; i++) {
        const ls_plan_shard *shard = &plan->shards[i];
        bool row_inside = row >= shard->row_offset && row < shard->row_offset + shard->rows;
        bool column_inside =
            column >= shard->column_offset && column < shard->column_offset + shard->columns;
        bool asked = plan->sharding != LS_DATA_PARALLEL || shard->rank == source;
        if (row_inside && column_inside && asked) {
            *rank = *count == 0 ? shard->rank : *rank;
            ++*count;
        }
    }
}

static void blame(const ls_oracle *oracle, const oracle_entry *entry,
                  const oracle_selection *chosen, size_t first, size_t count, ls_provenance *out) {
    int64_t column = out->column < 0 ? 0 : out->column;
    for (size_t i = first; i < first + count; i++) {
        int rank, owners;
        find_owner(oracle, entry, out->source_rank, chosen->items[i].id, column, &rank, &owners);
        if (i == first || owners != 1) {
            out->id = chosen->items[i].id;
            out->position = chosen->items[i].position;
            out->owner_rank = rank;
            out->owner_count = owners;
        }
        if (owners != 1) {
            return;
        }
    }
}

static void trace(const ls_oracle *oracle, const oracle_entry *entry,
                  const oracle_selection *chosen, size_t element, ls_provenance *out) {
    const ls_table *table = &oracle->options.tables[entry->table];
    *out = (ls_provenance){.table = table->name,
                           .feature = table->features[entry->feature],
                           .source_rank = LS_RANK_NONE,
                           .sample = -1,
                           .position = -1,
                           .column = -1,
                           .id = -1,
                           .owner_rank = LS_RANK_NONE};
    size_t index = element;
    if (ls_oracle__trace_row(oracle, entry, element, &out->id, &out->column)) {
        find_owner(oracle, entry, entry->rank, out->id, out->column < 0 ? 0 : out->column,
                   &out->owner_rank, &out->owner_count);
        return;
    }
    if (entry->field == LS_STAGE_FIELD_VALUES) {
        int64_t first, columns;
        ls_oracle__columns(oracle, entry, &first, &columns);
        out->column = first + (int64_t)(element % (size_t)columns);
        index = element / (size_t)columns;
    }
    bool by_bag = entry->field == LS_STAGE_FIELD_LENGTHS ||
                  (entry->field == LS_STAGE_FIELD_VALUES && table->pooling != LS_POOL_NONE);
    for (size_t b = 0; b < chosen->bag_count; b++) {
        const oracle_bag *bag = &chosen->bags[b];
        bool inside = by_bag ? b == index : index >= bag->first && index < bag->first + bag->count;
        if (inside) {
            out->source_rank = bag->source;
            out->sample = bag->sample;
            out->is_bag = bag->is_bag;
            out->id_count = (int64_t)bag->count;
            blame(oracle, entry, chosen, by_bag ? bag->first : index, by_bag ? bag->count : 1, out);
            return;
        }
    }
}

int ls_oracle_provenance(const ls_oracle *oracle, const ls_stage_output *key, size_t element,
                         ls_provenance *out) {
    LS_ASSERT(oracle && key && out);
    const oracle_entry *entry = NULL;
    LS_TRY(ls_oracle__find(oracle, key, &entry));
    oracle_selection selection;
    LS_TRY(ls_oracle__select(oracle, entry, &selection));
    trace(oracle, entry, &selection, element, out);
    ls_oracle__selection_free(&selection);
    return LS_OK;
}

// ---- Judging ------------------------------------------------------------------------------------

static uint64_t stored_ulps(double a, double b, ls_dtype dtype) {
    uint64_t x = 0, y = 0;
    ls_element_from_f64(&x, dtype, a);
    ls_element_from_f64(&y, dtype, b);
    return ls_element_ulps(&x, &y, dtype);
}

typedef struct comparison {
    double got, expected, bound;  // integers too, only for the text
    bool differs, wrong, unknown, vacuous;
    double ratio;
    uint64_t ulps;
} comparison;

// Where data only moves, the sign of a zero and the bits of a NaN move too.
static bool same_bits(double a, double b) {
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static comparison compare_float(double got, double expected, double bound, bool moves,
                                ls_dtype dtype) {
    comparison out = {.got = got, .expected = expected, .bound = bound};
    double nearest = ls_range__rounded(expected, dtype);
    if (dtype == LS_FIELD) {
        out.differs = out.wrong = got != nearest;
        out.expected = nearest;
        out.ratio = out.wrong ? INFINITY : 0;
        return out;
    }
    bool equal = got == nearest || (isnan(got) && isnan(expected));
    if (moves ? same_bits(got, expected) : equal) {
        return out;
    }
    if (isinf(bound)) {
        out.unknown = true;
        return out;
    }
    out.differs = true;
    out.ulps = stored_ulps(got, nearest, dtype);
    double difference = fabs(got - expected);
    out.wrong = !(bound > 0 && difference <= bound);
    out.ratio = bound > 0 && isfinite(difference) ? difference / bound : INFINITY;
    return out;
}

static comparison compare_int(int64_t got, int64_t expected) {
    comparison out = {.got = (double)got, .expected = (double)expected};
    if (got != expected) {
        out.differs = out.wrong = true;
        out.ratio = INFINITY;
        out.ulps = got > expected ? (uint64_t)got - (uint64_t)expected
                                  : (uint64_t)expected - (uint64_t)got;
    }
    return out;
}

static comparison compare_at(const ls_stage_output *output, const ls_expected *expected,
                             bool documented, size_t i) {
    const char *element = (const char *)output->data + i * ls_dtype_bytes(output->dtype);
    if (expected->ints) {
        int64_t got;
        memcpy(&got, element, sizeof(got));
        return compare_int(got, expected->ints[i]);
    }
    const double *values = documented ? expected->documented : expected->values;
    const double *bounds = documented ? expected->documented_bounds : expected->bounds;
    const unsigned char *vacuous = documented ? expected->documented_vacuous : expected->vacuous;
    comparison out = compare_float(ls_element_to_f64(element, output->dtype), values[i], bounds[i],
                                   expected->moves, output->dtype);
    if (out.differs && !out.wrong && vacuous != NULL && vacuous[i] != 0) {
        return (comparison){.unknown = true, .vacuous = true};
    }
    return out;
}

#define RUN 64  // values that are compared together

// In how many bits a value is not the expected one.
static inline uint64_t differing_bits(const char *at, const double *expected) {
    float got;
    memcpy(&got, at, sizeof(got));
    double wide = (double)got;
    uint64_t a, b;
    memcpy(&a, &wide, sizeof(a));
    memcpy(&b, expected, sizeof(b));
    return a ^ b;
}

// Whether a run equals the expected one to the last bit, as nearly all do if ranks are many and
// partial sums empty. Its fixed length allows vectorised comparison.
static bool run_is_expected(const char *at, const double *expected) {
    uint64_t differ = 0;
    for (size_t k = 0; k < RUN; k++) {
        differ |= differing_bits(at + k * sizeof(float), &expected[k]);
    }
    return differ == 0;
}

// A whole output compared with one meaning.
typedef struct tally {
    uint64_t differing, wrong, unknown, vacuous, max_ulps;
    double ratio;
    size_t first_differing, first_wrong;
    comparison worst;  // at first_wrong
} tally;

static tally hold_against(const ls_stage_output *output, const ls_expected *expected,
                          bool documented) {
    tally out = {.differing = 0};
    const double *values = documented ? expected->documented : expected->values;
    bool plain = !expected->ints && output->dtype == LS_F32;
    for (size_t i = 0; i < expected->count; i++) {
        const char *at = plain ? (const char *)output->data + i * sizeof(float) : NULL;
        bool run = i % RUN == 0 && i + RUN <= expected->count;
        if (plain && run && run_is_expected(at, &values[i])) {
            i += RUN - 1;
            continue;
        }
        if (plain && differing_bits(at, &values[i]) == 0) {
            continue;
        }
        comparison this = compare_at(output, expected, documented, i);
        out.unknown += this.unknown;
        out.vacuous += this.vacuous;
        if (this.differs && out.differing++ == 0) {
            out.first_differing = i;
        }
        out.max_ulps = this.ulps > out.max_ulps ? this.ulps : out.max_ulps;
        out.ratio = this.ratio > out.ratio ? this.ratio : out.ratio;
        if (this.wrong && out.wrong++ == 0) {
            out.worst = this;
            out.first_wrong = i;
        }
    }
    return out;
}

static void describe_owner(ls_text *text, const ls_provenance *from) {
    if (from->id < 0) {
        ls_text_puts(text, "; the bag is empty");
        return;
    }
    ls_text_printf(text, "; id %lld (position %lld, %lld in the bag), ", (long long)from->id,
                   (long long)from->position, (long long)from->id_count);
    if (from->owner_count == 0) {
        ls_text_puts(text, "whose row is on no rank");
    } else if (from->owner_count > 1) {
        ls_text_printf(text, "whose row is in %d shards, the first on rank %d", from->owner_count,
                       from->owner_rank);
    } else {
        ls_text_printf(text, "owned by rank %d", from->owner_rank);
    }
}

// One id's term of a pooled element: its weighted value, over the bag's divisor.
static int contribution(const ls_oracle *oracle, const oracle_entry *entry,
                        const oracle_selection *chosen, const oracle_bag *bag, size_t item,
                        int64_t column, double *out) {
    const ls_table *table = &oracle->options.tables[entry->table];
    const oracle_item *one = &chosen->items[item];
    double *row;
    LS_TRY(ls_alloc((void **)&row, (size_t)table->dim, sizeof(*row)));
    int status =
        ls_oracle__kept_row(oracle, entry->table, ORACLE_DOCUMENTED, one->id, column, 1, row);
    *out = ls_oracle__counts(table, one->id) ? one->weight * row[column] : 0;
    ls_free(row, (size_t)table->dim, sizeof(*row));
    double ids = 0, weights = 0;
    for (size_t i = bag->first; i < bag->first + bag->count; i++) {
        bool counts = ls_oracle__counts(table, chosen->items[i].id);
        ids += counts ? 1 : 0;
        weights += counts ? chosen->items[i].weight : 0;
    }
    oracle_meaning meaning;
    (void)ls_oracle__documented(oracle, entry->table, &meaning);
    for (int i = 0; i < meaning.count && entry->stage == LS_STAGE_OUTPUT_DIST; i++) {
        const oracle_divisor *by = &meaning.divisors[i];
        double divisor = by->by == ORACLE_BY_WEIGHTS ? weights : 1;
        if (by->by == ORACLE_BY_IDS) {
            divisor = ids;
        }
        *out /= divisor + by->added;
    }
    return status;
}

// Looks for one id whose loss or double counting explains the difference, to the bound.
static void describe_cause(ls_text *text, const ls_oracle *oracle, const oracle_entry *entry,
                           const oracle_selection *chosen, const comparison *worst,
                           size_t element) {
    int64_t first, columns;
    ls_oracle__columns(oracle, entry, &first, &columns);
    const oracle_bag *bag = &chosen->bags[element / (size_t)columns];
    int64_t column = first + (int64_t)(element % (size_t)columns);
    double difference = worst->got - worst->expected;
    for (size_t i = bag->first; i < bag->first + bag->count; i++) {
        double term;
        if (contribution(oracle, entry, chosen, bag, i, column, &term)) {
            ls_error_clear();
            return;
        }
        bool lost = fabs(difference + term) <= worst->bound;
        bool twice = fabs(difference - term) <= worst->bound;
        if (lost || twice) {
            int rank, owners;
            find_owner(oracle, entry, bag->source, chosen->items[i].id, column, &rank, &owners);
            char owner[32] = "on no rank";
            if (owners > 0) {
                snprintf(owner, sizeof(owner), "on rank %d", rank);
            }
            ls_text_printf(text, "; as if id %lld (position %lld, %s) %s",
                           (long long)chosen->items[i].id, (long long)chosen->items[i].position,
                           owner, lost ? "were missing" : "counted twice");
            return;
        }
    }
}

// "stage S, table T, feature F, values of rank R, element I: sample ...: "
static void describe_place(ls_text *text, const ls_oracle *oracle, const ls_stage_output *output,
                           size_t element) {
    ls_provenance from;
    ls_text_printf(text,
                   "stage %s, table %s, feature %s, %s of rank %d, element %zu: ", output->stage,
                   output->table, output->feature, output->field, output->rank, element);
    if (ls_oracle_provenance(oracle, output, element, &from)) {
        return;
    }
    if (from.source_rank < 0 && from.id >= 0) {
        ls_text_printf(text, "row %lld", (long long)from.id);
        if (from.column >= 0) {
            ls_text_printf(text, ", column %lld", (long long)from.column);
        }
        ls_text_puts(text, ": ");
    } else if (from.source_rank >= 0) {
        ls_text_printf(text, "%s %lld of rank %d", from.is_bag ? "bag" : "sample",
                       (long long)from.sample, from.source_rank);
        if (from.column >= 0) {
            ls_text_printf(text, ", column %lld", (long long)from.column);
        }
        describe_owner(text, &from);
        ls_text_puts(text, ": ");
    }
}

static void describe_nan(ls_text *text, const comparison *worst) {
    uint64_t got, expected;
    memcpy(&got, &worst->got, sizeof(got));
    memcpy(&expected, &worst->expected, sizeof(expected));
    ls_text_printf(text, "; as f64 the bits of the NaN are 0x%016llx, expected 0x%016llx",
                   (unsigned long long)got, (unsigned long long)expected);
}

static void describe_gradient(ls_text *text, const ls_oracle *oracle, const oracle_entry *entry,
                              const comparison *worst, size_t element) {
    int64_t row, column;
    oracle_range wanted = ls_range__about(worst->expected, worst->bound, 0);
    if (!ls_oracle__trace_row(oracle, entry, element, &row, &column) || !isfinite(worst->got) ||
        ls_oracle__explain_gradient(oracle, entry, row, column, &wanted, worst->got, text)) {
        ls_error_clear();
    }
}

static void describe(ls_text *text, const ls_oracle *oracle, const ls_stage_output *output,
                     const ls_expected *expected, const comparison *worst, size_t element) {
    describe_place(text, oracle, output, element);
    if (output->dtype == LS_FIELD) {  // its differences are no sizes that a cause could have
        ls_text_printf(text, "got %.0f, expected %.0f, numbers of the field", worst->got,
                       worst->expected);
        return;
    }
    if (ls_dtype_is_float(output->dtype)) {
        ls_text_printf(text, "got %.9g, expected %.9g (", worst->got, worst->expected);
        if (ls_ulps_word(worst->ulps) != NULL) {
            ls_text_puts(text, ls_ulps_word(worst->ulps));
        } else {
            ls_text_printf(text, "%llu ulps", (unsigned long long)worst->ulps);
        }
        ls_text_printf(text, "; allowed difference %.3g)", worst->bound);
    } else {
        ls_text_printf(text, "got %.0f, expected %.0f", worst->got, worst->expected);
    }
    if (isnan(worst->got) && isnan(worst->expected)) {
        describe_nan(text, worst);
    }
    if (expected->documented) {
        ls_text_printf(text, "; unsharded %.9g", expected->values[element]);
    }
    const oracle_entry *entry = NULL;
    oracle_selection chosen;
    bool sums = ls_oracle__find(oracle, output, &entry) == LS_OK &&
                entry->field == LS_STAGE_FIELD_VALUES && entry->stage <= LS_STAGE_OUTPUT_DIST &&
                ls_oracle__reduces(&oracle->options.tables[entry->table]);
    if (sums && ls_oracle__select(oracle, entry, &chosen) == LS_OK) {
        describe_cause(text, oracle, entry, &chosen, worst, element);
        ls_oracle__selection_free(&chosen);
    } else if (entry && entry->field == LS_STAGE_FIELD_GRADIENTS) {
        describe_gradient(text, oracle, entry, worst, element);
    }
}

// *why: where the reason begins.
static void describe_design(ls_text *text, size_t *why, const ls_oracle *oracle,
                            const ls_stage_output *output, const comparison *first,
                            size_t element) {
    const oracle_entry *entry = NULL;
    oracle_meaning meaning = {.count = 0};
    if (ls_oracle__find(oracle, output, &entry)) {
        return;
    }
    ls_oracle__say_why(oracle, entry, &meaning);
    describe_place(text, oracle, output, element);
    ls_text_printf(text, "got %.9g, unsharded %.9g: ", first->got, first->expected);
    *why = strlen(ls_text_string(text));
    ls_text_printf(text, "table %s is %s, and %s", output->table,
                   ls_sharding_name(oracle->plans[entry->table]->sharding), meaning.why);
}

static bool judge_form(const ls_stage_output *output, const ls_expected *expected,
                       ls_judgement *out) {
    if (ls_shape_equal(&output->shape, &expected->shape) && output->dtype == expected->dtype) {
        return true;
    }
    char got[128], wanted[128];
    ls_shape_format(got, sizeof(got), &output->shape);
    ls_shape_format(wanted, sizeof(wanted), &expected->shape);
    out->differing = out->wrong = out->elements > 0 ? out->elements : 1;
    out->first_wrong = out->first_differing = SIZE_MAX;
    out->bound_ratio = INFINITY;
    snprintf(out->text, sizeof(out->text),
             "stage %s, table %s, feature %s, %s of rank %d: got %s of %s, expected %s of %s",
             output->stage, output->table, output->feature, output->field, output->rank, got,
             ls_dtype_valid(output->dtype) ? ls_dtype_name(output->dtype) : "?", wanted,
             ls_dtype_name(expected->dtype));
    return false;
}

int ls_oracle_judge(const ls_oracle *oracle, const ls_stage_output *output, ls_judgement *out) {
    LS_ASSERT(oracle && output && out);
    *out = (ls_judgement){0};
    ls_expected expected;
    LS_TRY(ls_oracle_expect(oracle, output, &expected));
    out->elements = expected.count;
    if (!judge_form(output, &expected, out)) {
        ls_expected_free(&expected);
        return LS_OK;
    }
    tally plain = hold_against(output, &expected, false);
    out->differing = plain.differing;
    out->first_differing = plain.first_differing;
    out->max_ulps = plain.max_ulps;
    // A run means one thing or the other: a mixture of both is wrong.
    tally held = plain;
    if (plain.wrong > 0 && expected.documented) {
        held = hold_against(output, &expected, true);
    }
    out->unknown = held.unknown;
    out->vacuous = held.vacuous;
    out->bound_ratio = held.ratio;
    ls_text text = {0};
    if (held.wrong > 0) {
        out->wrong = held.wrong;
        out->first_wrong = held.first_wrong;
        describe(&text, oracle, output, &expected, &held.worst, held.first_wrong);
    } else if (plain.wrong > 0) {
        out->by_design = plain.wrong;
        out->first_by_design = plain.first_wrong;
        describe_design(&text, &out->why, oracle, output, &plain.worst, plain.first_wrong);
    }
    ls_expected_free(&expected);
    snprintf(out->text, sizeof(out->text), "%s", ls_text_string(&text));
    ls_text_free(&text);
    return LS_OK;
}
