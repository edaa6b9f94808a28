// Conversions between float formats on bit patterns, without branches, so that the loops around
// them vectorise. Private to the fast kernels; references and tests have conversions of their own.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

// Element types of a caller's memory: it may hold anything and start anywhere.
#define LS_ANY __attribute__((may_alias, aligned(1)))
typedef int8_t LS_ANY any_i8;
typedef uint8_t LS_ANY any_u8;
typedef uint16_t LS_ANY any_u16;
typedef int32_t LS_ANY any_i32;
typedef uint32_t LS_ANY any_u32;
typedef int64_t LS_ANY any_i64;
typedef uint64_t LS_ANY any_u64;
typedef int16_t LS_ANY any_i16;
typedef float LS_ANY any_f32;
typedef double LS_ANY any_f64;
// The bits of an element of so many bytes.
typedef any_u8 any_bits_1;
typedef any_u16 any_bits_2;
typedef any_u32 any_bits_4;
typedef any_u64 any_bits_8;

// Compiles a function a second time for AVX2 and picks at load time. The arithmetic is the same
// (no contraction), so are the results. Off where a sanitizer would run the resolver too early.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_CLONES
#elif defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define LS_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define LS_CLONES
#endif

// The fma instruction and the C library's fma() agree: both round once. Chosen by the instruction
// set, not by the processor's name, which would leave out every vendor but one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) ||       \
    !defined(__gnu_linux__) || defined(__clang__)
#define LS_FMA_CLONES
#else
#define LS_FMA_CLONES __attribute__((target_clones("fma", "default")))
#endif

static inline uint32_t bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double f64_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// condition ? a : b without a branch: gcc would move the float operation behind a or b into one,
// and then not vectorise.
static inline uint32_t select_u32(bool condition, uint32_t a, uint32_t b) {
    uint32_t mask = 0u - (uint32_t)condition;
    return (a & mask) | (b & ~mask);
}

// A narrow float whose magnitude bits stand at f32's mantissa, `rebias` short of f32's exponent:
// normal numbers gain the bias; subnormal ones are normalised by subtracting their implicit bit.
static inline uint32_t widen_bits(uint32_t magnitude, uint32_t rebias) {
    uint32_t normal = magnitude + (rebias << 23);
    uint32_t one = (rebias + 1) << 23;
    uint32_t subnormal = bits_of_f32(f32_of_bits(magnitude + one) - f32_of_bits(one));
    return select_u32(magnitude < 0x00800000u, subnormal, normal);
}

static inline float f16_decode(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7FFFu) << 13;
    uint32_t special = magnitude + (224u << 23);
    special |= magnitude > 0x0F800000u ? 0x00400000u : 0u;
    uint32_t finite = widen_bits(magnitude, 112);
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    return f32_of_bits(select_u32(magnitude >= 0x0F800000u, special, finite) | sign);
}

static inline uint16_t f16_encode(float value) {
    uint32_t bits = bits_of_f32(value);
    uint32_t a = bits & 0x7FFFFFFFu;
    // Below 2^-14, adding 0.5 leaves the rounded subnormal in the low bits of the sum.
    uint32_t subnormal = bits_of_f32(f32_of_bits(a) + 0.5f) - 0x3F000000u;
    uint32_t normal = (a - (112u << 23) + 0x0FFFu + ((a >> 13) & 1u)) >> 13;
    uint32_t finite = select_u32(a < 0x38800000u, subnormal, normal);
    uint32_t nan = 0x7E00u | ((a >> 13) & 0x3FFu);
    uint32_t special = a > 0x7F800000u ? nan : 0x7C00u;
    uint32_t result = select_u32(a >= 0x47800000u, special, finite);
    return (uint16_t)(result | ((bits >> 16) & 0x8000u));
}

static inline float bf16_decode(uint16_t half) {
    uint32_t quiet = (half & 0x7FFFu) > 0x7F80u ? 0x00400000u : 0u;
    return f32_of_bits(((uint32_t)half << 16) | quiet);
}

