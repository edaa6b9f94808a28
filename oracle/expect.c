// The oracle's expectations. Deliberately plain: every output is worked out anew, id by id, from
// the inputs of all ranks and the unsharded rows.
#include "oracle/internal.h"

#include <math.h>
#include <string.h>

#include "kernels/field.h"
#include "orders/bound.h"

// ---- Values -------------------------------------------------------------------------------------

// The columns of a table that an output is about.
typedef struct column_span {
    int table;
    oracle_sense sense;
    int64_t first, end;
} column_span;

// A row as the batch finds it, at least in the span: its values [dim], their errors after training
// [dim], and the magnitudes of their terms [dim].
static int read_row(const ls_oracle *oracle, const column_span *of, int64_t id, double *values) {
    int t = of->table;
    const ls_table *table = &oracle->options.tables[t];
    double *errors = values + table->dim, *sizes = errors + table->dim;
    if (table->row_format || (!oracle->options.previous && !(table->max_norm > 0))) {
        memset(errors + of->first, 0, (size_t)(of->end - of->first) * sizeof(*errors));
        LS_TRY(
            ls_oracle__kept_row(oracle, t, of->sense, id, of->first, of->end - of->first, values));
        for (int64_t c = of->first; c < of->end; c++) {
            sizes[c] = fabs(values[c]);
        }
        return LS_OK;
    }
    size_t size = ls_oracle__record_size(oracle, t, of->sense);
    oracle_range *record;
    LS_TRY(ls_alloc((void **)&record, size, sizeof(*record)));
    int status = ls_oracle__record_part(oracle, t, of->sense, id, (size_t)of->first,
                                        (size_t)(of->end - of->first), record);
    for (int64_t c = of->first; c < of->end; c++) {
        values[c] = record[c].mid;
        errors[c] = ls_range__bound(record[c]);
        sizes[c] = fmax(fabs(record[c].mid), record[c].size);
    }
    ls_free(record, size, sizeof(*record));
    return status;
}

// The sum of one pooled bag, per column of the span.
typedef struct bag_sum {
    double *sum, *magnitude, *squares, *largest, *error;  // [dim]
    double divisor, divisor_magnitude;
    size_t counted;
} bag_sum;

static int add_up(const ls_oracle *oracle, const column_span *of, const oracle_selection *selection,
                  const oracle_bag *bag, double *row, bag_sum *out) {
    const ls_table *table = &oracle->options.tables[of->table];
    for (int64_t c = of->first; c < of->end; c++) {
        out->sum[c] = out->magnitude[c] = out->squares[c] = out->error[c] = 0;
        out->largest[c] = NAN;
    }
    out->divisor = out->divisor_magnitude = 0;
    out->counted = 0;
    for (size_t i = bag->first; i < bag->first + bag->count; i++) {
        const oracle_item *item = &selection->items[i];
        if (!ls_oracle__counts(table, item->id)) {
            continue;
        }
        LS_TRY(read_row(oracle, of, item->id, row));
        out->counted++;
        out->divisor += item->weight;
        out->divisor_magnitude += fabs(item->weight);
        for (int64_t c = of->first; c < of->end; c++) {
            double error = row[table->dim + c], size = item->weight * row[2 * table->dim + c];
            out->sum[c] += ls_range__product(item->weight, row[c], table->dtype);
            out->magnitude[c] += fabs(item->weight) * (fabs(row[c]) + error);
            out->squares[c] += size * size;
            out->error[c] += fabs(item->weight) * error;
            if (isnan(out->largest[c]) || row[c] > out->largest[c]) {
                out->largest[c] = row[c];
            }
        }
    }
    return LS_OK;
}

static double sum_bound(const ls_table *table, ls_dtype dtype, size_t terms, double magnitude) {
    return table->weighted ? ls_bound_sum_of_products(dtype, terms, magnitude)
                           : ls_bound_sum(dtype, terms, magnitude);
}

// The type in which lookups are summed, before they round to the outputs' type.
static ls_dtype sum_dtype(const ls_table *table) {
    return ls_optimizer_state_dtype(table->dtype);
}

// The shards whose sums, each rounded to the outputs' type, are added up in it.
static size_t part_sums(const ls_oracle *oracle, const oracle_entry *entry, int64_t column) {
    const ls_plan_table *plan = oracle->plans[entry->table];
    if (entry->stage != LS_STAGE_OUTPUT_DIST || plan->sharding == LS_DATA_PARALLEL ||
        !oracle->options.tables[entry->table].has_output_dtype) {
        return 1;
    }
    size_t parts = 0;
    for (int i = 0; i < plan->shard_count; i++) {
        const ls_plan_shard *shard = &plan->shards[i];
        bool inside =
            column >= shard->column_offset && column < shard->column_offset + shard->columns;
        parts += inside ? 1 : 0;
    }
    return parts;
}

