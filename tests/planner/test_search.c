// Tests of the search: known layouts, constraints, memory limits, determinism, and baselines.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/planner/golden.h"

static const ls_planner_feature one_id = {.pooling = 1.0, .poolings = 1.0, .batch = 512.0};

// ---- The tutorial: two large and two small tables on two ranks ----------------------------------

static ls_planner_problem *tutorial(unsigned shardings, ls_planner_result *result) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 2, 2) == LS_OK);
    ls_planner_table tables[4];
    const char *names[4] = {"large_table_0", "large_table_1", "small_table_0", "small_table_1"};
    for (int i = 0; i < 4; i++) {
        tables[i] = make_table(names[i], i < 2 ? 4096 : 1024, 64, &one_id);
        tables[i].shardings = shardings;
    }
    ls_planner_options options = {.model = LS_PLANNER_LOCKSTEP};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, 4, &options) == LS_OK);
    cr_assert(ls_planner_solve(result, problem) == LS_OK);
    cr_assert(result->found && result->proven);
    return problem;
}

static void expect_shard(const ls_planner_result *result, int table, int shard, int rank,
                         int64_t row, int64_t column, int64_t rows, int64_t columns) {
    const ls_plan_shard *got = &result->plan.tables[table].shards[shard];
    cr_expect(got->rank == rank && got->row_offset == row && got->column_offset == column &&
                  got->rows == rows && got->columns == columns,
              "table %d shard %d: rank %d offset [%lld, %lld] size [%lld, %lld]", table, shard,
              got->rank, (long long)got->row_offset, (long long)got->column_offset,
              (long long)got->rows, (long long)got->columns);
}

// Forced table wise: each rank gets a large and a small table.
Test(tutorial, table_wise) {
    ls_planner_result result;
    ls_planner_problem *problem = tutorial(1u << LS_TABLE_WISE, &result);
    for (int i = 0; i < 4; i++) {
        cr_expect(result.plan.tables[i].shard_count == 1);
        expect_shard(&result, i, 0, i % 2, 0, 0, i < 2 ? 4096 : 1024, 64);
    }
    ls_planner_problem_free(problem);
}

// Forced row wise: half the rows on each rank.
Test(tutorial, row_wise) {
    ls_planner_result result;
    ls_planner_problem *problem = tutorial(1u << LS_ROW_WISE, &result);
    for (int i = 0; i < 4; i++) {
        int64_t half = i < 2 ? 2048 : 512;
        cr_expect(result.plan.tables[i].shard_count == 2);
        expect_shard(&result, i, 0, 0, 0, 0, half, 64);
        expect_shard(&result, i, 1, 1, half, 0, half, 64);
    }
    ls_planner_problem_free(problem);
}

// Forced column wise: half the columns on each rank.
Test(tutorial, column_wise) {
    ls_planner_result result;
    ls_planner_problem *problem = tutorial(1u << LS_COLUMN_WISE, &result);
    for (int i = 0; i < 4; i++) {
        cr_expect(result.plan.tables[i].shard_count == 2);
        expect_shard(&result, i, 0, 0, 0, 0, i < 2 ? 4096 : 1024, 32);
        expect_shard(&result, i, 1, 1, 0, 32, i < 2 ? 4096 : 1024, 32);
    }
    ls_planner_problem_free(problem);
}

// Forced data parallel: every table whole on both ranks, with the dense kernel.
Test(tutorial, data_parallel) {
    ls_planner_result result;
    ls_planner_problem *problem = tutorial(1u << LS_DATA_PARALLEL, &result);
    for (int i = 0; i < 4; i++) {
        cr_expect(result.plan.tables[i].shard_count == 2);
        cr_expect(result.plan.tables[i].kernel == LS_PLANNER_DENSE);
        expect_shard(&result, i, 0, 0, 0, 0, i < 2 ? 4096 : 1024, 64);
        expect_shard(&result, i, 1, 1, 0, 0, i < 2 ? 4096 : 1024, 64);
    }
    ls_planner_problem_free(problem);
}

// Every variable of a written program occurs in one of its rows, and there is one for each choice
// of each table.
Test(tutorial, written_variables_are_used) {
    ls_planner_result result;
    ls_planner_problem *problem = tutorial(0, &result);
    ls_text text = {0};
    cr_assert(ls_planner_write_lp(&text, problem) == LS_OK);
    const char *rows = ls_text_string(&text);
    char *declared = strstr(text.data, "\nBinary\n"), *rest = NULL;
    cr_assert(declared != NULL);
    *declared = 0;
    int choices = 0;
    for (char *name = strtok_r(declared + 8, " \n", &rest);
         name != NULL && strcmp(name, "End") != 0; name = strtok_r(NULL, " \n", &rest)) {
        bool used = false;
        for (const char *at = rows; !used && (at = strstr(at, name)) != NULL; at += strlen(name)) {
            used = at[-1] == ' ' && strchr(" \n", at[strlen(name)]) != NULL;
        }
        cr_expect(used, "%s is declared alone", name);
        choices += name[0] == 'x';
    }
    cr_expect(choices >= 4 * 3, "%d choices", choices);
    ls_text_free(&text);
    ls_planner_problem_free(problem);
}

