// Tests of the divisor of a mean, under every sharding type: hand-computed numbers, and the
// oracle's verdict on each.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "case.h"

static const ls_sharding all_types[] = {LS_DATA_PARALLEL, LS_TABLE_WISE,     LS_COLUMN_WISE,
                                        LS_ROW_WISE,      LS_TABLE_ROW_WISE, LS_TABLE_COLUMN_WISE,
                                        LS_GRID};
#define TYPE_COUNT (sizeof(all_types) / sizeof(all_types[0]))

static bool by_rows(ls_sharding type) {
    return type == LS_ROW_WISE || type == LS_TABLE_ROW_WISE;
}

// Row r of a table of 4 x 2 is (10 r + 1, 20 r + 2). Every rank has the bags (3 1), () and (2) with
// weights 0.5 2, none, 4: weighted sums 15.5 + 22 = 37.5 and 84, weights 2.5 and 4, plain sums 42
// and 21.
static double by_place(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return (double)(column + 1) * (10 * (double)row + 1);
}

static void set_up(embedding_case *c) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {2, 0, 1}, ids[] = {3, 1, 2};
    static const float weights[] = {0.5f, 2, 4};
    case_init(c, 4, 2, 0);
    c->weight = by_place;
    for (int r = 0; r < 4; r++) {
        cr_assert(ls_keyed_jagged_create(&c->inputs[r], r, keys, 1, 3, lengths, ids, 3, weights) ==
                  LS_OK);
    }
}

static void add(embedding_case *c, const char *name, ls_pooling pooling, bool weighted,
                ls_mean_divisor divisor, ls_sharding type) {
    int t = case_table(c, name, 4, 2, pooling, weighted, "a");
    c->tables[t].mean_divisor = divisor;
    cr_assert(case_place(c, t, type, 2));
}

// Both columns of the first and last bag of every rank equal these numbers to two last places; the
// empty bag is zero.
static void expect_bags(const embedding_case *c, const case_outcome *out, int table, double first,
                        double last, const char *what) {
    for (int r = 0; r < c->ranks; r++) {
        const float *v = out->outputs[r][table][0];
        const double want[] = {first, 2 * first, 0, 0, last, 2 * last};
        for (int i = 0; i < 6; i++) {
            cr_expect(fabs((double)v[i] - want[i]) <= 0x1p-22 * want[i],
                      "%s, table %d, rank %d, element %d: %.9g, not %.9g", what, table, r, i,
                      (double)v[i], want[i]);
        }
    }
}

// A weighted mean of each name, under each type. A change by the type is by design, and reported as
// such.
Test(means, weighted_mean_by_name) {
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (int d = LS_MEAN_WEIGHTS; d <= LS_MEAN_TORCHREC; d++) {
            embedding_case c;
            case_outcome out;
            const char *what = ls_sharding_name(all_types[i]);
            bool differs = d == LS_MEAN_TORCHREC && by_rows(all_types[i]);
            set_up(&c);
            add(&c, "t", LS_POOL_MEAN, true, (ls_mean_divisor)d, all_types[i]);
            cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
            cr_expect(out.wrong == 0, "%s: %s", what, out.text);
            if (d == LS_MEAN_WEIGHTS) {
                expect_bags(&c, &out, 0, 15, 21, what);
            } else if (differs) {
                expect_bags(&c, &out, 0, 37.5 / 2.500001, 84 / 4.000001, what);
            } else {
                expect_bags(&c, &out, 0, 18.75, 84, what);
            }
            // Two bags of two columns on each of four ranks.
            cr_expect(out.by_design == (differs ? 16 : 0), "%s: %d", what, (int)out.by_design);
            cr_expect(!differs || strstr(out.text, "got 14.9999943, unsharded 18.75: table t is"),
                      "%s", out.text);
            cr_expect(!differs || strstr(out.text, "(mean_divisor: torchrec)"), "%s", out.text);
            case_outcome_free(&out);
            case_free(&c);
        }
    }
}

