// Tests of plan files: round trips, positions of errors, hostile input, TorchRec's form,
// differences.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/plan_file.h"
#include "tests/planner/golden.h"

static const ls_planner_feature ids = {.pooling = 5.0, .poolings = 1.0, .batch = 256.0};

// A plan with every sharding type, on two hosts of two.
static ls_planner_problem *every_type(ls_planner_result *result) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 4, 2) == LS_OK);
    ls_planner_table tables[LS_SHARDING_COUNT];
    static const char *names[LS_SHARDING_COUNT] = {"a", "b \"quoted\"", "c", "d", "e: x", "f", "g"};
    for (int i = 0; i < LS_SHARDING_COUNT; i++) {
        tables[i] = make_table(names[i], 1001, 128, &ids);
        tables[i].shardings = 1u << i;
    }
    ls_planner_options options = {.model = LS_PLANNER_LOCKSTEP, .nodes_max = 20000};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, LS_SHARDING_COUNT, &options) ==
                  LS_OK,
              "%s", ls_error_last()->text);
    cr_assert(ls_planner_solve(result, problem) == LS_OK && result->found);
    return problem;
}

static void expect_equal(const ls_plan *a, const ls_plan *b) {
    ls_text text = {0};
    cr_expect(ls_plan_diff(&text, a, b) == 0, "%s", ls_text_string(&text));
    ls_text_free(&text);
}

// A plan is read back as written, and written again as the same bytes.
Test(plan_file, round_trips) {
    ls_planner_result result;
    ls_planner_problem *problem = every_type(&result);
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_text text = {0};
    ls_text again = {0};
    ls_text errors = {0};
    ls_plan plan;
    cr_assert(ls_plan_write(&text, &result.plan) == LS_OK);
    cr_assert(ls_plan_read(&plan, arena, &errors, "p.yaml", text.data, text.length) == LS_OK, "%s",
              ls_text_string(&errors));
    expect_equal(&result.plan, &plan);
    cr_assert(ls_plan_write(&again, &plan) == LS_OK);
    cr_expect_str_eq(text.data, again.data);
    ls_text_free(&text);
    ls_text_free(&again);
    ls_text_free(&errors);
    ls_arena_free(arena);
    ls_planner_problem_free(problem);
}

// Hosts of one rank each are hosts, too.
Test(plan_file, a_host_may_have_one_rank) {
    static const char text[] = "lockstep_plan: 1\nranks: 2\nranks_per_host: 1\ntables:\n"
                               "  - name: a\n    rows: 10\n    columns: 8\n"
                               "    sharding: table_wise\n"
                               "    shards: [{rank: 1, offset: [0, 0], size: [10, 8]}]\n";
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_text errors = {0};
    ls_plan plan;
    cr_assert(ls_plan_read(&plan, arena, &errors, "p.yaml", text, strlen(text)) == LS_OK, "%s",
              ls_text_string(&errors));
    cr_expect(plan.ranks == 2 && plan.ranks_per_host == 1);
    ls_text_free(&errors);
    ls_arena_free(arena);
}

// Tables are written under the module of their collection, in any order.
Test(plan_file, torchrec_form_groups_tables_by_module) {
    ls_plan_shard shard = {0, 0, 0, 8, 4};
    ls_plan_table tables[3];
    static const char *const modules[] = {"sparse.ebc", NULL, "sparse.ebc"};
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        tables[i] = (ls_plan_table){.name = names[i],
                                    .module = modules[i],
                                    .sharding = LS_TABLE_WISE,
                                    .rows = 8,
                                    .columns = 4,
                                    .shards = &shard,
                                    .shard_count = 1};
    }
    const ls_plan plan = {.ranks = 1, .ranks_per_host = 1, .tables = tables, .table_count = 3};
    ls_text text = {0};
    ls_arena *arena;
    ls_plan read;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_plan_write_torchrec(&text, &plan) == LS_OK);
    cr_assert(ls_plan_read_torchrec(&read, arena, text.data, text.length, 1, 1, NULL, 0) == LS_OK,
              "%s", ls_error_last()->text);
    cr_assert(read.table_count == 3);
    static const char *const order[] = {"a", "c", "b"};
    static const char *const of[] = {"sparse.ebc", "sparse.ebc", ""};
    for (int i = 0; i < 3; i++) {
        cr_expect_str_eq(read.tables[i].name, order[i]);
        cr_expect_str_eq(read.tables[i].module, of[i]);
    }
    ls_text_free(&text);
    ls_arena_free(arena);
}