// ---- Constraints --------------------------------------------------------------------------------

#define MANY 12

typedef struct many {
    ls_topology topology;
    ls_planner_options options;
    ls_planner_feature features[MANY];
    ls_planner_table tables[MANY];
    char names[MANY][8];
} many;

static void make_many(many *m, int ranks, int per_host) {
    memset(m, 0, sizeof(*m));
    cr_assert(ls_topology_preset(&m->topology, "a100", ranks, per_host) == LS_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(m->names[i], sizeof(m->names[i]), "t%d", i);
        m->features[i] = (ls_planner_feature){1.0 + i * 3 % 7, 1.0, 1024.0};
        m->tables[i] = make_table(m->names[i], 10000 + 7919 * i, 64 << (i % 3), &m->features[i]);
        m->tables[i].optimizer = "rowwise_adagrad";
    }
    m->options.nodes_max = 400000;
}

static ls_planner_problem *solve_many(many *m, ls_planner_result *result) {
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &m->topology, m->tables, MANY, &m->options) ==
                  LS_OK,
              "%s", ls_error_last()->text);
    cr_assert(ls_planner_solve(result, problem) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(result->found);
    cr_expect(result->lower_bound_ms <= result->ms);
    return problem;
}

static bool on_rank(const ls_plan_table *table, int rank) {
    for (int i = 0; i < table->shard_count; i++) {
        if (table->shards[i].rank == rank) {
            return true;
        }
    }
    return false;
}

// A pinned table is on its rank, a forbidden rank does not have the table, tables kept together are
// on the same ranks, and tables kept apart share none.
Test(constraints, are_kept) {
    many m;
    ls_planner_result result;
    make_many(&m, 8, 4);
    int pin[] = {5};
    int forbidden[] = {0, 1, 2, 3};
    m.tables[0].ranks = pin;
    m.tables[0].rank_count = 1;
    m.tables[1].forbidden = forbidden;
    m.tables[1].forbidden_count = 4;
    m.tables[2].together = m.tables[3].together = "pair";
    m.tables[3].apart = m.tables[4].apart = m.tables[5].apart = m.tables[6].apart = "four";
    m.tables[7].shardings = 1u << LS_COLUMN_WISE;
    m.tables[7].columns_min = 64;
    ls_planner_problem *problem = solve_many(&m, &result);
    const ls_plan_table *t = result.plan.tables;
    for (int r = 0; r < 8; r++) {
        cr_expect(!on_rank(&t[0], r) || r == 5);
        cr_expect(!on_rank(&t[1], r) || r >= 4);
        cr_expect(on_rank(&t[2], r) == on_rank(&t[3], r));
        cr_expect(on_rank(&t[3], r) + on_rank(&t[4], r) + on_rank(&t[5], r) + on_rank(&t[6], r) <=
                  1);
    }
    cr_expect(t[7].sharding == LS_COLUMN_WISE && t[7].shards[0].columns >= 64);
    ls_planner_problem_free(problem);
}

// The same input gives the same plan, independent of earlier runs.
Test(constraints, plans_are_deterministic) {
    many m;
    ls_planner_result a;
    ls_planner_result b;
    make_many(&m, 6, 3);
    ls_planner_problem *first = solve_many(&m, &a);
    free(malloc(12345));
    ls_planner_problem *second = solve_many(&m, &b);
    cr_expect(a.ms == b.ms && a.nodes == b.nodes);
    for (int i = 0; i < MANY; i++) {
        cr_expect(a.plan.tables[i].shard_count == b.plan.tables[i].shard_count);
        for (int k = 0; k < a.plan.tables[i].shard_count; k++) {
            cr_expect(a.plan.tables[i].shards[k].rank == b.plan.tables[i].shards[k].rank);
        }
    }
    ls_planner_problem_free(first);
    ls_planner_problem_free(second);
}

// Row wise on some ranks cuts the rows only for those; given blocks stay, and the planner places
// others around their load.
Test(constraints, row_wise_on_some_ranks_and_given_blocks) {
    many m;
    ls_planner_result result;
    make_many(&m, 4, 4);
    int three[] = {3, 0, 2};
    m.tables[3].ranks = three;
    m.tables[3].rank_count = 3;
    m.tables[3].shardings = 1u << LS_ROW_WISE;
    int64_t rows = m.tables[0].rows;
    int64_t columns = m.tables[0].columns;
    ls_plan_shard blocks[2] = {{1, 0, 0, rows, columns / 2},
                               {1, 0, columns / 2, rows, columns - columns / 2}};
    ls_plan_table layout = {.sharding = LS_COLUMN_WISE, .shards = blocks, .shard_count = 2};
    m.tables[0].layout = &layout;
    ls_planner_problem *problem = solve_many(&m, &result);
    cr_assert(result.found);
    const ls_plan_table *cut = &result.plan.tables[3];
    cr_assert(cut->sharding == LS_ROW_WISE && cut->shard_count == 3);
    int64_t next = 0;
    for (int k = 0; k < 3; k++) {
        static const int want[] = {0, 2, 3};
        cr_expect(cut->shards[k].rank == want[k] && cut->shards[k].row_offset == next);
        next += cut->shards[k].rows;
    }
    cr_expect(next == m.tables[3].rows);
    cr_expect(result.plan.tables[0].shard_count == 2 && result.plan.tables[0].shards[1].rank == 1 &&
              result.plan.tables[0].shards[1].column_offset == columns / 2);
    cr_expect(ls_plan_check(&result.plan) == LS_OK, "%s", ls_error_last()->text);
    // Both blocks count on rank 1, and no shard of the others does.
    int64_t held = 0;
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < result.plan.tables[i].shard_count; k++) {
            held += result.shards[i][k].block.rank == 1 ? result.shards[i][k].hbm_bytes : 0;
        }
    }
    cr_expect(result.ranks[1].hbm_bytes == held);
    ls_planner_problem_free(problem);
}

