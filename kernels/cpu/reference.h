// Elements as numbers, for the references: plain arithmetic, nothing shared with the fast kernels.
#pragma once

#include "base/dtype.h"

// Element `index` of array `in`. Exact where long double has 64 bits of significand or more.
long double ls_kernel__reference_load(const void *in, ls_dtype dtype, size_t index);
// Rounds once to the element type (integers: truncates and clamps, NaN gives 0; f8 saturates).
void ls_kernel__reference_store(void *out, ls_dtype dtype, size_t index, long double value);
