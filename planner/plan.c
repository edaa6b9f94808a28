// Plans as data: names of sharding types, the rules that shard tables, and the check that a plan
// holds every element of every table exactly where its sharding type requires.
#include "planner/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"

static const char *const sharding_names[LS_SHARDING_COUNT] = {
#define LS_SHARDING_TEXT(name, text, ...) [name] = (text),
    LS_SHARDING_MAP(LS_SHARDING_TEXT)
#undef LS_SHARDING_TEXT
};

static const ls_sharding_traits traits_of[LS_SHARDING_COUNT] = {
#define LS_SHARDING_TRAITS(name, text, torchrec, rows, columns, one_host)                          \
    [name] = {torchrec, rows, columns, one_host},
    LS_SHARDING_MAP(LS_SHARDING_TRAITS)
#undef LS_SHARDING_TRAITS
};

static const char *const kernel_names[LS_PLANNER_KERNEL_COUNT] = {
#define LS_PLANNER_KERNEL_TEXT(name, value, text) [name] = (text),
    LS_PLANNER_KERNEL_MAP(LS_PLANNER_KERNEL_TEXT)
#undef LS_PLANNER_KERNEL_TEXT
};

ls_sharding_traits ls_sharding_traits_of(ls_sharding sharding) {
    LS_ASSERT((unsigned)sharding < LS_SHARDING_COUNT);
    return traits_of[sharding];
}

int ls_sharding_width(ls_sharding sharding, int ranks, int ranks_per_host) {
    ls_over rows = ls_sharding_traits_of(sharding).rows;
    if (rows == LS_OVER_WORLD) {
        return ranks;
    }
    return rows == LS_OVER_HOST ? ranks_per_host : 1;
}

const char *ls_sharding_name(ls_sharding sharding) {
    LS_ASSERT((unsigned)sharding < LS_SHARDING_COUNT);
    return sharding_names[sharding];
}

