// Reduce against its plain reference, for every type and operation.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "oracle.h"
#include "scalar.h"

enum { COUNT_MAX = 8200, INPUTS_MAX = 29 };
static unsigned char inputs[INPUTS_MAX][COUNT_MAX * 8 + 8];
static unsigned char fast[COUNT_MAX * 8 + 8];
static unsigned char plain[COUNT_MAX * 8 + 8];

// Random bits; every fourth element a special one: zeros, infinities, NaN, subnormals, ones.
static void draw_inputs(ls_dtype dtype, uint64_t seed, size_t count) {
    static const double special[] = {
        0.0,         -0.0, 1.0,   -1.0,  (double)INFINITY, -(double)INFINITY,
        (double)NAN, 5e-8, 1e-40, 448.0, 57344.0,          -65504.0};
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t k = 0; k < INPUTS_MAX; k++) {
        for (size_t i = 0; i < count; i++) {
            uint64_t bits = next_random(&seed);
            memcpy(inputs[k] + i * bytes, &bits, bytes);
            if (bits >> 62 == 0) {
                double value = special[(bits >> 32) % (sizeof special / sizeof special[0])];
                ls_element_from_f64(inputs[k] + i * bytes, dtype, value);
            }
        }
    }
}

static void expect_same(ls_dtype dtype, const void *a, const void *b, size_t count,
                        const char *what) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)a + i * bytes;
        const char *y = (const char *)b + i * bytes;
        bool both_nan = ls_dtype_is_float(dtype) && isnan(ls_element_to_f64(x, dtype)) &&
                        isnan(ls_element_to_f64(y, dtype));
        cr_assert(both_nan || memcmp(x, y, bytes) == 0,
                  "%s %s: element %zu of %zu: %.17g, not %.17g", what, ls_dtype_name(dtype), i,
                  count, ls_element_to_f64(x, dtype), ls_element_to_f64(y, dtype));
    }
}

// Every type and operation, 1 to 29 inputs, sizes around the block, output apart.
Test(reduce, matches_the_reference) {
    static const size_t counts[] = {0, 1, 2, 7, 33, 1023, 1025, COUNT_MAX};
    static const size_t in_counts[] = {1, 3, 13, INPUTS_MAX};
    static const double premul[INPUTS_MAX] = {0.5, -1.0 / 3, 3, 1e-3, -2.75, 300, 0, 1e5, -0.0};
    const void *in[INPUTS_MAX];
    for (size_t k = 0; k < INPUTS_MAX; k++) {
        in[k] = inputs[k];
    }
    for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
        draw_inputs((ls_dtype)dtype, 10 + (uint64_t)dtype, COUNT_MAX);
        for (int op = 0; op < (int)LS_OP_COUNT; op++) {
            if (!ls_op_supports((ls_op)op, (ls_dtype)dtype)) {
                continue;
            }
            for (size_t c = 0; c < sizeof counts / sizeof counts[0] * 4; c++) {
                size_t count = counts[c / 4];
                size_t in_count = in_counts[c % 4];
                const double *factors = op == LS_PREMUL_SUM ? premul : NULL;
                size_t bytes = ls_dtype_bytes((ls_dtype)dtype);
                memset(fast, 0xA5, count * bytes + 1);
                ls_kernel_reduce(fast, in, in_count, (ls_dtype)dtype, (ls_op)op, factors, count);
                ls_kernel_reduce_reference(plain, in, in_count, (ls_dtype)dtype, (ls_op)op, factors,
                                           count);
                cr_assert(fast[count * bytes] == 0xA5, "wrote past the end");
                expect_same((ls_dtype)dtype, fast, plain, count, ls_op_name((ls_op)op));
            }
        }
    }
}

// The output may be any of the inputs, and memory may start anywhere.
Test(reduce, in_place_and_unaligned) {
    static unsigned char shifted[INPUTS_MAX][COUNT_MAX * 8 + 8 + INPUTS_MAX];
    // A sum of many inputs reads them in blocks.
    enum { FEW = 3, MANY = 21 };
    for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
        size_t bytes = ls_dtype_bytes((ls_dtype)dtype);
        size_t count = 5000;
        draw_inputs((ls_dtype)dtype, 30, count);
        for (size_t place = 0; place < FEW + MANY; place++) {
            size_t in_count = place < FEW ? FEW : MANY;
            size_t at = place < FEW ? place : place - FEW;
            const void *in[MANY], *unaligned[MANY];
            for (size_t k = 0; k < in_count; k++) {
                in[k] = inputs[k];
                unaligned[k] = memcpy(shifted[k] + 1 + k, inputs[k], count * bytes);
            }
            ls_kernel_reduce_reference(plain, in, in_count, (ls_dtype)dtype, LS_SUM, NULL, count);
            ls_kernel_reduce(shifted[at] + 1 + at, unaligned, in_count, (ls_dtype)dtype, LS_SUM,
                             NULL, count);
            expect_same((ls_dtype)dtype, shifted[at] + 1 + at, plain, count, "in place");
        }
    }
}

