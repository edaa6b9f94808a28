// The oracle's step of training: every gradient, sum and new row, computed from the unsharded
// tables. As plain as the forward: no part of the module, no kernel, each row separately.
#include "oracle/internal.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/element.h"
#include "kernels/field.h"
#include "orders/bound.h"

static const ls_optimizer *optimizer_of(const ls_oracle *oracle, int t) {
    return &ls_oracle__training(oracle)->optimizers[t];
}

static ls_dtype sum_dtype(const ls_oracle *oracle, int t) {
    return ls_optimizer_state_dtype(oracle->options.tables[t].dtype);
}

// ---- Gradients of outputs -----------------------------------------------------------------------
static ls_dtype output_dtype(const ls_oracle *oracle, int t) {
    return ls_oracle__dtype(&oracle->options.tables[t], LS_STAGE_FIELD_VALUES);
}

// The divisor of a bag.
static oracle_range divisor_of(const ls_oracle *oracle, int t, const ls_keyed_jagged *input,
                               int64_t bag, const oracle_divisor *by, size_t *counted) {
    const ls_table *table = &oracle->options.tables[t];
    double sum = 0, size = 0;
    *counted = 0;
    for (int64_t i = 0; i < input->lengths[bag]; i++) {
        int64_t at = input->offsets[bag] + i;
        int64_t id = ls_oracle__row(oracle->options.id_policy, table->rows, input->values[at]);
        if (ls_oracle__counts(table, id)) {
            double weight = table->weighted ? ls_oracle__weight(table, &input->weights[at]) : 1.0;
            sum += weight;
            size += fabs(weight);
            ++*counted;
        }
    }
    if (by->by == ORACLE_BY_ONE) {
        sum = 1;
    } else if (by->by == ORACLE_BY_IDS) {
        sum = (double)*counted;
    }
    ls_dtype dtype = output_dtype(oracle, t);
    bool weights = by->by == ORACLE_BY_WEIGHTS;
    bool torchrec = ls_oracle__divides_as_torchrec(table, by);
    double error = weights ? 2 * ls_bound_sum(LS_F64, *counted, size) : 0;
    error += weights && torchrec ? ls_bound_sum(dtype, *counted, size) : 0;
    error += by->added > 0 ? 2 * ls_bound_step(LS_F64, fabs(sum + by->added)) : 0;
    error += torchrec ? ls_bound_roundoff(dtype) * fabs(sum + by->added) : 0;
    bool field = dtype == LS_FIELD;
    return ls_range__about(field ? ls_field_sum_f64(sum, by->added) : sum + by->added, 0, error);
}

static void divide_bag(const ls_oracle *oracle, int t, const ls_keyed_jagged *input, int64_t bag,
                       const oracle_meaning *meaning, oracle_range *row) {
    for (int i = 0; i < meaning->count; i++) {
        size_t counted;
        const oracle_divisor *by = &meaning->divisors[i];
        oracle_range divisor = divisor_of(oracle, t, input, bag, by, &counted);
        for (int64_t c = 0; c < oracle->options.tables[t].dim; c++) {
            // A bag without ids gives nothing that could be divided.
            if (counted > 0 || by->by == ORACLE_BY_ONE) {
                row[c] = ls_range__div(row[c], divisor, output_dtype(oracle, t));
            }
        }
    }
}

