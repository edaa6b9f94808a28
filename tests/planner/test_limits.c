// Extreme requests: zero limits, worlds that are too large, contradictory constraints, invalid
// numbers. Each has an answer that names the problem.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/problem.h"
#include "tests/planner/golden.h"

static const ls_planner_feature ids = {.pooling = 4.0, .poolings = 1.0, .batch = 64.0};

static ls_topology machine(int ranks) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", ranks, ranks) == LS_OK);
    return topology;
}

static int create(ls_planner_problem **out, const ls_topology *topology,
                  const ls_planner_table *tables, int count) {
    const ls_planner_options options = {.nodes_max = 100000};
    *out = NULL;
    ls_error_clear();
    return ls_planner_problem_create(out, topology, tables, count, &options);
}

static void refused(const ls_topology *topology, const ls_planner_table *tables, int count,
                    int status, const char *part) {
    ls_planner_problem *problem;
    int got = create(&problem, topology, tables, count);
    cr_expect(got == status, "%d: %s", got, ls_error_last()->text);
    cr_expect(strstr(ls_error_last()->text, part), "\"%s\" is not in \"%s\"", part,
              ls_error_last()->text);
    ls_planner_problem_free(problem);
}

// One node, or no time after the options are listed, is enough for a first plan, with the correct
// gap.
Test(limits, one_node_and_no_time) {
    ls_planner_table *tables;
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_planner_instance(&tables, arena, LS_INSTANCE_RANDOM, 40, 7) == LS_OK);
    ls_topology topology = machine(8);
    for (int turn = 0; turn < 2; turn++) {
        const ls_planner_options options = {.nodes_max = turn == 0 ? 1 : 0};
        ls_planner_problem *problem;
        ls_planner_result result;
        cr_assert(ls_planner_problem_create(&problem, &topology, tables, 40, &options) == LS_OK);
        problem->options.seconds_max = turn == 0 ? 0 : 1e-9;
        cr_assert(ls_planner_solve(&result, problem) == LS_OK);
        cr_assert(result.found, "turn %d", turn);
        cr_expect(ls_plan_check(&result.plan) == LS_OK);
        cr_expect(result.lower_bound_ms <= result.ms);
        cr_expect(result.proven || result.gap > 0);
        cr_expect(result.seconds < 10);
        ls_planner_problem_free(problem);
    }
    ls_arena_free(arena);
}

// A search over all plans that would recurse too deep is left to the other phases.
Test(limits, too_many_blocks_to_try_every_plan) {
    static ls_planner_table tables[3001];
    static char names[3001][8];
    for (int i = 0; i < 3001; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i);
        tables[i] = make_table(names[i], 16, 4, &ids);
        tables[i].shardings = 1u << LS_TABLE_WISE;
    }
    ls_topology topology = machine(2);
    for (int count = 3000; count <= 3001; count++) {
        ls_planner_problem *problem;
        cr_assert(create(&problem, &topology, tables, count) == LS_OK, "%s", ls_error_last()->text);
        cr_expect(ls_search__exact_possible(problem) == (count == 3000), "%d", count);
        ls_planner_problem_free(problem);
    }
}

// The time limit holds if a rank has a thousand blocks, so that examining all exchanges between two
// ranks takes long.
Test(limits, many_tables_on_few_ranks) {
    ls_planner_table *tables;
    ls_arena *arena;
    const int count = 6000;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_planner_instance(&tables, arena, LS_INSTANCE_RANDOM, count, 7) == LS_OK);
    ls_topology topology = machine(6);
    topology.hbm_bytes = INT64_C(1) << 44;  // all of them fit
    for (int i = 0; i < count; i++) {
        tables[i].shardings = 1u << LS_TABLE_WISE;
    }
    const ls_planner_options options = {0};
    ls_planner_problem *problem;
    ls_planner_result result;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, count, &options) == LS_OK);
    problem->options.seconds_max = 0.2;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_assert(result.found);
    cr_expect(result.seconds < 10, "%g s", result.seconds);
    ls_planner_problem_free(problem);
    ls_arena_free(arena);
}

