// The oracle's state of a row before the batch, as earlier steps and max_norm have left it.
#include "oracle/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orders/bound.h"

const ls_training *ls_oracle__training(const ls_oracle *oracle) {
    while (oracle && !oracle->options.training) {
        oracle = oracle->options.previous;
    }
    return oracle ? oracle->options.training : NULL;
}

static ls_dtype sum_dtype(const ls_oracle *oracle, int t) {
    return ls_optimizer_state_dtype(oracle->options.tables[t].dtype);
}

static const ls_optimizer *optimizer_of(const ls_oracle *oracle, int t) {
    return &ls_oracle__training(oracle)->optimizers[t];
}

// ---- Records ------------------------------------------------------------------------------------

// The parts of the columns that keep a state of their own are as the plan cuts them: where the one
// that has this column ends.
int64_t ls_oracle__next_part(const ls_oracle *oracle, int t, int64_t column) {
    const ls_plan_table *plan = oracle->plans[t];
    int64_t next = oracle->options.tables[t].dim;
    for (int i = 0; i < plan->shard_count; i++) {
        int64_t begin = plan->shards[i].column_offset;
        next = begin > column && begin < next ? begin : next;
    }
    return next;
}

size_t ls_oracle__part_of(const ls_oracle *oracle, int t, int64_t column) {
    size_t part = 0;
    for (int64_t next = ls_oracle__next_part(oracle, t, 0); next <= column; part++) {
        next = ls_oracle__next_part(oracle, t, next);
    }
    return part;
}

static size_t part_count(const ls_oracle *oracle, int t) {
    return ls_oracle__part_of(oracle, t, oracle->options.tables[t].dim - 1) + 1;
}

bool ls_oracle__own_state(const ls_oracle *oracle, int t) {
    return ls_oracle__training(oracle) &&
           ls_optimizer_about(optimizer_of(oracle, t)->kind)->row_norms &&
           part_count(oracle, t) > 1;
}

static bool departs_alone(const ls_oracle *oracle, int t) {
    oracle_meaning meaning;
    return ls_oracle__documented(oracle, t, &meaning) || ls_oracle__own_state(oracle, t);
}

bool ls_oracle__departs(const ls_oracle *oracle, int t) {
    const ls_training *training = ls_oracle__training(oracle);
    bool departs = training && departs_alone(oracle, t);
    // The norm of all gradients together joins the tables.
    for (int i = 0; training && training->clip_norm > 0 && i < oracle->options.table_count; i++) {
        departs = departs || departs_alone(oracle, i);
    }
    return departs;
}

size_t ls_oracle__state_at(const ls_oracle *oracle, int t, oracle_sense sense, int state,
                           size_t *count) {
    const ls_optimizer_traits *about = ls_optimizer_about(optimizer_of(oracle, t)->kind);
    size_t dim = (size_t)oracle->options.tables[t].dim, at = dim;
    bool own = sense == ORACLE_DOCUMENTED && ls_oracle__own_state(oracle, t);
    size_t per_row = own ? part_count(oracle, t) : 1;
    for (int i = 0; i < state; i++) {
        at += about->states[i].per_row ? per_row : dim;
    }
    *count = about->states[state].per_row ? per_row : dim;
    return at;
}

size_t ls_oracle__record_size(const ls_oracle *oracle, int t, oracle_sense sense) {
    size_t size = (size_t)oracle->options.tables[t].dim, count = 0;
    if (!ls_oracle__training(oracle)) {
        return size;
    }
    int states = ls_optimizer_state_count(optimizer_of(oracle, t));
    return states > 0 ? ls_oracle__state_at(oracle, t, sense, states - 1, &count) + count : size;
}

// ---- max_norm -----------------------------------------------------------------------------------

