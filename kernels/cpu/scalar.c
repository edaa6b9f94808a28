// Arithmetic on single narrow floats, each operation rounded once.
#include "kernels/cpu/bits.h"
#include "kernels/kernels.h"

// f32 has more than 2 p + 2 bits for p = 11 and p = 8, so rounding an f32 sum, product or quotient
// again gives the correctly rounded narrow result.
uint16_t ls_f16_add(uint16_t a, uint16_t b) {
    return f16_encode(f16_decode(a) + f16_decode(b));
}

uint16_t ls_f16_mul(uint16_t a, uint16_t b) {
    return f16_encode(f16_decode(a) * f16_decode(b));
}

uint16_t ls_f16_fma(uint16_t a, uint16_t b, uint16_t c) {
    // The product is exact in f64.
    double product = (double)f16_decode(a) * (double)f16_decode(b);
    return f16_encode_f64(f64_add_to_odd(product, (double)f16_decode(c)));
}

uint16_t ls_bf16_add(uint16_t a, uint16_t b) {
    return bf16_encode(bf16_decode(a) + bf16_decode(b));
}

uint16_t ls_bf16_mul(uint16_t a, uint16_t b) {
    // A product of 16 bits that f32 can not hold is below half of bf16's smallest number: 0 both
    // ways.
    return bf16_encode(bf16_decode(a) * bf16_decode(b));
}

uint16_t ls_bf16_fma(uint16_t a, uint16_t b, uint16_t c) {
    double product = (double)bf16_decode(a) * (double)bf16_decode(b);
    return bf16_encode_f64(f64_add_to_odd(product, (double)bf16_decode(c)));
}

uint8_t ls_f8e4m3_add(uint8_t a, uint8_t b) {
    return f8e4m3_encode(f8e4m3_decode(a) + f8e4m3_decode(b));
}

uint8_t ls_f8e4m3_mul(uint8_t a, uint8_t b) {
    return f8e4m3_encode(f8e4m3_decode(a) * f8e4m3_decode(b));
}

uint8_t ls_f8e5m2_add(uint8_t a, uint8_t b) {
    return f8e5m2_encode(f8e5m2_decode(a) + f8e5m2_decode(b));
}

uint8_t ls_f8e5m2_mul(uint8_t a, uint8_t b) {
    return f8e5m2_encode(f8e5m2_decode(a) * f8e5m2_decode(b));
}
