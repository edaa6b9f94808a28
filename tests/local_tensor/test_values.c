// Tests of reconciling, random values and printing.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/kernels/scalar.h"
#include "local_tensor/local_tensor.h"

static ls_world *make_world(ls_mesh mesh) {
    ls_world *world = NULL;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = mesh, .seed = 1234}) == LS_OK);
    return world;
}

// Equal shards reconcile to their values; NaNs of any payload are equal.
Test(reconcile, equal_shards) {
    ls_world *world = make_world(LS_MESH(3));
    uint32_t bits[3][2] = {
        {0x3F800000u, 0x7FC00000u}, {0x3F800000u, 0xFFC12345u}, {0x3F800000u, 0x7F800001u}};
    const void *data[3] = {bits[0], bits[1], bits[2]};
    const ls_shape shapes[3] = {LS_SHAPE(2), LS_SHAPE(2), LS_SHAPE(2)};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_F32, NULL, 3, shapes, data) == LS_OK);
    float out[2] = {0, 0};
    cr_assert(ls_local_tensor_reconcile(out, tensor) == LS_OK);
    cr_expect(out[0] == 1 && isnan(out[1]));
    ls_local_tensor_free(tensor);
    // The same bits as integers differ.
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_U32, NULL, 3, shapes, data) == LS_OK);
    cr_expect(ls_local_tensor_reconcile(NULL, tensor) == LS_ERR_MISMATCH);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// A difference names both ranks, the element, both values and every rank that differs; the sign of
// zero and the shape count.
Test(reconcile, differences_are_named) {
    ls_world *world = make_world(LS_MESH(4));
    float zeros[4] = {0, 0, 0, 0};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_distribute(&tensor, world, zeros, &LS_SHAPE(2, 2), LS_F32,
                                         &LS_PLACE(LS_REPLICATE)) == LS_OK);
    cr_expect(ls_local_tensor_reconcile(NULL, tensor) == LS_OK);
    ((float *)ls_local_tensor_shard(tensor, 1, 0)->data)[2] = -0.0f;
    ((float *)ls_local_tensor_shard(tensor, 3, 0)->data)[0] = 0.1f;
    cr_expect(ls_local_tensor_reconcile(NULL, tensor) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text,
                     "rank 0 has 0 (bits 00000000) at element [1, 0], rank 1 has -0 (bits "
                     "80000000); 1 of 4 elements differ; different from rank 0: 1, 3");
    cr_expect(ls_error_last()->rank == 1);
    ((float *)ls_local_tensor_shard(tensor, 1, 0)->data)[2] = 0;
    ((float *)ls_local_tensor_shard(tensor, 3, 0)->data)[0] = 0;
    for (int r = 0; r < 4; r++) {  // neither is a NaN
        ((float *)ls_local_tensor_shard(tensor, r, 0)->data)[3] = r == 2 ? -3 : -2;
    }
    cr_expect(ls_local_tensor_reconcile(NULL, tensor) == LS_ERR_MISMATCH);
    cr_expect(ls_error_last()->rank == 2);
    ls_local_tensor_free(tensor);
    const ls_shape shapes[4] = {LS_SHAPE(2), LS_SHAPE(2), LS_SHAPE(1, 2), LS_SHAPE(2)};
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_F32, NULL, 4, shapes, NULL) == LS_OK);
    cr_expect(ls_local_tensor_reconcile(NULL, tensor) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "rank 0 has the shape [2], rank 2 [1, 2]");
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Ranks that differ only in replicated dimensions hold the same bits. The rank without the others'
// majority is at fault; shards of different parts are no replicas.
Test(reconcile, replicas) {
    ls_world *world = make_world(LS_MESH(2, 3));
    const float values[4] = {1, 2, 3, 4};
    ls_local_tensor *tensor = NULL;
    int wrong[6], count = -1;
    cr_assert(ls_local_tensor_distribute(&tensor, world, values, &LS_SHAPE(4), LS_F32,
                                         &LS_PLACE(LS_SHARD(0), LS_REPLICATE)) == LS_OK);
    cr_expect(ls_local_tensor_check_replicas(wrong, &count, tensor) == LS_OK && count == 0);
    ((float *)ls_local_tensor_shard(tensor, 3, 0)->data)[1] = 5;
    cr_expect(ls_local_tensor_check_replicas(wrong, &count, tensor) == LS_ERR_MISMATCH);
    cr_expect(count == 1 && wrong[0] == 3 && ls_error_last()->rank == 3);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// The generator gives the published known answers of Philox4x32-10.
Test(random, philox_known_answers) {
    static const uint32_t known[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0x408F276Du,
         0x41C83B0Eu, 0xA20BC7C6u, 0x6D5451FDu},
        {0x243F6A88u, 0x85A308D3u, 0x13198A2Eu, 0x03707344u, 0xA4093822u, 0x299F31D0u, 0xD16CFE09u,
         0x94FDCCEBu, 0x5001E420u, 0x24126EA1u}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        ls_philox4x32(out, known[i], known[i] + 4);
        cr_expect(memcmp(out, known[i] + 6, sizeof out) == 0, "vector %d", i);
    }
}

