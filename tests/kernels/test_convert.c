// Conversions against a list of all numbers of each format and exact midpoints.
#include <criterion/criterion.h>

#include "oracle.h"
#include "scalar.h"

static oracle f16;
static oracle bf16;
static oracle e4m3;
static oracle e5m2;

static void set_up(void) {
    oracle_init(&f16, LS_F16);
    oracle_init(&bf16, LS_BF16);
    oracle_init(&e4m3, LS_F8E4M3);
    oracle_init(&e5m2, LS_F8E5M2);
}

TestSuite(convert, .init = set_up);

static bool same_number(double a, double b) {
    return isnan(a) || isnan(b) ? isnan(a) && isnan(b) : a == b && signbit(a) == signbit(b);
}

// The properties of each float type equal those of its decoded bits: the top is the last pattern
// that is no NaN, max the last finite one, and the one below the smallest is zero.
Test(convert, formats_are_what_the_bits_say) {
    int floats = 0;
    for (int i = 0; i < (int)LS_DTYPE_COUNT; i++) {
        ls_dtype dtype = (ls_dtype)i;
        ls_float_format format = ls_dtype_format(dtype);
        if (!ls_dtype_is_float(dtype)) {
            cr_expect(format.precision == 0 && format.top_bits == 0, "%s", ls_dtype_name(dtype));
            continue;
        }
        floats += 1;
        uint64_t above = format.top_bits + 1, below = format.top_bits - 1, one = 1;
        double top = ls_element_to_f64(&format.top_bits, dtype);  // of a little-endian machine
        double last = isinf(top) ? ls_element_to_f64(&below, dtype) : top;
        uint64_t unit = 0;
        ls_element_from_f64(&unit, dtype, 1.0);
        double next = (unit += 1, ls_element_to_f64(&unit, dtype));
        cr_expect(isnan(ls_element_to_f64(&above, dtype)), "%s", ls_dtype_name(dtype));
        cr_expect(isfinite(last) && last == format.max, "%s", ls_dtype_name(dtype));
        cr_expect(ls_element_to_f64(&one, dtype) == ldexp(1.0, format.subnormal_exponent), "%s",
                  ls_dtype_name(dtype));
        cr_expect(next - 1.0 == ldexp(1.0, 1 - format.precision), "%s", ls_dtype_name(dtype));
        uint64_t beyond = 0;
        ls_element_from_f64(&beyond, dtype, dtype == LS_F64 ? INFINITY : 2 * format.max);
        double result = ls_element_to_f64(&beyond, dtype);
        cr_expect(format.saturates ? result == format.max : isinf(result), "%s",
                  ls_dtype_name(dtype));
    }
    cr_assert(floats == 6);
}

// Every 16-bit pattern decodes to its number.
Test(convert, all_16_bit_patterns_decode) {
    for (unsigned bits = 0; bits <= 0xFFFF; bits++) {
        cr_assert(same_number(ls_f16_to_f32((uint16_t)bits), oracle_decode(&f16, bits)), "%x",
                  bits);
        cr_assert(same_number(ls_bf16_to_f32((uint16_t)bits), oracle_decode(&bf16, bits)), "%x",
                  bits);
    }
}

// Every f8 pattern becomes exactly that number in f16.
Test(convert, all_f8_patterns_decode) {
    for (unsigned bits = 0; bits <= 0xFF; bits++) {
        double a = oracle_decode(&f16, ls_f8e4m3_to_f16((uint8_t)bits));
        double b = oracle_decode(&f16, ls_f8e5m2_to_f16((uint8_t)bits));
        cr_assert(same_number(a, oracle_decode(&e4m3, bits)), "%x", bits);
        cr_assert(same_number(b, oracle_decode(&e5m2, bits)), "%x", bits);
    }
}

// Every f16 pattern rounds to the nearest f8, saturating.
Test(convert, all_f16_patterns_to_f8) {
    for (unsigned bits = 0; bits <= 0xFFFF; bits++) {
        unsigned a = ls_f16_to_f8e4m3((uint16_t)bits);
        unsigned b = ls_f16_to_f8e5m2((uint16_t)bits);
        if (oracle_is_nan(&f16, bits)) {
            cr_assert(oracle_is_nan(&e4m3, a) && oracle_is_nan(&e5m2, b), "%x", bits);
        } else {
            cr_assert(a == oracle_encode(&e4m3, oracle_decode(&f16, bits)), "%x", bits);
            cr_assert(b == oracle_encode(&e5m2, oracle_decode(&f16, bits)), "%x", bits);
        }
    }
}

static void check_f32(float value) {
    cr_assert(ls_f32_to_f16(value) == oracle_encode(&f16, value), "%a", value);
    cr_assert(ls_f32_to_bf16(value) == oracle_encode(&bf16, value), "%a", value);
}

