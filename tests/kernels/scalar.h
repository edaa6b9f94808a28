// Single narrow floats, for tests: conversions and arithmetic that round once, as the kernels do.
#pragma once

#include "kernels/cpu/bits.h"

#define CONVERT(out, name, in, expression)                                                         \
    static inline out ls_##name(in a) {                                                            \
        return expression;                                                                         \
    }
CONVERT(float, f16_to_f32, uint16_t, f16_decode(a))
CONVERT(uint16_t, f32_to_f16, float, f16_encode(a))
CONVERT(uint16_t, f64_to_f16, double, f16_encode_f64(a))
CONVERT(float, bf16_to_f32, uint16_t, bf16_decode(a))
CONVERT(uint16_t, f32_to_bf16, float, bf16_encode(a))
CONVERT(uint16_t, f64_to_bf16, double, bf16_encode_f64(a))
CONVERT(uint16_t, f8e4m3_to_f16, uint8_t, f16_encode(f8e4m3_decode(a)))
CONVERT(uint16_t, f8e5m2_to_f16, uint8_t, f16_encode(f8e5m2_decode(a)))
CONVERT(uint8_t, f16_to_f8e4m3, uint16_t, f8e4m3_encode(f16_decode(a)))
CONVERT(uint8_t, f16_to_f8e5m2, uint16_t, f8e5m2_encode(f16_decode(a)))

// f32 has more than 2 p + 2 bits for p = 11 and p = 8, so rounding an f32 sum or product again
// gives the correctly rounded narrow result. (A product of 16 bits that f32 cannot hold is below
// half of bf16's smallest number: 0 both ways.)
#define ARITHMETIC(type, name)                                                                     \
    static inline type ls_##name##_add(type a, type b) {                                           \
        return name##_encode(name##_decode(a) + name##_decode(b));                                 \
    }                                                                                              \
    static inline type ls_##name##_mul(type a, type b) {                                           \
        return name##_encode(name##_decode(a) * name##_decode(b));                                 \
    }
ARITHMETIC(uint16_t, f16)
ARITHMETIC(uint16_t, bf16)
ARITHMETIC(uint8_t, f8e4m3)
ARITHMETIC(uint8_t, f8e5m2)
