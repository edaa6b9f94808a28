// Numbers with rounding errors contain all possible results, and little more.
#include <criterion/criterion.h>
#include <math.h>

#include "base/random.h"
#include "oracle/range.h"
#include "kernels/element.h"
#include "orders/bound.h"

static oracle_range square(oracle_range a, oracle_range b, ls_dtype dtype) {
    (void)b;
    return ls_range__square(a, dtype);
}

static oracle_range root(oracle_range a, oracle_range b, ls_dtype dtype) {
    (void)b;
    return ls_range__sqrt(a, dtype);
}

static oracle_range stored(oracle_range a, oracle_range b, ls_dtype dtype) {
    (void)b;
    return ls_range__stored(a, dtype, false);
}

static oracle_range squares(oracle_range a, oracle_range b, ls_dtype dtype) {
    oracle_squares sum = {0};
    ls_squares__add(&sum, a);
    ls_squares__add(&sum, b);
    return ls_squares__sum(&sum, dtype);
}

static double exact_add(double a, double b) {
    return a + b;
}

static double exact_sub(double a, double b) {
    return a - b;
}

static double exact_mul(double a, double b) {
    return a * b;
}

static double exact_div(double a, double b) {
    return a / b;
}

static double exact_square(double a, double b) {
    (void)b;
    return a * a;
}

static double exact_root(double a, double b) {
    (void)b;
    return sqrt(a);
}

static double exact_stored(double a, double b) {
    (void)b;
    return a;
}

static double exact_squares(double a, double b) {
    return a * a + b * b;
}

static const struct {
    const char *name;
    oracle_range (*range)(oracle_range a, oracle_range b, ls_dtype dtype);
    double (*exact)(double a, double b);
    bool of_one;
} operations[] = {
    {"add", ls_range__add, exact_add, false}, {"sub", ls_range__sub, exact_sub, false},
    {"mul", ls_range__mul, exact_mul, false}, {"div", ls_range__div, exact_div, false},
    {"square", square, exact_square, true},   {"sqrt", root, exact_root, true},
    {"stored", stored, exact_stored, true},   {"squares", squares, exact_squares, false},
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F32, LS_F64};

static double rounded(double value, ls_dtype dtype) {
    uint64_t bits = 0;
    ls_element_from_f64(&bits, dtype, value);
    return ls_element_to_f64(&bits, dtype);
}

static double uniform(int test, int *drawn) {
    return ls_random_uniform(7, (uint32_t)test, 0, (uint64_t)(*drawn)++);
}

static bool holds(oracle_range a, double value) {
    return isinf(ls_range__bound(a)) || (a.lo <= value && value <= a.hi) ||
           (isnan(value) && isnan(a.lo));
}

Test(range, what_may_come_lies_in_it) {
    int drawn = 0;
    for (int i = 0; i < 40000; i++) {
        int o = i % OPERATIONS;
        ls_dtype dtype = dtypes[i / OPERATIONS % 4];
        oracle_range in[2];
        double at[2];
        for (int k = 0; k < 2; k++) {
            double size = exp2(20 * uniform(1, &drawn) - 10);
            double middle = uniform(1, &drawn) < 0.5 ? -size : size;
            double off = i % 3 == 0 ? 0 : size * exp2(-12 * uniform(1, &drawn));
            in[k] = ls_range__about(middle, off, 0);
            at[k] = in[k].lo + (in[k].hi - in[k].lo) * uniform(1, &drawn);
        }
        double exact = operations[o].exact(at[0], at[1]);
        oracle_range out = operations[o].range(in[0], in[1], dtype);
        double as_stored = rounded(exact, dtype);
        cr_assert(holds(out, as_stored) && (isinf(as_stored) || holds(out, exact)),
                  "%s of %s: %.17g and %.17g give %.17g, stored %.17g, not of %.17g to %.17g",
                  operations[o].name, ls_dtype_name(dtype), at[0], at[1], exact, as_stored, out.lo,
                  out.hi);
    }
}

