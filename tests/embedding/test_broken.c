// Errors that must be caught: plans that do not tile their tables, impossible arguments, memory
// that runs out.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "case.h"
#include "tests/counting.h"

// A table of 8 x 4 over 4 ranks by rows 2, 2, 2, 2; only sample 1 of rank 2 has an id of rows 4 and
// 5 (rank 2's own block).
static void make_broken(embedding_case *c, ls_pooling pooling) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {2, 3}, sizes[] = {2, 2, 2, 2};
    static const int64_t plain[] = {0, 1, 2, 3, 7}, special[] = {6, 1, 0, 5, 3};
    case_init(c, 4, 2, 9);
    case_table(c, "table", 8, 4, pooling, false, "a");
    case_place_rows(c, 0, sizes, 4);
    for (int r = 0; r < 4; r++) {
        cr_assert(ls_keyed_jagged_create(&c->inputs[r], r, keys, 1, 2, lengths,
                                         r == 2 ? special : plain, 5, NULL) == LS_OK);
    }
}

// The plan is refused with `refusal` in the text. If it runs nevertheless, the oracle finds the
// first wrong output at its place.
static void expect_caught(embedding_case *c, const char *refusal, const char *found) {
    case_outcome out;
    cr_expect(case_run(c, &out) == LS_ERR_INVALID);
    cr_expect(strstr(out.text, refusal), "%s", out.text);
    case_outcome_free(&out);
    c->allow_broken_plan = true;
    cr_assert(case_run(c, &out) == LS_OK, "%s", out.text);
    cr_expect(out.wrong > 0);
    cr_expect_str_eq(out.stage, "output_dist");
    cr_expect(strstr(out.text, found), "%s", out.text);
    case_outcome_free(&out);
}

// A row that no shard holds: the only bag that needs it is named, with the id.
Test(broken, rows_on_no_rank) {
    static const ls_pooling kinds[] = {LS_POOL_NONE, LS_POOL_SUM, LS_POOL_MEAN};
    for (int k = 0; k < 3; k++) {
        embedding_case c;
        make_broken(&c, kinds[k]);
        c.plans[0].shards[2].rows = 1;  // row 5 is missing
        expect_caught(&c, "table table: row 5 is on no rank",
                      "sample 1 of rank 2, column 0; id 5 (position 1, ");
        case_free(&c);
    }
}

// The same for the table's last rows, after the last block.
Test(broken, last_rows_on_no_rank) {
    static const ls_pooling kinds[] = {LS_POOL_SUM, LS_POOL_MEAN};
    for (int k = 0; k < 2; k++) {
        embedding_case c;
        make_broken(&c, kinds[k]);
        c.plans[0].shards[3].rows = 1;  // row 7 is missing
        expect_caught(&c, "table table: row 7 is on no rank",
                      "; as if id 7 (position 2, on no rank) were missing");
        case_free(&c);
    }
}