// Of a batch with a size per feature: what is fed for samples, summed into the rows of their bags.
static int sum_samples(ls_oracle *oracle, int t, const ls_keyed_jagged *input, int key,
                       const char *fed, size_t rows, oracle_range *out) {
    const ls_table *table = &oracle->options.tables[t];
    ls_dtype dtype = output_dtype(oracle, t), adds = ls_optimizer_state_dtype(dtype);
    bool pooled = table->pooling != LS_POOL_NONE;
    int64_t first = input->starts[key], dim = table->dim;
    double *sizes;
    size_t *terms, numbers = rows * (size_t)dim;
    LS_TRY(ls_alloc((void **)&sizes, numbers, sizeof(*sizes)));
    if (ls_alloc((void **)&terms, rows, sizeof(*terms))) {
        ls_free(sizes, numbers, sizeof(*sizes));
        return ls_error_last()->code;
    }
    for (size_t i = 0; i < numbers; i++) {
        out[i] = ls_range__point(0);
    }
    for (int64_t b = 0; b < input->batch; b++) {
        int64_t bag = input->inverse_indices[key * input->batch + b];
        int64_t row = pooled ? bag : input->offsets[first + bag] - input->offsets[first];
        for (int64_t i = 0; i < (pooled ? 1 : input->lengths[first + bag]); i++, row++) {
            terms[row]++;
            for (int64_t c = 0; c < dim; c++, fed += ls_dtype_bytes(dtype)) {
                double value = ls_element_to_f64(fed, dtype);
                out[row * dim + c].mid += value;
                sizes[row * dim + c] += fabs(value);
            }
        }
    }
    for (size_t i = 0; i < numbers; i++) {
        size_t n = terms[i / (size_t)dim];
        double error =
            n > 1 ? ls_bound_sum(adds, n, sizes[i]) + ls_bound_sum(LS_F64, n, sizes[i]) : 0;
        out[i] = ls_range__about(out[i].mid, 0, error);
        out[i].size = n > 0 ? sizes[i] / sqrt((double)n) : 0;
        out[i] = adds != dtype && n > 1 ? ls_range__stored(out[i], dtype, false) : out[i];
    }
    ls_free(sizes, numbers, sizeof(*sizes));
    ls_free(terms, rows, sizeof(*terms));
    return LS_OK;
}

static int take_gradient(ls_oracle *oracle, int t, int f, int rank, oracle_sense sense) {
    const ls_table *table = &oracle->options.tables[t];
    const ls_keyed_jagged *input = oracle->options.inputs[rank];
    int key = ls_oracle__key(input, table->features[f]), pair = oracle->first_pair[t] + f;
    int64_t first = input->starts[key], end = input->starts[key + 1], bags = end - first;
    bool pooled = table->pooling != LS_POOL_NONE;
    int64_t ids = input->offsets[end] - input->offsets[first], rows = pooled ? bags : ids;
    int64_t more = table->pooling == LS_POOL_MAX ? ids : 0;
    ls_dtype dtype = output_dtype(oracle, t);
    size_t count, room;
    LS_TRY(ls_size_mul(&count, (size_t)rows, (size_t)table->dim));
    LS_TRY(ls_size_mul(&room, (size_t)(rows + more), (size_t)table->dim));
    oracle_range *out = ls_arena_alloc(oracle->arena, room, sizeof(*out));
    if (!out) {
        return ls_error_last()->code;
    }
    oracle->gradients[sense][rank][pair] = out;
    const char *fed = oracle->options.gradients[rank][pair];
    if (input->inverse_indices) {
        LS_TRY(sum_samples(oracle, t, input, key, fed, (size_t)rows, out));
    } else {
        LS_ASSERT(fed || count == 0);
        for (size_t i = 0; i < count; i++) {
            out[i] = ls_range__point(ls_element_to_f64(fed + i * ls_dtype_bytes(dtype), dtype));
        }
    }
    oracle_meaning meaning;
    if (sense == ORACLE_UNSHARDED) {
        ls_oracle__unsharded(oracle, t, &meaning);
    } else {
        (void)ls_oracle__documented(oracle, t, &meaning);
    }
    for (int64_t bag = 0; pooled && bag < bags; bag++) {
        divide_bag(oracle, t, input, first + bag, &meaning, out + bag * table->dim);
    }
    for (int64_t bag = 0; more > 0 && bag < bags; bag++) {
        int64_t id = input->offsets[first + bag] - input->offsets[first];
        LS_TRY(ls_oracle__give_maxima(oracle, t, sense, input, first + bag, out + bag * table->dim,
                                      out + (rows + id) * table->dim));
    }
    return LS_OK;
}

