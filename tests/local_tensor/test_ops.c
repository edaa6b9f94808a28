// Tests of the plain operations against the same operation on the whole array, sharded afterwards.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "local_tensor/local_tensor.h"
#include "tests/counting.h"

static ls_world *make_world(ls_mesh mesh) {
    ls_world *world = NULL;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = mesh}) == LS_OK);
    return world;
}

static ls_local_tensor *cut(ls_world *world, const float *full, ls_shape shape,
                            ls_placements placements) {
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_distribute(&tensor, world, full, &shape, LS_F32, &placements) ==
              LS_OK);
    return tensor;
}

// Asserts that the tensor is `full` sharded by these placements, then frees it.
static void expect_cut(ls_local_tensor *tensor, const float *full, ls_shape shape,
                       ls_placements placements) {
    ls_world *world = ls_local_tensor_world(tensor);
    const ls_mesh *mesh = ls_world_mesh(world);
    ls_local_tensor *want = cut(world, full, shape, placements);
    cr_assert(ls_local_tensor_placements(tensor) != NULL, "a placement is implied");
    cr_expect(ls_placements_equal(ls_local_tensor_placements(tensor), &placements, mesh->ndim,
                                  mesh->dim));
    cr_assert(ls_shape_equal(ls_local_tensor_shape(tensor), &shape));
    cr_expect(ls_local_tensor_check(tensor) == LS_OK);
    for (int rank = 0; rank < ls_world_size(world); rank++) {
        const ls_shard *a = ls_local_tensor_shard(tensor, rank, 0);
        const ls_shard *b = ls_local_tensor_shard(want, rank, 0);
        cr_assert(a->count == b->count, "rank %d", rank);
        cr_assert(a->count == 0 || memcmp(a->data, b->data, a->count * 4) == 0, "rank %d", rank);
    }
    ls_local_tensor_free(want);
    ls_local_tensor_free(tensor);
}

static void fill(float *out, int count, int step) {
    for (int i = 0; i < count; i++) {
        out[i] = (float)(i * step % 17 - 8);
    }
}

// Elementwise on shards equals elementwise on the whole; the placement stays.
Test(ops, elementwise) {
    ls_world *world = make_world(LS_MESH(4));
    float a[35];
    float b[35];
    float want[35];
    fill(a, 35, 3);
    fill(b, 35, 5);
    static const ls_op ops[] = {LS_SUM, LS_PROD, LS_MAX, LS_MIN};
    ls_placements placements = LS_PLACE(LS_SHARD(0));
    for (int o = 0; o < 4; o++) {
        ls_local_tensor *x = cut(world, a, LS_SHAPE(5, 7), placements);
        ls_local_tensor *y = cut(world, b, LS_SHAPE(5, 7), placements);
        ls_local_tensor *z = NULL;
        for (int i = 0; i < 35; i++) {
            want[i] = o == 0   ? a[i] + b[i]
                      : o == 1 ? a[i] * b[i]
                      : o == 2 ? (a[i] > b[i] ? a[i] : b[i])
                               : (a[i] < b[i] ? a[i] : b[i]);
        }
        cr_assert(ls_local_tensor_elementwise(&z, x, y, ops[o]) == LS_OK);
        expect_cut(z, want, LS_SHAPE(5, 7), placements);
        ls_local_tensor_free(x);
        ls_local_tensor_free(y);
    }
    ls_world_free(world);
}

