// Layouts that no sequence of single mesh dimensions gives: strided shards, mesh dimensions that
// cut in turns, listed blocks. Tests the places of their elements, and moves between them.
#include <criterion/criterion.h>
#include <string.h>

#include "collectives/collectives.h"

enum { ROWS = 11, COLUMNS = 7 };

static float values[ROWS * COLUMNS];

static void fill_values(void) {
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = (float)(i + 1);
    }
}

TestSuite(exchange, .init = fill_values);

typedef struct fixture {
    ls_world *world;
    ls_backend *backend;
    int calls;  // number of collectives
} fixture;

static void count_call(void *arg, const ls_call *call) {
    (void)call;
    ((fixture *)arg)->calls += 1;
}

static void open_mesh(fixture *f, ls_mesh mesh) {
    *f = (fixture){0};
    cr_assert(ls_world_create(&f->world, &(ls_world_options){.mesh = mesh}) == LS_OK);
    cr_assert(ls_backend_sim_create(&f->backend, f->world) == LS_OK);
    f->backend->observer = count_call;
    f->backend->observer_arg = f;
}

static void close_mesh(fixture *f) {
    ls_backend_free(f->backend);
    ls_world_free(f->world);
}

// The elements of 0, 1, ... n - 1 on each rank under `text`, as "[0, 1, 5] [2] ...", for all
// shards.
static void holdings(char *out, size_t out_bytes, ls_mesh mesh, int64_t n, const char *text) {
    fixture f;
    float counted[64];
    size_t length = 0;
    ls_placements placements;
    ls_local_tensor *tensor = NULL;
    for (int i = 0; i < 64; i++) {
        counted[i] = (float)i;
    }
    open_mesh(&f, mesh);
    cr_assert(ls_placements_parse(&placements, text) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(ls_local_tensor_distribute(&tensor, f.world, counted, &LS_SHAPE(n), LS_F32,
                                         &placements) == LS_OK);
    cr_assert(ls_local_tensor_check(tensor) == LS_OK, "%s", ls_error_last()->text);
    out[0] = 0;
    for (int rank = 0; rank < ls_world_size(f.world); rank++) {
        const char *before = rank > 0 ? " [" : "[";
        for (int k = 0; k < ls_local_tensor_shard_count(tensor, rank); k++) {
            const ls_shard *shard = ls_local_tensor_shard(tensor, rank, k);
            for (size_t i = 0; i < shard->count; i++) {
                length += (size_t)snprintf(out + length, out_bytes - length, "%s%d", before,
                                           (int)((const float *)shard->data)[i]);
                before = " ";
            }
        }
        length += (size_t)snprintf(out + length, out_bytes - length, "%s]",
                                   strcmp(before, " ") == 0 ? "" : before);
    }
    ls_local_tensor_free(tensor);
    close_mesh(&f);
}

// torch 2.11's _StridedShard gives these (its _split_tensor, without padding).
Test(exchange, strided_shards_as_torch_cuts_them) {
    const struct {
        int ranks;
        int64_t n;
        const char *placement, *held;
    } cases[] = {
        {4, 10, "_S(0, 2)", "[0 1 5 6] [2 3 7 8] [4 9] []"},
        {3, 11, "_S(0, 2)", "[0 1 6 7] [2 3 8 9] [4 5 10]"},
        {2, 7, "_S(0, 3)", "[0 1 3 4 6] [2 5]"},
        {4, 3, "_S(0, 2)", "[0 2] [1] [] []"},
        {4, 13, "_S(0, 3)", "[0 1 5 6 10] [2 3 7 8 11] [4 9 12] []"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char held[256];
        holdings(held, sizeof held, LS_MESH(cases[i].ranks), cases[i].n, cases[i].placement);
        cr_expect_str_eq(held, cases[i].held);
    }
}

// FSDP over tensor parallelism: the second mesh dimension cuts first. Strided shards and turns are
// equivalent, and leave every rank one block.
Test(exchange, turns) {
    char held[256];
    holdings(held, sizeof held, LS_MESH(2, 2), 8, "_S(0, 2), S(0)");
    cr_expect_str_eq(held, "[0 1] [4 5] [2 3] [6 7]");
    holdings(held, sizeof held, LS_MESH(2, 2), 8, "S(0)[1], S(0)[0]");
    cr_expect_str_eq(held, "[0 1] [4 5] [2 3] [6 7]");
    holdings(held, sizeof held, LS_MESH(2, 2), 8, "S(0)[0], S(0)[1]");
    cr_expect_str_eq(held, "[0 1] [2 3] [4 5] [6 7]");
    holdings(held, sizeof held, LS_MESH(2, 3), 10, "S(0)[1], S(0)[0]");  // 4, 4, 2; then halves
    cr_expect_str_eq(held, "[0 1] [4 5] [8] [2 3] [6 7] [9]");
}

// From every layout to every other: equal to distributing to it directly, and the whole is
// unchanged.
Test(exchange, every_pair_of_layouts) {
    static const char *const layouts[] = {
        "S(0), S(0)",         "S(0)[1], S(0)[0]",    "_S(0, 3), S(0)", "S(1), _S(0, 2)",
        "_S(0, 4), _S(1, 2)", "R, _S(1, 3)",         "_S(0, 2), R",    "R, R",
        "S(1), S(0)",         "P(sum), S(0)",        "S(0), P(max)",   "P(avg), P(sum)",
        "P(sum), _S(0, 2)",   "S(0)[1], _S(0, 3)[0]"};
    const size_t count = sizeof layouts / sizeof *layouts;
    const ls_shape shape = LS_SHAPE(ROWS, COLUMNS);
    float whole[ROWS * COLUMNS];
    fixture f;
    open_mesh(&f, LS_MESH(2, 3));
    for (size_t i = 0; i < count * count; i++) {
        ls_placements from, to;
        ls_local_tensor *in = NULL, *out = NULL, *expected = NULL;
        const char *to_text = layouts[i % count];
        cr_assert(ls_placements_parse(&from, layouts[i / count]) == LS_OK);
        cr_assert(ls_placements_parse(&to, to_text) == LS_OK);
        cr_assert(ls_local_tensor_distribute(&in, f.world, values, &shape, LS_F32, &from) == LS_OK);
        cr_assert(ls_local_tensor_distribute(&expected, f.world, values, &shape, LS_F32, &to) ==
                  LS_OK);
        int status = ls_tensor_redistribute(&out, f.backend, in, &to);
        cr_assert(status == LS_OK, "%s to %s: %s", layouts[i / count], to_text,
                  ls_error_last()->text);
        for (int rank = 0; rank < 6; rank++) {
            cr_assert(ls_local_tensor_shard_count(out, rank) ==
                      ls_local_tensor_shard_count(expected, rank));
            for (int k = 0; k < ls_local_tensor_shard_count(expected, rank); k++) {
                const ls_shard *x = ls_local_tensor_shard(out, rank, k),
                               *y = ls_local_tensor_shard(expected, rank, k);
                cr_assert(x->count == y->count);
                cr_assert(x->count == 0 || memcmp(x->data, y->data, x->count * sizeof(float)) == 0,
                          "%s to %s: rank %d", layouts[i / count], to_text, rank);
            }
        }
        cr_assert(ls_tensor_full(whole, sizeof whole, f.backend, in) == LS_OK, "%s: %s",
                  layouts[i / count], ls_error_last()->text);
        cr_assert(memcmp(whole, values, sizeof whole) == 0, "%s", layouts[i / count]);
        ls_local_tensor_free(in);
        ls_local_tensor_free(out);
        ls_local_tensor_free(expected);
    }
    close_mesh(&f);
}

// Listed blocks, several on one rank and none on another, are redistributed to a placement and to
// the whole. A layout without some elements is refused, and names the rank that would lack them.
Test(exchange, listed_blocks) {
    const ls_shape shape = LS_SHAPE(ROWS, COLUMNS);
    const int ranks[4] = {2, 0, 2, 3};
    ls_block blocks[4] = {{LS_SHAPE(0, 0), LS_SHAPE(4, COLUMNS)},
                          {LS_SHAPE(4, 0), LS_SHAPE(7, 3)},
                          {LS_SHAPE(4, 3), LS_SHAPE(6, 4)},
                          {LS_SHAPE(10, 3), LS_SHAPE(1, 4)}};
    const ls_block all = {LS_SHAPE(0, 0), shape};
    fixture f;
    float whole[ROWS * COLUMNS];
    open_mesh(&f, LS_MESH(4));
    for (int leave_out = 0; leave_out < 2; leave_out++) {
        ls_local_tensor *in = NULL, *out = NULL, *expected = NULL;
        const ls_placements to = LS_PLACE(LS_SHARD(0));
        cr_assert(ls_local_tensor_from_blocks(&in, f.world, LS_F32, &shape, ranks, blocks,
                                              4 - leave_out, leave_out == 0) == LS_OK);
        for (int i = 0; i < ls_local_tensor_rank_count(in); i++) {
            int rank = ls_local_tensor_ranks(in)[i];
            for (int k = 0; k < ls_local_tensor_shard_count(in, rank); k++) {
                ls_shard *shard = ls_local_tensor_shard(in, rank, k);
                ls_block_copy(shard->data, &shard->block, values, &all, sizeof(float));
            }
        }
        int status = ls_tensor_redistribute(&out, f.backend, in, &to);
        if (leave_out != 0) {
            cr_expect(status == LS_ERR_INVALID && ls_error_last()->rank == 3);
            cr_expect_str_eq(ls_error_last()->text,
                             "rank 3 would get 10 of its 14 elements: no rank holds the others");
        } else {
            cr_assert(status == LS_OK, "%s", ls_error_last()->text);
            cr_assert(ls_local_tensor_distribute(&expected, f.world, values, &shape, LS_F32, &to) ==
                      LS_OK);
            for (int rank = 0; rank < 4; rank++) {
                const ls_shard *x = ls_local_tensor_shard(out, rank, 0),
                               *y = ls_local_tensor_shard(expected, rank, 0);
                cr_expect(memcmp(x->data, y->data, y->count * sizeof(float)) == 0, "rank %d", rank);
            }
            cr_expect(ls_tensor_full(whole, sizeof whole, f.backend, in) == LS_OK);
            cr_expect(memcmp(whole, values, sizeof whole) == 0);
        }
        ls_local_tensor_free(in);
        ls_local_tensor_free(out);
        ls_local_tensor_free(expected);
    }
    close_mesh(&f);
}

// Data that all ranks have is cut without a call; other data moves in one call of each rank.
Test(exchange, calls) {
    const ls_shape shape = LS_SHAPE(ROWS, COLUMNS);
    fixture f;
    ls_local_tensor *whole = NULL, *cut = NULL, *turned = NULL;
    ls_placements strided = LS_PLACE(LS_SHARD_STRIDED(0, 2), LS_SHARD(0)),
                  plain = LS_PLACE(LS_SHARD(0), LS_SHARD(0));
    open_mesh(&f, LS_MESH(2, 2));
    cr_assert(ls_local_tensor_distribute(&whole, f.world, values, &shape, LS_F32,
                                         &LS_PLACE(LS_REPLICATE, LS_REPLICATE)) == LS_OK);
    cr_assert(ls_tensor_redistribute(&cut, f.backend, whole, &strided) == LS_OK);
    cr_expect(f.calls == 0);
    cr_assert(ls_tensor_redistribute(&turned, f.backend, cut, &plain) == LS_OK);
    cr_expect(f.calls == 4, "%d calls", f.calls);
    ls_local_tensor_free(whole);
    ls_local_tensor_free(cut);
    ls_local_tensor_free(turned);
    close_mesh(&f);
}

// Refused with the reason: a split of nothing or too much, sizes with a split, one block where a
// strided shard has two; and text that is no placement.
Test(exchange, refusals) {
    ls_block block;
    ls_placements parsed;
    const ls_mesh mesh = LS_MESH(2);
    const ls_shape shape = LS_SHAPE(8);
    const int64_t sizes[2] = {4, 4};
    ls_placement both = LS_SHARD_SIZES(0, sizes);
    both.split = 2;
    cr_expect(ls_placement_block(&block, &shape, &mesh, &LS_PLACE(LS_SHARD_STRIDED(0, 2)), 1) ==
              LS_ERR_UNSUPPORTED);
    cr_expect_str_eq(ls_error_last()->text,
                     "rank 1 holds 2 blocks of the tensor under _S(0, 2) where one is needed");
    cr_expect(ls_placement_block(&block, &shape, &mesh, &LS_PLACE(both), 1) == LS_ERR_INVALID);
    cr_expect(ls_placement_block(&block, &shape, &mesh, &LS_PLACE(LS_SHARD_STRIDED(0, -1)), 1) ==
              LS_ERR_INVALID);
    static const char *const wrong[] = {"_S(0)",   "_S(0, 0)", "_S(0, 2", "S(0)[",      "S(0)[9]",
                                        "S(0, 2)", "_R",       "S(0)[1",  "_S(0, 5000)"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect(ls_placements_parse(&parsed, wrong[i]) == LS_ERR_INVALID, "%s", wrong[i]);
    }
    char text[128];
    const char *kept = "_S(0, 2)[1], S(1), P(avg), S(0)";
    cr_assert(ls_placements_parse(&parsed, kept) == LS_OK, "%s", ls_error_last()->text);
    ls_placements_format(text, sizeof text, &parsed);
    cr_expect_str_eq(text, kept);
}
