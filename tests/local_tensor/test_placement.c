// Tests of shapes, blocks, meshes and placements.
#include <criterion/criterion.h>
#include <string.h>

#include "local_tensor/local_tensor.h"

// Counting elements: empty and scalar shapes, and sizes whose product does not fit.
Test(shape, count) {
    size_t count = 77;
    cr_assert(ls_shape_count(&count, &(ls_shape){0}) == LS_OK);
    cr_expect(count == 1);
    cr_assert(ls_shape_count(&count, &LS_SHAPE(3, 0, INT64_MAX)) == LS_OK);
    cr_expect(count == 0);
    cr_assert(ls_shape_count(&count, &LS_SHAPE(1, INT64_MAX)) == LS_OK);
    cr_expect(count == (size_t)INT64_MAX);
    cr_expect(ls_shape_count(&count, &LS_SHAPE(2, INT64_MAX)) == LS_ERR_OVERFLOW);
    cr_expect(ls_shape_count(&count, &LS_SHAPE(4, -1)) == LS_ERR_INVALID);
    cr_expect(ls_shape_count(&count, &(ls_shape){.ndim = 9}) == LS_ERR_INVALID);
    cr_expect(ls_shape_count(&count, &(ls_shape){.ndim = -1}) == LS_ERR_INVALID);
}

// Shapes print like lists and are cut off to fit, the longest possible one included.
Test(shape, format) {
    char text[LS_SHAPE_TEXT_MAX];
    ls_shape_format(text, sizeof text, &LS_SHAPE(2, 16));
    cr_expect_str_eq(text, "[2, 16]");
    ls_shape_format(text, sizeof text, &(ls_shape){0});
    cr_expect_str_eq(text, "[]");
    ls_shape_format(text, 4, &LS_SHAPE(2, 16));
    cr_expect_str_eq(text, "[2,");
    ls_shape longest = {.ndim = LS_DIMS_MAX};
    for (int d = 0; d < LS_DIMS_MAX; d++) {
        longest.dim[d] = INT64_MIN;
    }
    ls_shape_format(text, sizeof text, &longest);
    cr_expect(strlen(text) == 8 * 20 + 7 * 2 + 2);
}

// A flat index into a dense array of `shape`, from an index into the whole array.
static size_t flat(const int64_t *index, const ls_shape *shape) {
    size_t result = 0;
    for (int d = 0; d < shape->ndim; d++) {
        result = result * (size_t)shape->dim[d] + (size_t)index[d];
    }
    return result;
}

// Copying the common part of two blocks moves exactly the elements in both: checked index by index
// for every pair of a set of 3-D blocks with empty, touching and contained ones.
Test(block, copy_moves_the_common_part_alone) {
    const ls_block blocks[] = {
        {LS_SHAPE(0, 0, 0), LS_SHAPE(4, 5, 6)}, {LS_SHAPE(1, 2, 3), LS_SHAPE(2, 2, 2)},
        {LS_SHAPE(0, 0, 3), LS_SHAPE(4, 5, 1)}, {LS_SHAPE(2, 0, 0), LS_SHAPE(1, 5, 6)},
        {LS_SHAPE(3, 4, 5), LS_SHAPE(1, 1, 1)}, {LS_SHAPE(4, 0, 0), LS_SHAPE(0, 5, 6)},
        {LS_SHAPE(0, 2, 0), LS_SHAPE(3, 3, 6)},
    };
    size_t block_count = sizeof blocks / sizeof *blocks;
    for (size_t a = 0; a < block_count; a++) {
        for (size_t b = 0; b < block_count; b++) {
            int32_t from[120];
            int32_t to[120];
            for (int i = 0; i < 120; i++) {
                from[i] = i + 1;
                to[i] = -1;
            }
            size_t copied = ls_block_copy(to, &blocks[a], from, &blocks[b], sizeof *to);
            size_t expected = 0;
            for (int64_t i = 0; i < 120; i++) {
                int64_t index[3] = {i / 30, i / 6 % 5, i % 6};
                int64_t in_a[3];
                int64_t in_b[3];
                bool inside_a = true;
                bool inside_b = true;
                for (int d = 0; d < 3; d++) {
                    in_a[d] = index[d] - blocks[a].offset.dim[d];
                    in_b[d] = index[d] - blocks[b].offset.dim[d];
                    inside_a = inside_a && in_a[d] >= 0 && in_a[d] < blocks[a].size.dim[d];
                    inside_b = inside_b && in_b[d] >= 0 && in_b[d] < blocks[b].size.dim[d];
                }
                if (!inside_a) {
                    continue;
                }
                int32_t got = to[flat(in_a, &blocks[a].size)];
                int32_t want = inside_b ? from[flat(in_b, &blocks[b].size)] : -1;
                cr_assert(got == want, "blocks %zu, %zu, element %d: %d, not %d", a, b, (int)i,
                          (int)got, (int)want);
                expected += inside_b ? 1 : 0;
            }
            cr_assert(copied == expected);
        }
    }
}

