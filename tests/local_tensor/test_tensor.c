// Tests of worlds and of creating, filling, cloning and freeing local tensors.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "local_tensor/local_tensor.h"
#include "tests/counting.h"

static ls_world *make_world(ls_mesh mesh) {
    ls_world *world = NULL;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = mesh, .seed = 7}) == LS_OK);
    return world;
}

// Held ranks must ascend and belong to the world; a subset is indexed, the others are not held.
Test(world, held_ranks) {
    ls_world *world = NULL;
    ls_world_options options = {.mesh = LS_MESH(2, 3)};
    static const int wrong[][2] = {{0, 6}, {-1, 2}, {3, 3}, {4, 1}};
    options.held_count = 2;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.held = wrong[i];
        cr_expect(ls_world_create(&world, &options) == LS_ERR_INVALID);
        cr_expect(world == NULL);
    }
    options.held = (const int[]){1, 4};
    options.held_count = 0;
    cr_expect(ls_world_create(&world, &options) == LS_ERR_INVALID);
    options.held_count = 2;
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_expect(ls_world_size(world) == 6 && ls_world_held_count(world) == 2);
    cr_expect(ls_world_held_index(world, 4) == 1 && ls_world_held_index(world, 0) == -1);
    cr_expect(ls_world_held_index(world, -1) == -1 && ls_world_held_index(world, 6) == -1);
    ls_world_free(world);
    ls_world_free(NULL);
}

// Sharding a 3-D array over a 2 x 3 mesh by two dimensions puts every element into its block.
Test(tensor, distribute_in_three_dimensions) {
    ls_world *world = make_world(LS_MESH(2, 3));
    int16_t full[5 * 4 * 7];
    for (int i = 0; i < 140; i++) {
        full[i] = (int16_t)(i * 3);
    }
    // I16 is not an element type; f16 has as many bits to move.
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_distribute(&tensor, world, full, &LS_SHAPE(5, 4, 7), LS_F16,
                                         &LS_PLACE(LS_SHARD(2), LS_SHARD(0))) == LS_OK);
    size_t seen = 0;
    for (int rank = 0; rank < 6; rank++) {
        const ls_shard *shard = ls_local_tensor_shard(tensor, rank, 0);
        const int64_t *offset = shard->block.offset.dim;
        const int64_t *size = shard->block.size.dim;
        const int16_t *data = shard->data;
        for (int64_t i = 0; i < (int64_t)shard->count; i++) {
            int64_t x = offset[0] + i / (size[1] * size[2]);
            int64_t y = offset[1] + i / size[2] % size[1];
            int64_t z = offset[2] + i % size[2];
            cr_assert(data[i] == full[(x * 4 + y) * 7 + z]);
        }
        seen += shard->count;
    }
    cr_expect(seen == 140);
    cr_expect(*ls_local_tensor_shape(tensor)->dim == 5);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Partial placements put the values on coordinate 0 and each op's neutral element elsewhere.