static int compare_ids(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

// The rows that any rank of the batch looks up, with repetitions.
static int list_needed(ls_oracle *oracle, int t) {
    const ls_table *table = &oracle->options.tables[t];
    size_t count = 0;
    for (int rank = 0; rank < oracle->options.plan->ranks; rank++) {
        count += (size_t)oracle->options.inputs[rank]->value_count;
    }
    LS_TRY(ls_size_mul(&count, count, (size_t)table->feature_count));
    int64_t *rows = ls_arena_alloc(oracle->arena, count, sizeof(*rows));
    if (!rows) {
        return ls_error_last()->code;
    }
    count = 0;
    for (int rank = 0; rank < oracle->options.plan->ranks; rank++) {
        const ls_keyed_jagged *input = oracle->options.inputs[rank];
        for (int f = 0; f < table->feature_count; f++) {
            int key = ls_oracle__key(input, table->features[f]);
            int64_t end = input->offsets[input->starts[key + 1]];
            for (int64_t i = input->offsets[input->starts[key]]; i < end; i++) {
                rows[count++] =
                    ls_oracle__row(oracle->options.id_policy, table->rows, input->values[i]);
            }
        }
    }
    qsort(rows, count, sizeof(*rows), compare_ids);
    oracle->needed[t] = rows;
    oracle->needed_count[t] = count;
    return LS_OK;
}

int ls_oracle__list_needed(ls_oracle *oracle) {
    size_t tables = (size_t)oracle->options.table_count;
    oracle->needed = ls_arena_alloc(oracle->arena, tables, sizeof(*oracle->needed));
    oracle->needed_count = ls_arena_alloc(oracle->arena, tables, sizeof(*oracle->needed_count));
    if (!oracle->needed || !oracle->needed_count) {
        return ls_error_last()->code;
    }
    for (int t = 0; t < oracle->options.table_count; t++) {
        if (oracle->options.tables[t].max_norm > 0) {
            LS_TRY(list_needed(oracle, t));
        }
    }
    return LS_OK;
}

// The norm of a whole row: in f64, then rounded.
static oracle_range norm_of(const ls_table *table, const oracle_range *row, ls_dtype dtype) {
    double p = table->norm_type > 0 ? table->norm_type : 2, mid = 0, lo = 0, hi = 0;
    for (int64_t c = 0; c < table->dim; c++) {
        double largest = fmax(fabs(row[c].lo), fabs(row[c].hi));
        double smallest = ls_range__least_size(row[c]);
        if (isinf(p)) {
            mid = fmax(mid, fabs(row[c].mid));
            lo = fmax(lo, smallest);
            hi = fmax(hi, largest);
        } else {
            mid += pow(fabs(row[c].mid), p);
            lo += pow(smallest, p);
            hi += pow(largest, p);
        }
    }
    if (!isinf(p)) {
        // A power is off by an ulp or so, each sum by half of one, here and there.
        double error = ((double)table->dim + 4) * 4 * ls_bound_roundoff(LS_F64);
        mid = pow(mid, 1 / p);
        lo = pow(lo * fmax(1 - error, 0), 1 / p);
        hi = pow(hi * (1 + error), 1 / p);
    }
    // Of a row of which nothing but the likeliest is known, that is all that is known of the norm.
    return ls_range__add((oracle_range){mid, lo, hi, mid}, ls_range__point(0), dtype);
}

// Scales a row down to max_norm, or not, or perhaps.
static void renormalise(const ls_oracle *oracle, int t, oracle_range *row) {
    const ls_table *table = &oracle->options.tables[t];
    ls_dtype dtype = sum_dtype(oracle, t);
    oracle_range norm = norm_of(table, row, dtype);
    if (norm.hi <= table->max_norm || isnan(norm.lo)) {
        return;
    }
    oracle_range by = ls_range__add(norm, ls_range__constant(1e-7, LS_F64), LS_F64);
    by = ls_range__div(ls_range__point(table->max_norm), by, dtype);
    for (int64_t c = 0; c < table->dim; c++) {
        oracle_range scaled = ls_range__mul(row[c], by, dtype);
        if (isfinite(row[c].lo)) {  // no number is larger than the norm of its row
            scaled = ls_range__limit(scaled, table->max_norm * (1 + 8 * ls_bound_roundoff(dtype)));
        }
        scaled = ls_range__stored(scaled, table->dtype, false);
        if (norm.lo > table->max_norm) {
            row[c] = scaled;
        } else {
            row[c].mid = norm.mid > table->max_norm ? scaled.mid : row[c].mid;
            row[c].lo = fmin(row[c].lo, scaled.lo);
            row[c].hi = fmax(row[c].hi, scaled.hi);
        }
    }
}

// ---- Records ------------------------------------------------------------------------------------

// Numbers [from, end) of a record [dim + states].
typedef struct record_part {
    size_t from, end;
} record_part;

static void put_points(oracle_range *out, record_part part, size_t at, const double *values,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (at + i >= part.from && at + i < part.end) {
            out[at + i] = ls_range__point(values[i]);
        }
    }
}

