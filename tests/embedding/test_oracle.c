// Tests of the oracle itself: hand-computed expectations and bounds, and injected errors that it
// must detect.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "case.h"

#include "oracle/range.h"
#include "orders/bound.h"

// Row r of the table is (r + 1, -0.1f).
static int row(void *arg, int table, int64_t r, int64_t column, int64_t columns, double *out) {
    (void)arg;
    (void)table;
    for (int64_t c = column; c < column + columns; c++) {
        out[c - column] = c == 0 ? (double)r + 1 : (double)-0.1f;
    }
    return LS_OK;
}

typedef struct setting {
    embedding_case c;
    ls_oracle *oracle;
} setting;

// One table of 4 x 2 by rows over two ranks; rank 0 has bags (0 3), (), rank 1 has (3 1 2).
static void set_up(setting *s, ls_pooling pooling, bool weighted) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths0[] = {2, 0}, ids0[] = {0, 3}, lengths1[] = {3}, ids1[] = {3, 1, 2};
    static const float weights0[] = {0.5f, 2}, weights1[] = {1, -1, 0.25f};
    case_init(&s->c, 2, 2, 0);
    case_table(&s->c, "t", 4, 2, pooling, weighted, "a");
    cr_assert(case_place(&s->c, 0, LS_ROW_WISE, 0));
    s->c.plan = (ls_plan){2, 2, s->c.plans, 1};
    cr_assert(ls_keyed_jagged_create(&s->c.inputs[0], 0, keys, 1, 2, lengths0, ids0, 2, weights0) ==
              LS_OK);
    cr_assert(ls_keyed_jagged_create(&s->c.inputs[1], 1, keys, 1, 1, lengths1, ids1, 3, weights1) ==
              LS_OK);
    ls_oracle_options options = {.tables = s->c.tables,
                                 .table_count = 1,
                                 .plan = &s->c.plan,
                                 .inputs = (const ls_keyed_jagged *const *)s->c.inputs,
                                 .row = row};
    cr_assert(ls_oracle_create(&s->oracle, &options) == LS_OK);
}

static void tear_down(setting *s) {
    ls_oracle_free(s->oracle);
    case_free(&s->c);
}

static ls_stage_output key(const char *stage, const char *field, int rank) {
    return (ls_stage_output){
        .stage = stage, .table = "t", .feature = "a", .field = field, .rank = rank};
}

static ls_expected expect(const setting *s, const char *stage, const char *field, int rank) {
    ls_expected out;
    ls_stage_output wanted = key(stage, field, rank);
    cr_assert(ls_oracle_expect(s->oracle, &wanted, &out) == LS_OK, "%s", ls_error_last()->text);
    return out;
}

// The ids that the owner of rows 2 and 3 receives: one id, none, two; as rows 1, 1 and 0 of its
// shard.
Test(oracle, routing_by_hand) {
    setting s;
    set_up(&s, LS_POOL_SUM, true);
    ls_expected lengths = expect(&s, "input_dist", "lengths", 1);
    cr_expect(lengths.count == 3 && lengths.dtype == LS_I64);
    cr_expect(lengths.ints[0] == 1 && lengths.ints[1] == 0 && lengths.ints[2] == 2);
    ls_expected ids = expect(&s, "input_dist", "ids", 1);
    cr_expect(ids.count == 3 && ids.ints[0] == 1 && ids.ints[1] == 1 && ids.ints[2] == 0);
    ls_expected weights = expect(&s, "input_dist", "weights", 1);
    cr_expect(weights.values[0] == 2 && weights.values[1] == 1 && weights.values[2] == 0.25);
    ls_expected_free(&lengths);
    ls_expected_free(&ids);
    ls_expected_free(&weights);
    tear_down(&s);
}

// Values of every pooling, worked out by hand.
Test(oracle, values_by_hand) {
    static const struct {
        ls_pooling pooling;
        bool weighted;
        double first, empty, second;
    } want[] = {{LS_POOL_SUM, false, 5, 0, 9},
                {LS_POOL_MEAN, false, 2.5, 0, 3},
                {LS_POOL_MAX, false, 4, 0, 4},
                {LS_POOL_SUM, true, 8.5, 0, 2.75},
                {LS_POOL_MEAN, true, 3.4, 0, 11}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        setting s;
        set_up(&s, want[i].pooling, want[i].weighted);
        ls_expected rank0 = expect(&s, "output_dist", "values", 0);
        ls_expected rank1 = expect(&s, "output_dist", "values", 1);
        cr_expect(rank0.count == 4 && rank1.count == 2);
        cr_expect(rank0.values[0] == want[i].first && rank0.values[2] == want[i].empty, "%zu", i);
        cr_expect(rank1.values[0] == want[i].second, "%zu", i);
        ls_expected_free(&rank0);
        ls_expected_free(&rank1);
        tear_down(&s);
    }
}

