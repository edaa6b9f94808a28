// The cost of a shard in time and memory: the cost models, one small file each. Internal to
// planner/ and to its tests.
#pragma once

#include "planner/planner.h"

#define LS_PLANNER_ID_BYTES          8
#define LS_PLANNER_CACHE_LOAD_FACTOR 0.2

// One table on one machine, as every cost function is asked about it.
typedef struct ls_cost_context {
    const ls_topology *topology;
    const ls_planner_options *options;
    const ls_planner_table *table;
    ls_planner_optimizer optimizer;
    double ids;           // per rank and step: sum of pooling * poolings * batch
    double outputs;       // per rank and step: bags, or ids of a sequence
    double bags;          // per rank and step: sum of poolings * batch
    double clf;           // cache load factor
    double output_bytes;  // of an element
} ls_cost_context;

// Bytes of `columns` of a row, as they are kept.
double ls_cost__row_bytes(const ls_planner_table *table, int64_t columns);

void ls_cost__context(ls_cost_context *out, const ls_topology *topology,
                      const ls_planner_options *options, const ls_planner_table *table);

// TorchRec's performance estimate of a shard of `rows` x `columns`.
void ls_cost__torchrec(ls_planner_cost *out, const ls_cost_context *context, ls_sharding sharding,
                       ls_planner_kernel kernel, int64_t rows, int64_t columns);

// Ours: bytes that really move, duplicates and skew of ids, overlap. first_row: where the block
// begins.
void ls_cost__lockstep(ls_planner_cost *out, const ls_cost_context *context, ls_sharding sharding,
                       ls_planner_kernel kernel, int64_t first_row, int64_t rows, int64_t columns);
// Start-up of the collectives of one step of one sharding type's group, in milliseconds.
typedef struct ls_cost_startup {
    double input, output, gradient;  // of input_dist, output_dist, and of all that backward sends
} ls_cost_startup;
void ls_cost__lockstep_startup(ls_cost_startup *out, const ls_cost_context *context,
                               ls_sharding sharding);
// Share of a table's ids that fall into rows [first, first + count).
double ls_cost__share(const ls_planner_table *table, int64_t first, int64_t count);

// Memory of a shard by either model: fills hbm_bytes, ddr_bytes, input_bytes, output_bytes. Values
// are clamped at twice the largest capacity that a topology may have.
void ls_cost__storage(ls_planner_shard *out, const ls_cost_context *context, ls_sharding sharding,
                      ls_planner_kernel kernel);
