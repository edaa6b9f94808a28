// The arithmetic of the oracle of programs, element by element, against expected values.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "orders/bound.h"
#include "runner/program/program_cells.h"

typedef struct value {
    double exact, bound;
} value;

// Folds two values of f64; out->bounds and out->exact [1].
static ls_cells fold(ls_arena *arena, value a, value b, ls_op op) {
    ls_cells in, out;
    cr_assert(ls_cells__new(&in, arena, &LS_SHAPE(2), LS_F64) == LS_OK);
    cr_assert(ls_cells__new(&out, arena, &LS_SHAPE(1), LS_F64) == LS_OK);
    in.exact[0] = a.exact, in.bounds[0] = a.bound;
    in.exact[1] = b.exact, in.bounds[1] = b.bound;
    const ls_cell terms[2] = {{&in, 0}, {&in, 1}};
    cr_assert(ls_cells__fold(&out, 0, terms, 2, LS_F64, op) == LS_OK);
    return out;
}

// The result contains the terms' errors: all of them in sums, the largest in extremes, and times
// the other factor in products. NaN yields to a number in max and min.
Test(cells, terms_bring_their_bounds) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const value two = {2, 0.5}, three = {3, 0.25}, nan = {(double)NAN, 0};
    const double slack = 1e-12;
    const struct {
        value a, b;
        ls_op op;
        double exact, bound;
    } cases[] = {{two, three, LS_SUM, 5, 0.75},
                 {two, three, LS_AVG, 2.5, 0.375},
                 {two, three, LS_PROD, 6, 2.5 * 3.25 - 6},
                 {three, two, LS_PROD, 6, 2.5 * 3.25 - 6},
                 {two, three, LS_MAX, 3, 0.5},
                 {three, two, LS_MAX, 3, 0.5},
                 {two, three, LS_MIN, 2, 0.5},
                 {nan, three, LS_MAX, 3, 0.25},
                 {nan, two, LS_MIN, 2, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_cells out = fold(arena, cases[i].a, cases[i].b, cases[i].op);
        cr_expect(out.exact[0] == cases[i].exact, "%zu: %g", i, out.exact[0]);
        cr_expect(out.bounds[0] >= cases[i].bound && out.bounds[0] <= cases[i].bound + slack,
                  "%zu: %g", i, out.bounds[0]);
    }
    ls_arena_free(arena);
}

// A mean of the smallest numbers may round to 0; an infinite value has no bound.
Test(cells, ends_of_the_range) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_cells in, out;
    cr_assert(ls_cells__new(&in, arena, &LS_SHAPE(2), LS_F32) == LS_OK);
    cr_assert(ls_cells__new(&out, arena, &LS_SHAPE(1), LS_F32) == LS_OK);
    in.exact[0] = 0x1p-149;
    const ls_cell terms[2] = {{&in, 0}, {&in, 1}};
    cr_assert(ls_cells__fold(&out, 0, terms, 2, LS_F32, LS_AVG) == LS_OK);
    cr_expect(out.exact[0] == 0x1p-150 && out.bounds[0] >= 0x1p-150, "%g", out.bounds[0]);
    ls_arena_free(arena);
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const value infinite = {(double)INFINITY, 0}, one = {1, 0.5};
    out = fold(arena, infinite, one, LS_SUM);
    cr_expect(isinf(out.exact[0]) && out.bounds[0] == 0, "%g", out.bounds[0]);
    ls_arena_free(arena);
}

// The roundings of a sum are those of terms at their largest.
Test(cells, roundings_count_what_terms_may_be) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_cells in, out;
    cr_assert(ls_cells__new(&in, arena, &LS_SHAPE(2), LS_F32) == LS_OK);
    cr_assert(ls_cells__new(&out, arena, &LS_SHAPE(1), LS_F32) == LS_OK);
    in.bounds[0] = in.bounds[1] = 1;
    const ls_cell terms[2] = {{&in, 0}, {&in, 1}};
    cr_assert(ls_cells__fold(&out, 0, terms, 2, LS_F32, LS_SUM) == LS_OK);
    cr_expect(out.bounds[0] >= 2 + 2 * 0x1p-24, "%g", out.bounds[0] - 2);
    ls_arena_free(arena);
}

