// Every way to cut each table that its constraints allow, with what each block costs.
#include "planner/problem.h"

#include <math.h>

#define WIDTHS_MAX     8   // column widths tried for one table
#define COLUMN_MINIMUM 32  // least width we choose by ourselves: narrower rows waste memory reads

static unsigned default_shardings(const ls_planner_problem *problem,
                                  const ls_planner_table *table) {
    unsigned mask = (1u << LS_SHARDING_COUNT) - 1u;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        ls_sharding_traits of = ls_sharding_traits_of((ls_sharding)s);
        bool both_ways = of.columns && of.rows != LS_OVER_ONE;
        // On one host what stays within it is row wise or column wise by another name.
        bool twin = of.one_host && problem->hosts == 1 && !problem->options.torchrec_options;
        mask &= both_ways || twin ? ~(1u << s) : ~0u;
    }
    return table->shardings ? table->shardings : mask;
}

static bool type_possible(const ls_planner_table *table, ls_sharding sharding) {
    if (table->sequence) {  // no outputs to sum, so nothing is cut inside a host
        ls_sharding_traits of = ls_sharding_traits_of(sharding);
        return of.rows != LS_OVER_HOST && !of.one_host;
    }
    return true;
}

// widths [WIDTHS_MAX] of column blocks to try, widest first; returns how many.
static int column_widths(int64_t *widths, const ls_planner_problem *problem,
                         const ls_planner_table *table, ls_sharding sharding, unsigned mask) {
    int64_t columns = table->columns;
    if (!ls_sharding_traits_of(sharding).columns) {
        widths[0] = columns;
        return 1;
    }
    if (problem->options.torchrec_options) {
        widths[0] = ls_plan_column_block(columns, table->columns_min);
        return 1;
    }
    int64_t least = table->columns_min ? table->columns_min : COLUMN_MINIMUM;
    int count = 0;
    for (int64_t blocks = 2; blocks <= columns / least && count < WIDTHS_MAX; blocks++) {
        if (columns % blocks == 0 && columns / blocks % 4 == 0) {
            widths[count++] = columns / blocks;
        }
    }
    // A table too narrow to cut is still placed when nothing else is allowed.
    bool both_ways = ls_sharding_traits_of(sharding).rows != LS_OVER_ONE;
    if (count == 0 && (both_ways || !(mask & (1u << LS_TABLE_WISE)))) {
        widths[count++] = columns;
    }
    return count;
}

static int row_blocks(const ls_planner_problem *problem, ls_sharding sharding) {
    return sharding == LS_DATA_PARALLEL
               ? problem->ranks  // copies
               : ls_sharding_width(sharding, problem->ranks, problem->group);
}

static void estimate(ls_planner_shard *shard, const ls_cost_context *context,
                     const ls_planner_option *option) {
    if (context->options->model == LS_PLANNER_TORCHREC) {
        ls_cost__torchrec(&shard->cost, context, option->sharding, option->kernel,
                          shard->block.rows, shard->block.columns);
    } else {
        ls_cost__lockstep(&shard->cost, context, option->sharding, option->kernel,
                          shard->block.row_offset, shard->block.rows, shard->block.columns);
    }
    ls_cost__storage(shard, context, option->sharding, option->kernel);
}

static int make_option(ls_planner_option *out, ls_planner_problem *problem,
                       const ls_cost_context *context, int64_t width) {
    const ls_planner_table *table = context->table;
    int blocks = row_blocks(problem, out->sharding);
    out->column_blocks = (int)(table->columns / width);
    out->shard_count = out->column_blocks * blocks;
    out->shards = ls_arena_alloc(problem->arena, (size_t)out->shard_count, sizeof(*out->shards));
    int64_t *cuts = ls_arena_alloc(problem->arena, 2 * (size_t)blocks, sizeof(*cuts));
    LS_TRY_MEMORY(out->shards != NULL && cuts != NULL);
    bool whole = out->sharding == LS_DATA_PARALLEL;
    ls_plan_split_rows(cuts, cuts + blocks, table->rows, blocks);
    for (int i = 0; i < out->shard_count; i++) {
        ls_planner_shard *shard = &out->shards[i];
        int row = i % blocks;
        // Copies, and the column blocks of the same rows, cost the same.
        int like = whole ? 0 : row;
        if (like < i) {
            *shard = out->shards[like];
            shard->block.column_offset = i / blocks * width;
            continue;
        }
        shard->block = (ls_plan_shard){
            .rank = -1,
            .row_offset = whole ? 0 : cuts[row],
            .rows = whole ? table->rows : cuts[blocks + row],
            .column_offset = i / blocks * width,
            .columns = width,
        };
        estimate(shard, context, out);
    }
    return LS_OK;
}

