// The shards of a table by its `sharding:` key: one function for each sharding type.
#include "runner/scenario/scenario_layout.h"

#include <string.h>

#include "planner/plan_file.h"

#define NOWHERE (-1)  // a block's rank that the planner chooses

struct builder {
    const ls_scenario *scenario;
    ls_arena *arena;
};

static int new_shards(struct builder *builder, ls_plan_table *out, int count) {
    out->shards = ls_arena_alloc(builder->arena, (size_t)count, sizeof *out->shards);
    out->shard_count = count;
    return out->shards != NULL ? LS_OK : LS_ERR_MEMORY;
}

static void put_shard(ls_plan_table *out, int index, int rank, const ls_plan_shard *block) {
    out->shards[index] = *block;
    out->shards[index].rank = rank;
}

// Rank of block `index`: from the given list (repeated if it is shorter), or by default
// `otherwise`.
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
    int rank = rank_of_block(&table->sharding, 0, NOWHERE);
    put_shard(out, 0, rank, &(ls_plan_shard){.rows = table->rows, .columns = table->dim});
    return LS_OK;
}

// `count` row blocks of the columns [column, column + columns), as shards [index, index + count):
// on the listed ranks from number `index` on, or on the ranks from `first` on, or unplaced.
static int place_row_blocks(struct builder *builder, const ls_scenario_table *table,
                            ls_plan_table *out, int index, int first, int count, int64_t column,
                            int64_t columns) {
    const ls_scenario_sharding *sharding = &table->sharding;
    int64_t *offsets = ls_arena_alloc(builder->arena, (size_t)count, sizeof *offsets);
    int64_t *sizes = ls_arena_alloc(builder->arena, (size_t)count, sizeof *sizes);
    LS_TRY_MEMORY(offsets != NULL && sizes != NULL);
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
        int otherwise = first == NOWHERE ? NOWHERE : first + i;
        put_shard(out, index + i, rank_of_block(sharding, index + i, otherwise),
                  &(ls_plan_shard){.row_offset = offsets[i],
                                   .column_offset = column,
                                   .rows = sizes[i],
                                   .columns = columns});
    }
    return LS_OK;
}

// The number of a table's row blocks: one for each listed rank or size, or for each rank of
// `otherwise`.
static int row_block_count(const ls_scenario_sharding *sharding, int otherwise) {
    if (sharding->ranks.count > 0) {
        return sharding->ranks.count;
    }
    return sharding->sizes.count > 0 ? sharding->sizes.count : otherwise;
}

static int place_row_wise(struct builder *builder, const ls_scenario_table *table,
                          ls_plan_table *out) {
    int count = row_block_count(&table->sharding, builder->scenario->ranks);
    LS_TRY(new_shards(builder, out, count));
    return place_row_blocks(builder, table, out, 0, 0, count, 0, table->dim);
}

// The widths of a table's column blocks: listed, all equal, one for each listed rank, or by
// TorchRec's rule.
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
    LS_TRY_MEMORY(*widths != NULL);
    for (int i = 0; i < *count; i++) {
        int64_t rest = table->dim - block * i;
        (*widths)[i] = rest < block ? rest : block;
        if (listed) {
            (*widths)[i] = sharding->sizes.at[i];
        }
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
    int64_t column = 0;
    for (int i = 0; i < count; i++) {
        put_shard(
            out, i, rank_of_block(sharding, i, NOWHERE),
            &(ls_plan_shard){.column_offset = column, .rows = table->rows, .columns = widths[i]});
        column += widths[i];
    }
    return LS_OK;
}

static int place_table_row_wise(struct builder *builder, const ls_scenario_table *table,
                                ls_plan_table *out) {
    const ls_scenario_sharding *sharding = &table->sharding;
    int width = builder->scenario->ranks_per_host;
    bool listed = sharding->ranks.count > 0;
    if (!listed && sharding->sizes.count > width) {
        return LS_FAIL(LS_ERR_INVALID, "%d row blocks for the %d ranks of a host",
                       sharding->sizes.count, width);
    }
    int count = listed ? sharding->ranks.count : width;
    int first = sharding->host >= 0 ? (int)sharding->host * width : NOWHERE;
    LS_TRY(new_shards(builder, out, count));
    return place_row_blocks(builder, table, out, 0, first, count, 0, table->dim);
}

// Column blocks x row blocks: column block i on the i-th listed ranks.
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
    LS_TRY(new_shards(builder, out, count * width));
    int64_t column = 0;
    for (int i = 0; i < count; i++) {
        LS_TRY(place_row_blocks(builder, table, out, i * width, NOWHERE, width, column, widths[i]));
        column += widths[i];
    }
    return LS_OK;
}