static int parse_name(int *out, const char *text, const char *what, const char *const *names,
                      int count) {
    LS_ASSERT(text);
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return LS_OK;
        }
    }
    const char *near = ls_nearest(text, names, (size_t)count);
    return LS_FAIL(LS_ERR_NOT_FOUND, "no %s is called \"%s\"%s%s%s", what, text,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

int ls_sharding_parse(ls_sharding *out, const char *text) {
    int found = 0;
    LS_TRY(parse_name(&found, text, "sharding type", sharding_names, LS_SHARDING_COUNT));
    *out = (ls_sharding)found;
    return LS_OK;
}

const char *ls_planner_kernel_name(ls_planner_kernel kernel) {
    LS_ASSERT((unsigned)kernel < LS_PLANNER_KERNEL_COUNT);
    return kernel_names[kernel];
}

int ls_planner_kernel_parse(ls_planner_kernel *out, const char *text) {
    int found = 0;
    LS_TRY(parse_name(&found, text, "kernel", kernel_names, LS_PLANNER_KERNEL_COUNT));
    *out = (ls_planner_kernel)found;
    return LS_OK;
}

void ls_plan_split_rows(int64_t *offsets, int64_t *sizes, int64_t rows, int count) {
    LS_ASSERT(offsets && sizes);
    LS_ASSERT(rows >= 0 && count >= 1);
    int64_t block = rows / count + (rows % count != 0);
    int64_t offset = 0;
    for (int i = 0; i < count; i++) {
        int64_t left = rows - offset;
        offsets[i] = offset;
        sizes[i] = left < block ? left : block;
        offset += sizes[i];
    }
    LS_ASSERT(offset == rows);
}

int64_t ls_plan_column_block(int64_t columns, int64_t minimum) {
    LS_ASSERT(columns >= 0 && minimum >= 0);
    int64_t least = minimum ? minimum : LS_PLAN_COLUMN_MINIMUM;
    int64_t best = columns;
    // Divisors come in pairs, so looking up to the square root finds all of them.
    for (int64_t i = 1; i <= columns / i; i++) {
        if (columns % i != 0) {
            continue;
        }
        int64_t pair[2] = {i, columns / i};
        for (int k = 0; k < 2; k++) {
            if (pair[k] >= least && pair[k] % 4 == 0 && pair[k] < best) {
                best = pair[k];
            }
        }
    }
    return best;
}

// ---- The check ----------------------------------------------------------------------------------

static int check_shard(const ls_plan *plan, const ls_plan_table *table, int index) {
    const ls_plan_shard *shard = &table->shards[index];
    if (shard->rank < 0 || shard->rank >= plan->ranks) {
        return LS_FAIL(LS_ERR_INVALID,
                       "plan: table %s: shard %d is on rank %d, and ranks are 0 to %d", table->name,
                       index, shard->rank, plan->ranks - 1);
    }
    bool rows_ok = shard->row_offset >= 0 && shard->rows >= 0 && shard->rows <= table->rows &&
                   shard->row_offset <= table->rows - shard->rows;
    if (!rows_ok) {
        return LS_FAIL_RANK(
            LS_ERR_INVALID, shard->rank,
            "plan: table %s: shard %d on rank %d holds %lld rows from %lld on, and the "
            "table has %lld",
            table->name, index, shard->rank, (long long)shard->rows, (long long)shard->row_offset,
            (long long)table->rows);
    }
    bool columns_ok = shard->column_offset >= 0 && shard->columns >= 1 &&
                      shard->columns <= table->columns &&
                      shard->column_offset <= table->columns - shard->columns;
    if (!columns_ok) {
        return LS_FAIL_RANK(
            LS_ERR_INVALID, shard->rank,
            "plan: table %s: shard %d on rank %d holds %lld columns from %lld on, and "
            "the table has %lld",
            table->name, index, shard->rank, (long long)shard->columns,
            (long long)shard->column_offset, (long long)table->columns);
    }
    return LS_OK;
}

// Every rank holds the whole table, in rank order.
static int check_data_parallel(const ls_plan *plan, const ls_plan_table *table) {
    if (table->shard_count != plan->ranks) {
        return LS_FAIL(LS_ERR_INVALID,
                       "plan: table %s: data_parallel needs one copy per rank, %d, and has %d",
                       table->name, plan->ranks, table->shard_count);
    }
    for (int i = 0; i < table->shard_count; i++) {
        const ls_plan_shard *shard = &table->shards[i];
        if (shard->rank != i) {
            return LS_FAIL_RANK(LS_ERR_INVALID, shard->rank,
                                "plan: table %s: copy %d of a data_parallel table is on rank %d; "
                                "copies must be in rank order, one each",
                                table->name, i, shard->rank);
        }
        if (shard->rows != table->rows || shard->columns != table->columns) {
            return LS_FAIL_RANK(
                LS_ERR_INVALID, shard->rank,
                "plan: table %s: rank %d holds %lld x %lld of a data_parallel table "
                "of %lld x %lld",
                table->name, shard->rank, (long long)shard->rows, (long long)shard->columns,
                (long long)table->rows, (long long)table->columns);
        }
    }
    return LS_OK;
}

// "row 3 is", "rows 3 to 5 are": of [low, high).
static void format_range(char *out, size_t size, const char *what, int64_t low, int64_t high) {
    if (high - low == 1) {
        (void)snprintf(out, size, "%s %lld is", what, (long long)low);
    } else {
        (void)snprintf(out, size, "%ss %lld to %lld are", what, (long long)low,
                       (long long)high - 1);
    }
}

// Shard `index` of `size` rows or columns begins at `at` instead of at `next`.
static int fail_tiling(const ls_plan_table *table, const char *what, int index, int64_t next,
                       int64_t at, int64_t size) {
    int rank = table->shards[index].rank;
    char range[96] = "";
    if (at > next) {
        format_range(range, sizeof range, what, next, at);
    } else if (size > 0) {
        format_range(range, sizeof range, what, at, at + size < next ? at + size : next);
    }
    const char *how = at > next ? " on no rank: " : "";
    how = at < next && size > 0 ? " in two shards: " : how;
    return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                        "plan: table %s: %s%sshard %d on rank %d begins at %s %lld, expected %lld",
                        table->name, range, how, index, rank, what, (long long)at, (long long)next);
}

