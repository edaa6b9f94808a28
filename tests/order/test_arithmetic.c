// Tests of the folds' arithmetic against independent plain code, element by element.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"
#include "orders/order.h"
#include "kernels/kernels.h"
#include "tests/kernels/scalar.h"

enum { RANKS = 5, COUNT = 3001 };

typedef struct data {
    unsigned char in[RANKS][COUNT * 8];
    const void *pointers[RANKS];
    unsigned char out[COUNT * 8];
    unsigned char want[COUNT * 8];
} data;

static data *make(ls_dtype dtype, double spread) {
    data *d = calloc(1, sizeof *d);
    cr_assert(d != NULL);
    size_t bytes = ls_dtype_bytes(dtype);
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < COUNT; i++) {
            double value = ls_random_normal(7, 1, (uint32_t)r, i) * spread;
            ls_element_from_f64(d->in[r] + i * bytes, dtype, value);
        }
        d->pointers[r] = d->in[r];
    }
    return d;
}

// One element, by scalar arithmetic: a + b, a * b, fma(a, b, c) of a dtype.
static void scalar(void *out, ls_dtype dtype, char op, const void *a, const void *b,
                   const void *c) {
    if (dtype == LS_F64) {
        double x, y, z = 0;
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        if (c != NULL) {
            memcpy(&z, c, 8);
        }
        double r = op == '+' ? x + y : op == '*' ? x * y : fma(x, y, z);
        memcpy(out, &r, 8);
    } else if (dtype == LS_F32) {
        float x, y, z = 0;
        memcpy(&x, a, 4);
        memcpy(&y, b, 4);
        if (c != NULL) {
            memcpy(&z, c, 4);
        }
        float r = op == '+' ? x + y : op == '*' ? x * y : fmaf(x, y, z);
        memcpy(out, &r, 4);
    } else if (dtype == LS_F16 || dtype == LS_BF16) {
        uint16_t x, y, z = 0;
        memcpy(&x, a, 2);
        memcpy(&y, b, 2);
        if (c != NULL) {
            memcpy(&z, c, 2);
        }
        bool half = dtype == LS_F16;
        uint16_t r = op == '+'   ? (half ? ls_f16_add(x, y) : ls_bf16_add(x, y))
                     : op == '*' ? (half ? ls_f16_mul(x, y) : ls_bf16_mul(x, y))
                                 : (half ? f16_fma(x, y, z) : bf16_fma(x, y, z));
        memcpy(out, &r, 2);
    } else {
        uint8_t x = *(const uint8_t *)a, y = *(const uint8_t *)b;
        bool e4m3 = dtype == LS_F8E4M3;
        *(uint8_t *)out = op == '+' ? (e4m3 ? ls_f8e4m3_add(x, y) : ls_f8e5m2_add(x, y))
                                    : (e4m3 ? ls_f8e4m3_mul(x, y) : ls_f8e5m2_mul(x, y));
    }
}

static void factor_of(void *out, ls_dtype dtype, double value) {
    ls_element_from_f64(out, dtype, dtype == LS_F64 ? value : (double)(float)value);
}

// LL128's fused words, by the description of a warp's registers: for each 8-byte word of a slice,
// the thread that holds it and whether it is the even or the odd word of a pair.
static bool fused_word(size_t word) {
    // Walk a slice of 240 words as the threads load it.
    word %= 240;
    for (int g = 0; g < 4; g++) {
        for (int thread = 0; thread < 32; thread++) {
            bool flag = thread % 8 == 7;
            if (flag && g % 2 == 1) {
                continue;
            }
            int unit = g * 32 - 4 * (g / 2) + thread - (g % 2) * (thread / 8);
            if ((size_t)unit * 2 == word) {
                return true;  // an even register
            }
            if ((size_t)unit * 2 + 1 == word) {
                return flag;  // odd: moved to the next even register by flag threads alone
            }
        }
    }
    cr_assert(false, "word %zu is in no thread", word);
    return false;
}

// One channel, one loop: the chunk of element i and where it starts.
static size_t chunk_start(size_t i, size_t count, size_t bytes, int *chunk) {
    size_t align = 16 / bytes;
    size_t step = ((count + RANKS - 1) / RANKS + align - 1) / align * align;
    *chunk = (int)(i / step);
    return i / step * step;
}