// lockstep's form begins with its version. TorchRec's ShardingPlan has modules with their tables,
// and states neither the world nor the size of a data-parallel table.
static int read_plan(const struct builder *builder, const char *path, const char *text,
                     size_t bytes, ls_plan *out) {
    const ls_scenario *scenario = builder->scenario;
    if (ls_plan_is_torchrec(text, bytes)) {
        ls_planner_table *known =
            ls_arena_alloc(builder->arena, (size_t)scenario->table_count, sizeof *known);
        LS_TRY_MEMORY(known != NULL);
        for (int t = 0; t < scenario->table_count; t++) {
            const ls_scenario_table *table = &scenario->tables[t];
            known[t] =
                (ls_planner_table){.name = table->name, .rows = table->rows, .columns = table->dim};
        }
        int status = ls_plan_read_torchrec(out, builder->arena, text, bytes, scenario->ranks,
                                           scenario->ranks_per_host, known, scenario->table_count);
        return status != LS_OK ? ls_error_wrap("%s", path) : LS_OK;
    }
    ls_text errors = {0};
    int status = ls_plan_read(out, builder->arena, &errors, path, text, bytes);
    ls_text_free(&errors);
    return status;
}

int ls_scenario_plan_read(ls_plan *out, const ls_scenario *scenario, const char *path,
                          ls_arena *arena) {
    const struct builder builder = {.scenario = scenario, .arena = arena};
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(&text, &bytes, arena, path, LS_PLAN_FILE_BYTES_MAX));
    return read_plan(&builder, path, text, bytes, out);
}

int ls_scenario_plan_open(ls_plan *out, const ls_scenario *scenario, const char *path,
                          ls_arena *arena) {
    LS_TRY(ls_scenario_plan_read(out, scenario, path, arena));
    if (out->ranks != scenario->ranks || out->ranks_per_host != scenario->ranks_per_host) {
        return LS_FAIL(LS_ERR_FORMAT, "the plan %s is for %d ranks, %d a host, not %d, %d a host",
                       path, out->ranks, out->ranks_per_host, scenario->ranks,
                       scenario->ranks_per_host);
    }
    return LS_OK;
}

// The table's blocks in a plan file.
static int place_from_file(struct builder *builder, const ls_scenario_table *table,
                           ls_plan_table *out) {
    const char *path = table->sharding.plan;
    ls_plan plan;
    LS_TRY(ls_scenario_plan_open(&plan, builder->scenario, path, builder->arena));
    const ls_plan_table *found = NULL;
    for (int i = 0; i < plan.table_count && found == NULL; i++) {
        found = strcmp(plan.tables[i].name, table->name) == 0 ? &plan.tables[i] : NULL;
    }
    if (found == NULL) {
        return LS_FAIL(LS_ERR_FORMAT, "the plan %s has no such table", path);
    }
    if (found->rows != table->rows || found->columns != table->dim) {
        return LS_FAIL(LS_ERR_FORMAT, "in the plan %s it is %lld x %lld, not %lld x %lld", path,
                       (long long)found->rows, (long long)found->columns, (long long)table->rows,
                       (long long)table->dim);
    }
    *out = *found;
    return LS_OK;
}

int ls_scenario_layout(ls_plan_table *out, const ls_scenario *scenario,
                       const ls_scenario_table *table, ls_arena *arena) {
    struct builder builder = {.scenario = scenario, .arena = arena};
    if (table->sharding.plan != NULL) {
        return place_from_file(&builder, table, out);
    }
    *out = (ls_plan_table){
        .name = table->name,
        .sharding = table->sharding.has_type ? table->sharding.type : LS_TABLE_WISE,
        .rows = table->rows,
        .columns = table->dim,
    };
    if (table->sharding.kernels.count > 0) {
        LS_TRY(ls_planner_kernel_parse(&out->kernel, table->sharding.kernels.at[0]));
    }
    if (out->sharding == LS_DATA_PARALLEL) {
        return place_data_parallel(&builder, table, out);
    }
    ls_sharding_traits of = ls_sharding_traits_of(out->sharding);
    switch (of.rows) {
    case LS_OVER_WORLD:
        return place_row_wise(&builder, table, out);
    case LS_OVER_HOST:
        return of.columns ? place_grid(&builder, table, out)
                          : place_table_row_wise(&builder, table, out);
    case LS_OVER_ONE:
        break;
    }
    return of.columns ? place_column_wise(&builder, table, out)
                      : place_table_wise(&builder, table, out);
}

bool ls_scenario_layout_given(const ls_scenario_table *table) {
    const ls_scenario_sharding *sharding = &table->sharding;
    return sharding->plan != NULL || sharding->ranks.count > 0 || sharding->sizes.count > 0 ||
           sharding->columns > 0 || sharding->host >= 0;
}

int ls_scenario_layout_check(const ls_plan_table *placed, const ls_scenario *scenario,
                             const ls_scenario_table *table) {
    for (int i = 0; i < placed->shard_count && table->sharding.allow_broken; i++) {
        const ls_plan_shard *block = &placed->shards[i];
        bool rows =
            block->row_offset > table->rows || block->rows > table->rows - block->row_offset;
        if (rows || block->column_offset > table->dim ||
            block->columns > table->dim - block->column_offset) {
            ls_mark mark = ls_node_mark(&table->sharding.node, "sizes");
            return LS_FAIL(
                LS_ERR_INVALID,
                "%s:%d:%d: sizes: block %d of table %s has %lld %s from %lld on, but the "
                "table has %lld",
                scenario->file, mark.line, mark.column, i, table->name,
                (long long)(rows ? block->rows : block->columns), rows ? "rows" : "columns",
                (long long)(rows ? block->row_offset : block->column_offset),
                (long long)(rows ? table->rows : table->dim));
        }
    }
    return LS_OK;
}