oracle_range ls_oracle__share(const ls_oracle *oracle, ls_dtype dtype) {
    int ranks = oracle->options.plan->ranks;
    return oracle->options.training->division == LS_GRADIENTS_DIVIDED
               ? ls_range__constant(1.0 / ranks, dtype)
               : ls_range__point(1);
}

// ---- One gradient for each row ------------------------------------------------------------------

// One id of one sample.
typedef struct occurrence {
    int64_t row;
    size_t number;  // in the order of ranks, features and samples
    int rank, feature;
    int64_t sample;
    const oracle_range *gradient;  // [dim] of its bag, or its own
    double weight;
} occurrence;

static int compare_rows(const void *a, const void *b) {
    const occurrence *left = a, *right = b;
    if (left->row != right->row) {
        return left->row < right->row ? -1 : 1;
    }
    return left->number < right->number ? -1 : left->number > right->number;
}

// Of all ranks, or of one. Padding ids give no gradient.
static int list_occurrences(const ls_oracle *oracle, int t, oracle_sense sense, int only,
                            occurrence **out, size_t *count, size_t *capacity) {
    const ls_table *table = &oracle->options.tables[t];
    int ranks = oracle->options.plan->ranks;
    *capacity = *count = 0;
    for (int rank = 0; rank < ranks; rank++) {
        *capacity += (size_t)oracle->options.inputs[rank]->value_count;
    }
    LS_TRY(ls_size_mul(capacity, *capacity, (size_t)table->feature_count));
    LS_TRY(ls_alloc((void **)out, *capacity, sizeof(**out)));
    for (int rank = 0; rank < ranks; rank++) {
        const ls_keyed_jagged *input = oracle->options.inputs[rank];
        for (int f = 0; f < table->feature_count && (only < 0 || only == rank); f++) {
            int key = ls_oracle__key(input, table->features[f]);
            int64_t bag = input->starts[key], bags = input->starts[key + 1] - bag;
            int64_t first = input->offsets[bag], of_ids = table->pooling == LS_POOL_MAX ? bags : -1;
            of_ids = table->pooling == LS_POOL_NONE ? 0 : of_ids;  // where the ids' gradients start
            const oracle_range *gradients =
                oracle->gradients[sense][rank][oracle->first_pair[t] + f];
            for (int64_t b = 0; b < bags; b++) {
                for (int64_t i = input->offsets[bag + b]; i < input->offsets[bag + b + 1]; i++) {
                    int64_t row =
                        ls_oracle__row(oracle->options.id_policy, table->rows, input->values[i]);
                    double weight =
                        table->weighted ? ls_oracle__weight(table, &input->weights[i]) : 1.0;
                    if (!table->has_padding_id || row != table->padding_id) {
                        int64_t at = of_ids >= 0 ? of_ids + i - first : b;
                        (*out)[*count] = (occurrence){
                            row, *count, rank, f, b, gradients + at * table->dim, weight};
                        ++*count;
                    }
                }
            }
        }
    }
    qsort(*out, *count, sizeof(**out), compare_rows);
    return LS_OK;
}

// The sum of one column over the occurrences of a row.
static oracle_range sum_column(const ls_oracle *oracle, int t, const occurrence *of, size_t count,
                               int64_t column) {
    const ls_table *table = &oracle->options.tables[t];
    ls_dtype dtype = sum_dtype(oracle, t);
    oracle_range share = ls_oracle__share(oracle, output_dtype(oracle, t));
    bool shared = oracle->options.training->division == LS_GRADIENTS_DIVIDED &&
                  oracle->options.plan->ranks > 1;
    double sum = 0, error = 0, own, size = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        oracle_range g = of[i].gradient[column];
        g = shared ? ls_range__mul(g, share, output_dtype(oracle, t)) : g;
        sum += ls_range__product(of[i].weight, g.mid, dtype);
        error += fabs(of[i].weight) * ls_range__bound(g);
        size += fabs(of[i].weight) * fmax(fabs(g.lo), fabs(g.hi));
        squares += of[i].weight * of[i].weight * g.size * g.size;
    }
    if (table->weighted) {
        own = ls_bound_sum_of_products(dtype, count, size) +
              ls_bound_sum_of_products(LS_F64, count, size);
    } else {
        own = ls_bound_sum(dtype, count, size) + ls_bound_sum(LS_F64, count, size);
    }
    oracle_range out = ls_range__about(sum, error, own);
    out.size = sqrt(squares);
    return out;
}