// The expected value of one element.
typedef struct element {
    double value, bound, size;
} element;

// Divides an element, with what the divisor's error and the quotient's rounding add to its bound.
static void divide(const ls_table *table, const bag_sum *bag, const oracle_divisor *by,
                   element *out) {
    double *value = &out->value, *bound = &out->bound;
    ls_dtype dtype = ls_oracle__dtype(table, LS_STAGE_FIELD_VALUES);
    double divisor = 1, error = 0;
    bool torchrec = ls_oracle__divides_as_torchrec(table, by);
    if (by->by == ORACLE_BY_WEIGHTS) {
        // Two f64 sums of the weights, in whatever order.
        divisor = bag->divisor;
        error = 2 * ls_bound_sum(LS_F64, bag->counted, bag->divisor_magnitude);
        error += torchrec ? ls_bound_sum(dtype, bag->counted, bag->divisor_magnitude) : 0;
    } else if (by->by == ORACLE_BY_IDS) {
        divisor = (double)bag->counted;
    }
    if (dtype == LS_FIELD) {
        *value = ls_field_quotient_f64(*value, ls_field_sum_f64(divisor, by->added));
        return;
    }
    divisor += by->added;
    error +=
        by->added > 0 ? 2 * ls_bound_step(LS_F64, fabs(divisor)) : 0;  // rounded here and there
    error += torchrec ? ls_bound_roundoff(dtype) * fabs(divisor) : 0;
    *value /= divisor;
    out->size /= fabs(divisor);
    double relative = error / fabs(divisor);
    *bound = relative < 1 ? (*bound / fabs(divisor) + fabs(*value) * relative) / (1 - relative)
                          : INFINITY;
    *bound += ls_bound_step(dtype, fabs(*value) + *bound) + ls_bound_step(LS_F64, fabs(*value));
    *bound += dtype != LS_F32 && dtype != LS_F64 ? ls_bound_step(LS_F32, fabs(*value) + *bound) : 0;
}

// One column of one pooled bag, the sum of so many rounded ones. meaning: what is divided after
// output_dist; NULL: before it.
static element pooled_value(const ls_table *table, const bag_sum *bag, int64_t c, size_t parts,
                            const oracle_meaning *meaning, double when_empty) {
    ls_dtype dtype = sum_dtype(table), out = ls_oracle__dtype(table, LS_STAGE_FIELD_VALUES);
    element made = {.size = sqrt(bag->squares[c])};
    double *value = &made.value, *bound = &made.bound;
    if (table->pooling == LS_POOL_MAX || (bag->counted == 0 && meaning)) {
        *value = bag->counted > 0 ? bag->largest[c] : when_empty;
        *bound = bag->error[c];  // the largest is off by no more than all of them
        return made;
    }
    // The computed sum and this one in f64 are both near the exact one.
    *value = bag->sum[c];
    *bound = bag->error[c] + sum_bound(table, dtype, bag->counted, bag->magnitude[c]) +
             sum_bound(table, LS_F64, bag->counted, bag->magnitude[c]);
    // A single part is rounded once, however large its terms are.
    double size = (parts > 1 ? bag->magnitude[c] : fabs(*value)) + *bound;
    *bound += out != dtype ? ls_bound_sum_of_products(out, parts, size) : 0;
    for (int i = 0; meaning && i < meaning->count; i++) {
        divide(table, bag, &meaning->divisors[i], &made);
    }
    // Of rows that are known nothing but the exact result will do where a sum may overflow.
    if (!isfinite(*bound)) {
        *bound = isfinite(bag->error[c]) ? 0 : INFINITY;
    }
    return made;
}

// The arrays of one meaning.
typedef struct meant {
    double *values, *bounds;
    unsigned char *vacuous;
} meant;

static meant arrays_of(const ls_expected *out, oracle_sense sense) {
    return sense == ORACLE_UNSHARDED
               ? (meant){out->values, out->bounds, out->vacuous}
               : (meant){out->documented, out->documented_bounds, out->documented_vacuous};
}

static void put(const meant *to, size_t at, element of) {
    bool proves = isinf(of.bound) || ls_bound_proves(of.bound, fmax(fabs(of.value), of.size));
    to->values[at] = of.value;
    to->bounds[at] = of.bound;
    to->vacuous[at] = proves ? LS_OVERFLOW_NONE : LS_BOUND_VACUOUS;
}

static bool all_zero(const double *values, size_t count) {
    static const double zero;
    bool zeroes = true;
    for (size_t i = 0; i < count; i++) {
        zeroes = zeroes && memcmp(&values[i], &zero, sizeof(zero)) == 0;
    }
    return zeroes;
}

