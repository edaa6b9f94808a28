// Writing checkpoints: beside their place, rank by rank, then the index, then one rename.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "embedding/checkpoint_internal.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "planner/plan_file.h"

int ls_checkpoint__path(char out[CHECKPOINT_PATH_MAX], const char *dir, bool partial,
                        const char *name) {
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/') {
        length--;
    }
    int written =
        snprintf(out, CHECKPOINT_PATH_MAX, "%.*s%s%s%s", (int)(length < 65536 ? length : 65536),
                 dir, partial ? ".partial" : "", name ? "/" : "", name ? name : "");
    if (written < 0 || written >= CHECKPOINT_PATH_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "the path of checkpoint '%.100s...' is too long", dir);
    }
    return LS_OK;
}

void ls_checkpoint__rank_name(char out[32], int rank) {
    snprintf(out, 32, "rank_%05d.safetensors", rank);
}

bool ls_checkpoint__has(const ls_plan_table *table, int shard) {
    const ls_plan_shard *block = &table->shards[shard];
    return block->rows > 0 && block->columns > 0 &&
           (table->sharding != LS_DATA_PARALLEL || shard == 0);
}

ls_shape ls_checkpoint__shape(const ls_checkpoint_array *array, const ls_plan_shard *shard) {
    return array->per_row ? LS_SHAPE(shard->rows) : LS_SHAPE(shard->rows, shard->columns);
}

int ls_checkpoint__name(char out[CHECKPOINT_NAME_MAX], const ls_plan_table *table,
                        const ls_checkpoint_array *array, const ls_plan_shard *shard) {
    int length = snprintf(out, CHECKPOINT_NAME_MAX, "%s/%s/%" PRId64 "_%" PRId64, table->name,
                          array->name, shard->row_offset, shard->column_offset);
    if (length < 0 || length >= CHECKPOINT_NAME_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "table \"%.64s...\": the name is too long for a checkpoint",
                       table->name);
    }
    return LS_OK;
}

// ---- The folder ---------------------------------------------------------------------------------

static bool is_ours(const char *name) {
    size_t length = strlen(name);
    return strcmp(name, "index.json") == 0 || strcmp(name, "plan.yaml") == 0 ||
           (strncmp(name, "rank_", 5) == 0 && length > 12 &&
            strcmp(name + length - 12, ".safetensors") == 0);
}

// Removes a checkpoint's files and the folder; what is not one's is left, and so is the folder.
static void remove_partial(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) {
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (is_ours(entry->d_name)) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    (void)closedir(dir);
    (void)rmdir(path);
}

void ls_checkpoint__give_up(const char *dir) {
    char path[CHECKPOINT_PATH_MAX];
    if (ls_checkpoint__path(path, dir, true, NULL) == LS_OK) {
        remove_partial(path);
    }
}

int ls_checkpoint__begin(const char *dir) {
    char path[CHECKPOINT_PATH_MAX];
    struct stat info;
    LS_TRY(ls_checkpoint__path(path, dir, false, NULL));
    if (lstat(path, &info) == 0) {
        return LS_FAIL(LS_ERR_INVALID, "'%s' exists; a checkpoint needs a new folder", dir);
    }
    LS_TRY(ls_checkpoint__path(path, dir, true, NULL));
    remove_partial(path);  // that an earlier run left
    if (mkdir(path, 0777) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot make folder '%s': %s", path,
                       strerror(errno));
    }
    return LS_OK;
}

// ---- The files ----------------------------------------------------------------------------------

typedef struct rank_tensors {
    ls_arena *arena;
    ls_safetensor_source *tensors;
    size_t count, capacity;
} rank_tensors;

static int add_tensor(rank_tensors *out, const checkpoint_source *source, int table, int shard,
                      int array) {
    const ls_plan_table *plan = &source->plan->tables[table];
    const ls_checkpoint_array *about = &source->tables[table].arrays[array];
    ls_shape shape = ls_checkpoint__shape(about, &plan->shards[shard]);
    char name[CHECKPOINT_NAME_MAX];
    size_t count;
    LS_TRY(ls_checkpoint__name(name, plan, about, &plan->shards[shard]));
    LS_TRY(ls_shape_count(&count, &shape));
    ls_safetensor_source *tensor = &out->tensors[out->count];
    *tensor = (ls_safetensor_source){
        .name = ls_arena_strdup(out->arena, name), .dtype = about->dtype, .ndim = shape.ndim};
    memcpy(tensor->dim, shape.dim, sizeof shape.dim);
    void *data = ls_arena_alloc(out->arena, count ? count : 1, ls_dtype_bytes(about->dtype));
    if (!tensor->name || !data) {
        return ls_error_last()->code;
    }
    tensor->data = data;
    out->count++;
    return count ? source->read(source->arg, table, shard, array, data) : LS_OK;
}

