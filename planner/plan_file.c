// The plan file: written by hand or by us, read with positions for every error.
#include "planner/plan_file.h"

#include <string.h>

#include "formats/yaml_read.h"
#include "formats/json.h"

#define RANKS_MAX    LS_TOPOLOGY_RANKS_MAX
#define ROWS_MAX     (INT64_C(1) << 40)
#define COLUMN_MAX   65536
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// ---- Writing ------------------------------------------------------------------------------------

// Any name survives as a double-quoted scalar; JSON's quoting is YAML's.
static void put_quoted(ls_text *out, const char *text) {
    ls_json json;
    ls_json_begin(&json, out, 0);
    ls_json_string(&json, text);
}

int ls_plan_write(ls_text *out, const ls_plan *plan) {
    LS_ASSERT(out && plan);
    ls_text_printf(out, "lockstep_plan: %d\nranks: %d\nranks_per_host: %d\ntables:%s\n",
                   LS_PLAN_FILE_VERSION, plan->ranks, plan->ranks_per_host,
                   plan->table_count ? "" : " []");
    for (int i = 0; i < plan->table_count; i++) {
        const ls_plan_table *table = &plan->tables[i];
        ls_text_puts(out, "  - name: ");
        put_quoted(out, table->name);
        ls_text_printf(out,
                       "\n    rows: %lld\n    columns: %lld\n    sharding: %s\n    kernel: %s\n",
                       (long long)table->rows, (long long)table->columns,
                       ls_sharding_name(table->sharding), ls_planner_kernel_name(table->kernel));
        if (table->sharding == LS_DATA_PARALLEL) {
            continue;  // whole on every rank: there is nothing to say
        }
        ls_text_puts(out, "    shards:\n");
        for (int k = 0; k < table->shard_count; k++) {
            const ls_plan_shard *shard = &table->shards[k];
            ls_text_printf(out, "      - {rank: %d, offset: [%lld, %lld], size: [%lld, %lld]}\n",
                           shard->rank, (long long)shard->row_offset,
                           (long long)shard->column_offset, (long long)shard->rows,
                           (long long)shard->columns);
        }
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the plan's text") : LS_OK;
}

// ---- Reading ------------------------------------------------------------------------------------

static void read_pair(ls_yaml_reader *source, const ls_yaml_node *shard, const char *key,
                      int64_t *rows, int64_t *columns) {
    const ls_yaml_node *pair = ls_yaml_member(source, shard, key, true);
    if (!pair) {
        return;
    }
    if (pair->kind != LS_YAML_SEQUENCE || pair->count != 2) {
        ls_yaml_error(source, pair, "expected [rows, columns]");
        return;
    }
    const ls_yaml_node *first = ls_yaml_first(source->tree, pair);
    ls_yaml_int(source, first, 0, ROWS_MAX, rows);
    ls_yaml_int(source, ls_yaml_next(source->tree, first), 0, COLUMN_MAX, columns);
}

static void read_shard(ls_yaml_reader *source, const ls_yaml_node *node, int ranks,
                       ls_plan_shard *out) {
    static const char *const keys[] = {"rank", "offset", "size"};
    int64_t rank = 0;
    ls_yaml_int(source, ls_yaml_member(source, node, "rank", true), 0, ranks - 1, &rank);
    out->rank = (int)rank;
    read_pair(source, node, "offset", &out->row_offset, &out->column_offset);
    read_pair(source, node, "size", &out->rows, &out->columns);
    ls_yaml_only(source, node, keys, COUNT(keys));
}

static int make_copies(ls_plan_table *table, ls_arena *arena, int ranks) {
    table->shards = ls_arena_alloc(arena, (size_t)ranks, sizeof(*table->shards));
    LS_TRY_MEMORY(table->shards != NULL);
    table->shard_count = ranks;
    for (int r = 0; r < ranks; r++) {
        table->shards[r] = (ls_plan_shard){r, 0, 0, table->rows, table->columns};
    }
    return LS_OK;
}

static int read_shards(ls_yaml_reader *source, const ls_yaml_node *node, ls_plan_table *table,
                       int ranks) {
    bool copies = table->sharding == LS_DATA_PARALLEL;
    const ls_yaml_node *list = ls_yaml_member(source, node, "shards", !copies);
    if (!list) {
        return copies ? make_copies(table, source->arena, ranks) : LS_OK;
    }
    if (list->kind != LS_YAML_SEQUENCE || list->count < 1) {
        ls_yaml_error(source, list, "expected a list of shards");
        return LS_OK;
    }
    table->shards = ls_arena_alloc(source->arena, (size_t)list->count, sizeof(*table->shards));
    LS_TRY_MEMORY(table->shards != NULL);
    for (const ls_yaml_node *child = ls_yaml_first(source->tree, list); child;
         child = ls_yaml_next(source->tree, child)) {
        read_shard(source, child, ranks, &table->shards[table->shard_count++]);
    }
    ls_plan_sort_shards(table);
    return LS_OK;
}

static int read_table(ls_yaml_reader *source, const ls_yaml_node *node, const ls_plan *plan,
                      ls_plan_table *out) {
    static const char *const keys[] = {"name", "rows", "columns", "sharding", "kernel", "shards"};
    int before = ls_yaml_errors(source);
    out->name = ls_yaml_word(source, ls_yaml_member(source, node, "name", true));
    ls_yaml_int(source, ls_yaml_member(source, node, "rows", true), 1, ROWS_MAX, &out->rows);
    ls_yaml_int(source, ls_yaml_member(source, node, "columns", true), 1, COLUMN_MAX,
                &out->columns);
    const ls_yaml_node *sharding = ls_yaml_member(source, node, "sharding", true);
    const char *type = ls_yaml_word(source, sharding);
    if (type && ls_sharding_parse(&out->sharding, type) != LS_OK) {
        ls_yaml_error(source, sharding, "%s", ls_error_last()->text);
    }
    const ls_yaml_node *kernel = ls_yaml_member(source, node, "kernel", false);
    const char *kept = kernel ? ls_yaml_word(source, kernel) : NULL;
    if (kept && ls_planner_kernel_parse(&out->kernel, kept) != LS_OK) {
        ls_yaml_error(source, kernel, "%s", ls_error_last()->text);
    }
    ls_yaml_only(source, node, keys, COUNT(keys));
    LS_TRY(read_shards(source, node, out, plan->ranks));
    if (ls_yaml_errors(source) == before) {
        // Checks only the table here, where its place in the file is known.
        ls_plan alone = {plan->ranks, plan->ranks_per_host, out, 1};
        int status = ls_plan_check(&alone);
        if (status == LS_ERR_MEMORY) {
            return status;
        }
        if (status != LS_OK) {
            ls_yaml_error(source, node, "%s", ls_error_last()->text);
        }
    }
    return LS_OK;
}

// The first table that has an earlier one's name, or NULL. Only for the place of an error.
static const ls_yaml_node *twice_named(const ls_yaml_reader *source, const ls_yaml_node *tables,
                                       const ls_plan *plan) {
    const ls_yaml_node *at = ls_yaml_first(source->tree, tables);
    for (int i = 0; i < plan->table_count; i++, at = ls_yaml_next(source->tree, at)) {
        for (int k = 0; k < i; k++) {
            if (strcmp(plan->tables[i].name, plan->tables[k].name) == 0) {
                return at;
            }
        }
    }
    return NULL;
}

static int read_plan(ls_yaml_reader *source, const ls_yaml_node *root, ls_plan *out) {
    static const char *const keys[] = {"lockstep_plan", "ranks", "ranks_per_host", "tables"};
    int64_t version = 0;
    int64_t ranks = 1;
    int64_t per_host = 1;
    bool known = ls_yaml_int(source, ls_yaml_member(source, root, "lockstep_plan", true),
                             LS_PLAN_FILE_VERSION, LS_PLAN_FILE_VERSION, &version);
    if (!known) {
        return LS_OK;
    }
    const ls_yaml_node *ranks_node = ls_yaml_member(source, root, "ranks", true);
    const ls_yaml_node *hosts_node = ls_yaml_member(source, root, "ranks_per_host", false);
    ls_yaml_int(source, ranks_node, 1, RANKS_MAX, &ranks);
    per_host = ranks;
    if (hosts_node && ls_yaml_int(source, hosts_node, 1, RANKS_MAX, &per_host) &&
        ranks % per_host != 0) {
        ls_yaml_error(source, hosts_node, "%lld ranks do not fill hosts of %lld", (long long)ranks,
                      (long long)per_host);
        per_host = ranks;
    }
    ls_yaml_only(source, root, keys, COUNT(keys));
    *out = (ls_plan){.ranks = (int)ranks, .ranks_per_host = (int)per_host};
    const ls_yaml_node *tables = ls_yaml_member(source, root, "tables", true);
    if (!tables) {
        return LS_OK;
    }
    if (tables->kind != LS_YAML_SEQUENCE) {
        ls_yaml_error(source, tables, "expected a list of tables");
        return LS_OK;
    }
    // Copies of data-parallel tables are the one thing larger than its text; limit them, too.
    if ((int64_t)tables->count * ranks > (INT64_C(1) << 26)) {
        ls_yaml_error(source, tables, "too many tables for %lld ranks", (long long)ranks);
        return LS_OK;
    }
    size_t count = tables->count ? (size_t)tables->count : 1;
    out->tables = ls_arena_alloc(source->arena, count, sizeof(*out->tables));
    LS_TRY_MEMORY(out->tables != NULL);
    for (const ls_yaml_node *child = ls_yaml_first(source->tree, tables); child;
         child = ls_yaml_next(source->tree, child)) {
        LS_TRY(read_table(source, child, out, &out->tables[out->table_count++]));
    }
    int status = ls_yaml_errors(source) == 0 ? ls_plan_check(out) : LS_OK;
    if (status == LS_ERR_MEMORY) {
        return status;
    }
    if (status != LS_OK) {
        const ls_yaml_node *at = twice_named(source, tables, out);
        at = at ? at : tables;
        ls_yaml_error(source, at, "%s", ls_error_last()->text);
    }
    return LS_OK;
}

int ls_plan_read(ls_plan *out, ls_arena *arena, ls_text *errors, const char *file, const char *text,
                 size_t bytes) {
    LS_ASSERT(out && arena && errors && file && text);
    *out = (ls_plan){0};
    ls_yaml_reader source = {
        .file = file, .text = text, .bytes = bytes, .errors = errors, .arena = arena};
    const ls_yaml_node *root = ls_yaml_open(&source);
    return ls_yaml_close(&source, root ? read_plan(&source, root, out) : LS_OK);
}

// ---- Differences --------------------------------------------------------------------------------

static const ls_plan_table *find_table(const ls_plan *plan, const char *name) {
    for (int i = 0; i < plan->table_count; i++) {
        if (strcmp(plan->tables[i].name, name) == 0) {
            return &plan->tables[i];
        }
    }
    return NULL;
}

static int64_t overlap(int64_t a, int64_t a_size, int64_t b, int64_t b_size) {
    int64_t low = a > b ? a : b;
    int64_t high = a + a_size < b + b_size ? a + a_size : b + b_size;
    return high > low ? high - low : 0;
}

// Elements that b puts on ranks that do not hold them under a.
static double moved_elements(const ls_plan_table *a, const ls_plan_table *b) {
    double moved = 0.0;
    for (int i = 0; i < b->shard_count; i++) {
        const ls_plan_shard *to = &b->shards[i];
        double held = 0.0;
        for (int k = 0; k < a->shard_count; k++) {
            const ls_plan_shard *from = &a->shards[k];
            if (from->rank == to->rank) {
                held += (double)overlap(from->row_offset, from->rows, to->row_offset, to->rows) *
                        (double)overlap(from->column_offset, from->columns, to->column_offset,
                                        to->columns);
            }
        }
        moved += (double)to->rows * (double)to->columns - held;
    }
    return moved;
}

static void put_place(ls_text *out, const ls_plan_table *table) {
    ls_text_printf(out, "%s %s on", ls_sharding_name(table->sharding),
                   ls_planner_kernel_name(table->kernel));
    int most = table->shard_count < 16 ? table->shard_count : 16;
    for (int i = 0; i < most; i++) {
        ls_text_printf(out, " %d", table->shards[i].rank);
    }
    ls_text_puts(out, most < table->shard_count ? " ..." : "");
}

static bool diff_table(ls_text *out, const ls_plan_table *a, const ls_plan_table *b) {
    if (a->rows != b->rows || a->columns != b->columns) {
        ls_text_printf(out, "%s: %lld x %lld in the first, %lld x %lld in the second\n", a->name,
                       (long long)a->rows, (long long)a->columns, (long long)b->rows,
                       (long long)b->columns);
        return true;
    }
    bool same =
        a->sharding == b->sharding && a->shard_count == b->shard_count && a->kernel == b->kernel;
    for (int i = 0; i < a->shard_count && same; i++) {
        const ls_plan_shard *x = &a->shards[i];
        const ls_plan_shard *y = &b->shards[i];
        same = x->rank == y->rank && x->row_offset == y->row_offset && x->rows == y->rows &&
               x->column_offset == y->column_offset && x->columns == y->columns;
    }
    if (same) {
        return false;
    }
    ls_text_printf(out, "%s: ", a->name);
    put_place(out, a);
    ls_text_puts(out, " -> ");
    put_place(out, b);
    ls_text_printf(out, "; %.0f elements move\n", moved_elements(a, b));
    return true;
}

int ls_plan_diff(ls_text *out, const ls_plan *a, const ls_plan *b) {
    LS_ASSERT(out && a && b);
    int differing = 0;
    if (a->ranks != b->ranks || a->ranks_per_host != b->ranks_per_host) {
        ls_text_printf(out, "world: %d ranks, %d a host -> %d ranks, %d a host\n", a->ranks,
                       a->ranks_per_host, b->ranks, b->ranks_per_host);
        differing++;
    }
    for (int i = 0; i < a->table_count; i++) {
        const ls_plan_table *other = find_table(b, a->tables[i].name);
        if (!other) {
            ls_text_printf(out, "%s: only in the first\n", a->tables[i].name);
            differing++;
        } else {
            differing += diff_table(out, &a->tables[i], other);
        }
    }
    for (int i = 0; i < b->table_count; i++) {
        if (!find_table(a, b->tables[i].name)) {
            ls_text_printf(out, "%s: only in the second\n", b->tables[i].name);
            differing++;
        }
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the differences") : differing;
}