// For points nothing more is unknown than a few roundings.
Test(range, of_points_it_is_narrow) {
    int drawn = 0;
    for (int i = 0; i < 4000; i++) {
        int o = i % OPERATIONS;
        ls_dtype dtype = dtypes[i / OPERATIONS % 4];
        double a = 0.5 + uniform(2, &drawn), b = 2 + uniform(2, &drawn);
        double exact = operations[o].exact(a, b), step = ls_bound_step(dtype, fabs(exact));
        oracle_range out = operations[o].range(ls_range__point(a), ls_range__point(b), dtype);
        cr_assert(fabs(out.mid - exact) <= step, "%s of %s: %.17g, not %.17g", operations[o].name,
                  ls_dtype_name(dtype), out.mid, exact);
        cr_assert(ls_range__bound(out) < 9 * step && ls_range__bound(out) >= step / 2,
                  "%s of %s: %.17g +- %g, of steps of %g", operations[o].name, ls_dtype_name(dtype),
                  exact, ls_range__bound(out), step);
    }
}

static bool is_that(oracle_range a, double value) {
    return isnan(value)
               ? isnan(a.mid) && isnan(a.lo) && isnan(a.hi) && ls_range__bound(a) == 0
               : a.mid == value && a.lo == value && a.hi == value && ls_range__bound(a) == 0;
}

static bool is_unknown(oracle_range a) {
    return a.lo == -INFINITY && a.hi == INFINITY && ls_range__bound(a) == INFINITY;
}

// A result that must be NaN or infinite is exactly that.
Test(range, what_is_no_number_stays_so) {
    static const oracle_range nothing = {1, -INFINITY, INFINITY, 1};
    const oracle_range nan = ls_range__point(NAN), one = ls_range__point(1);
    const oracle_range most = ls_range__point(INFINITY), zero = ls_range__point(0);
    for (int d = 0; d < 4; d++) {
        ls_dtype dtype = dtypes[d];
        for (int o = 0; o < OPERATIONS; o++) {
            const char *name = operations[o].name;
            cr_expect(is_that(operations[o].range(nan, one, dtype), NAN), "%s", name);
            cr_expect(is_that(operations[o].range(nan, nothing, dtype), NAN), "%s", name);
            cr_expect(is_unknown(operations[o].range(nothing, one, dtype)), "%s", name);
            if (!operations[o].of_one) {
                cr_expect(is_that(operations[o].range(one, nan, dtype), NAN), "%s", name);
                cr_expect(is_that(operations[o].range(nothing, nan, dtype), NAN), "%s", name);
                cr_expect(is_unknown(operations[o].range(one, nothing, dtype)), "%s", name);
            }
        }
        cr_expect(is_that(ls_range__add(most, one, dtype), INFINITY));
        cr_expect(is_that(ls_range__sub(one, most, dtype), -INFINITY));
        cr_expect(is_that(ls_range__sub(most, most, dtype), NAN));
        cr_expect(is_that(ls_range__mul(most, zero, dtype), NAN));
        cr_expect(is_that(ls_range__mul(most, ls_range__point(-2), dtype), -INFINITY));
        cr_expect(is_that(ls_range__div(zero, zero, dtype), NAN));
        cr_expect(is_that(ls_range__div(one, zero, dtype), INFINITY));
        cr_expect(is_that(ls_range__square(ls_range__point(-INFINITY), dtype), INFINITY));
        cr_expect(is_that(ls_range__sqrt(ls_range__point(-1), dtype), NAN));
        cr_expect(is_unknown(ls_range__div(one, (oracle_range){1, 0, 2, 1}, dtype)));
        cr_expect(is_unknown(ls_range__div(one, (oracle_range){-1, -2, 0, 1}, dtype)));
        cr_expect(is_unknown(ls_range__div(one, (oracle_range){-1, -2, 0.5, 1}, dtype)));
        cr_expect(is_unknown(ls_range__div(nothing, most, dtype)));
        cr_expect(is_unknown(ls_range__mul(most, (oracle_range){1, 0, 2, 1}, dtype)));
        cr_expect(is_unknown(ls_range__mul(nothing, zero, dtype)));
        cr_expect(is_unknown(ls_range__mul(zero, nothing, dtype)));
        oracle_range guess = {9, -INFINITY, INFINITY, 9}, three = ls_range__point(3);
        cr_expect(ls_range__mul(guess, three, dtype).mid == 27);
        cr_expect(ls_range__div(guess, three, dtype).mid == 3);
        cr_expect(ls_range__sqrt(guess, dtype).mid == 3);
    }
    // A range that rounds to infinity at both ends is infinite; at one end it may be.
    cr_expect(is_that(ls_range__mul(ls_range__point(60000), ls_range__point(2), LS_F16), INFINITY));
    cr_expect(
        is_that(ls_range__mul(ls_range__point(-60000), ls_range__point(2), LS_F16), -INFINITY));
    cr_expect(is_unknown(ls_range__add((oracle_range){60000, 59000, 61000, 60000},
                                       (oracle_range){5000, 4000, 6000, 5000}, LS_F16)));
}

