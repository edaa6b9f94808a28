// Differences between two arrays of values: how many elements differ, by how many ulps, where
// first, and how that compares with a derived bound. The one place where values are called equal or
// not.
#ifndef LS_SCENARIOS_RUNNER_DIFFERENCE_H
#define LS_SCENARIOS_RUNNER_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

typedef struct ls_difference {
    uint64_t elements;
    uint64_t differing;  // elements whose bits differ (two NaNs count as equal, +0 and -0 do not)
    uint64_t max_ulps;   // largest distance in representable values; UINT64_MAX: NaN against number
    size_t first;        // index of the first differing element; elements when none
    double bound_ratio;  // largest |a - b| / bound over differing elements; infinite past no bound
    size_t worst;        // index of the element with the largest ratio
} ls_difference;

// Whether two elements are the same value bit for bit, NaN of any payload being one value.
bool ls_element_same(const void *a, const void *b, ls_dtype dtype);

// Distance of two elements in representable values; UINT64_MAX when exactly one is NaN.
uint64_t ls_element_ulps(const void *a, const void *b, ls_dtype dtype);

// Compares a [count] with b [count] of dtype. bound [count]: how far apart element i may lie; NULL:
// not at all.
void ls_difference_compute(ls_difference *out, const void *a, const void *b, ls_dtype dtype,
                           size_t count, const double *bound);

// Compares values [count] of dtype with exact [count] f64, as an oracle gives them: an element is
// equal when it is the exact value rounded to dtype. bound [count] as above.
void ls_difference_from_exact(ls_difference *out, const void *values, ls_dtype dtype,
                              const double *exact, const double *bound, size_t count);

#endif