// TorchRec's form is read back as the same plan, given the sizes of data-parallel tables.
Test(plan_file, torchrec_form_round_trips) {
    ls_planner_result result;
    ls_planner_problem *problem = every_type(&result);
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_text text = {0};
    ls_plan plan;
    cr_assert(ls_plan_write_torchrec(&text, &result.plan) == LS_OK);
    cr_assert(ls_plan_read_torchrec(&plan, arena, text.data, text.length, 4, 2,
                                    ls_planner_tables(problem), LS_SHARDING_COUNT) == LS_OK,
              "%s", ls_error_last()->text);
    expect_equal(&result.plan, &plan);
    cr_expect(ls_plan_read_torchrec(&plan, arena, text.data, text.length, 4, 2, NULL, 0) ==
              LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "data parallel"));
    ls_text_free(&text);
    ls_arena_free(arena);
    ls_planner_problem_free(problem);
}

#define TUTORIAL(columns)                                                                          \
    "{\"\": {\"large_table_0\": {\"sharding_type\": \"column_wise\", \"compute_kernel\": "         \
    "\"batched_fused\", \"ranks\": [0, 1], \"sharding_spec\": {\"shards\": ["                      \
    "{\"shard_offsets\": [0, 32], \"shard_sizes\": [4096, 32], \"placement\": "                    \
    "\"rank:1/cuda:1\"},"                                                                          \
    "{\"shard_offsets\": [0, 0], \"shard_sizes\": [4096, " columns "], \"placement\": "            \
    "\"rank:0/cuda:0\"}]"                                                                          \
    "}}}}"

// The kernel names of older releases are understood; shards that do not make up the table are
// refused.
Test(plan_file, torchrec_plan_of_the_tutorial_is_read) {
    static const char text[] = TUTORIAL("32"), gap[] = TUTORIAL("31");
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_plan plan;
    cr_assert(ls_plan_read_torchrec(&plan, arena, text, strlen(text), 2, 2, NULL, 0) == LS_OK, "%s",
              ls_error_last()->text);
    cr_expect(plan.table_count == 1 && plan.tables[0].rows == 4096 && plan.tables[0].columns == 64);
    cr_expect(plan.tables[0].kernel == LS_PLANNER_FUSED);
    cr_expect(plan.tables[0].shards[1].column_offset == 32 && plan.tables[0].shards[1].rank == 1);
    cr_expect(ls_plan_read_torchrec(&plan, arena, gap, strlen(gap), 2, 2, NULL, 0) ==
              LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "column 31 is on no rank"), "%s",
              ls_error_last()->text);
    ls_arena_free(arena);
}

// Shards without rows begin at the same row as others: they are ordered by rank.
Test(plan_file, torchrec_shards_of_nothing_are_in_order) {
    static const int ranks[] = {2, 1, 3, 0};
    ls_text text = {0};
    ls_text_printf(&text, "{\"\": {\"t\": {\"sharding_type\": \"row_wise\", \"compute_kernel\": "
                          "\"fused\", \"ranks\": [0, 1, 2, 3], \"sharding_spec\": {\"shards\": [");
    for (int i = 0; i < 4; i++) {
        int rank = ranks[i];
        ls_text_printf(&text,
                       "{\"shard_offsets\": [%d, 0], \"shard_sizes\": [%d, 4], \"placement\": "
                       "\"rank:%d/cuda:%d\"}%s",
                       rank > 0 ? 5 : 0, rank > 0 ? 0 : 5, rank, rank, i < 3 ? ", " : "");
    }
    ls_text_printf(&text, "]}}}}");
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_plan plan;
    cr_assert(ls_plan_read_torchrec(&plan, arena, text.data, text.length, 4, 4, NULL, 0) == LS_OK,
              "%s", ls_error_last()->text);
    for (int i = 0; i < 4; i++) {
        cr_expect(plan.tables[0].shards[i].rank == i);
    }
    ls_arena_free(arena);
    ls_text_free(&text);
}

