// Operations on local tensors that communicate: redistribute between all placements, scatter,
// gather to full, and the collectives along an axis.
#include <criterion/criterion.h>
#include <string.h>

#include "collectives/collectives.h"

typedef struct fixture {
    ls_world *world;
    ls_backend *backend;
} fixture;

static fixture open_mesh(ls_mesh mesh) {
    fixture f = {0};
    ls_world_options options = {.mesh = mesh, .seed = 3};
    cr_assert(ls_world_create(&f.world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&f.backend, f.world) == LS_OK);
    return f;
}

static void close_mesh(fixture *f) {
    ls_backend_free(f->backend);
    ls_world_free(f->world);  // asserts that no tensor is left
}

#define VALUES_MAX 512
static float values[VALUES_MAX];

static void fill_values(void) {
    for (int i = 0; i < VALUES_MAX; i++) {
        values[i] = (float)(i + 1);
    }
}

TestSuite(tensor, .init = fill_values);

static void expect_same(const ls_local_tensor *a, const ls_local_tensor *b, const char *what) {
    for (int i = 0; i < ls_local_tensor_rank_count(b); i++) {
        int rank = ls_local_tensor_ranks(b)[i];
        const ls_shard *x = ls_local_tensor_shard(a, rank, 0),
                       *y = ls_local_tensor_shard(b, rank, 0);
        cr_assert(ls_shape_equal(&x->block.size, &y->block.size), "%s: rank %d", what, rank);
        cr_assert(x->count == 0 || memcmp(x->data, y->data, x->count * sizeof(float)) == 0,
                  "%s: rank %d", what, rank);
    }
    cr_assert(ls_local_tensor_check(a) == LS_OK, "%s: %s", what, ls_error_last()->text);
}

// from -> to equals distributing to `to` directly, and the full tensor stays the same.
static void check_pair(fixture *f, const ls_shape *shape, const ls_placements *from,
                       const ls_placements *to) {
    char from_text[128], to_text[128], what[320];
    ls_placements_format(from_text, sizeof from_text, from);
    ls_placements_format(to_text, sizeof to_text, to);
    snprintf(what, sizeof what, "[%s] to [%s] of %d x %d", from_text, to_text, (int)shape->dim[0],
             (int)shape->dim[1]);
    ls_local_tensor *in = NULL, *out = NULL, *expected = NULL;
    cr_assert(ls_local_tensor_distribute(&in, f->world, values, shape, LS_F32, from) == LS_OK, "%s",
              ls_error_last()->text);
    cr_assert(ls_local_tensor_distribute(&expected, f->world, values, shape, LS_F32, to) == LS_OK);
    int status = ls_tensor_redistribute(&out, f->backend, in, to);
    cr_assert(status == LS_OK, "%s: %s", what, ls_error_last()->text);
    expect_same(out, expected, what);
    float full[VALUES_MAX];
    size_t count = 0;
    cr_assert(ls_shape_count(&count, shape) == LS_OK);
    cr_assert(ls_tensor_full(full, count * sizeof(float), f->backend, out) == LS_OK, "%s: %s", what,
              ls_error_last()->text);
    cr_assert(memcmp(full, values, count * sizeof(float)) == 0, "%s: full", what);
    ls_local_tensor_free(in);
    ls_local_tensor_free(out);
    ls_local_tensor_free(expected);
}

static void check_all(fixture *f, const ls_placement *menu, int menu_count, int mesh_dims) {
    static const ls_shape shapes[] = {
        {2, {5, 3}}, {2, {4, 8}}, {2, {1, 7}}, {2, {0, 3}}, {3, {3, 5, 2}}};
    int combinations = 1;
    for (int d = 0; d < mesh_dims; d++) {
        combinations *= menu_count;
    }
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int a = 0; a < combinations; a++) {
            for (int b = 0; b < combinations; b++) {
                ls_placements from = {.count = mesh_dims}, to = {.count = mesh_dims};
                for (int d = 0, x = a, y = b; d < mesh_dims; d++) {
                    from.at[d] = menu[x % menu_count];
                    to.at[d] = menu[y % menu_count];
                    x /= menu_count;
                    y /= menu_count;
                }
                check_pair(f, &shapes[s], &from, &to);
            }
        }
    }
}

