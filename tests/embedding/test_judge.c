// Tests of the judge: outputs with one corrupted place, and the expected report. The table by hand:
// row r is (r + 1, -0.1f).
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "case.h"

#include "kernels/element.h"
#include "kernels/ulps.h"

typedef struct setting {
    embedding_case c;
    double rows[4][2];  // the contents of the table
    ls_oracle *oracle;
} setting;

static int row(void *arg, int table, int64_t r, int64_t column, int64_t columns, double *out) {
    (void)table;
    memcpy(out, ((setting *)arg)->rows[r] + column, (size_t)columns * sizeof(*out));
    return LS_OK;
}

// One table of 4 x 2 by rows over two ranks; rank 0 has bags (0 3) and (), rank 1 has (3 1 2).
static void set_up(setting *s, ls_pooling pooling, const float *weights1, ls_mean_divisor divisor) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths0[] = {2, 0}, ids0[] = {0, 3}, lengths1[] = {3}, ids1[] = {3, 1, 2};
    static const float weights0[] = {0.5f, 2};
    case_init(&s->c, 2, 2, 0);
    case_table(&s->c, "t", 4, 2, pooling, weights1 != NULL, "a");
    s->c.tables[0].mean_divisor = divisor;
    for (int r = 0; r < 4; r++) {
        s->rows[r][0] = r + 1;
        s->rows[r][1] = (double)-0.1f;
    }
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
                                 .row = row,
                                 .row_arg = s};
    cr_assert(ls_oracle_create(&s->oracle, &options) == LS_OK);
}

static void tear_down(setting *s) {
    ls_oracle_free(s->oracle);
    case_free(&s->c);
}

static ls_judgement judge(const setting *s, const char *stage, const char *field, int rank,
                          ls_dtype dtype, ls_shape shape, const void *data) {
    ls_stage_output output = {.stage = stage,
                              .table = "t",
                              .feature = "a",
                              .field = field,
                              .rank = rank,
                              .dtype = dtype,
                              .shape = shape,
                              .data = data};
    ls_judgement out;
    cr_assert(ls_oracle_judge(s->oracle, &output, &out) == LS_OK, "%s", ls_error_last()->text);
    return out;
}

static ls_judgement judge_row(const setting *s, const float *values) {
    return judge(s, "output_dist", "values", 1, LS_F32, LS_SHAPE(1, 2), values);
}

// A single id or length that is off by any number is wrong, at its place.
Test(judge, wrong_integers) {
    static const int64_t lengths[] = {1, 0, 2}, ids[] = {1, 1, 0};
    static const char *const fields[] = {"lengths", "ids"};
    setting s;
    set_up(&s, LS_POOL_SUM, NULL, LS_MEAN_WEIGHTS);
    for (int f = 0; f < 2; f++) {
        int64_t got[3];
        memcpy(got, f == 0 ? lengths : ids, sizeof(got));
        ls_judgement right = judge(&s, "input_dist", fields[f], 1, LS_I64, LS_SHAPE(3), got);
        cr_expect(right.elements == 3 && right.differing == 0 && right.wrong == 0);
        cr_expect(right.max_ulps == 0 && right.bound_ratio == 0 && right.text[0] == 0);
        for (int i = 0; i < 3; i++) {
            int64_t by = i == 1 ? -5 : 3;
            got[i] += by;
            ls_judgement j = judge(&s, "input_dist", fields[f], 1, LS_I64, LS_SHAPE(3), got);
            cr_expect(j.wrong == 1 && j.differing == 1, "%s %d", fields[f], i);
            cr_expect(j.first_wrong == (size_t)i && j.first_differing == (size_t)i);
            cr_expect(j.max_ulps == (i == 1 ? 5 : 3) && isinf(j.bound_ratio));
            got[i] -= by;
        }
    }
    tear_down(&s);
}

