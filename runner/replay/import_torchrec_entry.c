// Reads a trained collection from the manifest and the names of tensors.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/replay/import_torchrec.h"
#include "runner/scenario/scenario.h"

#define WORLD_MAX  1024
#define STEPS_MAX  1000
#define TABLES_MAX 1000
#define NAME_MAX_  128  // of a table

// ---- Tensors ------------------------------------------------------------------------------------
const ls_safetensor *ls_torchrec__find(const ls_torchrec *c, const char *name) {
    const ls_safetensor *tensor = ls_safetensors_find(c->file, name);
    for (size_t i = 0; tensor != NULL && i < ls_safetensors_count(c->file); i++) {
        c->used[i] = c->used[i] || ls_safetensors_at(c->file, i) == tensor;
    }
    return tensor;
}

static bool has_shape(const ls_safetensor *tensor, const ls_shape *shape) {
    bool same = tensor->ndim == shape->ndim;
    for (int d = 0; d < shape->ndim && same; d++) {
        same = tensor->dim[d] == shape->dim[d] || shape->dim[d] < 0;
    }
    return same;
}

int ls_torchrec__tensor(void *out, int64_t *count, const ls_torchrec *c, const char *name,
                        ls_dtype dtype, const ls_shape *shape) {
    const ls_safetensor *tensor = ls_torchrec__find(c, name);
    if (tensor == NULL || tensor->dtype != (int)dtype || !has_shape(tensor, shape)) {
        return LS_FAIL(LS_ERR_FORMAT, "tensor %.200s %s", name,
                       tensor == NULL ? "is missing" : "has the wrong type or shape");
    }
    if (count != NULL) {
        *count = (int64_t)tensor->count;
    }
    void *data = ls_arena_alloc(c->arena, tensor->bytes + 1, 1);
    *(void **)out = data;
    return data != NULL ? ls_safetensors_read(data, tensor->bytes, c->file, tensor) : LS_ERR_MEMORY;
}

void ls_torchrec__name(char out[LS_TORCHREC_NAME_BYTES], int step, int rank, const char *what) {
    (void)snprintf(out, LS_TORCHREC_NAME_BYTES, "step%d.rank%d.%s", step, rank, what);
}

int ls_torchrec__keyed(float **out, const ls_torchrec *c, int step, int rank, const char *what) {
    char name[LS_TORCHREC_NAME_BYTES];
    ls_torchrec__name(name, step, rank, what);
    return ls_torchrec__tensor(out, NULL, c, name, LS_F32, &LS_SHAPE(c->batch[rank], c->width));
}

const char *ls_torchrec__feature(const ls_torchrec *c, int feature, const ls_torchrec_table **of) {
    int t = 0;
    while (feature >= c->tables[t].first_feature + c->tables[t].feature_count) {
        t++;
    }
    *of = &c->tables[t];
    return c->tables[t].features[feature - c->tables[t].first_feature];
}

int64_t ls_torchrec__column(const ls_torchrec *c, int feature) {
    int64_t column = 0;
    const ls_torchrec_table *of = NULL;
    for (int i = 0; c->order[i] != feature; i++) {
        (void)ls_torchrec__feature(c, c->order[i], &of);
        column += of->dim;
    }
    return column;
}

// ---- The manifest's entry -----------------------------------------------------------------------
static int wrong(const char *key) {
    return LS_FAIL(LS_ERR_FORMAT, "the manifest's %s is missing or invalid", key);
}

static int64_t integer(const json_t *value, int64_t max) {
    int64_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    return number <= max ? number : -1;
}

static int read_batch(ls_torchrec *c, const json_t *entry) {
    const json_t *batch = json_object_get(entry, "batch");
    c->batch = ls_arena_alloc(c->arena, (size_t)c->world, sizeof *c->batch);
    LS_TRY(c->batch != NULL ? LS_OK : LS_ERR_MEMORY);
    bool good = json_array_size(batch) == (size_t)c->world;
    for (int r = 0; r < c->world && good; r++) {
        c->batch[r] = integer(json_array_get(batch, (size_t)r), LS_SCENARIO_BATCH_MAX);
        good = c->batch[r] >= 0;
    }
    return good ? LS_OK : wrong("batch");
}

