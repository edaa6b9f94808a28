// Plans in TorchRec's form, as JSON: the fields of ShardingPlan, ParameterSharding and
// ShardMetadata under their own names.
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/plan_file.h"
#include "formats/json.h"

// ---- Writing ------------------------------------------------------------------------------------

static void write_ranks(ls_json *json, const ls_plan_table *table) {
    ls_json_member_array(json, "ranks");
    for (int i = 0; i < table->shard_count; i++) {
        ls_json_int(json, table->shards[i].rank);
    }
    ls_json_array_close(json);
}

static void write_pair(ls_json *json, const char *key, int64_t rows, int64_t columns) {
    ls_json_member_array(json, key);
    ls_json_int(json, rows);
    ls_json_int(json, columns);
    ls_json_array_close(json);
}

static void write_spec(ls_json *json, const ls_plan *plan, const ls_plan_table *table) {
    ls_json_key(json, "sharding_spec");
    if (table->sharding == LS_DATA_PARALLEL) {
        ls_json_null(json);
        return;
    }
    ls_json_object_open(json);
    ls_json_member_array(json, "shards");
    for (int i = 0; i < table->shard_count; i++) {
        const ls_plan_shard *shard = &table->shards[i];
        char placement[64];
        (void)snprintf(placement, sizeof(placement), "rank:%d/cuda:%d", shard->rank,
                       shard->rank % plan->ranks_per_host);
        ls_json_object_open(json);
        write_pair(json, "shard_offsets", shard->row_offset, shard->column_offset);
        write_pair(json, "shard_sizes", shard->rows, shard->columns);
        ls_json_member_string(json, "placement", placement);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
}

static const char *module_of(const ls_plan_table *table) {
    return table->module != NULL ? table->module : "";
}

static void write_table(ls_json *json, const ls_plan *plan, const ls_plan_table *table) {
    ls_json_member_object(json, table->name);
    ls_json_member_string(json, "sharding_type", ls_sharding_traits_of(table->sharding).torchrec);
    ls_json_member_string(json, "compute_kernel", ls_planner_kernel_name(table->kernel));
    write_ranks(json, table);
    write_spec(json, plan, table);
    ls_json_object_close(json);
}

// Whether an earlier table has the module of table i.
static bool is_written(const ls_plan *plan, int i) {
    bool found = false;
    for (int k = 0; k < i && !found; k++) {
        found = strcmp(module_of(&plan->tables[k]), module_of(&plan->tables[i])) == 0;
    }
    return found;
}

int ls_plan_write_torchrec(ls_text *out, const ls_plan *plan) {
    LS_ASSERT(out && plan);
    ls_json json;
    ls_json_begin(&json, out, 2);
    ls_json_object_open(&json);
    for (int i = 0; i < plan->table_count; i++) {
        const char *module = module_of(&plan->tables[i]);
        if (is_written(plan, i)) {
            continue;
        }
        ls_json_member_object(&json, module);
        for (int k = i; k < plan->table_count; k++) {
            if (strcmp(module_of(&plan->tables[k]), module) == 0) {
                write_table(&json, plan, &plan->tables[k]);
            }
        }
        ls_json_object_close(&json);
    }
    ls_json_object_close(&json);
    ls_text_puts(out, "\n");
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the plan's text") : LS_OK;
}

// ---- Reading ------------------------------------------------------------------------------------

typedef struct reader {
    ls_arena *arena;
    ls_plan *plan;
    const ls_planner_table *known;
    int known_count;
    const char *module, *table;
} reader;

static int bad(const reader *r, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "plan: module \"%.80s\", table %.80s: %s", r->module, r->table,
                   what);
}

static int read_type(const reader *r, const json_t *object, ls_plan_table *out) {
    const char *type = json_string_value(json_object_get(object, "sharding_type"));
    const char *kernel = json_string_value(json_object_get(object, "compute_kernel"));
    if (!type) {
        return bad(r, "no sharding_type");
    }
    int t = 0;
    while (t < LS_SHARDING_COUNT &&
           strcmp(type, ls_sharding_traits_of((ls_sharding)t).torchrec) != 0) {
        t++;
    }
    if (t == LS_SHARDING_COUNT) {
        return bad(r, "its sharding_type is unknown");
    }
    out->sharding = (ls_sharding)t;
    // Older releases wrote batched_fused and batched_dense.
    if (kernel && strncmp(kernel, "batched_", 8) == 0) {
        kernel += 8;
    }
    // Of quantised tables the same memory has other names.
    static const char *const quantised[][2] = {
        {"quant", "fused"}, {"quant_uvm", "fused_uvm"}, {"quant_uvm_caching", "fused_uvm_caching"}};
    for (size_t i = 0; kernel && i < sizeof(quantised) / sizeof(quantised[0]); i++) {
        kernel = strcmp(kernel, quantised[i][0]) == 0 ? quantised[i][1] : kernel;
    }
    bool known = !kernel || ls_planner_kernel_parse(&out->kernel, kernel) == LS_OK;
    return known ? LS_OK : bad(r, "its compute_kernel is unknown");
}