// No shard holds the rows or columns from `next` on.
static int fail_end(const ls_plan_table *table, const char *what, int64_t next, int64_t end) {
    char range[96];
    format_range(range, sizeof range, what, next, end);
    return LS_FAIL(LS_ERR_INVALID, "plan: table %s: %s on no rank", table->name, range);
}

// The shards [first, end) hold the same columns; their row blocks must follow one another and fill
// the table, on ascending ranks.
static int check_rows(const ls_plan_table *table, int first, int end) {
    int64_t next = 0;
    for (int i = first; i < end; i++) {
        const ls_plan_shard *shard = &table->shards[i];
        if (shard->row_offset != next) {
            return fail_tiling(table, "row", i, next, shard->row_offset, shard->rows);
        }
        if (shard->columns != table->shards[first].columns) {
            return LS_FAIL_RANK(
                LS_ERR_INVALID, shard->rank,
                "plan: table %s: shard %d on rank %d is %lld columns wide, and the row "
                "block before it %lld",
                table->name, i, shard->rank, (long long)shard->columns,
                (long long)table->shards[first].columns);
        }
        if (i > first && shard->rank <= table->shards[i - 1].rank) {
            return LS_FAIL_RANK(LS_ERR_INVALID, shard->rank,
                                "plan: table %s: row blocks must be on ascending ranks, but rank "
                                "%d follows rank %d",
                                table->name, shard->rank, table->shards[i - 1].rank);
        }
        next += shard->rows;
    }
    if (next != table->rows) {
        return fail_end(table, "row", next, table->rows);
    }
    return LS_OK;
}

// Limits of each sharding type beyond tiling: how many blocks in either direction, and that the
// host-wise ones stay on one host. first, end: the shards of one column block.
static int check_type(const ls_plan *plan, const ls_plan_table *table, int first, int end) {
    ls_sharding sharding = table->sharding;
    const char *type = ls_sharding_name(sharding);
    ls_sharding_traits traits = ls_sharding_traits_of(sharding);
    if (!traits.columns && table->shards[first].columns != table->columns) {
        return LS_FAIL(LS_ERR_INVALID,
                       "plan: table %s: %s does not cut columns, and shard %d holds %lld of %lld",
                       table->name, type, first, (long long)table->shards[first].columns,
                       (long long)table->columns);
    }
    if (traits.rows == LS_OVER_ONE && end - first != 1) {
        return LS_FAIL(LS_ERR_INVALID,
                       "plan: table %s: %s does not cut rows, and columns from %lld on "
                       "are in %d row blocks",
                       table->name, type, (long long)table->shards[first].column_offset,
                       end - first);
    }
    bool host_wise = traits.one_host;
    if (!host_wise && traits.rows != LS_OVER_HOST) {
        return LS_OK;
    }
    int host = table->shards[host_wise ? 0 : first].rank / plan->ranks_per_host;
    for (int i = first; i < end; i++) {
        if (table->shards[i].rank / plan->ranks_per_host != host) {
            return LS_FAIL_RANK(
                LS_ERR_INVALID, table->shards[i].rank,
                "plan: table %s: %s keeps %s on one host, and rank %d is not on host %d",
                table->name, type, host_wise ? "a table" : "a column block", table->shards[i].rank,
                host);
        }
    }
    return LS_OK;
}

