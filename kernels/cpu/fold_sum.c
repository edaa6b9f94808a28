// The common fold, a plain sum of 4- or 8-byte elements: some vectors of several inputs are added
// up in registers, so every input is read once. Of many inputs eight are read at a time, block by
// block, with the sum so far in the first cache: neither the caches' sets nor the prefetchers take
// more streams (64 inputs in memory: twice as fast).
#include "kernels/cpu/fold_sum.h"

#include <stdint.h>

#include "kernels/cpu/bits.h"

#define VECTOR_BYTES 32
#define VECTORS      4     // at a time: two cache lines of every input
#define TOGETHER     8     // inputs
#define TOGETHER_MAX 12    // of so many, all
#define BLOCK_BYTES  4096  // of the sum so far

// Defines `name`. Element by element the additions are those of a left fold over the inputs. The
// last inputs' loop writes to `out`, which may be one of the inputs: the block's others were read.
#define FOLD_SUM(name, type, any_type)                                                             \
    typedef type vector_##type __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(1)));  \
    /* out [count] = begun [count] (NULL: in[0]) + the elements of in[0 .. in_count) from first */ \
    LS_CLONES static void name##_some(void *out, const void *begun, const void *const *in,         \
                                      size_t in_count, size_t first, size_t count) {               \
        const size_t width = VECTOR_BYTES / sizeof(type);                                          \
        const size_t step = VECTORS * width;                                                       \
        const type *start = begun != NULL ? begun : (const type *)in[0] + first;                   \
        const size_t from = begun != NULL ? 0 : 1;                                                 \
        size_t i = 0;                                                                              \
        for (; i + step <= count; i += step) {                                                     \
            const vector_##type *source = (const vector_##type *)(start + i);                      \
            vector_##type a = source[0];                                                           \
            vector_##type b = source[1];                                                           \
            vector_##type c = source[2];                                                           \
            vector_##type d = source[3];                                                           \
            for (size_t k = from; k < in_count; k++) {                                             \
                source = (const vector_##type *)((const type *)in[k] + first + i);                 \
                a += source[0];                                                                    \
                b += source[1];                                                                    \
                c += source[2];                                                                    \
                d += source[3];                                                                    \
            }                                                                                      \
            vector_##type *target = (vector_##type *)((type *)out + i);                            \
            target[0] = a;                                                                         \
            target[1] = b;                                                                         \
            target[2] = c;                                                                         \
            target[3] = d;                                                                         \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            type sum = ((const any_type *)start)[i];                                               \
            for (size_t k = from; k < in_count; k++) {                                             \
                sum += ((const any_type *)in[k])[first + i];                                       \
            }                                                                                      \
            ((any_type *)out)[i] = sum;                                                            \
        }                                                                                          \
    }                                                                                              \
    static void name(void *out, const void *const *in, size_t in_count, size_t first,              \
                     size_t count) {                                                               \
        type *to = (type *)out + first;                                                            \
        if (in_count <= TOGETHER_MAX) {                                                            \
            name##_some(to, NULL, in, in_count, first, count);                                     \
            return;                                                                                \
        }                                                                                          \
        _Alignas(VECTOR_BYTES) type sum[BLOCK_BYTES / sizeof(type)];                               \
        const size_t block = sizeof sum / sizeof *sum;                                             \
        for (size_t i = 0; i < count; i += block) {                                                \
            size_t length = count - i < block ? count - i : block;                                 \
            for (size_t k = 0; k < in_count; k += TOGETHER) {                                      \
                bool last = in_count - k <= TOGETHER;                                              \
                name##_some(last ? to + i : sum, k == 0 ? NULL : sum, in + k,                      \
                            last ? in_count - k : TOGETHER, first + i, length);                    \
            }                                                                                      \
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
