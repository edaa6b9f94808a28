// Tests of planner/plan.h: the rules that shard tables, and the check that refuses an invalid plan.
#include <criterion/criterion.h>
#include <string.h>

#include "planner/plan.h"

static void expect_rows(int64_t rows, int count, const int64_t *want) {
    int64_t offsets[16];
    int64_t sizes[16];
    int64_t next = 0;
    ls_plan_split_rows(offsets, sizes, rows, count);
    for (int i = 0; i < count; i++) {
        cr_expect(sizes[i] == want[i], "%lld rows / %d: block %d is %lld, want %lld",
                  (long long)rows, count, i, (long long)sizes[i], (long long)want[i]);
        cr_expect(offsets[i] == next);
        next += sizes[i];
    }
}

// The published row-wise layouts, the ones with empty ranks among them.
Test(plan, split_rows_follows_torchrec) {
    expect_rows(10, 4, (int64_t[]){3, 3, 3, 1});
    expect_rows(5, 4, (int64_t[]){2, 2, 1, 0});
    expect_rows(9, 8, (int64_t[]){2, 2, 2, 2, 1, 0, 0, 0});
    expect_rows(17, 8, (int64_t[]){3, 3, 3, 3, 3, 2, 0, 0});
    expect_rows(3, 8, (int64_t[]){1, 1, 1, 0, 0, 0, 0, 0});
    expect_rows(0, 2, (int64_t[]){0, 0});
    expect_rows(INT64_MAX, 2, (int64_t[]){INT64_MAX / 2 + 1, INT64_MAX / 2});
}

// The published column block widths under the default minimum.
Test(plan, column_block_follows_torchrec) {
    static const int64_t want[][2] = {{64, 64},    {96, 96},     {128, 128}, {192, 192},
                                      {256, 128},  {320, 160},   {384, 128}, {512, 128},
                                      {1000, 200}, {1030, 1030}, {2048, 128}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        cr_expect(ls_plan_column_block(want[i][0], 0) == want[i][1], "D=%lld gives %lld",
                  (long long)want[i][0], (long long)ls_plan_column_block(want[i][0], 0));
    }
    cr_expect(ls_plan_column_block(64, 32) == 32);
    cr_expect(ls_plan_column_block(36, 18) == 36);
    cr_expect(ls_plan_column_block(36, 9) == 12);
    cr_expect(ls_plan_column_block(128, 2) == 4);
    cr_expect(ls_plan_column_block(64, 64) == 64);
}

// Every name parses back to its number, and a misspelling suggests the name.
Test(plan, sharding_names_round_trip) {
    for (int i = 0; i < LS_SHARDING_COUNT; i++) {
        ls_sharding back;
        cr_expect(ls_sharding_parse(&back, ls_sharding_name((ls_sharding)i)) == LS_OK);
        cr_expect(back == (ls_sharding)i);
    }
    ls_sharding out;
    cr_expect(ls_sharding_parse(&out, "row_wis") == LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "did you mean \"row_wise\"?"));
}

static int check_one(ls_sharding sharding, int shard_count, ls_plan_shard *shards) {
    ls_plan_table table = {.name = "t", .sharding = sharding, .rows = 10, .columns = 8};
    table.shards = shards;
    table.shard_count = shard_count;
    ls_plan plan = {.ranks = 4, .ranks_per_host = 2, .tables = &table, .table_count = 1};
    ls_error_clear();
    return ls_plan_check(&plan);
}