// The bound follows from the number and size of the terms, and is hardly larger: for a sum of n
// terms of magnitude m, (n - 1) u m; a mean adds half a last place of its value; max and sequence
// add nothing.
Test(oracle, bounds_are_tight) {
    const double u = 0x1p-24;
    static const struct {
        ls_pooling pooling;
        bool weighted;
        double low, high;  // of column 1 of rank 1's bag: three terms of 0.1
    } want[] = {{LS_POOL_NONE, false, 0, 0},
                {LS_POOL_MAX, false, 0, 0},
                {LS_POOL_SUM, false, 2 * 0.3, 2.0001 * 0.3},
                {LS_POOL_SUM, true, 2 * 0.225, 3.0001 * 0.225},
                {LS_POOL_MEAN, false, 2 * 0.1, 3.0001 * 0.1}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        setting s;
        set_up(&s, want[i].pooling, want[i].weighted);
        ls_expected expected = expect(&s, "output_dist", "values", 1);
        cr_expect(expected.bounds[1] >= want[i].low * u && expected.bounds[1] <= want[i].high * u,
                  "%zu: %g u", i, expected.bounds[1] / u);
        ls_expected_free(&expected);
        tear_down(&s);
    }
}

// Each column of column shards is in one shard: it is rounded once to the outputs' type, and no
// bound allows for another shard.
Test(oracle, column_shards_add_no_parts) {
    setting s;
    set_up(&s, LS_POOL_SUM, false);
    ls_oracle_free(s.oracle);
    s.c.tables[0].has_output_dtype = true;
    s.c.tables[0].output_dtype = LS_F16;
    cr_assert(case_place(&s.c, 0, LS_COLUMN_WISE, 2));
    ls_oracle_options options = {.tables = s.c.tables,
                                 .table_count = 1,
                                 .plan = &s.c.plan,
                                 .inputs = (const ls_keyed_jagged *const *)s.c.inputs,
                                 .row = row};
    cr_assert(ls_oracle_create(&s.oracle, &options) == LS_OK);
    ls_expected expected = expect(&s, "output_dist", "values", 1);
    cr_expect(expected.dtype == LS_F16 && expected.values[0] == 9);
    for (int column = 0; column < 2; column++) {
        double step = fabs(expected.values[column]) * 0x1p-11;
        cr_expect(expected.bounds[column] >= step && expected.bounds[column] < 1.5 * step, "%d: %g",
                  column, expected.bounds[column]);
    }
    ls_expected_free(&expected);
    tear_down(&s);
}

// A row of norm 5 becomes one of norm 1: each number within a few roundings, even if the norm is
// uncertain.
Test(oracle, a_row_scaled_down_by_hand) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {1, 0}, ids[] = {2};
    for (int type = 1; type <= 3; type++) {
        setting s;
        set_up(&s, LS_POOL_SUM, false);
        ls_oracle_free(s.oracle);
        ls_keyed_jagged_free(s.c.inputs[0]);
        cr_assert(ls_keyed_jagged_create(&s.c.inputs[0], 0, keys, 1, 2, lengths, ids, 1, NULL) ==
                  LS_OK);
        s.c.tables[0].max_norm = 1;
        s.c.tables[0].norm_type = type;
        ls_oracle_options options = {.tables = s.c.tables,
                                     .table_count = 1,
                                     .plan = &s.c.plan,
                                     .inputs = (const ls_keyed_jagged *const *)s.c.inputs,
                                     .row = row};
        cr_assert(ls_oracle_create(&s.oracle, &options) == LS_OK);
        double norm = pow(pow(3, type) + pow((double)0.1f, type), 1.0 / type);
        ls_expected expected = expect(&s, "output_dist", "values", 0);
        cr_expect(fabs(expected.values[0] - 3 / norm) < 1e-6, "%d: %g", type, expected.values[0]);
        cr_expect(expected.bounds[0] < 1e-6, "%d: %g", type, expected.bounds[0]);
        ls_expected_free(&expected);
        tear_down(&s);
    }
}

// The first step of Adam is at most as long as its rate, even if the gradient is uncertain.
Test(oracle, adam_begins_with_its_rate) {
    ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_ADAM, LS_OPTIMIZER_FUSED);
    optimizer.lr = 0.5;
    oracle_range weight = {1, 1, 1, 1}, mean = {0, 0, 0, 0}, square = {0, 0, 0, 0};
    const oracle_range gradient = {0.25, -1, 1, 0.25};
    ls_oracle__update_row(&(oracle_row_step){.optimizer = &optimizer,
                                             .dtype = LS_F32,
                                             .step = 1,
                                             .columns = 1,
                                             .weights = &weight,
                                             .states = {&mean, &square},
                                             .gradients = &gradient});
    cr_expect(fabs(weight.mid - 0.5) < 1e-4, "%g", weight.mid);
    cr_expect(weight.lo > 0.4999 && weight.hi < 1.5001, "%g to %g", weight.lo, weight.hi);
    cr_expect(ls_range__vacuous(weight) == LS_BOUND_VACUOUS);  // 0 is within its bound
}

