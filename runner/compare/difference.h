// Differences between two arrays of values: the number of differing elements, their ulps, the first
// one, and the ratio to a derived bound. No other code decides whether values are equal.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/text.h"

typedef struct ls_difference {
    uint64_t elements;
    uint64_t differing;  // elements whose bits differ
    uint64_t max_ulps;   // largest ls_element_ulps
    size_t first;        // index of the first differing element; elements when none
    double bound_ratio;  // largest ratio of differing elements; infinite: wrong under any bound
    size_t first_wrong;  // of the first element with a ratio above 1; elements when none
    uint64_t unjudged;   // differing elements without a bound; not counted above
    uint64_t vacuous;    // of these, elements within a bound that proves nothing
} ls_difference;

// The values that correct elements may have, all [count]: exact values, the largest distance by
// rounding, and the allowed overflow (ls_overflow).
typedef struct ls_allowance {
    const double *exact;
    const double *bounds;
    const unsigned char *overflow;  // with LS_BOUND_VACUOUS; NULL: neither
    bool proven;                    // the order is known: elements with a vacuous bound are judged
    bool anything;                  // an infinite bound allows any value; false: none
} ls_allowance;

// Whether two elements are the same bits.
bool ls_element_same(const void *a, const void *b, ls_dtype dtype);
// Whether the value is `exact` rounded, or both are NaN.
bool ls_element_is_rounded(const void *element, double exact, ls_dtype dtype);

// Compares b [count] with a [count] of dtype. For each element whose bits differ, the ratio is the
// distance of b from the exact value divided by the bound: at most 1 if b is correct. Two NaN are
// equal. allowed NULL: the data only moved, and every bit counts.
void ls_difference_compute(ls_difference *out, const void *a, const void *b, ls_dtype dtype,
                           size_t count, const ls_allowance *allowed);

// Compares values [count] of dtype with the allowed ones: an element is equal if it is the exact
// value rounded to dtype.
void ls_difference_from_exact(ls_difference *out, const void *values, ls_dtype dtype, size_t count,
                              const ls_allowance *allowed);

// Appends element `index` of data as a number; a float also with its bits.
void ls_difference_tell(ls_text *text, const void *data, ls_dtype dtype, size_t index);
