// Whether an array holds a NaN or an infinity: what a debugger of numbers asks of every result, so
// it must cost next to nothing.
#include <math.h>

#include "kernels/cpu/bits.h"
#include "kernels/kernels.h"

#define VECTOR_BYTES 32

// Whether any word, sign apart, is at least `least`: the difference carries into the sign.
#define DEFINE_ANY_FROM(name, word, any_word)                                                      \
    typedef word vector_##name __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(1)));  \
    LS_CLONES static bool name(const void *data, size_t count, word least) {                       \
        const size_t width = VECTOR_BYTES / sizeof(word);                                          \
        const word sign = (word)((word)1 << (8 * sizeof(word) - 1));                               \
        const vector_##name rest = (word)(sign - 1) - (vector_##name){0};                          \
        const vector_##name carry = (word)(sign - least) - (vector_##name){0};                     \
        vector_##name a = {0}, b = {0};                                                            \
        size_t i = 0;                                                                              \
        for (; i + 2 * width <= count; i += 2 * width) {                                           \
            const vector_##name *at = (const vector_##name *)((const any_word *)data + i);         \
            a |= (at[0] & rest) + carry;                                                           \
            b |= (at[1] & rest) + carry;                                                           \
        }                                                                                          \
        a |= b;                                                                                    \
        word any = 0;                                                                              \
        for (size_t k = 0; k < width; k++) {                                                       \
            any = (word)(any | a[k]);                                                              \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            word now = ((const any_word *)data)[i];                                                \
            any = (word)(any | ((now & (word)(sign - 1)) + (word)(sign - least)));                 \
        }                                                                                          \
        return (any & sign) != 0;                                                                  \
    }
DEFINE_ANY_FROM(from_u8, uint8_t, any_u8)
DEFINE_ANY_FROM(from_u16, uint16_t, any_u16)
DEFINE_ANY_FROM(from_u32, uint32_t, any_u32)
DEFINE_ANY_FROM(from_u64, uint64_t, any_u64)

bool ls_kernel_any_special(const void *data, size_t count, ls_dtype dtype) {
    if (!ls_dtype_is_float(dtype)) {
        return false;
    }
    uint64_t least = ls_dtype_special_bits(dtype);
    switch (ls_dtype_bytes(dtype)) {
    case 1:
        return from_u8(data, count, (uint8_t)least);
    case 2:
        return from_u16(data, count, (uint16_t)least);
    case 4:
        return from_u32(data, count, (uint32_t)least);
    default:
        return from_u64(data, count, least);
    }
}

bool ls_kernel_any_special_reference(const void *data, size_t count, ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; ls_dtype_is_float(dtype) && i < count; i++) {
        if (!isfinite(ls_element_to_f64((const char *)data + i * bytes, dtype))) {
            return true;
        }
    }
    return false;
}
