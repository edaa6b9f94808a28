// Tests of tensors whose ranks hold several blocks.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "local_tensor/local_tensor.h"

static ls_world *make_world(int ranks) {
    ls_world *world = NULL;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(ranks)}) == LS_OK);
    return world;
}

// Blocks in any order of ranks: each rank's shards follow the order given.
Test(blocks, several_per_rank) {
    ls_world *world = make_world(3);
    const int ranks[4] = {2, 0, 2, 0};
    const ls_block blocks[4] = {{LS_SHAPE(0, 0), LS_SHAPE(4, 1)},
                                {LS_SHAPE(0, 1), LS_SHAPE(1, 2)},
                                {LS_SHAPE(1, 1), LS_SHAPE(2, 2)},
                                {LS_SHAPE(3, 1), LS_SHAPE(1, 2)}};
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &LS_SHAPE(4, 3), ranks, blocks, 4,
                                          true) == LS_OK);
    cr_expect(ls_local_tensor_rank_count(tensor) == 2);
    cr_expect(ls_local_tensor_shard_count(tensor, 0) == 2);
    cr_expect(ls_local_tensor_shard_count(tensor, 1) == 0);
    cr_expect(ls_local_tensor_shard(tensor, 2, 1)->block.offset.dim[0] == 1);
    cr_expect(ls_local_tensor_shard(tensor, 2, 1)->count == 4);
    cr_expect(ls_local_tensor_shard(tensor, 0, 1)->block.offset.dim[0] == 3);
    cr_expect(ls_shape_equal(ls_local_tensor_shape(tensor), &LS_SHAPE(4, 3)));
    cr_expect(ls_local_tensor_placements(tensor) == NULL);
    ls_local_tensor *clone = NULL;
    cr_assert(ls_local_tensor_clone(&clone, tensor) == LS_OK);
    ls_local_tensor_free(tensor);
    cr_expect(ls_local_tensor_shard_count(clone, 2) == 2);
    ls_local_tensor_free(clone);
    ls_world_free(world);
}

// An overlap names both blocks; a hole names an index in it, unless it is allowed; blocks outside
// of the shape, without a rank, or of other dimensions are refused.
Test(blocks, refusals) {
    ls_world *world = make_world(2);
    ls_local_tensor *tensor = NULL;
    ls_shape shape = LS_SHAPE(4, 4);
    int ranks[3] = {0, 1, 1};
    ls_block blocks[3] = {{LS_SHAPE(0, 0), LS_SHAPE(4, 2)},
                          {LS_SHAPE(0, 2), LS_SHAPE(2, 2)},
                          {LS_SHAPE(1, 2), LS_SHAPE(3, 2)}};
    cr_expect(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &shape, ranks, blocks, 3, true) ==
              LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "block 1 of rank 1 ([0, 2] + [2, 2]) and block 2 of "
                                            "rank 1 ([1, 2] + [3, 2]) overlap");
    blocks[2] = (ls_block){LS_SHAPE(3, 2), LS_SHAPE(1, 2)};
    cr_expect(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &shape, ranks, blocks, 3, true) ==
              LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "no block holds the element at [2, 2]");
    cr_assert(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &shape, ranks, blocks, 3,
                                          false) == LS_OK);
    ls_local_tensor_free(tensor);
    const ls_block outside[] = {{LS_SHAPE(0, 3), LS_SHAPE(1, 2)},
                                {LS_SHAPE(-1, 0), LS_SHAPE(1, 1)},
                                {LS_SHAPE(0, 0), LS_SHAPE(-1, 1)},
                                {LS_SHAPE(1, 0), LS_SHAPE(INT64_MAX, 1)},
                                {LS_SHAPE(0), LS_SHAPE(1)}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        cr_expect(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &shape, ranks, &outside[i], 1,
                                              false) == LS_ERR_INVALID);
        cr_expect(tensor == NULL);
    }
    ranks[0] = 2;
    cr_expect(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &shape, ranks, blocks, 1,
                                          false) == LS_ERR_INVALID);
    cr_expect(ls_error_last()->rank == 2);
    ls_world_free(world);
}

// Without blocks only an empty tensor is covered; empty blocks overlap nothing.
Test(blocks, empty_ones) {
    ls_world *world = make_world(2);
    ls_local_tensor *tensor = NULL;
    cr_assert(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &LS_SHAPE(0, 5), NULL, NULL, 0,
                                          true) == LS_OK);
    cr_expect(ls_local_tensor_rank_count(tensor) == 0);
    ls_local_tensor_free(tensor);
    cr_expect(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &LS_SHAPE(1, 5), NULL, NULL, 0,
                                          true) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "no block holds the element at [0, 0]");
    const ls_block blocks[3] = {{LS_SHAPE(0, 0), LS_SHAPE(1, 5)},
                                {LS_SHAPE(0, 2), LS_SHAPE(1, 0)},
                                {LS_SHAPE(0, 2), LS_SHAPE(1, 0)}};
    cr_assert(ls_local_tensor_from_blocks(&tensor, world, LS_F32, &LS_SHAPE(1, 5),
                                          (const int[]){0, 1, 1}, blocks, 3, true) == LS_OK);
    cr_expect(ls_local_tensor_shard_count(tensor, 1) == 2);
    cr_expect(ls_local_tensor_shard(tensor, 1, 0)->data == NULL);
    ls_local_tensor_free(tensor);
    ls_world_free(world);
}