// A wrong shape or type is wrong, with and without expected elements.
Test(judge, wrong_form_of_something_and_of_nothing) {
    static const int64_t nothing[1] = {0};
    setting s;
    set_up(&s, LS_POOL_NONE, NULL, LS_MEAN_WEIGHTS);
    ls_keyed_jagged *inputs[2] = {s.c.inputs[0], s.c.inputs[1]};
    static const char *const keys[] = {"a"};
    ls_keyed_jagged *empty = NULL;
    cr_assert(ls_keyed_jagged_create(&empty, 1, keys, 1, 0, nothing, nothing, 0, NULL) == LS_OK);
    s.c.inputs[1] = empty;
    ls_judgement right = judge(&s, "output_dist", "values", 1, LS_F32, LS_SHAPE(0, 2), nothing);
    cr_expect(right.wrong == 0 && right.elements == 0 && right.differing == 0);
    ls_judgement shape = judge(&s, "output_dist", "values", 1, LS_F32, LS_SHAPE(0, 3), nothing);
    cr_expect(shape.wrong == 1 && shape.differing == 1 && shape.first_wrong == SIZE_MAX);
    ls_judgement type = judge(&s, "output_dist", "values", 1, LS_F16, LS_SHAPE(0, 2), nothing);
    cr_expect(type.wrong == 1 && type.max_ulps == 0 && isinf(type.bound_ratio));
    cr_expect(strstr(type.text, "got [0, 2] of f16, expected [0, 2] of f32"), "%s", type.text);
    s.c.inputs[1] = inputs[1];
    ls_keyed_jagged_free(empty);
    float six[6] = {0};
    ls_judgement some = judge(&s, "output_dist", "values", 1, LS_F32, LS_SHAPE(2, 3), six);
    cr_expect(some.wrong == 6 && some.differing == 6 && some.first_differing == SIZE_MAX);
    tear_down(&s);
}

// The report on a sum within its bound: how many elements differ, the first one, the most last
// places on either side, and the largest share of the bound.
Test(judge, differences_within_the_bound_are_measured) {
    setting s;
    set_up(&s, LS_POOL_SUM, NULL, LS_MEAN_WEIGHTS);
    // 9 and -0.3: the bound of three terms is 2 u sum|x|. One last place (2^-25) towards zero is
    // 0.63 of it, one away from zero 1.04.
    float exact = (float)(3 * (double)-0.1f);
    const float up[] = {9, nextafterf(exact, 0)}, down[] = {9, nextafterf(exact, -1)};
    const float *both[] = {up, down};
    for (int i = 0; i < 2; i++) {
        ls_judgement j = judge_row(&s, both[i]);
        double bound = 2 * 0x1p-24 * 3 * (double)0.1f;
        double want = fabs((double)both[i][1] - 3 * (double)-0.1f) / bound;
        cr_expect(j.elements == 2 && j.differing == 1 && j.first_differing == 1);
        cr_expect(j.max_ulps == 1 && j.by_design == 0 && j.wrong == (uint64_t)i);
        cr_expect((j.text[0] != 0) == (i == 1) && j.bound_ratio > 0.6 && j.bound_ratio < 1.1);
        cr_expect(fabs(j.bound_ratio - want) < 1e-3 * want, "%g, not %g", j.bound_ratio, want);
    }
    // 13 last places below 16, where they double: 9 is at the same distance from 9 + 13.
    const float far[] = {9 + 13 * 0x1p-20f, up[1]};
    ls_judgement j = judge_row(&s, far);
    cr_expect(j.wrong == 1 && j.differing == 2 && j.max_ulps == 13 && j.first_wrong == 0);
    cr_expect(j.bound_ratio > 11 && j.bound_ratio < 12.2, "%g", j.bound_ratio);
    // A change of sign has no number of ulps; both zeros are one place.
    const float negative[] = {-9, -0.0f};
    j = judge_row(&s, negative);
    cr_expect(j.max_ulps == LS_ULPS_SIGN && j.wrong == 2 && j.differing == 2);
    tear_down(&s);
}