// A and B must be together and must not share a rank: both constraints are named.
Test(limits, constraints_that_exclude_one_another) {
    ls_topology topology = machine(4);
    ls_planner_table tables[] = {make_table("a", 1000, 16, &ids), make_table("b", 1000, 16, &ids)};
    tables[0].together = tables[1].together = "pair";
    tables[0].apart = tables[1].apart = "far";
    refused(&topology, tables, 2, LS_ERR_INVALID,
            "table b must be both with and apart from another one (pair, far)");
}

// Tables that must be together are placed where all of them may be; two groups that are kept apart
// keep both of them off.
Test(limits, constraints_of_several_tables) {
    ls_topology topology = machine(4);
    const int first[] = {0, 1}, second[] = {1, 2};
    ls_planner_table tables[4];
    const char *names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        tables[i] = make_table(names[i], 1000, 16, &ids);
        tables[i].shardings = 1u << LS_TABLE_WISE;
    }
    tables[0].together = tables[1].together = "pair";
    tables[0].ranks = first;
    tables[1].ranks = second;
    tables[0].rank_count = tables[1].rank_count = 2;
    ls_planner_problem *problem;
    ls_planner_result result;
    cr_assert(create(&problem, &topology, tables, 2) == LS_OK);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    cr_expect(result.plan.tables[0].shards[0].rank == 1);
    cr_expect(result.plan.tables[1].shards[0].rank == 1);
    ls_planner_problem_free(problem);
    // a and b are together, a apart from c, b apart from d: on two ranks c and d share the other.
    topology = machine(2);
    tables[0].rank_count = tables[1].rank_count = 0;
    tables[0].apart = tables[2].apart = "left";
    tables[1].apart = tables[3].apart = "right";
    tables[2].rows = tables[3].rows = 100000;
    cr_assert(create(&problem, &topology, tables, 4) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    int pair = result.plan.tables[0].shards[0].rank;
    cr_expect(result.plan.tables[1].shards[0].rank == pair);
    cr_expect(result.plan.tables[2].shards[0].rank == 1 - pair);
    cr_expect(result.plan.tables[3].shards[0].rank == 1 - pair);
    ls_planner_problem_free(problem);
}

// The column blocks of table_column_wise stay on one host, on any of its ranks.
Test(limits, blocks_that_stray_are_no_plan) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 4, 2) == LS_OK);
    ls_planner_table table = make_table("a", 1000, 64, &ids);
    table.shardings = 1u << LS_TABLE_COLUMN_WISE;
    ls_planner_problem *problem;
    ls_arena *arena;
    ls_assignment plan;
    ls_state state;
    cr_assert(create(&problem, &topology, &table, 1) == LS_OK);
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_assignment__create(&plan, problem, arena) == LS_OK);
    cr_assert(ls_state__create(&state, problem, arena) == LS_OK);
    cr_assert(problem->items[0].choices[0].unit_count == 2);
    for (int rank = 0; rank < 4; rank++) {
        plan.place[0][0] = 2;
        plan.place[0][1] = rank;
        bool stays = ls_assignment__evaluate(problem, &plan, &state) != LS_TICKS_NONE;
        cr_expect(stays == (rank >= 2), "rank %d", rank);
    }
    ls_arena_free(arena);
    ls_planner_problem_free(problem);
}

// Pinned to a forbidden rank, to one that does not exist, or with no rank left.
Test(limits, ranks_that_are_none) {
    ls_topology topology = machine(4);
    const int one[] = {1};
    const int far[] = {4};
    const int less[] = {-1};
    ls_planner_table table = make_table("a", 1000, 16, &ids);
    table.ranks = far;
    table.rank_count = 1;
    refused(&topology, &table, 1, LS_ERR_INVALID, "rank 4 is not one of 0 to 3");
    table.ranks = less;
    refused(&topology, &table, 1, LS_ERR_INVALID, "rank -1 is not one of 0 to 3");
    table.ranks = one;
    table.forbidden = one;
    table.forbidden_count = 1;
    refused(&topology, &table, 1, LS_ERR_NOT_FOUND, "table a: no sharding satisfies its ranks");
}

