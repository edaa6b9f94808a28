// The plan: which rank holds which block of which embedding table. Plans: made by the planner,
// named by a scenario, and executed by the embedding modules.
#ifndef LS_PLANNER_PLAN_H
#define LS_PLANNER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// One row for each sharding type: name, text, TorchRec's text, the ranks over which the rows of a
// column block are split and its partial results summed, whether columns are split, whether a table
// is on one host. A type that these properties distinguish needs no other code: sharding, costs and
// stages use them.
#define LS_SHARDING_MAP(X)                                                                         \
    X(LS_DATA_PARALLEL, "data_parallel", "data_parallel", LS_OVER_ONE, false, false)               \
    X(LS_TABLE_WISE, "table_wise", "table_wise", LS_OVER_ONE, false, false)                        \
    X(LS_COLUMN_WISE, "column_wise", "column_wise", LS_OVER_ONE, true, false)                      \
    X(LS_ROW_WISE, "row_wise", "row_wise", LS_OVER_WORLD, false, false)                            \
    X(LS_TABLE_ROW_WISE, "table_row_wise", "table_row_wise", LS_OVER_HOST, false, true)            \
    X(LS_TABLE_COLUMN_WISE, "table_column_wise", "table_column_wise", LS_OVER_ONE, true, true)     \
    X(LS_GRID, "grid", "grid_shard", LS_OVER_HOST, true, false)

typedef enum ls_sharding {
#define LS_SHARDING_ENUM(name, ...) name,
    LS_SHARDING_MAP(LS_SHARDING_ENUM)
#undef LS_SHARDING_ENUM
        LS_SHARDING_COUNT
} ls_sharding;

typedef enum ls_over { LS_OVER_ONE, LS_OVER_HOST, LS_OVER_WORLD } ls_over;
typedef struct ls_sharding_traits {
    const char *torchrec;  // TorchRec's name
    ls_over rows;
    bool columns, one_host;
} ls_sharding_traits;
ls_sharding_traits ls_sharding_traits_of(ls_sharding sharding);
// How many ranks its rows are cut over: 1, a host's or all.
int ls_sharding_width(ls_sharding sharding, int ranks, int ranks_per_host);
LS_API const char *ls_sharding_name(ls_sharding sharding);
int ls_sharding_parse(ls_sharding *out, const char *text);

// How a shard's rows are kept and looked up: replicated with dense gradients (data parallel), in
// device memory, in host memory, in host memory with a part cached in device memory. name, value
// (0: of a caller that does not say), text.
#define LS_PLANNER_KERNEL_MAP(X)                                                                   \
    X(LS_PLANNER_DENSE, 1, "dense")                                                                \
    X(LS_PLANNER_FUSED, 0, "fused")                                                                \
    X(LS_PLANNER_FUSED_UVM, 2, "fused_uvm")                                                        \
    X(LS_PLANNER_FUSED_UVM_CACHING, 3, "fused_uvm_caching")

typedef enum ls_planner_kernel {
#define LS_PLANNER_KERNEL_ENUM(name, value, text) name = value,
    LS_PLANNER_KERNEL_MAP(LS_PLANNER_KERNEL_ENUM)
#undef LS_PLANNER_KERNEL_ENUM
        LS_PLANNER_KERNEL_COUNT = 4
} ls_planner_kernel;

const char *ls_planner_kernel_name(ls_planner_kernel kernel);
int ls_planner_kernel_parse(ls_planner_kernel *out, const char *text);

// One block of a table on one rank. Sizes may be 0 (a rank without rows).
typedef struct ls_plan_shard {
    int rank;
    int64_t row_offset, column_offset;
    int64_t rows, columns;
} ls_plan_shard;

// Shards are in the order of their columns and, within one column block, of their rows; the row
// blocks of a column block are on ascending ranks. A rank without a shard holds nothing.
typedef struct ls_plan_table {
    const char *name;
    const char *module;  // path of the collection in its model, for TorchRec; NULL: ""
    ls_sharding sharding;
    ls_planner_kernel kernel;
    int64_t rows, columns;  // of the whole table
    ls_plan_shard *shards;  // data parallel: the whole table once per rank, in rank order
    int shard_count;
} ls_plan_table;

typedef struct ls_plan {
    int ranks;           // of the world
    int ranks_per_host;  // divides ranks; ranks h * ranks_per_host onwards are host h
    ls_plan_table *tables;
    int table_count;
} ls_plan;

// Row-wise blocks by TorchRec's rule: ceil(rows / count) each, then the rest, then empty ones,
// whose offset is `rows`. offsets, sizes [count]; rows >= 0, count >= 1.
void ls_plan_split_rows(int64_t *offsets, int64_t *sizes, int64_t rows, int count);
// Column block width by TorchRec's rule: the smallest divisor of `columns` that is a multiple of 4,
// at least `minimum` (0: LS_PLAN_COLUMN_MINIMUM) and less than `columns`; without one, `columns`.
#define LS_PLAN_COLUMN_MINIMUM 128
int64_t ls_plan_column_block(int64_t columns, int64_t minimum);

// Checks that every table is tiled exactly (data parallel: whole on every rank) in the way of its
// sharding type, that ranks are in range, and that names are unique. LS_ERR_INVALID names table,
// rank and rows or columns.
int ls_plan_check(const ls_plan *plan);
// Puts a table's shards into the order that the check expects: by column, row and rank.
void ls_plan_sort_shards(ls_plan_table *table);

#ifdef __cplusplus
}
#endif
#endif