#define SHARDS(...)                                                                                \
    (ls_plan_shard[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }

// One correct plan of every sharding type passes.
Test(plan, check_accepts_each_type) {
    cr_expect(check_one(LS_TABLE_WISE, 1, SHARDS({3, 0, 0, 10, 8})) == LS_OK);
    cr_expect(check_one(LS_COLUMN_WISE, 2, SHARDS({3, 0, 0, 10, 4}, {3, 0, 4, 10, 4})) == LS_OK);
    cr_expect(check_one(LS_TABLE_COLUMN_WISE, 2, SHARDS({2, 0, 0, 10, 4}, {3, 0, 4, 10, 4})) ==
              LS_OK);
    cr_expect(check_one(LS_ROW_WISE, 4,
                        SHARDS({0, 0, 0, 5, 8}, {1, 5, 0, 5, 8}, {2, 10, 0, 0, 8},
                               {3, 10, 0, 0, 8})) == LS_OK);
    cr_expect(check_one(LS_TABLE_ROW_WISE, 2, SHARDS({0, 0, 0, 5, 8}, {1, 5, 0, 5, 8})) == LS_OK);
    cr_expect(check_one(LS_GRID, 4,
                        SHARDS({0, 0, 0, 5, 4}, {1, 5, 0, 5, 4}, {2, 0, 4, 5, 4},
                               {3, 5, 4, 5, 4})) == LS_OK);
    cr_expect(check_one(LS_DATA_PARALLEL, 4,
                        SHARDS({0, 0, 0, 10, 8}, {1, 0, 0, 10, 8}, {2, 0, 0, 10, 8},
                               {3, 0, 0, 10, 8})) == LS_OK);
}

static void expect_refused(ls_sharding sharding, int shard_count, ls_plan_shard *shards,
                           const char *text) {
    cr_expect(check_one(sharding, shard_count, shards) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, text), "wanted \"%s\" in: %s", text,
              ls_error_last()->text);
}

// Each way of losing, doubling or misplacing a part of a table is refused with table, rank and
// place.
Test(plan, check_names_what_is_wrong) {
    expect_refused(LS_TABLE_WISE, 1, SHARDS({4, 0, 0, 10, 8}), "table t: shard 0 is on rank 4");
    expect_refused(LS_TABLE_WISE, 1, SHARDS({0, 0, 0, 9, 8}), "row 9 is on no rank");
    expect_refused(LS_ROW_WISE, 2, SHARDS({0, 0, 0, 5, 8}, {1, 6, 0, 4, 8}), "row 5 is on no rank");
    expect_refused(LS_ROW_WISE, 2, SHARDS({0, 0, 0, 5, 8}, {1, 4, 0, 6, 8}),
                   "row 4 is in two shards");
    // The common rows are named, and no others.
    expect_refused(LS_ROW_WISE, 3, SHARDS({0, 0, 0, 7, 8}, {1, 2, 0, 2, 8}, {2, 7, 0, 3, 8}),
                   "rows 2 to 3 are in two shards");
    expect_refused(LS_ROW_WISE, 2, SHARDS({0, 0, 0, 10, 8}, {1, 9, 0, 0, 8}),
                   "table t: shard 1 on rank 1 begins at row 9, expected 10");
    expect_refused(LS_ROW_WISE, 2, SHARDS({0, 0, 0, 5, 8}, {1, 8, 0, 2, 8}),
                   "rows 5 to 7 are on no rank");
    expect_refused(LS_ROW_WISE, 2, SHARDS({0, 0, 0, 5, 8}, {1, 5, 0, INT64_MAX, 8}), "from 5 on");
    expect_refused(LS_ROW_WISE, 2, SHARDS({1, 0, 0, 5, 8}, {0, 5, 0, 5, 8}),
                   "rank 0 follows rank 1");
    expect_refused(LS_COLUMN_WISE, 1, SHARDS({0, 0, 0, 10, 4}), "columns 4 to 7 are on no rank");
    expect_refused(LS_COLUMN_WISE, 2, SHARDS({0, 0, 0, 10, 4}, {1, 0, 3, 10, 5}),
                   "column 3 is in two shards");
    expect_refused(LS_COLUMN_WISE, 2, SHARDS({0, 0, 0, 5, 8}, {1, 5, 0, 5, 8}),
                   "column_wise does not cut rows");
    expect_refused(LS_ROW_WISE, 2, SHARDS({0, 0, 0, 10, 4}, {1, 0, 4, 10, 4}),
                   "row_wise does not cut columns");
    expect_refused(LS_TABLE_ROW_WISE, 2, SHARDS({1, 0, 0, 5, 8}, {2, 5, 0, 5, 8}),
                   "rank 2 is not on host 0");
    expect_refused(LS_TABLE_COLUMN_WISE, 2, SHARDS({1, 0, 0, 10, 4}, {2, 0, 4, 10, 4}),
                   "rank 2 is not on host 0");
    expect_refused(LS_GRID, 3, SHARDS({0, 0, 0, 5, 4}, {2, 5, 0, 5, 4}, {3, 0, 4, 10, 4}),
                   "keeps a column block on one host");
    expect_refused(LS_DATA_PARALLEL, 1, SHARDS({0, 0, 0, 10, 8}),
                   "one copy per rank, 4, and has 1");
    ls_plan_shard copies[] = {
        {0, 0, 0, 10, 8}, {1, 0, 0, 10, 8}, {2, 0, 0, 10, 8}, {3, 0, 0, 10, 8}};
    copies[2].rows = 9;
    expect_refused(LS_DATA_PARALLEL, 4, copies, "rank 2 holds 9 x 8 of a data_parallel table of");
    copies[2] = (ls_plan_shard){2, 0, 0, 10, 7};
    expect_refused(LS_DATA_PARALLEL, 4, copies, "rank 2 holds 10 x 7 of a data_parallel table of");
    copies[2] = (ls_plan_shard){1, 0, 0, 10, 8};
    expect_refused(LS_DATA_PARALLEL, 4, copies, "copy 2 of a data_parallel table is on rank 1");
    ls_plan plan = {.ranks = 1, .ranks_per_host = 1};
    cr_expect(ls_plan_check(&plan) == LS_OK);
    plan.table_count = 1;
    cr_expect(ls_plan_check(&plan) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "plan: 1 tables");
}

