// Multiplying, multiply-adding and dividing arrays by one number.
#include <math.h>

#include "kernels/cpu/accumulate.h"
#include "kernels/cpu/bits.h"
#include "kernels/kernels.h"

#define AS_IS(x) (x)
#define TO_U8(x) ((uint8_t)(x))

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
    case LS_I8:
    case LS_U8:
        SCALE(any_u8, AS_IS, TO_U8);
        return;
    case LS_I32:
    case LS_U32:
        SCALE(any_u32, AS_IS, AS_IS);
        return;
    case LS_I64:
    case LS_U64:
        SCALE(any_u64, AS_IS, AS_IS);
        return;
    case LS_F16:
        SCALE(any_u16, f16_decode, f16_encode);
        return;
    case LS_BF16:
        SCALE(any_u16, bf16_decode, bf16_encode);
        return;
    case LS_F32:
        SCALE(any_f32, AS_IS, AS_IS);
        return;
    case LS_F64:
        SCALE(any_f64, AS_IS, AS_IS);
        return;
    case LS_F8E4M3:
        SCALE(any_u8, f8e4m3_decode, f8e4m3_encode);
        return;
    case LS_F8E5M2:
        SCALE(any_u8, f8e5m2_decode, f8e5m2_encode);
        return;
    case LS_DTYPE_COUNT:
        break;
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
    case LS_F32:
        fma_f32(accumulator, in, *(const any_f32 *)factor, count);
        return;
    case LS_F64:
        fma_f64(accumulator, in, *(const any_f64 *)factor, count);
        return;
    case LS_F16:
        for (size_t i = 0; i < count; i++) {
            any_u16 *out = (any_u16 *)accumulator + i;
            *out = ls_f16_fma(((const any_u16 *)in)[i], *(const any_u16 *)factor, *out);
        }
        return;
    default:
        LS_ASSERT(dtype == LS_BF16);
        for (size_t i = 0; i < count; i++) {
            any_u16 *out = (any_u16 *)accumulator + i;
            *out = ls_bf16_fma(((const any_u16 *)in)[i], *(const any_u16 *)factor, *out);
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
    case LS_I8:
        DIVIDE(any_i8, int8_t, x / whole);
        return;
    case LS_U8:
        DIVIDE(any_u8, uint8_t, x / whole);
        return;
    case LS_I32:
        DIVIDE(any_i32, int32_t, x / whole);
        return;
    case LS_U32:
        DIVIDE(any_u32, uint32_t, x / whole);
        return;
    case LS_I64:
        DIVIDE(any_i64, int64_t, x / whole);
        return;
    case LS_U64:
        DIVIDE(any_u64, uint64_t, x / (uint64_t)divisor);
        return;
    case LS_F16:
        DIVIDE(any_u16, uint16_t, f16_encode_f64((double)f16_decode(x) / real));
        return;
    case LS_BF16:
        DIVIDE(any_u16, uint16_t, bf16_encode_f64((double)bf16_decode(x) / real));
        return;
    case LS_F32:
        DIVIDE(any_f32, float, (double)x / real);
        return;
    case LS_F64:
        DIVIDE(any_f64, double, x / real);
        return;
    case LS_F8E4M3:
        DIVIDE(any_u8, uint8_t, f8e4m3_encode_f64((double)f8e4m3_decode(x) / real));
        return;
    case LS_F8E5M2:
        DIVIDE(any_u8, uint8_t, f8e5m2_encode_f64((double)f8e5m2_decode(x) / real));
        return;
    case LS_DTYPE_COUNT:
        break;
    }
    LS_ASSERT(ls_dtype_valid((int)dtype));
}