// A fold by accumulate gives the bits of reduce, and accumulating onto itself doubles.
Test(reduce, accumulate_is_one_step) {
    for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < (int)LS_OP_COUNT; op++) {
            if (op == LS_AVG || op == LS_PREMUL_SUM ||
                !ls_op_supports((ls_op)op, (ls_dtype)dtype)) {
                continue;
            }
            size_t count = 4099;
            draw_inputs((ls_dtype)dtype, 50, count);
            const void *in[2] = {inputs[0], inputs[1]};
            const void *same[2] = {inputs[1], inputs[1]};
            ls_kernel_reduce_reference(plain, in, 2, (ls_dtype)dtype, (ls_op)op, NULL, count);
            ls_kernel_accumulate(inputs[0], inputs[1], (ls_dtype)dtype, (ls_op)op, count);
            expect_same((ls_dtype)dtype, inputs[0], plain, count, ls_op_name((ls_op)op));
            ls_kernel_reduce_reference(plain, same, 2, (ls_dtype)dtype, (ls_op)op, NULL, count);
            ls_kernel_accumulate(inputs[1], inputs[1], (ls_dtype)dtype, (ls_op)op, count);
            expect_same((ls_dtype)dtype, inputs[1], plain, count, "onto itself");
        }
    }
}

// Small cases worked out by hand: order of the fold, wrapping, zeros, NaN, saturation, averages.
Test(reduce, known_results) {
    const float big[3] = {1e8f, -1e8f, 1.0f};
    const void *forward[3] = {&big[0], &big[1], &big[2]};
    const void *backward[3] = {&big[2], &big[0], &big[1]};
    float sum = 0;
    ls_kernel_reduce(&sum, forward, 3, LS_F32, LS_SUM, NULL, 1);
    cr_expect(sum == 1.0f);
    ls_kernel_reduce(&sum, backward, 3, LS_F32, LS_SUM, NULL, 1);
    cr_expect(sum == 0.0f);

    const float zeros[3] = {0.0f, -0.0f, (float)NAN};
    const void *mixed[3] = {&zeros[0], &zeros[1], &zeros[2]};
    const void *turned[3] = {&zeros[2], &zeros[1], &zeros[0]};
    ls_kernel_reduce(&sum, turned, 3, LS_F32, LS_MAX, NULL, 1);
    cr_expect(sum == 0.0f && !signbit(sum));
    ls_kernel_reduce(&sum, mixed, 3, LS_F32, LS_MIN, NULL, 1);
    cr_expect(sum == 0.0f && signbit(sum));

    const int8_t bytes[3] = {100, 100, -7};
    const void *small[3] = {&bytes[0], &bytes[1], &bytes[2]};
    int8_t result = 0;
    ls_kernel_reduce(&result, small, 2, LS_I8, LS_AVG, NULL, 1);
    cr_expect(result == -28);  // wraps to -56 first
    ls_kernel_reduce(&result, small + 1, 2, LS_I8, LS_AVG, NULL, 1);
    cr_expect(result == 46);  // 93 / 2 toward zero
    ls_kernel_reduce(&result, small + 2, 1, LS_I8, LS_PREMUL_SUM, (const double[]){-2.9}, 1);
    cr_expect(result == 14);

    const uint8_t infinite[2] = {0x7C, 0x3C};  // e5m2: infinity, 1
    const void *narrow[2] = {&infinite[0], &infinite[1]};
    uint8_t eight = 0;
    ls_kernel_reduce(&eight, narrow, 2, LS_F8E5M2, LS_MAX, NULL, 1);
    cr_expect(eight == 0x7B);
    ls_kernel_reduce(&eight, narrow, 1, LS_F8E5M2, LS_MAX, NULL, 1);
    cr_expect(eight == 0x7C);  // nothing was folded
}

