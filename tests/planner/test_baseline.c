// The planner against TorchRec's search on the same options and costs: never worse, and how much
// better.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/planner/golden.h"

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// TorchRec's best cost divided by lockstep's for one generated model; both must find a plan within
// memory.
static double ratio_of(ls_instance_kind kind, int tables, int ranks, uint64_t seed, int64_t nodes) {
    ls_arena *arena;
    ls_planner_table *made;
    ls_topology topology;
    ls_planner_problem *problem;
    ls_planner_result ours;
    ls_planner_result theirs;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_planner_instance(&made, arena, kind, tables, seed) == LS_OK);
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", ranks, 4) == LS_OK);
    ls_planner_options options = {
        .model = LS_PLANNER_TORCHREC, .torchrec_options = true, .nodes_max = nodes};
    cr_assert(ls_planner_problem_create(&problem, &topology, made, tables, &options) == LS_OK);
    cr_assert(ls_planner_solve(&ours, problem) == LS_OK);
    cr_assert(ls_planner_baseline(&theirs, problem, LS_PROPOSE_ALL, LS_PARTITION_GREEDY_PERF,
                                  2000) == LS_OK);
    double ratio = INFINITY;
    if (theirs.found) {
        cr_expect(ours.found && ours.ms <= theirs.ms * (1.0 + 1e-12),
                  "seed %d: ours %.9g, theirs %.9g", (int)seed, ours.ms, theirs.ms);
        cr_expect(ours.lower_bound_ms <= theirs.ms * (1.0 + 1e-12));
        ratio = theirs.ms / ours.ms;
    }
    for (int r = 0; ours.found && r < ranks; r++) {
        cr_expect(ours.ranks[r].hbm_bytes <= ours.ranks[r].hbm_capacity);
    }
    ls_planner_problem_free(problem);
    ls_arena_free(arena);
    return ratio;
}

// Fifty random models of 30 tables on 8 ranks.
Test(baseline, never_worse_than_torchrec) {
    double ratios[50];
    for (uint64_t seed = 0; seed < 50; seed++) {
        ratios[seed] = ratio_of(LS_INSTANCE_RANDOM, 30, 8, seed + 1, 100000);
    }
    qsort(ratios, 50, sizeof(*ratios), compare_doubles);
    cr_log_info("TorchRec's cost over ours: median %.3f, least %.3f, most %.3f", ratios[25],
                ratios[0], ratios[49]);
    cr_expect(ratios[25] > 1.0);
}

// One model with production-like sizes and pooling.
Test(baseline, never_worse_on_production_like_tables) {
    double ratio = ratio_of(LS_INSTANCE_PRODUCTION, 60, 8, 3, 400000);
    cr_log_info("TorchRec's cost over ours: %.3f", ratio);
    cr_expect(ratio > 1.0);
}

// Every proposer with either partitioner gives a plan within limits, or none; grid is only for few.
Test(baseline, every_proposer_and_partitioner_plans) {
    static const ls_planner_feature ids = {.pooling = 8.0, .poolings = 1.0, .batch = 256.0};
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 4, 2) == LS_OK);
    ls_planner_table tables[3] = {make_table("a", 1000000, 128, &ids),
                                  make_table("b", 200000, 64, &ids),
                                  make_table("c", 500, 256, &ids)};
    ls_planner_options options = {.model = LS_PLANNER_TORCHREC, .torchrec_options = true};
    ls_planner_problem *problem;
    ls_planner_result best;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, 3, &options) == LS_OK);
    cr_assert(ls_planner_solve(&best, problem) == LS_OK && best.proven);
    for (int proposer = 0; proposer <= LS_PROPOSE_ALL; proposer++) {
        for (int partitioner = 0; partitioner < 2; partitioner++) {
            ls_planner_result result;
            cr_assert(ls_planner_baseline(&result, problem, (ls_planner_proposer)proposer,
                                          (ls_planner_partitioner)partitioner, 0) == LS_OK);
            cr_expect(result.found, "proposer %d, partitioner %d", proposer, partitioner);
            cr_expect(result.ms >= best.ms * (1.0 - 1e-12));
            cr_expect(ls_plan_check(&result.plan) == LS_OK);
            for (int t = 1; t < 3 && proposer == LS_PROPOSE_UNIFORM; t++) {
                cr_expect_eq(result.plan.tables[t].sharding, result.plan.tables[0].sharding);
            }
        }
    }
    ls_planner_problem_free(problem);
}

// Each of four equal tables goes to the least loaded rank or host.
Test(baseline, equal_tables_are_spread) {
    static const ls_planner_feature ids = {.pooling = 8.0, .poolings = 1.0, .batch = 256.0};
    static const ls_sharding types[] = {LS_TABLE_WISE, LS_TABLE_ROW_WISE};
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 4, 2) == LS_OK);
    for (int type = 0; type < 2; type++) {
        char names[4][2] = {"a", "b", "c", "d"};
        ls_planner_table tables[4];
        int on[4] = {0};
        for (int t = 0; t < 4; t++) {
            tables[t] = make_table(names[t], 1000, 64, &ids);
            tables[t].shardings = 1u << types[type];
        }
        ls_planner_options options = {.model = LS_PLANNER_TORCHREC};
        ls_planner_problem *problem;
        ls_planner_result result;
        cr_assert(ls_planner_problem_create(&problem, &topology, tables, 4, &options) == LS_OK);
        cr_assert(ls_planner_baseline(&result, problem, LS_PROPOSE_GREEDY_DEPTH,
                                      LS_PARTITION_GREEDY_PERF, 0) == LS_OK);
        for (int t = 0; t < 4; t++) {
            for (int i = 0; i < result.plan.tables[t].shard_count; i++) {
                on[result.plan.tables[t].shards[i].rank] += 1;
            }
        }
        for (int r = 0; r < 4; r++) {
            cr_expect_eq(on[r], type + 1, "%d on rank %d", on[r], r);
        }
        ls_planner_problem_free(problem);
    }
}

// The largest is placed first: the two small ones share the other rank.
Test(baseline, the_largest_come_first) {
    static const ls_planner_feature ids = {.pooling = 8.0, .poolings = 1.0, .batch = 256.0};
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 2, 2) == LS_OK);
    ls_planner_table tables[3] = {make_table("a", 1000, 64, &ids), make_table("b", 1000, 64, &ids),
                                  make_table("c", 1000, 256, &ids)};
    for (int t = 0; t < 3; t++) {
        tables[t].shardings = 1u << LS_TABLE_WISE;
    }
    ls_planner_options options = {.model = LS_PLANNER_TORCHREC};
    ls_planner_problem *problem;
    ls_planner_result result;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, 3, &options) == LS_OK);
    cr_assert(ls_planner_baseline(&result, problem, LS_PROPOSE_GREEDY_DEPTH,
                                  LS_PARTITION_GREEDY_PERF, 0) == LS_OK);
    const ls_plan_table *placed = result.plan.tables;
    cr_expect_eq(placed[0].shards[0].rank, placed[1].shards[0].rank);
    cr_expect_neq(placed[0].shards[0].rank, placed[2].shards[0].rank);
    ls_planner_problem_free(problem);
}