// Coordinates, ranks and fibers of a 2 x 3 x 2 mesh agree with each other and are row-major.
Test(mesh, coordinates_ranks_and_fibers) {
    ls_mesh mesh = LS_MESH(2, 3, 2);
    int size = 0;
    cr_assert(ls_mesh_size(&size, &mesh) == LS_OK);
    cr_expect(size == 12);
    int at[3];
    ls_mesh_coordinates(at, &mesh, 7);
    cr_expect(at[0] == 1 && at[1] == 0 && at[2] == 1);
    for (int rank = 0; rank < size; rank++) {
        ls_mesh_coordinates(at, &mesh, rank);
        cr_expect(ls_mesh_rank(&mesh, at) == rank);
    }
    int fiber[3];
    ls_mesh_fiber(fiber, &mesh, 1, 7);
    cr_expect(fiber[0] == 7 && fiber[1] == 9 && fiber[2] == 11);
    ls_mesh_fiber(fiber, &mesh, 0, 7);
    cr_expect(fiber[0] == 1 && fiber[1] == 7);
    ls_mesh_fiber(fiber, &mesh, 2, 6);
    cr_expect(fiber[0] == 6 && fiber[1] == 7);
}

// Meshes outside of the limits, with duplicate or overlong names, are refused.
Test(mesh, limits) {
    int size = 0;
    cr_expect(ls_mesh_size(&size, &LS_MESH(256, 256)) == LS_OK);
    cr_expect(size == LS_RANKS_MAX);
    cr_expect(ls_mesh_size(&size, &LS_MESH(256, 257)) == LS_ERR_LIMIT);
    cr_expect(ls_mesh_size(&size, &LS_MESH(INT32_MAX, INT32_MAX, INT32_MAX)) == LS_ERR_LIMIT);
    cr_expect(ls_mesh_size(&size, &LS_MESH(2, 0)) == LS_ERR_INVALID);
    cr_expect(ls_mesh_size(&size, &(ls_mesh){0}) == LS_ERR_INVALID);
    cr_expect(ls_mesh_size(&size, &(ls_mesh){.ndim = 7}) == LS_ERR_INVALID);
    ls_mesh mesh = {.ndim = 2, .dim = {2, 2}, .name = {"host", "host"}};
    cr_expect(ls_mesh_size(&size, &mesh) == LS_ERR_INVALID);
    memset(mesh.name[1], 'x', sizeof mesh.name[1]);
    cr_expect(ls_mesh_size(&size, &mesh) == LS_ERR_INVALID);
}

// A mesh dimension is found by name, and a near miss is suggested.
Test(mesh, axis_by_name) {
    ls_mesh mesh = {.ndim = 3, .dim = {2, 2, 2}, .name = {"host", "", "gpu"}};
    int axis = -1;
    cr_assert(ls_mesh_axis(&axis, &mesh, "gpu") == LS_OK);
    cr_expect(axis == 2);
    cr_expect(ls_mesh_axis(&axis, &mesh, "hots") == LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "did you mean \"host\"") != NULL);
    cr_expect(ls_mesh_axis(&axis, &mesh, "") == LS_ERR_NOT_FOUND);
}