// A file that is no JSON, invalid kernels, and shards on invalid ranks, are refused.
Test(plan_file, torchrec_plan_of_something_else_is_refused) {
    static const char *const words[][2] = {{"fused", "rank:a/cuda:0"}, {"fused", "rank:1a/cuda:0"},
                                           {"fused", "rank:/cuda:0"},  {"fused", "rank:-1/cuda:0"},
                                           {"fused", "cuda:0"},        {"melted", "rank:1/cuda:1"},
                                           {"quant", "rank:1/cuda:1"}};
    const size_t last = sizeof(words) / sizeof(words[0]) - 1;
    ls_arena *arena;
    ls_plan plan;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    for (size_t i = 0; i <= last; i++) {
        char text[512];
        (void)snprintf(text, sizeof(text),
                       "{\"\": {\"t\": {\"sharding_type\": \"table_wise\", \"compute_kernel\": "
                       "\"%s\", \"ranks\": [1], \"sharding_spec\": {\"shards\": "
                       "[{\"shard_offsets\": [0, 0], \"shard_sizes\": [8, 4], \"placement\": "
                       "\"%s\"}]}}}}",
                       words[i][0], words[i][1]);
        int status = ls_plan_read_torchrec(&plan, arena, text, strlen(text), 64, 64, NULL, 0);
        cr_expect(status == (i < last ? LS_ERR_FORMAT : LS_OK), "%s", text);
    }
    cr_expect(plan.tables[0].kernel == LS_PLANNER_FUSED && plan.tables[0].shards[0].rank == 1);
    cr_expect(ls_plan_read_torchrec(&plan, arena, "{\n  ]", 5, 2, 2, NULL, 0) == LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "line 2, column 3"), "%s", ls_error_last()->text);
    ls_arena_free(arena);
}

// A plan with contradictory places of a table is refused; one with single places is not.
Test(plan_file, torchrec_plan_that_contradicts_itself_is_refused) {
    static const struct {
        const char *type, *ranks, *error;  // NULL: accepted
    } plans[] = {
        {"column_wise", "[1, 0]", NULL},
        {"column_wise", "null", NULL},
        {"column_wise", "[0, 1]", "table t: ranks[0] is 0, but the shard is on rank 1"},
        {"column_wise", "[1, 1]", "table t: ranks[1] is 1, but the shard is on rank 0"},
        {"column_wise", "[1]", "table t: ranks: 1 for 2 shards"},
        {"column_wise", "[1, 0, 0]", "table t: ranks: 3 for 2 shards"},
        {"column_wise", "[1, \"0\"]", "table t: ranks[1] is \"0\", but the shard is on rank 0"},
        {"column_wise", "7", "table t: ranks: 0 for 2 shards"},
        {"table_wise", "[1, 0]", "table_wise does not cut columns"},
        {"data_parallel", "[0, 1]", "which has no shards, but has a sharding_spec"},
    };
    const ls_planner_table known = {.name = "t", .rows = 8, .columns = 8};
    ls_arena *arena;
    ls_plan plan;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text),
                       "{\"\": {\"t\": {\"sharding_type\": \"%s\", \"compute_kernel\": "
                       "\"dense\", \"ranks\": %s, \"sharding_spec\": {\"shards\": ["
                       "{\"shard_offsets\": [0, 0], \"shard_sizes\": [8, 4], \"placement\": "
                       "\"rank:1/cpu\"}, {\"shard_offsets\": [0, 4], \"shard_sizes\": [8, 4], "
                       "\"placement\": \"rank:0/cpu\"}]}}}}",
                       plans[i].type, plans[i].ranks);
        int status = ls_plan_read_torchrec(&plan, arena, text, strlen(text), 2, 2, &known, 1);
        cr_expect((status == LS_OK) == (plans[i].error == NULL), "%s", text);
        cr_expect(status == LS_OK || strstr(ls_error_last()->text, plans[i].error) != NULL,
                  "wanted \"%s\" in: %s", plans[i].error, ls_error_last()->text);
    }
    ls_arena_free(arena);
}

static void expect_errors(const char *text, int count, ...) {
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_text errors = {0};
    ls_plan plan;
    cr_expect(ls_plan_read(&plan, arena, &errors, "p.yaml", text, strlen(text)) == LS_ERR_FORMAT,
              "accepted: %s", text);
    va_list args;
    va_start(args, count);
    for (int i = 0; i < count; i++) {
        const char *want = va_arg(args, const char *);
        cr_expect(strstr(ls_text_string(&errors), want), "wanted \"%s\" in:\n%s", want,
                  ls_text_string(&errors));
    }
    va_end(args);
    ls_text_free(&errors);
    ls_arena_free(arena);
}