// Random sets of blocks of a 3-D tensor are judged like counting each element's owners.
Test(blocks, random_sets_are_judged_like_counting) {
    ls_world *world = make_world(2);
    ls_shape shape = LS_SHAPE(3, 4, 3);
    int overlapping = 0;
    int holes = 0;
    int tilings = 0;
    uint64_t draw = 0;
    for (int round = 0; round < 4000; round++) {
        // Starts from a tiling (cut along random planes), then possibly corrupts it.
        ls_block blocks[16];
        int ranks[16] = {0};
        int count = 1;
        blocks[0] = (ls_block){LS_SHAPE(0, 0, 0), shape};
        for (int cut = 0; cut < 6; cut++) {
            int b = (int)ls_random_below((uint64_t)count, 1, 0, 0, draw++);
            int d = (int)ls_random_below(3, 1, 0, 0, draw++);
            int64_t at =
                (int64_t)ls_random_below((uint64_t)blocks[b].size.dim[d] + 1, 1, 0, 0, draw++);
            blocks[count] = blocks[b];
            blocks[count].offset.dim[d] += at;
            blocks[count].size.dim[d] -= at;
            blocks[b].size.dim[d] = at;
            ranks[count] = (int)(draw % 2);
            count += 1;
        }
        if (round % 3 != 0) {
            ls_block *spoiled = &blocks[ls_random_below((uint64_t)count, 1, 0, 0, draw++)];
            for (int d = 0; d < 3; d++) {
                int64_t dim = shape.dim[d];
                int64_t start = (int64_t)ls_random_below((uint64_t)dim, 1, 0, 0, draw++);
                spoiled->offset.dim[d] = start;
                spoiled->size.dim[d] =
                    (int64_t)ls_random_below((uint64_t)(dim - start) + 1, 1, 0, 0, draw++);
            }
        }
        int most = 0;
        int least = 99;
        for (int64_t i = 0; i < 36; i++) {
            int64_t at[3] = {i / 12, i / 3 % 4, i % 3};
            int owners = 0;
            for (int b = 0; b < count; b++) {
                bool in = true;
                for (int d = 0; d < 3; d++) {
                    int64_t local = at[d] - blocks[b].offset.dim[d];
                    in = in && local >= 0 && local < blocks[b].size.dim[d];
                }
                owners += in ? 1 : 0;
            }
            most = owners > most ? owners : most;
            least = owners < least ? owners : least;
        }
        ls_local_tensor *tensor = NULL;
        int status =
            ls_local_tensor_from_blocks(&tensor, world, LS_U8, &shape, ranks, blocks, count, true);
        if (most > 1) {
            overlapping += 1;
            cr_assert(status == LS_ERR_INVALID && strstr(ls_error_last()->text, "overlap"));
        } else if (least == 0) {
            holes += 1;
            cr_assert(status == LS_ERR_INVALID);
            int64_t at[3];
            cr_assert(sscanf(ls_error_last()->text, "no block holds the element at [%ld, %ld, %ld]",
                             &at[0], &at[1], &at[2]) == 3);
            for (int b = 0; b < count; b++) {
                bool in = true;
                for (int d = 0; d < 3; d++) {
                    int64_t local = at[d] - blocks[b].offset.dim[d];
                    in = in && local >= 0 && local < blocks[b].size.dim[d];
                }
                cr_assert(!in, "block %d holds the index that was named", b);
            }
        } else {
            tilings += 1;
            cr_assert(status == LS_OK);
        }
        ls_local_tensor_free(tensor);
    }
    cr_expect(overlapping > 300 && holes > 300 && tilings > 300);
    ls_world_free(world);
}

// Tens of thousands of blocks as rows, as columns and as a grid: comparing all pairs would not
// finish under the sanitizers.
Test(blocks, many_blocks) {
    enum { COUNT = 40000 };
    ls_world *world = make_world(8);
    ls_block *blocks = calloc(COUNT, sizeof *blocks);
    int *ranks = calloc(COUNT, sizeof *ranks);
    static const int grids[3][2] = {{COUNT, 1}, {1, COUNT}, {200, 200}};
    for (int g = 0; g < 3; g++) {
        int64_t rows = grids[g][0];
        int64_t columns = grids[g][1];
        for (int64_t i = 0; i < COUNT; i++) {
            blocks[i] = (ls_block){LS_SHAPE(i / columns * 2, i % columns * 3), LS_SHAPE(2, 3)};
            ranks[i] = (int)(i % 8);
        }
        ls_local_tensor *tensor = NULL;
        cr_assert(ls_local_tensor_from_blocks(&tensor, world, LS_F32,
                                              &LS_SHAPE(rows * 2, columns * 3), ranks, blocks,
                                              COUNT, true) == LS_OK);
        blocks[COUNT - 1].offset = blocks[0].offset;  // found among all of them
        ls_local_tensor *overlapping = NULL;
        cr_expect(ls_local_tensor_from_blocks(&overlapping, world, LS_F32,
                                              &LS_SHAPE(rows * 2, columns * 3), ranks, blocks,
                                              COUNT, true) == LS_ERR_INVALID);
        ls_local_tensor_free(tensor);
    }
    free(blocks);
    free(ranks);
    ls_world_free(world);
}