// Lists of ranks are written as ranges and end in dots if they do not fit.
Test(mesh, ranks_format) {
    char text[64];
    ls_ranks_format(text, sizeof text, (const int[]){0, 1, 2, 5, 7, 8}, 6);
    cr_expect_str_eq(text, "0-2, 5, 7, 8");
    ls_ranks_format(text, sizeof text, NULL, 0);
    cr_expect_str_eq(text, "");
    int odd[200];
    for (int i = 0; i < 200; i++) {
        odd[i] = 2 * i + 1;
    }
    ls_ranks_format(text, 12, odd, 200);
    cr_expect_str_eq(text, "1, 3, 5...");
    for (size_t bytes = 4; bytes < sizeof text; bytes++) {
        ls_ranks_format(text, bytes, odd, 200);
        cr_expect(strlen(text) < bytes);
    }
}

// torch.chunk's rule on known vectors: uneven, fewer elements than parts, none at all.
Test(placement, chunk_vectors) {
    static const struct {
        int64_t size;
        int64_t count;
        int64_t part[4][2];  // length, offset
    } vectors[] = {
        {10, 4, {{3, 0}, {3, 3}, {3, 6}, {1, 9}}}, {5, 4, {{2, 0}, {2, 2}, {1, 4}, {0, 5}}},
        {6, 4, {{2, 0}, {2, 2}, {2, 4}, {0, 6}}},  {17, 4, {{5, 0}, {5, 5}, {5, 10}, {2, 15}}},
        {3, 4, {{1, 0}, {1, 1}, {1, 2}, {0, 3}}},  {1, 4, {{1, 0}, {0, 1}, {0, 1}, {0, 1}}},
        {0, 4, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}},  {8, 3, {{3, 0}, {3, 3}, {2, 6}}},
    };
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        for (int64_t i = 0; i < vectors[v].count; i++) {
            int64_t offset = -1;
            int64_t length = -1;
            ls_chunk(&offset, &length, vectors[v].size, vectors[v].count, i);
            cr_expect(length == vectors[v].part[i][0] && offset == vectors[v].part[i][1],
                      "%d over %d, part %d", (int)vectors[v].size, (int)vectors[v].count, (int)i);
        }
    }
}

// Parts of any size over any count follow each other without gap and end at the size, and the
// largest sizes do not overflow.
Test(placement, chunks_tile) {
    for (int64_t size = 0; size < 40; size++) {
        for (int64_t count = 1; count < 45; count++) {
            int64_t next = 0;
            for (int64_t i = 0; i < count; i++) {
                int64_t offset = -1;
                int64_t length = -1;
                ls_chunk(&offset, &length, size, count, i);
                cr_assert(offset == next);
                next += length;
            }
            cr_assert(next == size);
        }
    }
    int64_t offset = 0;
    int64_t length = 0;
    ls_chunk(&offset, &length, INT64_MAX, 65536, 65535);
    cr_expect(offset + length == INT64_MAX && length > 0);
}

// Placements apply left to right: the second shard of a dimension cuts the first one's part.
Test(placement, nested_shards_cut_left_to_right) {
    static const int64_t want[4][2] = {{0, 3}, {3, 2}, {5, 3}, {8, 2}};
    for (int rank = 0; rank < 4; rank++) {
        ls_block block;
        cr_assert(ls_placement_block(&block, &LS_SHAPE(10, 7), &LS_MESH(2, 2),
                                     &LS_PLACE(LS_SHARD(0), LS_SHARD(-2)), rank) == LS_OK);
        cr_expect(block.offset.dim[0] == want[rank][0] && block.size.dim[0] == want[rank][1]);
        cr_expect(block.offset.dim[1] == 0 && block.size.dim[1] == 7);
    }
}

