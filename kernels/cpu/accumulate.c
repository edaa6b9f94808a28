// One step of a fold: accumulator = accumulator op in, a loop per element type and operation.
#include "kernels/cpu/accumulate.h"

#include "kernels/cpu/bits.h"
#include "kernels/kernels.h"

// Defines `name`: loads with `load` (a macro or function), combines with expression of a and b,
// stores with `store`.
#define LOOP(name, type, load, store, expression)                                                  \
    LS_CLONES static void name(void *restrict accumulator, const void *restrict in,                \
                               size_t count) {                                                     \
        type *restrict left = accumulator;                                                         \
        const type *restrict right = in;                                                           \
        for (size_t i = 0; i < count; i++) {                                                       \
            __typeof__(load(left[i])) a = load(left[i]);                                           \
            __typeof__(load(left[i])) b = load(right[i]);                                          \
            left[i] = store(expression);                                                           \
        }                                                                                          \
    }

#define AS_IS(x) (x)
#define TO_U8(x) ((uint8_t)(x))

// ---- Integers -----------------------------------------------------------------------------------
// Sums and products wrap alike whatever the sign: one loop per width.
LOOP(sum_8, any_u8, AS_IS, TO_U8, a + b)
LOOP(sum_32, any_u32, AS_IS, AS_IS, a + b)
LOOP(sum_64, any_u64, AS_IS, AS_IS, a + b)
LOOP(prod_8, any_u8, AS_IS, TO_U8, a *b)
LOOP(prod_32, any_u32, AS_IS, AS_IS, a *b)
LOOP(prod_64, any_u64, AS_IS, AS_IS, a *b)
LOOP(band_8, any_u8, AS_IS, TO_U8, a &b)
LOOP(band_32, any_u32, AS_IS, AS_IS, a &b)
LOOP(band_64, any_u64, AS_IS, AS_IS, a &b)
LOOP(bor_8, any_u8, AS_IS, TO_U8, a | b)
LOOP(bor_32, any_u32, AS_IS, AS_IS, a | b)
LOOP(bor_64, any_u64, AS_IS, AS_IS, a | b)
LOOP(bxor_8, any_u8, AS_IS, TO_U8, a ^ b)
LOOP(bxor_32, any_u32, AS_IS, AS_IS, a ^ b)
LOOP(bxor_64, any_u64, AS_IS, AS_IS, a ^ b)
#define MAX_MIN(suffix)                                                                            \
    LOOP(max_##suffix, any_##suffix, AS_IS, AS_IS, a > b ? a : b)                                  \
    LOOP(min_##suffix, any_##suffix, AS_IS, AS_IS, a < b ? a : b)
MAX_MIN(i8)
MAX_MIN(u8)
MAX_MIN(i32)
MAX_MIN(u32)
MAX_MIN(i64)
MAX_MIN(u64)

// ---- Floats: sum and product --------------------------------------------------------------------
// Narrow floats compute in f32 and round again, which is as good as rounding once (scalar.c).
#define SUM_PROD(suffix, type, load, store)                                                        \
    LOOP(sum_##suffix, type, load, store, a + b)                                                   \
    LOOP(prod_##suffix, type, load, store, a *b)
SUM_PROD(f32, any_f32, AS_IS, AS_IS)
SUM_PROD(f64, any_f64, AS_IS, AS_IS)
SUM_PROD(f16, any_u16, f16_decode, f16_encode)
SUM_PROD(bf16, any_u16, bf16_decode, bf16_encode)
SUM_PROD(f8e4m3, any_u8, f8e4m3_decode, f8e4m3_encode)
SUM_PROD(f8e5m2, any_u8, f8e5m2_decode, f8e5m2_encode)

// ---- Floats: max and min ------------------------------------------------------------------------
// On bits as signed integers: flipping the magnitude of negative ones orders them, -0 below +0. A
// NaN loses against a number; of two NaN the accumulator's stays.
#define FLOAT_MAX_MIN(suffix, type, largest, infinity)                                             \
    static inline type order_##suffix(type bits) {                                                 \
        return (type)(bits ^ (bits < 0 ? (largest) : 0));                                          \
    }                                                                                              \
    static inline bool number_##suffix(type bits) {                                                \
        return (bits & (largest)) <= (infinity);                                                   \
    }                                                                                              \
    static inline type max_bits_##suffix(type a, type b) {                                         \
        type larger = order_##suffix(b) > order_##suffix(a) ? b : a;                               \
        type number = number_##suffix(a) ? larger : b;                                             \
        return number_##suffix(b) ? number : a;                                                    \
    }                                                                                              \
    static inline type min_bits_##suffix(type a, type b) {                                         \
        type smaller = order_##suffix(b) < order_##suffix(a) ? b : a;                              \
        type number = number_##suffix(a) ? smaller : b;                                            \
        return number_##suffix(b) ? number : a;                                                    \
    }
