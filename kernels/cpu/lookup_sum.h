// Sums of rows for the lookups of f32 and of 8-bit rows. Private to the fast lookup.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/bits.h"

// The place and format of rows.
typedef struct ls_sum_rows {
    const char *table;
    int64_t rows;
    size_t row_bytes, dim;
    bool is_int8;     // else f32
    size_t elements;  // where the elements, and where scale and bias stand in a row
    size_t scales;
    bool scale_f32;  // else f16
} ls_sum_rows;

// out [dim] = the left fold from +0 of the rows (times their weights, which may be NULL) of ids
// [count], all in range. ids [ahead], ahead >= count: includes ids of later bags, with any values.
// begins: otherwise the fold continues from out.
void ls_kernel__sum_rows(any_f32 *out, const ls_sum_rows *rows, const int64_t *ids,
                         const float *weights, size_t count, size_t ahead, bool begins);