int ls_oracle__rank_gradients(const ls_oracle *oracle, int t, oracle_sense sense, int rank,
                              oracle_range *out) {
    int64_t dim = oracle->options.tables[t].dim;
    occurrence *of;
    size_t count, capacity;
    int status = list_occurrences(oracle, t, sense, rank, &of, &count, &capacity);
    for (size_t first = 0, end = 0; !status && first < count; first = end) {
        while (end < count && of[end].row == of[first].row) {
            end++;
        }
        for (int64_t c = 0; c < dim; c++) {
            out[of[first].row * dim + c] = sum_column(oracle, t, of + first, end - first, c);
        }
    }
    ls_free(of, capacity, sizeof(*of));
    return status;
}

// Likely reasons for the difference of a sum: a division too many or too few, or one occurrence
// that is missing or counted twice.
int ls_oracle__explain_gradient(const ls_oracle *oracle, const oracle_entry *entry, int64_t row,
                                int64_t column, const oracle_range *wanted, double got,
                                ls_text *text) {
    double ranks = oracle->options.plan->ranks, bound = ls_range__bound(*wanted);
    if (ranks > 1 && fabs(got * ranks - wanted->mid) <= bound * ranks) {
        ls_text_puts(text, "; as if divided by the number of ranks once more");
        return LS_OK;
    }
    if (ranks > 1 && fabs(got - wanted->mid * ranks) <= bound * ranks) {
        ls_text_puts(text, "; as if not divided by the number of ranks");
        return LS_OK;
    }
    bool local = entry->stage == LS_STAGE_LOOKUP_BACKWARD &&
                 oracle->plans[entry->table]->sharding == LS_DATA_PARALLEL;
    occurrence *of;
    size_t count, capacity;
    int status = list_occurrences(oracle, entry->table, ORACLE_UNSHARDED, local ? entry->rank : -1,
                                  &of, &count, &capacity);
    for (size_t i = 0; i < count && !status; i++) {
        if (of[i].row != row) {
            continue;
        }
        oracle_range term = sum_column(oracle, entry->table, &of[i], 1, column);
        bool lost = fabs(got + term.mid - wanted->mid) <= bound + ls_range__bound(term);
        bool twice = fabs(got - term.mid - wanted->mid) <= bound + ls_range__bound(term);
        if (lost || twice) {
            ls_text_printf(text, "; as if feature %s of %s %lld of rank %d %s",
                           oracle->options.tables[entry->table].features[of[i].feature],
                           oracle->options.inputs[of[i].rank]->inverse_indices ? "bag" : "sample",
                           (long long)of[i].sample, of[i].rank,
                           lost ? "were missing" : "counted twice");
            break;
        }
    }
    ls_free(of, capacity, sizeof(*of));
    return status;
}

static int take_records(ls_oracle *oracle, int t, oracle_sense sense, size_t count) {
    oracle_records *records = &oracle->records[sense][t];
    size_t dim = (size_t)oracle->options.tables[t].dim, cells, numbers;
    records->count = count;
    records->size = ls_oracle__record_size(oracle, t, sense);
    LS_TRY(ls_size_mul(&cells, count, dim));
    LS_TRY(ls_size_mul(&numbers, count, records->size));
    records->rows = ls_arena_alloc(oracle->arena, count, sizeof(*records->rows));
    records->touched = ls_arena_alloc(oracle->arena, count, sizeof(*records->touched));
    records->gradients = ls_arena_alloc(oracle->arena, cells, sizeof(*records->gradients));
    records->after = ls_arena_alloc(oracle->arena, numbers, sizeof(*records->after));
    bool ok = records->rows && records->touched && records->gradients && records->after;
    return ok ? LS_OK : ls_error_last()->code;
}