// All errors of a file are reported at once, each at its place.
Test(plan_file, errors_have_positions) {
    expect_errors("lockstep_plan: 1\nranks: 2\ntables:\n"
                  "  - name: a\n    rows: 10\n    columns: 8\n    sharding: table_wize\n"
                  "    shards:\n      - {rank: 2, offset: [0, 0], size: [10, 8]}\n"
                  "  - name: b\n    rows: 0\n    colums: 8\n    sharding: table_wise\n",
                  8, "    7 |     sharding: table_wize\n      |               ^~~~~~~~~~\n",
                  "p.yaml:7:15: error: no sharding type is called \"table_wize\"; did you mean",
                  "p.yaml:9:16: error: expected a whole number from 0 to 1",
                  "p.yaml:11:11: error: expected a whole number from 1",
                  "p.yaml:12:5: error: unknown key `colums`\n", "did you mean \"columns\"?",
                  "p.yaml:10:5: error: `columns` is missing", "        ^");
    expect_errors("lockstep_plan: 1\nranks: 2\ntables:\n"
                  "  - name: a\n    rows: 10\n    columns: 8\n    sharding: row_wise\n"
                  "    shards:\n      - {rank: 0, offset: [0, 0], size: [5, 8]}\n"
                  "      - {rank: 1, offset: [6, 0], size: [4, 8]}\n",
                  1, "p.yaml:4:5: error: plan: table a: row 5 is on no rank");
    expect_errors("lockstep_plan: 2\nranks: 2\ntables: []\n", 1, "p.yaml:1:16: error");
    expect_errors("lockstep_plan: 1\ntables: []\n", 1, "error: `ranks` is missing");
    expect_errors("lockstep_plan: 1\nranks: 2\ntables:\n"
                  "  - name: a\n    rows: 10\n    columns: 8\n    sharding: table_wise\n"
                  "    shards: [{}]\n",
                  3, "p.yaml:8:14: error: `rank` is missing", "`offset` is missing",
                  "`size` is missing");
    expect_errors("lockstep_plan: 1\nranks: 2\ntables:\n"
                  "  - name: a\n    rows: 10\n    columns: 8\n    sharding: table_wise\n"
                  "    shards: [{rank: 0, offset: [0, 0], size: [10, 8], host: 0}]\n",
                  1, "p.yaml:8:55: error: unknown key `host`");
    expect_errors("", 1, "p.yaml: error: the file is empty");
}

// Aliases, deep nesting, broken YAML and doubled keys end in an error, not in a crash or a hang.
Test(plan_file, hostile_input_is_refused) {
    expect_errors("lockstep_plan: 1\nranks: &a 2\ntables: [*a, *a]\n", 1,
                  "expected keys and values");
    expect_errors("[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]", 1, "nested too deeply");
    expect_errors("lockstep_plan: [1\n", 1, "error");
    expect_errors("lockstep_plan: 1\nranks: 1\nranks: 2\ntables: []\n", 1,
                  "the key \"ranks\" is given twice");
    expect_errors("lockstep_plan: 1\nranks: 99999999999999999999\ntables: []\n", 1, "p.yaml:2:8");
    expect_errors("lockstep_plan: 1\nranks: 1\ntables: [1, x]\n", 1, "expected keys and values");
    expect_errors("- 1\n- 2\n", 1, "expected keys and values");
    expect_errors("lockstep_plan: 1\n---\na: 1\n", 1, "second document");
}

// A moved shard, a changed type and a missing table are each one line.
Test(plan_file, diff_tells_what_moves) {
    ls_plan_shard on0 = {0, 0, 0, 10, 8};
    ls_plan_shard on1 = {1, 0, 0, 10, 8};
    ls_plan_shard halves[2] = {{0, 0, 0, 5, 8}, {1, 5, 0, 5, 8}};
    ls_plan_table before[3] = {{"same", NULL, LS_TABLE_WISE, LS_PLANNER_FUSED, 10, 8, &on0, 1},
                               {"moved", NULL, LS_TABLE_WISE, LS_PLANNER_FUSED, 10, 8, &on0, 1},
                               {"gone", NULL, LS_TABLE_WISE, LS_PLANNER_FUSED, 10, 8, &on0, 1}};
    ls_plan_table after[3] = {{"same", NULL, LS_TABLE_WISE, 0, 10, 8, &on0, 1},
                              {"moved", NULL, LS_TABLE_WISE, LS_PLANNER_FUSED, 10, 8, &on1, 1},
                              {"new", NULL, LS_TABLE_WISE, LS_PLANNER_FUSED, 10, 8, &on0, 1}};
    ls_plan a = {2, 2, before, 3};
    ls_plan b = {2, 2, after, 3};
    ls_text text = {0};
    cr_expect(ls_plan_diff(&text, &a, &b) == 3);
    cr_expect_str_eq(text.data,
                     "moved: table_wise fused on 0 -> table_wise fused on 1; 80 elements "
                     "move\ngone: only in the first\nnew: only in the second\n");
    ls_text_free(&text);
    text = (ls_text){0};
    after[1] = (ls_plan_table){"moved", NULL, LS_ROW_WISE, LS_PLANNER_FUSED, 10, 8, halves, 2};
    cr_expect(ls_plan_diff(&text, &a, &b) == 3);
    cr_expect(strstr(text.data, "row_wise fused on 0 1; 40 elements move"), "%s", text.data);
    ls_text_free(&text);
}
