// Operations whose result has other placements than its operands: broadcasting, a replicated
// operand with a sharded one, reductions, views, slices, casts, dropout. Each against the same on
// the whole array.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "local_tensor/local_tensor.h"

#define COUNT_MAX 128

static ls_world *make_world(ls_mesh mesh) {
    ls_world *world = NULL;
    ls_world_options options = {.mesh = mesh, .seed = 11};
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    return world;
}

static ls_local_tensor *cut(ls_world *world, const float *full, ls_shape shape, const char *text) {
    ls_local_tensor *tensor = NULL;
    ls_placements placements;
    cr_assert(ls_placements_parse(&placements, text) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(ls_local_tensor_distribute(&tensor, world, full, &shape, LS_F32, &placements) ==
                  LS_OK,
              "%s", ls_error_last()->text);
    return tensor;
}

static void expect_placed(const ls_local_tensor *tensor, const char *text) {
    char has[256];
    cr_assert(ls_local_tensor_placements(tensor) != NULL, "a placement is implied");
    ls_placements_format(has, sizeof has, ls_local_tensor_placements(tensor));
    cr_assert_str_eq(has, text);
    cr_assert(ls_local_tensor_check(tensor) == LS_OK, "%s", ls_error_last()->text);
}

// Every shard equals its part of `full`.
static void expect_whole(const ls_local_tensor *tensor, const float *full, ls_shape shape) {
    const ls_block all = {.offset.ndim = shape.ndim, .size = shape};
    cr_assert(ls_shape_equal(ls_local_tensor_shape(tensor), &shape));
    for (int i = 0; i < ls_local_tensor_rank_count(tensor); i++) {
        int rank = ls_local_tensor_ranks(tensor)[i];
        for (int k = 0; k < ls_local_tensor_shard_count(tensor, rank); k++) {
            const ls_shard *shard = ls_local_tensor_shard(tensor, rank, k);
            float want[COUNT_MAX] = {0};
            ls_block_copy(want, &shard->block, full, &all, sizeof(float));
            cr_assert(shard->count == 0 || memcmp(want, shard->data, shard->count * 4) == 0,
                      "rank %d, shard %d", rank, k);
        }
    }
}

static void fill(float *out, int count) {
    for (int i = 0; i < count; i++) {
        out[i] = (float)(i * 7 % 23 - 9);
    }
}

// [5, 6] with [6], [5, 1] and [1, 6] and itself, sharded against replicated, in both orders, also
// with empty ranks: DTensor's results, whole shards and strided ones.
Test(ops_placed, broadcast_and_cut) {
    static const struct {
        const char *a, *b, *out;
        int b_ndim;
        int64_t b_dim[2];
    } cases[] = {
        {"S(0), R", "R, R", "S(0), R", 2, {5, 6}},
        {"R, S(1)", "R, R", "R, S(1)", 1, {6}},
        {"S(1), R", "S(0), R", "S(1), R", 1, {6}},
        {"S(0), R", "R, S(0)", "S(0), S(1)", 1, {6}},
        {"R, R", "S(0), R", "S(0), R", 2, {5, 1}},
        {"S(0), S(1)", "R, S(1)", "S(0), S(1)", 2, {1, 6}},
        {"_S(0, 2), R", "R, R", "_S(0, 2), R", 1, {6}},
        {"S(0)[1], S(0)", "R, R", "S(0)[1], S(0)", 2, {5, 1}},
    };
    ls_world *world = make_world(LS_MESH(2, 3));
    float a[30], b[30], want[30];
    fill(a, 30);
    fill(b, 30);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ls_shape shape = {.ndim = cases[c].b_ndim};
        memcpy(shape.dim, cases[c].b_dim, sizeof cases[c].b_dim);
        int64_t columns = shape.dim[shape.ndim - 1], rows = shape.ndim == 2 ? shape.dim[0] : 1;
        for (int i = 0; i < 30; i++) {
            int64_t row = rows == 1 ? 0 : i / 6, column = columns == 1 ? 0 : i % 6;
            want[i] = a[i] + b[row * columns + column];
        }
        ls_local_tensor *x = cut(world, a, LS_SHAPE(5, 6), cases[c].a), *sum = NULL;
        ls_local_tensor *y = cut(world, b, shape, cases[c].b);
        for (int turned = 0; turned < 2; turned++) {
            cr_assert(ls_local_tensor_elementwise(&sum, turned ? y : x, turned ? x : y, LS_SUM) ==
                          LS_OK,
                      "%s and %s: %s", cases[c].a, cases[c].b, ls_error_last()->text);
            expect_placed(sum, cases[c].out);
            expect_whole(sum, want, LS_SHAPE(5, 6));
            ls_local_tensor_free(sum);
        }
        ls_local_tensor_free(x);
        ls_local_tensor_free(y);
    }
    ls_world_free(world);
}

