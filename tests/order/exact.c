// Exact inputs. See exact.h; docs/bounds.md explains why they are exact.
#include "exact.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kernels/kernels.h"

#define STREAM_ELEMENT 0x45584131u  // properties of an element that are equal on all ranks
#define STREAM_RANK    0x45584132u  // a rank's own bits
#define STREAM_FACTOR  0x45584133u

// The possible exponents of an element's unit: from low to high, so that 2^precision units neither
// overflow nor become subnormal, by a factor of four.
typedef struct window {
    int low;
    int high;
} window;

static const window windows[LS_DTYPE_COUNT] = {
    [LS_F16] = {-12, 2},    [LS_BF16] = {-20, 20}, [LS_F32] = {-40, 40},
    [LS_F64] = {-100, 100}, [LS_F8E4M3] = {-6, 2}, [LS_F8E5M2] = {-9, 6},
};

// The properties of element i, equal on all ranks.
typedef struct element {
    uint64_t bits;
    int exponent;
    int ranks;
    uint64_t seed;
    size_t index;
} element;

static element element_of(ls_dtype dtype, uint64_t seed, int ranks, size_t index) {
    window w = windows[dtype];
    element e = {ls_random_bits(seed, STREAM_ELEMENT, 0, index), 0, ranks, seed, index};
    e.exponent = w.low + (int)((e.bits >> 32) % (uint64_t)(w.high - w.low + 1));
    return e;
}

static uint64_t rank_bits(const element *e, int rank) {
    return ls_random_bits(e->seed, STREAM_RANK, (uint32_t)rank, e->index);
}

static bool power_of_two(int n) {
    return (n & (n - 1)) == 0;
}

// Whether a rank is one of the at most `chosen` ranks of this element.
static bool is_chosen(const element *e, int rank, uint64_t chosen) {
    uint64_t ranks = (uint64_t)e->ranks;
    uint64_t step = (ranks + chosen - 1) / chosen;
    return ((uint64_t)rank + (e->bits & 0xffffffff)) % step == 0;
}

// The rank's share of a sum, in units: magnitudes add up to at most 2^precision.
static int64_t share(const element *e, int rank, int precision) {
    uint64_t budget = (uint64_t)1 << precision;
    uint64_t bits = rank_bits(e, rank);
    if ((uint64_t)e->ranks > budget) {
        return !is_chosen(e, rank, budget) ? 0 : (bits & 1) != 0 ? 1 : -1;
    }
    uint64_t most = budget / (uint64_t)e->ranks;
    return (int64_t)(bits % (2 * most + 1)) - (int64_t)most;
}

// avg if 1/ranks is no power of two: one rank has this, the others 0. Zero if the reciprocal is no
// normal number of the type.
static double lone_value(const element *e, ls_dtype dtype, int rank) {
    ls_float_format format = ls_dtype_format(dtype);
    int normal = format.subnormal_exponent + format.precision - 1;
    uint64_t owner = (e->bits & 0xffffffff) % (uint64_t)e->ranks;
    if ((uint64_t)rank != owner || 1.0 / e->ranks < ldexp(1.0, normal)) {
        return 0.0;
    }
    int exponent = e->exponent < 0 ? 0 : e->exponent;
    return (rank_bits(e, rank) & 1) != 0 ? ldexp(1.0, exponent) : -ldexp(1.0, exponent);
}

static double factor_of_product(const element *e, ls_dtype dtype, int rank) {
    uint64_t bits = rank_bits(e, rank);
    double sign = (bits & 1) != 0 ? 1.0 : -1.0;
    int precision = ls_dtype_format(dtype).precision;
    if ((uint64_t)rank == (e->bits & 0xffffffff) % (uint64_t)e->ranks) {
        uint64_t mantissa = 1 + (bits >> 8) % (((uint64_t)1 << precision) - 1);
        return sign * ldexp((double)mantissa, 1 - precision);
    }
    return is_chosen(e, rank, 2) ? sign * ldexp(1.0, (int)((bits >> 8) % 3) - 1) : sign;
}

static double float_value(const element *e, ls_dtype dtype, ls_op op, int rank) {
    int precision = ls_dtype_format(dtype).precision;
    switch (op) {
    case LS_PROD:
        return factor_of_product(e, dtype, rank);
    case LS_AVG:
        if (!power_of_two(e->ranks)) {
            return lone_value(e, dtype, rank);
        }
        break;
    case LS_PREMUL_SUM:
        return ldexp((double)share(e, rank, precision), e->exponent) /
               ls_exact_premul(dtype, e->seed, rank);
    case LS_MAX:
    case LS_MIN:
        // As large as the share of a single rank.
        return ldexp((double)((int64_t)(rank_bits(e, rank) >> 11) >> (53 - precision)) -
                         ldexp(0.5, precision),
                     e->exponent);
    default:
        break;
    }
    return ldexp((double)share(e, rank, precision), e->exponent);
}

double ls_exact_premul(ls_dtype dtype, uint64_t seed, int rank) {
    uint64_t bits = ls_random_bits(seed, STREAM_FACTOR, (uint32_t)rank, 0);
    if (!ls_dtype_is_float(dtype)) {
        return bits % 2 == 0 ? 1.0 : 2.0;
    }
    return ldexp(1.0, (int)(bits % 3) - 1);
}

