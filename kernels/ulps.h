// Distances between elements.
#pragma once

#include <stdint.h>

#include "base/dtype.h"

// Distances between floats that no count of representable values describes, above every count.
#define LS_ULPS_SIGN     (UINT64_MAX - 2)  // one value is positive, the other negative
#define LS_ULPS_INFINITY (UINT64_MAX - 1)  // exactly one is infinite
#define LS_ULPS_NAN      UINT64_MAX        // exactly one is NaN

// Distance of two elements: of integers their difference; of floats representable values (both
// zeros are one value, and so are all NaN) or LS_ULPS_*.
uint64_t ls_element_ulps(const void *a, const void *b, ls_dtype dtype);

// "sign change", "infinity", "NaN"; NULL: ulps of floats is a count.
const char *ls_ulps_word(uint64_t ulps);