// Operands with different placements take that of the sharded one. One that is sharded along a
// broadcast dimension is gathered, whichever it is.
Test(ops_placed, where_operands_meet) {
    static const struct {
        const char *a, *b;
        int64_t b_rows;
        const char *a_to, *b_to;  // NULL: compatible as they are
    } cases[] = {
        {"S(0), R", "R, R", 5, NULL, NULL},
        {"S(0), S(1)", "S(1), R", 5, "S(0), S(1)", "S(0), R"},
        {"R, R", "S(0), R", 1, "R, R", "R, R"},
        {"S(1), R", "S(0), R", 1, "S(1), R", "R, R"},
        {"R, S(0)", "S(0), R", 1, "R, S(0)", "R, R"},
    };
    ls_world *world = make_world(LS_MESH(2, 3));
    float full[30];
    fill(full, 30);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ls_local_tensor *a = cut(world, full, LS_SHAPE(5, 6), cases[c].a);
        ls_local_tensor *b = cut(world, full, LS_SHAPE(cases[c].b_rows, 6), cases[c].b);
        for (int turned = 0; turned < 2; turned++) {
            ls_placements to[2];
            bool moves = ls_local_tensor_meeting(&to[turned], &to[1 - turned], turned ? b : a,
                                                 turned ? a : b, LS_SUM);
            cr_assert(moves == (cases[c].a_to != NULL), "%s and %s", cases[c].a, cases[c].b);
            for (int i = 0; moves && i < 2; i++) {
                char has[256];
                ls_placements_format(has, sizeof has, &to[i]);
                cr_expect(strcmp(has, i == 0 ? cases[c].a_to : cases[c].b_to) == 0,
                          "%s and %s, operand %d: %s", cases[c].a, cases[c].b, i, has);
            }
        }
        ls_local_tensor_free(a);
        ls_local_tensor_free(b);
    }
    ls_world_free(world);
}

// Partial with whole: a product of sums and a sum of maxima stay partial; a sum of sums does not.
Test(ops_placed, partial_with_whole) {
    ls_world *world = make_world(LS_MESH(2));
    float a[4] = {1, -2, 3, 4}, b[4] = {2, 3, -1, 5}, product[4], zero[4] = {0};
    ls_local_tensor *p = cut(world, a, LS_SHAPE(4), "P(sum)"), *w = cut(world, b, LS_SHAPE(4), "R");
    ls_local_tensor *m = cut(world, a, LS_SHAPE(4), "P(max)"), *out = NULL;
    for (int i = 0; i < 4; i++) {
        product[i] = a[i] * b[i];
    }
    cr_assert(ls_local_tensor_elementwise(&out, p, w, LS_PROD) == LS_OK);
    expect_placed(out, "P(sum)");
    cr_expect(memcmp(ls_local_tensor_shard(out, 0, 0)->data, product, sizeof product) == 0);
    for (int i = 0; i < 4; i++) {  // their sign may differ
        cr_expect(((const float *)ls_local_tensor_shard(out, 1, 0)->data)[i] == zero[i]);
    }
    ls_local_tensor_free(out);
    cr_assert(ls_local_tensor_elementwise(&out, m, w, LS_SUM) == LS_OK);
    expect_placed(out, "P(max)");
    ls_local_tensor_free(out);
    cr_assert(ls_local_tensor_elementwise(&out, p, w, LS_SUM) == LS_OK);
    cr_expect(ls_local_tensor_placements(out) == NULL);
    ls_local_tensor_free(out);
    // Integers wrap, and then the least one is no longer the neutral value of a maximum.
    const int8_t maxima[1] = {-5};
    ls_local_tensor *n = NULL, *v = NULL;
    ls_placements to[2];
    cr_assert(ls_local_tensor_distribute(&n, world, maxima, &LS_SHAPE(1), LS_I8,
                                         &LS_PLACE(LS_PARTIAL(LS_MAX))) == LS_OK);
    cr_assert(ls_local_tensor_distribute(&v, world, maxima, &LS_SHAPE(1), LS_I8,
                                         &LS_PLACE(LS_REPLICATE)) == LS_OK);
    cr_expect(ls_local_tensor_meeting(&to[0], &to[1], n, v, LS_SUM));
    cr_expect(to[0].at[0].kind == LS_PLACE_REPLICATE);
    cr_expect(!ls_local_tensor_meeting(&to[0], &to[1], n, v, LS_MAX));
    cr_assert(ls_local_tensor_elementwise(&out, n, v, LS_SUM) == LS_OK);
    cr_expect(ls_local_tensor_placements(out) == NULL);
    ls_local_tensor *const all[] = {p, w, m, n, v, out};
    for (int i = 0; i < 6; i++) {
        ls_local_tensor_free(all[i]);
    }
    ls_world_free(world);
}

