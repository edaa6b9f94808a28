// The model of single stages: by hand, and the sum of the parts against the whole.
#include <math.h>

#include "tests/planner/golden.h"

static const ls_planner_feature ten_ids = {.pooling = 10.0, .poolings = 1.0, .batch = 100.0};

static void round_machine(ls_topology *out) {
    cr_assert(ls_topology_preset(out, "h100", 4, 4) == LS_OK);
    out->hbm_bandwidth = 1e9;  // bytes per ms
    out->intra_bandwidth = 1e8;
    out->launch_us = 10.0;
    out->exchange_us = 14.0;
    out->intra_latency_us = 1.0;
    out->kernel_us = 3.0;
}

// Two tables, table wise on ranks 0 and 1 and row wise over all: every collective lasts as long as
// its most loaded rank needs, the lookup is each rank's own, and each collective starts once.
Test(stages, by_hand) {
    ls_topology topology;
    round_machine(&topology);
    ls_plan_shard whole = {.rank = 1, .rows = 1000, .columns = 16};
    ls_plan_table on_one = {.name = "a",
                            .sharding = LS_TABLE_WISE,
                            .rows = 1000,
                            .columns = 16,
                            .shards = &whole,
                            .shard_count = 1};
    ls_planner_table tables[] = {make_table("a", 1000, 16, &ten_ids),
                                 make_table("b", 100000, 32, &ten_ids)};
    tables[0].layout = &on_one;
    tables[1].shardings = 1u << LS_ROW_WISE;
    tables[1].kernels = 1u << LS_PLANNER_FUSED;
    ls_planner_options options = {.model = LS_PLANNER_LOCKSTEP, .nodes_max = 1000};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, 2, &options) == LS_OK);
    ls_planner_result result;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    ls_planner_stages stages[4];
    cr_assert(ls_planner_stage_times(stages, problem, &result) == LS_OK);
    // a: 4000 ids and 400 lengths of 8 bytes, three quarters of them from other ranks; b: a quarter
    // of the ids, and all lengths. Three exchanges each, of a start and a hop.
    double input = (4000 + 400) * 8 * 0.75 / 1e8 + (1000 + 400) * 8 * 0.75 / 1e8 + 6 * 0.015;
    double a_out = 400 * 16 * 4.0, b_out = 400 * 32 * 4.0;
    double output = (a_out + b_out) * 0.75 / 1e8 + 0.015 + 0.013;
    // At most the table's 1000 rows are distinct; the others come from the cache. One kernel each.
    double a = (4000 * 8 + a_out + 1000 * 64 + 3000 * 64 / topology.cache_speedup) / 1e9 + 0.003;
    double b = (1000 * 8 + b_out + 1000 * 128) / 1e9 + 0.003;
    for (int r = 0; r < 4; r++) {
        cr_expect_float_eq(stages[r].input_dist_ms, input, 1e-12, "rank %d: %.9g", r,
                           stages[r].input_dist_ms);
        cr_expect_float_eq(stages[r].output_dist_ms, output, 1e-12, "rank %d: %.9g", r,
                           stages[r].output_dist_ms);
        cr_expect_float_eq(stages[r].lookup_ms, r == 1 ? a + b : b, 1e-12, "rank %d: %.9g", r,
                           stages[r].lookup_ms);
        // Gradients take the reverse way of the outputs.
        cr_expect_float_eq(stages[r].gradients_ms, output, 1e-12, "rank %d: %.9g", r,
                           stages[r].gradients_ms);
    }
    ls_planner_problem_free(problem);
    // Without measured exchanges: a collective's start, and a kernel that copies the own block.
    topology.exchange_us = 0.0;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, 2, &options) == LS_OK);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    cr_assert(ls_planner_stage_times(stages, problem, &result) == LS_OK);
    cr_expect_float_eq(stages[0].input_dist_ms, input + 6 * (0.010 + 0.003 - 0.014), 1e-12);
    ls_planner_problem_free(problem);
}

// An update: the gradients of the outputs, two passes over ids and positions, the rows read and
// written; before that the measured cost of one shard, once for each shard, not for each feature.
Test(stages, update_begins_once_a_shard) {
    ls_topology topology;
    round_machine(&topology);
    const ls_planner_feature two[] = {ten_ids, ten_ids};
    ls_planner_table table = make_table("b", 100000, 32, two);
    table.feature_count = 2;
    table.shardings = 1u << LS_ROW_WISE;
    table.kernels = 1u << LS_PLANNER_FUSED;
    ls_planner_options options = {.model = LS_PLANNER_LOCKSTEP, .nodes_max = 1000};
    const double measured_us[] = {0.0, 0.5, 45.0};
    for (int i = 0; i < 3; i++) {
        topology.update_us = measured_us[i];
        ls_planner_problem *problem;
        cr_assert(ls_planner_problem_create(&problem, &topology, &table, 1, &options) == LS_OK);
        ls_planner_result result;
        cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
        ls_planner_stages stages[4];
        cr_assert(ls_planner_stage_times(stages, problem, &result) == LS_OK);
        double bytes = 800 * 32 * 4.0 + 2000 * 48.0 + 2.0 * 2000 * 128;
        cr_expect_float_eq(stages[0].update_ms,
                           bytes / 1e9 + (i == 0 ? 0.006 : measured_us[i] / 1e3), 1e-12, "%.9g",
                           stages[0].update_ms);
        ls_planner_problem_free(problem);
    }
}

// With an even load the sum of the stages is the plan's cost.
Test(stages, add_up_to_the_cost) {
    ls_topology topology;
    round_machine(&topology);
    ls_planner_table table = make_table("b", 100000, 32, &ten_ids);
    table.shardings = 1u << LS_ROW_WISE;
    table.kernels = 1u << LS_PLANNER_FUSED;
    ls_planner_options options = {.model = LS_PLANNER_LOCKSTEP, .nodes_max = 1000};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, &table, 1, &options) == LS_OK);
    ls_planner_result result;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    ls_planner_stages stages[4];
    cr_assert(ls_planner_stage_times(stages, problem, &result) == LS_OK);
    double forward = stages[0].input_dist_ms + stages[0].lookup_ms + stages[0].output_dist_ms;
    double backward = stages[0].gradients_ms + stages[0].update_ms;
    cr_expect_float_eq(forward + backward, result.ms, 1e-12);
    const ls_planner_cost *cost = &result.ranks[0].cost;
    cr_expect_float_eq(stages[0].gradients_ms, cost->backward_comms_ms + 0.013, 1e-12);
    ls_planner_problem_free(problem);
}

// TorchRec's model has no stages: the report says so.
Test(stages, other_model) {
    ls_topology topology;
    round_machine(&topology);
    ls_planner_table table = make_table("b", 1000, 32, &ten_ids);
    ls_planner_options options = {.model = LS_PLANNER_TORCHREC, .nodes_max = 1000};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, &table, 1, &options) == LS_OK);
    ls_planner_result result;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    ls_planner_stages stages[4];
    cr_expect(ls_planner_stage_times(stages, problem, &result) == LS_ERR_INVALID);
    ls_planner_problem_free(problem);
}