Test(range, ends_that_are_known_otherwise) {
    const oracle_range wide = {1, -3, 4, 1};
    oracle_range cut = ls_range__limit(wide, 2);
    cr_expect(cut.mid == 1 && cut.lo == -2 && cut.hi == 2);
    cut = ls_range__limit(wide, 1);
    cr_expect(cut.lo == -1 && cut.hi == 1);
    cut = ls_range__limit(wide, 0.5);  // a row whose most likely norm exceeds it is never left
                                       // unscaled
    cr_expect(cut.lo == -3 && cut.hi == 4);
    cut = ls_range__limit(wide, INFINITY);
    cr_expect(cut.lo == -3 && cut.hi == 4);
    cr_expect(ls_range__least_size(wide) == 0);
    cr_expect(ls_range__least_size((oracle_range){-1, -2, 0.5, 1}) == 0);
    cr_expect(ls_range__least_size((oracle_range){3, 2, 4, 3}) == 2);
    cr_expect(ls_range__least_size((oracle_range){-3, -4, -2, 3}) == 2);
    oracle_range squared = ls_range__square(wide, LS_F32);
    cr_expect(squared.lo == 0 && squared.hi >= 16 && squared.hi < 16.0001);
    oracle_range rooted = ls_range__sqrt((oracle_range){1, -1, 4, 1}, LS_F32);
    cr_expect(rooted.lo == 0 && rooted.hi >= 2 && rooted.hi < 2.0001);
    rooted = ls_range__sqrt((oracle_range){0.25, -1, 0.5, 0.25}, LS_F32);
    cr_expect(rooted.lo == 0 && rooted.hi > 0.7 && rooted.hi < 0.8);
    oracle_range constant = ls_range__constant(0.1, LS_F32);
    cr_expect(constant.mid == (double)0.1f && constant.lo == 0.1 && constant.hi == (double)0.1f);
    // To a neighbour on either side: a place of the type more.
    oracle_range near = ls_range__stored(ls_range__point(1.25), LS_BF16, false);
    oracle_range far = ls_range__stored(ls_range__point(1.25), LS_BF16, true);
    double step = ls_bound_step(LS_BF16, 1.25);
    cr_expect(fabs(near.lo - far.lo - step) < 1e-9 && fabs(far.hi - near.hi - step) < 1e-9);
    cr_expect(is_unknown(ls_range__stored(ls_range__point(65504), LS_F16, true)));
    cr_expect(is_unknown(ls_range__stored(ls_range__point(-65504), LS_F16, true)));
    cr_expect(is_unknown(ls_range__about(1, INFINITY, 0)));
    cr_expect(is_unknown(ls_range__about(INFINITY, INFINITY, 0)));
    cr_expect(is_that(ls_range__about(NAN, 1, 1), NAN));
}

// A step by a gradient and one by its opposite: the results are opposite, too, end by end.
Test(range, adagrad_has_no_sign) {
    const ls_optimizer adagrad = ls_optimizer_default(LS_OPTIMIZER_ADAGRAD, LS_OPTIMIZER_FUSED);
    oracle_range weights[2] = {ls_range__point(0), ls_range__point(0)}, state[2];
    const oracle_range gradients[2] = {{3, 2.5, 3.5, 3}, {-3, -3.5, -2.5, 3}};
    state[0] = state[1] = ls_range__point(7);
    ls_oracle__update_row(&(oracle_row_step){.optimizer = &adagrad,
                                             .dtype = LS_F32,
                                             .step = 1,
                                             .columns = 2,
                                             .weights = weights,
                                             .states = {state},
                                             .gradients = gradients});
    cr_expect(weights[0].mid < 0 && weights[0].lo < weights[0].mid);
    cr_expect(weights[0].lo == -weights[1].hi && weights[0].hi == -weights[1].lo, "%.17g %.17g",
              weights[0].lo, weights[1].hi);
}