static double fold(double a, double b, ls_op op) {
    return op == LS_PROD ? a * b : op == LS_MAX ? fmax(a, b) : op == LS_MIN ? fmin(a, b) : a + b;
}

// Folding a sharded dimension of uneven, also empty shards leaves partial values that fold to the
// whole's: the mean as a sum of parts that use the logical size.
Test(ops_placed, reductions) {
    static const ls_op ops[] = {LS_SUM, LS_PROD, LS_MAX, LS_MIN, LS_AVG};
    ls_world *world = make_world(LS_MESH(4));
    float full[5 * 3];
    for (int i = 0; i < 15; i++) {
        full[i] = (float)(i % 7 - 3) * 0.5F;
    }
    ls_local_tensor *x = cut(world, full, LS_SHAPE(5, 3), "S(0)"), *out = NULL;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        ls_op inner = ops[o] == LS_AVG ? LS_SUM : ops[o];
        cr_assert(ls_local_tensor_reduce(&out, x, 0, ops[o]) == LS_OK);
        cr_expect(ls_local_tensor_placements(out)->at[0].kind == LS_PLACE_PARTIAL);
        cr_expect(ls_local_tensor_placements(out)->at[0].op == inner);
        for (int column = 0; column < 3; column++) {
            double whole = full[column], parts = 0;
            for (int row = 1; row < 5; row++) {
                whole = fold(whole, full[row * 3 + column], inner);
            }
            whole /= ops[o] == LS_AVG ? 5 : 1;
            for (int rank = 0; rank < 4; rank++) {
                double part = ((float *)ls_local_tensor_shard(out, rank, 0)->data)[column];
                parts = rank == 0 ? part : fold(parts, part, inner);
            }
            cr_expect(fabs(whole - parts) < 1e-6, "%s: %g and %g", ls_op_name(ops[o]), whole,
                      parts);
        }
        ls_local_tensor_free(out);
    }
    cr_expect(ls_local_tensor_reduce(&out, x, 0, LS_BXOR) == LS_ERR_INVALID);
    ls_local_tensor_free(x);
    ls_world_free(world);
}

