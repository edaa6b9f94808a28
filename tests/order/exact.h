// Exact inputs: values whose reduction has no rounding in any order, tree shape, protocol or
// accumulator width, for every dtype and operation. Any difference between two results is then a
// bug. A pure function of (seed, rank, index), so no rank needs another's data.
//
// sum, premul_sum and avg over 2^k ranks: integer multiples of a power of two for each element,
// with mixed signs, whose magnitudes add up to at most 2^precision. avg over other numbers of
// ranks: one rank holds a power of two, the others zero, because 1/ranks is rounded. prod: one rank
// holds all the bits of a mantissa, few others a power of two, the rest 1 or -1. max, min: any
// finite value. Integers: any bits, which wrap equally in every order.
#pragma once

#include "orders/order.h"

#ifdef __cplusplus
extern "C" {
#endif

// out [count]: elements [first, first + count) of the input of `rank` out of `ranks`, for a
// reduction by op over all of them. ls_op_supports(op, dtype) must hold.
void ls_exact_fill(void *out, ls_dtype dtype, ls_op op, uint64_t seed, int rank, int ranks,
                   size_t first, size_t count);
// The rank's factor of a premul_sum: a power of two; 2 or 1 for integers.
double ls_exact_premul(ls_dtype dtype, uint64_t seed, int rank);
// out [count]: the same elements of the result, by integer arithmetic and without any fold.
void ls_exact_expect(void *out, ls_dtype dtype, ls_op op, uint64_t seed, int ranks, size_t first,
                     size_t count);

#ifdef __cplusplus
}
#endif
