// The expected outputs of backward and update, cut out of the oracle's step.
#include "oracle/internal.h"

#include <math.h>

#include "orders/bound.h"

// One output under one meaning.
typedef struct wanted {
    const ls_oracle *oracle;
    const oracle_entry *entry;
    const oracle_selection *selection;
    const ls_table *table;
    oracle_sense sense;
    int64_t first_row, rows;        // of the table that the output is about
    int64_t first_column, columns;  //
    oracle_range *out;              // [count]
} wanted;

static wanted want(const ls_oracle *oracle, const oracle_entry *entry,
                   const oracle_selection *selection) {
    wanted w = {.oracle = oracle,
                .entry = entry,
                .selection = selection,
                .table = &oracle->options.tables[entry->table]};
    w.rows = w.table->rows;
    if (entry->shard >= 0) {
        w.first_row = oracle->plans[entry->table]->shards[entry->shard].row_offset;
        w.rows = oracle->plans[entry->table]->shards[entry->shard].rows;
    }
    ls_oracle__columns(oracle, entry, &w.first_column, &w.columns);
    return w;
}

static const oracle_records *records_of(const wanted *w) {
    bool departs = ls_oracle__departs(w->oracle, w->entry->table);
    return &w->oracle->records[departs ? w->sense : ORACLE_UNSHARDED][w->entry->table];
}

// Whether record i is of a row in the output's block that the batch touched.
static bool is_touched(const wanted *w, size_t i) {
    const oracle_records *records = records_of(w);
    int64_t row = records->rows[i] - w->first_row;
    return records->touched[i] && row >= 0 && row < w->rows;
}

static size_t count_touched(const wanted *w) {
    size_t count = 0;
    for (size_t i = 0; i < records_of(w)->count; i++) {
        count += is_touched(w, i);
    }
    return count;
}

// The gradient [dim] that an id of a bag gets from its sample; item: its place among the bag's.
static const oracle_range *gradient_of(const wanted *w, const oracle_bag *bag, size_t item) {
    const ls_keyed_jagged *input = w->oracle->options.inputs[bag->source];
    int key = ls_oracle__key(input, w->table->features[w->entry->feature]);
    int64_t first = input->starts[key], at = bag->sample;
    if (w->table->pooling == LS_POOL_NONE) {
        at = input->offsets[first + bag->sample] - input->offsets[first] +
             w->selection->items[item].position;
    }
    int pair = w->oracle->first_pair[w->entry->table] + w->entry->feature;
    return w->oracle->gradients[w->sense][bag->source][pair] + at * w->table->dim;
}

// As it arrives at an owner.
static oracle_range arrived(const wanted *w, oracle_range gradient) {
    ls_dtype dtype = ls_oracle__dtype(w->table, LS_STAGE_FIELD_VALUES);
    bool divides = w->oracle->options.training->division == LS_GRADIENTS_DIVIDED &&
                   w->oracle->options.plan->ranks > 1;
    return divides ? ls_range__mul(gradient, ls_oracle__share(w->oracle, dtype), dtype) : gradient;
}

static void expect_values(const wanted *w) {
    bool pooled = w->table->pooling != LS_POOL_NONE, owned = w->entry->shard >= 0;
    size_t at = 0;
    for (size_t b = 0; b < w->selection->bag_count; b++) {
        const oracle_bag *bag = &w->selection->bags[b];
        for (size_t i = 0; i < (pooled ? 1 : bag->count); i++) {
            const oracle_range *gradient = gradient_of(w, bag, bag->first + i);
            for (int64_t c = 0; c < w->columns; c++) {
                oracle_range value = gradient[w->first_column + c];
                w->out[at++] = owned ? arrived(w, value) : value;
            }
        }
    }
}