static int collect(rank_tensors *out, const checkpoint_source *source, int rank) {
    const ls_plan *plan = source->plan;
    for (int pass = 0; pass < 2; pass++) {  // counts, then reads
        for (int t = 0; t < plan->table_count; t++) {
            const ls_plan_table *table = &plan->tables[t];
            for (int s = 0; s < table->shard_count; s++) {
                if (table->shards[s].rank != rank || !ls_checkpoint__has(table, s)) {
                    continue;
                }
                for (int a = 0; a < source->tables[t].array_count; a++) {
                    if (pass == 0) {
                        out->capacity++;
                    } else {
                        LS_TRY(add_tensor(out, source, t, s, a));
                    }
                }
            }
        }
        if (pass == 0 && out->capacity) {
            out->tensors = ls_arena_alloc(out->arena, out->capacity, sizeof *out->tensors);
            if (!out->tensors) {
                return ls_error_last()->code;
            }
        }
    }
    return LS_OK;
}

int ls_checkpoint__write_rank(const char *dir, const checkpoint_source *source, int rank) {
    char name[32], path[CHECKPOINT_PATH_MAX];
    ls_checkpoint__rank_name(name, rank);
    LS_TRY(ls_checkpoint__path(path, dir, true, name));
    rank_tensors tensors = {0};
    LS_TRY(ls_arena_create(&tensors.arena));
    int status = collect(&tensors, source, rank);
    if (!status && tensors.count > 0) {
        const char *const metadata[] = {"format", "pt"};  // key that torch's tools look for
        status = ls_safetensors_write(path, tensors.tensors, tensors.count, metadata, 1);
    }
    ls_arena_free(tensors.arena);
    return status;
}

static void write_table(ls_json *json, const ls_plan_table *plan,
                        const ls_checkpoint_table *table) {
    ls_json_object_open(json);
    ls_json_member_string(json, "name", plan->name);
    ls_json_member_array(json, "arrays");
    for (int a = 0; a < table->array_count; a++) {
        ls_json_object_open(json);
        ls_json_member_string(json, "name", table->arrays[a].name);
        ls_json_member_string(json, "dtype", ls_dtype_name(table->arrays[a].dtype));
        ls_json_member_bool(json, "per_row", table->arrays[a].per_row);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
    if (table->optimizer) {
        ls_json_member_string(json, "optimizer", table->optimizer);
    }
    ls_json_object_close(json);
}

static int write_map(ls_json *json, const checkpoint_source *source) {
    for (int t = 0; t < source->plan->table_count; t++) {
        const ls_plan_table *table = &source->plan->tables[t];
        for (int s = 0; s < table->shard_count; s++) {
            for (int a = 0; a < source->tables[t].array_count && ls_checkpoint__has(table, s);
                 a++) {
                char tensor[CHECKPOINT_NAME_MAX], file[32];
                LS_TRY(ls_checkpoint__name(tensor, table, &source->tables[t].arrays[a],
                                           &table->shards[s]));
                ls_checkpoint__rank_name(file, table->shards[s].rank);
                ls_json_member_string(json, tensor, file);
            }
        }
    }
    return LS_OK;
}

static int write_index(ls_text *out, const checkpoint_source *source) {
    ls_json json;
    ls_json_begin(&json, out, 1);
    ls_json_object_open(&json);
    ls_json_member_string(&json, "format", "lockstep checkpoint");
    ls_json_member_int(&json, "version", 1);
    ls_json_member_int(&json, "step", source->step);
    ls_json_member_array(&json, "tables");
    for (int t = 0; t < source->plan->table_count; t++) {
        write_table(&json, &source->plan->tables[t], &source->tables[t]);
    }
    ls_json_array_close(&json);
    ls_json_member_object(&json, "weight_map");
    LS_TRY(write_map(&json, source));
    ls_json_object_close(&json);
    ls_json_object_close(&json);
    ls_text_puts(out, "\n");
    return LS_OK;
}

static int write_text(const char *dir, const char *name, const ls_text *text) {
    char path[CHECKPOINT_PATH_MAX];
    if (text->failed) {
        return LS_FAIL(LS_ERR_MEMORY, "out of memory for '%s' of a checkpoint", name);
    }
    LS_TRY(ls_checkpoint__path(path, dir, true, name));
    return ls_file_write(path, ls_text_string(text), text->length);
}

int ls_checkpoint__publish(const char *dir, const checkpoint_source *source) {
    ls_text plan = {0}, index = {0};
    int status = ls_plan_write(&plan, source->plan);
    status = status ? status : write_index(&index, source);
    status = status ? status : write_text(dir, "plan.yaml", &plan);
    status = status ? status : write_text(dir, "index.json", &index);
    ls_text_free(&plan);
    ls_text_free(&index);
    char made[CHECKPOINT_PATH_MAX], path[CHECKPOINT_PATH_MAX];
    LS_TRY(status);
    LS_TRY(ls_checkpoint__path(made, dir, true, NULL));
    LS_TRY(ls_checkpoint__path(path, dir, false, NULL));
    if (rename(made, path) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot rename '%s' to '%s': %s", made, path,
                       strerror(errno));
    }
    return LS_OK;
}
