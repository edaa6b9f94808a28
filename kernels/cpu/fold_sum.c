// The common fold, a plain sum of 4- or 8-byte elements: all inputs of a few vectors are added up
// in registers, so every input is read once and nothing but the result is written.
#include "kernels/cpu/fold_sum.h"

#include <stdint.h>

#include "kernels/cpu/bits.h"

#define VECTOR_BYTES 32
#define VECTORS      4  // at a time: two cache lines of every input

// Defines `name`. Element by element the additions are those of a left fold over the inputs.
#define FOLD_SUM(name, type, any_type)                                                             \
    typedef type vector_##type __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(1)));  \
    LS_CLONES static void name(void *out, const void *const *in, size_t in_count, size_t first,    \
                               size_t count) {                                                     \
        const size_t width = VECTOR_BYTES / sizeof(type);                                          \
        const size_t step = VECTORS * width;                                                       \
        size_t i = 0;                                                                              \
        for (; i + step <= count; i += step) {                                                     \
            const vector_##type *source =                                                          \
                (const vector_##type *)((const type *)in[0] + first + i);                          \
            vector_##type a = source[0];                                                           \
            vector_##type b = source[1];                                                           \
            vector_##type c = source[2];                                                           \
            vector_##type d = source[3];                                                           \
            for (size_t k = 1; k < in_count; k++) {                                                \
                source = (const vector_##type *)((const type *)in[k] + first + i);                 \
                a += source[0];                                                                    \
                b += source[1];                                                                    \
                c += source[2];                                                                    \
                d += source[3];                                                                    \
            }                                                                                      \
            vector_##type *target = (vector_##type *)((type *)out + first + i);                    \
            target[0] = a;                                                                         \
            target[1] = b;                                                                         \
            target[2] = c;                                                                         \
            target[3] = d;                                                                         \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            type sum = ((const any_type *)in[0])[first + i];                                       \
            for (size_t k = 1; k < in_count; k++) {                                                \
                sum += ((const any_type *)in[k])[first + i];                                       \
            }                                                                                      \
            ((any_type *)out)[first + i] = sum;                                                    \
        }                                                                                          \
    }

FOLD_SUM(fold_f32, float, any_f32)
FOLD_SUM(fold_f64, double, any_f64)
FOLD_SUM(fold_u32, uint32_t, any_u32)
FOLD_SUM(fold_u64, uint64_t, any_u64)

ls_fold_sum_fn ls_kernel__fold_sum_fn(ls_dtype dtype) {
    switch (dtype) {
    case LS_F32:
        return fold_f32;
    case LS_F64:
        return fold_f64;
    case LS_I32:
    case LS_U32:
        return fold_u32;  // sums wrap alike whatever the sign
    case LS_I64:
    case LS_U64:
        return fold_u64;
    default:
        return NULL;
    }
}
