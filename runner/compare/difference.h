// Differences between two arrays of values: how many elements differ, by how many ulps, where
// first, and how that compares with a derived bound. The one place where values are called equal or
// not.
#ifndef LS_RUNNER_COMPARE_DIFFERENCE_H
#define LS_RUNNER_COMPARE_DIFFERENCE_H

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
    double bound_ratio;  // largest ratio of differing elements; infinite: wrong whatever the bound
    size_t first_wrong;  // of the first element with a ratio above 1; elements when none
    uint64_t unjudged;   // elements that differ and may be anything; not among those above
    uint64_t vacuous;    // of these, elements within a bound that proves nothing
} ls_difference;

// What correct elements may be, all [count]: their exact values, how far from them rounding can
// take each, and how it may overflow (ls_overflow).
typedef struct ls_allowance {
    const double *exact;
    const double *bounds;
    const unsigned char *overflow;  // with LS_BOUND_VACUOUS; NULL: neither
    bool proven;                    // the order is known: a vacuous bound leaves nothing unjudged
    bool anything;                  // an infinite bound lets an element be anything; false: nothing
} ls_allowance;

// Whether two elements are the same bits.
bool ls_element_same(const void *a, const void *b, ls_dtype dtype);
// Whether it is what rounding `exact` gives, or both are NaN.
bool ls_element_is_rounded(const void *element, double exact, ls_dtype dtype);

// Compares b [count] with a [count] of dtype. Where the bits differ, the element of b is held to
// what is allowed: its ratio is its distance from the exact value in bounds, at most 1 where it is
// correct, and two NaN are the same. allowed NULL: the data only moved, so that every bit counts.
void ls_difference_compute(ls_difference *out, const void *a, const void *b, ls_dtype dtype,
                           size_t count, const ls_allowance *allowed);

// Compares values [count] of dtype with what is allowed: an element is equal when it is the exact
// value rounded to dtype.
void ls_difference_from_exact(ls_difference *out, const void *values, ls_dtype dtype, size_t count,
                              const ls_allowance *allowed);

// Appends element `index` of data as a number, of floats with its bits.
void ls_difference_tell(ls_text *text, const void *data, ls_dtype dtype, size_t index);

#endif