// Given blocks without ranks are placed unchanged, and invalid ones are refused by name.
Test(constraints, given_blocks_are_placed_or_refused) {
    many m;
    ls_planner_result result;
    ls_planner_problem *problem;
    make_many(&m, 4, 4);
    int64_t columns = m.tables[0].columns;
    ls_plan_shard blocks[2] = {{-1, 0, 0, m.tables[0].rows, 4},
                               {-1, 0, 4, m.tables[0].rows, columns - 4}};
    ls_plan_table layout = {.sharding = LS_COLUMN_WISE, .shards = blocks, .shard_count = 2};
    m.tables[0].layout = &layout;
    problem = solve_many(&m, &result);
    cr_assert(result.found);
    cr_expect(result.plan.tables[0].shards[0].columns == 4 &&
              result.plan.tables[0].shards[1].columns == columns - 4);
    cr_expect(ls_plan_check(&result.plan) == LS_OK, "%s", ls_error_last()->text);
    ls_planner_problem_free(problem);
    blocks[1].rank = 0;
    cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "table t0"), "%s", ls_error_last()->text);
    blocks[1] = (ls_plan_shard){-1, 1, 4, m.tables[0].rows, 4};
    cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_ERR_INVALID);
    blocks[1] = blocks[0];
    layout.sharding = LS_ROW_WISE;
    cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_ERR_INVALID);
}

// Contradicting constraints are reported by name, without a search.
Test(constraints, contradictions_are_refused) {
    many m;
    ls_planner_problem *problem;
    make_many(&m, 4, 4);
    int one[] = {1};
    m.tables[3].ranks = one;
    m.tables[3].rank_count = 1;
    m.tables[3].shardings = 1u << LS_DATA_PARALLEL;  // which lies on every rank
    cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "table t3"), "%s", ls_error_last()->text);
    cr_expect(problem == NULL);
    make_many(&m, 4, 4);
    m.tables[2].shardings = 1u << LS_DATA_PARALLEL;
    m.tables[2].kernels = 1u << LS_PLANNER_FUSED;
    cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_ERR_NOT_FOUND);
    for (int other = 0; other < 2; other++) {  // with or without other groups
        make_many(&m, 4, 4);
        m.tables[0].apart = m.tables[1].apart = other ? "beside" : NULL;
        m.tables[2].apart = m.tables[3].apart = "apart";
        m.tables[2].together = m.tables[3].together = "with";
        cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
                  LS_ERR_INVALID);
        cr_expect(strstr(ls_error_last()->text, "both with and apart from another one"), "%s",
                  ls_error_last()->text);
    }
    make_many(&m, 4, 4);
    m.tables[5].rows = 0;
    cr_expect(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "table t5: rows"));
}

// If memory is short for every type but row wise, the search finds row wise.
Test(memory, a_table_too_large_for_a_rank_is_cut) {
    many m;
    ls_planner_result result;
    make_many(&m, 4, 4);
    for (int i = 0; i < MANY; i++) {
        m.tables[i].kernels = 1u << LS_PLANNER_FUSED;
    }
    m.tables[0].rows = 50000000;  // 12.8 GB and no narrower than 64 columns
    m.tables[0].columns_min = 64;
    m.topology.hbm_bytes = INT64_C(6) << 30;
    ls_planner_problem *problem = solve_many(&m, &result);
    cr_expect(result.plan.tables[0].sharding == LS_ROW_WISE);
    for (int r = 0; r < 4; r++) {
        cr_expect(result.ranks[r].hbm_bytes <= result.ranks[r].hbm_capacity);
    }
    ls_planner_problem_free(problem);
}

// More than all memory together is proven impossible at once.
Test(memory, shortage_is_proven) {
    many m;
    ls_planner_result result;
    ls_planner_problem *problem;
    make_many(&m, 4, 4);
    m.topology.hbm_bytes = 1 << 20;
    m.topology.ddr_bytes = 1 << 20;
    cr_assert(ls_planner_problem_create(&problem, &m.topology, m.tables, MANY, &m.options) ==
              LS_OK);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_expect(!result.found && result.proven && isinf(result.lower_bound_ms));
    ls_planner_problem_free(problem);
}