// Shapes that do not broadcast, differing placements, types, worlds, ranks and ops are checked. The
// product of partial sums loses its placement; their sum keeps it.
Test(ops, elementwise_refusals) {
    ls_world *world = make_world(LS_MESH(2));
    ls_world *other = make_world(LS_MESH(2));
    float full[4] = {1, 2, 3, 4};
    static const int64_t late[2] = {0, 2};
    ls_local_tensor *z = NULL;
    ls_local_tensor *a = cut(world, full, LS_SHAPE(4), LS_PLACE(LS_SHARD(0)));
    ls_local_tensor *b = cut(world, full, LS_SHAPE(3), LS_PLACE(LS_REPLICATE));
    cr_expect(ls_local_tensor_elementwise(&z, a, b, LS_SUM) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "rank 0: the operands have the shapes [2] and [3]");
    cr_expect(ls_local_tensor_elementwise(&z, a, a, LS_PREMUL_SUM) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_elementwise(&z, a, a, LS_BAND) == LS_ERR_INVALID);
    ls_local_tensor *c = cut(other, full, LS_SHAPE(4), LS_PLACE(LS_SHARD(0)));
    cr_expect(ls_local_tensor_elementwise(&z, a, c, LS_SUM) == LS_ERR_INVALID);
    ls_local_tensor *d = NULL;
    cr_assert(ls_local_tensor_from_shards(&d, world, LS_F32, (const int[]){1}, 1, &LS_SHAPE(2),
                                          NULL) == LS_OK);
    cr_expect(ls_local_tensor_elementwise(&z, a, d, LS_SUM) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "rank 0 has a shard of the first operand only");
    ls_local_tensor *e = cut(world, full, LS_SHAPE(2), LS_PLACE(LS_REPLICATE));
    ls_local_tensor *f = cut(world, full, LS_SHAPE(2), LS_PLACE(LS_SHARD_SIZES(0, late)));
    ls_local_tensor *g = cut(world, full, LS_SHAPE(2), LS_PLACE(LS_SHARD(0)));
    cr_expect(ls_local_tensor_elementwise(&z, g, f, LS_SUM) == LS_ERR_MISMATCH);
    cr_expect(ls_local_tensor_elementwise(&z, a, e, LS_SUM) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text,
                     "rank 1: the operands are at [2] and [0] of their logical tensors");
    ls_local_tensor *p = cut(world, full, LS_SHAPE(4), LS_PLACE(LS_PARTIAL(LS_SUM)));
    cr_assert(ls_local_tensor_elementwise(&z, p, p, LS_PROD) == LS_OK);
    cr_expect(ls_local_tensor_placements(z) == NULL);
    ls_local_tensor_free(z);
    cr_assert(ls_local_tensor_elementwise(&z, p, p, LS_SUM) == LS_OK);
    expect_cut(z, (const float[]){2, 4, 6, 8}, LS_SHAPE(4), LS_PLACE(LS_PARTIAL(LS_SUM)));
    ls_local_tensor *all[] = {a, b, c, d, e, f, g, p};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ls_local_tensor_free(all[i]);
    }
    ls_world_free(world);
    ls_world_free(other);
}

// Scaling: integers take only whole factors, partial maxima no negative ones, and partial integer
// maxima none that could wrap.
Test(ops, scale) {
    ls_world *world = make_world(LS_MESH(3));
    float full[4] = {1, -2, 3, 4};
    ls_local_tensor *a = cut(world, full, LS_SHAPE(4), LS_PLACE(LS_SHARD(0)));
    cr_assert(ls_local_tensor_scale(a, -0.5) == LS_OK);
    expect_cut(a, (const float[]){-0.5f, 1, -1.5f, -2}, LS_SHAPE(4), LS_PLACE(LS_SHARD(0)));
    a = cut(world, full, LS_SHAPE(4), LS_PLACE(LS_PARTIAL(LS_MAX)));
    cr_expect(ls_local_tensor_scale(a, -1) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_scale(a, 2) == LS_OK);
    ls_local_tensor_free(a);
    const int32_t whole[2] = {5, -6};
    cr_assert(ls_local_tensor_distribute(&a, world, whole, &LS_SHAPE(2), LS_I32,
                                         &LS_PLACE(LS_REPLICATE)) == LS_OK);
    cr_expect(ls_local_tensor_scale(a, 0.5) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_scale(a, 1e30) == LS_ERR_INVALID);
    cr_assert(ls_local_tensor_scale(a, -3) == LS_OK);
    cr_expect(((int32_t *)ls_local_tensor_shard(a, 2, 0)->data)[1] == 18);
    ls_local_tensor_free(a);
    // The neutral value of a maximum, the least integer, wraps.
    cr_assert(ls_local_tensor_distribute(&a, world, whole, &LS_SHAPE(2), LS_I32,
                                         &LS_PLACE(LS_PARTIAL(LS_MAX))) == LS_OK);
    cr_expect(ls_local_tensor_scale(a, 2) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_scale(a, 1) == LS_OK);
    ls_local_tensor_free(a);
    ls_world_free(world);
}

