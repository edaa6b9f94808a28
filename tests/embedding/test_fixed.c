// Explicit layouts that lockstep's planner would not make: uneven blocks, ranks out of order or
// with several blocks or none. The oracle, which is unsharded, judges all stages.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

#define ROWS 11
#define DIM  9

// A table of 11 x 9 on four ranks, two a host.
typedef struct layout {
    const char *name;
    ls_sharding sharding;
    int count;
    ls_plan_shard shards[4];  // rank, row, column, rows, columns
} layout;

static const layout layouts[] = {
    {"columns 1, 5 and 3 on ranks 3, 0, 3",
     LS_COLUMN_WISE,
     3,
     {{3, 0, 0, 11, 1}, {0, 0, 1, 11, 5}, {3, 0, 6, 11, 3}}},
    {"four column blocks on rank 2",
     LS_COLUMN_WISE,
     4,
     {{2, 0, 0, 11, 4}, {2, 0, 4, 11, 1}, {2, 0, 5, 11, 1}, {2, 0, 6, 11, 3}}},
    {"columns on the ranks of host 1, the later first",
     LS_TABLE_COLUMN_WISE,
     3,
     {{3, 0, 0, 11, 2}, {2, 0, 2, 11, 6}, {3, 0, 8, 11, 1}}},
    {"a grid whose rows are cut differently on each host",
     LS_GRID,
     4,
     {{2, 0, 0, 10, 2}, {3, 10, 0, 1, 2}, {0, 0, 2, 0, 7}, {1, 0, 2, 11, 7}}},
    {"a grid on one host",
     LS_GRID,
     4,
     {{2, 0, 0, 3, 8}, {3, 3, 0, 8, 8}, {2, 0, 8, 6, 1}, {3, 6, 8, 5, 1}}},
    {"rows on host 1, all on its first rank",
     LS_TABLE_ROW_WISE,
     2,
     {{2, 0, 0, 11, 9}, {3, 11, 0, 0, 9}}},
    {"rows on ranks 1 and 3 alone", LS_ROW_WISE, 2, {{1, 0, 0, 4, 9}, {3, 4, 0, 7, 9}}},
    {"rows on the last rank, but for one",
     LS_ROW_WISE,
     4,
     {{0, 0, 0, 0, 9}, {1, 0, 0, 0, 9}, {2, 0, 0, 1, 9}, {3, 1, 0, 10, 9}}},
};
#define LAYOUT_COUNT ((int)(sizeof layouts / sizeof layouts[0]))

static void lay_out(embedding_case *c, int t, const layout *how) {
    ls_plan_table *plan = &c->plans[t];
    plan->sharding = how->sharding;
    plan->shards = calloc((size_t)how->count, sizeof *plan->shards);
    cr_assert(plan->shards != NULL);
    memcpy(plan->shards, how->shards, (size_t)how->count * sizeof *plan->shards);
    plan->shard_count = how->count;
}

// Runs and judges; the judged outputs cover every non-empty shard.
static void run(embedding_case *c, const char *what) {
    static const int64_t batches[] = {4, 1, 0, 3};
    case_outcome out;
    cr_assert(case_inputs(c, batches, 5) == LS_OK);
    cr_assert(case_run(c, &out) == LS_OK, "%s: %s", what, out.text);
    cr_expect(out.wrong == 0, "%s: %s", what, out.text);
    cr_expect(out.elements > 0 && out.bound_ratio <= 1, "%s", what);
    case_outcome_free(&out);
    case_free(c);
}

// Each separately, under every pooling.
Test(fixed, layouts_by_hand) {
    for (int i = 0; i < LAYOUT_COUNT; i++) {
        for (int p = 0; p < 7; p++) {
            static const ls_pooling poolings[] = {LS_POOL_NONE, LS_POOL_SUM, LS_POOL_MEAN,
                                                  LS_POOL_MAX};
            bool weighted = p >= 4;
            ls_pooling pooling = weighted ? (p == 4 ? LS_POOL_SUM : LS_POOL_MEAN) : poolings[p];
            if (p == 6) {  // and a table of half precision with a padding id
                pooling = LS_POOL_SUM;
            }
            embedding_case c;
            case_init(&c, 4, 2, 40 + (uint64_t)i);
            int t = case_table(&c, "table", ROWS, DIM, pooling, weighted, "a,b");
            if (p == 6) {
                c.tables[t].dtype = LS_BF16;
                c.tables[t].has_padding_id = true;
                c.tables[t].padding_id = 10;
            }
            lay_out(&c, t, &layouts[i]);
            run(&c, layouts[i].name);
        }
    }
}

// All of them in one collection: tables of one type share their collectives, whatever their blocks.
Test(fixed, layouts_together) {
    static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    static const ls_pooling poolings[] = {LS_POOL_SUM, LS_POOL_MEAN, LS_POOL_MAX};
    for (int p = 0; p < 3; p++) {
        embedding_case c;
        case_init(&c, 4, 2, 90 + (uint64_t)p);
        for (int i = 0; i < LAYOUT_COUNT; i++) {
            static const char *const features[] = {"a", "b,c", "c"};
            int t = case_table(&c, names[i], ROWS, DIM, poolings[p], false, features[i % 3]);
            lay_out(&c, t, &layouts[i]);
        }
        run(&c, "all layouts");
    }
}

// Outputs of blocks that are only moved have the bits of the unsharded table, whatever the layout.
Test(fixed, columns_do_not_change_a_bit) {
    embedding_case whole;
    case_outcome expected;
    case_init(&whole, 4, 2, 5);
    case_table(&whole, "table", ROWS, DIM, LS_POOL_SUM, true, "a,c");
    cr_assert(case_place(&whole, 0, LS_TABLE_WISE, 0));
    cr_assert(case_inputs(&whole, NULL, 6) == LS_OK);
    cr_assert(case_run(&whole, &expected) == LS_OK, "%s", expected.text);
    for (int i = 0; i < 3; i++) {  // the column-wise ones
        embedding_case c;
        case_outcome out;
        case_init(&c, 4, 2, 5);
        case_table(&c, "table", ROWS, DIM, LS_POOL_SUM, true, "a,c");
        lay_out(&c, 0, &layouts[i]);
        cr_assert(case_inputs(&c, NULL, 6) == LS_OK);
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_expect_str_eq(case_difference(&c, &expected, &out), "", "%s", layouts[i].name);
        case_outcome_free(&out);
        case_free(&c);
    }
    case_outcome_free(&expected);
    case_free(&whole);
}
