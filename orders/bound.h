// The derived bound: the largest distance of a correct reduction from the exact one, in any order.
// It follows from the format, the number of terms and the actual values, without tuned constants.
// docs/bounds.md has the derivation. No other code computes it.
#pragma once

#include "orders/order.h"

// Unit roundoff of one step in a float dtype: rounding to nearest moves a normal value v by at most
// ls_bound_roundoff(dtype) * |v|. f32 2^-24, f16 2^-11, bf16 2^-8, f64 2^-53; f8 counts both of its
// roundings (to f16, then to f8). 0 for integers.
double ls_bound_roundoff(ls_dtype dtype);

// The largest error that one step whose exact result has magnitude `magnitude` can make: half a
// unit in the last place of its binade, or half the smallest subnormal. 0 for integers.
double ls_bound_step(ls_dtype dtype, double magnitude);

// For sums of which only the size is known (pooled lookups, gradients): any order of adding `terms`
// values of dtype, whose magnitudes add up to `magnitudes`, lies within the result of the exact
// sum: (terms - 1) u * magnitudes (Jeannerod and Rump 2013). For terms that are themselves rounded
// products, use ls_bound_sum_of_products. 0 for at most one term; infinity where a partial sum can
// overflow (f8, which saturates: finite).
double ls_bound_sum(ls_dtype dtype, size_t terms, double magnitudes);
// The same where each term is a product rounded to dtype first (weighted pooling: w * e). One more
// rounding per term; also right when the multiply-adds are fused.
double ls_bound_sum_of_products(ls_dtype dtype, size_t terms, double magnitudes);

// For many elements, bounds [count]: adds that bound of sums of so many products, whose magnitudes
// [count] are those.
void ls_bound_add_sums_of_products(double *bounds, ls_dtype dtype, size_t terms,
                                   const double *magnitudes, size_t count);
// The same for values of these sizes [count] with errors within their bounds, rounded to dtype that
// many times: adds the contribution, and the possible overflow (ls_overflow).
void ls_bound_add_roundings(double *bounds, unsigned char *overflow, ls_dtype dtype, int roundings,
                            const double *sizes, size_t count);

// How partial results of some order can pass the largest finite value: then an infinity of that
// sign is a correct result, and NaN where both can. A finite result is held to the bound all the
// same: an order that overflows never comes back to a finite value.
typedef enum ls_overflow {
    LS_OVERFLOW_NONE = 0,
    LS_OVERFLOW_UP = 1,
    LS_OVERFLOW_DOWN = 2,
    // Beside them in the bits of an element: its bound does not prove anything (ls_bound_proves).
    LS_BOUND_VACUOUS = 4,
} ls_overflow;

// The ways in which partial results of these magnitudes, above and below zero, overflow. Saturating
// types (f8): none.
unsigned char ls_bound_overflow(ls_dtype dtype, double up, double down);

// For finite results: the distance from the exact ones with `roundings` for each term and
// magnitudes that add up to `magnitudes`: ((1 + u)^roundings - 1) magnitudes. Without underflow of
// products, half a subnormal each.
double ls_bound_roundings(ls_dtype dtype, size_t roundings, double magnitudes);

// Whether a result within the bound proves anything. size: of a sum of many values of one rank, the
// larger of its magnitude and the root of its terms' squares, which is how large a sum of such
// terms of either sign is: a bound of half that lets 0 and the double pass. Of a sum of one term
// from each rank, twice the mean magnitude of the terms: a bound of half that lets a sum pass that
// lacks a rank. A result beyond such a bound is wrong all the same.
bool ls_bound_proves(double bound, double size);

// One element of a reduction: its exact value, as the unevaluated sum hi + lo, and the bound.
typedef struct ls_bound_element {
    double hi;
    double lo;
    double bound;            // >= 0, of the results that are finite
    unsigned char overflow;  // bits of ls_overflow, with LS_BOUND_VACUOUS
} ls_bound_element;

// out [length] = elements [first, first + length) of `reduction`: exact value and bound over every
// order, every tree shape, fused or not, accumulated in dtype or wider; avg both as a sum divided
// at the end and as a sum of terms multiplied by the rounded 1/ranks. Integers, max, min and
// bitwise operations are exact: hi is the value (integers beyond 2^53: hi + lo) and bound 0.
// LS_ERR_MEMORY.
int ls_bound_reduction(ls_bound_element *out, const ls_reduction *reduction, size_t first,
                       size_t length);

// |actual - exact| / bound: at most 1 is correct. 0 when equal (NaN equals NaN, an infinity
// itself); 1 for an overflow that an order can give; infinity where they differ and no difference
// is allowed, or where the bound is not finite, which proves nothing. `actual`: one element of
// dtype.
double ls_bound_ratio(const ls_bound_element *element, ls_dtype dtype, const void *actual);

// Whether bounds [count] prove nothing of values whose exact ones are given: zero would be within
// the bound for more than half of the elements that any rounding reaches. Elements without a bound
// are exact and count as proven.
bool ls_bound_is_vacuous(const double *exact, const double *bounds, size_t count);

// The same as ls_bound_ratio for a value that is not in memory.
double ls_bound_ratio_of(double actual, double exact, double bound, unsigned char overflow);