// Views that DTensor 2.11 makes without moving data; views that it refuses and lockstep makes
// without moving data (flattened inner shards, uneven ones); and views that both refuse.
Test(ops_placed, views) {
    const struct {
        ls_mesh mesh;
        ls_shape from;
        const char *placed;
        ls_shape to;
        const char *out;  // NULL: refused
    } cases[] = {
        {LS_MESH(4), LS_SHAPE(8, 3), "S(0)", LS_SHAPE(24), "S(0)"},
        {LS_MESH(4), LS_SHAPE(24), "S(0)", LS_SHAPE(8, -1), "S(0)"},
        {LS_MESH(4), LS_SHAPE(4, 8), "S(1)", LS_SHAPE(4, 8, 1), "S(1)"},
        {LS_MESH(2, 2), LS_SHAPE(8, 6), "S(0), S(0)", LS_SHAPE(8, 2, 3), "S(0), S(0)"},
        {LS_MESH(4), LS_SHAPE(10, 3), "S(0)", LS_SHAPE(30), "S(0, sizes)"},
        {LS_MESH(4), LS_SHAPE(3, 8), "S(1)", LS_SHAPE(24), "_S(0, 3)"},
        {LS_MESH(4), LS_SHAPE(3, 10), "S(1)", LS_SHAPE(-1), "_S(0, 3)"},
        {LS_MESH(2, 2), LS_SHAPE(8, 6), "S(0), S(1)", LS_SHAPE(48), NULL},
        {LS_MESH(2), LS_SHAPE(2, 3, 4), "S(1)", LS_SHAPE(6, 4), "_S(0, 2)"},
        {LS_MESH(2), LS_SHAPE(24), "_S(0, 3)", LS_SHAPE(3, 8), NULL},
        {LS_MESH(4), LS_SHAPE(24), "S(0)", LS_SHAPE(3, 8), NULL},
        {LS_MESH(4), LS_SHAPE(4, 6), "S(1)", LS_SHAPE(4, 2, 3), NULL},
        {LS_MESH(4), LS_SHAPE(4, 8), "S(0)", LS_SHAPE(2, 2, 8), NULL},
        {LS_MESH(3), LS_SHAPE(3, 1), "S(1)", LS_SHAPE(1, 3), "S(0)"},
        {LS_MESH(3), LS_SHAPE(1), "S(0)", LS_SHAPE(1, 1), "S(0)"},
        {LS_MESH(2, 2), LS_SHAPE(1, 6), "S(0), S(1)", LS_SHAPE(1, 6), "S(0), S(1)"},
        {LS_MESH(3), LS_SHAPE(5, 1), "S(1)", LS_SHAPE(5), "S(0, sizes)"},
        {LS_MESH(4), LS_SHAPE(12, 8), "S(1)", LS_SHAPE(16, 6), NULL},  // pytorch#179502: S(0)
        {LS_MESH(4), LS_SHAPE(0, 8), "S(0)", LS_SHAPE(8, 0), "R"},
        {LS_MESH(2), LS_SHAPE(4, 8), "P(sum)", LS_SHAPE(32), "P(sum)"},
    };
    float full[COUNT_MAX];
    fill(full, COUNT_MAX);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ls_world *world = make_world(cases[c].mesh);
        ls_local_tensor *x = cut(world, full, cases[c].from, cases[c].placed), *out = NULL;
        int status = ls_local_tensor_view(&out, x, &cases[c].to);
        if (cases[c].out == NULL) {
            cr_expect(status == LS_ERR_UNSUPPORTED, "case %zu", c);
            cr_expect(strstr(ls_error_last()->text, "would move elements between ranks") != NULL);
        } else {
            cr_assert(status == LS_OK, "case %zu: %s", c, ls_error_last()->text);
            expect_placed(out, cases[c].out);
            if (strcmp(cases[c].out, "P(sum)") != 0) {
                expect_whole(out, full, *ls_local_tensor_shape(out));
            }
        }
        ls_local_tensor_free(x);
        ls_local_tensor_free(out);
        ls_world_free(world);
    }
    ls_world *world = make_world(LS_MESH(2));
    ls_local_tensor *x = cut(world, full, LS_SHAPE(4, 3), "R"), *out = NULL;
    const ls_shape wrong[] = {LS_SHAPE(5), LS_SHAPE(-1, 5), LS_SHAPE(-1, -1), LS_SHAPE(-1, 0)};
    for (int i = 0; i < 4; i++) {
        cr_expect(ls_local_tensor_view(&out, x, &wrong[i]) == LS_ERR_INVALID, "%d", i);
    }
    ls_local_tensor_free(x);
    ls_world_free(world);
}

// A slice across shards: every rank keeps its part, and shards may become uneven and empty.
Test(ops_placed, slices) {
    ls_world *world = make_world(LS_MESH(4));
    float full[10 * 3], want[5 * 3];
    fill(full, 30);
    memcpy(want, full + 2 * 3, sizeof want);
    ls_local_tensor *x = cut(world, full, LS_SHAPE(10, 3), "S(0)"), *out = NULL;
    cr_assert(ls_local_tensor_slice(&out, x, 0, 2, 5) == LS_OK);
    expect_placed(out, "S(0, sizes)");  // 1, 3, 1, 0
    expect_whole(out, want, LS_SHAPE(5, 3));
    cr_expect(ls_local_tensor_shard(out, 1, 0)->count == 9);
    cr_expect(ls_local_tensor_shard(out, 3, 0)->count == 0);
    ls_local_tensor_free(out);
    cr_expect(ls_local_tensor_slice(&out, x, 0, 8, 3) == LS_ERR_INVALID);
    cr_assert(ls_local_tensor_slice(&out, x, -1, 1, 2) == LS_OK);
    expect_placed(out, "S(0)");
    cr_expect(((float *)ls_local_tensor_shard(out, 1, 0)->data)[1] == full[3 * 3 + 2]);
    ls_local_tensor_free(out);
    ls_local_tensor_free(x);
    x = cut(world, full, LS_SHAPE(30), "_S(0, 2)");
    cr_expect(ls_local_tensor_slice(&out, x, 0, 2, 5) == LS_ERR_UNSUPPORTED);
    ls_local_tensor_free(x);
    ls_world_free(world);
}