typedef int16_t LS_ANY any_i16;
FLOAT_MAX_MIN(f16, int16_t, INT16_MAX, 0x7C00)
FLOAT_MAX_MIN(bf16, int16_t, INT16_MAX, 0x7F80)
FLOAT_MAX_MIN(f32, int32_t, INT32_MAX, 0x7F800000)
FLOAT_MAX_MIN(f64, int64_t, INT64_MAX, 0x7FF0000000000000)
LOOP(max_f16, any_i16, AS_IS, AS_IS, max_bits_f16(a, b))
LOOP(min_f16, any_i16, AS_IS, AS_IS, min_bits_f16(a, b))
LOOP(max_bf16, any_i16, AS_IS, AS_IS, max_bits_bf16(a, b))
LOOP(min_bf16, any_i16, AS_IS, AS_IS, min_bits_bf16(a, b))
LOOP(max_f32, any_i32, AS_IS, AS_IS, max_bits_f32(a, b))
LOOP(min_f32, any_i32, AS_IS, AS_IS, min_bits_f32(a, b))
LOOP(max_f64, any_i64, AS_IS, AS_IS, max_bits_f64(a, b))
LOOP(min_f64, any_i64, AS_IS, AS_IS, min_bits_f64(a, b))
// f8 is compared in f16 and converted back, which saturates infinities.
#define F32_BITS(x)   ((int32_t)bits_of_f32(x))
#define TO_F32_OF(x)  f32_of_bits((uint32_t)(x))
#define LOAD_E4M3(x)  F32_BITS(f8e4m3_decode(x))
#define LOAD_E5M2(x)  F32_BITS(f8e5m2_decode(x))
#define STORE_E4M3(x) f8e4m3_encode(TO_F32_OF(x))
#define STORE_E5M2(x) f8e5m2_encode(TO_F32_OF(x))
LOOP(max_f8e4m3, any_u8, LOAD_E4M3, STORE_E4M3, max_bits_f32(a, b))
LOOP(min_f8e4m3, any_u8, LOAD_E4M3, STORE_E4M3, min_bits_f32(a, b))
LOOP(max_f8e5m2, any_u8, LOAD_E5M2, STORE_E5M2, max_bits_f32(a, b))
LOOP(min_f8e5m2, any_u8, LOAD_E5M2, STORE_E5M2, min_bits_f32(a, b))

#define INTEGER_ROW(width, suffix)                                                                 \
    {                                                                                              \
        [LS_SUM] = sum_##width, [LS_PROD] = prod_##width, [LS_MAX] = max_##suffix,                 \
        [LS_MIN] = min_##suffix, [LS_BAND] = band_##width, [LS_BOR] = bor_##width,                 \
        [LS_BXOR] = bxor_##width                                                                   \
    }
#define FLOAT_ROW(suffix)                                                                          \
    {                                                                                              \
        [LS_SUM] = sum_##suffix, [LS_PROD] = prod_##suffix, [LS_MAX] = max_##suffix,               \
        [LS_MIN] = min_##suffix                                                                    \
    }
static const ls_accumulate_fn loops[LS_DTYPE_COUNT][LS_OP_COUNT] = {
    [LS_I8] = INTEGER_ROW(8, i8),    [LS_U8] = INTEGER_ROW(8, u8),
    [LS_I32] = INTEGER_ROW(32, i32), [LS_U32] = INTEGER_ROW(32, u32),
    [LS_I64] = INTEGER_ROW(64, i64), [LS_U64] = INTEGER_ROW(64, u64),
    [LS_F16] = FLOAT_ROW(f16),       [LS_F32] = FLOAT_ROW(f32),
    [LS_F64] = FLOAT_ROW(f64),       [LS_BF16] = FLOAT_ROW(bf16),
    [LS_F8E4M3] = FLOAT_ROW(f8e4m3), [LS_F8E5M2] = FLOAT_ROW(f8e5m2),
};

ls_accumulate_fn ls_kernel__accumulate_fn(ls_dtype dtype, ls_op op) {
    LS_ASSERT(ls_dtype_valid((int)dtype) && ls_op_valid((int)op));
    LS_ASSERT(loops[dtype][op] != NULL);
    return loops[dtype][op];
}

void ls_kernel_accumulate(void *accumulator, const void *in, ls_dtype dtype, ls_op op,
                          size_t count) {
    ls_accumulate_fn accumulate = ls_kernel__accumulate_fn(dtype, op);
    if (accumulator != in) {
        accumulate(accumulator, in, count);
        return;
    }
    // x op x: the loops may not alias, so go through a copy.
    unsigned char copy[4096];
    size_t bytes = ls_dtype_bytes(dtype);
    size_t step = sizeof copy / bytes;
    for (size_t first = 0; first < count; first += step) {
        size_t length = count - first < step ? count - first : step;
        memcpy(copy, (const char *)in + first * bytes, length * bytes);
        accumulate((char *)accumulator + first * bytes, copy, length);
    }
}
