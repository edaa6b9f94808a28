// lockstep's cost and storage model: hand-computed numbers, and consequences of skew, duplicates,
// overlap and the optimizer. Also machines: presets and files.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cost.h"
#include "tests/planner/golden.h"

static const ls_planner_feature four_ids = {.pooling = 4.0, .poolings = 1.0, .batch = 100.0};

static ls_topology machine(int ranks, int per_host) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", ranks, per_host) == LS_OK);
    topology.hbm_bandwidth = 1e9;  // bytes per ms: round numbers for sums by hand
    topology.link_bandwidth = 1e7;
    topology.intra_bandwidth = 1e8;
    topology.inter_bandwidth = 1e7;
    topology.cache_speedup = 2.0;
    return topology;
}

static ls_planner_cost cost_of(const ls_topology *topology, const ls_planner_table *table,
                               ls_sharding sharding, ls_planner_kernel kernel, int64_t first,
                               int64_t rows, int64_t columns, double overlap) {
    ls_planner_options options = {.overlap = overlap};
    ls_cost_context context;
    ls_planner_cost cost;
    ls_cost__context(&context, topology, &options, table);
    ls_cost__lockstep(&cost, &context, sharding, kernel, first, rows, columns);
    return cost;
}

// A table of 1000 x 16 f32 on one rank of four: 1600 ids from all ranks, 400 bags. All by hand.
Test(cost_lockstep, table_wise_by_hand) {
    ls_topology topology = machine(4, 2);
    ls_planner_table table = make_table("t", 100000, 16, &four_ids);
    ls_planner_cost cost =
        cost_of(&topology, &table, LS_TABLE_WISE, LS_PLANNER_FUSED, 0, 100000, 16, 0.0);
    double output = 400.0 * 16 * 4;
    cr_expect_float_eq(cost.forward_compute_ms, (1600 * 8 + output + 1600 * 64) / 1e9, 1e-15);
    cr_expect_float_eq(cost.backward_compute_ms, (output + 1600 * 48 + 2 * 1600 * 64) / 1e9, 1e-15);
    // Each rank receives a quarter: one is on this host, two are on the other, over slower links.
    double in = (1600 * 8 + 400 * 8) / 4.0 * 2 / 1e7;
    double back = output / 4.0 * 2 / 1e7;
    cr_expect_float_eq(cost.forward_comms_ms, in + back, 1e-15);
    cr_expect_float_eq(cost.backward_comms_ms, back, 1e-15);
    ls_planner_cost half =
        cost_of(&topology, &table, LS_TABLE_WISE, LS_PLANNER_FUSED, 0, 100000, 16, 0.5);
    cr_expect_float_eq(half.forward_comms_ms, (in + back) / 2, 1e-15);
    cr_expect(half.forward_compute_ms == cost.forward_compute_ms);
}

// A ring over all ranks shares the ports of a host, or its inner links if these are slower.
Test(cost_lockstep, rings_by_hand) {
    ls_planner_table table = make_table("t", 100000, 16, &four_ids);
    const struct {
        int per_host;
        double inter, ring;
    } rings[] = {{2, 1e7, 2e7}, {2, 9e7, 1e8}, {4, 1e7, 1e8}};
    double output = 400.0 * 16 * 4, copy = 100000.0 * 16 * 4;
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
        ls_topology topology = machine(4, rings[i].per_host);
        topology.inter_bandwidth = rings[i].inter;
        ls_planner_cost cost =
            cost_of(&topology, &table, LS_DATA_PARALLEL, LS_PLANNER_DENSE, 0, 100000, 16, 0.0);
        cr_expect_float_eq(cost.backward_comms_ms, 2 * 0.75 * copy / rings[i].ring, 1e-12);
        cost = cost_of(&topology, &table, LS_ROW_WISE, LS_PLANNER_FUSED, 0, 25000, 16, 0.0);
        cr_expect_float_eq(cost.backward_comms_ms, 0.75 * output / rings[i].ring, 1e-15);
    }
    // Half of it inside the host, then half of each half to the other host.
    ls_topology topology = machine(4, 2);
    ls_planner_cost cost =
        cost_of(&topology, &table, LS_TABLE_ROW_WISE, LS_PLANNER_FUSED, 0, 50000, 16, 0.0);
    cr_expect_float_eq(cost.backward_comms_ms, output / 2 / 1e8 + output / 4 / 1e7, 1e-15);
}

