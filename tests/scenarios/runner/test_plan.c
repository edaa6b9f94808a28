// Tests of the plans that scenarios ask for.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/plan/scenario_plan.h"
#include "runner/plan/scenario_planner.h"

struct planned {
    ls_scenario *scenario;
    ls_arena *arena;
    ls_plan plan;
};

// The plan of a scenario with these tables on a mesh; fails the test on any error.
static void make(struct planned *planned, const char *mesh, const char *tables) {
    char text[2048];
    ls_diagnostics *diagnostics = NULL;
    (void)snprintf(text, sizeof text,
                   "lockstep: 1\nname: t\nmesh: %s\ninputs: {batch: 2}\ntables:\n%s", mesh, tables);
    cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
    int status =
        ls_scenario_parse(&planned->scenario, diagnostics, "t.yaml", text, strlen(text), NULL);
    ls_text report = {0};
    ls_diagnostics_format(&report, diagnostics);
    cr_assert(status == LS_OK, "%s", ls_text_string(&report));
    ls_text_free(&report);
    ls_diagnostics_free(diagnostics);
    cr_assert(ls_arena_create(&planned->arena) == LS_OK);
    cr_assert(ls_scenario_plan(&planned->plan, planned->scenario, planned->arena) == LS_OK, "%s",
              ls_error_last()->text);
}

static void done(struct planned *planned) {
    ls_arena_free(planned->arena);
    ls_scenario_free(planned->scenario);
}

static void expect_shard(const struct planned *planned, int table, int index, int rank, int64_t row,
                         int64_t column, int64_t rows, int64_t columns) {
    const ls_plan_shard *shard = &planned->plan.tables[table].shards[index];
    cr_expect(shard->rank == rank && shard->row_offset == row && shard->column_offset == column &&
                  shard->rows == rows && shard->columns == columns,
              "table %d shard %d: rank %d [%ld, %ld] of [%ld, %ld]", table, index, shard->rank,
              (long)shard->row_offset, (long)shard->column_offset, (long)shard->rows,
              (long)shard->columns);
}

// Row-wise blocks follow TorchRec's rule, empty tails included.
Test(plan, row_wise_blocks_by_rule) {
    struct planned p;
    make(&p, "{shape: [4]}", "  - {name: a, rows: 5, dim: 4, sharding: {type: row_wise}}\n");
    cr_assert(p.plan.tables[0].shard_count == 4);
    expect_shard(&p, 0, 0, 0, 0, 0, 2, 4);
    expect_shard(&p, 0, 2, 2, 4, 0, 1, 4);
    expect_shard(&p, 0, 3, 3, 5, 0, 0, 4);
    cr_expect(ls_plan_check(&p.plan) == LS_OK, "%s", ls_error_last()->text);
    done(&p);
}

// Given sizes and ranks are kept.
Test(plan, given_sizes_and_ranks_are_kept) {
    struct planned p;
    make(&p, "{shape: [4]}",
         "  - {name: a, rows: 8, dim: 16, sharding: {type: row_wise, sizes: [1, 3, 1, 3]}}\n"
         "  - {name: b, rows: 4, dim: 17, sharding: {type: column_wise, ranks: [3, 2, 1, 0],"
         " sizes: [5, 5, 5, 2]}}\n");
    expect_shard(&p, 0, 1, 1, 1, 0, 3, 16);
    expect_shard(&p, 0, 3, 3, 5, 0, 3, 16);
    expect_shard(&p, 1, 0, 3, 0, 0, 4, 5);
    expect_shard(&p, 1, 3, 0, 0, 15, 4, 2);
    cr_expect(ls_plan_check(&p.plan) == LS_OK, "%s", ls_error_last()->text);
    done(&p);
}

// Tables without ranks go, largest first, to the least loaded rank, after the fixed ones.
Test(plan, open_tables_go_where_the_least_lies) {
    struct planned p;
    make(&p, "{shape: [2]}",
         "  - {name: small, rows: 10, dim: 4, sharding: {type: table_wise}}\n"
         "  - {name: large, rows: 100, dim: 4, sharding: {type: table_wise}}\n"
         "  - {name: fixed, rows: 50, dim: 4, sharding: {type: table_wise, ranks: [0]}}\n");
    expect_shard(&p, 2, 0, 0, 0, 0, 50, 4);
    expect_shard(&p, 1, 0, 1, 0, 0, 100, 4);
    expect_shard(&p, 0, 0, 0, 0, 0, 10, 4);
    done(&p);
}

// Every other type tiles its tables on a mesh of two hosts.
Test(plan, every_type_tiles_its_table) {
    const char *const types[] = {"data_parallel", "table_row_wise", "table_column_wise", "grid"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct planned p;
        char table[160];
        (void)snprintf(table, sizeof table,
                       "  - {name: a, rows: 7, dim: 256, sharding: {type: %s}}\n", types[i]);
        make(&p, "{shape: [2, 2], names: [host, gpu]}", table);
        cr_expect(ls_plan_check(&p.plan) == LS_OK, "%s: %s", types[i], ls_error_last()->text);
        done(&p);
    }
}

// After the deadline few ids of one rank are read, which is reported; without one all are. Their
// number is known in both cases.
Test(plan, a_deadline_cuts_the_ids) {
    enum { LONG = 300, FEW = 128 };
    char text[4096];
    int at = snprintf(text, sizeof text,
                      "lockstep: 1\nname: t\nmesh: {shape: [3]}\n"
                      "tables: [{name: a, rows: 8, dim: 4}, {name: b, rows: 8, dim: 4}]\n"
                      "inputs: {batch: [2, 4, 6], features: {a: {lengths: {values: "
                      "[1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3]}}, b: {lengths: {values: "
                      "[%d, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, ids: {values: [",
                      LONG);
    for (int i = 0; i <= LONG; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%d, ", i < FEW ? 0 : 7);
    }
    (void)snprintf(text + at, sizeof text - (size_t)at, "]}}}}\n");
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    ls_arena *arena = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
    cr_assert(ls_scenario_parse(&scenario, diagnostics, "t.yaml", text, strlen(text), NULL) ==
              LS_OK);
    cr_assert(ls_arena_create(&arena) == LS_OK);
    for (int past = 0; past < 2; past++) {
        ls_planner_table *tables = NULL;
        bool cut = false;
        cr_assert(ls_scenario_planner_tables(&tables, &cut, scenario, past ? 0.0 : (double)INFINITY,
                                             arena) == LS_OK);
        cr_expect(cut == (past == 1));
        cr_expect(tables[0].features[0].batch == (past ? 2 : 4));
        cr_expect(tables[0].features[0].pooling == (past ? 1 : 28.0 / 12));
        cr_expect(tables[1].features[0].pooling == (LONG + 1.0) / (past ? 2 : 12));
        const double *shares = tables[1].profile->ids;
        cr_expect(shares[0] == (past ? 1.0 : FEW / (LONG + 1.0)), "%g", shares[0]);
    }
    ls_arena_free(arena);
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
}