static int expect_gradients(const wanted *w) {
    if (w->entry->stage == LS_STAGE_LOOKUP_BACKWARD &&
        w->oracle->plans[w->entry->table]->sharding == LS_DATA_PARALLEL) {
        return ls_oracle__rank_gradients(w->oracle, w->entry->table, w->sense, w->entry->rank,
                                         w->out);
    }
    const oracle_records *records = records_of(w);
    bool dense = w->entry->stage == LS_STAGE_ALL_REDUCE;
    int64_t next = 0;
    for (size_t i = 0; i < records->count; i++) {
        if (!is_touched(w, i)) {
            continue;
        }
        int64_t row = dense ? records->rows[i] - w->first_row : next++;
        for (int64_t c = 0; c < w->columns; c++) {
            w->out[row * w->columns + c] =
                records->gradients[(int64_t)i * w->table->dim + w->first_column + c];
        }
    }
    return LS_OK;
}

// The gradient of an id's weight: of the shard's columns, or, at its source, of all.
static int weight_gradient(const wanted *w, const oracle_bag *bag, size_t item,
                           oracle_range *record, oracle_range *out) {
    int64_t id = w->selection->items[item].id;
    ls_dtype dtype = ls_optimizer_state_dtype(w->table->dtype);
    const oracle_range *gradient = gradient_of(w, bag, item);
    double sum = 0, error = 0, size = 0, squares = 0;
    if (!ls_oracle__counts(w->table, id)) {
        *out = ls_range__point(0);
        return LS_OK;
    }
    LS_TRY(ls_oracle__record(w->oracle, w->entry->table, w->sense, id, record));
    for (int64_t c = w->first_column; c < w->first_column + w->columns; c++) {
        oracle_range g = arrived(w, gradient[c]);
        double g_error = ls_range__bound(g), w_error = ls_range__bound(record[c]);
        sum += ls_range__product(g.mid, record[c].mid, dtype);
        error += fabs(g.mid) * w_error + fabs(record[c].mid) * g_error + g_error * w_error;
        size += (fabs(g.mid) + g_error) * (fabs(record[c].mid) + w_error);
        squares += g.size * g.size * record[c].size * record[c].size;
    }
    double own = ls_bound_sum_of_products(dtype, (size_t)w->columns, size) +
                 ls_bound_sum_of_products(LS_F64, (size_t)w->columns, size);
    *out = ls_range__about(sum, error, own);
    out->size = sqrt(squares);
    bool returns = w->entry->stage == LS_STAGE_INPUT_DIST_BACKWARD;
    if (returns && w->oracle->options.training->division == LS_GRADIENTS_DIVIDED) {
        double ranks = w->oracle->options.plan->ranks;
        *out = ls_range__mul(*out, ls_range__point(ranks), dtype);
    }
    return LS_OK;
}

static int expect_weights(const wanted *w) {
    size_t size = ls_oracle__record_size(w->oracle, w->entry->table, w->sense), at = 0;
    oracle_range *record;
    LS_TRY(ls_alloc((void **)&record, size, sizeof(*record)));
    int status = LS_OK;
    for (size_t b = 0; b < w->selection->bag_count; b++) {
        const oracle_bag *bag = &w->selection->bags[b];
        for (size_t i = bag->first; i < bag->first + bag->count && !status; i++) {
            status = weight_gradient(w, bag, i, record, &w->out[at++]);
        }
    }
    ls_free(record, size, sizeof(*record));
    return status;
}