Test(tensor, partial_holds_neutral_elements) {
    static const struct {
        ls_op op;
        double want[2];  // the value -3 on rank 0 and on rank 1
    } cases[] = {{LS_SUM, {-3, 0}},
                 {LS_PROD, {-3, 1}},
                 {LS_MAX, {-3, -INFINITY}},
                 {LS_MIN, {-3, INFINITY}},
                 {LS_AVG, {-3, -3}}};
    ls_world *world = make_world(LS_MESH(2));
    double value = -3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_local_tensor *tensor = NULL;
        cr_assert(ls_local_tensor_distribute(&tensor, world, &value, &(ls_shape){0}, LS_F64,
                                             &LS_PLACE(LS_PARTIAL(cases[i].op))) == LS_OK);
        for (int rank = 0; rank < 2; rank++) {
            const double *data = ls_local_tensor_shard(tensor, rank, 0)->data;
            cr_expect(*data == cases[i].want[rank], "%s on rank %d: %g", ls_op_name(cases[i].op),
                      rank, *data);
        }
        ls_local_tensor_free(tensor);
    }
    static const struct {
        ls_op op;
        int32_t want;
    } integers[] = {{LS_MAX, INT32_MIN}, {LS_MIN, INT32_MAX}, {LS_BAND, -1}, {LS_BOR, 0},
                    {LS_BXOR, 0},        {LS_PROD, 1},        {LS_SUM, 0}};
    int32_t five = 5;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        ls_local_tensor *tensor = NULL;
        cr_assert(ls_local_tensor_distribute(&tensor, world, &five, &(ls_shape){0}, LS_I32,
                                             &LS_PLACE(LS_PARTIAL(integers[i].op))) == LS_OK);
        cr_expect(*(int32_t *)ls_local_tensor_shard(tensor, 0, 0)->data == 5);
        cr_expect(*(int32_t *)ls_local_tensor_shard(tensor, 1, 0)->data == integers[i].want);
        ls_local_tensor_free(tensor);
    }
    ls_local_tensor *tensor = NULL;
    cr_expect(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(2), LS_F32,
                                    &LS_PLACE(LS_PARTIAL(LS_BOR))) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "placement 0: bor is not defined on f32");
    ls_world_free(world);
}

// The tensor keeps its own copy of explicit sizes.
Test(tensor, owns_its_explicit_sizes) {
    ls_world *world = make_world(LS_MESH(3));
    int64_t sizes[3] = {4, 0, 2};
    ls_local_tensor *tensor = NULL;
    ls_local_tensor *clone = NULL;
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(6, 2), LS_F32,
                                    &LS_PLACE(LS_SHARD_SIZES(0, sizes))) == LS_OK);
    memset(sizes, 0x7F, sizeof sizes);
    cr_expect(ls_local_tensor_placements(tensor)->at[0].sizes[2] == 2);
    cr_expect(ls_local_tensor_check(tensor) == LS_OK);
    cr_assert(ls_local_tensor_clone(&clone, tensor) == LS_OK);
    ls_local_tensor_free(tensor);
    cr_expect(ls_local_tensor_check(clone) == LS_OK);
    cr_expect(ls_local_tensor_shard(clone, 0, 0)->count == 8);
    cr_expect(ls_local_tensor_shard(clone, 1, 0)->data == NULL);
    ls_local_tensor_free(clone);
    ls_world_free(world);
}