// In a folded line all terms are one rank's, so not each of them need be visible.
Test(cells, sizes_of_lines) {
    static const struct {
        double terms[2];
        int64_t count;
        ls_op op;
        double size;
    } cases[] = {{{3, -4}, 2, LS_SUM, 5},   {{30, 40}, 2, LS_SUM, 70}, {{3, -4}, 2, LS_AVG, 2.5},
                 {{3, 4}, 2, LS_AVG, 3.5},  {{3, -4}, 2, LS_MAX, 4},   {{3, -4}, 2, LS_MIN, 4},
                 {{3, -4}, 2, LS_PROD, 12}, {{3, 0}, 1, LS_SUM, 3}};
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_cells in, out;
        const ls_shape shape = LS_SHAPE(cases[i].count);
        cr_assert(ls_cells__new(&in, arena, &shape, LS_F32) == LS_OK);
        for (int k = 0; k < cases[i].count; k++) {
            ls_cells__set(&in, (size_t)k, LS_F32, cases[i].terms[k]);
        }
        cr_assert(ls_cells__fold_dim(&out, arena, &in, 0, LS_F32, cases[i].op) == LS_OK);
        cr_expect(out.count == 1 && fabs(out.sizes[0] - cases[i].size) < 1e-9, "%zu: %g", i,
                  out.sizes[0]);
    }
    ls_arena_free(arena);
}

// The neutral element of each operation, in the bits of integers of each width.
Test(cells, neutral_integers) {
    static const struct {
        ls_dtype dtype;
        ls_op op;
        uint64_t bits;
    } cases[] = {
        {LS_I8, LS_MAX, 0x80},
        {LS_I8, LS_MIN, 0x7f},
        {LS_U8, LS_MAX, 0},
        {LS_U8, LS_MIN, 0xff},
        {LS_U8, LS_BAND, 0xff},
        {LS_U8, LS_BOR, 0},
        {LS_I32, LS_MAX, UINT64_C(0x80000000)},
        {LS_I32, LS_MIN, UINT64_C(0x7fffffff)},
        {LS_U32, LS_MIN, UINT64_C(0xffffffff)},
        {LS_I32, LS_BAND, UINT64_C(0xffffffff)},
        {LS_I64, LS_MAX, UINT64_C(1) << 63},
        {LS_I64, LS_MIN, UINT64_MAX >> 1},
        {LS_U64, LS_MIN, UINT64_MAX},
        {LS_U64, LS_MAX, 0},
        {LS_I64, LS_PROD, 1},
        {LS_I64, LS_SUM, 0},
    };
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_cells cells = {.shape = LS_SHAPE(2)};
        uint64_t bits[2] = {0};
        size_t bytes = ls_dtype_bytes(cases[i].dtype);
        cr_assert(ls_cells__neutral(&cells, arena, cases[i].dtype, cases[i].op) == LS_OK);
        memcpy(&bits[0], cells.bits, bytes);
        memcpy(&bits[1], (const char *)cells.bits + bytes, bytes);
        cr_expect(bits[0] == cases[i].bits && bits[1] == cases[i].bits, "%zu: %llx %llx", i,
                  (unsigned long long)bits[0], (unsigned long long)bits[1]);
    }
    ls_arena_free(arena);
}

// Exact values from elsewhere widen the bound by the distance; infinities stay.
Test(cells, exact_values_are_taken) {
    ls_arena *arena = NULL;
    ls_cells own, from;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_cells__new(&own, arena, &LS_SHAPE(2), LS_F64) == LS_OK);
    cr_assert(ls_cells__new(&from, arena, &LS_SHAPE(2), LS_F64) == LS_OK);
    own.exact[0] = 1, own.bounds[0] = 0.25, from.exact[0] = 3;
    own.exact[1] = from.exact[1] = (double)INFINITY;
    ls_cells__take_exact(&own, &from);
    cr_expect(own.exact[0] == 3 && own.bounds[0] == 2.25);
    cr_expect(isinf(own.exact[1]) && own.bounds[1] == 0);
    ls_arena_free(arena);
}