// Casts round each element once and keep the placement; a partial sum of integers is no partial sum
// of floats.
Test(ops_placed, casts) {
    ls_world *world = make_world(LS_MESH(3));
    float full[5] = {1.00390625F, -2.5F, 3.75F, 70000, 0.1F};
    ls_local_tensor *x = cut(world, full, LS_SHAPE(5), "S(0)"), *out = NULL, *back = NULL;
    cr_assert(ls_local_tensor_cast(&out, x, LS_F16) == LS_OK);
    cr_expect(ls_local_tensor_dtype(out) == LS_F16);
    cr_assert(ls_local_tensor_cast(&back, out, LS_F32) == LS_OK);
    expect_placed(back, "S(0)");
    expect_whole(back, (const float[]){1.00390625F, -2.5F, 3.75F, INFINITY, 0.0999755859375F},
                 LS_SHAPE(5));
    ls_local_tensor *const made[] = {x, out, back};
    for (int i = 0; i < 3; i++) {
        ls_local_tensor_free(made[i]);
    }
    x = cut(world, full, LS_SHAPE(5), "P(sum)");
    cr_expect(ls_local_tensor_cast(&out, x, LS_I32) == LS_ERR_INVALID);
    cr_assert(ls_local_tensor_cast(&out, x, LS_BF16) == LS_OK);
    expect_placed(out, "P(sum)");
    ls_local_tensor_free(out);
    ls_local_tensor_free(x);
    ls_world_free(world);
}

// Dropout of the logical tensor drops the same elements under any placement, so replicas stay
// equal; per rank, replicas differ; kept elements are scaled, and about p of all are dropped.
Test(ops_placed, dropout) {
    static const char *const placed[] = {"R", "S(0)", "S(1)", "_S(0, 3)"};
    ls_world *world = make_world(LS_MESH(4));
    float full[COUNT_MAX], want[COUNT_MAX];
    int dropped = 0;
    for (int i = 0; i < COUNT_MAX; i++) {
        full[i] = 1;
    }
    for (int c = 0; c < 4; c++) {
        ls_local_tensor *x = cut(world, full, LS_SHAPE(8, 16), placed[c]);
        cr_assert(ls_local_tensor_dropout(x, 0.25, "layer", false) == LS_OK);
        if (c == 0) {
            memcpy(want, ls_local_tensor_shard(x, 0, 0)->data, sizeof want);
        }
        expect_whole(x, want, LS_SHAPE(8, 16));
        ls_local_tensor_free(x);
    }
    for (int i = 0; i < COUNT_MAX; i++) {
        dropped += want[i] == 0;
        cr_expect(want[i] == 0 || want[i] == (float)(1 / 0.75));
    }
    cr_expect(dropped > 16 && dropped < 48, "%d of 128", dropped);
    ls_local_tensor *x = cut(world, full, LS_SHAPE(8, 16), "R");
    cr_assert(ls_local_tensor_dropout(x, 0.25, "layer", true) == LS_OK);
    cr_expect(ls_local_tensor_reconcile(NULL, x) == LS_ERR_MISMATCH);
    cr_expect(ls_local_tensor_dropout(x, 1, "layer", true) == LS_ERR_INVALID);
    ls_local_tensor_free(x);
    x = cut(world, full, LS_SHAPE(8, 16), "P(sum)");
    cr_expect(ls_local_tensor_dropout(x, 0.25, "layer", false) == LS_ERR_INVALID);
    ls_local_tensor_free(x);
    ls_world_free(world);
}
