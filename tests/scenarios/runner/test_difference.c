// Tests of runner/compare/difference.c: equality, ulps and ratios to a bound.
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/ulps.h"
#include "orders/bound.h"
#include "runner/compare/difference.h"

// For moved data every bit counts: the payload of a NaN, the sign of a zero.
Test(difference, moved_data_is_compared_bit_by_bit) {
    float a[4] = {1.0f, NAN, 0.0f, INFINITY};
    float b[4] = {1.0f, 0, -0.0f, INFINITY};
    const uint32_t other_nan = 0xFFC12345u;
    memcpy(&b[1], &other_nan, sizeof other_nan);
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F32, 4, NULL);
    cr_expect(difference.differing == 2);
    cr_expect(difference.first == 1 && difference.first_wrong == 1);
    cr_expect(difference.max_ulps == 0);
    cr_expect(isinf(difference.bound_ratio));
}

// For computed values all NaN are equal, and the zeros have distance 0.
Test(difference, computed_data_is_compared_by_value) {
    float a[2] = {NAN, 0.0f};
    float b[2] = {0, -0.0f};
    const uint32_t other_nan = 0xFFC12345u;
    memcpy(&b[0], &other_nan, sizeof other_nan);
    const double exact[2] = {NAN, 0.0}, bounds[2] = {0, 0};
    const ls_allowance allowed = {.exact = exact, .bounds = bounds, .overflow = NULL};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F32, 2, &allowed);
    cr_expect(difference.differing == 1 && difference.first == 1);
    cr_expect(difference.bound_ratio == 0 && difference.first_wrong == 2);
}

// NaN against a number is beyond any bound; so is any difference under a bound that is not finite.
Test(difference, what_no_bound_proves) {
    float a[3] = {NAN, 1.0f, 1.0f};
    float b[3] = {1.0f, 2.0f, 2.0f};
    const double exact[3] = {NAN, 1.0, 1.0}, bounds[3] = {1e30, INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        const ls_allowance allowed = {.exact = &exact[i], .bounds = &bounds[i], .overflow = NULL};
        ls_difference difference;
        ls_difference_compute(&difference, &a[i], &b[i], LS_F32, 1, &allowed);
        cr_expect(difference.differing == 1 && isinf(difference.bound_ratio), "%d", i);
    }
}

// A possible overflow of a summation order is right, one of the other sign is not, and a finite
// result is held to the bound.
Test(difference, overflow_is_right_where_an_order_overflows) {
    const float a = 1.0f, results[] = {INFINITY, -INFINITY, NAN, 3.0f, 1.5f};
    const double exact = 1.0, bound = 1.0;
    const struct {
        unsigned char overflow;
        bool right[5];
    } cases[] = {{LS_OVERFLOW_NONE, {false, false, false, false, true}},
                 {LS_OVERFLOW_UP, {true, false, false, false, true}},
                 {LS_OVERFLOW_DOWN, {false, true, false, false, true}},
                 {LS_OVERFLOW_UP | LS_OVERFLOW_DOWN, {true, true, true, false, true}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < 5; i++) {
            const ls_allowance allowed = {
                .exact = &exact, .bounds = &bound, .overflow = &cases[c].overflow};
            ls_difference difference;
            ls_difference_compute(&difference, &a, &results[i], LS_F32, 1, &allowed);
            cr_expect((difference.bound_ratio <= 1) == cases[c].right[i], "%zu %d", c, i);
        }
    }
}

// NaN is right only if the exact value is NaN.
Test(difference, nan_is_right_where_it_is_exact) {
    const float results[2] = {NAN, NAN};
    const double exact[2] = {NAN, 1.0}, bounds[2] = {0, 1.0};
    const ls_allowance allowed = {.exact = exact, .bounds = bounds, .overflow = NULL};
    ls_difference difference;
    ls_difference_from_exact(&difference, results, LS_F32, 2, &allowed);
    cr_expect(difference.differing == 1 && difference.first_wrong == 1);
}

// Ulps count representable values between floats of one sign, and integers by their difference.
Test(difference, ulps_count_representable_values) {
    float tiny = nextafterf(0.0f, 1.0f);
    float negative = -tiny;
    const float zeros[] = {0.0f, -0.0f};
    for (int i = 0; i < 2; i++) {
        cr_expect(ls_element_ulps(&tiny, &zeros[i], LS_F32) == 1);
        cr_expect(ls_element_ulps(&zeros[i], &negative, LS_F32) == 1);
    }
    cr_expect(ls_element_ulps(&zeros[0], &zeros[1], LS_F32) == 0);
    cr_expect(ls_element_ulps(&tiny, &negative, LS_F32) == LS_ULPS_SIGN);
    const float inf[] = {INFINITY, -INFINITY};
    const float most_finite = FLT_MAX;
    cr_expect(ls_element_ulps(&inf[0], &most_finite, LS_F32) == LS_ULPS_INFINITY);
    cr_expect(ls_element_ulps(&inf[0], &inf[1], LS_F32) == LS_ULPS_SIGN);
    cr_expect(ls_element_ulps(&inf[1], &inf[1], LS_F32) == 0);
    const float nan = NAN;
    cr_expect(ls_element_ulps(&inf[0], &nan, LS_F32) == LS_ULPS_NAN);
    cr_expect(ls_element_ulps(&nan, &nan, LS_F32) == 0);
    const uint16_t halves[] = {0xBC00, 0xBC02};
    cr_expect(ls_element_ulps(&halves[0], &halves[1], LS_BF16) == 2);
    float one = 1.0f;
    float next = nextafterf(1.0f, 2.0f);
    cr_expect(ls_element_ulps(&one, &next, LS_F32) == 1);
    uint16_t half_one = 0x3C00;
    uint16_t half_next = 0x3C03;
    cr_expect(ls_element_ulps(&half_one, &half_next, LS_F16) == 3);
    int8_t low = -128;
    int8_t high = 127;
    cr_expect(ls_element_ulps(&low, &high, LS_I8) == 255);
    int64_t lowest = INT64_MIN, minus_two = -2, five = 5;
    cr_expect(ls_element_ulps(&five, &minus_two, LS_I64) == 7);
    cr_expect(ls_element_ulps(&lowest, &minus_two, LS_I64) == UINT64_C(0x7FFFFFFFFFFFFFFE));
    uint64_t zero = 0;
    uint64_t most = UINT64_MAX;
    cr_expect(ls_element_ulps(&zero, &most, LS_U64) == UINT64_MAX);
    uint64_t two = 2;
    cr_expect(ls_element_ulps(&most, &two, LS_U64) == UINT64_MAX - 2);
}

