// The problem as a whole: checks and copies the caller's input, and returns it.
#include "planner/problem.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

// ---- Checking -----------------------------------------------------------------------------------

static int check_number(const char *table, const char *field, double value, double least,
                        double most) {
    if (!(value >= least && value <= most)) {
        return LS_FAIL(LS_ERR_INVALID, "plan: table %s: %s is %g; it must be %g to %g", table,
                       field, value, least, most);
    }
    return LS_OK;
}

static int check_ranks(const char *table, const int *ranks, int count, int world) {
    LS_ASSERT(count == 0 || ranks);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= world) {
            return LS_FAIL(LS_ERR_INVALID, "plan: table %s: rank %d is not one of 0 to %d", table,
                           ranks[i], world - 1);
        }
    }
    return LS_OK;
}

// A layout's blocks lie inside the table and on ranks of the world, or on none at all and then in
// the way that the sharding type can be placed. Whether they tile the table is not asked: a broken
// layout can be priced, too.
static int check_layout(const ls_planner_table *table, const ls_topology *topology) {
    const ls_plan_table *layout = table->layout;
    const char *name = table->name;
    int64_t rows = table->rows;
    int64_t columns = table->columns;
    LS_TRY(check_number(name, "shards of the layout", layout->shard_count, 1, 1 << 24));
    LS_ASSERT(layout->shards);
    bool pinned = layout->shards[0].rank >= 0;
    int blocks = 1;  // of columns
    for (int i = 0; i < layout->shard_count; i++) {
        const ls_plan_shard *at = &layout->shards[i];
        LS_TRY(check_number(name, "a rank of the layout", at->rank, pinned ? 0 : -1,
                            pinned ? topology->ranks - 1 : -1));
        bool inside = at->rows >= 0 && at->row_offset >= 0 && at->rows <= rows &&
                      at->row_offset <= rows - at->rows && at->columns >= 1 &&
                      at->column_offset >= 0 && at->columns <= columns &&
                      at->column_offset <= columns - at->columns;
        if (!inside) {
            return LS_FAIL(LS_ERR_INVALID,
                           "plan: table %s: block %d of its layout is not inside it", name, i);
        }
        blocks += i > 0 && at->column_offset != layout->shards[i - 1].column_offset;
    }
    int rows_each =
        layout->sharding == LS_DATA_PARALLEL
            ? topology->ranks
            : ls_sharding_width(layout->sharding, topology->ranks, topology->ranks_per_host);
    if (!pinned && (int64_t)blocks * rows_each != layout->shard_count) {
        return LS_FAIL(LS_ERR_INVALID,
                       "plan: table %s: a %s layout without ranks has %d blocks; it needs %d for "
                       "each column block",
                       name, ls_sharding_name(layout->sharding), layout->shard_count, rows_each);
    }
    return LS_OK;
}

static int check_table(const ls_planner_table *table, const ls_topology *topology) {
    int world = topology->ranks;
    if (!table->name || !table->name[0]) {
        return LS_FAIL(LS_ERR_INVALID, "plan: a table has no name");
    }
    const char *name = table->name;
    LS_TRY(check_number(name, "rows", (double)table->rows, 1, 1099511627776.0));
    LS_TRY(check_number(name, "columns", (double)table->columns, 1, 65536));
    LS_TRY(check_number(name, "element_bytes", table->element_bytes, 1, 8));
    if (table->row_format && ls_row_format_check(table->row_format) != LS_OK) {
        return ls_error_wrap("plan: table %s", name);
    }
    LS_TRY(check_number(name, "output_bytes", table->output_bytes, 0, 8));
    LS_TRY(check_number(name, "columns_min", (double)table->columns_min, 0, 65536));
    LS_TRY(check_number(name, "cache_load_factor", table->cache_load_factor, 0, 1));
    LS_TRY(check_number(name, "features", table->feature_count, 1, LS_PLANNER_FEATURES_MAX));
    LS_ASSERT(table->features);
    for (int i = 0; i < table->feature_count; i++) {
        const ls_planner_feature *feature = &table->features[i];
        LS_TRY(check_number(name, "a feature's pooling", feature->pooling, 0, 1e9));
        LS_TRY(check_number(name, "a feature's poolings", feature->poolings, 0, 1e6));
        LS_TRY(check_number(name, "a feature's batch", feature->batch, 0, 1e9));
    }
    if (table->optimizer) {
        ls_planner_optimizer optimizer;
        if (ls_planner_optimizer_find(&optimizer, table->optimizer) != LS_OK) {
            return ls_error_wrap("plan: table %s", name);
        }
    }
    if (table->profile) {
        double sum = 0.0;
        for (int i = 0; i < LS_PLANNER_PROFILE_BINS; i++) {
            LS_TRY(check_number(name, "a profile's share", table->profile->ids[i], 0, 1));
            sum += table->profile->ids[i];
        }
        LS_TRY(check_number(name, "the sum of a profile's shares", sum, 0.999999, 1.000001));
        LS_TRY(check_number(name, "a profile's distinct share", table->profile->distinct, 0, 1));
    }
    if (table->layout) {
        LS_TRY(check_layout(table, topology));
    }
    LS_TRY(check_ranks(name, table->ranks, table->rank_count, world));
    return check_ranks(name, table->forbidden, table->forbidden_count, world);
}

