// Elements as numbers, and conversion by them: the plain reference.
#include "kernels/cpu/reference.h"

#include <math.h>
#include <string.h>

#include "kernels/field.h"
#include "kernels/kernels.h"

// A binary float format: its stored mantissa bits, its exponent bits, its largest finite number.
typedef struct {
    int mantissa;
    int exponent_bits;
    long double max;
    bool infinite;   // has infinities: all exponent bits set, mantissa 0
    bool saturates;  // conversion clamps to max
} format;

static format format_of(ls_dtype dtype) {
    ls_float_format known = ls_dtype_format(dtype);
    return (format){.mantissa = known.precision - 1,
                    .exponent_bits = 8 * (int)ls_dtype_bytes(dtype) - known.precision,
                    .max = known.max,
                    .infinite = known.infinite,
                    .saturates = known.saturates};
}

static long double decode(unsigned bits, format f) {
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> f.mantissa) & ((1 << f.exponent_bits) - 1);
    int mantissa = (int)bits & ((1 << f.mantissa) - 1);
    bool negative = (bits >> (f.mantissa + f.exponent_bits)) & 1u;
    bool top = exponent == (1 << f.exponent_bits) - 1;
    long double value;
    if (top && f.infinite) {
        value = mantissa == 0 ? (long double)INFINITY : (long double)NAN;
    } else if (top && mantissa == (1 << f.mantissa) - 1) {
        value = (long double)NAN;
    } else if (exponent == 0) {
        value = ldexpl((long double)mantissa, 1 - bias - f.mantissa);
    } else {
        value = ldexpl((long double)(mantissa + (1 << f.mantissa)), exponent - bias - f.mantissa);
    }
    return negative ? -value : value;
}

static unsigned encode(long double value, format f) {
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    unsigned top = ((1u << f.exponent_bits) - 1u) << f.mantissa;
    unsigned sign = signbit(value) ? 1u << (f.mantissa + f.exponent_bits) : 0u;
    if (isnan(value)) {
        return sign | top | (f.infinite ? 1u << (f.mantissa - 1) : (1u << f.mantissa) - 1u);
    }
    long double magnitude = fabsl(value);
    if (isinf(magnitude) || magnitude >= 2 * f.max) {
        magnitude = (long double)INFINITY;
    } else {
        // Round to a whole number of steps, the step being that of the binade or of subnormals.
        int exponent = 0;
        (void)frexpl(magnitude, &exponent);
        int step = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
        magnitude = ldexpl(rintl(ldexpl(magnitude, f.mantissa - step)), step - f.mantissa);
    }
    if (magnitude > f.max) {
        if (!f.saturates) {
            return sign | top;
        }
        magnitude = f.max;
    }
    if (magnitude < ldexpl(1.0L, 1 - bias)) {
        return sign | (unsigned)ldexpl(magnitude, f.mantissa - (1 - bias));
    }
    int exponent = 0;
    long double fraction = frexpl(magnitude, &exponent);  // in [0.5, 1)
    unsigned significand = (unsigned)ldexpl(fraction, f.mantissa + 1);
    return sign | ((unsigned)(exponent - 1 + bias) << f.mantissa) |
           (significand & ((1u << f.mantissa) - 1u));
}

#define LOAD(c_type)                                                                               \
    do {                                                                                           \
        c_type value;                                                                              \
        memcpy(&value, element, sizeof value);                                                     \
        return (long double)value;                                                                 \
    } while (0)

long double ls_kernel__reference_load(const void *in, ls_dtype dtype, size_t index) {
    const char *element = (const char *)in + index * ls_dtype_bytes(dtype);
    switch (dtype) {
    case LS_I8:
        LOAD(int8_t);
    case LS_U8:
        LOAD(uint8_t);
    case LS_I32:
        LOAD(int32_t);
    case LS_U32:
        LOAD(uint32_t);
    case LS_I64:
        LOAD(int64_t);
    case LS_U64:
        LOAD(uint64_t);
    case LS_F32:
        LOAD(float);
    case LS_F64:
        LOAD(double);
    default:
        break;
    }
    uint16_t two = 0;
    memcpy(&two, element, ls_dtype_bytes(dtype));
    if (ls_dtype_bytes(dtype) == 1) {
        uint8_t one;
        memcpy(&one, element, 1);
        two = one;
    }
    return decode(two, format_of(dtype));
}

#define STORE_INTEGER(c_type, low, high)                                                           \
    do {                                                                                           \
        c_type result;                                                                             \
        if (isnan(value)) {                                                                        \
            result = 0;                                                                            \
        } else if (value <= (long double)(low)) {                                                  \
            result = (low);                                                                        \
        } else if (value >= (long double)(high)) {                                                 \
            result = (high);                                                                       \
        } else {                                                                                   \
            result = (c_type)value;                                                                \
        }                                                                                          \
        memcpy(element, &result, sizeof result);                                                   \
        return;                                                                                    \
    } while (0)

void ls_kernel__reference_store(void *out, ls_dtype dtype, size_t index, long double value) {
    char *element = (char *)out + index * ls_dtype_bytes(dtype);
    switch (dtype) {
    case LS_I8:
        STORE_INTEGER(int8_t, INT8_MIN, INT8_MAX);
    case LS_U8:
        STORE_INTEGER(uint8_t, 0, UINT8_MAX);
    case LS_I32:
        STORE_INTEGER(int32_t, INT32_MIN, INT32_MAX);
    case LS_U32:
        STORE_INTEGER(uint32_t, 0, UINT32_MAX);
    case LS_I64:
        STORE_INTEGER(int64_t, INT64_MIN, INT64_MAX);
    case LS_U64:
        STORE_INTEGER(uint64_t, 0, UINT64_MAX);
    case LS_F32: {
        float result = (float)value;
        memcpy(element, &result, sizeof result);
        return;
    }
    case LS_F64: {
        double result = (double)value;
        memcpy(element, &result, sizeof result);
        return;
    }
    default:
        break;
    }
    unsigned bits = encode(value, format_of(dtype));
    uint8_t one = (uint8_t)bits;
    uint16_t two = (uint16_t)bits;
    memcpy(element, ls_dtype_bytes(dtype) == 1 ? (void *)&one : (void *)&two,
           ls_dtype_bytes(dtype));
}

void ls_kernel_convert_reference(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                                 size_t count) {
    if (out_dtype == in_dtype) {
        memcpy(out, in, count * ls_dtype_bytes(in_dtype));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        long double value = ls_kernel__reference_load(in, in_dtype, i);
        if (out_dtype == LS_FIELD) {
            ((uint32_t *)out)[i] = ls_field_of((double)value);
        } else {
            ls_kernel__reference_store(out, out_dtype, i, value);
        }
    }
}
