// Tests of backward and update under every sharding type, judged by the oracle, step after step.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train.h"

#define TYPE_COUNT LS_SHARDING_COUNT

typedef struct pooling_case {
    ls_pooling pooling;
    bool weighted;
} pooling_case;
static const pooling_case poolings[] = {{LS_POOL_NONE, false}, {LS_POOL_SUM, false},
                                        {LS_POOL_SUM, true},   {LS_POOL_MEAN, false},
                                        {LS_POOL_MEAN, true},  {LS_POOL_MAX, false}};
#define POOLING_COUNT (sizeof(poolings) / sizeof(poolings[0]))

static void expect_right(const train_case *t, train_outcome *out, const char *what) {
    cr_assert(train_run(t, out) == LS_OK, "%s: %s", what, out->text);
    cr_assert(out->wrong == 0, "%s: %s", what, out->text);
    cr_assert(out->elements > 0, "%s: nothing was judged", what);
}

// Every sharding type, optimizer, form and pooling: three steps, two features, duplicates. Results
// differ from the unsharded table only if a row's norm is used and columns are sharded.
Test(training, every_type_and_optimizer) {
    uint64_t by_design = 0;
    for (int kind = 0; kind < LS_OPTIMIZER_KIND_COUNT; kind++) {
        for (size_t i = 0; i < 2 * TYPE_COUNT * POOLING_COUNT; i++) {
            train_table how = train_table_small((ls_optimizer_kind)kind);
            how.optimizer.form = (ls_optimizer_form)(i % 2);
            how.sharding = train_types[i / 2 % TYPE_COUNT];
            how.pooling = poolings[i / 2 / TYPE_COUNT].pooling;
            how.weighted = poolings[i / 2 / TYPE_COUNT].weighted;
            embedding_case c;
            train_case t;
            train_outcome out;
            cr_assert(train_table_set_up(&how, &c, &t));
            expect_right(&t, &out, train_table_name(&how));
            bool cut = c.plans[0].shards[0].columns < how.dim;
            bool norms = ls_optimizer_about(how.optimizer.kind)->row_norms;
            cr_assert((cut && norms) == (out.by_design > 0), "%s: %s", train_table_name(&how),
                      out.text);
            by_design += out.by_design;
            train_outcome_free(&out);
            case_free(&c);
        }
    }
    cr_assert(by_design > 0);
}

// Worlds, batches and tables of all sizes: uneven, empty ranks, no samples, one rank, one row, more
// ranks than rows.
Test(training, every_world_and_batch) {
    static const int worlds[][2] = {{1, 1}, {2, 1}, {3, 3}, {4, 2}, {6, 3}};
    static const int64_t batches[][6] = {
        {3, 3, 3, 3, 3, 3}, {0, 2, 5, 1, 0, 3}, {0, 0, 0, 0, 0, 0}};
    static const int64_t shapes[][2] = {{9, 4}, {1, 1}, {2, 3}};
    for (size_t w = 0; w < 5 * TYPE_COUNT * POOLING_COUNT; w++) {
        for (size_t s = 0; s < 9; s++) {
            train_table how = train_table_small(s % 2 ? LS_OPTIMIZER_ADAGRAD : LS_OPTIMIZER_SGD);
            how.ranks = worlds[w % 5][0];
            how.per_host = worlds[w % 5][1];
            how.sharding = train_types[w / 5 % TYPE_COUNT];
            how.pooling = poolings[w / 5 / TYPE_COUNT].pooling;
            how.weighted = poolings[w / 5 / TYPE_COUNT].weighted;
            how.rows = shapes[s / 3][0];
            how.dim = shapes[s / 3][1];
            embedding_case c;
            train_case t;
            train_outcome out;
            if (train_table_set_up(&how, &c, &t)) {
                t.batches = batches[s % 3];
                t.steps = 2;
                expect_right(&t, &out, train_table_name(&how));
                train_outcome_free(&out);
            }
            case_free(&c);
        }
    }
}

// Narrow and wide tables; f16 and bf16 rounded to nearest and stochastically.
Test(training, every_dtype) {
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F64};
    for (size_t i = 0; i < 3 * TYPE_COUNT * POOLING_COUNT; i++) {
        for (int stochastic = 0; stochastic < 2; stochastic++) {
            train_table how = train_table_small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
            how.dtype = dtypes[i % 3];
            how.sharding = train_types[i / 3 % TYPE_COUNT];
            how.pooling = poolings[i / 3 / TYPE_COUNT].pooling;
            how.weighted = poolings[i / 3 / TYPE_COUNT].weighted;
            how.optimizer.stochastic_rounding = stochastic;
            how.optimizer.lr = 0.5;
            embedding_case c;
            train_case t;
            train_outcome out;
            cr_assert(train_table_set_up(&how, &c, &t));
            expect_right(&t, &out, train_table_name(&how));
            train_outcome_free(&out);
            case_free(&c);
        }
    }
}

// f8 has no training, max pooling no backward with row shards; both are refused with a message.
Test(training, what_cannot_be_trained_is_refused) {
    train_table how = train_table_small(LS_OPTIMIZER_SGD);
    embedding_case c;
    train_case t;
    train_outcome out;
    how.sharding = LS_ROW_WISE;
    cr_assert(train_table_set_up(&how, &c, &t));
    c.tables[0].pooling = LS_POOL_MAX;
    cr_assert(train_run(&t, &out) == LS_ERR_UNSUPPORTED);
    cr_assert(strstr(out.text, "max") && strstr(out.text, "table"), "%s", out.text);
    case_free(&c);
    how.dtype = LS_F8E4M3;
    cr_assert(train_table_set_up(&how, &c, &t));
    cr_assert(train_run(&t, &out) == LS_ERR_UNSUPPORTED);
    cr_assert(strstr(out.text, "f8e4m3"), "%s", out.text);
    case_free(&c);
}

