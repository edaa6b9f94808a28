// Arithmetic on narrow floats against exact arithmetic: fixed point in 128-bit integers for f16 and
// f8, sums of two quadruple-precision numbers for bf16.
#include <criterion/criterion.h>

#include "oracle.h"
#include "scalar.h"

// Random cases per test; sanitized builds, which are many times slower, take a part of them.
#if defined(__SANITIZE_ADDRESS__)
#define CASES 500000
#else
#define CASES 2000000
#endif

__extension__ typedef __int128 wide;

static oracle f16;
static oracle bf16;
static wide f16_midpoints[0x7C00];  // in units of 2^-48, the last bit of any product

static wide fixed(unsigned bits) {
    return (wide)ldexp(oracle_decode(&f16, bits), 24);
}

static void set_up(void) {
    oracle_init(&f16, LS_F16);
    oracle_init(&bf16, LS_BF16);
    for (unsigned i = 0; i < f16.finite; i++) {
        f16_midpoints[i] = (wide)(f16.midpoints[i] * (quad)0x1p48);
    }
}

TestSuite(scalar, .init = set_up);

// a b + c in f16, c in units of 2^-48 like the product; all finite.
static unsigned f16_round_fixed(wide value, bool negative_zero) {
    bool negative = value == 0 ? negative_zero : value < 0;
    wide magnitude = value < 0 ? -value : value;
    unsigned low = 0;
    unsigned high = f16.finite;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        wide midpoint = f16_midpoints[middle];
        if (magnitude > midpoint || (magnitude == midpoint && (middle & 1u) != 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low | (negative ? 0x8000u : 0u);
}

// The exact a b + c as f16, special values by the rules of IEEE 754 (done by the host's double).
static unsigned f16_fma_exact(unsigned a, unsigned b, unsigned c) {
    double x = oracle_decode(&f16, a);
    double y = oracle_decode(&f16, b);
    double z = oracle_decode(&f16, c);
    double about = x * y + z;
    if (!isfinite(about)) {
        return isnan(about) ? 0x7E00u : (about < 0 ? 0xFC00u : 0x7C00u);
    }
    wide sum = fixed(a) * fixed(b) + fixed(c) * ((wide)1 << 24);
    return f16_round_fixed(sum, signbit(about) != 0);
}

static unsigned bf16_fma_exact(unsigned a, unsigned b, unsigned c) {
    double x = oracle_decode(&bf16, a);
    double y = oracle_decode(&bf16, b);
    double z = oracle_decode(&bf16, c);
    double about = x * y + z;
    if (!isfinite(about)) {
        return isnan(about) ? 0x7FC0u : (about < 0 ? 0xFF80u : 0x7F80u);
    }
    // Sum and its exact error: Dekker, the larger operand first.
    quad p = (quad)x * (quad)y;
    quad q = (quad)z;
    quad large = (p < 0 ? -p : p) > (q < 0 ? -q : q) ? p : q;
    quad small = large == p ? q : p;
    quad sum = large + small;
    quad error = small - (sum - large);
    return oracle_round(&bf16, sum, error, signbit(about) != 0);
}

// Patterns of several kinds: any; ordinary exponents; the neighbourhood of a given pattern.
static uint16_t draw(uint64_t random, unsigned near) {
    uint16_t bits = (uint16_t)(random >> 8);
    switch (random & 3u) {
    case 0:
        return (uint16_t)(near ^ 0x8000u ^ (bits & 3u));
    case 1:
        return (uint16_t)(near + (bits & 0x8FFFu));
    default:
        return bits;
    }
}

// f16 multiply-add rounds once.
Test(scalar, f16_fma_is_exact) {
    uint64_t seed = 3;
    for (int i = 0; i < CASES; i++) {
        uint64_t random = next_random(&seed);
        uint16_t a = (uint16_t)random;
        uint16_t b = (uint16_t)(random >> 16);
        uint16_t c = draw(random >> 32, ls_f16_mul(a, b));
        unsigned want = f16_fma_exact(a, b, c);
        unsigned got = f16_fma(a, b, c);
        cr_assert(oracle_same(&f16, got, want), "%04x %04x %04x: %04x, not %04x", a, b, c, got,
                  want);
    }
}

// f16 sums and products are the exact ones rounded once.
Test(scalar, f16_add_and_mul_are_exact) {
    uint64_t seed = 4;
    for (int i = 0; i < CASES; i++) {
        uint64_t random = next_random(&seed);
        uint16_t a = (uint16_t)random;
        uint16_t b = draw(random >> 16, a);
        cr_assert(oracle_same(&f16, ls_f16_add(a, b), f16_fma_exact(a, 0x3C00, b)), "%x %x", a, b);
        // -0 leaves every product unchanged, except for the sign of a zero.
        bool negative = ((a ^ b) & 0x8000u) != 0;
        unsigned zero = negative ? 0x8000u : 0u;
        cr_assert(oracle_same(&f16, ls_f16_mul(a, b), f16_fma_exact(a, b, zero)), "%x %x", a, b);
    }
}

// bf16 multiply-add rounds once, from 2^-266 to overflow.
Test(scalar, bf16_fma_is_exact) {
    uint64_t seed = 5;
    for (int i = 0; i < CASES; i++) {
        uint64_t random = next_random(&seed);
        uint16_t a = (uint16_t)random;
        uint16_t b = (uint16_t)(random >> 16);
        uint16_t c = draw(random >> 32, ls_bf16_mul(a, b));
        unsigned want = bf16_fma_exact(a, b, c);
        unsigned got = bf16_fma(a, b, c);
        cr_assert(oracle_same(&bf16, got, want), "%04x %04x %04x: %04x, not %04x", a, b, c, got,
                  want);
    }
}

// bf16 sums and products are the exact ones rounded once, products of tiny numbers included.
Test(scalar, bf16_add_and_mul_are_exact) {
    uint64_t seed = 6;
    for (int i = 0; i < CASES; i++) {
        uint64_t random = next_random(&seed);
        uint16_t a = (uint16_t)random;
        uint16_t b = draw(random >> 16, a);
        // Every other product falls around the smallest numbers.
        uint16_t tiny = (uint16_t)(0x7F80u - 0x4000u + 0x100u - (a & 0x7F80u) + (b & 0x7Fu));
        uint16_t factor = i % 2 == 0 ? (uint16_t)(tiny & 0x7FFFu) : b;
        unsigned zero = ((a ^ factor) & 0x8000u) != 0 ? 0x8000u : 0u;
        cr_assert(oracle_same(&bf16, ls_bf16_add(a, b), bf16_fma_exact(a, 0x3F80, b)), "%x %x", a,
                  b);
        cr_assert(oracle_same(&bf16, ls_bf16_mul(a, factor), bf16_fma_exact(a, factor, zero)),
                  "%x %x", a, factor);
    }
}

// The exact a b + c rounded to f64: a quad holds the product exactly; the sum is rounded to odd
// first, which makes the second rounding harmless.
static double f64_fma_exact(double a, double b, double c) {
    quad p = (quad)a * (quad)b;
    quad q = (quad)c;
    quad large = (p < 0 ? -p : p) > (q < 0 ? -q : q) ? p : q;
    quad small = large == p ? q : p;
    quad sum = large + small;
    quad error = small - (sum - large);
    wide bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0 && (bits & 1) == 0) {
        bits += (error > 0) == (sum > 0) ? 1 : -1;
        memcpy(&sum, &bits, sizeof bits);
    }
    return (double)sum;
}

// f64 multiply-add rounds once, where products cancel against the addend too.
Test(scalar, f64_fma_is_exact) {
    enum { BATCH = 1000 };
    static double in[BATCH];
    static double accumulator[BATCH];
    static double before[BATCH];
    uint64_t seed = 7;
    for (int first = 0; first < CASES; first += BATCH) {
        double factor = ldexp((double)(next_random(&seed) >> 11), (int)(first % 61) - 80);
        for (int i = 0; i < BATCH; i++) {
            uint64_t random = next_random(&seed);
            in[i] = ldexp((double)(int64_t)next_random(&seed), (int)(random % 40) - 80);
            before[i] = (random & 64u) != 0
                            ? -in[i] * factor * (1.0 + 0x1p-52 * (double)(random & 7u))
                            : ldexp((double)(int64_t)random, (int)(random % 90) - 90);
            accumulator[i] = before[i];
        }
        ls_kernel_accumulate_fma(accumulator, in, &factor, LS_F64, BATCH);
        for (int i = 0; i < BATCH; i++) {
            double want = f64_fma_exact(in[i], factor, before[i]);
            cr_assert(accumulator[i] == want, "%a * %a + %a: %a, not %a", in[i], factor, before[i],
                      accumulator[i], want);
        }
    }
}

static unsigned f8_through_f16(const oracle *f8, unsigned half) {
    return oracle_is_nan(&f16, half) ? 0x7Fu : oracle_encode(f8, oracle_decode(&f16, half));
}

// Every pair of f8 numbers, added and multiplied in f16 and rounded again.
Test(scalar, all_pairs_of_f8) {
    static oracle f8;
    for (int type = 0; type < 2; type++) {
        oracle_init(&f8, type == 0 ? LS_F8E4M3 : LS_F8E5M2);
        for (unsigned i = 0; i < 65536; i++) {
            uint8_t a = (uint8_t)i;
            uint8_t b = (uint8_t)(i >> 8);
            unsigned x = type == 0 ? ls_f8e4m3_to_f16(a) : ls_f8e5m2_to_f16(a);
            unsigned y = type == 0 ? ls_f8e4m3_to_f16(b) : ls_f8e5m2_to_f16(b);
            unsigned zero = ((x ^ y) & 0x8000u) != 0 ? 0x8000u : 0u;
            unsigned sum = f8_through_f16(&f8, f16_fma_exact(x, 0x3C00, y));
            unsigned product = f8_through_f16(&f8, f16_fma_exact(x, y, zero));
            unsigned got_sum = type == 0 ? ls_f8e4m3_add(a, b) : ls_f8e5m2_add(a, b);
            unsigned got_product = type == 0 ? ls_f8e4m3_mul(a, b) : ls_f8e5m2_mul(a, b);
            cr_assert(oracle_same(&f8, got_sum, sum), "%x + %x: %x, not %x", a, b, got_sum, sum);
            cr_assert(oracle_same(&f8, got_product, product), "%x * %x: %x, not %x", a, b,
                      got_product, product);
        }
    }
}

// Known cases: one rounding is not two. 1 + 2^-11 is a tie in f16; the fused low product breaks it.
Test(scalar, fused_differs_from_two_steps) {
    uint16_t one = 0x3C00;
    uint16_t tiny = ls_f32_to_f16(0x1p-7f);
    uint16_t factor = ls_f32_to_f16(0x1.004p-4f);  // product 2^-11 + 2^-21
    cr_expect(f16_fma(tiny, factor, one) == 0x3C01);
    cr_expect(ls_f16_add(ls_f32_to_f16(0x1p-11f), one) == 0x3C00);
    cr_expect(f16_fma(0x7BFF, 0x4000, 0xFBFF) == 0x7BFF);  // an overflow that comes back
    cr_expect(ls_f16_add(0x7BFF, 0x7BFF) == 0x7C00);
    cr_expect(oracle_is_nan(&f16, ls_f16_add(0x7C00, 0xFC00)));
    cr_expect(ls_f16_add(0x8000, 0x8000) == 0x8000 && ls_f16_add(0x8000, 0) == 0);
}