// The product of row shards with a whole matrix, of a whole one with column shards, and both at
// once on a 2-D mesh, are the shards of the whole product.
Test(ops, matmul_by_rows_and_columns) {
    ls_world *world = make_world(LS_MESH(2, 2));
    float a[5 * 4];
    float b[4 * 3];
    float want[5 * 3];
    fill(a, 20, 3);
    fill(b, 12, 7);
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 3; j++) {
            want[i * 3 + j] = 0;
            for (int k = 0; k < 4; k++) {
                want[i * 3 + j] += a[i * 4 + k] * b[k * 3 + j];
            }
        }
    }
    const ls_placement r = LS_REPLICATE;
    const ls_placements cases[][3] = {
        {LS_PLACE(LS_SHARD(0), r), LS_PLACE(r, r), LS_PLACE(LS_SHARD(0), r)},
        {LS_PLACE(r, r), LS_PLACE(LS_SHARD(1), LS_SHARD(1)), LS_PLACE(LS_SHARD(1), LS_SHARD(1))},
        {LS_PLACE(LS_SHARD(0), r), LS_PLACE(r, LS_SHARD(1)), LS_PLACE(LS_SHARD(0), LS_SHARD(1))},
        {LS_PLACE(LS_PARTIAL(LS_SUM), r), LS_PLACE(r, LS_SHARD(1)),
         LS_PLACE(LS_PARTIAL(LS_SUM), LS_SHARD(1))},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_local_tensor *x = cut(world, a, LS_SHAPE(5, 4), cases[i][0]);
        ls_local_tensor *y = cut(world, b, LS_SHAPE(4, 3), cases[i][1]);
        ls_local_tensor *z = NULL;
        cr_assert(ls_local_tensor_matmul(&z, x, y) == LS_OK, "%s", ls_error_last()->text);
        expect_cut(z, want, LS_SHAPE(5, 3), cases[i][2]);
        ls_local_tensor_free(x);
        ls_local_tensor_free(y);
    }
    // Sharded along the inner dimension, the ranks' products sum to the whole one.
    ls_local_tensor *x = cut(world, a, LS_SHAPE(5, 4), LS_PLACE(LS_SHARD(1), r));
    ls_local_tensor *y = cut(world, b, LS_SHAPE(4, 3), LS_PLACE(LS_SHARD(0), r));
    ls_local_tensor *z = NULL;
    cr_assert(ls_local_tensor_matmul(&z, x, y) == LS_OK);
    cr_expect(ls_local_tensor_placements(z)->at[0].kind == LS_PLACE_PARTIAL);
    for (int i = 0; i < 15; i++) {
        const float *low = ls_local_tensor_shard(z, 0, 0)->data;
        const float *high = ls_local_tensor_shard(z, 2, 0)->data;
        cr_expect(low[i] + high[i] == want[i]);
    }
    ls_local_tensor_free(z);
    cr_expect(ls_local_tensor_matmul(&z, x, x) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text,
                     "rank 0: shapes [5, 2] and [5, 2] have no matrix product");
    ls_local_tensor_free(x);
    ls_local_tensor_free(y);
    ls_world_free(world);
}