// Infinity and NaN against a number are beyond any bound, in both directions.
Test(judge, specials_against_numbers) {
    setting s;
    set_up(&s, LS_POOL_SUM, NULL, LS_MEAN_WEIGHTS);
    const float good = (float)(3 * (double)-0.1f);
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        const float values[] = {bad[i], good};
        ls_judgement j = judge_row(&s, values);
        cr_expect(j.wrong == 1 && j.first_wrong == 0 && isinf(j.bound_ratio), "%d", i);
        s.rows[2][0] = (double)bad[i];
        cr_expect(judge_row(&s, values).wrong == 0, "%d: %s", i, judge_row(&s, values).text);
        const float finite[] = {9, good};
        cr_expect(judge_row(&s, finite).wrong == 1, "%d", i);
        s.rows[2][0] = 3;
    }
    tear_down(&s);
}

// If a partial sum can overflow, the bound is infinite and proves nothing: 3e38 + 3e38 - 3e38 is
// 3e38, and only that passes.
Test(judge, an_infinite_bound_proves_nothing) {
    setting s;
    set_up(&s, LS_POOL_SUM, NULL, LS_MEAN_WEIGHTS);
    double huge = (double)3e38f;
    s.rows[3][0] = s.rows[1][0] = huge;
    s.rows[2][0] = -huge;
    const float good = (float)(3 * (double)-0.1f);
    const struct {
        float value;
        bool right;
    } tries[] = {{3e38f, true},     {-7, false},  {0, false},
                 {INFINITY, false}, {NAN, false}, {nextafterf(3e38f, 0), false}};
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        const float values[] = {tries[i].value, good};
        ls_judgement j = judge_row(&s, values);
        cr_expect((j.wrong == 0) == tries[i].right, "%zu: %s", i, j.text);
        cr_expect((j.bound_ratio > 1) == !tries[i].right, "%zu", i);
    }
    // Without the negative term every order overflows.
    s.rows[2][0] = huge;
    const float overflown[] = {INFINITY, good}, other[] = {-INFINITY, good}, number[] = {1, good};
    cr_expect(judge_row(&s, overflown).wrong == 0);
    cr_expect(judge_row(&s, other).wrong == 1 && judge_row(&s, number).wrong == 1);
    tear_down(&s);
}

// The same for a mean whose weights sum to 0: only an infinity of the right sign passes.
Test(judge, weights_that_cancel) {
    static const float weights[] = {1, -3, 2};
    setting s;
    set_up(&s, LS_POOL_MEAN, weights, LS_MEAN_WEIGHTS);
    // 4 - 6 + 6 = 4 and -0.1 (1 - 3 + 2) = 0, both over 0.
    const float right[] = {INFINITY, NAN}, sign[] = {-INFINITY, NAN}, number[] = {5, NAN},
                zero[] = {INFINITY, 0};
    cr_expect(judge_row(&s, right).wrong == 0, "%s", judge_row(&s, right).text);
    cr_expect(judge_row(&s, sign).wrong == 1 && judge_row(&s, sign).first_wrong == 0);
    cr_expect(judge_row(&s, number).wrong == 1 && judge_row(&s, zero).wrong == 1);
    tear_down(&s);
}

static float f32_of(uint32_t bits) {
    float out;
    memcpy(&out, &bits, sizeof(out));
    return out;
}

