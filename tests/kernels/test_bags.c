// Operations on bags after the lookup, and moving rows and bytes, against hand-computed cases.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kernels/device.h"

// Bags of ids: {4, 9}, {}, {7}, {9, 9}; offsets begin at 5, as in the middle of an input.
static const int64_t ids[] = {4, 9, 7, 9, 9};
static const int64_t offsets[] = {5, 7, 7, 8, 10};
enum { BAGS = 4, DIM = 2, STRIDE = 3 };

// A bag is empty without ids, or with only padding ids; memory between rows stays.
Test(bags, empty_ones_are_filled) {
    float out[BAGS * STRIDE], expected[BAGS * STRIDE];
    for (int i = 0; i < BAGS * STRIDE; i++) {
        out[i] = expected[i] = (float)i;
    }
    expected[3] = expected[4] = expected[9] = expected[10] = -INFINITY;
    ls_kernel_fill_empty_bags(
        out, STRIDE, LS_F32, -(double)INFINITY, DIM,
        &(const ls_bags){.ids = ids, .offsets = offsets, .padding_id = 9, .count = BAGS});
    cr_assert(memcmp(out, expected, sizeof out) == 0);
    for (int i = 0; i < BAGS * STRIDE; i++) {
        out[i] = expected[i] = (float)i;
    }
    expected[3] = expected[4] = 0;  // without a padding id bag 3 has two
    ls_kernel_fill_empty_bags(
        out, STRIDE, LS_F32, 0, DIM,
        &(const ls_bags){.ids = ids, .offsets = offsets, .padding_id = -1, .count = BAGS});
    cr_assert(memcmp(out, expected, sizeof out) == 0);
}

// A mean divides by the ids that count; a bag without any stays.
Test(bags, means_divide_by_what_counts) {
    float out[BAGS * DIM] = {3, 1, 5, 5, 7, 8, 9, 10};
    const float expected[BAGS * DIM] = {1.5f, 0.5f, 5, 5, 7, 8, 4.5f, 5};
    ls_kernel_divide_bags(
        out, DIM, LS_F32, DIM, 0,
        &(const ls_bags){
            .ids = ids, .offsets = offsets, .weights = NULL, .padding_id = -1, .count = BAGS});
    cr_assert(memcmp(out, expected, sizeof out) == 0);
    double wide[BAGS * DIM] = {3, 1, 5, 5, 7, 8, 9, 10};
    const double padded[BAGS * DIM] = {3, 1, 5, 5, 7, 8, 9, 10};
    ls_kernel_divide_bags(
        wide, DIM, LS_F64, DIM, 0,
        &(const ls_bags){
            .ids = ids, .offsets = offsets, .weights = NULL, .padding_id = 9, .count = BAGS});
    cr_assert(memcmp(wide, padded, sizeof wide) == 0, "one id counts in each, or none");
}

// With weights the divisor is their sum in f64: 1e8 + 1 is no f32.
Test(bags, weighted_means_divide_by_the_sum_of_weights) {
    const float weights[] = {1e8f, 1, 4, 0.5f, 0.25f};
    float out[BAGS * DIM] = {1, 2, 5, 5, 8, 2, 3, 6};
    const float expected[BAGS * DIM] = {
        (float)(1 / (1e8 + 1)), (float)(2 / (1e8 + 1)), 5, 5, 2, 0.5f, 4, 8};
    ls_kernel_divide_bags(
        out, DIM, LS_F32, DIM, 0,
        &(const ls_bags){
            .ids = ids, .offsets = offsets, .weights = weights, .padding_id = -1, .count = BAGS});
    cr_assert(memcmp(out, expected, sizeof out) == 0);
}

// The addend applies to every divisor, but a bag without ids stays: 2 ids and 2, 1 id and 2.
Test(bags, something_may_be_added_to_the_divisor) {
    float out[BAGS * DIM] = {8, 4, 5, 5, 6, 9, 12, 2};
    const float expected[BAGS * DIM] = {2, 1, 5, 5, 2, 3, 3, 0.5f};
    ls_kernel_divide_bags(
        out, DIM, LS_F32, DIM, 2,
        &(const ls_bags){
            .ids = ids, .offsets = offsets, .weights = NULL, .padding_id = -1, .count = BAGS});
    cr_assert(memcmp(out, expected, sizeof out) == 0);
}

// Rows go to their positions only.
Test(bags, rows_are_scattered) {
    const char in[] = "aabbcc";
    const int64_t positions[] = {2, 0, 3};
    char out[13] = "............";
    ls_kernel_scatter_rows(out + 1, 3, in, 2, positions, 3);
    cr_assert_str_eq(out, ".bb....aa.cc");
}

// The mask's phase follows from the start; 0xff keeps a byte, 0 takes the other's.
Test(bags, bytes_are_selected_by_phase) {
    const unsigned char mask[] = {0xff, 0, 0};
    char out[9] = "........";
    ls_kernel_select_bytes(out, "abcdefgh", mask, 3, 2, 8);
    cr_assert_str_eq(out, "a.cd.fg.");
}
