// TorchRec's cost model against TorchRec's own golden test numbers, to the last digit, and against
// worked examples.
#include <math.h>

#include "planner/cost.h"
#include "tests/planner/golden.h"

static const ls_planner_feature one_id = {.pooling = 1.0, .poolings = 1.0, .batch = 512.0};
static const ls_planner_feature ten_ids = {.pooling = 10.0, .poolings = 1.0, .batch = 512.0};
#define ALL_TYPES ((1u << LS_SHARDING_COUNT) - 1u)

static ls_planner_problem *problem_of(ls_planner_table *table, int ranks, int per_host) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", ranks, per_host) == LS_OK);
    ls_planner_options options = {.model = LS_PLANNER_TORCHREC, .torchrec_options = true};
    ls_planner_problem *problem;
    table->shardings = ALL_TYPES;
    cr_assert(ls_planner_problem_create(&problem, &topology, table, 1, &options) == LS_OK, "%s",
              ls_error_last()->text);
    return problem;
}

// Every number of TorchRec's estimator test (two ranks, a table of 100 x 10, f32, batch 512).
Test(cost_torchrec, golden_numbers_hold_to_the_last_digit) {
    static const struct {
        ls_sharding sharding;
        ls_planner_kernel kernel;
        double forward_compute, forward_comms, backward_compute, backward_comms;  // -1: not given
    } golden[] = {
        {LS_DATA_PARALLEL, LS_PLANNER_DENSE, 9.356002212235228e-05, 0.0, 1.8712004424470456e-04,
         2.25593945387348e-04},
        {LS_TABLE_WISE, LS_PLANNER_FUSED, 3.27460077428233e-04, 6.357828776041667e-05,
         6.54920154856466e-04, 6.357828776041667e-05},
        {LS_TABLE_WISE, LS_PLANNER_FUSED_UVM, 0.09179115295410156, -1, -1, -1},
        {LS_TABLE_WISE, LS_PLANNER_FUSED_UVM_CACHING, 0.01432837509527439, -1, -1, -1},
        {LS_COLUMN_WISE, LS_PLANNER_FUSED, 3.27460077428233e-04, 6.357828776041667e-05,
         6.54920154856466e-04, 6.357828776041667e-05},
        {LS_TABLE_COLUMN_WISE, LS_PLANNER_FUSED, 3.27460077428233e-04, 6.357828776041667e-05,
         6.54920154856466e-04, 6.357828776041667e-05},
        {LS_ROW_WISE, LS_PLANNER_FUSED, 6.804365245261984e-05, 6.357828776041667e-05,
         1.360873049052397e-04, 1.6798276699240525e-04},
        {LS_TABLE_ROW_WISE, LS_PLANNER_FUSED, 6.804365245261984e-05, 6.357828776041667e-05,
         1.360873049052397e-04, 1.6798276699240525e-04},
        {LS_GRID, LS_PLANNER_FUSED, 6.804365245261984e-05, 6.357828776041667e-05,
         1.360873049052397e-04, 1.6798276699240525e-04},
    };
    ls_planner_table table = make_table("t", 100, 10, &one_id);
    ls_planner_problem *problem = problem_of(&table, 2, 2);
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        const ls_planner_option *option =
            find_option(problem, 0, golden[i].sharding, golden[i].kernel);
        const ls_planner_cost *cost = &option->shards[0].cost;
        double got[4] = {cost->forward_compute_ms, cost->forward_comms_ms,
                         cost->backward_compute_ms, cost->backward_comms_ms};
        double want[4] = {golden[i].forward_compute, golden[i].forward_comms,
                          golden[i].backward_compute, golden[i].backward_comms};
        for (int k = 0; k < 4; k++) {
            cr_expect(want[k] < 0 || fabs(got[k] - want[k]) <= 1e-15 * want[k],
                      "%s %s part %d: %.17g, want %.17g", ls_sharding_name(golden[i].sharding),
                      ls_planner_kernel_name(golden[i].kernel), k, got[k], want[k]);
        }
    }
    ls_planner_problem_free(problem);
}

static double total_of(const ls_planner_problem *problem, ls_sharding sharding,
                       ls_planner_kernel kernel) {
    return ls_planner_cost_total(&find_option(problem, 0, sharding, kernel)->shards[0].cost);
}

