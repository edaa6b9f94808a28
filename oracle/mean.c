// The divisor of a pooled output: what the table means unsharded, and, where a sharding type is
// documented to give something else, what that type gives and why.
#include "oracle/internal.h"

#include <stdio.h>

static bool by_rows(const ls_oracle *oracle, int t) {
    ls_sharding_traits of = ls_sharding_traits_of(oracle->plans[t]->sharding);
    return of.rows != LS_OVER_ONE && !of.columns;
}

static void add_divisor(oracle_meaning *meaning, oracle_by by, double added) {
    meaning->divisors[meaning->count++] = (oracle_divisor){by, added};
}

void ls_oracle__say(oracle_meaning *meaning, const char *what) {
    size_t used = 0;
    while (meaning->why[used]) {
        used++;
    }
    snprintf(meaning->why + used, sizeof(meaning->why) - used, "%s%s", used > 0 ? "; " : "", what);
}

bool ls_oracle__divides_as_torchrec(const ls_table *table, const oracle_divisor *by) {
    return by->added > 0 ||
           (table->pooling == LS_POOL_MEAN && table->mean_divisor == LS_MEAN_TORCHREC);
}

void ls_oracle__unsharded(const ls_oracle *oracle, int t, oracle_meaning *out) {
    const ls_table *table = &oracle->options.tables[t];
    *out = (oracle_meaning){.count = 0};
    if (table->pooling == LS_POOL_MEAN) {
        bool by_weights = table->mean_divisor == LS_MEAN_WEIGHTS && table->weighted;
        add_divisor(out, by_weights ? ORACLE_BY_WEIGHTS : ORACLE_BY_IDS, 0);
    }
}

// The mean of a single table.
static bool own_difference(const ls_oracle *oracle, int t, oracle_meaning *out) {
    const ls_table *table = &oracle->options.tables[t];
    if (table->pooling != LS_POOL_MEAN) {
        return false;
    }
    if (oracle->plans[t]->sharding == LS_GRID && oracle->options.quirks.grid_mean_not_divided) {
        out->count = 0;
        ls_oracle__say(
            out, "TorchRec's grid does not divide a mean (torchrec_quirks: grid_mean_not_divided)");
        return true;
    }
    if (table->mean_divisor != LS_MEAN_TORCHREC || !by_rows(oracle, t)) {
        return false;
    }
    out->count = 0;
    add_divisor(out, table->weighted ? ORACLE_BY_WEIGHTS : ORACLE_BY_IDS, LS_TORCHREC_MEAN_EPSILON);
    ls_oracle__say(
        out, table->weighted
                 ? "there TorchRec divides a mean by the sum of its weights + 1e-6, unsharded by "
                   "the number of its ids (mean_divisor: torchrec)"
                 : "there TorchRec divides a mean by the number of its ids + 1e-6, unsharded by "
                   "that number (mean_divisor: torchrec)");
    return true;
}

// A mean by rows that stands beside the table.
static bool others_difference(const ls_oracle *oracle, int t, oracle_meaning *out) {
    const ls_table *table = &oracle->options.tables[t];
    int mean = -1;
    for (int i = 0; i < oracle->options.table_count && mean < 0; i++) {
        bool found = oracle->options.tables[i].pooling == LS_POOL_MEAN && by_rows(oracle, i);
        mean = found ? i : -1;
    }
    bool spared = by_rows(oracle, t) && table->pooling == LS_POOL_MEAN;
    if (!oracle->options.quirks.row_wise_mean_divides_others || mean < 0 || spared ||
        !ls_oracle__reduces(table)) {
        return false;
    }
    oracle_by by = table->weighted ? ORACLE_BY_WEIGHTS : ORACLE_BY_IDS;
    add_divisor(out, by_rows(oracle, t) ? ORACLE_BY_ONE : by, LS_TORCHREC_MEAN_EPSILON);
    char text[256];
    const char *divisor = table->weighted ? "the sum of its weights" : "the number of its ids";
    if (by_rows(oracle, t)) {
        divisor = "1";
    }
    snprintf(text, sizeof(text),
             "TorchRec also divides the tables beside the mean of %.64s, here by %s + 1e-6 "
             "(torchrec_quirks: row_wise_mean_divides_others)",
             oracle->options.tables[mean].name, divisor);
    ls_oracle__say(out, text);
    return true;
}

bool ls_oracle__documented(const ls_oracle *oracle, int t, oracle_meaning *out) {
    ls_oracle__unsharded(oracle, t, out);
    bool own = own_difference(oracle, t, out);
    return others_difference(oracle, t, out) || own;
}