static inline uint16_t bf16_encode(float value) {
    uint32_t bits = bits_of_f32(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | 0x0040u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

static inline float f8e4m3_decode(uint8_t byte) {
    uint32_t finite = widen_bits((uint32_t)(byte & 0x7Fu) << 20, 120);
    uint32_t result = select_u32((byte & 0x7Fu) == 0x7Fu, 0x7FC00000u, finite);
    return f32_of_bits(result | (uint32_t)(byte & 0x80u) << 24);
}

static inline float f8e5m2_decode(uint8_t byte) {
    return f16_decode((uint16_t)((uint32_t)byte << 8));
}

// One rounding; saturates at 448. Sums and products of two f8 numbers may come here without the
// stop at f16 that NCCL makes: f16's 11 bits are more than 2 p + 1, so both roundings are as good
// as one, as the tests show for every pair.
static inline uint8_t f8e4m3_encode(float value) {
    uint32_t bits = bits_of_f32(value);
    uint32_t a = bits & 0x7FFFFFFFu;
    uint32_t subnormal = bits_of_f32(f32_of_bits(a) + 0x1p14f) - bits_of_f32(0x1p14f);
    uint32_t normal = (a - (120u << 23) + 0x7FFFFu + ((a >> 20) & 1u)) >> 20;
    normal = normal > 0x7Eu ? 0x7Eu : normal;
    uint32_t finite = select_u32(a < bits_of_f32(0x1p-6f), subnormal, normal);
    uint32_t result = select_u32(a > 0x7F800000u, 0x7Fu, finite);
    return (uint8_t)(result | ((bits >> 24) & 0x80u));
}

// One rounding; saturates at 57344.
static inline uint8_t f8e5m2_encode(float value) {
    uint32_t bits = bits_of_f32(value);
    uint32_t a = bits & 0x7FFFFFFFu;
    uint32_t subnormal = bits_of_f32(f32_of_bits(a) + 0x1p7f) - bits_of_f32(0x1p7f);
    uint32_t normal = (a - (112u << 23) + 0xFFFFFu + ((a >> 21) & 1u)) >> 21;
    normal = normal > 0x7Bu ? 0x7Bu : normal;
    uint32_t finite = select_u32(a < bits_of_f32(0x1p-14f), subnormal, normal);
    uint32_t result = select_u32(a > 0x7F800000u, 0x7Fu, finite);
    return (uint8_t)(result | ((bits >> 24) & 0x80u));
}

// Rounds the finite or infinite double `bits` once to a format with `mantissa` stored bits and
// smallest normal exponent `exponent_min`. Magnitude bits without sign; past the largest finite
// number they run on (callers clamp).
static inline uint64_t f64_round_to(uint64_t bits, int mantissa, int exponent_min) {
    uint64_t a = bits & 0x7FFFFFFFFFFFFFFFu;
    int exponent = (int)(a >> 52) - 1023;  // f64's own subnormals are far below half a step
    int below = exponent_min - exponent;
    int shift = 52 - mantissa + (below > 0 ? below : 0);
    shift = shift > 63 ? 63 : shift;
    uint64_t significand = (a & 0x000FFFFFFFFFFFFFu) | 0x0010000000000000u;
    uint64_t quotient = significand >> shift;
    uint64_t half = (uint64_t)1 << (shift - 1);
    uint64_t rest = significand & ((half << 1) - 1);
    quotient += (rest > half || (rest == half && (quotient & 1))) ? 1u : 0u;
    uint64_t base = below > 0 ? 0u : (uint64_t)(-below) << mantissa;
    return base + quotient;  // a normal quotient has its implicit bit: it adds one to the exponent
}

static inline uint16_t f16_encode_f64(double value) {
    uint64_t bits = bits_of_f64(value);
    uint64_t a = bits & 0x7FFFFFFFFFFFFFFFu;
    uint64_t finite = f64_round_to(bits, 10, -14);
    uint64_t result = finite > 0x7C00u ? 0x7C00u : finite;
    uint64_t nan = 0x7E00u | ((a >> 42) & 0x3FFu);
    result = a > 0x7FF0000000000000u ? nan : result;
    return (uint16_t)(result | (bits >> 48 & 0x8000u));
}

static inline uint16_t bf16_encode_f64(double value) {
    uint64_t bits = bits_of_f64(value);
    uint64_t a = bits & 0x7FFFFFFFFFFFFFFFu;
    uint64_t finite = f64_round_to(bits, 7, -126);
    uint64_t result = finite > 0x7F80u ? 0x7F80u : finite;
    uint64_t nan = 0x7FC0u | ((a >> 45) & 0x7Fu);
    result = a > 0x7FF0000000000000u ? nan : result;
    return (uint16_t)(result | (bits >> 48 & 0x8000u));
}

static inline uint8_t f8e4m3_encode_f64(double value) {
    uint64_t bits = bits_of_f64(value);
    uint64_t a = bits & 0x7FFFFFFFFFFFFFFFu;
    uint64_t finite = f64_round_to(bits, 3, -6);
    uint64_t result = finite > 0x7Eu ? 0x7Eu : finite;
    result = a > 0x7FF0000000000000u ? 0x7Fu : result;
    return (uint8_t)(result | (bits >> 56 & 0x80u));
}

static inline uint8_t f8e5m2_encode_f64(double value) {
    uint64_t bits = bits_of_f64(value);
    uint64_t a = bits & 0x7FFFFFFFFFFFFFFFu;
    uint64_t finite = f64_round_to(bits, 2, -14);
    uint64_t result = finite > 0x7Bu ? 0x7Bu : finite;
    result = a > 0x7FF0000000000000u ? 0x7Fu : result;
    return (uint8_t)(result | (bits >> 56 & 0x80u));
}

// a + b rounded to odd: the double of the exact sum if there is one, else of its two neighbours the
// one with an odd last bit. A later rounding to at most 51 bits is then as if from the exact sum
// (Boldo and Melquiond 2008). The exact sum must be finite and far above f64's subnormals.
static inline double f64_add_to_odd(double a, double b) {
    double sum = a + b;
    double b_part = sum - a;
    double error = (a - (sum - b_part)) + (b - b_part);
    uint64_t bits = bits_of_f64(sum);
    bool inexact = error > 0.0 || error < 0.0;  // not so for infinities and NaN
    if (inexact && (bits & 1u) == 0) {
        // Away from zero when the error has the sum's sign, else toward zero. The sum is not 0: a
        // sum that cancels is exact.
        bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
    }
    return f64_of_bits(bits);
}

// a b + c, rounded once: the product is exact in f64.
static inline uint16_t f16_fma(uint16_t a, uint16_t b, uint16_t c) {
    double product = (double)f16_decode(a) * (double)f16_decode(b);
    return f16_encode_f64(f64_add_to_odd(product, (double)f16_decode(c)));
}

static inline uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c) {
    double product = (double)bf16_decode(a) * (double)bf16_decode(b);
    return bf16_encode_f64(f64_add_to_odd(product, (double)bf16_decode(c)));
}
