// Builds the plan of a scenario: one function per sharding type, and the placement of what the file
// leaves open.
#include "scenarios/runner/scenario_plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "planner/plan_file.h"
#include "planner/planner.h"
#include "scenarios/runner/scenario_planner.h"

#define PLAN_BYTES_MAX (64 << 20)
#define PLAN_MACHINE   "h100"
#define PLAN_NODES_MAX 200000
#define PLAN_GAP       0.01

struct builder {
    const ls_scenario *scenario;
    ls_arena *arena;
    int64_t *cells_on_rank;  // [ranks] rows * columns of model-parallel tables placed so far
};

static int new_shards(struct builder *builder, ls_plan_table *out, int count) {
    out->shards = ls_arena_alloc(builder->arena, (size_t)count, sizeof *out->shards);
    out->shard_count = count;
    return out->shards != NULL ? LS_OK : LS_ERR_MEMORY;
}

static void put_shard(struct builder *builder, ls_plan_table *out, int index, int rank,
                      const ls_plan_shard *block) {
    out->shards[index] = *block;
    out->shards[index].rank = rank;
    builder->cells_on_rank[rank] += block->rows * block->columns;
}

// The rank in [first, first + count) that holds the least so far.
static int least_loaded(const struct builder *builder, int first, int count) {
    int best = first;
    for (int r = first; r < first + count; r++) {
        if (builder->cells_on_rank[r] < builder->cells_on_rank[best]) {
            best = r;
        }
    }
    return best;
}

// The host whose ranks hold the least together.
static int least_loaded_host(const struct builder *builder) {
    int width = builder->scenario->ranks_per_host;
    int best = 0;
    int64_t best_cells = INT64_MAX;
    for (int host = 0; host < builder->scenario->ranks / width; host++) {
        int64_t cells = 0;
        for (int i = 0; i < width; i++) {
            cells += builder->cells_on_rank[host * width + i];
        }
        if (cells < best_cells) {
            best_cells = cells;
            best = host;
        }
    }
    return best;
}

// Rank of block `index`: the given list (repeated when it is shorter), or by default `otherwise`.
static int rank_of_block(const ls_scenario_sharding *sharding, int index, int otherwise) {
    if (sharding->ranks.count > 0) {
        return (int)sharding->ranks.at[index % sharding->ranks.count];
    }
    return otherwise;
}

static int place_data_parallel(struct builder *builder, const ls_scenario_table *table,
                               ls_plan_table *out) {
    int ranks = builder->scenario->ranks;
    LS_TRY(new_shards(builder, out, ranks));
    for (int r = 0; r < ranks; r++) {
        out->shards[r] = (ls_plan_shard){.rank = r, .rows = table->rows, .columns = table->dim};
    }
    return LS_OK;
}

static int place_table_wise(struct builder *builder, const ls_scenario_table *table,
                            ls_plan_table *out) {
    LS_TRY(new_shards(builder, out, 1));
    int rank =
        rank_of_block(&table->sharding, 0, least_loaded(builder, 0, builder->scenario->ranks));
    put_shard(builder, out, 0, rank, &(ls_plan_shard){.rows = table->rows, .columns = table->dim});
    return LS_OK;
}

// `count` row blocks of the columns [column, column + columns), as shards [index, index + count):
// on the listed ranks from number `index` on, or on the ranks from `first` on.
static int place_row_blocks(struct builder *builder, const ls_scenario_table *table,
                            ls_plan_table *out, int index, int first, int count, int64_t column,
                            int64_t columns) {
    const ls_scenario_sharding *sharding = &table->sharding;
    int64_t *offsets = ls_arena_alloc(builder->arena, (size_t)count, sizeof *offsets);
    int64_t *sizes = ls_arena_alloc(builder->arena, (size_t)count, sizeof *sizes);
    if (offsets == NULL || sizes == NULL) {
        return LS_ERR_MEMORY;
    }
    if (sharding->type != LS_GRID && sharding->sizes.count > 0) {
        int64_t offset = 0;
        for (int i = 0; i < count; i++) {
            offsets[i] = offset;
            sizes[i] = i < sharding->sizes.count ? sharding->sizes.at[i] : 0;
            offset += sizes[i];
        }
    } else {
        ls_plan_split_rows(offsets, sizes, table->rows, count);
    }
    for (int i = 0; i < count; i++) {
        put_shard(builder, out, index + i, rank_of_block(sharding, index + i, first + i),
                  &(ls_plan_shard){.row_offset = offsets[i],
                                   .column_offset = column,
                                   .rows = sizes[i],
                                   .columns = columns});
    }
    return LS_OK;
}