static bool kernel_possible(const ls_planner_table *table, ls_sharding sharding,
                            ls_planner_kernel kernel) {
    if ((sharding == LS_DATA_PARALLEL) != (kernel == LS_PLANNER_DENSE)) {
        return false;
    }
    return !table->kernels || (table->kernels & (1u << kernel));
}

// The ranks that a table may use, ascending: ranks [problem->ranks]; returns their number.
static int allowed_ranks(int *ranks, const ls_planner_problem *problem,
                         const ls_planner_table *table) {
    int count = 0;
    for (int r = 0; r < problem->ranks; r++) {
        bool allowed = table->rank_count == 0;
        for (int i = 0; i < table->rank_count; i++) {
            allowed = allowed || table->ranks[i] == r;
        }
        for (int i = 0; i < table->forbidden_count; i++) {
            allowed = allowed && table->forbidden[i] != r;
        }
        if (allowed) {
            ranks[count++] = r;
        }
    }
    return count;
}

// Row wise over the ranks that the table may use, if those are not all.
static int pin_row_wise(ls_planner_option *out, ls_planner_problem *problem,
                        const ls_cost_context *context) {
    const ls_planner_table *table = context->table;
    int *ranks = ls_arena_alloc(problem->arena, (size_t)problem->ranks, sizeof(*ranks));
    LS_TRY_MEMORY(ranks != NULL);
    int count = allowed_ranks(ranks, problem, table);
    if (count == 0 || count == problem->ranks) {
        return LS_OK;
    }
    int64_t *cuts = ls_arena_alloc(problem->arena, 2 * (size_t)count, sizeof(*cuts));
    out->shards = ls_arena_alloc(problem->arena, (size_t)count, sizeof(*out->shards));
    LS_TRY_MEMORY(cuts != NULL && out->shards != NULL);
    out->pinned = true;
    out->column_blocks = 1;
    out->shard_count = count;
    ls_plan_split_rows(cuts, cuts + count, table->rows, count);
    for (int i = 0; i < count; i++) {
        out->shards[i].block = (ls_plan_shard){.rank = ranks[i],
                                               .row_offset = cuts[i],
                                               .rows = cuts[count + i],
                                               .columns = table->columns};
        estimate(&out->shards[i], context, out);
    }
    return LS_OK;
}

// The one option of a table whose blocks are given.
static int enumerate_layout(ls_planner_problem *problem, int index) {
    const ls_planner_table *table = &problem->tables[index];
    const ls_plan_table *layout = table->layout;
    ls_planner_option *option = ls_arena_alloc(problem->arena, 1, sizeof(*option));
    ls_planner_shard *shards =
        ls_arena_alloc(problem->arena, (size_t)layout->shard_count, sizeof(*shards));
    LS_TRY_MEMORY(option != NULL && shards != NULL);
    *option = (ls_planner_option){.table = index,
                                  .sharding = layout->sharding,
                                  .kernel = layout->sharding == LS_DATA_PARALLEL ? LS_PLANNER_DENSE
                                                                                 : layout->kernel,
                                  .column_blocks = 1,
                                  .shard_count = layout->shard_count,
                                  .shards = shards,
                                  .pinned = layout->shards[0].rank >= 0};
    ls_cost_context context;
    ls_cost__context(&context, &problem->topology, &problem->options, table);
    for (int i = 0; i < layout->shard_count; i++) {
        shards[i].block = layout->shards[i];
        option->column_blocks +=
            i > 0 && shards[i].block.column_offset != shards[i - 1].block.column_offset;
        estimate(&shards[i], &context, option);
    }
    problem->table_options[index] = option;
    problem->option_counts[index] = 1;
    return LS_OK;
}

