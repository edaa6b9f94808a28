// Which of a bag's rows the gradient of a maximum goes to, of the unsharded table. Where training
// went before, rows are known within bounds, and which one is the largest may not be.
#include "oracle/internal.h"

#include <math.h>

// As the lookup has it: NaN loses, -0 < 0, of equal ones the first stays.
static bool is_larger(double value, double than) {
    if (isnan(than)) {
        return !isnan(value);
    }
    return value > than || (value == than && signbit(than) && !signbit(value));
}

// The bag's ids after the id policy and their rows [ids][size], as the batch finds them.
typedef struct candidates {
    int64_t count;
    int64_t *ids;
    oracle_range *rows;
    size_t size;
    bool exact;
} candidates;

static int find_candidates(candidates *out, const ls_oracle *oracle, int t, oracle_sense sense,
                           const ls_keyed_jagged *input, int64_t bag) {
    const ls_table *table = &oracle->options.tables[t];
    size_t numbers, count = (size_t)input->lengths[bag];
    *out = (candidates){.count = input->lengths[bag],
                        .size = ls_oracle__record_size(oracle, t, sense),
                        .exact = !oracle->options.previous && !(table->max_norm > 0)};
    LS_TRY(ls_size_mul(&numbers, count, out->size));
    out->ids = ls_arena_alloc(oracle->arena, count, sizeof(*out->ids));
    out->rows = ls_arena_alloc(oracle->arena, numbers, sizeof(*out->rows));
    if (!out->ids || !out->rows) {
        return ls_error_last()->code;
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->ids[i] = ls_oracle__row(oracle->options.id_policy, table->rows,
                                     input->values[input->offsets[bag] + i]);
        LS_TRY(ls_oracle__record(oracle, t, sense, out->ids[i], out->rows + (size_t)i * out->size));
    }
    return LS_OK;
}

static oracle_range value_at(const candidates *of, int64_t i, int64_t column) {
    return of->rows[(size_t)i * of->size + (size_t)column];
}

// One column: gives the bag's gradient g to the largest. Another that may be the largest instead
// makes both uncertain.
static void give(const candidates *of, const ls_table *table, int64_t column, oracle_range g,
                 oracle_range *out) {
    const oracle_range either = {0, fmin(g.lo, 0), fmax(g.hi, 0), fabs(g.mid)};
    int64_t best = -1, dim = table->dim;
    bool sure = true;
    for (int64_t i = 0; i < of->count; i++) {
        out[i * dim + column] = ls_range__point(0);
        double value = value_at(of, i, column).mid;
        bool larger = best < 0 || is_larger(value, value_at(of, best, column).mid);
        best = ls_oracle__counts(table, of->ids[i]) && larger ? i : best;
    }
    for (int64_t i = 0; i < of->count && !of->exact && best >= 0; i++) {
        bool other = of->ids[i] != of->ids[best] && ls_oracle__counts(table, of->ids[i]);
        if (other && !(value_at(of, i, column).hi < value_at(of, best, column).lo)) {
            out[i * dim + column] = either;
            sure = false;
        }
    }
    if (best >= 0) {
        out[best * dim + column] =
            sure ? g : (oracle_range){g.mid, either.lo, either.hi, either.size};
    }
}

int ls_oracle__give_maxima(const ls_oracle *oracle, int t, oracle_sense sense,
                           const ls_keyed_jagged *input, int64_t bag, const oracle_range *gradient,
                           oracle_range *out) {
    const ls_table *table = &oracle->options.tables[t];
    candidates of;
    LS_TRY(find_candidates(&of, oracle, t, sense, input, bag));
    for (int64_t c = 0; c < table->dim; c++) {
        give(&of, table, c, gradient[c], out);
    }
    return LS_OK;
}
