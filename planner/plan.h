// The plan: which rank holds which block of which embedding table. What the planner makes, a scenario
// names, and the embedding modules execute.
#ifndef LS_PLANNER_PLAN_H
#define LS_PLANNER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_SHARDING_MAP(X)                                                                         \
    X(LS_DATA_PARALLEL, "data_parallel")                                                           \
    X(LS_TABLE_WISE, "table_wise")                                                                 \
    X(LS_COLUMN_WISE, "column_wise")                                                               \
    X(LS_ROW_WISE, "row_wise")                                                                     \
    X(LS_TABLE_ROW_WISE, "table_row_wise")                                                         \
    X(LS_TABLE_COLUMN_WISE, "table_column_wise")                                                   \
    X(LS_GRID, "grid")

typedef enum ls_sharding {
#define LS_SHARDING_ENUM(name, text) name,
    LS_SHARDING_MAP(LS_SHARDING_ENUM)
#undef LS_SHARDING_ENUM
        LS_SHARDING_COUNT
} ls_sharding;

LS_API const char *ls_sharding_name(ls_sharding sharding);
LS_API int ls_sharding_parse(ls_sharding *out, const char *text);

// One block of a table on one rank. Sizes may be 0 (a rank without rows).
typedef struct ls_plan_shard {
    int rank;
    int64_t row_offset, column_offset;
    int64_t rows, columns;
} ls_plan_shard;

typedef struct ls_plan_table {
    const char *name;
    ls_sharding sharding;
    const char *kernel;  // "dense", "fused", "fused_uvm", "fused_uvm_caching"; "fused" by default
    int64_t rows, columns;  // of the whole table
    ls_plan_shard *shards;  // row blocks by ascending rank; column blocks by ascending column
    int shard_count;
} ls_plan_table;

typedef struct ls_plan {
    int ranks;           // of the world
    int ranks_per_host;  //
    ls_plan_table *tables;
    int table_count;
} ls_plan;

// Row-wise blocks by TorchRec's rule: ceil(rows / count) each, then the rest, then empty ones. Also
// the offsets of empty blocks keep running (= rows). sizes, offsets [count].
LS_API void ls_plan_split_rows(int64_t *offsets, int64_t *sizes, int64_t rows, int count);
// Column block width by TorchRec's rule for a minimum partition (default 128 when 0).
LS_API int64_t ls_plan_column_block(int64_t columns, int64_t minimum);

// Checks that every table is tiled exactly (data parallel: whole on every rank), that ranks are in
// range, and that names are unique. LS_ERR_INVALID names table, rank and rows or columns.
LS_API int ls_plan_check(const ls_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