static int expect_pooled(const ls_oracle *oracle, const oracle_entry *entry,
                         const oracle_selection *selection, double *scratch, ls_expected *out) {
    const ls_table *table = &oracle->options.tables[entry->table];
    int64_t first, columns, dim = table->dim;
    ls_oracle__columns(oracle, entry, &first, &columns);
    bool final = entry->stage == LS_STAGE_OUTPUT_DIST;
    oracle_meaning unsharded, documented;
    ls_oracle__unsharded(oracle, entry->table, &unsharded);
    (void)ls_oracle__documented(oracle, entry->table, &documented);
    bool marks_empty = !final && ls_oracle__node_ranks(oracle, entry->table) > 1;
    bag_sum sum = {.sum = scratch + 3 * dim,
                   .magnitude = scratch + 4 * dim,
                   .squares = scratch + 5 * dim,
                   .largest = scratch + 6 * dim,
                   .error = scratch + 7 * dim};
    size_t empty = SIZE_MAX;  // the first bag without an id, whose outputs are those of all such
    bool blank[ORACLE_SENSES] = {false};  // these are plain zeroes, as all is that is not written
    for (size_t i = 0; i < selection->bag_count * ORACLE_SENSES; i++) {
        size_t b = i / ORACLE_SENSES;
        oracle_sense sense = (oracle_sense)(i % ORACLE_SENSES);
        const oracle_meaning *meaning = sense == ORACLE_UNSHARDED ? &unsharded : &documented;
        const meant to = arrays_of(out, sense);
        if (!to.values) {
            continue;
        }
        bool known = selection->bags[b].count == 0 && empty < b;
        if (known && blank[sense]) {
            continue;
        }
        if (known) {
            size_t bytes = (size_t)columns * sizeof(*to.values);
            memcpy(to.values + b * (size_t)columns, to.values + empty * (size_t)columns, bytes);
            memcpy(to.bounds + b * (size_t)columns, to.bounds + empty * (size_t)columns, bytes);
            continue;
        }
        empty = selection->bags[b].count == 0 ? b : empty;
        const column_span of = {entry->table, sense, first, first + columns};
        LS_TRY(add_up(oracle, &of, selection, &selection->bags[b], scratch, &sum));
        for (int64_t c = 0; c < columns; c++) {
            size_t at = b * (size_t)columns + (size_t)c;
            put(&to, at,
                pooled_value(table, &sum, first + c, part_sums(oracle, entry, first + c),
                             final ? meaning : NULL, marks_empty ? -(double)INFINITY : 0));
        }
        if (empty == b) {
            blank[sense] = all_zero(to.values + b * (size_t)columns, (size_t)columns) &&
                           all_zero(to.bounds + b * (size_t)columns, (size_t)columns);
        }
    }
    return LS_OK;
}

static int expect_sequence(const ls_oracle *oracle, const oracle_entry *entry,
                           const oracle_selection *selection, double *row, ls_expected *out) {
    int64_t first, columns, dim = oracle->options.tables[entry->table].dim;
    ls_oracle__columns(oracle, entry, &first, &columns);
    for (size_t i = 0; i < selection->item_count * ORACLE_SENSES; i++) {
        size_t item = i / ORACLE_SENSES;
        oracle_sense sense = (oracle_sense)(i % ORACLE_SENSES);
        const meant to = arrays_of(out, sense);
        if (!to.values) {
            continue;
        }
        const column_span of = {entry->table, sense, first, first + columns};
        LS_TRY(read_row(oracle, &of, selection->items[item].id, row));
        for (int64_t c = first; c < first + columns; c++) {
            put(&to, item * (size_t)columns + (size_t)(c - first),
                (element){row[c], row[dim + c], row[2 * dim + c]});
        }
    }
    return LS_OK;
}

static int expect_values(const ls_oracle *oracle, const oracle_entry *entry,
                         const oracle_selection *selection, ls_expected *out) {
    const ls_table *table = &oracle->options.tables[entry->table];
    size_t scratch_count;
    LS_TRY(ls_size_mul(&scratch_count, (size_t)table->dim, 8));
    double *scratch;
    LS_TRY(ls_alloc((void **)&scratch, scratch_count, sizeof(*scratch)));
    int status = table->pooling == LS_POOL_NONE
                     ? expect_sequence(oracle, entry, selection, scratch, out)
                     : expect_pooled(oracle, entry, selection, scratch, out);
    ls_free(scratch, scratch_count, sizeof(*scratch));
    return status;
}

// ---- Any output ---------------------------------------------------------------------------------