// If data only moves, every bit of a NaN must arrive: sign, payload, and whether it signals.
Test(judge, moved_nans_keep_their_bits) {
    static const uint32_t given[] = {0x7fc00001, 0xffc00000, 0x7f800001};
    static const uint32_t other[] = {0x7fc00000, 0x7fc00000, 0x7fc00001};
    for (int n = 0; n < 3; n++) {
        float weights[] = {f32_of(given[n]), -1, 0.25f};
        setting s;
        set_up(&s, LS_POOL_SUM, weights, LS_MEAN_WEIGHTS);
        // Rank 1 holds rows 2 and 3: weight 2 of rank 0's bag, then two of its own.
        uint32_t got[] = {0x40000000, given[n], 0x3e800000};
        ls_judgement j = judge(&s, "input_dist", "weights", 1, LS_F32, LS_SHAPE(3), got);
        cr_expect(j.wrong == 0 && j.differing == 0, "%s", j.text);
        got[1] = other[n];
        j = judge(&s, "input_dist", "weights", 1, LS_F32, LS_SHAPE(3), got);
        cr_expect(j.wrong == 1 && j.first_wrong == 1, "NaN %d", n);
        cr_expect(strstr(j.text, "the bits of the NaN are"), "%s", j.text);
        tear_down(&s);

        set_up(&s, LS_POOL_NONE, NULL, LS_MEAN_WEIGHTS);
        s.rows[1][0] = ls_element_to_f64(&given[n], LS_F32);
        const float plain = -0.1f;
        float values[6] = {4, plain, 0, plain, 3, plain};
        memcpy(&values[2], &given[n], sizeof(float));
        j = judge(&s, "output_dist", "values", 1, LS_F32, LS_SHAPE(3, 2), values);
        cr_expect(j.wrong == 0, "%s", j.text);
        memcpy(&values[2], &other[n], sizeof(float));
        j = judge(&s, "output_dist", "values", 1, LS_F32, LS_SHAPE(3, 2), values);
        cr_expect(j.wrong == 1 && j.first_wrong == 2, "NaN %d", n);
        tear_down(&s);
    }
}

// A zero keeps its sign when it moves; in a sum it need not.
Test(judge, signs_of_zeros) {
    static const float weights[] = {0.0f, -1, 0.25f};
    const float arrived[] = {2, -0.0f, 0.25f};
    setting s;
    set_up(&s, LS_POOL_SUM, weights, LS_MEAN_WEIGHTS);
    cr_expect(judge(&s, "input_dist", "weights", 1, LS_F32, LS_SHAPE(3), arrived).wrong == 1);
    tear_down(&s);
    set_up(&s, LS_POOL_SUM, NULL, LS_MEAN_WEIGHTS);
    const float zeros[] = {5, (float)(2 * (double)-0.1f), -0.0f, -0.0f};
    cr_expect(judge(&s, "output_dist", "values", 0, LS_F32, LS_SHAPE(2, 2), zeros).differing == 0);
    tear_down(&s);
}

// NaN loses against later numbers, and wins if there are none.
Test(judge, largest_with_nan) {
    setting s;
    set_up(&s, LS_POOL_MAX, NULL, LS_MEAN_WEIGHTS);
    const float good[] = {3, -0.1f}, nan[] = {NAN, -0.1f};
    s.rows[3][0] = (double)NAN;
    cr_expect(judge_row(&s, good).wrong == 0 && judge_row(&s, nan).wrong == 1);
    s.rows[1][0] = s.rows[2][0] = (double)NAN;
    cr_expect(judge_row(&s, good).wrong == 1 && judge_row(&s, nan).wrong == 0);
    tear_down(&s);
}

// An oracle without the weights that its table needs cannot be created, unless no id needs one.
Test(judge, weights_are_demanded) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {1}, ids[] = {2};
    static const float weights[] = {1, 2, 3};
    for (int64_t n = 0; n < 2; n++) {
        setting s;
        set_up(&s, LS_POOL_SUM, weights, LS_MEAN_WEIGHTS);
        ls_oracle_options options = {.tables = s.c.tables,
                                     .table_count = 1,
                                     .plan = &s.c.plan,
                                     .inputs = (const ls_keyed_jagged *const *)s.c.inputs,
                                     .row = row};
        ls_keyed_jagged_free(s.c.inputs[1]);
        cr_assert(ls_keyed_jagged_create(&s.c.inputs[1], 1, keys, 1, n, lengths, ids, n, NULL) ==
                  LS_OK);
        ls_oracle *oracle = NULL;
        int status = ls_oracle_create(&oracle, &options);
        cr_expect(status == (n == 0 ? LS_OK : LS_ERR_INVALID), "%d", status);
        cr_expect(n == 0 || strstr(ls_error_last()->text, "rank 1 has no weights for feature a"));
        ls_oracle_free(oracle);
        tear_down(&s);
    }
}