// One element of a product of matrices, [1, inner] x [inner, 1].
static ls_cells multiply(ls_arena *arena, ls_dtype dtype, int inner, const value *a, const value *b,
                         unsigned char overflow_of_b) {
    ls_cells x, y, out;
    cr_assert(ls_cells__new(&x, arena, &LS_SHAPE(1, inner), dtype) == LS_OK);
    cr_assert(ls_cells__new(&y, arena, &LS_SHAPE(inner, 1), dtype) == LS_OK);
    for (int i = 0; i < inner; i++) {
        x.exact[i] = a[i].exact, x.bounds[i] = a[i].bound;
        y.exact[i] = b[i].exact, y.bounds[i] = b[i].bound;
        y.overflow[i] = overflow_of_b;
    }
    cr_assert(ls_cells__matmul(&out, arena, &x, &y, dtype) == LS_OK);
    return out;
}

// The bound of a product of matrices, and when it may be infinite.
Test(cells, products_of_matrices) {
    const unsigned char either = LS_OVERFLOW_UP | LS_OVERFLOW_DOWN;
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_cells out = multiply(arena, LS_F64, 2, (value[]){{2, 0.5}, {3, 0}},
                            (value[]){{4, 0.25}, {5, 0}}, LS_OVERFLOW_NONE);
    cr_expect(out.exact[0] == 23 && out.overflow[0] == LS_OVERFLOW_NONE);
    cr_expect(out.bounds[0] >= 2.625 && out.bounds[0] < 2.625 + 1e-12, "%g", out.bounds[0]);
    const value ones[] = {{1, 0}, {1, 0}}, tiny = {1e-30, 0}, large = {60000, 0}, two = {2, 0};
    out = multiply(arena, LS_F32, 2, ones, ones, LS_OVERFLOW_NONE);
    cr_expect(out.bounds[0] >= 2 * 2 * 0x1p-24, "%g", out.bounds[0]);
    out = multiply(arena, LS_F32, 1, &tiny, &tiny, LS_OVERFLOW_NONE);
    cr_expect(out.bounds[0] >= 1e-60, "%g", out.bounds[0]);
    out = multiply(arena, LS_F16, 1, &large, &two, LS_OVERFLOW_NONE);
    cr_expect(out.overflow[0] == either);
    out = multiply(arena, LS_F16, 1, &two, &two, LS_OVERFLOW_UP);
    cr_expect(out.overflow[0] == either);
    ls_cells x, y;
    cr_assert(ls_cells__of(&x, arena, &(float){2}, &LS_SHAPE(1, 1), LS_F32) == LS_OK);
    cr_assert(ls_cells__of(&y, arena, &(float){3}, &LS_SHAPE(1, 1), LS_F32) == LS_OK);
    x.overflow[0] = LS_OVERFLOW_DOWN;  // of the left operand
    cr_assert(ls_cells__matmul(&out, arena, &x, &y, LS_F32) == LS_OK);
    cr_expect(out.overflow[0] == either);
    const float rows[] = {1, 2, 3, 4};
    cr_assert(ls_cells__of(&x, arena, rows, &LS_SHAPE(2, 2), LS_F32) == LS_OK);
    cr_assert(ls_cells__matmul(&out, arena, &x, &x, LS_F32) == LS_OK);
    cr_expect(out.exact[0] == 7 && out.exact[1] == 10 && out.exact[2] == 15 && out.exact[3] == 22);
    for (int i = 0; i < 4; i++) {
        double bound = out.exact[i] * 0x1p-24;
        cr_expect(out.bounds[i] >= bound && out.bounds[i] < 4 * bound, "%d: %g", i, out.bounds[i]);
    }
    ls_arena_free(arena);
}