static void plain_ring(data *d, ls_dtype dtype, ls_op op, const double *premul, int fused) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < COUNT; i++) {
        int chunk = 0;
        size_t start = chunk_start(i, COUNT, bytes, &chunk);
        unsigned char s[8];
        for (int k = 0; k < RANKS; k++) {
            int rank = (chunk + 1 + k) % RANKS;
            const unsigned char *x = d->in[rank] + i * bytes;
            unsigned char factor[8], term[8];
            bool products = op == LS_AVG || op == LS_PREMUL_SUM;
            factor_of(factor, dtype, op == LS_AVG ? 1.0 / RANKS : products ? premul[rank] : 1.0);
            memcpy(term, x, bytes);
            if (products) {
                scalar(term, dtype, '*', x, factor, NULL);
            }
            bool fuse =
                products && (fused == 1 || (fused == 2 && fused_word((i - start) * bytes / 8)));
            if (k == 0) {
                memcpy(s, term, bytes);
            } else if (fuse) {
                unsigned char r[8];
                scalar(r, dtype, 'f', x, factor, s);
                memcpy(s, r, bytes);
            } else {
                unsigned char r[8];
                scalar(r, dtype, op == LS_PROD ? '*' : '+', s, term, NULL);
                memcpy(s, r, bytes);
            }
        }
        memcpy(d->want + i * bytes, s, bytes);
    }
}

static const ls_dtype floats[] = {LS_F64, LS_F32, LS_F16, LS_BF16, LS_F8E4M3, LS_F8E5M2};
static const double factors[RANKS] = {0.3, -1.7, 0.1, 2.5, 1.0};

// Every float type, operation and protocol agrees with the plain ring, and any split of the call
// into ranges gives the same bits, in place too.
Test(arithmetic, ring_agrees_with_plain_code) {
    static const char *const protos[] = {"ll", "ll128", "simple"};
    static const ls_op ops[] = {LS_SUM, LS_PROD, LS_AVG, LS_PREMUL_SUM};
    for (size_t t = 0; t < 6; t++) {
        for (int p = 0; p < 3; p++) {
            for (int o = 0; o < 4; o++) {
                ls_dtype dtype = floats[t];
                size_t bytes = ls_dtype_bytes(dtype);
                data *d = make(dtype, 1.5);
                int fused = bytes == 1 ? 0 : p != 1 ? 1 : bytes == 2 ? 0 : 2;
                plain_ring(d, dtype, ops[o], factors, fused);
                char text[64];
                (void)snprintf(text, sizeof text, "ring:channels=1,proto=%s", protos[p]);
                ls_order *order = NULL;
                cr_assert(ls_order_parse(&order, text) == LS_OK);
                ls_reduction r = {
                    d->pointers, RANKS, dtype, ops[o], ops[o] == LS_PREMUL_SUM ? factors : NULL,
                    COUNT,       NULL};
                cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &r, 0, 0, COUNT) ==
                          LS_OK);
                cr_expect(memcmp(d->out, d->want, COUNT * bytes) == 0, "%s %s %s",
                          ls_dtype_name(dtype), ls_op_name(ops[o]), text);
                memset(d->out, 0xAA, sizeof d->out);
                for (size_t at = 0; at < COUNT;) {
                    size_t step = 1 + ls_random_below(500, 3, 0, 0, at);
                    step = step < COUNT - at ? step : COUNT - at;
                    cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out + at * bytes, &r,
                                              0, at, step) == LS_OK);
                    at += step;
                }
                cr_expect(memcmp(d->out, d->want, COUNT * bytes) == 0, "split: %s", text);
                cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->in[2], &r, 0, 0, COUNT) ==
                          LS_OK);
                cr_expect(memcmp(d->in[2], d->want, COUNT * bytes) == 0, "in place: %s", text);
                ls_order_free(order);
                free(d);
            }
        }
    }
}