// Transposing swaps the sharded dimension; summing along it leaves partial sums, along another one
// the shards of the sum.
Test(ops, transpose_and_sum) {
    ls_world *world = make_world(LS_MESH(3));
    float full[2 * 3 * 4];
    float transposed[24];
    float summed[8] = {0};
    fill(full, 24, 5);
    for (int i = 0; i < 24; i++) {
        transposed[(i % 4 * 3 + i / 4 % 3) * 2 + i / 12] = full[i];
        summed[i / 12 * 4 + i % 4] += full[i];
    }
    ls_local_tensor *x = cut(world, full, LS_SHAPE(2, 3, 4), LS_PLACE(LS_SHARD(2)));
    ls_local_tensor *y = NULL;
    cr_assert(ls_local_tensor_transpose(&y, x, -1, 0) == LS_OK);
    expect_cut(y, transposed, LS_SHAPE(4, 3, 2), LS_PLACE(LS_SHARD(0)));
    cr_assert(ls_local_tensor_reduce(&y, x, 1, LS_SUM) == LS_OK);
    expect_cut(y, summed, LS_SHAPE(2, 4), LS_PLACE(LS_SHARD(1)));
    cr_expect(ls_local_tensor_reduce(&y, x, 3, LS_SUM) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_transpose(&y, x, 0, 5) == LS_ERR_INVALID);
    cr_expect(strncmp(ls_error_last()->text, "rank 0: ", 8) == 0);
    ls_local_tensor_free(x);
    x = cut(world, full, LS_SHAPE(2, 3, 4), LS_PLACE(LS_SHARD(1)));
    cr_assert(ls_local_tensor_reduce(&y, x, 1, LS_SUM) == LS_OK);
    cr_expect(ls_local_tensor_placements(y)->at[0].op == LS_SUM);
    for (int i = 0; i < 8; i++) {
        float total = 0;
        for (int rank = 0; rank < 3; rank++) {
            total += ((float *)ls_local_tensor_shard(y, rank, 0)->data)[i];
        }
        cr_expect(total == summed[i]);
    }
    ls_local_tensor_free(x);
    ls_local_tensor_free(y);
    ls_world_free(world);
}

// Joining along an unsharded dimension keeps the placement, and narrowing undoes it.
Test(ops, cat_and_narrow) {
    ls_world *world = make_world(LS_MESH(2));
    float a[3 * 2];
    float b[3 * 4];
    float joined[3 * 6];
    fill(a, 6, 3);
    fill(b, 12, 5);
    for (int i = 0; i < 18; i++) {
        joined[i] = i % 6 < 2 ? a[i / 6 * 2 + i % 6] : b[i / 6 * 4 + i % 6 - 2];
    }
    ls_placements rows = LS_PLACE(LS_SHARD(0));
    const ls_local_tensor *parts[2] = {cut(world, a, LS_SHAPE(3, 2), rows),
                                       cut(world, b, LS_SHAPE(3, 4), rows)};
    ls_local_tensor *all = NULL;
    ls_local_tensor *back = NULL;
    ls_rank_int *start = NULL;
    ls_rank_int *length = NULL;
    cr_assert(ls_local_tensor_cat(&all, parts, 2, -1) == LS_OK);
    cr_assert(ls_rank_int_same(&start, world, 2) == LS_OK);
    cr_assert(ls_rank_int_same(&length, world, 4) == LS_OK);
    cr_assert(ls_local_tensor_narrow(&back, all, 1, start, length) == LS_OK);
    expect_cut(back, b, LS_SHAPE(3, 4), rows);
    expect_cut(all, joined, LS_SHAPE(3, 6), rows);
    // Along the sharded dimension every rank joins its own: the result has no placement.
    const ls_local_tensor *twice[2] = {parts[0], parts[0]};
    cr_assert(ls_local_tensor_cat(&all, twice, 2, 0) == LS_OK);
    cr_expect(ls_local_tensor_placements(all) == NULL);
    cr_expect(memcmp(ls_local_tensor_shard(all, 0, 0)->data, (float[]){a[0], a[1], a[2], a[3]},
                     4 * sizeof(float)) == 0);
    cr_expect(memcmp((float *)ls_local_tensor_shard(all, 0, 0)->data + 4, a, 4 * sizeof(float)) ==
              0);
    cr_expect(ls_local_tensor_shard(all, 1, 0)->count == 4);
    ls_local_tensor_free(all);
    cr_expect(ls_local_tensor_cat(&all, parts, 2, 0) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text,
                     "rank 0: dimension 1 is 4 in tensor 1 but 2 in tensor 0");
    cr_expect(ls_local_tensor_cat(&all, parts, 0, 0) == LS_ERR_INVALID);
    ls_rank_int_free(start);
    ls_rank_int_free(length);
    // Ranks may narrow differently, also to nothing; a range that is too large names the rank.
    cr_assert(ls_rank_int_create(&start, world, (const int64_t[]){1, 4}) == LS_OK);
    cr_assert(ls_rank_int_create(&length, world, (const int64_t[]){2, 0}) == LS_OK);
    cr_assert(ls_local_tensor_narrow(&back, parts[1], 1, start, length) == LS_OK);
    cr_expect(ls_local_tensor_placements(back) == NULL);
    cr_expect(ls_local_tensor_shard(back, 0, 0)->count == 4);
    cr_expect(((float *)ls_local_tensor_shard(back, 0, 0)->data)[2] == b[5]);
    cr_expect(ls_local_tensor_shard(back, 1, 0)->count == 0);
    ls_local_tensor_free(back);
    cr_expect(ls_local_tensor_narrow(&back, parts[0], 1, start, length) == LS_ERR_INVALID);
    cr_expect(ls_error_last()->rank == 0);
    ls_rank_int_free(start);
    ls_rank_int_free(length);
    ls_local_tensor_free((ls_local_tensor *)parts[0]);
    ls_local_tensor_free((ls_local_tensor *)parts[1]);
    ls_world_free(world);
}