// Weights or a state of a shard after the step, row by row.
static int expect_update(const wanted *w) {
    const ls_oracle *oracle = w->oracle;
    int t = w->entry->table, state = w->entry->field == LS_STAGE_FIELD_MOMENTUM2;
    bool departs = ls_oracle__departs(oracle, t);
    oracle_sense sense = departs ? w->sense : ORACLE_UNSHARDED;
    const oracle_records *records = records_of(w);
    size_t size = ls_oracle__record_size(oracle, t, sense), next = 0, numbers;
    size_t at = (size_t)w->first_column, columns = (size_t)w->columns;
    if (w->entry->field != LS_STAGE_FIELD_WEIGHTS) {
        size_t start = ls_oracle__state_at(oracle, t, sense, state, &numbers);
        const ls_optimizer *optimizer = &oracle->options.training->optimizers[t];
        if (!ls_optimizer_about(optimizer->kind)->states[state].per_row) {
            at += start;
        } else {
            bool own = sense == ORACLE_DOCUMENTED && ls_oracle__own_state(oracle, t);
            at = start + (own ? ls_oracle__part_of(oracle, t, w->first_column) : 0);
            columns = 1;
        }
    }
    oracle_range *record;
    LS_TRY(ls_alloc((void **)&record, size, sizeof(*record)));
    int status = LS_OK;
    for (int64_t row = 0; row < w->rows && !status; row++) {
        const oracle_range *from = record;
        while (next < records->count && records->rows[next] < w->first_row + row) {
            next++;
        }
        if (next < records->count && records->rows[next] == w->first_row + row) {
            from = records->after + next * size;
        } else {
            status =
                ls_oracle__record_part(oracle, t, sense, w->first_row + row, at, columns, record);
        }
        for (size_t c = 0; c < columns; c++) {
            w->out[(size_t)row * columns + c] = from[at + c];
        }
    }
    ls_free(record, size, sizeof(*record));
    return status;
}

static int expect_sense(const wanted *w) {
    switch (w->entry->field) {
    case LS_STAGE_FIELD_VALUES:
        expect_values(w);
        return LS_OK;
    case LS_STAGE_FIELD_GRADIENTS:
        return expect_gradients(w);
    case LS_STAGE_FIELD_NORM:
        w->out[0] = ls_range__stored(w->oracle->norm[w->sense], LS_F32, false);
        return LS_OK;
    default:
        return w->entry->stage == LS_STAGE_UPDATE ? expect_update(w) : expect_weights(w);
    }
}

// ---- The output ---------------------------------------------------------------------------------

static void shape_of(const wanted *w, ls_expected *out) {
    const ls_oracle *oracle = w->oracle;
    int64_t ids = (int64_t)w->selection->item_count, bags = (int64_t)w->selection->bag_count;
    bool local = oracle->plans[w->entry->table]->sharding == LS_DATA_PARALLEL;
    int64_t touched = (int64_t)count_touched(w);
    switch (w->entry->field) {
    case LS_STAGE_FIELD_VALUES:
        out->shape = LS_SHAPE(w->table->pooling == LS_POOL_NONE ? ids : bags, w->columns);
        return;
    case LS_STAGE_FIELD_ROWS:
        out->shape = LS_SHAPE(touched);
        return;
    case LS_STAGE_FIELD_GRADIENTS:
        out->shape = LS_SHAPE(local ? w->rows : touched, w->columns);
        return;
    case LS_STAGE_FIELD_NORM:
        out->shape = LS_SHAPE(1);
        return;
    case LS_STAGE_FIELD_MOMENTUM1:
    case LS_STAGE_FIELD_MOMENTUM2: {
        const ls_optimizer *optimizer = &oracle->options.training->optimizers[w->entry->table];
        int state = w->entry->field == LS_STAGE_FIELD_MOMENTUM2;
        bool per_row = ls_optimizer_about(optimizer->kind)->states[state].per_row;
        out->shape = per_row ? LS_SHAPE(w->rows) : LS_SHAPE(w->rows, w->columns);
        return;
    }
    default:
        out->shape =
            w->entry->stage == LS_STAGE_UPDATE ? LS_SHAPE(w->rows, w->columns) : LS_SHAPE(ids);
    }
}

// Whether the sharding type is documented to give something else here.
static bool departs(const wanted *w) {
    oracle_meaning meaning;
    if (w->entry->stage == LS_STAGE_OUTPUT_GRAD ||
        w->entry->stage == LS_STAGE_OUTPUT_DIST_BACKWARD) {
        return ls_oracle__documented(w->oracle, w->entry->table, &meaning);
    }
    if (w->entry->stage != LS_STAGE_CLIP) {
        return ls_oracle__departs(w->oracle, w->entry->table);
    }
    bool any = false;
    for (int t = 0; t < w->oracle->options.table_count; t++) {
        any = any || ls_oracle__departs(w->oracle, t);
    }
    return any;
}