// Sizes and numbers outside of their range are refused with the table and the field.
Test(limits, tables_that_are_none) {
    ls_topology topology = machine(4);
    ls_planner_table table = make_table("a", 0, 16, &ids);
    refused(&topology, &table, 1, LS_ERR_INVALID, "table a: rows is 0");
    table = make_table("a", INT64_C(1) << 50, 16, &ids);
    refused(&topology, &table, 1, LS_ERR_INVALID, "table a: rows is 1.1259e+15");
    table = make_table("a", 10, 0, &ids);
    refused(&topology, &table, 1, LS_ERR_INVALID, "table a: columns is 0");
    table = make_table("", 10, 4, &ids);
    refused(&topology, &table, 1, LS_ERR_INVALID, "no name");
    const ls_planner_feature none = {.pooling = (double)NAN, .poolings = 1.0, .batch = 64.0};
    table = make_table("a", 10, 4, &none);
    refused(&topology, &table, 1, LS_ERR_INVALID, "pooling is nan");
    table = make_table("a", 10, 4, &ids);
    table.optimizer = "sgdd";
    refused(&topology, &table, 1, LS_ERR_NOT_FOUND, "did you mean \"sgd\"");
    ls_planner_table twice[] = {make_table("a", 10, 4, &ids), make_table("a", 20, 4, &ids)};
    refused(&topology, twice, 2, LS_ERR_INVALID, "two tables are called a");
    refused(&topology, twice, 0, LS_ERR_INVALID, "tables");
}

// The largest possible table has a plan or a reason, and no arithmetic wraps.
Test(limits, a_million_million_rows) {
    ls_topology topology = machine(4);
    ls_planner_table table = make_table("a", INT64_C(1) << 40, 65536, &ids);
    table.element_bytes = 8;
    table.optimizer = "adam";
    ls_planner_problem *problem;
    cr_assert(create(&problem, &topology, &table, 1) == LS_OK, "%s", ls_error_last()->text);
    ls_planner_result result;
    static ls_planner_diagnosis why;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_expect(!result.found && result.proven);
    cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
    cr_expect(why.shortage && why.either_missing > 0);
    ls_planner_problem_free(problem);
}

// Invalid machines: no ranks, too many, hosts that do not divide, bandwidths that are no numbers.
// The field is named.
Test(limits, machines_that_are_none) {
    ls_topology topology;
    cr_expect(ls_topology_preset(&topology, "h100", 0, 0) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "ranks is 0"));
    cr_expect(ls_topology_preset(&topology, "h100", 100000, 8) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "ranks is 100000"));
    cr_expect(ls_topology_preset(&topology, "h100", 6, 4) == LS_ERR_INVALID);
    const double wrong[] = {(double)NAN, -1.0, 0.0, (double)INFINITY};
    ls_planner_table table = make_table("a", 10, 4, &ids);
    for (int i = 0; i < 4; i++) {
        topology = machine(4);
        topology.intra_bandwidth = wrong[i];
        refused(&topology, &table, 1, LS_ERR_INVALID, "intra_bandwidth");
    }
    topology = machine(4);
    topology.kernel_us = -1.0;
    refused(&topology, &table, 1, LS_ERR_INVALID, "kernel_us");
    topology = machine(4);
    topology.update_us = -1.0;
    refused(&topology, &table, 1, LS_ERR_INVALID, "update_us");
}

// More ranks than rows: a row-wise plan has empty blocks and is valid.
Test(limits, more_ranks_than_rows) {
    ls_topology topology = machine(64);
    ls_planner_table table = make_table("a", 3, 16, &ids);
    table.shardings = 1u << LS_ROW_WISE;
    ls_planner_problem *problem;
    ls_planner_result result;
    cr_assert(create(&problem, &topology, &table, 1) == LS_OK);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    cr_expect(ls_plan_check(&result.plan) == LS_OK);
    cr_expect(result.plan.tables[0].shard_count == 64);
    cr_expect(result.plan.tables[0].shards[63].rows == 0);
    ls_planner_problem_free(problem);
}
