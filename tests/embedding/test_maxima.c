// The gradient of a maximum by hand, since the oracle could have the module's error.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train.h"

// Rows 0, 1, 2 of three columns: 0 and 1 are equal in the first, in the second 0 is NaN and 1 a
// zero below another, in the third all are NaN.
static double tied_weight(const embedding_case *c, int table, int64_t row, int64_t column) {
    static const double rows[3][3] = {{5, NAN, NAN}, {5, -0.0, NAN}, {4, 0.0, NAN}};
    (void)c;
    (void)table;
    return rows[row % 3][column];
}

static int take_sums(void *arg, const ls_stage_output *output) {
    if (strcmp(output->stage, "lookup_backward") == 0 && strcmp(output->field, "gradients") == 0) {
        memcpy(arg, output->data, 9 * sizeof(float));
    }
    return LS_OK;
}

static double counted_gradient(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t;
    (void)step;
    (void)rank;
    return pair == 0 ? (double)(index + 1) : 0;
}

// Of equal rows the first one gets the gradient, -0 is below 0, NaN loses; the padding id is passed
// by.
Test(training, the_first_maximum_gets_the_gradient) {
    static const float want[2][9] = {{0, 0, 0, 1, 0, 3, 0, 2, 0}, {1, 0, 3, 0, 0, 0, 0, 2, 0}};
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {3}, ids[] = {1, 0, 2};
    const ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    for (int padded = 0; padded < 2; padded++) {
        embedding_case c;
        train_case t;
        train_outcome out;
        float sums[9] = {0};
        case_init(&c, 1, 1, 5);
        case_table(&c, "table", 3, 3, LS_POOL_MAX, false, "a");
        c.weight = tied_weight;
        c.tables[0].has_padding_id = padded == 1;
        c.tables[0].padding_id = 1;
        cr_assert(case_place(&c, 0, LS_DATA_PARALLEL, 2));
        cr_assert(ls_keyed_jagged_create(&c.inputs[0], 0, keys, 1, 1, lengths, ids, 3, NULL) ==
                  LS_OK);
        train_init(&t, &c, &optimizer);
        t.given_inputs = true;
        t.steps = 1;
        t.gradient = counted_gradient;
        t.sink = (ls_stage_sink){.arg = sums, .emit = take_sums};
        cr_assert(train_run(&t, &out) == LS_OK && out.wrong == 0, "%s", out.text);
        for (int i = 0; i < 9; i++) {
            cr_expect(sums[i] == want[padded][i], "%d: %d: %g", padded, i, (double)sums[i]);
        }
        train_outcome_free(&out);
        case_free(&c);
    }
}

// Of two equal rows the second may not have the gradient of the first.
static bool give_it_to_the_other(const train_case *t, int step, const ls_stage_output *output,
                                 void *data, size_t count) {
    float *sums = data;
    (void)t, (void)step;
    if (strcmp(output->stage, "lookup_backward") != 0 || strcmp(output->field, "gradients") != 0) {
        return false;
    }
    cr_assert(count == 9 && sums[3] == 1);
    sums[0] = sums[3];
    sums[3] = 0;
    return true;
}

Test(training, the_second_of_equal_rows_gets_nothing) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {3}, ids[] = {1, 0, 2};
    const ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    embedding_case c;
    train_case t;
    train_outcome out;
    case_init(&c, 1, 1, 5);
    case_table(&c, "table", 3, 3, LS_POOL_MAX, false, "a");
    c.weight = tied_weight;
    cr_assert(case_place(&c, 0, LS_DATA_PARALLEL, 2));
    cr_assert(ls_keyed_jagged_create(&c.inputs[0], 0, keys, 1, 1, lengths, ids, 3, NULL) == LS_OK);
    train_init(&t, &c, &optimizer);
    t.given_inputs = true;
    t.steps = 1;
    t.gradient = counted_gradient;
    t.spoil = give_it_to_the_other;
    cr_assert(train_run(&t, &out) == LS_OK && out.spoilt == 1, "%s", out.text);
    cr_expect(out.wrong == 2, "%d: %s", (int)out.wrong, out.text);
    train_outcome_free(&out);
    case_free(&c);
}

// Weights are often equal whole numbers, and updates keep them whole: equal bits under every
// placement.
static double tied_often(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return (double)((row * 5 + column * 3) % 4);
}

static double whole_gradient(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t;
    return (double)((index * 7 + (uint64_t)(rank * 3 + pair * 5 + step)) % 9) - 4;
}

Test(training, maxima_are_the_same_under_every_type) {
    static const ls_sharding types[] = {LS_TABLE_WISE, LS_COLUMN_WISE, LS_TABLE_COLUMN_WISE,
                                        LS_DATA_PARALLEL};
    ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    train_outcome first = {0};
    optimizer.lr = 1;
    for (int i = 0; i < 4; i++) {
        embedding_case c;
        train_case t;
        train_outcome out;
        case_init(&c, 4, 2, 11);
        case_table(&c, "table", 7, 5, LS_POOL_MAX, false, "a,b");
        c.weight = tied_often;
        cr_assert(case_place(&c, 0, types[i], 2));
        train_init(&t, &c, &optimizer);
        t.division = LS_GRADIENTS_SUMMED;
        t.gradient = whole_gradient;
        cr_assert(train_run(&t, &out) == LS_OK && out.wrong == 0, "%s: %s",
                  ls_sharding_name(types[i]), out.text);
        cr_assert(i == 0 || memcmp(out.tables[0][0], first.tables[0][0], out.bytes[0][0]) == 0,
                  "%s", ls_sharding_name(types[i]));
        if (i == 0) {
            first = out;
        } else {
            train_outcome_free(&out);
        }
        case_free(&c);
    }
    train_outcome_free(&first);
}

// Row 6 is below all others, so it gets no gradient, and LAMB then divides 0 by 0.
static double lowest_last(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return row == 6 ? -9 : sin((double)(row * 5 + column + 1));
}

// A row that became NaN loses in the next step's bags, whose maximum stays known.
Test(training, a_row_that_became_nan_leaves_the_maximum_known) {
    ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_LAMB, LS_OPTIMIZER_FUSED);
    embedding_case c;
    train_case t;
    train_outcome out;
    optimizer.lr = 0.5;
    case_init(&c, 2, 2, 2);
    case_table(&c, "table", 7, 5, LS_POOL_MAX, false, "a");
    c.tables[0].dtype = LS_F64;
    c.weight = lowest_last;
    cr_assert(case_place(&c, 0, LS_TABLE_WISE, 2));
    train_init(&t, &c, &optimizer);
    t.steps = 3;
    cr_assert(train_run(&t, &out) == LS_OK && out.wrong == 0, "%s", out.text);
    train_outcome_free(&out);
    case_free(&c);
}