static void check_f64(double value) {
    uint8_t a = 0;
    uint8_t b = 0;
    ls_element_from_f64(&a, LS_F8E4M3, value);
    ls_element_from_f64(&b, LS_F8E5M2, value);
    cr_assert(ls_f64_to_f16(value) == oracle_encode(&f16, value), "%a", value);
    cr_assert(ls_f64_to_bf16(value) == oracle_encode(&bf16, value), "%a", value);
    cr_assert(a == oracle_encode(&e4m3, value), "%a", value);
    cr_assert(b == oracle_encode(&e5m2, value), "%a", value);
}

// The points where rounding changes, and their neighbours on both sides, in f32 and f64. Rounding
// is monotone, so this covers every other number.
static void check_midpoints(const oracle *o) {
    for (unsigned i = 0; i < o->finite; i++) {
        double points[2] = {(double)o->numbers[i], (double)o->midpoints[i]};
        for (int k = 0; k < 4; k++) {
            double point = (k & 1 ? -1 : 1) * points[k / 2];
            float narrow = (float)point;
            cr_assert((double)narrow == point);
            check_f32(narrow);
            check_f32(nextafterf(narrow, INFINITY));
            check_f32(nextafterf(narrow, -INFINITY));
            check_f64(point);
            // A conversion through f32 would round these twice, to the midpoint and then wrongly.
            check_f64(nextafter(point, (double)INFINITY));
            check_f64(nextafter(point, -(double)INFINITY));
        }
    }
}

// f32 and f64 to f16 at every midpoint.
Test(convert, f16_midpoints_round_to_even) {
    check_midpoints(&f16);
}

// f32 and f64 to bf16 at every midpoint.
Test(convert, bf16_midpoints_round_to_even) {
    check_midpoints(&bf16);
}

// f64 to both f8 formats at every midpoint.
Test(convert, f8_midpoints_round_to_even) {
    check_midpoints(&e4m3);
    check_midpoints(&e5m2);
}

// Numbers of all sizes, extremes and NaN.
Test(convert, random_and_extreme_numbers) {
    uint64_t seed = 1;
    for (int i = 0; i < 500000; i++) {
        uint64_t bits = next_random(&seed);
        double wide;
        float narrow;
        memcpy(&wide, &bits, sizeof wide);
        uint32_t low = (uint32_t)bits;
        memcpy(&narrow, &low, sizeof narrow);
        if (!isnan(wide)) {
            check_f64(wide);
        }
        if (!isnan(narrow)) {
            check_f32(narrow);
            check_f64(narrow);
        }
    }
    const double extremes[] = {0.0,    -0.0,    5e-324,           2.2e-308,         1e308,
                               65519., 65520.0, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        check_f64(extremes[i]);
        check_f32((float)extremes[i]);
    }
    // A NaN whose payload does not fit must not become an infinity.
    uint32_t small_payload = 0x7F800001u;
    float nan;
    memcpy(&nan, &small_payload, sizeof nan);
    cr_expect(oracle_is_nan(&f16, ls_f32_to_f16(nan)) && oracle_is_nan(&bf16, ls_f32_to_bf16(nan)));
    cr_expect(oracle_is_nan(&f16, ls_f64_to_f16(NAN)) && oracle_is_nan(&bf16, ls_f64_to_bf16(NAN)));
}

// Doubles become integers by truncation and clamping; NaN becomes 0.
Test(convert, doubles_to_integers_clamp) {
    int8_t i8 = 1;
    uint8_t u8 = 1;
    int64_t i64 = 1;
    uint64_t u64 = 1;
    ls_element_from_f64(&i8, LS_I8, -1.9);
    cr_expect(i8 == -1);
    ls_element_from_f64(&i8, LS_I8, -1e9);
    cr_expect(i8 == -128);
    ls_element_from_f64(&u8, LS_U8, 255.9);
    cr_expect(u8 == 255);
    ls_element_from_f64(&u8, LS_U8, -3);
    cr_expect(u8 == 0);
    ls_element_from_f64(&i64, LS_I64, 0x1p63);
    cr_expect(i64 == INT64_MAX);
    ls_element_from_f64(&i64, LS_I64, -0x1p63);
    cr_expect(i64 == INT64_MIN);
    ls_element_from_f64(&u64, LS_U64, 0x1p63 + 0x1p12);
    cr_expect(u64 == ((uint64_t)1 << 63) + 4096);
    ls_element_from_f64(&u64, LS_U64, NAN);
    cr_expect(u64 == 0);
}