// A process that holds ranks 1 and 4 of 6 has only their shards, and a request for another says so.
Test(tensor, subset_of_ranks) {
    ls_world *world = NULL;
    const int held[2] = {1, 4};
    ls_world_options options = {.mesh = LS_MESH(6), .held = held, .held_count = 2};
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    int32_t full[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_distribute(&tensor, world, full, &LS_SHAPE(12), LS_I32,
                                         &LS_PLACE(LS_SHARD(0))) == LS_OK);
    cr_expect(ls_local_tensor_rank_count(tensor) == 2);
    cr_expect(*(int32_t *)ls_local_tensor_shard(tensor, 4, 0)->data == 8);
    cr_expect(ls_local_tensor_shard(tensor, 0, 0) == NULL);
    cr_expect(ls_error_last()->rank == 0 && ls_error_last()->code == LS_ERR_NOT_FOUND);
    cr_expect_str_eq(ls_error_last()->text,
                     "the tensor has no shard on rank 0 here, only on ranks 1, 4");
    cr_expect(ls_local_tensor_shard(tensor, 4, 1) == NULL);
    cr_expect(ls_local_tensor_shard_count(tensor, 4) == 1);
    cr_expect(ls_local_tensor_shard_count(tensor, 2) == 0);
    ls_local_tensor *other = NULL;
    cr_expect(ls_local_tensor_from_shards(&other, world, LS_F32, (const int[]){1, 2}, 2,
                                          (const ls_shape[]){LS_SHAPE(1), LS_SHAPE(1)},
                                          NULL) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "rank 2 is not held here; this process holds 1, 4");
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Shards given one by one keep their shapes and copies of their data; NULL data is zeros.
Test(tensor, from_shards) {
    ls_world *world = make_world(LS_MESH(4));
    float a[4] = {1, 2, 3, 4};
    float b[3] = {5, 6, 7};
    const int ranks[3] = {0, 2, 3};
    const ls_shape shapes[3] = {LS_SHAPE(2, 2), LS_SHAPE(3), LS_SHAPE(2)};
    const void *data[3] = {a, b, NULL};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_F32, ranks, 3, shapes, data) == LS_OK);
    a[0] = 99;
    cr_expect(((float *)ls_local_tensor_shard(tensor, 0, 0)->data)[0] == 1);
    cr_expect(((float *)ls_local_tensor_shard(tensor, 2, 0)->data)[2] == 7);
    cr_expect(((float *)ls_local_tensor_shard(tensor, 3, 0)->data)[1] == 0);
    cr_expect(ls_local_tensor_shape(tensor) == NULL);
    cr_expect(ls_local_tensor_placements(tensor) == NULL);
    cr_expect(ls_local_tensor_check_metadata(tensor, -1) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "rank 0's shard has 2 dimensions, rank 2's has 1");
    ls_local_tensor_free(tensor);
    cr_expect(ls_local_tensor_from_shards(&tensor, world, LS_F32, NULL, 3, shapes, NULL) ==
              LS_ERR_INVALID);
    cr_expect(ls_local_tensor_from_shards(&tensor, world, LS_F32, (const int[]){2, 1}, 2, shapes,
                                          NULL) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_from_shards(&tensor, world, LS_F32, ranks, 0, shapes, NULL) ==
              LS_ERR_INVALID);
    cr_expect(ls_local_tensor_from_shards(&tensor, world, (ls_dtype)55, ranks, 3, shapes, NULL) ==
              LS_ERR_INVALID);
    ls_world_free(world);
}

// Sizes must be equal on all ranks except in the dimension that is allowed to be ragged.
Test(tensor, metadata_agreement) {
    ls_world *world = make_world(LS_MESH(3));
    const ls_shape ragged[3] = {LS_SHAPE(2, 4), LS_SHAPE(5, 4), LS_SHAPE(0, 4)};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_I64, NULL, 3, ragged, NULL) == LS_OK);
    cr_expect(ls_local_tensor_check_metadata(tensor, 0) == LS_OK);
    cr_expect(ls_local_tensor_check_metadata(tensor, 1) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "dimension 0 is 2 on rank 0 but 5 on rank 1");
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Declaring a placement sets offsets if the shards fit, and names rank and dimension otherwise; the
// check finds a block that was changed afterwards.
Test(tensor, place_and_check) {
    ls_world *world = make_world(LS_MESH(4));
    const ls_shape shapes[4] = {LS_SHAPE(3, 2), LS_SHAPE(3, 2), LS_SHAPE(3, 2), LS_SHAPE(1, 2)};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_F32, NULL, 4, shapes, NULL) == LS_OK);
    cr_expect(ls_local_tensor_check(tensor) == LS_ERR_INVALID);
    cr_expect(ls_local_tensor_place(tensor, &LS_SHAPE(11, 2), &LS_PLACE(LS_SHARD(0))) ==
              LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "rank 3 has 1 of dimension 0; its placement demands 2");
    cr_expect(ls_local_tensor_placements(tensor) == NULL);
    cr_assert(ls_local_tensor_place(tensor, &LS_SHAPE(10, 2), &LS_PLACE(LS_SHARD(-2))) == LS_OK);
    cr_expect(ls_local_tensor_shard(tensor, 3, 0)->block.offset.dim[0] == 9);
    cr_expect(ls_local_tensor_placements(tensor)->at[0].dim == 0);
    cr_expect(ls_local_tensor_check(tensor) == LS_OK);
    ls_local_tensor_shard(tensor, 2, 0)->block.offset.dim[0] = 5;
    cr_expect(ls_local_tensor_check(tensor) == LS_ERR_MISMATCH);
    cr_expect(ls_error_last()->rank == 2);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