// The worked examples of a table of a million rows of 128, on one host and on two.
Test(cost_torchrec, worked_examples_hold) {
    ls_planner_table table = make_table("t", 1000000, 128, &ten_ids);
    ls_planner_problem *one = problem_of(&table, 8, 8);
    ls_planner_cost cost = find_option(one, 0, LS_TABLE_WISE, LS_PLANNER_FUSED)->shards[0].cost;
    cr_expect_float_eq(cost.forward_compute_ms, .024292, 5e-7);
    cr_expect_float_eq(cost.forward_comms_ms, .003255, 5e-7);
    cr_expect_float_eq(cost.backward_compute_ms, .048583, 5e-7);
    cr_expect_float_eq(cost.backward_comms_ms, .003255, 5e-7);
    cr_expect_float_eq(ls_planner_cost_total(&cost), .079385, 5e-7);
    cr_expect_float_eq(total_of(one, LS_ROW_WISE, LS_PLANNER_FUSED), .026681, 5e-7);
    cr_expect_float_eq(total_of(one, LS_DATA_PARALLEL, LS_PLANNER_DENSE), 14.589, 5e-4);
    ls_planner_problem_free(one);
    ls_planner_problem *two = problem_of(&table, 16, 8);
    cr_expect_float_eq(total_of(two, LS_TABLE_WISE, LS_PLANNER_FUSED), .770750, 5e-7);
    cr_expect_float_eq(total_of(two, LS_ROW_WISE, LS_PLANNER_FUSED), .657048, 5e-7);
    cr_expect_float_eq(total_of(two, LS_TABLE_ROW_WISE, LS_PLANNER_FUSED), .131487, 5e-7);
    cr_expect_float_eq(total_of(two, LS_DATA_PARALLEL, LS_PLANNER_DENSE), 16.973, 5e-4);
    ls_planner_problem_free(two);
}

// TorchRec enumerates 16 options for a free table on CUDA.
Test(cost_torchrec, a_free_table_has_sixteen_options) {
    ls_planner_table table = make_table("t", 100, 10, &one_id);
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 2, 2) == LS_OK);
    ls_planner_options options = {.model = LS_PLANNER_TORCHREC, .torchrec_options = true};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, &table, 1, &options) == LS_OK);
    cr_expect(ls_planner_option_count(problem, 0) == 16);
    ls_planner_problem_free(problem);
}

// Memory as TorchRec counts it: weights, multiplier of the optimizer, input and output buffers.
Test(cost_torchrec, storage_follows_torchrec) {
    ls_planner_table table = make_table("t", 1000, 128, &ten_ids);
    table.optimizer = "rowwise_adagrad";
    ls_planner_problem *problem = problem_of(&table, 2, 2);
    const ls_planner_shard *shard =
        find_option(problem, 0, LS_TABLE_WISE, LS_PLANNER_FUSED)->shards;
    int64_t input = 5120 * 2 * 8;
    int64_t output = 512 * 2 * 128 * 4;
    cr_expect(shard->input_bytes == input && shard->output_bytes == output);
    cr_expect(shard->hbm_bytes == 512000 + 4000 + input + output, "%lld",
              (long long)shard->hbm_bytes);
    shard = find_option(problem, 0, LS_TABLE_WISE, LS_PLANNER_FUSED_UVM)->shards;
    cr_expect(shard->hbm_bytes == input + output && shard->ddr_bytes == 516000);
    shard = find_option(problem, 0, LS_TABLE_WISE, LS_PLANNER_FUSED_UVM_CACHING)->shards;
    int64_t cached = 103200 + 7200;  // a fifth of it, and 7.2 bytes of bookkeeping a row
    cr_expect(shard->hbm_bytes == cached + input + output && shard->ddr_bytes == 516000);
    ls_planner_problem_free(problem);
    // Buffers of blocks of rows: of the ids that fall on a rank of the world, or of a host.
    problem = problem_of(&table, 4, 2);
    shard = find_option(problem, 0, LS_ROW_WISE, LS_PLANNER_FUSED)->shards;
    cr_expect(shard->input_bytes == 5120 * 8 && shard->output_bytes == 2 * output);
    shard = find_option(problem, 0, LS_TABLE_ROW_WISE, LS_PLANNER_FUSED)->shards;
    cr_expect(shard->input_bytes == 5120 / 2 * 4 * 8 && shard->output_bytes == 2 * output);
    shard = find_option(problem, 0, LS_DATA_PARALLEL, LS_PLANNER_DENSE)->shards;
    cr_expect(shard->input_bytes == 5120 * 8 && shard->output_bytes == output / 2);
    ls_planner_problem_free(problem);
}