// Neutral elements; how five rows are cut in two; shapes; and bits are known only if all parts have
// them.
Test(cells, moving) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const struct {
        ls_dtype dtype;
        ls_op op;
        unsigned char bits;
    } neutrals[] = {{LS_I8, LS_MIN, 0x7f}, {LS_I8, LS_MAX, 0x80}, {LS_U8, LS_BAND, 0xff},
                    {LS_U8, LS_MAX, 0},    {LS_I8, LS_PROD, 1},   {LS_U8, LS_BOR, 0}};
    for (size_t i = 0; i < sizeof neutrals / sizeof *neutrals; i++) {
        ls_cells cells = {.shape = LS_SHAPE(1)};
        cr_assert(ls_cells__neutral(&cells, arena, neutrals[i].dtype, neutrals[i].op) == LS_OK);
        cr_expect(*(unsigned char *)cells.bits == neutrals[i].bits, "%zu", i);
    }
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    ls_cells moved, computed, out;
    cr_assert(ls_cells__of(&moved, arena, numbers, &LS_SHAPE(5), LS_F32) == LS_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert(ls_cells__chunk(&out, arena, &moved, 0, 2, i, LS_F32) == LS_OK);
        cr_expect(out.count == (i == 0 ? 3 : 2) && out.exact[0] == (i == 0 ? 1 : 4));
    }
    cr_assert(ls_cells__new(&computed, arena, &LS_SHAPE(5), LS_F32) == LS_OK);
    const ls_cells parts[] = {computed, moved};
    const int which[] = {0, 1};
    cr_assert(ls_cells__join(&out, arena, parts, which, 2, 0, LS_F32) == LS_OK);
    cr_expect(out.bits == NULL && out.count == 10);
    cr_assert(ls_cells__of(&moved, arena, numbers, &LS_SHAPE(2, 3), LS_F32) == LS_OK);
    cr_assert(ls_cells__transpose(&out, arena, &moved, LS_F32) == LS_OK);
    cr_expect(out.shape.dim[0] == 3 && out.shape.dim[1] == 2);
    for (int i = 0; i < 6; i++) {
        cr_expect(out.exact[i] == numbers[i % 2 * 3 + i / 2], "%d: %g", i, out.exact[i]);
    }
    ls_arena_free(arena);
}

