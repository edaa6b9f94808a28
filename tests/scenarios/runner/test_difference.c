// Tests of scenarios/runner/difference.c: what counts as equal, ulps and ratios to a bound.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "scenarios/runner/difference.h"

// Equal bits are no difference; NaNs of different payload are one value; the two zeros are not.
Test(difference, equality_is_of_values_and_nan_is_one_value) {
    float a[4] = {1.0f, NAN, 0.0f, INFINITY};
    float b[4] = {1.0f, 0, -0.0f, INFINITY};
    const uint32_t other_nan = 0xFFC12345u;
    memcpy(&b[1], &other_nan, sizeof other_nan);
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F32, 4, NULL);
    cr_expect(difference.differing == 1);
    cr_expect(difference.first == 2);
    cr_expect(difference.max_ulps == 0);
    cr_expect(difference.bound_ratio == 0);
}

// NaN against a number is no small difference, whatever the bound.
Test(difference, nan_against_a_number_is_past_every_bound) {
    float a[1] = {NAN};
    float b[1] = {1.0f};
    double bound[1] = {1e30};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F32, 1, bound);
    cr_expect(difference.differing == 1);
    cr_expect(difference.max_ulps == UINT64_MAX);
    cr_expect(isinf(difference.bound_ratio));
}

// Ulps count representable values, across zero too.
Test(difference, ulps_count_representable_values) {
    float tiny = nextafterf(0.0f, 1.0f);
    float negative = -tiny;
    cr_expect(ls_element_ulps(&tiny, &negative, LS_F32) == 2);
    float one = 1.0f;
    float next = nextafterf(1.0f, 2.0f);
    cr_expect(ls_element_ulps(&one, &next, LS_F32) == 1);
    uint16_t half_one = 0x3C00;
    uint16_t half_next = 0x3C03;
    cr_expect(ls_element_ulps(&half_one, &half_next, LS_F16) == 3);
    int8_t low = -128;
    int8_t high = 127;
    cr_expect(ls_element_ulps(&low, &high, LS_I8) == 255);
    uint64_t zero = 0;
    uint64_t most = UINT64_MAX;
    cr_expect(ls_element_ulps(&zero, &most, LS_U64) == UINT64_MAX);
}

// The ratio is of the largest difference to its own element's bound; past 1 is named as the worst.
Test(difference, ratio_is_against_each_elements_own_bound) {
    double a[3] = {1.0, 2.0, 3.0};
    double b[3] = {1.0 + 1e-9, 2.0 + 1e-9, 3.0};
    double bound[3] = {1e-8, 5e-10, 0};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_F64, 3, bound);
    cr_expect(difference.differing == 2);
    cr_expect(difference.first == 0);
    cr_expect(difference.worst == 1);
    cr_expect(difference.bound_ratio > 1.9 && difference.bound_ratio < 2.1);
}

// Without a bound any difference is past it.
Test(difference, no_bound_allows_nothing) {
    int32_t a[2] = {1, 2};
    int32_t b[2] = {1, 3};
    ls_difference difference;
    ls_difference_compute(&difference, a, b, LS_I32, 2, NULL);
    cr_expect(difference.differing == 1);
    cr_expect(isinf(difference.bound_ratio));
}