// How many row blocks a table has: one per listed rank or size, or one per rank of `otherwise`.
static int row_block_count(const ls_scenario_sharding *sharding, int otherwise) {
    return sharding->ranks.count > 0   ? sharding->ranks.count
           : sharding->sizes.count > 0 ? sharding->sizes.count
                                       : otherwise;
}

static int place_row_wise(struct builder *builder, const ls_scenario_table *table,
                          ls_plan_table *out) {
    int count = row_block_count(&table->sharding, builder->scenario->ranks);
    LS_TRY(new_shards(builder, out, count));
    return place_row_blocks(builder, table, out, 0, 0, count, 0, table->dim);
}

// The widths of a table's column blocks: given one by one, all of one width, one per listed rank,
// or by TorchRec's rule.
static int column_blocks(struct builder *builder, const ls_scenario_table *table, int64_t **widths,
                         int *count) {
    const ls_scenario_sharding *sharding = &table->sharding;
    bool listed = sharding->type != LS_GRID && sharding->sizes.count > 0;
    int64_t block = sharding->columns;
    if (block <= 0 && sharding->type == LS_COLUMN_WISE && sharding->ranks.count > 0) {
        block = (table->dim + sharding->ranks.count - 1) / sharding->ranks.count;
    }
    if (block <= 0) {
        block = ls_plan_column_block(table->dim, 0);
    }
    *count = listed ? sharding->sizes.count : (int)((table->dim + block - 1) / block);
    *widths = ls_arena_alloc(builder->arena, (size_t)*count, sizeof **widths);
    if (*widths == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < *count; i++) {
        int64_t rest = table->dim - block * i;
        (*widths)[i] = listed ? sharding->sizes.at[i] : rest < block ? rest : block;
    }
    return LS_OK;
}

static int place_column_wise(struct builder *builder, const ls_scenario_table *table,
                             ls_plan_table *out) {
    const ls_scenario_sharding *sharding = &table->sharding;
    int64_t *widths = NULL;
    int count = 0;
    LS_TRY(column_blocks(builder, table, &widths, &count));
    LS_TRY(new_shards(builder, out, count));
    int first = 0;
    int range = builder->scenario->ranks;
    if (sharding->type == LS_TABLE_COLUMN_WISE) {
        int host = sharding->host >= 0 ? (int)sharding->host : least_loaded_host(builder);
        range = builder->scenario->ranks_per_host;
        first = host * range;
    }
    int64_t column = 0;
    for (int i = 0; i < count; i++) {
        int rank = rank_of_block(sharding, i, least_loaded(builder, first, range));
        put_shard(
            builder, out, i, rank,
            &(ls_plan_shard){.column_offset = column, .rows = table->rows, .columns = widths[i]});
        column += widths[i];
    }
    return LS_OK;
}

static int place_table_row_wise(struct builder *builder, const ls_scenario_table *table,
                                ls_plan_table *out) {
    int width = builder->scenario->ranks_per_host;
    int host = table->sharding.host >= 0 ? (int)table->sharding.host : least_loaded_host(builder);
    int count = row_block_count(&table->sharding, width);
    LS_TRY(new_shards(builder, out, count));
    return place_row_blocks(builder, table, out, 0, host * width, count, 0, table->dim);
}