// Whatever the sharding, each rank holds its block of the same logical numbers.
Test(random, same_logical_numbers_under_any_sharding) {
    ls_world *world = make_world(LS_MESH(2, 3));
    static const int64_t sizes[3] = {6, 0, 1};
    const ls_placements placements[] = {
        LS_PLACE(LS_REPLICATE, LS_REPLICATE), LS_PLACE(LS_SHARD(0), LS_SHARD(1)),
        LS_PLACE(LS_SHARD(1), LS_SHARD(1)), LS_PLACE(LS_REPLICATE, LS_SHARD_SIZES(1, sizes))};
    float full[5 * 7];
    for (uint64_t i = 0; i < 35; i++) {
        full[i] = (float)ls_random_normal(1234, ls_random_stream("w"), LS_RANDOM_LOGICAL, i);
    }
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        ls_local_tensor *drawn = NULL;
        ls_local_tensor *cut = NULL;
        cr_assert(ls_local_tensor_zeros(&drawn, world, &LS_SHAPE(5, 7), LS_F32, &placements[p]) ==
                  LS_OK);
        cr_assert(ls_local_tensor_randn(drawn, "w") == LS_OK);
        cr_assert(ls_local_tensor_distribute(&cut, world, full, &LS_SHAPE(5, 7), LS_F32,
                                             &placements[p]) == LS_OK);
        for (int rank = 0; rank < 6; rank++) {
            const ls_shard *a = ls_local_tensor_shard(drawn, rank, 0);
            const ls_shard *b = ls_local_tensor_shard(cut, rank, 0);
            cr_assert(a->count == b->count);
            cr_expect(a->count == 0 || memcmp(a->data, b->data, a->count * 4) == 0,
                      "placement %zu, rank %d", p, rank);
        }
        ls_local_tensor_free(drawn);
        ls_local_tensor_free(cut);
    }
    ls_world_free(world);
}

// Partial tensors hold the logical numbers once, and so do several blocks on each rank.
Test(random, partial_and_blocks) {
    ls_world *world = make_world(LS_MESH(2));
    uint32_t stream = ls_random_stream("b");
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(3), LS_F64,
                                    &LS_PLACE(LS_PARTIAL(LS_SUM))) == LS_OK);
    cr_assert(ls_local_tensor_randn(tensor, "b") == LS_OK);
    const double *zero = ls_local_tensor_shard(tensor, 0, 0)->data;
    const double *one = ls_local_tensor_shard(tensor, 1, 0)->data;
    for (uint64_t i = 0; i < 3; i++) {
        cr_expect(zero[i] == ls_random_normal(1234, stream, LS_RANDOM_LOGICAL, i) && one[i] == 0);
    }
    ls_local_tensor_free(tensor);
    const ls_block blocks[2] = {{LS_SHAPE(2, 1), LS_SHAPE(1, 2)}, {LS_SHAPE(0, 0), LS_SHAPE(2, 1)}};
    cr_assert(ls_local_tensor_from_blocks(&tensor, world, LS_F64, &LS_SHAPE(3, 3),
                                          (const int[]){1, 1}, blocks, 2, false) == LS_OK);
    cr_assert(ls_local_tensor_randn(tensor, "b") == LS_OK);
    const double *first = ls_local_tensor_shard(tensor, 1, 0)->data;
    const double *second = ls_local_tensor_shard(tensor, 1, 1)->data;
    cr_expect(first[1] == ls_random_normal(1234, stream, LS_RANDOM_LOGICAL, 8));
    cr_expect(second[1] == ls_random_normal(1234, stream, LS_RANDOM_LOGICAL, 3));
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Streams differ by name; ranks that hold the same element have the same value; integers are
// refused.
Test(random, streams_differ_by_name) {
    ls_world *world = make_world(LS_MESH(4));
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(64), LS_BF16,
                                    &LS_PLACE(LS_REPLICATE)) == LS_OK);
    cr_assert(ls_local_tensor_randn(tensor, "other") == LS_OK);
    uint16_t before[64];
    memcpy(before, ls_local_tensor_shard(tensor, 0, 0)->data, sizeof before);
    cr_assert(ls_local_tensor_randn(tensor, "dropout") == LS_OK);
    cr_expect(ls_local_tensor_reconcile(NULL, tensor) == LS_OK);
    cr_expect(memcmp(before, ls_local_tensor_shard(tensor, 0, 0)->data, sizeof before) != 0);
    ls_local_tensor_free(tensor);
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(4), LS_I32,
                                    &LS_PLACE(LS_REPLICATE)) == LS_OK);
    cr_expect(ls_local_tensor_randn(tensor, "x") == LS_ERR_INVALID);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