// Scale and fused multiply-add of arrays agree with single elements, rounded as stated.
Test(reduce, scale_and_fused_multiply_add) {
    enum { COUNT = 1001 };
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F32, LS_F64};
    for (size_t d = 0; d < 4; d++) {
        ls_dtype dtype = dtypes[d];
        size_t bytes = ls_dtype_bytes(dtype);
        draw_inputs(dtype, 60, COUNT);
        uint64_t factor = 0;
        ls_element_from_f64(&factor, dtype, 1.0 / 3);
        memcpy(fast, inputs[1], COUNT * bytes);
        ls_kernel_accumulate_fma(fast, inputs[0], &factor, dtype, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            uint16_t a[3] = {0, (uint16_t)factor, 0};
            memcpy(&a[0], inputs[0] + i * bytes, 2);
            memcpy(&a[2], inputs[1] + i * bytes, 2);
            if (dtype == LS_F16 || dtype == LS_BF16) {
                uint16_t one =
                    dtype == LS_F16 ? f16_fma(a[0], a[1], a[2]) : bf16_fma(a[0], a[1], a[2]);
                memcpy(plain + i * bytes, &one, 2);
            } else if (dtype == LS_F32) {
                float x[3];
                memcpy(&x[0], inputs[0] + i * 4, 4);
                memcpy(&x[1], &factor, 4);
                memcpy(&x[2], inputs[1] + i * 4, 4);
                x[0] = fmaf(x[0], x[1], x[2]);
                memcpy(plain + i * 4, &x[0], 4);
            } else {
                double x[3];
                memcpy(&x[0], inputs[0] + i * 8, 8);
                memcpy(&x[1], &factor, 8);
                memcpy(&x[2], inputs[1] + i * 8, 8);
                x[0] = fma(x[0], x[1], x[2]);
                memcpy(plain + i * 8, &x[0], 8);
            }
        }
        expect_same(dtype, fast, plain, COUNT, "fma");
    }
    // Scaling one input is premul_sum of one input.
    for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
        draw_inputs((ls_dtype)dtype, 70, COUNT);
        const double factor = -2.625;
        uint64_t element = 0;
        const void *in[1] = {inputs[0]};
        ls_element_from_f64(&element, (ls_dtype)dtype, factor);
        ls_kernel_reduce_reference(plain, in, 1, (ls_dtype)dtype, LS_PREMUL_SUM, &factor, COUNT);
        ls_kernel_scale(inputs[0], inputs[0], &element, (ls_dtype)dtype, COUNT);
        expect_same((ls_dtype)dtype, inputs[0], plain, COUNT, "scale");
    }
}

// One NaN or infinity is found at any position, and nothing else counts as one.
Test(reduce, special_values_are_seen_wherever_they_stand) {
    static unsigned char data[260 * 8];
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        if (!ls_dtype_valid(dtype)) {
            continue;
        }
        ls_dtype type = (ls_dtype)dtype;
        size_t bytes = ls_dtype_bytes(type);
        uint64_t seed = 5;
        for (size_t count = 0; count < 260; count += count < 70 ? 1 : 63) {
            for (size_t i = 0; i < count * bytes; i += bytes) {
                uint64_t bits = next_random(&seed);
                memcpy(data + i, &bits, bytes);
                if (ls_dtype_is_float(type) && !isfinite(ls_element_to_f64(data + i, type))) {
                    ls_element_from_f64(data + i, type, bits >> 63 ? -448.0 : 0.0);
                }
            }
            cr_assert(!ls_kernel_any_special_reference(data, count, type));
            cr_assert(!ls_kernel_any_special(data, count, type), "%s: %zu finite elements",
                      ls_dtype_name(type), count);
            for (size_t i = 0; ls_dtype_is_float(type) && i < count; i++) {
                unsigned char kept[8];
                static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
                memcpy(kept, data + i * bytes, bytes);
                ls_element_from_f64(data + i * bytes, type, special[i % 3]);
                bool finite = isfinite(ls_element_to_f64(data + i * bytes, type));  // f8 saturates
                cr_assert_eq(ls_kernel_any_special(data, count, type), !finite,
                             "%s: element %zu of %zu", ls_dtype_name(type), i, count);
                cr_assert_eq(ls_kernel_any_special_reference(data, count, type), !finite);
                memcpy(data + i * bytes, kept, bytes);
            }
        }
    }
}

// Every pattern of the narrow floats has the class of its value.
Test(reduce, special_values_of_narrow_floats_are_those_of_every_pattern) {
    static const ls_dtype types[] = {LS_F16, LS_BF16, LS_F8E4M3, LS_F8E5M2};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (uint32_t pattern = 0; pattern >> (8 * ls_dtype_bytes(types[t])) == 0; pattern++) {
            uint16_t wide = (uint16_t)pattern;
            cr_assert_eq(ls_kernel_any_special(&wide, 1, types[t]),
                         ls_kernel_any_special_reference(&wide, 1, types[t]), "%s %x",
                         ls_dtype_name(types[t]), pattern);
        }
    }
}