static int expect_numbers(wanted *w, double **values, double **bounds, unsigned char **vacuous,
                          size_t count) {
    LS_TRY(ls_alloc((void **)values, count, sizeof(**values)));
    LS_TRY(ls_alloc((void **)bounds, count, sizeof(**bounds)));
    LS_TRY(ls_alloc((void **)vacuous, count, 1));
    LS_TRY(ls_alloc((void **)&w->out, count, sizeof(*w->out)));
    int status = expect_sense(w);
    for (size_t i = 0; i < count && !status; i++) {
        (*values)[i] = w->out[i].mid;
        (*bounds)[i] = ls_range__bound(w->out[i]);
        (*vacuous)[i] = ls_range__vacuous(w->out[i]);
    }
    ls_free(w->out, count, sizeof(*w->out));
    return status;
}

int ls_oracle__expect_training(const ls_oracle *oracle, const oracle_entry *entry,
                               const oracle_selection *selection, ls_expected *out) {
    wanted w = want(oracle, entry, selection);
    shape_of(&w, out);
    LS_TRY(ls_shape_count(&out->count, &out->shape));
    out->dtype = ls_oracle__entry_dtype(oracle, entry);
    out->reduces = ls_oracle__entry_reduces(oracle, entry);
    if (entry->field == LS_STAGE_FIELD_ROWS) {
        const oracle_records *records = records_of(&w);
        size_t next = 0;
        LS_TRY(ls_alloc((void **)&out->ints, out->count, sizeof(*out->ints)));
        for (size_t i = 0; i < records->count; i++) {
            if (is_touched(&w, i)) {
                out->ints[next++] = records->rows[i] - w.first_row;
            }
        }
        return LS_OK;
    }
    LS_TRY(expect_numbers(&w, &out->values, &out->bounds, &out->vacuous, out->count));
    if (!departs(&w)) {
        return LS_OK;
    }
    w.sense = ORACLE_DOCUMENTED;
    return expect_numbers(&w, &out->documented, &out->documented_bounds, &out->documented_vacuous,
                          out->count);
}

// ---- Provenance ---------------------------------------------------------------------------------

bool ls_oracle__trace_row(const ls_oracle *oracle, const oracle_entry *entry, size_t element,
                          int64_t *row, int64_t *column) {
    *row = *column = -1;
    if (entry->stage <= LS_STAGE_OUTPUT_DIST_BACKWARD ||
        (entry->field == LS_STAGE_FIELD_WEIGHTS && entry->stage != LS_STAGE_UPDATE)) {
        return false;
    }
    const wanted w = want(oracle, entry, NULL);
    bool per_row = entry->field == LS_STAGE_FIELD_ROWS;
    if (entry->field == LS_STAGE_FIELD_MOMENTUM1 || entry->field == LS_STAGE_FIELD_MOMENTUM2) {
        const ls_optimizer *optimizer = &oracle->options.training->optimizers[entry->table];
        int state = entry->field == LS_STAGE_FIELD_MOMENTUM2;
        per_row = ls_optimizer_about(optimizer->kind)->states[state].per_row;
    }
    if (entry->field == LS_STAGE_FIELD_NORM) {
        return true;
    }
    int64_t index = (int64_t)element;
    if (!per_row) {
        *column = w.first_column + index % w.columns;
        index /= w.columns;
    }
    bool local = oracle->plans[entry->table]->sharding == LS_DATA_PARALLEL;
    if (entry->stage != LS_STAGE_LOOKUP_BACKWARD || local) {
        *row = w.first_row + index;
        return true;
    }
    const oracle_records *records = records_of(&w);
    for (size_t i = 0; i < records->count && *row < 0; i++) {
        if (is_touched(&w, i) && index-- == 0) {
            *row = records->rows[i];
        }
    }
    return true;
}
