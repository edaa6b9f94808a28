// The bytes that every stage of a planned embedding moves, rank by rank: counted only from the plan
// and the ids, before anything runs. The protocol is embedding/module.h's; a test compares the two.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "planner/plan.h"

typedef enum ls_traffic_pooling {
    LS_TRAFFIC_SEQUENCE,
    LS_TRAFFIC_SUM,  // and mean
    LS_TRAFFIC_MAX
} ls_traffic_pooling;

// One table of the plan, as far as its traffic goes.
typedef struct ls_traffic_table {
    ls_traffic_pooling pooling;
    ls_dtype output;  // of its outputs: f32 for pooled tables but f64's own, else the table's
    bool weighted;
    int feature_count;
} ls_traffic_table;

// The input of one (rank, table, feature): its ids, all of them inside the table, and its bags.
typedef struct ls_traffic_ids {
    const int64_t *at;
    int64_t count;
    int64_t bags;
} ls_traffic_ids;

// Bytes in a rank's send and receive buffers, with what it keeps for itself.
typedef struct ls_traffic_stage {
    uint64_t sent, received;
} ls_traffic_stage;

typedef struct ls_traffic_rank {
    ls_traffic_stage sizes, batches, lengths, ids, weights;  // input_dist: all_to_all
    ls_traffic_stage reduce;                                 // output_dist: reduce_scatter
    ls_traffic_stage outputs;                                // output_dist: all_to_all
} ls_traffic_rank;

// out [plan->ranks]. tables [plan->table_count], in the plan's order. ids [ranks][tables' features
// in table order]. variable: the input has a batch size per feature, which the ranks tell one
// another. The plan must pass ls_plan_check. LS_ERR_MEMORY, LS_ERR_OVERFLOW.
int ls_plan_traffic(ls_traffic_rank *out, const ls_plan *plan, const ls_traffic_table *tables,
                    const ls_traffic_ids *const *ids, bool variable);