static int check_table(const ls_plan *plan, const ls_plan_table *table) {
    if (!table->name || !table->name[0]) {
        return LS_FAIL(LS_ERR_INVALID, "plan: a table has no name");
    }
    if ((unsigned)table->sharding >= LS_SHARDING_COUNT) {
        return LS_FAIL(LS_ERR_INVALID, "plan: table %s: unknown sharding type %d", table->name,
                       (int)table->sharding);
    }
    if ((unsigned)table->kernel >= LS_PLANNER_KERNEL_COUNT) {
        return LS_FAIL(LS_ERR_INVALID, "plan: table %s: unknown kernel %d", table->name,
                       (int)table->kernel);
    }
    if (table->rows < 1 || table->columns < 1 || table->shard_count < 1 || !table->shards) {
        return LS_FAIL(
            LS_ERR_INVALID,
            "plan: table %s: %lld rows, %lld columns and %d shards; each must be at least 1",
            table->name, (long long)table->rows, (long long)table->columns, table->shard_count);
    }
    for (int i = 0; i < table->shard_count; i++) {
        LS_TRY(check_shard(plan, table, i));
    }
    if (table->sharding == LS_DATA_PARALLEL) {
        return check_data_parallel(plan, table);
    }
    int64_t next = 0;
    for (int first = 0, end; first < table->shard_count; first = end) {
        const ls_plan_shard *shard = &table->shards[first];
        for (end = first + 1; end < table->shard_count; end++) {
            if (table->shards[end].column_offset != shard->column_offset) {
                break;
            }
        }
        if (shard->column_offset != next) {
            return fail_tiling(table, "column", first, next, shard->column_offset, shard->columns);
        }
        LS_TRY(check_type(plan, table, first, end));
        LS_TRY(check_rows(table, first, end));
        next += shard->columns;
    }
    if (next != table->columns) {
        return fail_end(table, "column", next, table->columns);
    }
    return LS_OK;
}

static int compare_shards(const void *a, const void *b) {
    const ls_plan_shard *x = a, *y = b;
    int order = ls_compare(x->column_offset, y->column_offset);
    order = order != 0 ? order : ls_compare(x->row_offset, y->row_offset);
    return order != 0 ? order : ls_compare(x->rank, y->rank);
}

void ls_plan_sort_shards(ls_plan_table *table) {
    LS_ASSERT(table->shards || table->shard_count == 0);
    if (table->shard_count > 1) {
        qsort(table->shards, (size_t)table->shard_count, sizeof(*table->shards), compare_shards);
    }
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const ls_plan *plan) {
    const char **names;
    LS_TRY(ls_alloc((void **)&names, (size_t)plan->table_count, sizeof(*names)));
    for (int i = 0; i < plan->table_count; i++) {
        names[i] = plan->tables[i].name;
    }
    qsort(names, (size_t)plan->table_count, sizeof(*names), compare_names);
    int status = LS_OK;
    for (int i = 1; i < plan->table_count && status == LS_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            status = LS_FAIL(LS_ERR_INVALID, "plan: two tables are called %s", names[i]);
        }
    }
    ls_free(names, (size_t)plan->table_count, sizeof(*names));
    return status;
}

int ls_plan_check(const ls_plan *plan) {
    LS_ASSERT(plan);
    if (plan->ranks < 1 || plan->ranks_per_host < 1 || plan->ranks % plan->ranks_per_host != 0) {
        return LS_FAIL(LS_ERR_INVALID, "plan: %d ranks do not fill hosts of %d", plan->ranks,
                       plan->ranks_per_host);
    }
    if (plan->table_count < 0 || (plan->table_count > 0 && !plan->tables)) {
        return LS_FAIL(LS_ERR_INVALID, "plan: %d tables", plan->table_count);
    }
    for (int i = 0; i < plan->table_count; i++) {
        LS_TRY(check_table(plan, &plan->tables[i]));
    }
    return plan->table_count ? check_names(plan) : LS_OK;
}