// Column blocks x row blocks: column block i on the i-th listed ranks, or on host start + i.
static int place_grid(struct builder *builder, const ls_scenario_table *table, ls_plan_table *out) {
    int64_t *widths = NULL;
    int count = 0;
    LS_TRY(column_blocks(builder, table, &widths, &count));
    int listed = table->sharding.ranks.count;
    int width = listed > 0 ? listed / count : builder->scenario->ranks_per_host;
    if (width == 0 || (listed > 0 && listed % count != 0)) {
        return LS_FAIL(LS_ERR_INVALID, "%d ranks for %d column blocks: each needs as many", listed,
                       count);
    }
    int hosts = builder->scenario->ranks / builder->scenario->ranks_per_host;
    int start = least_loaded_host(builder);
    LS_TRY(new_shards(builder, out, count * width));
    int64_t column = 0;
    for (int i = 0; i < count; i++) {
        int host = (start + i) % hosts;
        LS_TRY(place_row_blocks(builder, table, out, i * width, host * width, width, column,
                                widths[i]));
        column += widths[i];
    }
    return LS_OK;
}

// The table's blocks as a plan file has them.
static int place_from_file(struct builder *builder, const ls_scenario_table *table,
                           ls_plan_table *out) {
    const char *path = table->sharding.plan;
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(&text, &bytes, builder->arena, path, PLAN_BYTES_MAX));
    ls_text errors = {0};
    ls_plan plan;
    int status = ls_plan_read(&plan, builder->arena, &errors, path, text, bytes);
    ls_text_free(&errors);
    LS_TRY(status);
    const ls_plan_table *found = NULL;
    for (int i = 0; i < plan.table_count && found == NULL; i++) {
        found = strcmp(plan.tables[i].name, table->name) == 0 ? &plan.tables[i] : NULL;
    }
    if (found == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "the plan %s has no such table", path);
    }
    if (plan.ranks != builder->scenario->ranks ||
        plan.ranks_per_host != builder->scenario->ranks_per_host) {
        return LS_FAIL(LS_ERR_INVALID, "the plan %s is for %d ranks, %d a host, not %d, %d a host",
                       path, plan.ranks, plan.ranks_per_host, builder->scenario->ranks,
                       builder->scenario->ranks_per_host);
    }
    if (found->rows != table->rows || found->columns != table->dim) {
        return LS_FAIL(LS_ERR_INVALID, "the plan %s has it as %lld x %lld, not %lld x %lld", path,
                       (long long)found->rows, (long long)found->columns, (long long)table->rows,
                       (long long)table->dim);
    }
    *out = *found;
    for (int i = 0; i < out->shard_count && out->sharding != LS_DATA_PARALLEL; i++) {
        builder->cells_on_rank[out->shards[i].rank] += out->shards[i].rows * out->shards[i].columns;
    }
    return LS_OK;
}

static int place_table(struct builder *builder, const ls_scenario_table *table,
                       ls_plan_table *out) {
    if (table->sharding.plan != NULL) {
        return place_from_file(builder, table, out);
    }
    *out = (ls_plan_table){
        .name = table->name,
        .sharding = table->sharding.has_type ? table->sharding.type : LS_TABLE_WISE,
        .kernel = table->sharding.kernel != NULL ? table->sharding.kernel : "fused",
        .rows = table->rows,
        .columns = table->dim,
    };
    switch (out->sharding) {
    case LS_DATA_PARALLEL:
        return place_data_parallel(builder, table, out);
    case LS_ROW_WISE:
        return place_row_wise(builder, table, out);
    case LS_COLUMN_WISE:
    case LS_TABLE_COLUMN_WISE:
        return place_column_wise(builder, table, out);
    case LS_TABLE_ROW_WISE:
        return place_table_row_wise(builder, table, out);
    case LS_GRID:
        return place_grid(builder, table, out);
    case LS_TABLE_WISE:
    case LS_SHARDING_COUNT:
        break;
    }
    return place_table_wise(builder, table, out);
}