// The ratio is the distance from the element's own exact value, not from the other run's, to its
// own bound; the first above 1 is reported.
Test(difference, ratio_is_of_the_distance_from_the_exact_value) {
    double a[3] = {1.0 - 1e-8, 2.0, 3.0};
    double b[3] = {1.0 + 1e-8, 2.0 + 1e-9, 3.0};
    const double exact[3] = {1.0, 2.0, 4.0}, bounds[3] = {1e-8, 5e-10, 0};
    const ls_allowance allowed = {.exact = exact, .bounds = bounds, .overflow = NULL};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F64, 3, &allowed);
    cr_expect(difference.differing == 2);
    cr_expect(difference.first == 0);
    cr_expect(difference.first_wrong == 1);
    cr_expect(difference.bound_ratio > 1.9 && difference.bound_ratio < 2.1);
    ls_difference_from_exact(&difference, b, LS_F64, 3, &allowed);
    cr_expect(difference.differing == 3 && difference.first_wrong == 1);
    cr_expect(isinf(difference.bound_ratio));
}

// Without a bound any difference exceeds it.
Test(difference, no_bound_allows_nothing) {
    int32_t a[2] = {1, 2};
    int32_t b[2] = {1, 3};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_I32, 2, NULL);
    cr_expect(difference.differing == 1);
    cr_expect(isinf(difference.bound_ratio));
}

// The largest difference is reported, in any order, with the number of differences.
Test(difference, the_farthest_is_told) {
    for (int farthest = 0; farthest < 3; farthest++) {
        const float a[3] = {1.0f, 1.0f, 1.0f};
        float b[3];
        double exact[3] = {1.0, 1.0, 1.0}, bounds[3] = {1.0, 1.0, 1.0};
        for (int i = 0; i < 3; i++) {
            b[i] = i == farthest ? 3.0f : 1.0f + 0x1p-23f;
        }
        const ls_allowance allowed = {.exact = exact, .bounds = bounds, .overflow = NULL};
        ls_difference difference;
        ls_difference_compute(&difference, a, b, LS_F32, 3, &allowed);
        cr_expect(difference.max_ulps == 0x0C00000 && difference.bound_ratio == 2.0, "%d",
                  farthest);
        cr_expect(difference.differing == 3 && difference.first_wrong == (size_t)farthest);
    }
}

// An element that may have any value is not judged, if that is requested.
Test(difference, what_may_be_anything_is_not_judged) {
    const float a[] = {1, 2, 3}, b[] = {1, 7, 3.5f};
    const double exact[] = {1, 2, 3}, bounds[] = {INFINITY, INFINITY, 1};
    ls_allowance allowed = {.exact = exact, .bounds = bounds};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F32, 3, &allowed);
    cr_expect(difference.differing == 2 && difference.unjudged == 0 && difference.first_wrong == 1);
    cr_expect(isinf(difference.bound_ratio));
    allowed.anything = true;
    ls_difference_compute(&difference, a, b, LS_F32, 3, &allowed);
    cr_expect(difference.differing == 1 && difference.unjudged == 1 && difference.first == 2);
    cr_expect(difference.first_wrong == 3 && difference.bound_ratio == 0.5);
}

// Within a bound that proves nothing an element is not judged; beyond it, it is wrong. If the order
// of the sum is known, no bound excuses it.
Test(difference, a_bound_that_proves_nothing_judges_nothing) {
    const float a[3] = {4, 4, 4}, b[3] = {4, 0, 40};
    const double exact[3] = {4, 4, 4}, bounds[3] = {8, 8, 8};
    const unsigned char vacuous[3] = {LS_BOUND_VACUOUS, LS_BOUND_VACUOUS, LS_BOUND_VACUOUS};
    for (int kind = 0; kind < 4; kind++) {
        const ls_allowance allowed = {
            .exact = exact, .bounds = bounds, .overflow = vacuous, .proven = kind % 2 != 0};
        ls_difference difference;
        if (kind < 2) {
            ls_difference_compute(&difference, a, b, LS_F32, 3, &allowed);
        } else {
            ls_difference_from_exact(&difference, b, LS_F32, 3, &allowed);
        }
        uint64_t unjudged = allowed.proven ? 0 : 1;
        cr_expect(difference.unjudged == unjudged && difference.vacuous == unjudged, "%d", kind);
        cr_expect(difference.differing == 2 - unjudged && difference.first_wrong == 2, "%d", kind);
    }
}
