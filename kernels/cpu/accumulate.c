// One step of a fold: accumulator = accumulator op in, a loop per element type and operation.
#include "kernels/cpu/accumulate.h"

#include "kernels/cpu/bits.h"
#include "kernels/field.h"
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
// Sums and products wrap alike whatever the sign: one loop per width, in bytes.
#define INTEGER_LOOPS(bytes, store)                                                                \
    LOOP(sum_##bytes, any_bits_##bytes, AS_IS, store, a + b)                                       \
    LOOP(prod_##bytes, any_bits_##bytes, AS_IS, store, a *b)                                       \
    LOOP(band_##bytes, any_bits_##bytes, AS_IS, store, a &b)                                       \
    LOOP(bor_##bytes, any_bits_##bytes, AS_IS, store, a | b)                                       \
    LOOP(bxor_##bytes, any_bits_##bytes, AS_IS, store, a ^ b)
INTEGER_LOOPS(1, TO_U8)
INTEGER_LOOPS(4, AS_IS)
INTEGER_LOOPS(8, AS_IS)
#define MAX_MIN(name, value, suffix, ...)                                                          \
    LOOP(max_##suffix, any_##suffix, AS_IS, AS_IS, a > b ? a : b)                                  \
    LOOP(min_##suffix, any_##suffix, AS_IS, AS_IS, a < b ? a : b)
LS_DTYPE_INTEGER_MAP(MAX_MIN)

// ---- Floats: sum and product --------------------------------------------------------------------
// Narrow floats compute in f32 and round again, which is as good as rounding once (scalar.c).
#define SUM_PROD(suffix, type, load, store)                                                        \
    LOOP(sum_##suffix, type, load, store, a + b)                                                   \
    LOOP(prod_##suffix, type, load, store, a *b)
SUM_PROD(f32, any_f32, AS_IS, AS_IS)
SUM_PROD(f64, any_f64, AS_IS, AS_IS)
#define NARROW_SUM_PROD(name, value, suffix, bytes, ...)                                           \
    SUM_PROD(suffix, any_bits_##bytes, suffix##_decode, suffix##_encode)
LS_DTYPE_NARROW_MAP(NARROW_SUM_PROD)

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
FLOAT_MAX_MIN(f32, int32_t, INT32_MAX, 0x7F800000)
FLOAT_MAX_MIN(f64, int64_t, INT64_MAX, 0x7FF0000000000000)
LOOP(max_f32, any_i32, AS_IS, AS_IS, max_bits_f32(a, b))
LOOP(min_f32, any_i32, AS_IS, AS_IS, min_bits_f32(a, b))
LOOP(max_f64, any_i64, AS_IS, AS_IS, max_bits_f64(a, b))
LOOP(min_f64, any_i64, AS_IS, AS_IS, min_bits_f64(a, b))
// Two bytes are compared as they are. One byte is compared in f32 and converted back, which
// saturates infinities.
typedef int8_t ordered_1;
typedef int16_t ordered_2;
#define ORDERED_MAX_1        INT8_MAX
#define ORDERED_MAX_2        INT16_MAX
#define F32_OF(suffix, bits) ((int32_t)bits_of_f32(suffix##_decode(bits)))
#define THROUGH_F32(suffix, best)                                                                  \
    suffix##_encode(f32_of_bits((uint32_t)best##_bits_f32(F32_OF(suffix, a), F32_OF(suffix, b))))
#define NARROW_MAX_MIN(name, value, suffix, bytes, class_, precision, subnormal, largest, top,     \
                       ...)                                                                        \
    FLOAT_MAX_MIN(suffix, ordered_##bytes, ORDERED_MAX_##bytes, top)                               \
    static inline any_bits_##bytes max_of_##suffix(any_bits_##bytes a, any_bits_##bytes b) {       \
        return (class_) == 'q'                                                                     \
                   ? (any_bits_##bytes)THROUGH_F32(suffix, max)                                    \
                   : (any_bits_##bytes)max_bits_##suffix((ordered_##bytes)a, (ordered_##bytes)b);  \
    }                                                                                              \
    static inline any_bits_##bytes min_of_##suffix(any_bits_##bytes a, any_bits_##bytes b) {       \
        return (class_) == 'q'                                                                     \
                   ? (any_bits_##bytes)THROUGH_F32(suffix, min)                                    \
                   : (any_bits_##bytes)min_bits_##suffix((ordered_##bytes)a, (ordered_##bytes)b);  \
    }                                                                                              \
    LOOP(max_##suffix, any_bits_##bytes, AS_IS, AS_IS, max_of_##suffix(a, b))                      \
    LOOP(min_##suffix, any_bits_##bytes, AS_IS, AS_IS, min_of_##suffix(a, b))
LS_DTYPE_NARROW_MAP(NARROW_MAX_MIN)

#define INTEGER_ROW(name, value, suffix, bytes, ...)                                               \
    [LS_##name] = {[LS_SUM] = sum_##bytes,  [LS_PROD] = prod_##bytes, [LS_MAX] = max_##suffix,     \
                   [LS_MIN] = min_##suffix, [LS_BAND] = band_##bytes, [LS_BOR] = bor_##bytes,      \
                   [LS_BXOR] = bxor_##bytes},
#define FLOAT_ROW(name, value, suffix, ...)                                                        \
    [LS_##name] = {[LS_SUM] = sum_##suffix,                                                        \
                   [LS_PROD] = prod_##suffix,                                                      \
                   [LS_MAX] = max_##suffix,                                                        \
                   [LS_MIN] = min_##suffix},
static void sum_field(void *restrict accumulator, const void *restrict in, size_t count) {
    for (size_t i = 0; i < count; i++) {
        any_u32 *to = (any_u32 *)accumulator + i;
        *to = ls_field_plus(*to, ((const any_u32 *)in)[i]);
    }
}

static void prod_field(void *restrict accumulator, const void *restrict in, size_t count) {
    for (size_t i = 0; i < count; i++) {
        any_u32 *to = (any_u32 *)accumulator + i;
        *to = ls_field_times(*to, ((const any_u32 *)in)[i]);
    }
}

static const ls_accumulate_fn loops[LS_FIELD + 1][LS_OP_COUNT] = {
    LS_DTYPE_INTEGER_MAP(INTEGER_ROW)
        LS_DTYPE_FLOAT_MAP(FLOAT_ROW)[LS_FIELD] = {[LS_SUM] = sum_field, [LS_PROD] = prod_field}};

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