static bool read_pair(const json_t *list, int64_t *first, int64_t *second) {
    const json_t *a = json_array_get(list, 0);
    const json_t *b = json_array_get(list, 1);
    if (json_array_size(list) != 2 || !json_is_integer(a) || !json_is_integer(b)) {
        return false;
    }
    *first = json_integer_value(a);
    *second = json_integer_value(b);
    const int64_t most = INT64_C(1) << 40;
    return *first >= 0 && *first <= most && *second >= 0 && *second <= most;
}

// "rank:3/cuda:1", or the number itself.
static bool read_rank(const json_t *placement, int *rank) {
    const char *text = json_string_value(placement);
    long value = -1;
    if (text && strncmp(text, "rank:", 5) == 0) {
        char *end;
        value = strtol(text + 5, &end, 10);
        value = end != text + 5 && (*end == '/' || *end == 0) ? value : -1;
    } else if (json_is_integer(placement)) {
        value = (long)json_integer_value(placement);
    }
    *rank = value >= 0 && value < INT_MAX ? (int)value : -1;
    return *rank >= 0;
}

// `ranks` names the ranks of the shards, in their order. TorchRec places a table_wise table by it,
// and others by the placements, so a plan whose two lists differ has two meanings.
static int check_ranks(const reader *r, const json_t *object, const ls_plan_table *out) {
    const json_t *ranks = json_object_get(object, "ranks");
    if (ranks == NULL || json_is_null(ranks)) {
        return LS_OK;
    }
    bool copies = out->sharding == LS_DATA_PARALLEL;
    if (!json_is_array(ranks) || json_array_size(ranks) != (size_t)out->shard_count) {
        return LS_FAIL(LS_ERR_FORMAT, "plan: module \"%.80s\", table %.80s: ranks: %zu for %d %s",
                       r->module, r->table, json_array_size(ranks), out->shard_count,
                       copies ? "copies" : "shards");
    }
    for (int i = 0; i < out->shard_count; i++) {
        const json_t *given = json_array_get(ranks, (size_t)i);
        if (!json_is_integer(given) || json_integer_value(given) != out->shards[i].rank) {
            char *text = json_dumps(given, JSON_ENCODE_ANY | JSON_COMPACT);
            int status = LS_FAIL(LS_ERR_FORMAT,
                                 "plan: module \"%.80s\", table %.80s: ranks[%d] is %.40s, but "
                                 "the %s is on rank %d",
                                 r->module, r->table, i, text != NULL ? text : "unreadable",
                                 copies ? "copy" : "shard", out->shards[i].rank);
            free(text);
            return status;
        }
    }
    return LS_OK;
}

static int read_shards(const reader *r, const json_t *object, ls_plan_table *out) {
    const json_t *shards = json_object_get(json_object_get(object, "sharding_spec"), "shards");
    size_t count = json_array_size(shards);
    if (count == 0 || count > INT_MAX) {
        return bad(r, "its sharding_spec has no shards");
    }
    out->shards = ls_arena_alloc(r->arena, count, sizeof(*out->shards));
    LS_TRY_MEMORY(out->shards != NULL);
    out->shard_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *from = json_array_get(shards, i);
        ls_plan_shard *shard = &out->shards[i];
        if (!read_pair(json_object_get(from, "shard_offsets"), &shard->row_offset,
                       &shard->column_offset) ||
            !read_pair(json_object_get(from, "shard_sizes"), &shard->rows, &shard->columns) ||
            !read_rank(json_object_get(from, "placement"), &shard->rank)) {
            return bad(r, "a shard lacks shard_offsets, shard_sizes or placement");
        }
        int64_t rows = shard->row_offset + shard->rows;
        int64_t columns = shard->column_offset + shard->columns;
        out->rows = rows > out->rows ? rows : out->rows;
        out->columns = columns > out->columns ? columns : out->columns;
    }
    // Plans list their shards in any order, and their ranks in that one or in the table's.
    bool listed = check_ranks(r, object, out) == LS_OK;
    ls_plan_sort_shards(out);
    LS_TRY(listed ? LS_OK : check_ranks(r, object, out));
    return LS_OK;
}