// A table that lacks a required field is refused, by its name if it has one.
Test(plan, check_names_what_is_missing) {
    ls_plan_shard whole = {0, 0, 0, 10, 8};
    const ls_plan_table good = {"t", NULL, LS_TABLE_WISE, LS_PLANNER_FUSED, 10, 8, &whole, 1};
    static const char *const says[] = {"no name", "no name",  "least 1",  "least 1", "least 1",
                                       "least 1", "sharding", "sharding", "kernel",  NULL};
    ls_plan_table bad[10];
    for (int i = 0; i < 10; i++) {
        bad[i] = good;
    }
    bad[0].name = "";
    bad[1].name = NULL;
    bad[2].rows = 0;
    bad[3].columns = 0;
    bad[4].shard_count = 0;
    bad[5].shards = NULL;
    bad[6].sharding = LS_SHARDING_COUNT;
    bad[7].sharding = (ls_sharding)-1;
    bad[8].kernel = LS_PLANNER_KERNEL_COUNT;
    for (int i = 0; i < 10; i++) {
        const ls_plan plan = {.ranks = 4, .ranks_per_host = 2, .tables = &bad[i], .table_count = 1};
        cr_expect_eq(ls_plan_check(&plan), says[i] != NULL ? LS_ERR_INVALID : LS_OK, "%d", i);
        cr_expect(says[i] == NULL || strstr(ls_error_last()->text, says[i]) != NULL, "%d: %s", i,
                  ls_error_last()->text);
    }
}

// Names are keys of all later stages, so two tables of one name are refused.
Test(plan, check_refuses_equal_names) {
    ls_plan_shard shard = {0, 0, 0, 1, 1};
    ls_plan_table tables[2] = {
        {.name = "t",
         .sharding = LS_TABLE_WISE,
         .rows = 1,
         .columns = 1,
         .shards = &shard,
         .shard_count = 1},
        {.name = "t",
         .sharding = LS_TABLE_WISE,
         .rows = 1,
         .columns = 1,
         .shards = &shard,
         .shard_count = 1},
    };
    ls_plan plan = {.ranks = 1, .ranks_per_host = 1, .tables = tables, .table_count = 2};
    cr_expect(ls_plan_check(&plan) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "two tables are called t"));
    tables[1].name = "u";
    cr_expect(ls_plan_check(&plan) == LS_OK);
    tables[1].kernel = LS_PLANNER_KERNEL_COUNT;
    cr_expect(ls_plan_check(&plan) == LS_ERR_INVALID);
}