// torch.optim may compute the moment as m + (1 - beta1) (g - m), whose difference is rounded too:
// by half a place of the larger of them, even if the moment is small.
Test(oracle, moments_of_dense_adam_may_be_interpolated) {
    ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_ADAM, LS_OPTIMIZER_DENSE);
    oracle_range weight = {1, 1, 1, 1}, mean = {1, 1, 1, 1}, square = {1, 1, 1, 1};
    const oracle_range gradient = {-9, -9, -9, 9};  // 0.9 * 1 - 0.1 * 9 = 0
    ls_oracle__update_row(&(oracle_row_step){.optimizer = &optimizer,
                                             .dtype = LS_F32,
                                             .step = 2,
                                             .columns = 1,
                                             .weights = &weight,
                                             .states = {&mean, &square},
                                             .gradients = &gradient});
    cr_expect(fabs(mean.mid) < 1e-6, "%g", mean.mid);
    cr_expect(mean.hi >= 10 * 0x1p-24 && mean.lo <= -10 * 0x1p-24, "%g to %g", mean.lo, mean.hi);
    cr_expect(mean.hi < 1e-5 && mean.lo > -1e-5, "%g to %g", mean.lo, mean.hi);
}

// An input without data that the table needs is refused with a message.
Test(oracle, inputs_lack_nothing) {
    static const char *const keys[] = {"a"};
    setting s;
    set_up(&s, LS_POOL_SUM, false);
    ls_oracle *oracle = NULL;
    ls_oracle_options options = {.tables = s.c.tables,
                                 .table_count = 1,
                                 .plan = &s.c.plan,
                                 .inputs = (const ls_keyed_jagged *const *)s.c.inputs,
                                 .row = row};
    const char *const *features = s.c.tables[0].features;
    s.c.tables[0].features = (const char *const[]){"b"};
    cr_expect(ls_oracle_create(&oracle, &options) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "the input of rank 0 has no feature b"), "%s",
              ls_error_last()->text);
    s.c.tables[0].features = features;
    s.c.tables[0].weighted = true;
    ls_keyed_jagged_free(s.c.inputs[1]);
    cr_assert(ls_keyed_jagged_create(&s.c.inputs[1], 1, keys, 1, 1, (const int64_t[]){1},
                                     (const int64_t[]){3}, 1, NULL) == LS_OK);
    cr_expect(ls_oracle_create(&oracle, &options) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 1 has no weights for feature a"), "%s",
              ls_error_last()->text);
    tear_down(&s);
}

// A value within rounding passes; one further away is wrong, with its place and owner.
Test(oracle, injected_errors_are_seen) {
    setting s;
    set_up(&s, LS_POOL_SUM, false);
    float values[2] = {9, -0.1f - 0.1f - 0.1f};
    ls_stage_output output = key("output_dist", "values", 1);
    output.dtype = LS_F32;
    output.shape = LS_SHAPE(1, 2);
    output.data = values;
    ls_judgement judgement;
    cr_assert(ls_oracle_judge(s.oracle, &output, &judgement) == LS_OK);
    cr_expect(judgement.wrong == 0 && judgement.elements == 2 && judgement.bound_ratio <= 1);
    values[1] = nextafterf(nextafterf(values[1], -1), -1);
    cr_assert(ls_oracle_judge(s.oracle, &output, &judgement) == LS_OK);
    cr_expect(judgement.wrong == 1 && judgement.first_wrong == 1 && judgement.bound_ratio > 1);
    cr_expect(strstr(judgement.text, "sample 0 of rank 1, column 1; id 3 (position 0, 3 in the "
                                     "bag), owned by rank 1"),
              "%s", judgement.text);
    values[1] = NAN;
    cr_assert(ls_oracle_judge(s.oracle, &output, &judgement) == LS_OK);
    cr_expect(judgement.wrong == 1 && isinf(judgement.bound_ratio));
    output.shape = LS_SHAPE(2, 1);
    cr_assert(ls_oracle_judge(s.oracle, &output, &judgement) == LS_OK);
    cr_expect(judgement.wrong == 2 && strstr(judgement.text, "got [2, 1] of f32, expected [1, 2]"));
    output = key("output_dist", "lengths", 1);
    cr_expect(ls_oracle_judge(s.oracle, &output, &judgement) == LS_ERR_NOT_FOUND);
    tear_down(&s);
}

// If data only moves, zeros keep their signs and nothing may differ.
Test(oracle, moved_data_is_exact) {
    setting s;
    set_up(&s, LS_POOL_NONE, false);
    float values[6] = {4, -0.1f, 2, -0.1f, 3, -0.1f};
    ls_stage_output output = key("output_dist", "values", 1);
    output.dtype = LS_F32;
    output.shape = LS_SHAPE(3, 2);
    output.data = values;
    ls_judgement judgement;
    cr_assert(ls_oracle_judge(s.oracle, &output, &judgement) == LS_OK);
    cr_expect(judgement.wrong == 0 && judgement.differing == 0);
    values[5] = nextafterf(-0.1f, -1);
    cr_assert(ls_oracle_judge(s.oracle, &output, &judgement) == LS_OK);
    cr_expect(judgement.wrong == 1 && judgement.max_ulps == 1 && judgement.first_wrong == 5);
    cr_expect(strstr(judgement.text, "column 1; id 2 (position 2, "), "%s", judgement.text);
    tear_down(&s);
}
