// Random small planning problems that use every kind of constraint, for judges of whole plans.
#pragma once

#include <stdio.h>
#include <string.h>

#include "planner/planner.h"

#define TABLES 5

typedef struct instance {
    ls_topology topology;
    ls_planner_options options;
    ls_planner_feature features[TABLES];
    ls_planner_table tables[TABLES];
    char names[TABLES][16];
    int ranks[TABLES][4];
    ls_plan_table layouts[TABLES];
    ls_plan_shard shards[TABLES][4];
    int count;
} instance;

static inline uint64_t draw(uint64_t seed, uint32_t what, uint64_t bound) {
    return ls_random_below(bound, seed, what, 0, 0);
}

// A table with given blocks: two or three uneven blocks of columns, or of rows if there is one on
// each rank; on given ranks, or with columns that the search places.
static inline void fix_layout(instance *in, int table, uint64_t seed) {
    ls_planner_table *of = &in->tables[table];
    int world = in->topology.ranks;
    bool rows = draw(seed, 19, 2) == 0;
    bool placed = rows || draw(seed, 20, 2) == 0;
    int count = rows ? world : 2 + (int)draw(seed, 21, 2);
    int64_t whole = rows ? of->rows : of->columns, at = 0;
    for (int i = 0; i < count; i++) {
        int64_t most = whole - at;
        int64_t size = i == count - 1 ? most : most / (count - i) - (int64_t)draw(seed + 7u, 22, 4);
        size = size < 4 ? 4 : size;
        ls_plan_shard *shard = &in->shards[table][i];
        shard->rank = !placed ? -1 : rows ? i : (int)draw(seed + (uint64_t)i, 23, (uint64_t)world);
        shard->row_offset = rows ? at : 0;
        shard->rows = rows ? size : of->rows;
        shard->column_offset = rows ? 0 : at;
        shard->columns = rows ? of->columns : size;
        at += size;
    }
    in->layouts[table] =
        (ls_plan_table){.name = of->name,
                        .sharding = rows ? LS_ROW_WISE : LS_COLUMN_WISE,
                        .kernel = draw(seed, 24, 2) ? LS_PLANNER_FUSED : LS_PLANNER_FUSED_UVM,
                        .rows = of->rows,
                        .columns = of->columns,
                        .shards = in->shards[table],
                        .shard_count = count};
    of->layout = &in->layouts[table];
}

static inline void make_instance(instance *in, uint64_t seed) {
    static const int shapes[][2] = {{2, 2}, {3, 3}, {4, 2}, {4, 4}, {2, 1}};
    static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam"};
    const int *shape = shapes[draw(seed, 1, 5)];
    memset(in, 0, sizeof(*in));
    (void)ls_topology_preset(&in->topology, draw(seed, 2, 2) ? "h100" : "v100_torchrec", shape[0],
                             shape[1]);
    in->options.model = draw(seed, 3, 2) ? LS_PLANNER_TORCHREC : LS_PLANNER_LOCKSTEP;
    in->options.exact_only = draw(seed, 4, 2) == 0;
    in->options.nodes_max = INT64_C(200000000);
    in->count = 2 + (int)draw(seed, 5, TABLES - 1);
    double bytes = 0.0;
    for (int i = 0; i < in->count; i++) {
        uint64_t s = seed * 1000 + (uint64_t)i + 1;
        in->features[i] =
            (ls_planner_feature){(double)(1 + draw(s, 6, 30)), 1.0, (double)(64 << draw(s, 7, 4))};
        snprintf(in->names[i], sizeof(in->names[i]), "t%d", i);
        in->tables[i] = (ls_planner_table){
            .name = in->names[i],
            .rows = (int64_t)(1000 * (1 + draw(s, 8, 3000))),
            .columns = (int64_t)(32 << draw(s, 9, 3)),
            .element_bytes = draw(s, 10, 2) ? 4 : 2,
            .optimizer = optimizers[draw(s, 11, 3)],
            .features = &in->features[i],
            .feature_count = 1,
        };
        static const unsigned types[] = {0, 1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE,
                                         1u << LS_TABLE_WISE | 1u << LS_ROW_WISE,
                                         1u << LS_TABLE_COLUMN_WISE | 1u << LS_TABLE_ROW_WISE};
        in->tables[i].shardings = types[draw(s, 12, 4)];
        if (in->tables[i].shardings & (1u << LS_DATA_PARALLEL) || !in->tables[i].shardings) {
            in->tables[i].kernels = 1u << LS_PLANNER_DENSE | 1u << LS_PLANNER_FUSED;
        } else {
            in->tables[i].kernels = 1u << LS_PLANNER_FUSED | 1u << LS_PLANNER_FUSED_UVM_CACHING;
        }
        if (draw(s, 13, 6) == 0 && in->tables[i].shardings != types[3]) {  // all but one rank
            for (int r = 1; r < shape[0]; r++) {
                in->ranks[i][r - 1] = r;
            }
            in->tables[i].shardings = types[1];
            in->tables[i].ranks = in->ranks[i];
            in->tables[i].rank_count = shape[0] - 1;
        }
        bytes += (double)in->tables[i].rows * (double)in->tables[i].columns *
                 in->tables[i].element_bytes;
    }
    if (draw(seed, 14, 3) == 0 && in->count >= 3) {
        in->tables[0].apart = in->tables[1].apart = "a";
    }
    if (draw(seed, 15, 4) == 0 && in->count >= 3) {
        in->tables[1].together = in->tables[2].together = "b";
        in->tables[1].ranks = in->tables[2].ranks = NULL;
        in->tables[1].rank_count = in->tables[2].rank_count = 0;
        in->tables[1].shardings = in->tables[2].shardings = 1u << LS_TABLE_WISE | 1u << LS_ROW_WISE;
    }
    for (int i = 0; i < in->count; i++) {
        if (!in->tables[i].together && !in->tables[i].apart &&
            draw(seed * 1000 + (uint64_t)i, 18, 4) == 0) {
            fix_layout(in, i, seed * 1000 + (uint64_t)i);
        }
    }
    if (draw(seed, 16, 2)) {  // memory between plenty and too little
        double share = 0.5 + 0.25 * (double)draw(seed, 17, 6);
        in->topology.hbm_bytes = (int64_t)(bytes * share / shape[0]) + 4000000;
    }
}