static int check_options(const ls_planner_options *options) {
    if (!(options->reserve_share >= 0.0 && options->reserve_share < 1.0)) {
        return LS_FAIL(LS_ERR_INVALID, "plan: reserve_share is %g; it must be in [0, 1)",
                       options->reserve_share);
    }
    if (!(options->overlap >= 0.0 && options->overlap <= 1.0)) {
        return LS_FAIL(LS_ERR_INVALID, "plan: overlap is %g; it must be in [0, 1]",
                       options->overlap);
    }
    if (options->reserve_bytes < 0 || options->nodes_max < 0 || options->pipeline_depth < 0 ||
        options->pipeline_depth > 64 || !(options->seconds_max >= 0.0) ||
        !(options->gap_goal >= 0.0)) {
        return LS_FAIL(LS_ERR_INVALID, "plan: an option is negative or out of range");
    }
    return LS_OK;
}

// ---- Copying ------------------------------------------------------------------------------------

static int copy_table(ls_planner_table *out, const ls_planner_table *in, ls_arena *arena) {
    *out = *in;
    out->name = ls_arena_strdup(arena, in->name);
    out->features =
        ls_arena_copy(arena, in->features, (size_t)in->feature_count * sizeof(*in->features));
    bool ok = out->name && out->features;
    if (in->optimizer) {
        ok = (out->optimizer = ls_arena_strdup(arena, in->optimizer)) && ok;
    }
    if (in->profile) {
        ok = (out->profile = ls_arena_copy(arena, in->profile, sizeof(*in->profile))) && ok;
    }
    if (in->row_format) {
        size_t bytes = sizeof(*in->row_format);
        ok = (out->row_format = ls_arena_copy(arena, in->row_format, bytes)) && ok;
    }
    if (in->rank_count) {
        size_t bytes = (size_t)in->rank_count * sizeof(int);
        ok = (out->ranks = ls_arena_copy(arena, in->ranks, bytes)) && ok;
    }
    if (in->forbidden_count) {
        size_t bytes = (size_t)in->forbidden_count * sizeof(int);
        ok = (out->forbidden = ls_arena_copy(arena, in->forbidden, bytes)) && ok;
    }
    if (in->layout) {
        ls_plan_table *layout = ls_arena_copy(arena, in->layout, sizeof(*layout));
        size_t bytes = (size_t)in->layout->shard_count * sizeof(*layout->shards);
        ok = layout && (layout->shards = ls_arena_copy(arena, layout->shards, bytes)) && ok;
        out->layout = layout;
    }
    if (in->together) {
        ok = (out->together = ls_arena_strdup(arena, in->together)) && ok;
    }
    if (in->apart) {
        ok = (out->apart = ls_arena_strdup(arena, in->apart)) && ok;
    }
    return ok ? LS_OK : LS_ERR_MEMORY;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const ls_planner_table *const *)a)->name,
                  (*(const ls_planner_table *const *)b)->name);
}

static int check_names(const ls_planner_problem *problem) {
    const ls_planner_table **sorted =
        ls_arena_alloc(problem->arena, (size_t)problem->table_count, sizeof(*sorted));
    LS_TRY_MEMORY(sorted != NULL);
    for (int i = 0; i < problem->table_count; i++) {
        sorted[i] = &problem->tables[i];
    }
    qsort(sorted, (size_t)problem->table_count, sizeof(*sorted), compare_names);
    for (int i = 1; i < problem->table_count; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            return LS_FAIL(LS_ERR_INVALID, "plan: two tables are called %s", sorted[i]->name);
        }
    }
    return LS_OK;
}

