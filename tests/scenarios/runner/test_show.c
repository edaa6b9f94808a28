// Tests of the drawings: every drawn cell is compared with its owner.
#include <criterion/criterion.h>
#include <string.h>

#include "report/show.h"

static ls_arena *arena;
static ls_text text;

static void setup(void) {
    cr_assert(ls_arena_create(&arena) == LS_OK);
}

static void teardown(void) {
    ls_text_free(&text);
    ls_arena_free(arena);
}

TestSuite(show, .init = setup, .fini = teardown);

static const char *draw(const ls_shape *shape, const ls_mesh *mesh,
                        const ls_placements *placements) {
    ls_picture picture;
    cr_assert(ls_picture_of_tensor(&picture, arena, "x", shape, mesh, placements) == LS_OK, "%s",
              ls_error_last()->text);
    cr_assert(ls_show_text(&text, &picture) == LS_OK);
    return ls_text_string(&text);
}

// Two mesh dimensions cut two tensor dimensions: four blocks in a square.
Test(show, two_by_two) {
    ls_shape shape = LS_SHAPE(4, 4);
    ls_mesh mesh = LS_MESH(2, 2);
    ls_placements placements = LS_PLACE(LS_SHARD(0), LS_SHARD(1));
    cr_expect_str_eq(draw(&shape, &mesh, &placements), "tensor x: [4, 4], S(0), S(1)\n"
                                                       "       0-1      2-3\n"
                                                       "     +--------+--------+\n"
                                                       " 0-1 | rank 0 | rank 1 |\n"
                                                       "     +--------+--------+\n"
                                                       " 2-3 | rank 2 | rank 3 |\n"
                                                       "     +--------+--------+\n");
}

// An empty chunk takes no line, and its rank is named.
Test(show, empty_shards_are_named) {
    ls_shape shape = LS_SHAPE(5, 2);
    ls_mesh mesh = LS_MESH(4);
    ls_placements placements = LS_PLACE(LS_SHARD(0));
    cr_expect_str_eq(draw(&shape, &mesh, &placements), "tensor x: [5, 2], S(0)\n"
                                                       "       0-1\n"
                                                       "     +--------+\n"
                                                       " 0-1 | rank 0 |\n"
                                                       "     +--------+\n"
                                                       " 2-3 | rank 1 |\n"
                                                       "     +--------+\n"
                                                       "   4 | rank 2 |\n"
                                                       "     +--------+\n"
                                                       "nothing on rank 3\n");
}

// One dimension, replicas, and a tensor without elements.
Test(show, one_dimension_replicas_and_nothing) {
    ls_shape line = LS_SHAPE(3);
    ls_mesh mesh = LS_MESH(2, 2);
    ls_placements placements = LS_PLACE(LS_SHARD(0), LS_REPLICATE);
    cr_expect_str_eq(draw(&line, &mesh, &placements), "tensor x: [3], S(0), R\n"
                                                      "     +------------+\n"
                                                      " 0-1 | ranks 0, 1 |\n"
                                                      "     +------------+\n"
                                                      "   2 | ranks 2, 3 |\n"
                                                      "     +------------+\n");
    ls_text_free(&text);
    ls_shape nothing = LS_SHAPE(0, 4);
    ls_placements all = LS_PLACE(LS_REPLICATE, LS_REPLICATE);
    cr_expect_str_eq(draw(&nothing, &mesh, &all),
                     "tensor x: [0, 4], R, R\nno elements\nnothing on ranks 0-3\n");
}

// Beyond two dimensions each slice is drawn under its own name.
Test(show, three_dimensions_by_slices) {
    ls_shape shape = LS_SHAPE(3, 2, 2);
    ls_mesh mesh = LS_MESH(2);
    ls_placements placements = LS_PLACE(LS_SHARD(0));
    const char *drawn = draw(&shape, &mesh, &placements);
    const char *first = strstr(drawn, "slice [0-1, :, :]\n");
    const char *second = strstr(drawn, "slice [2, :, :]\n");
    cr_assert(first != NULL && second != NULL && first < second);
    cr_expect(strstr(first, "rank 0") != NULL && strstr(first, "rank 0") < second);
    cr_expect(strstr(second, "rank 1") != NULL && strstr(second, "rank 0") == NULL);
}

