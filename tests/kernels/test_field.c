// Arithmetic in the field: the fast kernels equal plain code, also for extreme values.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "kernels/field.h"

#define P ((int64_t)LS_FIELD_PRIME)

static int32_t *values(size_t count, uint64_t seed) {
    int32_t *made = calloc(count + 1, sizeof *made);
    cr_assert(made != NULL);
    for (size_t i = 0; i < count; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t x = seed >> 33;
        made[i] = (int32_t)(x % 7 == 0 ? P - 1 : x % 7 == 1 ? 0 : (int64_t)x % P);
    }
    return made;
}

// Products of all sizes around the tile sizes, of dense and transposed matrices, equal the plain
// loop's.
Test(field, matmul) {
    const size_t sizes[][3] = {{1, 1, 1},    {6, 16, 256}, {7, 17, 257}, {96, 32, 512},
                               {97, 5, 513}, {3, 40, 0},   {13, 1, 300}, {1, 33, 1000}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        int32_t *a = values(2 * m * k, 1 + s), *b = values(2 * k * n, 100 + s);
        int32_t *out = values(2 * m * n, 5), *want = values(2 * m * n, 6);
        for (int turned = 0; turned < 4; turned++) {
            ls_field_product product = {
                .out = out,
                .a = a,
                .b = b,
                .batch = 2,
                .m = m,
                .k = k,
                .n = n,
                .a_batch = (ptrdiff_t)(m * k),
                .a_row = turned & 1 ? 1 : (ptrdiff_t)k,
                .a_column = turned & 1 ? (ptrdiff_t)m : 1,
                .b_batch = (ptrdiff_t)(k * n),
                .b_row = turned & 2 ? 1 : (ptrdiff_t)n,
                .b_column = turned & 2 ? (ptrdiff_t)k : 1,
            };
            ls_field_matmul(&product);
            product.out = want;
            ls_field_matmul_reference(&product);
            cr_expect_arr_eq(out, want, 2 * m * n * sizeof *out, "%zu x %zu x %zu, %d", m, k, n,
                             turned);
        }
        free(a);
        free(b);
        free(out);
        free(want);
    }
}

// Sums, differences, products and inverses are those of 64-bit integers.
Test(field, elements) {
    enum { COUNT = 1000 };
    int32_t *a = values(COUNT, 11), *b = values(COUNT, 12), out[COUNT];
    ls_field_pairs pairs = {out, a, b, COUNT / 10, 10, 10, 1, 10, 1};
    for (int op = LS_FIELD_ADD; op <= LS_FIELD_MUL; op++) {
        for (int spread = 0; spread < 3; spread++) {
            pairs.b_row = spread == 1 ? 0 : 10;
            pairs.b_column = spread == 2 ? 0 : 1;
            ls_field_pairwise(&pairs, (ls_field_op)op);
            for (ptrdiff_t i = 0; i < COUNT; i++) {
                int64_t x = a[i], y = b[i / 10 * pairs.b_row + i % 10 * pairs.b_column];
                int64_t want = op == LS_FIELD_ADD ? x + y : op == LS_FIELD_SUB ? x - y + P : x * y;
                cr_assert(out[i] == want % P, "%d: %d and %d", op, a[i], b[i]);
            }
        }
    }
    ls_field_inverse(out, a, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        int64_t one = (int64_t)out[i] * a[i] % P;
        cr_assert(a[i] == 0 ? out[i] == 0 : one == 1, "1 / %d", a[i]);
    }
    free(a);
    free(b);
}

// A sum over a dimension in the middle.
Test(field, sums) {
    enum { OUTER = 3, MIDDLE = 700, INNER = 515 };
    int32_t *a = values((size_t)OUTER * MIDDLE * INNER, 21), *out = values(OUTER * INNER, 0);
    ls_field_sum(out, a, OUTER, MIDDLE, INNER);
    for (size_t at = 0; at < OUTER * INNER; at++) {
        int64_t sum = 0;
        for (size_t m = 0; m < MIDDLE; m++) {
            sum += a[(at / INNER * MIDDLE + m) * INNER + at % INNER];
        }
        cr_assert(out[at] == sum % P);
    }
    free(a);
    free(out);
}

// Equal elements have equal hashes, other elements or keys have others.
Test(field, hash) {
    enum { COUNT = 4096 };
    int32_t a[COUNT], out[COUNT], other[COUNT];
    for (int32_t i = 0; i < COUNT; i++) {
        a[i] = i / 2;
    }
    ls_field_hash(out, a, COUNT, 7);
    ls_field_hash(other, a, COUNT, 8);
    for (size_t i = 0; i + 2 < COUNT; i += 2) {
        cr_assert(out[i] == out[i + 1] && out[i] != out[i + 2] && out[i] != other[i]);
        cr_assert(out[i] >= 0 && out[i] < P);
    }
}