// Integers beyond 2^53 reach bf16 and f32 with one rounding: 2^60 + 2^52 + 1 is just above a tie
// of bf16, and a stop at f64 would lose the 1.
Test(convert, wide_integers_round_once) {
    const int64_t in[2] = {((int64_t)1 << 60) + ((int64_t)1 << 52) + 1,
                           -(((int64_t)1 << 60) + ((int64_t)1 << 36) + 1)};
    uint16_t narrow[2];
    ls_kernel_convert(narrow, LS_BF16, in, LS_I64, 2);
    cr_expect(oracle_decode(&bf16, narrow[0]) == 0x1.02p60);
    float wider[2];
    ls_kernel_convert(wider, LS_F32, in, LS_I64, 2);
    cr_expect(wider[1] == -0x1.000002p60f);
    const uint64_t large[2] = {UINT64_MAX, (uint64_t)INT64_MAX + 1};
    int64_t clamped[2];
    ls_kernel_convert(clamped, LS_I64, large, LS_U64, 2);
    cr_expect(clamped[0] == INT64_MAX && clamped[1] == INT64_MAX);
}

static bool is_nan_element(const void *element, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) && isnan(ls_element_to_f64(element, dtype));
}

// Arrays of every type to every type give the reference's bits, at sizes around the block.
Test(convert, arrays_match_the_reference) {
    enum { COUNT = 1031 };
    static const size_t counts[] = {0, 1, 2, 3, 31, 255, 256, 257, COUNT};
    _Alignas(8) unsigned char in[COUNT * 8];
    unsigned char fast[COUNT * 8 + 1];
    unsigned char plain[COUNT * 8 + 1];
    uint64_t seed = 2;
    for (int from = 0; from < (int)LS_DTYPE_COUNT; from++) {
        for (int to = 0; to < (int)LS_DTYPE_COUNT; to++) {
            for (size_t i = 0; i < sizeof in / 8; i++) {
                uint64_t bits = next_random(&seed);
                memcpy(in + i * 8, &bits, 8);
            }
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                size_t bytes = ls_dtype_bytes((ls_dtype)to);
                memset(fast, 0xA5, sizeof fast);
                memset(plain, 0xA5, sizeof plain);
                ls_kernel_convert(fast, (ls_dtype)to, in, (ls_dtype)from, counts[c]);
                ls_kernel_convert_reference(plain, (ls_dtype)to, in, (ls_dtype)from, counts[c]);
                for (size_t i = 0; i < counts[c]; i++) {
                    bool same = memcmp(fast + i * bytes, plain + i * bytes, bytes) == 0 ||
                                (is_nan_element(fast + i * bytes, (ls_dtype)to) &&
                                 is_nan_element(plain + i * bytes, (ls_dtype)to));
                    cr_assert(same, "%s to %s, element %zu of %zu", ls_dtype_name((ls_dtype)from),
                              ls_dtype_name((ls_dtype)to), i, counts[c]);
                }
                cr_assert(fast[counts[c] * bytes] == 0xA5, "wrote past the end");
            }
        }
    }
}

// A non-temporal copy writes exactly its data, at every alignment.
Test(convert, streamed_copy) {
    unsigned char in[256], out[320];
    for (int i = 0; i < 256; i++) {
        in[i] = (unsigned char)(i * 37 + 1);
    }
    for (size_t to = 16; to < 32; to++) {
        for (size_t bytes = 0; bytes <= 240; bytes++) {
            memset(out, 0, sizeof out);
            ls_kernel_copy_streamed(out + to, in + bytes % 16, bytes);
            for (size_t i = 0; i < sizeof out; i++) {
                bool inside = i >= to && i < to + bytes;
                cr_assert(out[i] == (inside ? in[bytes % 16 + i - to] : 0), "%zu bytes at %zu",
                          bytes, to);
            }
        }
    }
}

// Fill and copy write exactly their range.
Test(convert, fill_and_copy) {
    for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
        const unsigned char value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        unsigned char out[17 * 8 + 1];
        size_t bytes = ls_dtype_bytes((ls_dtype)dtype);
        for (size_t count = 0; count <= 17; count++) {
            memset(out, 0xA5, sizeof out);
            ls_kernel_fill(out, (ls_dtype)dtype, value, count);
            for (size_t i = 0; i < sizeof out; i++) {
                cr_assert(out[i] == (i < count * bytes ? value[i % bytes] : 0xA5));
            }
        }
    }
    const char in[] = "abcdefghijkl";
    char out[] = "............";
    ls_kernel_copy_2d(out, 5, in, 4, 2, 3);
    cr_expect_str_eq(out, "ab...ef...ij");
    ls_kernel_copy_2d(out, 4, in, 0, 4, 3);  // one row, repeated
    cr_expect_str_eq(out, "abcdabcdabcd");
    ls_kernel_copy_2d(NULL, 0, NULL, 0, 0, 7);
    ls_kernel_copy(NULL, NULL, 0);
}