static void expect_routing(const ls_oracle *oracle, const oracle_entry *entry,
                           const oracle_selection *selection, ls_expected *out) {
    const ls_plan_shard *shard = &oracle->plans[entry->table]->shards[entry->shard];
    if (entry->field == LS_STAGE_FIELD_LENGTHS) {
        for (size_t b = 0; b < selection->bag_count; b++) {
            out->ints[b] = (int64_t)selection->bags[b].count;
        }
        return;
    }
    for (size_t i = 0; i < selection->item_count; i++) {
        if (entry->field == LS_STAGE_FIELD_IDS) {
            out->ints[i] = selection->items[i].id - shard->row_offset;
        } else {
            out->values[i] = selection->items[i].weight;
        }
    }
}

static int make_room(const ls_oracle *oracle, const oracle_entry *entry,
                     const oracle_selection *selection, ls_expected *out) {
    const ls_table *table = &oracle->options.tables[entry->table];
    bool by_bag = entry->field == LS_STAGE_FIELD_LENGTHS ||
                  (entry->field == LS_STAGE_FIELD_VALUES && table->pooling != LS_POOL_NONE);
    out->count = by_bag ? selection->bag_count : selection->item_count;
    out->shape = LS_SHAPE((int64_t)out->count);
    if (entry->field == LS_STAGE_FIELD_VALUES) {
        int64_t first, columns;
        ls_oracle__columns(oracle, entry, &first, &columns);
        out->shape = LS_SHAPE((int64_t)out->count, columns);
        LS_TRY(ls_size_mul(&out->count, out->count, (size_t)columns));
    }
    out->dtype = ls_oracle__entry_dtype(oracle, entry);
    out->reduces = ls_oracle__entry_reduces(oracle, entry);
    // Max moves one of its inputs too, but which zero it takes depends on the order; max_norm, an
    // output_dtype and training change rows before they move.
    out->moves = entry->field != LS_STAGE_FIELD_VALUES ||
                 (table->pooling == LS_POOL_NONE && !(table->max_norm > 0) &&
                  !table->has_output_dtype && !oracle->options.previous);
    if (out->dtype == LS_I64) {
        return ls_alloc((void **)&out->ints, out->count, sizeof(*out->ints));
    }
    oracle_meaning documented;
    bool trained = oracle->options.previous && entry->field == LS_STAGE_FIELD_VALUES;
    if ((entry->stage == LS_STAGE_OUTPUT_DIST &&
         ls_oracle__documented(oracle, entry->table, &documented)) ||
        (entry->field == LS_STAGE_FIELD_VALUES && ls_oracle__own_scales(oracle, entry->table)) ||
        (trained && ls_oracle__departs(oracle, entry->table))) {
        LS_TRY(ls_alloc((void **)&out->documented, out->count, sizeof(double)));
        LS_TRY(ls_alloc((void **)&out->documented_bounds, out->count, sizeof(double)));
        LS_TRY(ls_alloc((void **)&out->documented_vacuous, out->count, 1));
    }
    LS_TRY(ls_alloc((void **)&out->values, out->count, sizeof(*out->values)));
    LS_TRY(ls_alloc((void **)&out->vacuous, out->count, 1));
    return ls_alloc((void **)&out->bounds, out->count, sizeof(*out->bounds));
}

int ls_oracle_expect(const ls_oracle *oracle, const ls_stage_output *key, ls_expected *out) {
    LS_ASSERT(oracle && key && out);
    *out = (ls_expected){0};
    const oracle_entry *entry = NULL;
    LS_TRY(ls_oracle__find(oracle, key, &entry));
    oracle_selection selection;
    LS_TRY(ls_oracle__select(oracle, entry, &selection));
    int status = entry->stage > LS_STAGE_OUTPUT_DIST
                     ? ls_oracle__expect_training(oracle, entry, &selection, out)
                     : make_room(oracle, entry, &selection, out);
    if (!status && entry->stage > LS_STAGE_OUTPUT_DIST) {
        // Done.
    } else if (!status && entry->field == LS_STAGE_FIELD_VALUES) {
        status = expect_values(oracle, entry, &selection, out);
    } else if (!status) {
        expect_routing(oracle, entry, &selection, out);
    }
    ls_oracle__selection_free(&selection);
    if (status) {
        ls_expected_free(out);
    }
    return status;
}

void ls_expected_free(ls_expected *expected) {
    if (expected) {
        ls_free(expected->ints, expected->count, sizeof(*expected->ints));
        ls_free(expected->values, expected->count, sizeof(*expected->values));
        ls_free(expected->bounds, expected->count, sizeof(*expected->bounds));
        ls_free(expected->vacuous, expected->count, 1);
        ls_free(expected->documented_vacuous, expected->count, 1);
        ls_free(expected->documented, expected->count, sizeof(double));
        ls_free(expected->documented_bounds, expected->count, sizeof(double));
        *expected = (ls_expected){0};
    }
}