// The table's rows that the batch touches, with their sums; every row where the optimizer takes
// every row.
static int sum_rows(ls_oracle *oracle, int t, oracle_sense sense) {
    const ls_table *table = &oracle->options.tables[t];
    bool every = optimizer_of(oracle, t)->form == LS_OPTIMIZER_DENSE;
    occurrence *of;
    size_t count, capacity, distinct = 0, at = 0;
    LS_TRY(list_occurrences(oracle, t, sense, -1, &of, &count, &capacity));
    for (size_t i = 0; i < count; i++) {
        distinct += i == 0 || of[i].row != of[i - 1].row;
    }
    int status = take_records(oracle, t, sense, every ? (size_t)table->rows : distinct);
    oracle_records *records = &oracle->records[sense][t];
    for (size_t row = 0; !status && every && row < records->count; row++) {
        records->rows[row] = (int64_t)row;
        for (int64_t c = 0; c < table->dim; c++) {
            records->gradients[(int64_t)row * table->dim + c] = ls_range__point(0);
        }
    }
    for (size_t first = 0, end = 0; !status && first < count; first = end, at++) {
        while (end < count && of[end].row == of[first].row) {
            end++;
        }
        at = every ? (size_t)of[first].row : at;
        records->rows[at] = of[first].row;
        records->touched[at] = true;
        for (int64_t c = 0; c < table->dim; c++) {
            records->gradients[(int64_t)at * table->dim + c] =
                sum_column(oracle, t, of + first, end - first, c);
        }
    }
    ls_free(of, capacity, sizeof(*of));
    return status;
}

// ---- Clipping and updating ----------------------------------------------------------------------

static const oracle_records *records_of(const ls_oracle *oracle, oracle_sense sense, int t) {
    return &oracle->records[ls_oracle__departs(oracle, t) ? sense : ORACLE_UNSHARDED][t];
}

static void clip(ls_oracle *oracle, oracle_sense sense) {
    double limit = oracle->options.training->clip_norm;
    oracle_squares squares = {.count = 0};
    for (int t = 0; t < oracle->options.table_count; t++) {
        const oracle_records *records = records_of(oracle, sense, t);
        for (size_t i = 0; i < records->count * (size_t)oracle->options.tables[t].dim; i++) {
            ls_squares__add(&squares, records->gradients[i]);
        }
    }
    oracle_range norm = ls_range__sqrt(ls_squares__sum(&squares, LS_F64), LS_F64);
    oracle_range factor =
        ls_range__div(ls_range__point(limit),
                      ls_range__add(norm, ls_range__constant(1e-6, LS_F64), LS_F64), LS_F64);
    factor.mid = factor.mid > 1 ? 1 : factor.mid;
    factor.lo = factor.lo > 1 ? 1 : factor.lo;
    factor.hi = isfinite(factor.hi) && factor.hi > 1 ? 1 : factor.hi;
    oracle->norm[sense] = norm;
    oracle->factor[sense] = factor;
}

// One row, all columns or part by part.
static void update_row(const ls_oracle *oracle, int t, oracle_sense sense,
                       const oracle_range *gradients, oracle_range *record) {
    const ls_table *table = &oracle->options.tables[t];
    const ls_optimizer *optimizer = optimizer_of(oracle, t);
    const ls_optimizer_traits *about = ls_optimizer_about(optimizer->kind);
    bool own = sense == ORACLE_DOCUMENTED && ls_oracle__own_state(oracle, t);
    bool clips = oracle->options.training->clip_norm > 0 && oracle->factor[sense].lo != 1;
    ls_dtype dtype = sum_dtype(oracle, t);
    oracle_range factor = oracle->factor[sense];
    if (clips) {
        // It is rounded to the type of the sums before it is used.
        factor = ls_range__mul(factor, ls_range__point(1), dtype);
    }
    size_t part = 0;
    for (int64_t first = 0, end = 0; first < table->dim; first = end, part++) {
        end = own ? ls_oracle__next_part(oracle, t, first) : table->dim;
        oracle_row_step step = {.optimizer = optimizer,
                                .dtype = table->dtype,
                                .step = oracle->step,
                                .columns = (size_t)(end - first),
                                .weights = record + first,
                                .gradients = gradients + first,
                                .factor = clips ? &factor : NULL};
        for (int state = 0; state < ls_optimizer_state_count(optimizer); state++) {
            size_t count, at = ls_oracle__state_at(oracle, t, sense, state, &count);
            at += about->states[state].per_row ? part : (size_t)first;
            step.states[state] = record + at;
        }
        ls_oracle__update_row(&step);
    }
}