static int read_features(ls_torchrec *c, ls_torchrec_table *t, const json_t *entry) {
    const json_t *features = json_object_get(entry, "features");
    t->feature_count = (int)json_array_size(features);
    t->first_feature = c->feature_count;
    c->feature_count += t->feature_count;
    t->features = ls_arena_alloc(c->arena, (size_t)t->feature_count + 1, sizeof *t->features);
    LS_TRY(t->features != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int f = 0; f < t->feature_count; f++) {
        t->features[f] = json_string_value(json_array_get(features, (size_t)f));
        if (t->features[f] == NULL) {
            return wrong("features");
        }
    }
    return t->feature_count > 0 ? LS_OK : wrong("features");
}

static int read_table(ls_torchrec *c, ls_torchrec_table *t, const json_t *entry) {
    const char *sharding = json_string_value(json_object_get(entry, "sharding"));
    t->name = json_string_value(json_object_get(entry, "name"));
    t->pooling = json_string_value(json_object_get(entry, "pooling"));
    t->rows = integer(json_object_get(entry, "rows"), LS_SCENARIO_ROWS_MAX);
    t->dim = integer(json_object_get(entry, "dim"), LS_SCENARIO_DIM_MAX);
    bool pools =
        t->pooling != NULL && (strcmp(t->pooling, "sum") == 0 || strcmp(t->pooling, "mean") == 0);
    if (t->name == NULL || strlen(t->name) > NAME_MAX_ || t->rows < 1 || t->dim < 1 || !pools ||
        sharding == NULL || ls_sharding_parse(&t->sharding, sharding) != LS_OK) {
        return wrong("table");
    }
    return read_features(c, t, entry);
}

// `keys`: the order of features in the keyed tensors; default: the tables' order.
static int read_keys(ls_torchrec *c, const json_t *entry) {
    const json_t *keys = json_object_get(entry, "keys");
    const ls_torchrec_table *of = NULL;
    c->order = ls_arena_alloc(c->arena, (size_t)c->feature_count, sizeof *c->order);
    bool *seen = ls_arena_alloc(c->arena, (size_t)c->feature_count, sizeof *seen);
    LS_TRY(c->order != NULL && seen != NULL ? LS_OK : LS_ERR_MEMORY);
    if (keys != NULL && json_array_size(keys) != (size_t)c->feature_count) {
        return wrong("keys");
    }
    for (int i = 0; i < c->feature_count; i++) {
        const char *key = keys != NULL ? json_string_value(json_array_get(keys, (size_t)i))
                                       : ls_torchrec__feature(c, i, &of);
        int found = -1;
        for (int f = 0; key != NULL && f < c->feature_count; f++) {
            found = strcmp(key, ls_torchrec__feature(c, f, &of)) == 0 ? f : found;
        }
        if (found < 0 || seen[found]) {
            return wrong("keys");
        }
        seen[found] = true;
        c->order[i] = found;
        (void)ls_torchrec__feature(c, found, &of);
        c->width += of->dim;
    }
    return LS_OK;
}

static const ls_import_key entry_keys[] = {{"lr", LS_IMPORT_NUMBER},
                                           {"eps", LS_IMPORT_NUMBER},
                                           {"weighted", LS_IMPORT_BOOLEAN},
                                           {NULL, 0}};

static int read_entry(ls_torchrec *c, const json_t *entry, const char **skip) {
    const char *mistyped = ls_import_mistyped(entry, entry_keys);
    const json_t *tables = json_object_get(entry, "tables");
    const char *optimizer = json_string_value(json_object_get(entry, "optimizer"));
    if (mistyped != NULL || json_object_get(entry, "lr") == NULL) {
        return wrong(mistyped != NULL ? mistyped : "lr");
    }
    c->world = (int)integer(json_object_get(entry, "world"), WORLD_MAX);
    c->lr = json_number_value(json_object_get(entry, "lr"));
    c->eps = json_number_value(json_object_get(entry, "eps"));
    c->weighted = json_is_true(json_object_get(entry, "weighted"));
    c->table_count = (int)json_array_size(tables);
    if (c->world < 1 || c->table_count < 1 || c->table_count > TABLES_MAX || optimizer == NULL) {
        return wrong("world, optimizer or list of tables");
    }
    if (ls_optimizer_parse(&c->optimizer, optimizer) != LS_OK) {
        ls_error_clear();
        *skip = "an optimizer that lockstep does not know";
        return LS_OK;
    }
    c->tables = ls_arena_alloc(c->arena, (size_t)c->table_count, sizeof *c->tables);
    LS_TRY(c->tables != NULL ? read_batch(c, entry) : LS_ERR_MEMORY);
    for (int t = 0; t < c->table_count; t++) {
        LS_TRY(read_table(c, &c->tables[t], json_array_get(tables, (size_t)t)));
    }
    return read_keys(c, entry);
}