// Start-ups: a hop for each other rank of a ring, one for an exchange; three exchanges of inputs,
// four with weights.
Test(cost_lockstep, starts_by_hand) {
    const struct {
        int per_host;
        double exchange, ring, inside, gradient;
    } starts[] = {{4, 0.019, 0.010 + 7 * 0.005, 0.010 + 3 * 0.002 + 0.019, 0.010 + 14 * 0.005},
                  {8, 0.016, 0.010 + 7 * 0.002, 0.010 + 7 * 0.002, 0.010 + 14 * 0.002}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        ls_topology topology = machine(8, starts[i].per_host);
        topology.launch_us = 10.0, topology.exchange_us = 14.0;
        topology.intra_latency_us = 2.0, topology.inter_latency_us = 5.0;
        ls_planner_table table = make_table("t", 1000, 16, &four_ids);
        table.weighted = i == 1;
        ls_planner_options options = {0};
        ls_cost_context context;
        ls_cost__context(&context, &topology, &options, &table);
        const struct {
            ls_sharding sharding;
            double input, output, gradient;
        } want[] = {{LS_DATA_PARALLEL, 0.0, 0.0, starts[i].gradient},
                    {LS_TABLE_WISE, 1.0, starts[i].exchange, starts[i].exchange},
                    {LS_ROW_WISE, 1.0, starts[i].ring, starts[i].ring},
                    {LS_TABLE_ROW_WISE, 1.0, starts[i].inside, starts[i].inside}};
        for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
            ls_cost_startup start;
            ls_cost__lockstep_startup(&start, &context, want[k].sharding);
            double input = want[k].input * starts[i].exchange * (table.weighted ? 4 : 3);
            cr_expect_float_eq(start.input, input, 1e-12);
            cr_expect_float_eq(start.output, want[k].output, 1e-12);
            cr_expect_float_eq(start.gradient, want[k].gradient, 1e-12);
        }
    }
}

// A single rank sends nothing, under any type.
Test(cost_lockstep, one_rank_does_not_communicate) {
    ls_topology topology = machine(1, 1);
    ls_planner_table table = make_table("t", 1000, 64, &four_ids);
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        ls_planner_kernel kernel = s == LS_DATA_PARALLEL ? LS_PLANNER_DENSE : LS_PLANNER_FUSED;
        ls_planner_cost cost = cost_of(&topology, &table, (ls_sharding)s, kernel, 0, 1000, 64, 0.0);
        cr_expect(cost.forward_comms_ms == 0.0 && cost.backward_comms_ms == 0.0, "%s",
                  ls_sharding_name((ls_sharding)s));
    }
}

// The rank that holds the hot rows pays for them; rows read again are cheaper than new ones.
Test(cost_lockstep, skew_and_duplicates_count) {
    ls_topology topology = machine(4, 4);
    ls_planner_table table = make_table("t", 6400, 64, &four_ids);
    int64_t ids[1000];
    for (int i = 0; i < 1000; i++) {
        ids[i] = i < 700 ? i % 10 : 6399 - i;  // 70 % of the ids on ten rows
    }
    ls_planner_profile profile;
    cr_assert(ls_planner_profile_make(&profile, ids, 1000, 6400) == LS_OK);
    cr_expect_float_eq(profile.ids[0], 0.7, 1e-12);
    cr_expect_float_eq(profile.distinct, 0.31, 1e-12);
    ls_planner_cost even =
        cost_of(&topology, &table, LS_ROW_WISE, LS_PLANNER_FUSED, 0, 1600, 64, 0);
    ls_planner_cost whole =
        cost_of(&topology, &table, LS_TABLE_WISE, LS_PLANNER_FUSED, 0, 6400, 64, 0);
    table.profile = &profile;
    cr_expect_float_eq(ls_cost__share(&table, 0, 1600), 0.7, 1e-12);
    cr_expect_float_eq(ls_cost__share(&table, 0, 50), 0.35, 1e-12);
    ls_planner_cost hot = cost_of(&topology, &table, LS_ROW_WISE, LS_PLANNER_FUSED, 0, 1600, 64, 0);
    ls_planner_cost cold =
        cost_of(&topology, &table, LS_ROW_WISE, LS_PLANNER_FUSED, 1600, 1600, 64, 0);
    ls_planner_cost repeated =
        cost_of(&topology, &table, LS_TABLE_WISE, LS_PLANNER_FUSED, 0, 6400, 64, 0);
    cr_expect(hot.forward_compute_ms > even.forward_compute_ms);
    cr_expect(cold.forward_compute_ms < even.forward_compute_ms);
    cr_expect(repeated.forward_compute_ms < whole.forward_compute_ms);
    cr_expect(repeated.backward_compute_ms < whole.backward_compute_ms);
}

static int64_t state_of(const char *optimizer, int64_t rows, int64_t columns) {
    ls_topology topology = machine(2, 2);
    ls_planner_table table = make_table("t", 1000, 64, &four_ids);
    ls_planner_options options = {0};
    ls_cost_context context;
    table.element_bytes = 2;
    table.optimizer = optimizer;
    ls_cost__context(&context, &topology, &options, &table);
    ls_planner_shard shard = {.block = {0, 0, 0, rows, columns}};
    ls_cost__storage(&shard, &context, LS_COLUMN_WISE, LS_PLANNER_FUSED);
    return shard.hbm_bytes - shard.input_bytes - shard.output_bytes - rows * columns * 2;
}

