// Numbers with rounding errors: the range of correct results, and the likeliest one. Each operation
// is computed in f64 on the ends and widened by one rounding to the type, so it covers operations
// that are rounded and those that a kernel keeps exact or fuses.
#pragma once

#include "base/dtype.h"
#include "kernels/optimizer.h"

// From -INFINITY to INFINITY: unknown, and `mid` is a guess. Three NaN, or three times the same
// infinity: exactly that.
typedef struct oracle_range {
    double mid, lo, hi;
    double size;  // of its terms: for a sum, the root of the sum of their squares
} oracle_range;

oracle_range ls_range__point(double value);
// value +- what the numbers that it is made of may be off by, and its own making adds.
oracle_range ls_range__about(double value, double of_inputs, double own);
double ls_range__rounded(double value, ls_dtype dtype);  // as it would be stored
// A constant that a run may have as it is or rounded to dtype.
oracle_range ls_range__constant(double value, ls_dtype dtype);
oracle_range ls_range__add(oracle_range a, oracle_range b, ls_dtype dtype);
oracle_range ls_range__sub(oracle_range a, oracle_range b, ls_dtype dtype);
oracle_range ls_range__mul(oracle_range a, oracle_range b, ls_dtype dtype);
oracle_range ls_range__div(oracle_range a, oracle_range b, ls_dtype dtype);
oracle_range ls_range__square(oracle_range a, ls_dtype dtype);
// a b of points, exact; of numbers of the field, in the field.
double ls_range__product(double a, double b, ls_dtype dtype);
// How near to 0 it comes.
double ls_range__least_size(oracle_range a);
oracle_range ls_range__sqrt(oracle_range a, ls_dtype dtype);
// Cut off at +- limit, where more is known than the ends say.
oracle_range ls_range__limit(oracle_range a, double limit);
// The sum of squares, added in dtype in any order.
typedef struct oracle_squares {
    double mid, lo, hi;
    size_t count;
    bool field;  // of numbers of the field
} oracle_squares;
void ls_squares__add(oracle_squares *sum, oracle_range value);
oracle_range ls_squares__sum(const oracle_squares *sum, ls_dtype dtype);
// Stored as dtype; `to_either_side`: to one neighbour or the other.
oracle_range ls_range__stored(oracle_range a, ls_dtype dtype, bool to_either_side);
// Largest distance from mid; INFINITY: nothing is known.
double ls_range__bound(oracle_range a);
// LS_BOUND_VACUOUS where that distance proves nothing.
unsigned char ls_range__vacuous(oracle_range a);

// One row under one step of an optimizer.
typedef struct oracle_row_step {
    const ls_optimizer *optimizer;
    ls_dtype dtype;                 // of the table
    int64_t step;                   // from 1
    size_t columns;                 // of the table, or of the shard with its own state
    oracle_range *weights;          // [columns]
    oracle_range *states[2];        // [1] or [columns], NULL where there is none
    const oracle_range *gradients;  // [columns]
    const oracle_range *factor;     // of clipping; NULL: none
} oracle_row_step;
void ls_oracle__update_row(const oracle_row_step *step);