static int fill_with_rank(void *arg, int rank, ls_shard *shards, int shard_count) {
    int *calls = arg;
    cr_assert(shard_count == 1 && rank == *calls);
    *calls += 1;
    if (rank == 2) {
        return LS_FAIL(LS_ERR_INVALID, "no twos");
    }
    *(int32_t *)shards[0].data = rank * 10;
    return LS_OK;
}

static int return_five(void *arg, int rank, ls_shard *shards, int shard_count) {
    (void)arg;
    (void)shards;
    (void)shard_count;
    return rank == 1 ? 5 : 0;
}

// A callback runs once per rank in order; its failure stops the map and names the rank.
Test(tensor, map_stops_at_the_first_failure) {
    ls_world *world = make_world(LS_MESH(4));
    ls_local_tensor *tensor = NULL;
    int calls = 0;
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(4), LS_I32, &LS_PLACE(LS_SHARD(0))) ==
              LS_OK);
    cr_expect(ls_local_tensor_map(tensor, fill_with_rank, &calls) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "rank 2: no twos");
    cr_expect(calls == 3);
    cr_expect(*(int32_t *)ls_local_tensor_shard(tensor, 1, 0)->data == 10);
    cr_expect(ls_local_tensor_map(tensor, return_five, NULL) == 5);
    cr_expect_str_eq(ls_error_last()->text, "rank 1: the callback returned 5");
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Whichever allocation fails, the error is returned and nothing stays allocated.
Test(tensor, every_failing_allocation_is_clean) {
    static const int64_t sizes[3] = {1, 2, 3};
    static const float full[12] = {0};
    uint64_t fail_at = 1;
    for (;; fail_at++) {
        memory_counts counting = {.fail_at = fail_at};
        counting_begin(&counting);
        ls_world *world = NULL;
        ls_local_tensor *tensor = NULL;
        ls_local_tensor *clone = NULL;
        const int held[2] = {0, 2};
        int status = ls_world_create(
            &world, &(ls_world_options){.mesh = LS_MESH(3), .held = held, .held_count = 2});
        if (status == LS_OK) {
            status = ls_local_tensor_distribute(&tensor, world, full, &LS_SHAPE(6, 2), LS_F32,
                                                &LS_PLACE(LS_SHARD_SIZES(0, sizes)));
        }
        if (status == LS_OK) {
            status = ls_local_tensor_clone(&clone, tensor);
        }
        ls_local_tensor_free(clone);
        ls_local_tensor_free(tensor);
        ls_world_free(world);
        counting_end();
        cr_assert(counting.bytes_now == 0, "allocation %d", (int)fail_at);
        if (status == LS_OK) {
            break;
        }
        cr_assert(status == LS_ERR_MEMORY);
    }
    cr_expect(fail_at > 15);
}

// A tensor of 1,024 shards of 1,024 f32 takes less than a tenth more memory than its shards, and
// milliseconds. A shape beyond the size of memory or its limit is refused without a remainder.
Test(tensor, cost) {
    memory_counts counting = {0};
    counting_begin(&counting);
    ls_world *world = NULL;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(1024)}) == LS_OK);
    ptrdiff_t before = counting.bytes_now;
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(1024, 1024), LS_F32,
                                    &LS_PLACE(LS_SHARD(0))) == LS_OK);
    ptrdiff_t shards = (ptrdiff_t)1024 * 1024 * 4;
    cr_expect(counting.bytes_now - before >= shards);
    cr_expect(counting.bytes_now - before <= shards + shards / 10);
    cr_expect(counting.bytes_max - before <= shards + shards / 10);
    ls_local_tensor_free(tensor);
    cr_expect(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(INT64_MAX), LS_F32,
                                    &LS_PLACE(LS_SHARD(0))) == LS_ERR_OVERFLOW);
    counting.bytes_limit = (size_t)16 << 20;
    cr_expect(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(1 << 30), LS_F32,
                                    &LS_PLACE(LS_SHARD(0))) == LS_ERR_MEMORY);
    cr_expect(counting.bytes_now == before);
    ls_world_free(world);
    counting_end();
}
