// Tests of exact inputs: every order gives the bits of integer arithmetic.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact.h"

enum { COUNT = 700, RANKS_MAX = 64 };

static void check(ls_dtype dtype, ls_op op, int ranks) {
    static const char *const orders[] = {"rank",
                                         "ring:proto=ll",
                                         "ring:proto=ll128,channels=1",
                                         "ring:proto=simple,fma=never",
                                         "tree:proto=simple",
                                         "tree:hosts=RANKS,proto=ll,fma=always",
                                         "symmetric:kernel=ll"};
    size_t bytes = ls_dtype_bytes(dtype);
    unsigned char *memory = calloc((size_t)ranks + 2, COUNT * bytes);
    cr_assert(memory != NULL);
    unsigned char *want = memory + (size_t)ranks * COUNT * bytes;
    unsigned char *out = want + COUNT * bytes;
    const void *in[RANKS_MAX];
    double premul[RANKS_MAX];
    for (int r = 0; r < ranks; r++) {
        unsigned char *input = memory + (size_t)r * COUNT * bytes;
        ls_exact_fill(input, dtype, op, 42, r, ranks, 5, COUNT);
        in[r] = input;
        premul[r] = ls_exact_premul(dtype, 42, r);
    }
    ls_exact_expect(want, dtype, op, 42, ranks, 5, COUNT);
    ls_reduction reduction = {in,    ranks, dtype, op, op == LS_PREMUL_SUM ? premul : NULL,
                              COUNT, NULL};
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", orders[k]);
        if (strstr(text, "RANKS") != NULL) {
            (void)snprintf(text, sizeof text, "tree:hosts=%d,proto=ll,fma=always", ranks);
        }
        bool sums = op != LS_PROD && op != LS_AVG && op != LS_PREMUL_SUM;
        if (strncmp(text, "symmetric", 9) == 0 && ls_dtype_is_float(dtype) && !sums) {
            continue;
        }
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, text) == LS_OK);
        cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, out, &reduction, 0, 0, COUNT) ==
                  LS_OK);
        for (size_t i = 0; i < COUNT; i++) {
            cr_assert(memcmp(out + i * bytes, want + i * bytes, bytes) == 0,
                      "%s %s of %d ranks, %s: element %zu", ls_dtype_name(dtype), ls_op_name(op),
                      ranks, text, i);
        }
        ls_order_free(order);
    }
    free(memory);
}

// Every dtype, operation and many numbers of ranks: the same bits in rank order, rings, trees,
// fused or not, in f32 accumulators or not, and they are the exact result.
Test(exact, the_same_bits_in_every_order) {
    static const int ranks[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64};
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < LS_OP_COUNT; op++) {
            for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++) {
                if (ls_op_supports((ls_op)op, (ls_dtype)dtype)) {
                    check((ls_dtype)dtype, (ls_op)op, ranks[n]);
                }
            }
        }
    }
}

// A value depends only on (seed, rank, index): any range gives the same elements.
Test(exact, a_pure_function_of_seed_rank_and_index) {
    float whole[100], part[10], other[100];
    ls_exact_fill(whole, LS_F32, LS_SUM, 1, 2, 4, 0, 100);
    ls_exact_fill(part, LS_F32, LS_SUM, 1, 2, 4, 57, 10);
    cr_expect(memcmp(whole + 57, part, sizeof part) == 0);
    ls_exact_fill(other, LS_F32, LS_SUM, 1, 3, 4, 0, 100);
    cr_expect(memcmp(whole, other, sizeof other) != 0);
    ls_exact_fill(other, LS_F32, LS_SUM, 2, 2, 4, 0, 100);
    cr_expect(memcmp(whole, other, sizeof other) != 0);
}

// The inputs are effective: a dropped rank changes results in every dtype and operation that sums.
Test(exact, a_dropped_rank_shows) {
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        size_t bytes = ls_dtype_bytes((ls_dtype)dtype);
        unsigned char in[3][COUNT * 8], out[COUNT * 8], want[COUNT * 8];
        const void *pointers[3] = {in[0], in[1], in[2]};
        for (int r = 0; r < 3; r++) {
            ls_exact_fill(in[r], (ls_dtype)dtype, LS_SUM, 9, r, 3, 0, COUNT);
        }
        ls_exact_expect(want, (ls_dtype)dtype, LS_SUM, 9, 3, 0, COUNT);
        ls_reduction reduction = {pointers, 2, (ls_dtype)dtype, LS_SUM, NULL, COUNT, NULL};
        cr_assert(ls_order_reduce(NULL, LS_ORDER_ALL_REDUCE, out, &reduction, 0, 0, COUNT) ==
                  LS_OK);
        size_t differing = 0;
        for (size_t i = 0; i < COUNT; i++) {
            differing += memcmp(out + i * bytes, want + i * bytes, bytes) != 0;
        }
        cr_expect(differing > COUNT / 2, "%s: %zu", ls_dtype_name((ls_dtype)dtype), differing);
    }
}