// Averages of few-bit types over many ranks: units large enough that a rank's part is
// representable.
static void scale_average(element *e, ls_dtype dtype) {
    int shift = 0;
    while ((1 << shift) < e->ranks && shift < 30) {
        shift++;
    }
    int high = windows[dtype].high;
    e->exponent = e->exponent + shift > high ? high : e->exponent + shift;
}

void ls_exact_fill(void *out, ls_dtype dtype, ls_op op, uint64_t seed, int rank, int ranks,
                   size_t first, size_t count) {
    LS_ASSERT(ranks >= 1 && rank >= 0 && rank < ranks && ls_op_supports(op, dtype));
    size_t bytes = ls_dtype_bytes(dtype);
    unsigned char *to = out;
    for (size_t i = 0; i < count; i++) {
        if (!ls_dtype_is_float(dtype)) {
            uint64_t bits = ls_random_bits(seed, STREAM_RANK, (uint32_t)rank, first + i);
            memcpy(to + i * bytes, &bits, bytes);
            continue;
        }
        element e = element_of(dtype, seed, ranks, first + i);
        if (op == LS_AVG) {
            scale_average(&e, dtype);
        }
        ls_element_from_f64(to + i * bytes, dtype, float_value(&e, dtype, op, rank));
    }
}

// ---- Expected results ---------------------------------------------------------------------------
static double expected_float(const element *e, ls_dtype dtype, ls_op op) {
    int precision = ls_dtype_format(dtype).precision;
    int64_t sum = 0;
    double result = float_value(e, dtype, op, 0);
    bool lone = op == LS_AVG && !power_of_two(e->ranks);
    for (int rank = 0; rank < e->ranks; rank++) {
        double value = float_value(e, dtype, op, rank);
        if (op == LS_PROD) {
            result = rank == 0 ? value : result * value;
        } else if (op == LS_MAX) {
            result = value > result ? value : result;
        } else if (op == LS_MIN) {
            result = value < result ? value : result;
        } else if (lone) {
            result = value != 0.0 ? value : result;
        } else {
            sum += share(e, rank, precision);
        }
    }
    if (op == LS_PROD || op == LS_MAX || op == LS_MIN) {
        return result;
    }
    if (lone) {
        return result / e->ranks;
    }
    return ldexp((double)sum, e->exponent) / (op == LS_AVG ? e->ranks : 1);
}

static uint64_t low_bits(uint64_t bits, size_t bytes) {
    return bytes == 8 ? bits : bits & (((uint64_t)1 << (8 * bytes)) - 1);
}

// The bits as the number that they represent, in 64 bits.
static uint64_t extended(uint64_t bits, size_t bytes, bool is_signed) {
    bits = low_bits(bits, bytes);
    uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    return is_signed && (bits & sign) != 0 ? (bits ^ sign) - sign : bits;
}

static uint64_t expected_integer(ls_dtype dtype, ls_op op, uint64_t seed, int ranks, size_t index) {
    size_t bytes = ls_dtype_bytes(dtype);
    bool is_signed = ls_dtype_is_signed(dtype);
    uint64_t result = 0;
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t own = ls_random_bits(seed, STREAM_RANK, (uint32_t)rank, index);
        own = extended(own, bytes, is_signed);
        bool greater = is_signed ? (int64_t)own > (int64_t)result : own > result;
        if (op == LS_PREMUL_SUM) {
            own *= (uint64_t)ls_exact_premul(dtype, seed, rank);
        }
        if (rank == 0) {
            result = own;
        } else if (op == LS_PROD) {
            result *= own;
        } else if (op == LS_MAX || op == LS_MIN) {
            result = greater == (op == LS_MAX) ? own : result;
        } else if (op == LS_BAND) {
            result &= own;
        } else if (op == LS_BOR) {
            result |= own;
        } else if (op == LS_BXOR) {
            result ^= own;
        } else {
            result += own;
        }
    }
    if (op == LS_AVG) {
        result = extended(result, bytes, is_signed);
        if (is_signed && (int64_t)result < 0) {
            result = -(-result / (uint64_t)ranks);
        } else {
            result /= (uint64_t)ranks;
        }
    }
    return result;
}

void ls_exact_expect(void *out, ls_dtype dtype, ls_op op, uint64_t seed, int ranks, size_t first,
                     size_t count) {
    LS_ASSERT(ranks >= 1 && ls_op_supports(op, dtype));
    size_t bytes = ls_dtype_bytes(dtype);
    unsigned char *to = out;
    for (size_t i = 0; i < count; i++) {
        if (!ls_dtype_is_float(dtype)) {
            uint64_t bits = expected_integer(dtype, op, seed, ranks, first + i);
            memcpy(to + i * bytes, &bits, bytes);
            continue;
        }
        element e = element_of(dtype, seed, ranks, first + i);
        if (op == LS_AVG) {
            scale_average(&e, dtype);
        }
        ls_element_from_f64(to + i * bytes, dtype, expected_float(&e, dtype, op));
    }
}
