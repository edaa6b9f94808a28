// An independent model of narrow float formats: the list of all their numbers, in order, and the
// rule "nearest, of two equally near the even one" by comparison with exact midpoints.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

__extension__ typedef __float128 quad;

typedef struct {
    ls_dtype dtype;
    int mantissa;            // stored bits
    int bias;                // of the exponent
    unsigned finite;         // patterns 0..finite - 1 are the finite numbers >= 0
    unsigned overflow;       // pattern of numbers past the last midpoint
    unsigned sign;           // sign bit
    quad numbers[0x7F81];    // [finite + 1], the last as if the exponents continued
    quad midpoints[0x7F80];  // midpoints[i] lies between numbers[i] and numbers[i + 1]
} oracle;

static inline void oracle_init(oracle *o, ls_dtype dtype) {
    o->dtype = dtype;
    switch (dtype) {
    case LS_F16:
        o->mantissa = 10, o->bias = 15, o->finite = 0x7C00, o->overflow = 0x7C00;
        o->sign = 0x8000;
        break;
    case LS_BF16:
        o->mantissa = 7, o->bias = 127, o->finite = 0x7F80, o->overflow = 0x7F80;
        o->sign = 0x8000;
        break;
    case LS_F8E4M3:
        o->mantissa = 3, o->bias = 7, o->finite = 0x7F, o->overflow = 0x7E, o->sign = 0x80;
        break;
    default:
        o->mantissa = 2, o->bias = 15, o->finite = 0x7C, o->overflow = 0x7B, o->sign = 0x80;
    }
    for (unsigned i = 0; i <= o->finite; i++) {
        int exponent = (int)(i >> o->mantissa);
        int fraction = (int)(i & ((1u << o->mantissa) - 1u));
        int significand = exponent == 0 ? fraction : fraction + (1 << o->mantissa);
        int scale = (exponent == 0 ? 1 : exponent) - o->bias - o->mantissa;
        o->numbers[i] = (quad)ldexp(significand, scale);
    }
    for (unsigned i = 0; i < o->finite; i++) {
        o->midpoints[i] = (o->numbers[i] + o->numbers[i + 1]) / 2;
    }
}

static inline bool oracle_is_nan(const oracle *o, unsigned bits) {
    unsigned magnitude = bits & (o->sign - 1u);
    return o->dtype == LS_F8E4M3 ? magnitude == 0x7F : magnitude > o->finite;
}

static inline bool oracle_is_infinite(const oracle *o, unsigned bits) {
    return o->dtype != LS_F8E4M3 && (bits & (o->sign - 1u)) == o->finite;
}

// The number with these bits.
static inline double oracle_decode(const oracle *o, unsigned bits) {
    double magnitude = oracle_is_nan(o, bits)        ? (double)NAN
                       : oracle_is_infinite(o, bits) ? (double)INFINITY
                                                     : (double)o->numbers[bits & (o->sign - 1u)];
    return (bits & o->sign) != 0 ? -magnitude : magnitude;
}

// The pattern nearest to value + rest, |rest| at most half a last bit of value; negative_zero is
// the sign of a result 0 when value is 0.
static inline unsigned oracle_round(const oracle *o, quad value, quad rest, bool negative_zero) {
    bool negative = value == 0 ? negative_zero : value < 0;
    if (value < 0) {
        value = -value;
        rest = -rest;
    }
    // The number of midpoints below the value.
    unsigned low = 0;
    unsigned high = o->finite;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        quad midpoint = o->midpoints[middle];
        bool above = value > midpoint || (value == midpoint && rest > 0);
        bool tie = value == midpoint && rest == 0;
        if (above || (tie && (middle & 1u) != 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    unsigned magnitude = low >= o->finite ? o->overflow : low;
    return magnitude | (negative ? o->sign : 0u);
}

// The pattern a double becomes, without NaN.
static inline unsigned oracle_encode(const oracle *o, double value) {
    if (isinf(value)) {
        return o->overflow | (value < 0 ? o->sign : 0u);
    }
    return oracle_round(o, (quad)value, 0, signbit(value) != 0);
}

// Equal bits, or both NaN.
static inline bool oracle_same(const oracle *o, unsigned a, unsigned b) {
    return oracle_is_nan(o, a) || oracle_is_nan(o, b) ? oracle_is_nan(o, a) && oracle_is_nan(o, b)
                                                      : a == b;
}

// splitmix64: test data, nothing of the library.
static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