// Against known numbers, with bounds that exclude an element's neighbours.
Test(cells, lines) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const float numbers[] = {0, logf(3), 700, 3, -4, 700};  // [2, 3]
    const int64_t classes[] = {1, 2};
    ls_cells in, targets, out;
    cr_assert(ls_cells__of(&in, arena, numbers, &LS_SHAPE(3, 2), LS_F32) == LS_OK);
    cr_assert(ls_cells__softmax(&out, arena, &in, 1, LS_F32, false) == LS_OK);
    cr_expect(fabs(out.exact[0] - 0.25) < 1e-7 && fabs(out.exact[1] - 0.75) < 1e-7);
    cr_expect(out.bounds[0] > 0 && out.bounds[0] < 1e-6, "%g", out.bounds[0]);
    cr_expect(out.exact[2] == 1 && out.exact[3] < 1e-300 && out.bounds[3] < 1e-40);
    cr_assert(ls_cells__softmax(&out, arena, &in, 0, LS_F32, true) == LS_OK);
    cr_expect(out.exact[0] == -700 && out.exact[2] == 0 && out.bounds[0] < 2e-4);
    // A single term is the whole sum. To 1, bf16 adds sixty powers of -6.25 and still has 1.
    cr_assert(ls_cells__of(&in, arena, numbers + 2, &LS_SHAPE(1), LS_F32) == LS_OK);
    cr_assert(ls_cells__softmax(&out, arena, &in, 0, LS_F32, false) == LS_OK);
    cr_expect(out.count == 1 && out.exact[0] == 1, "%g", out.exact[0]);
    uint16_t small[61] = {0};
    for (int i = 1; i < 61; i++) {
        small[i] = 0xC0C8;
    }
    cr_assert(ls_cells__of(&in, arena, small, &LS_SHAPE(61), LS_BF16) == LS_OK);
    cr_assert(ls_cells__softmax(&out, arena, &in, 0, LS_BF16, false) == LS_OK);
    cr_expect(fabs(out.exact[0] - 1 / (1 + 60 * exp(-6.25))) < 0.004, "%g", out.exact[0]);
    cr_expect(out.exact[0] + out.bounds[0] >= 1 && out.bounds[0] < 0.5, "%g", out.bounds[0]);
    // A logit far below the others with a large error adds nothing, and moves nothing.
    const double sunk[] = {0, -1e15};
    cr_assert(ls_cells__of(&in, arena, sunk, &LS_SHAPE(1, 2), LS_F64) == LS_OK);
    in.bounds[1] = 1e8;
    cr_assert(ls_cells__softmax(&out, arena, &in, 1, LS_F64, false) == LS_OK);
    cr_expect(out.exact[0] == 1 && out.bounds[0] < 1e-14 && out.bounds[1] < 1e-300);
    in.exact[1] = -1;  // here it may be the only term: no bound is known
    cr_assert(ls_cells__softmax(&out, arena, &in, 1, LS_F64, false) == LS_OK);
    cr_expect(isinf(out.bounds[0]) && isinf(out.bounds[1]));
    // A logarithm of the sum, stored with the largest, is off by half a place of 700.
    const double far[] = {700, 699};
    cr_assert(ls_cells__of(&in, arena, far, &LS_SHAPE(1, 2), LS_F64) == LS_OK);
    cr_assert(ls_cells__softmax(&out, arena, &in, 1, LS_F64, true) == LS_OK);
    cr_expect(out.bounds[0] >= 0x1p-44 && out.bounds[0] < 1e-11, "%g", out.bounds[0]);
    cr_assert(ls_cells__of(&in, arena, numbers, &LS_SHAPE(2, 3), LS_F32) == LS_OK);
    cr_assert(ls_cells__of(&targets, arena, classes, &LS_SHAPE(2), LS_I64) == LS_OK);
    const ls_cells_loss loss = {.logits = &in, .targets = &targets, .ignored = 2};
    cr_assert(ls_cells__cross_entropy(&out, arena, &loss, LS_F32) == LS_OK);
    cr_expect(fabs(out.exact[0] - (700 - log(3))) < 1e-4 && out.bounds[0] < 2e-4);
    cr_expect(out.exact[1] == 0 && out.bounds[1] == 0);  // ignored
    const float of_classes[] = {2, 3, 1};                // logits 0, log 3, 700; targets 1 and 2
    ls_cells weights, total;
    cr_assert(ls_cells__of(&weights, arena, of_classes, &LS_SHAPE(3), LS_F32) == LS_OK);
    const ls_cells_loss weighted = {
        .logits = &in, .targets = &targets, .weights = &weights, .ignored = -1, .smoothing = 0.5};
    cr_assert(ls_cells__cross_entropy(&out, arena, &weighted, LS_F32) == LS_OK);
    double of_first = 0.5 * 3 * (700 - log(3)) + 0.5 / 3 * (2 * 700 + 3 * (700 - log(3)));
    cr_expect(fabs(out.exact[0] - of_first) < 1e-3 && out.bounds[0] < 5e-3, "%g, %g of %g",
              out.exact[0], out.bounds[0], of_first);
    // The error of each logit is in its own term and in that of all classes.
    ls_cells about = in, unsure;
    about.bounds = (double[]){0.5, 0.5, 0.5, 0, 0, 0};
    ls_cells_loss weighted_about = weighted;
    weighted_about.logits = &about;
    cr_assert(ls_cells__cross_entropy(&unsure, arena, &weighted_about, LS_F32) == LS_OK);
    cr_expect(unsure.bounds[0] >= 0.5 * 3 * 0.5 + 0.5 / 3 * (2 + 3 + 1) * 0.5 &&
                  unsure.bounds[0] < 3,
              "%g", unsure.bounds[0]);
    cr_assert(ls_cells__sum_losses(&total, arena, &out, &weighted, true, LS_F32) == LS_OK);
    cr_expect(total.count == 1 && total.bounds[0] < 5e-3 &&
              fabs(total.exact[0] - (out.exact[0] + out.exact[1]) / (3 + 1)) < 1e-9);
    // The error of both weights is in the divisor, 4 that may be 3.25.
    double mean = total.exact[0], before = total.bounds[0];
    weights.bounds[1] = 0.5, weights.bounds[2] = 0.25;
    cr_assert(ls_cells__sum_losses(&total, arena, &out, &weighted, true, LS_F32) == LS_OK);
    cr_expect(total.bounds[0] >= mean * 0.75 / 3.25 &&
                  total.bounds[0] < mean * 0.7501 / 3.25 + 4 * before,
              "%g of %g", total.bounds[0], mean);
    cr_assert(ls_cells__sum_losses(&total, arena, &out, &loss, false, LS_F32) == LS_OK);
    cr_expect(fabs(total.exact[0] - (out.exact[0] + out.exact[1])) < 1e-9);
    out.bounds[0] = 0.5, out.bounds[1] = 0.25;  // the error of all losses
    cr_assert(ls_cells__sum_losses(&total, arena, &out, &loss, false, LS_F32) == LS_OK);
    cr_expect(total.bounds[0] >= 0.75 && total.bounds[0] < 0.751, "%g", total.bounds[0]);
    cr_assert(ls_cells__norm(&out, arena, &in, 0, 2, LS_F32) == LS_OK);
    cr_expect(out.count == 3 && out.exact[0] == 3 && out.bounds[0] < 1e-6);
    in.bounds[0] = 4;  // a norm moves by no more than its terms
    cr_assert(ls_cells__norm(&out, arena, &in, 0, 2, LS_F32) == LS_OK);
    cr_expect(out.bounds[0] >= 4 && out.bounds[0] < 4.001);
    ls_arena_free(arena);
}