static int update_table(ls_oracle *oracle, int t, oracle_sense sense) {
    oracle_records *records = &oracle->records[sense][t];
    for (size_t i = 0; i < records->count; i++) {
        oracle_range *record = records->after + i * records->size;
        LS_TRY(ls_oracle__record(oracle, t, sense, records->rows[i], record));
        update_row(oracle, t, sense, records->gradients + i * (size_t)oracle->options.tables[t].dim,
                   record);
    }
    return LS_OK;
}

// ---- The step -----------------------------------------------------------------------------------

static int make_room(ls_oracle *oracle, oracle_sense sense, int pairs) {
    int ranks = oracle->options.plan->ranks;
    size_t tables = (size_t)oracle->options.table_count;
    oracle->records[sense] = ls_arena_alloc(oracle->arena, tables, sizeof(*oracle->records[sense]));
    oracle->gradients[sense] =
        ls_arena_alloc(oracle->arena, (size_t)ranks, sizeof(*oracle->gradients[sense]));
    if (!oracle->records[sense] || !oracle->gradients[sense]) {
        return ls_error_last()->code;
    }
    for (int rank = 0; rank < ranks; rank++) {
        oracle->gradients[sense][rank] =
            ls_arena_alloc(oracle->arena, (size_t)pairs, sizeof(**oracle->gradients[sense]));
        if (!oracle->gradients[sense][rank]) {
            return ls_error_last()->code;
        }
    }
    return LS_OK;
}

static int train_sense(ls_oracle *oracle, oracle_sense sense) {
    const ls_oracle_options *options = &oracle->options;
    int pairs = 0;
    for (int t = 0; t < options->table_count; t++) {
        pairs += options->tables[t].feature_count;
    }
    LS_TRY(make_room(oracle, sense, pairs));
    for (int t = 0; t < options->table_count; t++) {
        ls_sharding sharding = oracle->plans[t]->sharding;
        if (options->tables[t].pooling == LS_POOL_MAX &&
            ls_sharding_traits_of(sharding).rows != LS_OVER_ONE) {
            return LS_FAIL(LS_ERR_UNSUPPORTED,
                           "oracle: table %s is pooled by max, which has no backward under %s",
                           options->tables[t].name, ls_sharding_name(sharding));
        }
        for (int rank = 0; rank < options->plan->ranks; rank++) {
            for (int f = 0; f < options->tables[t].feature_count; f++) {
                LS_TRY(take_gradient(oracle, t, f, rank, sense));
            }
        }
        LS_TRY(sum_rows(oracle, t, sense));
    }
    if (options->training->clip_norm > 0) {
        clip(oracle, sense);
    }
    for (int t = 0; t < options->table_count && !options->backward_only; t++) {
        LS_TRY(update_table(oracle, t, sense));
    }
    return LS_OK;
}

int ls_oracle__train(ls_oracle *oracle) {
    const ls_oracle_options *options = &oracle->options;
    oracle->step = options->previous ? options->previous->step : options->first_step;
    LS_TRY(ls_arena_create(&oracle->arena));
    LS_TRY(ls_oracle__list_needed(oracle));
    if (!options->training) {
        return LS_OK;
    }
    LS_ASSERT(options->gradients);
    oracle->step++;
    LS_TRY(train_sense(oracle, ORACLE_UNSHARDED));
    bool departs = false;
    for (int t = 0; t < options->table_count && !departs; t++) {
        departs = ls_oracle__departs(oracle, t);
    }
    return departs ? train_sense(oracle, ORACLE_DOCUMENTED) : LS_OK;
}