// ---- The same bits under every sharding type ----------------------------------------------------

static double whole_weight(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return (double)((row * 5 + column * 3) % 11 - 5);
}

static double whole_gradient(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t;
    return (double)((index * 7 + (uint64_t)(rank * 3 + pair * 5 + step)) % 9) - 4;
}

// Integer gradients have the same sums in any order, so weights and states agree bit for bit.
Test(training, exact_sums_make_types_agree) {
    for (int kind = 0; kind < LS_OPTIMIZER_KIND_COUNT; kind++) {
        for (size_t p = 0; p < 2; p++) {
            train_outcome first = {0}, out;
            for (size_t i = 0; i < TYPE_COUNT; i++) {
                train_table how = train_table_small((ls_optimizer_kind)kind);
                how.sharding = train_types[i];
                how.pooling = poolings[p].pooling;
                embedding_case c;
                train_case t;
                cr_assert(train_table_set_up(&how, &c, &t));
                c.weight = whole_weight;
                t.gradient = whole_gradient;
                expect_right(&t, &out, train_table_name(&how));
                bool cut = c.plans[0].shards[0].columns < how.dim;
                bool norms = ls_optimizer_about(how.optimizer.kind)->row_norms;
                for (int what = 0; i > 0 && !(cut && norms) && what < 3; what++) {
                    cr_assert(out.bytes[0][what] == first.bytes[0][what], "%s",
                              train_table_name(&how));
                    cr_assert(out.bytes[0][what] == 0 ||
                                  memcmp(out.tables[0][what], first.tables[0][what],
                                         out.bytes[0][what]) == 0,
                              "%s: array %d differs", train_table_name(&how), what);
                }
                if (i == 0) {
                    first = out;
                } else {
                    train_outcome_free(&out);
                }
                case_free(&c);
            }
            train_outcome_free(&first);
        }
    }
}

// ---- Clipping -----------------------------------------------------------------------------------

// The norm is that of all tables together, counting replicas once, under every mixture of sharding
// types.
Test(training, clipping_is_over_all_tables) {
    static const char *const names[] = {"t0", "t1", "t2"};
    for (size_t i = 0; i < TYPE_COUNT * TYPE_COUNT; i++) {
        embedding_case c;
        train_case t;
        ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
        optimizer.lr = 1;
        case_init(&c, 4, 2, i);
        for (int k = 0; k < 3; k++) {
            case_table(&c, names[k], 6 + k, 4, k == 1 ? LS_POOL_NONE : LS_POOL_SUM, false, "a,b");
            ls_sharding sharding = train_types[k == 0   ? i % TYPE_COUNT
                                               : k == 1 ? i / TYPE_COUNT
                                                        : (i + 3) % TYPE_COUNT];
            cr_assert(case_place(&c, k, sharding, 2));
        }
        train_init(&t, &c, &optimizer);
        t.clip_norm = i % 2 ? 0.5 : 1e9;
        train_outcome out;
        expect_right(&t, &out, "clipping");
        cr_assert(out.by_design == 0);
        train_outcome_free(&out);
        case_free(&c);
    }
}

// The norm connects the tables: if one table's gradient differs by design, clipped gradients of all
// tables do, whatever the maximum norm.
Test(training, clipping_spreads_what_is_by_design) {
    static const double norms[] = {0.25, 1, 4};
    for (size_t i = 0; i < 6; i++) {
        embedding_case c;
        train_case t;
        train_outcome out;
        ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
        case_init(&c, 2, 2, 0);
        case_table(&c, "mean", 6, 4, LS_POOL_MEAN, true, "a");
        case_table(&c, "sum", 6, 4, LS_POOL_SUM, false, "b");
        c.tables[0].mean_divisor = i < 3 ? LS_MEAN_TORCHREC : LS_MEAN_WEIGHTS;
        cr_assert(case_place(&c, 0, LS_ROW_WISE, 2) && case_place(&c, 1, LS_TABLE_WISE, 2));
        train_init(&t, &c, &optimizer);
        t.clip_norm = norms[i % 3];
        expect_right(&t, &out, "clipping");
        cr_assert((out.by_design > 0) == (i < 3), "%s", out.text);
        train_outcome_free(&out);
        case_free(&c);
    }
}

// ---- max_norm -----------------------------------------------------------------------------------

// Rows are scaled down before the lookup: by the norm of the whole row under every sharding type,
// on all replicas, padding ids included. The oracle judges the looked-up rows and the remaining
// weights.
Test(training, max_norm_is_of_whole_rows) {
    static const double norms[] = {2, 1, 3, INFINITY, 0};
    for (size_t i = 0; i < 5 * TYPE_COUNT * POOLING_COUNT; i++) {
        train_table how = train_table_small(LS_OPTIMIZER_ADAGRAD);
        how.sharding = train_types[i / 5 % TYPE_COUNT];
        how.pooling = poolings[i / 5 / TYPE_COUNT].pooling;
        how.weighted = poolings[i / 5 / TYPE_COUNT].weighted;
        how.rows = 12;
        how.optimizer.lr = 1;
        embedding_case c;
        train_case t;
        train_outcome out;
        cr_assert(train_table_set_up(&how, &c, &t));
        c.tables[0].max_norm = 1.5;
        c.tables[0].norm_type = norms[i % 5];
        c.tables[0].has_padding_id = true;
        c.tables[0].padding_id = 3;
        expect_right(&t, &out, train_table_name(&how));
        cr_assert(out.by_design == 0);
        train_outcome_free(&out);
        case_free(&c);
    }
}