// Every operation and comparison on one tensor, up to the first that fails.
static int use_everything(ls_world *world) {
    static const int64_t sizes[3] = {1, 0, 2};
    float full[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    ls_local_tensor *made[6] = {NULL};
    ls_rank_int *one = NULL;
    const ls_placements rows = LS_PLACE(LS_SHARD_SIZES(0, sizes));
    const ls_placements all = LS_PLACE(LS_REPLICATE);
    int status = ls_local_tensor_distribute(&made[0], world, full, &LS_SHAPE(3, 3), LS_F32, &rows);
    status = status != LS_OK ? status : ls_rank_int_same(&one, world, 1);
    status = status != LS_OK
                 ? status
                 : ls_local_tensor_distribute(&made[1], world, full, &LS_SHAPE(3, 3), LS_F32, &all);
    status = status != LS_OK ? status : ls_local_tensor_reconcile(NULL, made[1]);
    status = status != LS_OK ? status : ls_local_tensor_check(made[0]);
    status = status != LS_OK ? status : ls_local_tensor_matmul(&made[2], made[0], made[1]);
    status =
        status != LS_OK
            ? status
            : ls_local_tensor_cat(&made[3], (const ls_local_tensor *[]){made[0], made[2]}, 2, 1);
    status = status != LS_OK ? status : ls_local_tensor_narrow(&made[4], made[3], 1, one, one);
    status = status != LS_OK ? status : ls_local_tensor_transpose(&made[5], made[3], 0, 1);
    for (int i = 0; i < 6; i++) {
        ls_local_tensor_free(made[i]);
    }
    ls_rank_int_free(one);
    return status;
}

// Whichever allocation of an operation fails, the error is returned and nothing stays allocated.
Test(ops, every_failing_allocation_is_clean) {
    uint64_t fail_at = 4;  // the first three make the world
    int status = LS_ERR_MEMORY;
    for (; status != LS_OK; fail_at++) {
        memory_counts counting = {.fail_at = fail_at};
        counting_begin(&counting);
        ls_world *world = NULL;
        cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(3)}) == LS_OK);
        status = use_everything(world);
        cr_assert(status == LS_OK || status == LS_ERR_MEMORY, "%s", ls_error_last()->text);
        ls_world_free(world);
        counting_end();
        cr_assert(counting.bytes_now == 0, "allocation %d", (int)fail_at);
    }
    cr_expect(fail_at > 40);
}
