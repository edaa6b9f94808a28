// The steps of a fold, as tables of loops. Private to the fast reduce.
#pragma once

#include <stddef.h>

#include "base/dtype.h"

// accumulator [count] = accumulator op in [count]. No overlap.
typedef void (*ls_accumulate_fn)(void *restrict accumulator, const void *restrict in, size_t count);

// The loop for sum, prod, max, min, band, bor or bxor. Asserts that it exists.
ls_accumulate_fn ls_kernel__accumulate_fn(ls_dtype dtype, ls_op op);

// out [count] = out [count] / divisor: floats rounded once, integers toward zero.
void ls_kernel__divide(void *out, ls_dtype dtype, size_t divisor, size_t count);