// The states that were given for the first step.
static int given_states(const ls_oracle *oracle, int t, oracle_sense sense, int64_t row,
                        record_part part, oracle_range *out) {
    const ls_oracle_options *options = &oracle->options;
    int64_t dim = options->tables[t].dim;
    const ls_optimizer *optimizer = optimizer_of(oracle, t);
    double *values;
    LS_TRY(ls_alloc((void **)&values, (size_t)dim, sizeof(*values)));
    int status = LS_OK;
    for (int s = 0; s < ls_optimizer_state_count(optimizer); s++) {
        size_t count, at = ls_oracle__state_at(oracle, t, sense, s, &count);
        bool per_row = ls_optimizer_about(optimizer->kind)->states[s].per_row;
        size_t parts = per_row ? count : 1;
        int64_t column = 0;
        for (size_t p = 0; p < parts && !status; p++) {  // where parts keep their own, each
            int64_t next = parts > 1 ? ls_oracle__next_part(oracle, t, column) : dim;
            status = options->state(options->row_arg, t, s, row, column, next - column, values);
            put_points(out, part, at + p, values, per_row ? 1 : count);
            column = next;
        }
    }
    ls_free(values, (size_t)dim, sizeof(*values));
    return status;
}

static int first_record(const ls_oracle *oracle, int t, oracle_sense sense, int64_t row,
                        record_part part, oracle_range *out) {
    size_t dim = (size_t)oracle->options.tables[t].dim, end = part.end < dim ? part.end : dim;
    size_t columns = part.from < end ? end - part.from : 0;
    double *values, first = 0;
    LS_TRY(ls_alloc((void **)&values, columns, sizeof(*values)));
    int status = columns > 0 ? oracle->options.row(oracle->options.row_arg, t, row,
                                                   (int64_t)part.from, (int64_t)columns, values)
                             : LS_OK;
    for (size_t c = 0; c < columns; c++) {
        out[part.from + c] = ls_range__point(values[c]);
    }
    ls_free(values, columns, sizeof(*values));
    const ls_optimizer *optimizer = ls_oracle__training(oracle) ? optimizer_of(oracle, t) : NULL;
    if (optimizer && ls_optimizer_reads(optimizer->kind, "initial_accumulator")) {
        first = ls_range__constant(optimizer->initial_accumulator, sum_dtype(oracle, t)).mid;
    }
    for (size_t i = part.from > dim ? part.from : dim; i < part.end; i++) {
        out[i] = ls_range__point(first);
    }
    bool given = optimizer && oracle->options.state && part.end > dim;
    return status || !given ? status : given_states(oracle, t, sense, row, part, out);
}

static const oracle_range *find_record(const oracle_records *records, int64_t row) {
    size_t lo = 0, hi = records->count;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (records->rows[middle] < row) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    bool found = lo < records->count && records->rows[lo] == row;
    return found ? records->after + lo * records->size : NULL;
}

// layout: the requesting oracle, whose training determines the states.
static int record_at(const ls_oracle *oracle, const ls_oracle *layout, int t, oracle_sense sense,
                     int64_t row, record_part part, oracle_range *out) {
    const ls_oracle *previous = oracle->options.previous;
    bool updated = previous && previous->options.training && !previous->options.backward_only;
    const oracle_range *found = updated ? find_record(&previous->records[sense][t], row) : NULL;
    if (found) {
        memcpy(out + part.from, found + part.from, (part.end - part.from) * sizeof(*out));
    } else if (previous) {
        LS_TRY(record_at(previous, layout, t, sense, row, part, out));
    } else {
        LS_TRY(first_record(layout, t, sense, row, part, out));
    }
    if (oracle->options.tables[t].max_norm > 0 &&
        bsearch(&row, oracle->needed[t], oracle->needed_count[t], sizeof(row), compare_ids)) {
        renormalise(oracle, t, out);
    }
    return LS_OK;
}

int ls_oracle__record_part(const ls_oracle *oracle, int t, oracle_sense sense, int64_t row,
                           size_t first, size_t count, oracle_range *out) {
    record_part part = {first, first + count};
    sense = ls_oracle__departs(oracle, t) ? sense : ORACLE_UNSHARDED;
    if (oracle->options.tables[t].max_norm > 0) {  // the norm is of all columns
        part = (record_part){0, ls_oracle__record_size(oracle, t, sense)};
    }
    return record_at(oracle, oracle, t, sense, row, part, out);
}

int ls_oracle__record(const ls_oracle *oracle, int t, oracle_sense sense, int64_t row,
                      oracle_range *out) {
    sense = ls_oracle__departs(oracle, t) ? sense : ORACLE_UNSHARDED;
    size_t size = ls_oracle__record_size(oracle, t, sense);
    return ls_oracle__record_part(oracle, t, sense, row, 0, size, out);
}