// Explicit sizes give any cut, including zero, and must add up to the size that is cut.
Test(placement, explicit_sizes) {
    static const int64_t sizes[4] = {0, 7, 1, 2};
    static const int64_t starts[4] = {0, 0, 7, 8};
    ls_mesh mesh = LS_MESH(4);
    for (int rank = 0; rank < 4; rank++) {
        ls_block block;
        cr_assert(ls_placement_block(&block, &LS_SHAPE(10, 2), &mesh,
                                     &LS_PLACE(LS_SHARD_SIZES(0, sizes)), rank) == LS_OK);
        cr_expect(block.offset.dim[0] == starts[rank] && block.size.dim[0] == sizes[rank]);
    }
    ls_block block;
    cr_expect(ls_placement_block(&block, &LS_SHAPE(11, 2), &mesh,
                                 &LS_PLACE(LS_SHARD_SIZES(0, sizes)), 2) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "placement 0: the explicit sizes sum to 10, but rank 2 "
                                            "has 11 of dimension 0 to cut");
    static const int64_t negative[4] = {11, -1, 0, 0};
    cr_expect(ls_placement_block(&block, &LS_SHAPE(10, 2), &mesh,
                                 &LS_PLACE(LS_SHARD_SIZES(0, negative)), 2) == LS_ERR_INVALID);
    static const int64_t huge[4] = {INT64_MAX, 1, 0, 0};
    cr_expect(ls_placement_block(&block, &LS_SHAPE(10, 2), &mesh,
                                 &LS_PLACE(LS_SHARD_SIZES(0, huge)), 2) == LS_ERR_OVERFLOW);
}

// Invalid placements are refused: their number, dimensions, ops, mixed partial values.
Test(placement, refusals) {
    ls_block block;
    ls_shape shape = LS_SHAPE(4, 4);
    ls_mesh mesh = LS_MESH(2, 2);
    static const ls_placement wrong[] = {
        {.kind = LS_PLACE_SHARD, .dim = 2},
        {.kind = LS_PLACE_SHARD, .dim = -3},
        {.kind = LS_PLACE_PARTIAL, .op = (ls_op)99},
        {.kind = LS_PLACE_PARTIAL, .op = LS_PREMUL_SUM},
        {.kind = (ls_placement_kind)7},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect(ls_placement_block(&block, &shape, &mesh, &LS_PLACE(LS_REPLICATE, wrong[i]), 0) ==
                  LS_ERR_INVALID);
        cr_expect(strncmp(ls_error_last()->text, "placement 1: ", 13) == 0);
    }
    cr_expect(ls_placement_block(&block, &shape, &mesh, &LS_PLACE(LS_SHARD(0)), 0) ==
              LS_ERR_INVALID);
    cr_expect(ls_placement_block(&block, &shape, &mesh, &LS_PLACE(LS_REPLICATE, LS_REPLICATE), 4) ==
              LS_ERR_INVALID);
    cr_expect(ls_placement_block(&block, &shape, &mesh,
                                 &LS_PLACE(LS_PARTIAL(LS_SUM), LS_PARTIAL(LS_MAX)),
                                 0) == LS_ERR_INVALID);
    cr_expect(ls_placement_block(&block, &shape, &mesh,
                                 &LS_PLACE(LS_PARTIAL(LS_SUM), LS_PARTIAL(LS_AVG)), 0) == LS_OK);
}

