// Conversions: single elements and arrays.
#include <math.h>

#include "kernels/cpu/bits.h"
#include "kernels/field.h"
#include "kernels/kernels.h"
#include "kernels/ulps.h"

// ---- Through f64 --------------------------------------------------------------------------------
// Truncates toward zero and clamps to [low, 2^top), NaN gives 0. For high < 2^53 it is exact.
static int64_t i64_of_f64(double value, int64_t low, int64_t high) {
    if (!(value == value)) {
        return 0;
    }
    if (value <= (double)low) {
        return low;
    }
    // (double)INT64_MAX is 2^63, which must clamp; smaller limits are exact.
    return value >= (double)high ? high : (int64_t)value;
}

static uint64_t u64_of_f64(double value, uint64_t high) {
    if (!(value > 0.0)) {
        return 0;
    }
    return value >= (double)high ? high : (uint64_t)value;
}

#define EACH(out_type, expression)                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
        ((out_type *)out)[i] = (expression);                                                       \
    }                                                                                              \
    return

// out [count] f64 = in [count], exactly but for integers beyond 2^53.
static void decode_f64(any_f64 *out, const void *in, ls_dtype dtype, size_t count) {
    switch (dtype) {
#define AS_NUMBER(name, value, suffix, ...)                                                        \
    case LS_##name:                                                                                \
        EACH(any_f64, (double)((const any_##suffix *)in)[i]);
        LS_DTYPE_INTEGER_MAP(AS_NUMBER)
        LS_DTYPE_WIDE_MAP(AS_NUMBER)
#define DECODED(name, value, suffix, bytes, ...)                                                   \
    case LS_##name:                                                                                \
        EACH(any_f64, (double)suffix##_decode(((const any_bits_##bytes *)in)[i]));
        LS_DTYPE_NARROW_MAP(DECODED)
    case LS_FIELD:
        EACH(any_f64, (double)((const any_u32 *)in)[i]);
    }
    LS_ASSERT(ls_dtype_valid((int)dtype));
}

// out [count] = in [count] f64, each rounded once.
static void encode_f64(void *out, ls_dtype dtype, const any_f64 *in, size_t count) {
    switch (dtype) {
#define TO_INTEGER(name, value, suffix, bytes, class_, ...)                                        \
    case LS_##name:                                                                                \
        if ((class_) == 'u') {                                                                     \
            EACH(any_##suffix, (any_##suffix)u64_of_f64(in[i], UINT64_MAX >> (64 - 8 * (bytes)))); \
        }                                                                                          \
        EACH(any_##suffix, (any_##suffix)i64_of_f64(in[i], INT64_MIN >> (64 - 8 * (bytes)),        \
                                                    INT64_MAX >> (64 - 8 * (bytes))));
        LS_DTYPE_INTEGER_MAP(TO_INTEGER)
    case LS_F32:
        EACH(any_f32, (float)in[i]);
    case LS_F64:
        EACH(any_f64, in[i]);
#define ENCODED(name, value, suffix, bytes, ...)                                                   \
    case LS_##name:                                                                                \
        EACH(any_bits_##bytes, suffix##_encode_f64(in[i]));
        LS_DTYPE_NARROW_MAP(ENCODED)
    case LS_FIELD:
        EACH(any_u32, ls_field_of(in[i]));
    }
    LS_ASSERT(ls_dtype_valid((int)dtype));
}

// A NaN of a float type as an f64 NaN with its sign and payload: arithmetic may quiet it.
static double nan_to_f64(const void *element, ls_dtype dtype) {
    uint64_t bits = 0, wide;
    size_t bytes = ls_dtype_bytes(dtype);
    memcpy(&bits, element, bytes);
    unsigned fraction = (unsigned)ls_dtype_format(dtype).precision - 1;
    uint64_t sign = bits >> (8 * bytes - 1), payload = bits & ((UINT64_C(1) << fraction) - 1);
    wide = sign << 63 | UINT64_C(0x7ff) << 52 | payload << (52 - fraction);
    double value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

double ls_element_to_f64(const void *element, ls_dtype dtype) {
    LS_ASSERT(element != NULL);
    double value = 0;
    decode_f64(&value, element, dtype, 1);
    return value != value ? nan_to_f64(element, dtype) : value;
}

void ls_element_from_f64(void *element, ls_dtype dtype, double value) {
    LS_ASSERT(element != NULL);
    encode_f64(element, dtype, &value, 1);
}

// ---- Integer to anything ------------------------------------------------------------------------
// A 64-bit integer as sign and magnitude, which holds every element of every integer type.
typedef struct {
    uint64_t magnitude;
    bool negative;
} integer;

static integer load_integer(const void *in, ls_dtype dtype, size_t i) {
    int64_t value = 0;
    switch (dtype) {
#define AS_INTEGER(name, number, suffix, ...)                                                      \
    case LS_##name:                                                                                \
        value = (int64_t)((const any_##suffix *)in)[i];                                            \
        break;
        LS_DTYPE_INTEGER_MAP(AS_INTEGER)
    default:
        LS_ASSERT(!ls_dtype_is_float(dtype));
    }
    bool negative = ls_dtype_is_signed(dtype) && value < 0;
    return (integer){negative ? 0 - (uint64_t)value : (uint64_t)value, negative};
}

// Clamps to the integer type.
static void store_integer(void *out, ls_dtype dtype, size_t i, integer value) {
    size_t bytes = ls_dtype_bytes(dtype);
    bool is_signed = ls_dtype_is_signed(dtype);
    uint64_t high = UINT64_MAX >> (64 - 8 * bytes + (is_signed ? 1 : 0));
    uint64_t limit = high;
    if (value.negative) {
        limit = (is_signed ? high + 1 : 0);
    }
    uint64_t magnitude = value.magnitude > limit ? limit : value.magnitude;
    uint64_t bits = value.negative ? 0 - magnitude : magnitude;
    switch (bytes) {
    case 1:
        ((any_u8 *)out)[i] = (uint8_t)bits;
        return;
    case 4:
        ((any_u32 *)out)[i] = (uint32_t)bits;
        return;
    default:
        ((any_u64 *)out)[i] = bits;
    }
}

// A double that rounds to any narrower float like the integer itself: the bits beyond 53 become one
// sticky bit.
static double sticky_f64(integer value) {
    uint64_t magnitude = value.magnitude;
    if (magnitude >> 53 != 0) {
        magnitude = (magnitude & ~(uint64_t)0x7FF) | ((magnitude & 0x7FF) != 0 ? 0x800u : 0u);
    }
    return value.negative ? -(double)magnitude : (double)magnitude;
}

static void convert_integers(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                             size_t count) {
    bool to_integer = !ls_dtype_is_float(out_dtype);
    size_t bytes = ls_dtype_bytes(out_dtype);
    for (size_t i = 0; i < count; i++) {
        integer value = load_integer(in, in_dtype, i);
        if (to_integer) {
            store_integer(out, out_dtype, i, value);
        } else if (out_dtype == LS_F64) {
            double rounded = (double)value.magnitude;
            ((any_f64 *)out)[i] = value.negative ? -rounded : rounded;
        } else {
            ls_element_from_f64((char *)out + i * bytes, out_dtype, sticky_f64(value));
        }
    }
}

// ---- Arrays -------------------------------------------------------------------------------------
#define PAIR(name, out_type, in_type, store, load)                                                 \
    LS_CLONES static void name(void *restrict out, const void *restrict in, size_t count) {        \
        for (size_t i = 0; i < count; i++) {                                                       \
            ((out_type *)out)[i] = store(load(((const in_type *)in)[i]));                          \
        }                                                                                          \
    }
#define AS_IS(x) (x)
PAIR(f32_from_f16, any_f32, any_u16, AS_IS, f16_decode)
PAIR(f32_from_bf16, any_f32, any_u16, AS_IS, bf16_decode)
PAIR(f16_from_f32, any_u16, any_f32, f16_encode, AS_IS)
PAIR(bf16_from_f32, any_u16, any_f32, bf16_encode, AS_IS)

void ls_kernel_convert(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                       size_t count) {
    LS_ASSERT(count == 0 || (out != NULL && in != NULL));
    size_t in_bytes = ls_dtype_bytes(in_dtype);
    size_t out_bytes = ls_dtype_bytes(out_dtype);
    if (out_dtype == in_dtype) {
        ls_kernel_copy(out, in, count * in_bytes);
    } else if (out_dtype == LS_FIELD) {
        for (size_t i = 0; i < count; i++) {
            double value = ls_element_to_f64((const char *)in + i * in_bytes, in_dtype);
            ls_element_from_f64((char *)out + i * out_bytes, out_dtype, value);
        }
    } else if (out_dtype == LS_F32 && in_dtype == LS_F16) {
        f32_from_f16(out, in, count);
    } else if (out_dtype == LS_F32 && in_dtype == LS_BF16) {
        f32_from_bf16(out, in, count);
    } else if (out_dtype == LS_F16 && in_dtype == LS_F32) {
        f16_from_f32(out, in, count);
    } else if (out_dtype == LS_BF16 && in_dtype == LS_F32) {
        bf16_from_f32(out, in, count);
    } else if (!ls_dtype_is_float(in_dtype)) {
        convert_integers(out, out_dtype, in, in_dtype, count);
    } else {
        any_f64 block[256];
        const size_t step = sizeof block / sizeof block[0];
        for (size_t first = 0; first < count; first += step) {
            size_t length = count - first < step ? count - first : step;
            decode_f64(block, (const char *)in + first * in_bytes, in_dtype, length);
            encode_f64((char *)out + first * out_bytes, out_dtype, block, length);
        }
    }
}

// An element's bits, widened.
static uint64_t bits_of(const void *element, ls_dtype dtype) {
    uint64_t bits = 0;
    memcpy(&bits, element, ls_dtype_bytes(dtype));
    return bits;
}

uint64_t ls_element_ulps(const void *a, const void *b, ls_dtype dtype) {
    uint64_t x = bits_of(a, dtype), y = bits_of(b, dtype);
    unsigned width = 8 * (unsigned)ls_dtype_bytes(dtype);
    if (ls_dtype_is_float(dtype)) {
        double u = ls_element_to_f64(a, dtype), v = ls_element_to_f64(b, dtype);
        if (isnan(u) || isnan(v)) {
            return isnan(u) && isnan(v) ? 0 : LS_ULPS_NAN;
        }
        if ((isinf(u) != 0) != (isinf(v) != 0)) {
            return LS_ULPS_INFINITY;
        }
        if ((u < 0 && v > 0) || (u > 0 && v < 0)) {
            return LS_ULPS_SIGN;
        }
        x &= ~(UINT64_C(1) << (width - 1));
        y &= ~(UINT64_C(1) << (width - 1));
    } else if (ls_dtype_is_signed(dtype)) {
        // Orders them as unsigned numbers: the sign bit, at the top, inverted.
        x = (x << (64 - width)) ^ (UINT64_C(1) << 63);
        y = (y << (64 - width)) ^ (UINT64_C(1) << 63);
        return (x > y ? x - y : y - x) >> (64 - width);
    }
    return x > y ? x - y : y - x;
}

const char *ls_ulps_word(uint64_t ulps) {
    switch (ulps) {
    case LS_ULPS_NAN:
        return "NaN";
    case LS_ULPS_INFINITY:
        return "infinity";
    case LS_ULPS_SIGN:
        return "sign change";
    default:
        return NULL;
    }
}
