// The sum of several inputs at once. Private to the fast reduce.
#pragma once

#include <stddef.h>

#include "base/dtype.h"

// out [first, first + count) = the left fold of in[0 .. in_count) over the same elements. out may
// be one of the inputs.
typedef void (*ls_fold_sum_fn)(void *out, const void *const *in, size_t in_count, size_t first,
                               size_t count);

// NULL where there is no such loop for a type.
ls_fold_sum_fn ls_kernel__fold_sum_fn(ls_dtype dtype);
