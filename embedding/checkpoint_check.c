// Checks that the files of a checkpoint's ranks hold exactly the tensors of plan and index: an
// unread tensor would be lost silently. A missing entry is reported by its reader.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedding/checkpoint_internal.h"
#include "formats/safetensors.h"

typedef struct named {
    const char *name;
    int table;
} named;

// A shard that is written.
typedef struct written {
    int table;
    const ls_plan_shard *block;
} written;

typedef struct checking {
    const char *dir;
    const ls_plan *plan;
    const ls_checkpoint_table *tables;
    named *names;     // [plan->table_count], ascending
    written *shards;  // [shard_count], by table and first cell
    size_t shard_count;
} checking;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static int order_of(int64_t a, int64_t b) {
    return a < b ? -1 : a > b;
}

static int by_cell(const void *a, const void *b) {
    const written *x = a, *y = b;
    int table = order_of(x->table, y->table);
    int row = order_of(x->block->row_offset, y->block->row_offset);
    if (table != 0) {
        return table;
    }
    return row != 0 ? row : order_of(x->block->column_offset, y->block->column_offset);
}

static int list_shards(checking *c, ls_arena *arena) {
    size_t room = 0;
    for (int t = 0; t < c->plan->table_count; t++) {
        room += (size_t)c->plan->tables[t].shard_count;
    }
    c->names = ls_arena_alloc(arena, (size_t)c->plan->table_count, sizeof *c->names);
    c->shards = ls_arena_alloc(arena, room + 1, sizeof *c->shards);
    if (!c->names || !c->shards) {
        return ls_error_last()->code;
    }
    for (int t = 0; t < c->plan->table_count; t++) {
        const ls_plan_table *table = &c->plan->tables[t];
        c->names[t] = (named){table->name, t};
        for (int s = 0; s < table->shard_count; s++) {
            if (ls_checkpoint__has(table, s)) {
                c->shards[c->shard_count++] = (written){t, &table->shards[s]};
            }
        }
    }
    qsort(c->names, (size_t)c->plan->table_count, sizeof *c->names, by_name);
    qsort(c->shards, c->shard_count, sizeof *c->shards, by_cell);
    return LS_OK;
}

// The array of a table that a tensor is of, by its name TABLE/ARRAY/ROW_COLUMN; NULL: of none.
static const ls_checkpoint_array *array_of(int *table, const char **cell, const checking *c,
                                           const char *name) {
    char copy[CHECKPOINT_NAME_MAX];
    size_t length = strlen(name);
    if (length >= sizeof copy) {
        return NULL;
    }
    memcpy(copy, name, length + 1);
    char *last = strrchr(copy, '/'), *array = NULL;
    if (last) {
        *last = 0;
        array = strrchr(copy, '/');
    }
    if (!array) {
        return NULL;
    }
    *array++ = 0;
    *cell = name + (last - copy) + 1;
    const named wanted = {copy, 0};
    const named *found =
        bsearch(&wanted, c->names, (size_t)c->plan->table_count, sizeof *c->names, by_name);
    const ls_checkpoint_table *of = found ? &c->tables[found->table] : NULL;
    for (int a = 0; of && a < of->array_count; a++) {
        if (strcmp(of->arrays[a].name, array) == 0) {
            *table = found->table;
            return &of->arrays[a];
        }
    }
    return NULL;
}

static int check_tensor(const checking *c, int rank, const char *name) {
    const char *cell = NULL;
    char *end = NULL, expected[CHECKPOINT_NAME_MAX] = "";
    int table = 0;
    const ls_checkpoint_array *array = array_of(&table, &cell, c, name);
    if (!array) {
        return LS_FAIL(
            LS_ERR_FORMAT,
            "checkpoint '%s': rank %d: tensor \"%.200s\" belongs to no array in index.json", c->dir,
            rank, name);
    }
    ls_plan_shard block = {.row_offset = strtoll(cell, &end, 10)};
    block.column_offset = *end == '_' ? strtoll(end + 1, NULL, 10) : -1;
    const written wanted = {table, &block};
    const written *found = bsearch(&wanted, c->shards, c->shard_count, sizeof *c->shards, by_cell);
    if (found && found->block->rank == rank) {
        LS_TRY(ls_checkpoint__name(expected, &c->plan->tables[table], array, found->block));
    }
    return strcmp(expected, name) == 0 ? LS_OK
                                       : LS_FAIL(LS_ERR_FORMAT,
                                                 "checkpoint '%s': rank %d: tensor \"%.200s\" "
                                                 "belongs to no shard of that rank in plan.yaml",
                                                 c->dir, rank, name);
}

static int check_rank(const checking *c, int rank) {
    char name[32], path[CHECKPOINT_PATH_MAX];
    ls_safetensors *file;
    ls_checkpoint__rank_name(name, rank);
    LS_TRY(ls_checkpoint__path(path, c->dir, false, name));
    LS_TRY(ls_safetensors_open(&file, path));
    int status = LS_OK;
    for (size_t i = 0; i < ls_safetensors_count(file) && !status; i++) {
        status = check_tensor(c, rank, ls_safetensors_at(file, i)->name);
    }
    ls_safetensors_free(file);
    return status;
}

// The rank whose file this is, or -1.
static int rank_of(const char *name) {
    char expected[32];
    long rank = strncmp(name, "rank_", 5) == 0 ? strtol(name + 5, NULL, 10) : -1;
    if (rank < 0 || rank > INT32_MAX) {
        return -1;
    }
    ls_checkpoint__rank_name(expected, (int)rank);
    return strcmp(name, expected) == 0 ? (int)rank : -1;
}

static int is_part(const struct dirent *entry) {
    return rank_of(entry->d_name) >= 0 || strcmp(entry->d_name, "index.json") == 0 ||
           strcmp(entry->d_name, "plan.yaml") == 0;
}

int ls_checkpoint_each_file(const char *dir, ls_checkpoint_visit visit, void *arg) {
    LS_ASSERT(dir && visit);
    char path[CHECKPOINT_PATH_MAX];
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_part, alphasort);
    int status = count >= 0 ? LS_OK
                            : LS_FAIL(ls_status_of_errno(errno), "cannot read the folder '%s': %s",
                                      dir, strerror(errno));
    for (int i = 0; i < count; i++) {
        status = status ? status : ls_checkpoint__path(path, dir, false, entries[i]->d_name);
        status = status ? status : visit(arg, path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int check_file(void *arg, const char *path) {
    int rank = rank_of(strrchr(path, '/') + 1);
    return rank >= 0 ? check_rank(arg, rank) : LS_OK;
}

int ls_checkpoint__check_files(const char *dir, const ls_plan *plan,
                               const ls_checkpoint_table *tables) {
    checking c = {.dir = dir, .plan = plan, .tables = tables};
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    int status = list_shards(&c, arena);
    status = status ? status : ls_checkpoint_each_file(dir, check_file, &c);
    ls_arena_free(arena);
    return status;
}