// Reports for each sharding type that the constraints leave why it has no option.
static int fail_constraints(const ls_planner_problem *problem, const ls_planner_table *table,
                            unsigned mask) {
    ls_text why = {0};
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        ls_sharding sharding = (ls_sharding)s;
        int64_t widths[WIDTHS_MAX];
        if (!(mask & (1u << s))) {
            continue;
        }
        ls_text_printf(&why, "%s%s ", why.length ? "; " : "", ls_sharding_name(sharding));
        if (!type_possible(table, sharding)) {
            ls_text_puts(&why, "is not for tables without pooling (sequence)");
        } else if (column_widths(widths, problem, table, sharding, mask) == 0) {
            ls_text_printf(&why, "has no blocks of %lld columns or more (columns_min)",
                           (long long)table->columns_min);
        } else {
            ls_text_puts(&why, sharding == LS_DATA_PARALLEL
                                   ? "takes the kernel dense alone (kernels)"
                                   : "does not take dense (kernels)");
        }
    }
    int status =
        LS_FAIL(LS_ERR_NOT_FOUND, "plan: table %s: nothing satisfies its constraints: %s",
                table->name, why.length ? ls_text_string(&why) : "no sharding type is left");
    ls_text_free(&why);
    return status;
}

static int enumerate_table(ls_planner_problem *problem, int index) {
    const ls_planner_table *table = &problem->tables[index];
    if (table->layout) {
        return enumerate_layout(problem, index);
    }
    bool some_ranks = table->rank_count || table->forbidden_count;
    ls_cost_context context;
    ls_cost__context(&context, &problem->topology, &problem->options, table);
    unsigned mask = default_shardings(problem, table);
    size_t most = (size_t)LS_SHARDING_COUNT * LS_PLANNER_KERNEL_COUNT * WIDTHS_MAX;
    ls_planner_option *options = ls_arena_alloc(problem->arena, most, sizeof(*options));
    LS_TRY_MEMORY(options != NULL);
    int count = 0;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        ls_sharding sharding = (ls_sharding)s;
        if (!(mask & (1u << s)) || !type_possible(table, sharding)) {
            continue;
        }
        int64_t widths[WIDTHS_MAX];
        int width_count = column_widths(widths, problem, table, sharding, mask);
        for (int k = 0; k < LS_PLANNER_KERNEL_COUNT; k++) {
            if (!kernel_possible(table, sharding, (ls_planner_kernel)k)) {
                continue;
            }
            for (int w = 0; w < width_count; w++) {
                ls_planner_option *option = &options[count];
                option->table = index;
                option->sharding = sharding;
                option->kernel = (ls_planner_kernel)k;
                if (some_ranks && sharding == LS_ROW_WISE && !problem->options.torchrec_options) {
                    LS_TRY(pin_row_wise(option, problem, &context));
                }
                if (!option->pinned) {
                    LS_TRY(make_option(option, problem, &context, widths[w]));
                }
                count++;
            }
        }
    }
    problem->table_options[index] = options;
    problem->option_counts[index] = count;
    return count > 0 ? LS_OK : fail_constraints(problem, table, mask);
}

int ls_problem__enumerate(ls_planner_problem *problem) {
    if (problem->options.model == LS_PLANNER_LOCKSTEP) {
        for (int s = 0; s < LS_SHARDING_COUNT; s++) {
            ls_cost_context context;
            // Any table of a group starts the same collectives; the costliest kind decides.
            for (int i = 0; i < problem->table_count; i++) {
                ls_cost__context(&context, &problem->topology, &problem->options,
                                 &problem->tables[i]);
                ls_cost_startup parts;
                ls_cost__lockstep_startup(&parts, &context, (ls_sharding)s);
                double ms = parts.input + parts.output + parts.gradient;
                if (ms > problem->startup_ms[s]) {
                    problem->startup_ms[s] = ms;
                    problem->startup_parts[s] = parts;
                }
            }
        }
    }
    for (int i = 0; i < problem->table_count; i++) {
        LS_TRY(ls_problem__in_time(problem, i));
        LS_TRY(enumerate_table(problem, i));
        for (int k = 0; k < problem->option_counts[i]; k++) {
            problem->create_looks += problem->table_options[i][k].shard_count;
        }
    }
    return LS_OK;
}