// A tree with branches adds a node's own term to its first child, then the other children; only the
// first add is fused.
Test(arithmetic, branching_tree_agrees_with_plain_code) {
    for (size_t t = 0; t < 2; t++) {
        ls_dtype dtype = floats[t];
        size_t bytes = ls_dtype_bytes(dtype);
        data *d = make(dtype, 2.0);
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, "tree:trees=3(1(0)+4+2)") == LS_OK);
        ls_reduction r = {d->pointers, RANKS, dtype, LS_AVG, NULL, COUNT, NULL};
        cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &r, 0, 0, COUNT) == LS_OK);
        unsigned char k[8];
        factor_of(k, dtype, 1.0 / RANKS);
        for (size_t i = 0; i < COUNT; i++) {
            unsigned char a[8], b[8], c[8];
            scalar(a, dtype, '*', d->in[0] + i * bytes, k, NULL);
            scalar(b, dtype, 'f', d->in[1] + i * bytes, k, a);
            scalar(c, dtype, 'f', d->in[3] + i * bytes, k, b);
            scalar(a, dtype, '*', d->in[4] + i * bytes, k, NULL);
            scalar(b, dtype, '+', c, a, NULL);
            scalar(a, dtype, '*', d->in[2] + i * bytes, k, NULL);
            scalar(c, dtype, '+', b, a, NULL);
            cr_assert(memcmp(c, d->out + i * bytes, bytes) == 0, "element %zu", i);
        }
        ls_order_free(order);
        free(d);
    }
}

// The same for sums and products of every float type, over trees with leaves, nested branches and
// more consecutive terms than one pass takes; in place too.
Test(arithmetic, plain_trees_agree_with_plain_code) {
    enum { MANY = 80, FEW = 300 };
    for (size_t t = 0; t < 6; t++) {
        ls_dtype dtype = floats[t];
        size_t bytes = ls_dtype_bytes(dtype);
        unsigned char *in = calloc(MANY + 1, FEW * 8);
        cr_assert(in != NULL);
        unsigned char *out = in + (size_t)MANY * FEW * 8;
        const void *pointers[MANY];
        for (int r = 0; r < MANY; r++) {
            for (size_t i = 0; i < FEW; i++) {
                double value = ls_random_normal(9, 1, (uint32_t)r, i) + 0.1;
                ls_element_from_f64(in + ((size_t)r * FEW + i) * bytes, dtype, value);
            }
            pointers[r] = in + (size_t)r * FEW * bytes;
        }
        // 0 adds its own to 1's, then 2, 3(4(5+6)), and the chain 7(8(...(79))).
        ls_text text = {0};
        ls_text_puts(&text, "tree:trees=0(1+2+3(4(5+6))+7");
        for (int r = 8; r < MANY; r++) {
            ls_text_printf(&text, "(%d", r);
        }
        ls_text_repeat(&text, ')', MANY - 8 + 1);
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, ls_text_string(&text)) == LS_OK, "%s",
                  ls_error_last()->text);
        for (int product = 0; product < 2; product++) {
            char op = product ? '*' : '+';
            ls_reduction r = {pointers, MANY, dtype, product ? LS_PROD : LS_SUM, NULL, FEW, NULL};
            cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, out, &r, 0, 0, FEW) == LS_OK);
            for (size_t i = 0; i < FEW; i++) {
#define TERM(rank) ((const unsigned char *)pointers[rank] + i * bytes)
                unsigned char a[8], b[8], c[8];
                scalar(a, dtype, op, TERM(1), TERM(0), NULL);
                scalar(b, dtype, op, a, TERM(2), NULL);
                scalar(a, dtype, op, TERM(5), TERM(4), NULL);
                scalar(c, dtype, op, a, TERM(6), NULL);
                scalar(a, dtype, op, c, TERM(3), NULL);
                scalar(c, dtype, op, b, a, NULL);
                memcpy(a, TERM(MANY - 1), bytes);
                for (int rank = MANY - 2; rank >= 7; rank--) {
                    scalar(b, dtype, op, a, TERM(rank), NULL);
                    memcpy(a, b, bytes);
                }
                scalar(b, dtype, op, c, a, NULL);
                cr_assert(memcmp(b, out + i * bytes, bytes) == 0, "%s %c element %zu",
                          ls_dtype_name(dtype), op, i);
            }
        }
        ls_reduction r = {pointers, MANY, dtype, LS_PROD, NULL, FEW, NULL};
        cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, in + 3 * FEW * bytes, &r, 0, 0,
                                  FEW) == LS_OK);
        cr_expect(memcmp(in + 3 * FEW * bytes, out, FEW * bytes) == 0, "in place");
        ls_order_free(order);
        ls_text_free(&text);
        free(in);
    }
}