// ---- The shards ---------------------------------------------------------------------------------
// The block's place at the end of a name, "ROW_COL".
static bool read_place(ls_plan_shard *out, const char *text) {
    char *end = NULL;
    out->row_offset = strtoll(text, &end, 10);
    if (end == text || *end != '_') {
        return false;
    }
    text = end + 1;
    out->column_offset = strtoll(text, &end, 10);
    return end != text && *end == 0;
}

static bool inside(const ls_plan_shard *s, const ls_torchrec_table *t) {
    return s->row_offset >= 0 && s->rows >= 0 && s->rows <= t->rows &&
           s->row_offset <= t->rows - s->rows && s->column_offset >= 0 && s->columns >= 0 &&
           s->columns <= t->dim && s->column_offset <= t->dim - s->columns;
}

// Shards are named "step0.rankR.shard.T.ROW_COL".
static int read_shards(const ls_torchrec *c, ls_torchrec_table *t) {
    size_t tensors = ls_safetensors_count(c->file), room = tensors + (size_t)c->world;
    bool replicas = t->sharding == LS_DATA_PARALLEL;
    t->shards = ls_arena_alloc(c->arena, room, sizeof *t->shards);
    LS_TRY(t->shards != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int rank = 0; rank < c->world; rank++) {
        char start[LS_TORCHREC_NAME_BYTES];
        int length = snprintf(start, sizeof start, "step0.rank%d.shard.%s.", rank, t->name);
        if (replicas) {
            t->shards[t->shard_count++] =
                (ls_plan_shard){.rank = rank, .rows = t->rows, .columns = t->dim};
            continue;
        }
        for (size_t i = 0; i < tensors; i++) {
            const ls_safetensor *tensor = ls_safetensors_at(c->file, i);
            ls_plan_shard *next = &t->shards[t->shard_count];
            if (strncmp(tensor->name, start, (size_t)length) != 0) {
                continue;
            }
            *next = (ls_plan_shard){.rank = rank};
            bool placed = tensor->ndim == 2 && read_place(next, tensor->name + length);
            next->rows = placed ? tensor->dim[0] : 0;
            next->columns = placed ? tensor->dim[1] : 0;
            if (!placed || !inside(next, t)) {
                return LS_FAIL(LS_ERR_FORMAT, "tensor %.200s is not a shard of its table",
                               tensor->name);
            }
            t->shard_count++;
        }
    }
    ls_plan_sort_shards(&(ls_plan_table){.shards = t->shards, .shard_count = t->shard_count});
    return t->shard_count > 0
               ? LS_OK
               : LS_FAIL(LS_ERR_FORMAT, "the file has no shard of table %.100s", t->name);
}

static int count_steps(ls_torchrec *c) {
    char name[LS_TORCHREC_NAME_BYTES];
    ls_torchrec__name(name, c->steps, 0, "lengths");
    while (c->steps < STEPS_MAX && ls_safetensors_find(c->file, name) != NULL) {
        c->steps++;
        ls_torchrec__name(name, c->steps, 0, "lengths");
    }
    return c->steps > 0 ? LS_OK : LS_FAIL(LS_ERR_FORMAT, "the file holds no step");
}

int ls_torchrec__read(ls_torchrec *c, const json_t *entry, const char **skip) {
    LS_TRY(read_entry(c, entry, skip));
    if (*skip != NULL) {
        return LS_OK;
    }
    LS_TRY(count_steps(c));
    for (int t = 0; t < c->table_count; t++) {
        LS_TRY(read_shards(c, &c->tables[t]));
    }
    return LS_OK;
}
