// Multiplying, multiply-adding and dividing arrays by one number.
#include <math.h>

#include "kernels/cpu/accumulate.h"
#include "kernels/cpu/bits.h"
#include "kernels/field.h"
#include "kernels/kernels.h"

#define AS_IS(x) (x)

#define SCALE(type, load, store)                                                                   \
    do {                                                                                           \
        __typeof__(load(*(const type *)factor)) b = load(*(const type *)factor);                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            ((type *)out)[i] = store(load(((const type *)in)[i]) * b);                             \
        }                                                                                          \
    } while (0)

void ls_kernel_scale(void *out, const void *in, const void *factor, ls_dtype dtype, size_t count) {
    LS_ASSERT(count == 0 || (out != NULL && in != NULL));
    LS_ASSERT(factor != NULL);
    switch (dtype) {
#define SCALE_INTEGER(name, value, suffix, bytes, ...)                                             \
    case LS_##name:                                                                                \
        SCALE(any_bits_##bytes, AS_IS, (any_bits_##bytes));                                        \
        return;
        LS_DTYPE_INTEGER_MAP(SCALE_INTEGER)
#define SCALE_WIDE(name, value, suffix, ...)                                                       \
    case LS_##name:                                                                                \
        SCALE(any_##suffix, AS_IS, AS_IS);                                                         \
        return;
        LS_DTYPE_WIDE_MAP(SCALE_WIDE)
#define SCALE_NARROW(name, value, suffix, bytes, ...)                                              \
    case LS_##name:                                                                                \
        SCALE(any_bits_##bytes, suffix##_decode, suffix##_encode);                                 \
        return;
        LS_DTYPE_NARROW_MAP(SCALE_NARROW)
    case LS_FIELD:
        for (size_t i = 0; i < count; i++) {
            ((any_u32 *)out)[i] =
                ls_field_times(((const any_u32 *)in)[i], *(const any_u32 *)factor);
        }
        return;
    }
    LS_ASSERT(ls_dtype_valid((int)dtype));
}

LS_FMA_CLONES static void fma_f32(any_f32 *restrict accumulator, const any_f32 *restrict in,
                                  float factor, size_t count) {
    for (size_t i = 0; i < count; i++) {
        accumulator[i] = fmaf(in[i], factor, accumulator[i]);
    }
}

LS_FMA_CLONES static void fma_f64(any_f64 *restrict accumulator, const any_f64 *restrict in,
                                  double factor, size_t count) {
    for (size_t i = 0; i < count; i++) {
        accumulator[i] = fma(in[i], factor, accumulator[i]);
    }
}

void ls_kernel_accumulate_fma(void *accumulator, const void *in, const void *factor, ls_dtype dtype,
                              size_t count) {
    LS_ASSERT(count == 0 || (accumulator != NULL && in != NULL && accumulator != in));
    LS_ASSERT(factor != NULL);
    switch (dtype) {
    case LS_FIELD:
        for (size_t i = 0; i < count; i++) {
            any_u32 *out = (any_u32 *)accumulator + i;
            *out = ls_field_plus(ls_field_times(((const any_u32 *)in)[i], *(const any_u32 *)factor),
                                 *out);
        }
        return;
    case LS_F32:
        fma_f32(accumulator, in, *(const any_f32 *)factor, count);
        return;
    case LS_F64:
        fma_f64(accumulator, in, *(const any_f64 *)factor, count);
        return;
    case LS_F16:
        for (size_t i = 0; i < count; i++) {
            any_u16 *out = (any_u16 *)accumulator + i;
            *out = f16_fma(((const any_u16 *)in)[i], *(const any_u16 *)factor, *out);
        }
        return;
    default:
        LS_ASSERT(dtype == LS_BF16);
        for (size_t i = 0; i < count; i++) {
            any_u16 *out = (any_u16 *)accumulator + i;
            *out = bf16_fma(((const any_u16 *)in)[i], *(const any_u16 *)factor, *out);
        }
    }
}

#define DIVIDE(type, result, expression)                                                           \
    do {                                                                                           \
        type *elements = out;                                                                      \
        for (size_t i = 0; i < count; i++) {                                                       \
            type x = elements[i];                                                                  \
            elements[i] = (result)(expression);                                                    \
        }                                                                                          \
    } while (0)

void ls_kernel__divide(void *out, ls_dtype dtype, size_t divisor, size_t count) {
    // Below 2^28 a quotient in f64 is far enough from every midpoint of a narrower format that
    // rounding it again is as good as rounding once.
    LS_ASSERT(divisor >= 1 && divisor < ((size_t)1 << 28));
    int64_t whole = (int64_t)divisor;
    double real = (double)divisor;
    switch (dtype) {
#define DIVIDE_INTEGER(name, value, suffix, bytes, class_, ...)                                    \
    case LS_##name:                                                                                \
        if ((class_) == 'u') {                                                                     \
            DIVIDE(any_##suffix, any_##suffix, (uint64_t)x / (uint64_t)divisor);                   \
        } else {                                                                                   \
            DIVIDE(any_##suffix, any_##suffix, (int64_t)x / whole);                                \
        }                                                                                          \
        return;
        LS_DTYPE_INTEGER_MAP(DIVIDE_INTEGER)
    case LS_F32:
        DIVIDE(any_f32, float, (double)x / real);
        return;
    case LS_F64:
        DIVIDE(any_f64, double, x / real);
        return;
#define DIVIDE_NARROW(name, value, suffix, bytes, ...)                                             \
    case LS_##name:                                                                                \
        DIVIDE(any_bits_##bytes, any_bits_##bytes,                                                 \
               suffix##_encode_f64((double)suffix##_decode(x) / real));                            \
        return;
        LS_DTYPE_NARROW_MAP(DIVIDE_NARROW)
    case LS_FIELD:
        DIVIDE(any_u32, uint32_t, ls_field_over(x, ls_field_of(real)));
        return;
    }
    LS_ASSERT(ls_dtype_valid((int)dtype));
}