// Symmetric kernels add narrow floats in f32 and round once; NCCL has them only for sums.
Test(arithmetic, symmetric_kernels_accumulate_in_f32) {
    for (size_t t = 2; t < 6; t++) {
        ls_dtype dtype = floats[t];
        size_t bytes = ls_dtype_bytes(dtype);
        data *d = make(dtype, 1.0);
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, "symmetric:kernel=ll") == LS_OK);
        ls_reduction r = {d->pointers, RANKS, dtype, LS_SUM, NULL, COUNT, NULL};
        cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &r, 0, 0, COUNT) == LS_OK);
        for (size_t i = 0; i < COUNT; i++) {
            float sum = (float)ls_element_to_f64(d->in[0] + i * bytes, dtype);
            for (int k = 1; k < RANKS; k++) {
                sum += (float)ls_element_to_f64(d->in[k] + i * bytes, dtype);
            }
            unsigned char want[8];
            ls_element_from_f64(want, dtype, (double)sum);
            cr_assert(memcmp(want, d->out + i * bytes, bytes) == 0, "%s element %zu",
                      ls_dtype_name(dtype), i);
        }
        r.op = LS_AVG;
        cr_expect(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &r, 0, 0, COUNT) ==
                  LS_ERR_UNSUPPORTED);
        r.op = LS_MAX;
        cr_expect(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &r, 0, 0, COUNT) == LS_OK);
        ls_order_free(order);
        free(d);
    }
}

// Integers, max and min have the same bits in every order; special values follow NCCL's rules.
Test(arithmetic, order_free_operations_agree_with_rank_order) {
    static const char *const orders[] = {"ring:proto=ll", "tree", "symmetric:kernel=rsxld"};
    static const ls_dtype dtypes[] = {LS_I8,  LS_U8,  LS_I32, LS_U32,
                                      LS_I64, LS_U64, LS_F32, LS_BF16};
    for (size_t t = 0; t < 8; t++) {
        for (int op = 0; op < LS_OP_COUNT; op++) {
            bool is_float = ls_dtype_is_float(dtypes[t]);
            if (!ls_op_supports((ls_op)op, dtypes[t]) ||
                (is_float && op != LS_MAX && op != LS_MIN)) {
                continue;
            }
            data *d = make(LS_F64, 1.0);  // any bits will do
            size_t bytes = ls_dtype_bytes(dtypes[t]);
            ls_reduction r = {
                d->pointers, RANKS, dtypes[t], (ls_op)op, op == LS_PREMUL_SUM ? factors : NULL,
                COUNT,       NULL};
            cr_assert(ls_order_reduce(NULL, LS_ORDER_ALL_REDUCE, d->want, &r, 0, 0, COUNT) ==
                      LS_OK);
            for (int k = 0; k < 3; k++) {
                ls_order *order = NULL;
                cr_assert(ls_order_parse(&order, orders[k]) == LS_OK);
                cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &r, 0, 0, COUNT) ==
                          LS_OK);
                cr_expect(memcmp(d->out, d->want, COUNT * bytes) == 0, "%s %s",
                          ls_dtype_name(dtypes[t]), ls_op_name((ls_op)op));
                ls_order_free(order);
            }
            free(d);
        }
    }
}

// Infinities, signed zeros, denormals and NaN go through a ring as on hardware.
Test(arithmetic, special_values) {
    const float inf = INFINITY, denormal = 0x1p-149f;
    const float in[3][6] = {{inf, -0.0f, denormal, NAN, inf, 0.0f},
                            {1, -0.0f, denormal, 1, -inf, -0.0f},
                            {2, -0.0f, denormal, 2, 1, -0.0f}};
    const void *pointers[3] = {in[0], in[1], in[2]};
    float out[6];
    ls_order *order = NULL;
    cr_assert(ls_order_parse(&order, "ring:channels=1") == LS_OK);
    ls_reduction r = {pointers, 3, LS_F32, LS_SUM, NULL, 6, NULL};
    cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, out, &r, 0, 0, 6) == LS_OK);
    cr_expect(out[0] == inf && out[1] == 0 && signbit(out[1]) && out[2] == 3 * denormal);
    cr_expect(isnan(out[3]) && isnan(out[4]) && out[5] == 0 && !signbit(out[5]));
    r.op = LS_MAX;
    cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, out, &r, 0, 0, 6) == LS_OK);
    cr_expect(out[3] == 2 && out[4] == inf && !signbit(out[5]));
    r.op = LS_MIN;
    cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, out, &r, 0, 0, 6) == LS_OK);
    cr_expect(out[3] == 1 && out[4] == -inf && signbit(out[5]));
    ls_order_free(order);
}