// All pairs of placements along one mesh dimension, for four ranks and for three.
Test(tensor, redistributes_on_a_line) {
    const ls_placement menu[] = {LS_REPLICATE,      LS_SHARD(0),        LS_SHARD(1),
                                 LS_SHARD(-1),      LS_PARTIAL(LS_SUM), LS_PARTIAL(LS_MAX),
                                 LS_PARTIAL(LS_AVG)};
    for (int ranks = 1; ranks <= 4; ranks++) {
        fixture f = open_mesh(LS_MESH(ranks));
        check_all(&f, menu, 7, 1);
        close_mesh(&f);
    }
}

// All pairs on two mesh dimensions, both of which may shard the same tensor dimension.
Test(tensor, redistributes_on_a_grid) {
    const ls_placement menu[] = {LS_REPLICATE, LS_SHARD(0), LS_SHARD(1), LS_PARTIAL(LS_SUM)};
    fixture square = open_mesh(LS_MESH(2, 2)), oblong = open_mesh(LS_MESH(3, 2));
    check_all(&square, menu, 4, 2);
    check_all(&oblong, menu, 4, 2);
    close_mesh(&square);
    close_mesh(&oblong);
}

// Three mesh dimensions: every sharding of two tensor dimensions by three.
Test(tensor, redistributes_on_a_cube) {
    const ls_placement menu[] = {LS_REPLICATE, LS_SHARD(0), LS_SHARD(1)};
    fixture f = open_mesh(LS_MESH(2, 2, 2));
    const ls_shape shape = LS_SHAPE(5, 9);
    for (int a = 0; a < 27; a++) {
        for (int b = 0; b < 27; b++) {
            ls_placements from = LS_PLACE(menu[a % 3], menu[a / 3 % 3], menu[a / 9]);
            ls_placements to = LS_PLACE(menu[b % 3], menu[b / 3 % 3], menu[b / 9]);
            check_pair(&f, &shape, &from, &to);
        }
    }
    close_mesh(&f);
}

// Explicit shard sizes, from and to chunks and each other.
Test(tensor, redistributes_explicit_sizes) {
    static const int64_t one[] = {1, 3, 1, 3}, two[] = {0, 8, 0, 0};
    fixture f = open_mesh(LS_MESH(4));
    const ls_placement menu[] = {
        LS_SHARD_SIZES(0, one), LS_SHARD_SIZES(0, two), LS_SHARD(0), LS_SHARD(1),
        LS_REPLICATE,           LS_PARTIAL(LS_SUM)};
    const ls_shape shape = LS_SHAPE(8, 3);
    for (int a = 0; a < 6; a++) {
        for (int b = 0; b < 6; b++) {
            check_pair(&f, &shape, &LS_PLACE(menu[a]), &LS_PLACE(menu[b]));
        }
    }
    close_mesh(&f);
}

// One rank's tensor reaches all ranks under any placements, from any source.
Test(tensor, scatters_from_one_rank) {
    const ls_placement menu[] = {LS_REPLICATE, LS_SHARD(0), LS_SHARD(1), LS_PARTIAL(LS_SUM)};
    fixture f = open_mesh(LS_MESH(2, 3));
    const ls_shape shape = LS_SHAPE(7, 5);
    for (int source = 0; source < 6; source++) {
        for (int a = 0; a < 16; a++) {
            ls_placements to = LS_PLACE(menu[a % 4], menu[a / 4]);
            ls_local_tensor *out = NULL, *expected = NULL;
            cr_assert(ls_tensor_scatter(&out, f.backend, values, source, &shape, LS_F32, &to) ==
                          LS_OK,
                      "%s", ls_error_last()->text);
            cr_assert(ls_local_tensor_distribute(&expected, f.world, values, &shape, LS_F32, &to) ==
                      LS_OK);
            expect_same(out, expected, "scatter");
            ls_local_tensor_free(out);
            ls_local_tensor_free(expected);
        }
    }
    ls_local_tensor *out = NULL;
    ls_placements to = LS_PLACE(LS_SHARD(0), LS_REPLICATE);
    cr_expect(ls_tensor_scatter(&out, f.backend, values, 6, &shape, LS_F32, &to) == LS_ERR_INVALID);
    cr_expect(ls_tensor_scatter(&out, f.backend, NULL, 0, &shape, LS_F32, &to) == LS_ERR_INVALID);
    close_mesh(&f);
}