// Placements are read back as printed, and an invalid one gives the position of the error.
Test(placement, text_round_trip) {
    char text[128];
    ls_placements parsed;
    ls_placements placements = LS_PLACE(LS_SHARD(-1), LS_REPLICATE, LS_PARTIAL(LS_MAX));
    ls_placements_format(text, sizeof text, &placements);
    cr_expect_str_eq(text, "S(-1), R, P(max)");
    cr_assert(ls_placements_parse(&parsed, text) == LS_OK);
    cr_expect(ls_placements_equal(&parsed, &placements, 3, (const int[]){2, 2, 2}));
    cr_assert(ls_placements_parse(&parsed, " S( 1 ),R ") == LS_OK);
    cr_expect(parsed.count == 2 && parsed.at[0].dim == 1);
    static const char *const wrong[] = {"",      "S",     "S()",          "S(x)", "R,",
                                        "R R",   "P(no)", "S(99999)",     "S(0",  "Q",
                                        "S(1)x", ",R",    "R,R,R,R,R,R,R"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect(ls_placements_parse(&parsed, wrong[i]) == LS_ERR_INVALID, "%s", wrong[i]);
    }
    ls_placements_format(text, 5, &placements);
    cr_expect_str_eq(text, "S(-1");
}

// Placements are equal only when kinds, dimensions, ops and explicit sizes all are.
Test(placement, equality) {
    const int dims[1] = {2};
    static const int64_t a[2] = {1, 2};
    static const int64_t b[2] = {1, 2};
    static const int64_t c[2] = {2, 1};
    ls_placements sized = LS_PLACE(LS_SHARD_SIZES(0, a));
    cr_expect(ls_placements_equal(&sized, &LS_PLACE(LS_SHARD_SIZES(0, b)), 1, dims));
    cr_expect(!ls_placements_equal(&sized, &LS_PLACE(LS_SHARD_SIZES(0, c)), 1, dims));
    cr_expect(!ls_placements_equal(&sized, &LS_PLACE(LS_SHARD(0)), 1, dims));
    cr_expect(!ls_placements_equal(&LS_PLACE(LS_SHARD(0)), &LS_PLACE(LS_SHARD(1)), 1, dims));
    cr_expect(!ls_placements_equal(&LS_PLACE(LS_PARTIAL(LS_SUM)), &LS_PLACE(LS_PARTIAL(LS_AVG)), 1,
                                   dims));
    cr_expect(
        !ls_placements_equal(&LS_PLACE(LS_REPLICATE), &LS_PLACE(LS_PARTIAL(LS_SUM)), 1, dims));
}

// Several blocks of a rank are as few as possible: none touches the next, and an empty one is the
// rank's only one. Every element is on one rank.
Test(placement, several_blocks_are_as_few_as_can_be) {
    static const char *const cases[] = {"_S(0, 2), R", "_S(0, 3), S(0)", "S(0), _S(0, 2)",
                                        "S(0)[1], S(0)", "_S(0, 2), _S(0, 4)"};
    ls_mesh mesh = LS_MESH(2, 3);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ls_placements placements;
        cr_assert(ls_placements_parse(&placements, cases[c]) == LS_OK, "%s", ls_error_last()->text);
        for (int64_t rows = 0; rows <= 30; rows++) {
            ls_layout layout;
            cr_assert(ls_layout_of_placements(&layout, &mesh, &LS_SHAPE(rows), &placements) ==
                      LS_OK);
            int64_t held = 0;
            for (int r = 0; r < 6; r++) {
                for (size_t i = layout.first[r]; i < layout.first[r + 1]; i++) {
                    const ls_block *b = &layout.blocks[i];
                    int64_t end = b->offset.dim[0] + b->size.dim[0];
                    bool last = i + 1 == layout.first[r + 1];
                    bool only = layout.first[r + 1] - layout.first[r] == 1;
                    held += b->size.dim[0];
                    cr_assert(only || b->size.dim[0] > 0, "%s, %d rows, rank %d", cases[c],
                              (int)rows, r);
                    cr_assert(last || b[1].offset.dim[0] > end, "%s, %d rows, rank %d", cases[c],
                              (int)rows, r);
                }
            }
            cr_assert(held == (placements.at[1].kind == LS_PLACE_REPLICATE ? 3 * rows : rows));
            ls_layout_free(&layout);
        }
    }
}