// A tensor without dimensions is one cell, and neither its row nor its column has a name.
Test(show, scalar) {
    ls_shape shape = {0};
    ls_mesh mesh = LS_MESH(2);
    ls_placements placements = LS_PLACE(LS_REPLICATE);
    cr_expect_str_eq(draw(&shape, &mesh, &placements), "tensor x: [], R\n"
                                                       "     +-----------+\n"
                                                       "     | all ranks |\n"
                                                       "     +-----------+\n");
}

// Parts beyond the drawn lines and columns are reported.
Test(show, what_is_not_shown_is_told) {
    static const struct {
        int ranks, dim;
        const char *note;
    } rows[] = {{64, 0, NULL},
                {65, 0, "(64 of 65 row blocks and 1 of 1 column blocks are shown)\n"},
                {16, 1, NULL},
                {17, 1, "(1 of 1 row blocks and 16 of 17 column blocks are shown)\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_shape shape = LS_SHAPE(65, 65);
        ls_mesh mesh = LS_MESH(rows[i].ranks);
        int64_t sizes[65] = {0};
        for (int r = 0; r < rows[i].ranks; r++) {
            sizes[r] = r == 0 ? 66 - rows[i].ranks : 1;
        }
        ls_placements placements = LS_PLACE(LS_SHARD_SIZES(rows[i].dim, sizes));
        const char *drawn = draw(&shape, &mesh, &placements);
        const char *note = strstr(strstr(drawn, "+-"), "(");  // behind the title
        cr_expect(rows[i].note == NULL ? note == NULL : strcmp(note, rows[i].note) == 0, "%zu: %s",
                  i, drawn);
        ls_text_free(&text);
    }
}

// A plan with a hole and an overlap is drawn unchanged: the drawing is for finding them.
Test(show, holes_and_overlaps_are_visible) {
    ls_plan_shard shards[] = {{0, 0, 0, 4, 8}, {1, 2, 0, 2, 8}, {2, 6, 0, 4, 8}};
    ls_plan_table table = {.name = "t",
                           .sharding = LS_ROW_WISE,
                           .rows = 10,
                           .columns = 8,
                           .shards = shards,
                           .shard_count = 3};
    ls_picture picture;
    cr_assert(ls_picture_of_table(&picture, arena, &table, 4) == LS_OK);
    cr_assert(ls_show_text(&text, &picture) == LS_OK);
    cr_expect_str_eq(ls_text_string(&text), "table t: 10 x 8, row_wise\n"
                                            "           columns 0-7\n"
                                            "         +-------------+\n"
                                            "rows 0-1 | rank 0      |\n"
                                            "         +-------------+\n"
                                            "rows 2-3 | ranks 0, 1  |\n"
                                            "         +-------------+\n"
                                            "rows 4-5 | nobody      |\n"
                                            "         +-------------+\n"
                                            "rows 6-9 | rank 2      |\n"
                                            "         +-------------+\n"
                                            "nothing on rank 3\n");
}

// The SVG has a rectangle for each cell and one for the ground, and escapes the title.
Test(show, svg_has_every_cell) {
    ls_plan_shard shards[] = {{0, 0, 0, 3, 8}, {1, 3, 0, 1, 8}};
    ls_plan_table table = {.name = "<t>",
                           .sharding = LS_ROW_WISE,
                           .rows = 4,
                           .columns = 8,
                           .shards = shards,
                           .shard_count = 2};
    ls_picture picture;
    cr_assert(ls_picture_of_table(&picture, arena, &table, 2) == LS_OK);
    cr_assert(ls_show_svg(&text, &picture, 1) == LS_OK);
    int rectangles = 0;
    for (const char *at = ls_text_string(&text); (at = strstr(at, "<rect ")) != NULL; at++) {
        rectangles++;
    }
    cr_expect(rectangles == 3);
    // Three of four rows and one, of 264 pixels; columns of 640, from the end of the labels.
    cr_expect(strstr(ls_text_string(&text), "<rect x=\"130.0\" y=\"66.0\" width=\"640.0\" "
                                            "height=\"198.0\" ") != NULL);
    cr_expect(strstr(ls_text_string(&text), "<rect x=\"130.0\" y=\"264.0\" width=\"640.0\" "
                                            "height=\"66.0\" ") != NULL);
    cr_expect(strstr(ls_text_string(&text), "&lt;t&gt;") != NULL);
    cr_expect(strstr(ls_text_string(&text), "<t>") == NULL);
}