// Optimizer state is f32 whatever the weights are, and row-wise state is kept per row of every
// column block.
Test(storage, optimizer_state_is_right_for_each) {
    static const struct {
        const char *name;
        int64_t per_weight, per_row;
    } want[] = {{"none", 0, 0},
                {"sgd", 0, 0},
                {"momentum_sgd", 1, 0},
                {"adagrad", 1, 0},
                {"adam", 2, 0},
                {"adamw", 2, 0},
                {"lamb", 2, 0},
                {"lars_sgd", 1, 0},
                {"rowwise_adagrad", 0, 1},
                {"partial_rowwise_adam", 1, 1},
                {"partial_rowwise_lamb", 1, 1}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        int64_t bytes = 4 * (want[i].per_weight * 1000 * 32 + want[i].per_row * 1000);
        cr_expect(state_of(want[i].name, 1000, 32) == bytes, "%s: %lld, want %lld", want[i].name,
                  (long long)state_of(want[i].name, 1000, 32), (long long)bytes);
    }
    ls_planner_optimizer found;
    cr_expect(ls_planner_optimizer_find(&found, "rowwise_adagard") == LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "did you mean \"rowwise_adagrad\"?"));
}

// Every preset passes its own check and names the source of its numbers.
Test(topology, presets) {
    for (int i = 0; ls_topology_preset_name(i); i++) {
        ls_topology topology;
        cr_expect(ls_topology_preset(&topology, ls_topology_preset_name(i), 16, 0) == LS_OK);
        cr_expect(topology.ranks_per_host == 8 && topology.source[0]);
    }
    ls_topology topology;
    cr_expect(ls_topology_preset(&topology, "h100", 10, 4) == LS_ERR_INVALID);
    cr_expect(ls_topology_preset(&topology, "h1000", 8, 8) == LS_ERR_NOT_FOUND);
}

static int parse(ls_topology *out, const char *text) {
    *out = (ls_topology){.ranks = 8, .ranks_per_host = 4};
    ls_text errors = {0};
    int status = ls_topology_parse(out, &errors, "m.yaml", text, strlen(text));
    cr_expect((status == LS_OK) == (errors.length == 0));
    ls_text_free(&errors);
    return status;
}

// A file changes only the fields that it names; errors have positions.
Test(topology, files) {
    ls_topology topology;
    ls_topology preset;
    cr_assert(parse(&topology, "preset: h200\nhbm_bytes: 100 GiB\nintra_bandwidth: 400\n"
                               "name: mine\nddr_shared: false\n") == LS_OK,
              "%s", ls_error_last()->text);
    cr_assert(ls_topology_preset(&preset, "h200", 8, 4) == LS_OK);
    cr_expect_str_eq(topology.name, "mine");
    cr_expect(topology.hbm_bytes == INT64_C(100) << 30 && topology.intra_bandwidth == 400e6);
    cr_expect(topology.inter_bandwidth == preset.inter_bandwidth && !topology.ddr_shared);
    cr_expect(parse(&topology, "{\"preset\": \"a100\", \"ranks\": 4, \"ranks_per_host\": 2}") ==
              LS_OK);
    cr_expect(topology.ranks == 4 && topology.ranks_per_host == 2);
    cr_expect(parse(&topology, "preset: h20O\n") == LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "m.yaml:1:9: error: no machine is called"));
    cr_expect(parse(&topology, "preset: h200\nhbm_bytes: 80 GiBs\n") == LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "m.yaml:2:12: error: expected a size"));
    cr_expect(parse(&topology, "launch_us: nan\n") == LS_ERR_FORMAT);
    cr_expect(parse(&topology, "ranks: 9\n") == LS_ERR_FORMAT);
}

// A file of lockstep calibrate is a machine: measured figures over its preset, for the requested
// ranks, whatever it was measured with.
Test(topology, calibrated_files) {
    const char *source = getenv("LOCKSTEP_SOURCE");
    char path[4096];
    char text[65536];
    ls_topology topology;
    ls_topology preset;
    cr_assert(source, "LOCKSTEP_SOURCE is not set");
    (void)snprintf(path, sizeof(path), "%s/tests/planner/calibrated.json", source);
    FILE *file = fopen(path, "r");
    cr_assert(file, "%s", path);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[bytes] = 0;
    cr_assert(parse(&topology, text) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(ls_topology_preset(&preset, "h200", 8, 4) == LS_OK);
    cr_expect_str_eq(topology.name, "measured");
    cr_expect(topology.ranks == 8 && topology.ranks_per_host == 4);
    cr_expect(topology.hbm_bytes == INT64_C(150754820096) && topology.launch_us == 21.5);
    cr_expect(topology.intra_bandwidth == 312.25e6 && topology.hbm_bandwidth == 4050.5e6);
    cr_expect(topology.inter_bandwidth == preset.inter_bandwidth &&
              topology.ddr_bytes == preset.ddr_bytes);
    cr_expect(parse(&topology, "{\"lockstep_order\": 1, \"orders\": []}") == LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "machine"), "%s", ls_error_last()->text);
}