static ls_local_tensor *shards(fixture *f, const ls_shape *shapes) {
    ls_local_tensor *tensor = NULL;
    int count = ls_world_size(f->world);
    const void *data[8];
    for (int i = 0; i < count; i++) {
        data[i] = values + 10 * i;  // rank 1's values start at 11
    }
    cr_assert(ls_local_tensor_from_shards(&tensor, f->world, LS_F32, NULL, count, shapes, data) ==
              LS_OK);
    return tensor;
}

static float at(const ls_local_tensor *tensor, int rank, int index) {
    return ((const float *)ls_local_tensor_shard(tensor, rank, 0)->data)[index];
}

// The collectives along an axis, worked by hand.
Test(tensor, collectives_by_hand) {
    fixture f = open_mesh(LS_MESH(3));
    ls_axis *axis = NULL;
    cr_assert(ls_axis_create(&axis, f.backend, 0) == LS_OK);
    ls_shape same[3] = {LS_SHAPE(2, 2), LS_SHAPE(2, 2), LS_SHAPE(2, 2)};
    ls_shape ragged[3] = {LS_SHAPE(2, 1), LS_SHAPE(2, 2), LS_SHAPE(2, 0)};
    ls_local_tensor *in = shards(&f, same), *uneven = shards(&f, ragged), *out = NULL;
    cr_assert(ls_tensor_all_reduce(&out, in, LS_SUM, axis) == LS_OK);
    cr_expect(at(out, 2, 0) == 1 + 11 + 21 && at(out, 0, 3) == 4 + 14 + 24);
    ls_local_tensor_free(out);
    // [[1], [2]], [[11, 12], [13, 14]], [[], []] side by side
    cr_assert(ls_tensor_all_gather(&out, uneven, 1, axis) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(ls_local_tensor_shard(out, 0, 0)->block.size.dim[1] == 3);
    for (int r = 0; r < 3; r++) {
        cr_expect(at(out, r, 0) == 1 && at(out, r, 1) == 11 && at(out, r, 2) == 12);
        cr_expect(at(out, r, 3) == 2 && at(out, r, 4) == 13 && at(out, r, 5) == 14);
    }
    ls_local_tensor_free(out);
    cr_expect(ls_tensor_all_gather(&out, uneven, 0, axis) == LS_ERR_MISMATCH);
    cr_expect(strstr(ls_error_last()->text, "rank 1's is [2, 2]") != NULL, "%s",
              ls_error_last()->text);
    cr_expect(ls_tensor_all_gather(&out, uneven, 2, axis) == LS_ERR_INVALID);
    // columns in chunks of ceil(2 / 3) = 1: column 0, column 1, none
    cr_assert(ls_tensor_reduce_scatter(&out, in, LS_SUM, 1, axis) == LS_OK);
    cr_expect(at(out, 0, 0) == 33 && at(out, 0, 1) == 3 + 13 + 23);
    cr_expect(at(out, 1, 0) == 2 + 12 + 22 && at(out, 1, 1) == 4 + 14 + 24);
    cr_expect(ls_local_tensor_shard(out, 2, 0)->count == 0);
    ls_local_tensor_free(out);
    // rank 0 gets row 0 of all ranks, side by side: [1, 11, 12]
    cr_assert(ls_tensor_all_to_all(&out, uneven, 0, 1, axis) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(at(out, 0, 0) == 1 && at(out, 0, 1) == 11 && at(out, 0, 2) == 12);
    cr_expect(at(out, 1, 0) == 2 && at(out, 1, 1) == 13 && at(out, 1, 2) == 14);
    cr_expect(ls_local_tensor_shard(out, 2, 0)->count == 0);
    ls_local_tensor_free(out);
    cr_assert(ls_tensor_broadcast(in, 1, axis) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(at(in, 0, 0) == 11 && at(in, 2, 3) == 14 && at(in, 1, 1) == 12);
    ls_local_tensor_free(in);
    ls_local_tensor_free(uneven);
    ls_axis_free(axis);
    close_mesh(&f);
}

// A partial tensor is replicated after all_reduce.
Test(tensor, all_reduce_keeps_the_logical_tensor) {
    fixture f = open_mesh(LS_MESH(2, 2));
    ls_axis *axis = NULL;
    ls_local_tensor *in = NULL, *out = NULL;
    const ls_shape shape = LS_SHAPE(3, 2);
    ls_placements from = LS_PLACE(LS_SHARD(0), LS_PARTIAL(LS_SUM));
    cr_assert(ls_axis_create(&axis, f.backend, 1) == LS_OK);
    cr_assert(ls_local_tensor_distribute(&in, f.world, values, &shape, LS_F32, &from) == LS_OK);
    cr_assert(ls_tensor_all_reduce(&out, in, LS_SUM, axis) == LS_OK);
    char text[64];
    ls_placements_format(text, sizeof text, ls_local_tensor_placements(out));
    cr_expect(strcmp(text, "S(0), R") == 0, "%s", text);
    cr_expect(at(out, 3, 1) == 6);
    ls_local_tensor_free(in);
    ls_local_tensor_free(out);
    ls_axis_free(axis);
    close_mesh(&f);
}

// Impossible requests are errors and have no effect.
Test(tensor, refuses_what_cannot_be) {
    fixture f = open_mesh(LS_MESH(2));
    ls_local_tensor *in = NULL, *out = NULL;
    const ls_shape shape = LS_SHAPE(3, 2);
    ls_placements replicate = LS_PLACE(LS_REPLICATE);
    cr_assert(ls_local_tensor_distribute(&in, f.world, values, &shape, LS_F32, &replicate) ==
              LS_OK);
    cr_expect(ls_tensor_redistribute(&out, f.backend, in, &LS_PLACE(LS_SHARD(2))) ==
              LS_ERR_INVALID);
    cr_expect(ls_tensor_redistribute(&out, f.backend, in, &LS_PLACE(LS_SHARD(0), LS_SHARD(1))) ==
              LS_ERR_INVALID);
    cr_expect(ls_tensor_redistribute(&out, f.backend, in, &LS_PLACE(LS_PARTIAL(LS_BAND))) ==
              LS_ERR_INVALID);
    float full[6];
    cr_expect(ls_tensor_full(full, 5 * sizeof(float), f.backend, in) == LS_ERR_INVALID);
    // Ranks whose replicas differ have no full tensor.
    ((float *)ls_local_tensor_shard(in, 1, 0)->data)[4] = -1;
    cr_expect(ls_tensor_full(full, sizeof full, f.backend, in) == LS_ERR_MISMATCH);
    cr_expect(strstr(ls_error_last()->text, "rank 1") != NULL, "%s", ls_error_last()->text);
    ls_local_tensor_free(in);
    // Shards may differ only in the dimension that is joined.
    const ls_shape shapes[2] = {LS_SHAPE(2, 2), LS_SHAPE(4, 2)};
    ls_axis *axis = NULL;
    cr_assert(ls_axis_create(&axis, f.backend, 0) == LS_OK);
    cr_assert(ls_local_tensor_from_shards(&in, f.world, LS_F32, NULL, 2, shapes, NULL) == LS_OK);
    cr_expect(ls_tensor_all_to_all(&out, in, 0, 1, axis) == LS_ERR_MISMATCH);
    cr_expect(strstr(ls_error_last()->text, "rank 0's shard is [2, 2] and rank 1's is [4, 2]") !=
                  NULL,
              "%s", ls_error_last()->text);
    ls_local_tensor_free(in);
    ls_axis_free(axis);
    cr_expect(out == NULL);
    close_mesh(&f);
}