static int read_copies(const reader *r, const json_t *object, ls_plan_table *out) {
    const ls_planner_table *known = NULL;
    for (int i = 0; i < r->known_count && !known; i++) {
        known = strcmp(r->known[i].name, r->table) == 0 ? &r->known[i] : NULL;
    }
    if (!known) {
        return bad(r, "it is data parallel, so its size must be known from elsewhere");
    }
    const json_t *spec = json_object_get(object, "sharding_spec");
    if (spec != NULL && !json_is_null(spec)) {
        return bad(r, "it is data_parallel, which has no shards, but has a sharding_spec");
    }
    out->rows = known->rows;
    out->columns = known->columns;
    out->shard_count = r->plan->ranks;
    out->shards = ls_arena_alloc(r->arena, (size_t)out->shard_count, sizeof(*out->shards));
    LS_TRY_MEMORY(out->shards != NULL);
    for (int i = 0; i < out->shard_count; i++) {
        out->shards[i] = (ls_plan_shard){i, 0, 0, out->rows, out->columns};
    }
    return check_ranks(r, object, out);
}

static int read_modules(reader *r, json_t *root) {
    const char *module;
    json_t *tables;
    size_t count = 0;
    json_object_foreach(root, module, tables) {
        count += json_object_size(tables);
    }
    if (!json_is_object(root) || count == 0 || count > LS_PLANNER_TABLES_MAX) {
        return LS_FAIL(LS_ERR_FORMAT, "plan: expected {module: {table: ...}} with 1 to %d tables",
                       LS_PLANNER_TABLES_MAX);
    }
    r->plan->tables = ls_arena_alloc(r->arena, count, sizeof(*r->plan->tables));
    LS_TRY_MEMORY(r->plan->tables != NULL);
    json_object_foreach(root, module, tables) {
        const char *name;
        json_t *object;
        r->module = module;
        json_object_foreach(tables, name, object) {
            ls_plan_table *out = &r->plan->tables[r->plan->table_count++];
            r->table = name;
            out->name = ls_arena_strdup(r->arena, name);
            out->module = ls_arena_strdup(r->arena, module);
            LS_TRY_MEMORY(out->name != NULL && out->module != NULL);
            LS_TRY(read_type(r, object, out));
            LS_TRY(out->sharding == LS_DATA_PARALLEL ? read_copies(r, object, out)
                                                     : read_shards(r, object, out));
        }
    }
    return LS_OK;
}

int ls_plan_read_torchrec(ls_plan *out, ls_arena *arena, const char *text, size_t bytes, int ranks,
                          int ranks_per_host, const ls_planner_table *known, int known_count) {
    LS_ASSERT(out && arena && text);
    LS_ASSERT(ranks >= 1 && ranks_per_host >= 1);
    *out = (ls_plan){.ranks = ranks, .ranks_per_host = ranks_per_host};
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    // Without memory jansson often reports nothing.
    if (!root && (json_error_code(&error) == json_error_out_of_memory || error.line < 1)) {
        return LS_FAIL(LS_ERR_MEMORY, "plan: no memory to read it");
    }
    if (!root) {
        return LS_FAIL(LS_ERR_FORMAT, "plan: line %d, column %d: %s", error.line, error.column,
                       error.text);
    }
    reader r = {.arena = arena, .plan = out, .known = known, .known_count = known_count};
    int status = read_modules(&r, root);
    json_decref(root);
    if (status == LS_OK) {
        status = ls_plan_check(out);
        if (status != LS_OK && status != LS_ERR_MEMORY) {
            status = LS_FAIL(LS_ERR_FORMAT, "%s", ls_error_last()->text);
        }
    }
    return status;
}

bool ls_plan_is_torchrec(const char *text, size_t bytes) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, 0, &error);
    bool is_one = json_is_object(root) && !json_object_get(root, "lockstep_plan");
    json_decref(root);
    return is_one;
}