// Without weights TorchRec's mean is the plain one, except for the millionth that the row types
// add.
Test(means, plain_mean_as_in_torchrec) {
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        embedding_case c;
        case_outcome out;
        double added = by_rows(all_types[i]) ? 1e-6 : 0;
        set_up(&c);
        add(&c, "t", LS_POOL_MEAN, false, LS_MEAN_TORCHREC, all_types[i]);
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_expect(out.wrong == 0 && out.by_design == (added > 0 ? 16 : 0), "%s", out.text);
        expect_bags(&c, &out, 0, 42 / (2 + added), 21 / (1 + added),
                    ls_sharding_name(all_types[i]));
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Under the quirk a mean under grid is its sum, whatever its divisor; other types stay.
Test(means, grid_is_not_divided) {
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        embedding_case c;
        case_outcome out;
        bool grid = all_types[i] == LS_GRID;
        set_up(&c);
        c.quirks.grid_mean_not_divided = true;
        add(&c, "t", LS_POOL_MEAN, false, LS_MEAN_TORCHREC, LS_GRID);
        add(&c, "u", LS_POOL_MEAN, true, LS_MEAN_WEIGHTS, all_types[i]);
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        // The mean of a single id is also its sum; with its weight of 4 it is not.
        cr_expect(out.wrong == 0 && out.by_design == (grid ? 8 + 16 : 8), "%s", out.text);
        expect_bags(&c, &out, 0, 42, 21, "grid");
        expect_bags(&c, &out, 1, grid ? 37.5 : 15, grid ? 84 : 21, ls_sharding_name(all_types[i]));
        cr_expect(strstr(out.text, "got 42, unsharded 21: table t is grid"), "%s", out.text);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Under the other quirk every sum and mean beside a row-wise mean is divided once more; without a
// row-wise mean nothing is.
Test(means, a_mean_by_rows_divides_others) {
    for (int rows = 0; rows < 2; rows++) {
        embedding_case c;
        case_outcome out;
        double e = rows ? 1e-6 : 0;
        set_up(&c);
        c.quirks.row_wise_mean_divides_others = true;
        add(&c, "mean", LS_POOL_MEAN, false, LS_MEAN_TORCHREC,
            rows ? LS_TABLE_ROW_WISE : LS_TABLE_WISE);
        add(&c, "row_sum", LS_POOL_SUM, false, LS_MEAN_WEIGHTS, LS_ROW_WISE);
        add(&c, "sum", LS_POOL_SUM, false, LS_MEAN_WEIGHTS, LS_COLUMN_WISE);
        add(&c, "weighted_sum", LS_POOL_SUM, true, LS_MEAN_WEIGHTS, LS_DATA_PARALLEL);
        add(&c, "mean_twice", LS_POOL_MEAN, true, LS_MEAN_TORCHREC, LS_TABLE_WISE);
        add(&c, "grid", LS_POOL_MEAN, false, LS_MEAN_WEIGHTS, LS_GRID);
        add(&c, "largest", LS_POOL_MAX, false, LS_MEAN_WEIGHTS, LS_TABLE_WISE);
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_expect(out.wrong == 0 && (out.by_design > 0) == (rows > 0), "%s", out.text);
        expect_bags(&c, &out, 0, 42 / (2 + e), 21 / (1 + e), "mean");
        expect_bags(&c, &out, 1, 42 / (1 + e), 21 / (1 + e), "row_sum");
        expect_bags(&c, &out, 2, rows ? 42 / (2 + e) : 42, rows ? 21 / (1 + e) : 21, "sum");
        expect_bags(&c, &out, 3, rows ? 37.5 / (2.5 + e) : 37.5, rows ? 84 / (4 + e) : 84,
                    "weighted_sum");
        expect_bags(&c, &out, 4, rows ? 18.75 / (2.5 + e) : 18.75, rows ? 84 / (4 + e) : 84,
                    "mean_twice");
        expect_bags(&c, &out, 5, rows ? 21 / (2 + e) : 21, 21 / (1 + e), "grid");
        expect_bags(&c, &out, 6, 31, 21, "largest");
        case_outcome_free(&out);
        case_free(&c);
    }
}

// There a row-wise sum is multiplied by a rounded factor, which its bound allows: rows of many
// values, each the only one of its bag.
Test(means, rounded_factor_is_within_the_bound) {
    embedding_case c;
    case_outcome out;
    case_init(&c, 2, 2, 6);
    c.quirks.row_wise_mean_divides_others = true;
    case_table(&c, "mean", 50, 3, LS_POOL_MEAN, false, "b");
    case_table(&c, "sum", 50, 64, LS_POOL_SUM, false, "a");
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 0) && case_place(&c, 1, LS_ROW_WISE, 0));
    cr_assert(case_inputs(&c, (const int64_t[]){40, 40}, 1) == LS_OK);
    cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
    cr_expect(out.wrong == 0 && out.by_design > 1000, "%s", out.text);
    cr_expect(strstr(out.text, "table sum is row_wise") &&
                  strstr(out.text, "beside the mean of mean, here by 1 + 1e-6"),
              "%s", out.text);
    cr_expect(out.bound_ratio > 0.5 && out.bound_ratio <= 1, "%g", out.bound_ratio);
    case_outcome_free(&out);
    case_free(&c);
}

// A divisor without a mean is refused, and so is an unknown divisor.
Test(means, refused_without_a_mean) {
    static const struct {
        ls_pooling pooling;
        int divisor;
    } bad[] = {{LS_POOL_SUM, LS_MEAN_IDS},
               {LS_POOL_MAX, LS_MEAN_TORCHREC},
               {LS_POOL_NONE, LS_MEAN_TORCHREC},
               {LS_POOL_MEAN, LS_MEAN_TORCHREC + 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        embedding_case c;
        case_outcome out;
        set_up(&c);
        add(&c, "t", bad[i].pooling, false, (ls_mean_divisor)bad[i].divisor, LS_ROW_WISE);
        cr_expect(case_run(&c, &out) == LS_ERR_INVALID, "%zu", i);
        cr_expect(strstr(out.text, "table t: mean_divisor ("), "%s", out.text);
        case_outcome_free(&out);
        case_free(&c);
    }
}