// Tables whose ranks are fixed come first, then the others by falling size: order[] by table index.
static void order_tables(const ls_scenario *scenario, int *order) {
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        bool fixed = table->sharding.ranks.count > 0 || table->sharding.plan != NULL;
        int at = i;
        while (at > 0) {
            const ls_scenario_table *other = &scenario->tables[order[at - 1]];
            bool other_fixed = other->sharding.ranks.count > 0 || other->sharding.plan != NULL;
            bool before = fixed != other_fixed
                              ? fixed
                              : !fixed && table->rows * table->dim > other->rows * other->dim;
            if (!before) {
                break;
            }
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

// A table of which the file says nothing: the planner chooses how it is cut, too.
static bool is_open(const ls_scenario_table *table) {
    return !table->sharding.has_type && table->sharding.plan == NULL &&
           table->sharding.ranks.count == 0;
}

static ls_plan_shard *copy_shards(ls_arena *arena, const ls_plan_table *table) {
    return ls_arena_copy(arena, table->shards, (size_t)table->shard_count * sizeof *table->shards);
}

// Solves for the open tables alone and copies their plan. chosen [open_count] says which they are.
static int solve_open(ls_plan *out, const ls_scenario *scenario, ls_arena *arena,
                      const ls_planner_table *tables, const int *chosen, int open_count) {
    ls_topology topology;
    LS_TRY(ls_topology_preset(&topology, PLAN_MACHINE, scenario->ranks, scenario->ranks_per_host));
    // A limit on nodes and none on time: every process of a real run must find the same plan.
    const ls_planner_options options = {
        .nodes_max = PLAN_NODES_MAX, .gap_goal = PLAN_GAP, .seed = scenario->seed};
    ls_planner_problem *problem;
    LS_TRY(ls_planner_problem_create(&problem, &topology, tables, open_count, &options));
    ls_planner_result result;
    int status = ls_planner_solve(&result, problem);
    if (status == LS_OK && !result.found) {
        status = LS_FAIL(LS_ERR_INVALID, "no plan fits %d ranks of a %s; lockstep plan says why",
                         scenario->ranks, PLAN_MACHINE);
    }
    for (int i = 0; i < open_count && status == LS_OK; i++) {
        ls_plan_table *table = &out->tables[chosen[i]];
        *table = result.plan.tables[i];
        table->name = scenario->tables[chosen[i]].name;
        table->shards = copy_shards(arena, &result.plan.tables[i]);
        status = table->shards != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    ls_planner_problem_free(problem);
    return status;
}

// Lets the planner place the open tables.
static int place_open(ls_plan *out, const ls_scenario *scenario, ls_arena *arena) {
    int *chosen = ls_arena_alloc(arena, (size_t)scenario->table_count, sizeof *chosen);
    if (chosen == NULL) {
        return LS_ERR_MEMORY;
    }
    int open_count = 0;
    for (int i = 0; i < scenario->table_count; i++) {
        if (is_open(&scenario->tables[i])) {
            chosen[open_count++] = i;
        }
    }
    if (open_count == 0) {
        return LS_OK;
    }
    ls_planner_table *tables;
    LS_TRY(ls_scenario_planner_tables(&tables, scenario, arena));
    for (int i = 0; i < open_count; i++) {
        tables[i] = tables[chosen[i]];
    }
    return solve_open(out, scenario, arena, tables, chosen, open_count);
}

int ls_scenario_plan(ls_plan *out, const ls_scenario *scenario, ls_arena *arena) {
    size_t table_count = (size_t)scenario->table_count;
    struct builder builder = {.scenario = scenario, .arena = arena};
    builder.cells_on_rank = ls_arena_alloc(arena, (size_t)scenario->ranks, sizeof(int64_t));
    int *order = ls_arena_alloc(arena, table_count, sizeof *order);
    *out = (ls_plan){.ranks = scenario->ranks,
                     .ranks_per_host = scenario->ranks_per_host,
                     .tables = ls_arena_alloc(arena, table_count, sizeof *out->tables),
                     .table_count = scenario->table_count};
    if (builder.cells_on_rank == NULL || order == NULL || out->tables == NULL) {
        return LS_ERR_MEMORY;
    }
    order_tables(scenario, order);
    if (place_open(out, scenario, arena) != LS_OK) {
        return ls_error_wrap("%s", scenario->file);
    }
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[order[i]];
        if (is_open(table)) {
            continue;
        }
        int status = place_table(&builder, table, &out->tables[order[i]]);
        if (status != LS_OK) {
            return ls_error_wrap("%s: table %s", ls_scenario_where(scenario, &table->node),
                                 table->name);
        }
    }
    return LS_OK;
}