// The id whose loss explains a mean is found with the mean's divisor: padding does not count.
Test(judge, causes_in_means) {
    setting s;
    set_up(&s, LS_POOL_MEAN, NULL, LS_MEAN_WEIGHTS);
    s.c.tables[0].has_padding_id = true;
    s.c.tables[0].padding_id = 1;
    const float right[] = {3.5f, -0.1f}, lost[] = {2, -0.1f}, twice[] = {5, -0.1f};
    cr_expect(judge_row(&s, right).wrong == 0);
    ls_judgement j = judge_row(&s, lost);
    cr_expect(strstr(j.text, "as if id 2 (position 2, on rank 1) were missing"), "%s", j.text);
    j = judge_row(&s, twice);
    cr_expect(strstr(j.text, "as if id 2 (position 2, on rank 1) counted twice"), "%s", j.text);
    tear_down(&s);
}

// Row-wise means of TorchRec. Rank 1: weights 1, -1, 0.25, so 2.75 and -0.025 over 3 (unsharded) or
// over 0.250001 (by rows). Either for all elements, or wrong.
Test(judge, by_design_is_all_or_nothing) {
    static const float weights[] = {1, -1, 0.25f};
    const double a = 2.75, b = 0.25 * (double)-0.1f;
    setting s;
    set_up(&s, LS_POOL_MEAN, weights, LS_MEAN_TORCHREC);
    const float unsharded[] = {(float)(a / 3), (float)(b / 3)};
    const float documented[] = {(float)(a / 0.250001), (float)(b / 0.250001)};
    ls_judgement j = judge_row(&s, unsharded);
    cr_expect(j.wrong == 0 && j.by_design == 0 && j.text[0] == 0);
    j = judge_row(&s, documented);
    cr_expect(j.wrong == 0 && j.by_design == 2 && j.first_by_design == 0 && j.differing == 2);
    cr_expect(j.bound_ratio <= 1 && j.max_ulps > 1000000);
    cr_expect(strstr(j.text, "sample 0 of rank 1, column 0; id 3") &&
                  strstr(j.text, "got 10.9999561, unsharded 0.916666667: table t is row_wise, and "
                                 "there TorchRec divides a mean by the sum of its weights + 1e-6"),
              "%s", j.text);
    // One last place off is still rounding, and no other explanation is tried.
    const float rounded[] = {nextafterf(unsharded[0], 2), unsharded[1]};
    j = judge_row(&s, rounded);
    cr_expect(j.wrong == 0 && j.by_design == 0 && j.differing == 1 && j.bound_ratio < 1);
    const float mixture[] = {unsharded[0], documented[1]};
    j = judge_row(&s, mixture);
    cr_expect(j.wrong == 1 && j.by_design == 0 && j.first_wrong == 0, "%s", j.text);
    cr_expect(strstr(j.text, "got 0.916666687, expected 10.999956") &&
                  strstr(j.text, "unsharded 0.916666667"),
              "%s", j.text);
    const float neither[] = {documented[0], (float)(b / 0.25)};
    j = judge_row(&s, neither);
    cr_expect(j.wrong == 1 && j.by_design == 0 && j.first_wrong == 1 && j.bound_ratio > 1);
    // As if id 2, a quarter of 3, were lost.
    const float lost[] = {(float)(2 / 0.250001), documented[1]};
    j = judge_row(&s, lost);
    cr_expect(strstr(j.text, "as if id 2 (position 2, on rank 1) were missing"), "%s", j.text);
    tear_down(&s);
}