// Named rows that are too long are scaled, once each; one that is nearly too long stays.
Test(cells, rows_that_are_too_long) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const float numbers[] = {0.625f, 0.75f, 3, 4, 3, 4};
    const int64_t named[] = {1, 0, 1};
    ls_cells weight, ids, out;
    cr_assert(ls_cells__of(&weight, arena, numbers, &LS_SHAPE(3, 2), LS_F32) == LS_OK);
    cr_assert(ls_cells__of(&ids, arena, named, &LS_SHAPE(3), LS_I64) == LS_OK);
    cr_assert(ls_cells__renormalise(&out, arena, &weight, &ids, 1, 2, 1e-7, LS_F32) == LS_OK);
    cr_expect(out.exact[0] == 0.625 && out.exact[1] == 0.75 && out.bounds[0] == 0);
    cr_expect(fabs(out.exact[2] - 0.6) < 1e-6 && fabs(out.exact[3] - 0.8) < 1e-6);
    cr_expect(out.bounds[2] > 0 && out.bounds[2] < 1e-6, "%g", out.bounds[2]);
    cr_expect(out.exact[4] == 3 && out.exact[5] == 4 && out.bounds[4] == 0);
    cr_assert(ls_cells__renormalise(&out, arena, &weight, &ids, 2, INFINITY, 0, LS_F32) == LS_OK);
    cr_expect(out.exact[0] == 0.625 && out.exact[2] == 1.5 && out.exact[3] == 2);
    ls_arena_free(arena);
}

// Moved elements convert bit by bit; computed ones are off by one rounding more, and no integer if
// they may become either of two.
Test(cells, casts) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const float numbers[] = {1.00390625f, 2.75f};  // between two of bf16
    ls_cells in, out;
    bool known = false;
    cr_assert(ls_cells__of(&in, arena, numbers, &LS_SHAPE(2), LS_F32) == LS_OK);
    cr_assert(ls_cells__cast(&out, &known, arena, &in, LS_F32, LS_BF16) == LS_OK);
    cr_expect(known && out.bits != NULL && out.exact[0] == 1 && out.bounds[0] == 0);
    in.bits = NULL;
    cr_assert(ls_cells__cast(&out, &known, arena, &in, LS_F32, LS_BF16) == LS_OK);
    cr_expect(known && out.bits == NULL && out.bounds[0] >= 0x1p-8 && out.bounds[0] < 0x1p-7);
    cr_assert(ls_cells__cast(&out, &known, arena, &in, LS_F32, LS_I32) == LS_OK);
    cr_expect(known && ((int32_t *)out.bits)[1] == 2);
    in.bounds[1] = 0.25;
    cr_assert(ls_cells__cast(&out, &known, arena, &in, LS_F32, LS_I32) == LS_OK);
    cr_expect(!known);
    ls_arena_free(arena);
}