static void expect_print(const ls_local_tensor *tensor, size_t values_max, const char *want) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    cr_assert(stream != NULL);
    cr_assert(ls_local_tensor_print(stream, tensor, values_max) == LS_OK);
    (void)fclose(stream);
    cr_expect_str_eq(text, want);
    free(text);
}

// A printed tensor shows type, shape, mesh, placement, and each shard's place and first values.
Test(print, golden) {
    ls_world *world = NULL;
    ls_mesh mesh = {.ndim = 2, .dim = {2, 2}, .name = {"host", "gpu"}};
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = mesh}) == LS_OK);
    float full[6] = {0.1f, -0.0f, 3e-45f, INFINITY, NAN, 16777216};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_distribute(&tensor, world, full, &LS_SHAPE(3, 2), LS_F32,
                                         &LS_PLACE(LS_SHARD(0), LS_SHARD(0))) == LS_OK);
    expect_print(tensor, 1,
                 "f32 [3, 2] on mesh [host 2, gpu 2]: S(0), S(0)\n"
                 "  rank 0 [0, 0] + [1, 2]: 0.1 ... (2)\n"
                 "  rank 1 [1, 0] + [1, 2]: 3e-45 ... (2)\n"
                 "  rank 2 [2, 0] + [1, 2]: nan ... (2)\n"
                 "  rank 3 [3, 0] + [0, 2]: empty\n");
    ls_local_tensor_free(tensor);
    int8_t data[2] = {-128, 127};
    cr_assert(ls_local_tensor_from_shards(&tensor, world, LS_I8, (const int[]){2}, 1, &LS_SHAPE(2),
                                          (const void *[]){data}) == LS_OK);
    expect_print(tensor, 99, "i8 on mesh [host 2, gpu 2]\n  rank 2 [2]: -128 127\n");
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// A stream that cannot be written to is an error.
Test(print, failing_stream) {
    FILE *stream = fopen("/dev/full", "w");
    if (stream == NULL) {
        cr_skip_test("/dev/full is not there");
    }
    (void)setvbuf(stream, NULL, _IONBF, 0);
    ls_world *world = make_world(LS_MESH(2));
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_zeros(&tensor, world, &LS_SHAPE(4), LS_F16, &LS_PLACE(LS_SHARD(0))) ==
              LS_OK);
    cr_expect(ls_local_tensor_print(stream, tensor, 4) == LS_ERR_IO);
    (void)fclose(stream);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// An element as text, whole numbers with a sign where their type has one.
Test(printing, elements_of_all_widths) {
    static const uint64_t ones = UINT64_MAX;
    static const struct {
        ls_dtype dtype;
        const char *text;
    } cases[] = {{LS_U8, "255"},  {LS_I8, "-1"},   {LS_U32, "4294967295"},
                 {LS_I32, "-1"},  {LS_I64, "-1"},  {LS_U64, "18446744073709551615"},
                 {LS_F32, "nan"}, {LS_BF16, "nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[LS_ELEMENT_TEXT_MAX];
        ls_element_format(text, sizeof text, &ones, cases[i].dtype);
        cr_expect(strstr(text, cases[i].text) != NULL, "%s: %s", ls_dtype_name(cases[i].dtype),
                  text);
        cr_expect(ls_dtype_is_float(cases[i].dtype) || strcmp(text, cases[i].text) == 0);
    }
}