// Two row blocks of a table on one rank: not row_wise, but the result is correct.
Test(broken, two_row_blocks_on_one_rank_add_up) {
    static const ls_pooling kinds[] = {LS_POOL_NONE, LS_POOL_SUM, LS_POOL_MEAN, LS_POOL_MAX};
    for (int k = 0; k < 4; k++) {
        embedding_case c;
        case_outcome out;
        make_broken(&c, kinds[k]);
        c.plans[0].shards[2].rank = 1;
        c.plans[0].shards[0].rank = 3;
        c.allow_broken_plan = true;
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_expect(out.wrong == 0 && out.elements > 0, "%s", out.text);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// A row that two shards hold counts twice in a sum.
Test(broken, rows_on_two_ranks) {
    embedding_case c;
    make_broken(&c, LS_POOL_SUM);
    c.plans[0].shards[3].row_offset = 5;
    c.plans[0].shards[3].rows = 3;
    expect_caught(
        &c, "table table: row 5 is in two shards",
        "sample 1 of rank 2, column 0; id 5 (position 1, 3 in the bag), whose row is in 2 "
        "shards, the first on rank 2");
    c.allow_broken_plan = false;
    expect_caught(&c, "in two shards", "; as if id 5 (position 1, on rank 2) counted twice");
    case_free(&c);
}

// Under a broken plan weights stay with their ids, too: only the bag of the lost row is wrong.
Test(broken, weights_under_a_plan_with_a_gap) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {2, 3}, ids[] = {6, 1, 0, 5, 3};
    static const float weights[] = {0.5f, 2, -1, 4, 8};
    embedding_case c;
    case_outcome out;
    make_broken(&c, LS_POOL_SUM);
    c.tables[0].weighted = true;
    for (int r = 0; r < 4; r++) {
        ls_keyed_jagged_free(c.inputs[r]);
        cr_assert(ls_keyed_jagged_create(&c.inputs[r], r, keys, 1, 2, lengths, ids, 5, weights) ==
                  LS_OK);
    }
    c.plans[0].shards[2].rows = 1;  // row 5 is missing
    c.allow_broken_plan = true;
    cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
    cr_expect_str_eq(out.stage, "output_dist");
    cr_expect(out.wrong == 16, "four columns of one bag on four ranks, not %d", (int)out.wrong);
    cr_expect(strstr(out.text, "; as if id 5 (position 1, on no rank) were missing"), "%s",
              out.text);
    case_outcome_free(&out);
    case_free(&c);
}

// Columns that no shard holds stay 0 and are named by column.
Test(broken, columns_on_no_rank) {
    embedding_case c;
    make_broken(&c, LS_POOL_SUM);
    c.plans[0].sharding = LS_COLUMN_WISE;
    c.plans[0].shard_count = 2;
    c.plans[0].shards[0] = (ls_plan_shard){1, 0, 0, 8, 2};
    c.plans[0].shards[1] = (ls_plan_shard){3, 0, 3, 8, 1};
    expect_caught(
        &c, "table table: column 2 is on no rank",
        "sample 0 of rank 0, column 2; id 0 (position 0, 2 in the bag), whose row is on no "
        "rank");
    case_free(&c);
}

// Blocks outside of the table, or on ranks that do not exist, are refused even if plans may be
// broken.
Test(broken, blocks_outside_are_always_refused) {
    // rank, first row, first column, rows, columns
    static const ls_plan_shard bad[] = {{4, 0, 0, 2, 4},  {-1, 0, 0, 2, 4},       {0, 7, 0, 2, 4},
                                        {0, -1, 0, 2, 4}, {0, 0, 0, -2, 4},       {0, 0, 3, 2, 2},
                                        {0, 0, 0, 2, 0},  {0, INT64_MAX, 0, 2, 4}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (int allow = 0; allow < 2; allow++) {
            embedding_case c;
            case_outcome out;
            make_broken(&c, LS_POOL_SUM);
            c.allow_broken_plan = allow == 1;
            c.plans[0].shards[0] = bad[i];
            cr_expect(case_run(&c, &out) == LS_ERR_INVALID, "shard %zu", i);
            case_outcome_free(&out);
            case_free(&c);
        }
    }
}

// Misplaced weights (a shard filled from the next row on) show at the lookup.
static double shifted(const embedding_case *c, int table, int64_t row, int64_t column);

static _Thread_local int calls_of_shifted;

static double shifted(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    calls_of_shifted++;
    // The module fills its shards before the oracle asks for its first row.
    int64_t seen = calls_of_shifted <= 8 * 4 && row >= 4 && row < 6 ? row + 1 : row;
    return (double)(100 * seen + column);
}

Test(broken, wrong_weights_show_at_the_lookup) {
    embedding_case c;
    case_outcome out;
    make_broken(&c, LS_POOL_SUM);
    c.weight = shifted;
    cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
    cr_expect(out.wrong > 0);
    cr_expect_str_eq(out.stage, "lookup");
    cr_expect(strstr(out.text, "values of rank 2"), "%s", out.text);
    cr_expect(strstr(out.text, "sample 1 of rank 2, column 0; id 5"), "%s", out.text);
    cr_expect(strstr(out.text, "got 600, expected 500"), "%s", out.text);
    case_outcome_free(&out);
    case_free(&c);
}

// ---- Arguments ----------------------------------------------------------------------------------

typedef struct bad_argument {
    void (*spoil)(embedding_case *c);
    int status;
    const char *text;
} bad_argument;

static void spoil_weighted_max(embedding_case *c) {
    c->tables[0].pooling = LS_POOL_MAX;
    c->tables[0].weighted = true;
}
static void spoil_dtype(embedding_case *c) {
    c->tables[0].dtype = LS_I32;
}
static void spoil_padding(embedding_case *c) {
    c->tables[0].has_padding_id = true;
    c->tables[0].padding_id = 8;
}
static void spoil_rows(embedding_case *c) {
    c->tables[0].rows = 9;
}
static void spoil_name(embedding_case *c) {
    c->tables[0].name = "other";
}
static void spoil_feature(embedding_case *c) {
    free((void *)c->tables[0].features[0]);
    c->tables[0].features = realloc((void *)c->tables[0].features, 2 * sizeof(char *));
    ((const char **)c->tables[0].features)[0] = strdup("aa");
}
static void spoil_weights(embedding_case *c) {
    c->tables[0].weighted = true;
}

// Each unusable argument is refused with a message that names it.
Test(broken, bad_arguments_are_refused) {
    static const bad_argument all[] = {
        {spoil_weighted_max, LS_ERR_UNSUPPORTED, "weights per id require sum or mean"},
        {spoil_dtype, LS_ERR_UNSUPPORTED, "table table: dtype i32"},
        {spoil_padding, LS_ERR_INVALID, "padding id 8 is not a row from 0 to 7"},
        {spoil_rows, LS_ERR_INVALID, "table table is 9 x 4, in the plan 8 x 4"},
        {spoil_name, LS_ERR_INVALID, "the plan has no table other"},
        {spoil_feature, LS_ERR_NOT_FOUND, "rank 0 has no feature aa"},
        {spoil_weights, LS_ERR_INVALID, "the input of rank 0 has no weights"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        embedding_case c;
        case_outcome out;
        make_broken(&c, LS_POOL_SUM);
        all[i].spoil(&c);
        cr_expect(case_run(&c, &out) == all[i].status, "%zu: %d %s", i, out.status, out.text);
        cr_expect(strstr(out.text, all[i].text), "%zu: %s", i, out.text);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// ---- Memory -------------------------------------------------------------------------------------

// Whichever allocation fails, the run ends with out of memory and frees everything.
Test(broken, every_allocation_may_fail) {
    memory_counts counting = {0};
    uint64_t total = 0;
    for (uint64_t fail_at = 0; fail_at <= total; fail_at++) {
        embedding_case c;
        case_outcome out;
        make_broken(&c, LS_POOL_MEAN);
        counting.fail_at = fail_at;
        counting_begin(&counting);
        int status = case_run(&c, &out);
        if (fail_at == 0) {
            cr_assert(status == LS_OK, "%s", out.text);
            total = counting.allocations;
            cr_assert(total > 10);
        } else {
            cr_expect(status == LS_ERR_MEMORY, "allocation %d: %s", (int)fail_at, out.text);
        }
        case_outcome_free(&out);
        counting_end();
        cr_expect(counting.bytes_now == 0, "allocation %d: %td bytes kept", (int)fail_at,
                  counting.bytes_now);
        case_free(&c);
    }
}