static int set_capacities(ls_planner_problem *problem) {
    const ls_topology *topology = &problem->topology;
    const ls_planner_options *options = &problem->options;
    problem->ranks = topology->ranks;
    problem->group = topology->ranks_per_host;
    problem->hosts = topology->ranks / topology->ranks_per_host;
    problem->pools = topology->ddr_shared ? problem->hosts : problem->ranks;
    double kept = (double)topology->hbm_bytes * (1.0 - options->reserve_share);
    problem->hbm_capacity = (int64_t)kept - options->reserve_bytes;
    problem->ddr_capacity =
        topology->ddr_shared ? topology->ddr_bytes * problem->group : topology->ddr_bytes;
    if (problem->hbm_capacity < 0) {
        return LS_FAIL(
            LS_ERR_INVALID,
            "plan: the reservation is %lld bytes more than the %lld bytes of device memory",
            (long long)-problem->hbm_capacity, (long long)topology->hbm_bytes);
    }
    return LS_OK;
}

static int fill(ls_planner_problem *problem, const ls_planner_table *tables) {
    LS_TRY(set_capacities(problem));
    size_t count = (size_t)problem->table_count;
    problem->tables = ls_arena_alloc(problem->arena, count, sizeof(*problem->tables));
    problem->table_options = ls_arena_alloc(problem->arena, count, sizeof(*problem->table_options));
    problem->option_counts = ls_arena_alloc(problem->arena, count, sizeof(*problem->option_counts));
    LS_TRY_MEMORY(problem->tables != NULL && problem->table_options != NULL &&
                  problem->option_counts != NULL);
    for (int i = 0; i < problem->table_count; i++) {
        LS_TRY(check_table(&tables[i], &problem->topology));
        LS_TRY(copy_table(&problem->tables[i], &tables[i], problem->arena));
    }
    LS_TRY(check_names(problem));
    LS_TRY(ls_problem__enumerate(problem));
    return ls_problem__items(problem);
}

int ls_planner_problem_create(ls_planner_problem **out, const ls_topology *topology,
                              const ls_planner_table *tables, int table_count,
                              const ls_planner_options *given) {
    LS_ASSERT(out && topology && given);
    *out = NULL;
    ls_planner_options own;
    const ls_planner_options *options = &own;
    LS_TRY(ls_options_take(&own, sizeof own, given));
    if (table_count < 1 || table_count > LS_PLANNER_TABLES_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "plan: %d tables; there must be 1 to %d", table_count,
                       LS_PLANNER_TABLES_MAX);
    }
    LS_ASSERT(tables);
    LS_TRY(ls_topology_check(topology));
    LS_TRY(check_options(options));
    double started = ls_time_now();
    ls_arena *arena = NULL;
    ls_planner_problem *problem = ls_arena_create_with(&arena, sizeof(*problem));
    LS_TRY_MEMORY(problem != NULL);
    problem->arena = arena;
    problem->topology = *topology;
    problem->options = *options;
    problem->table_count = table_count;
    problem->deadline = options->seconds_max > 0.0 ? started + options->seconds_max : 0.0;
    int status = fill(problem, tables);
    if (status != LS_OK) {
        ls_arena_free(arena);
        return status;
    }
    problem->create_seconds = ls_time_now() - started;
    *out = problem;
    return LS_OK;
}

void ls_planner_problem_free(ls_planner_problem *problem) {
    if (problem) {
        ls_arena_free(problem->arena);
    }
}

int ls_planner_table_count(const ls_planner_problem *problem) {
    return problem->table_count;
}

const ls_planner_table *ls_planner_tables(const ls_planner_problem *problem) {
    return problem->tables;
}

const ls_topology *ls_planner_topology(const ls_planner_problem *problem) {
    return &problem->topology;
}

int ls_planner_option_count(const ls_planner_problem *problem, int table) {
    LS_ASSERT(table >= 0 && table < problem->table_count);
    return problem->option_counts[table];
}

const ls_planner_option *ls_planner_option_at(const ls_planner_problem *problem, int table,
                                              int index) {
    LS_ASSERT(index >= 0 && index < ls_planner_option_count(problem, table));
    return &problem->table_options[table][index];
}
