// Reading checkpoints: any block of any array, assembled from the shards that hold its parts.
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "embedding/checkpoint_internal.h"
#include "formats/json_read.h"
#include "formats/safetensors.h"
#include "planner/plan_file.h"

#define INDEX_BYTES_MAX ((size_t)256 << 20)
#define PIECE_BYTES     ((size_t)4 << 20)  // read at once

struct ls_checkpoint {
    ls_arena *arena;
    const char *dir;
    ls_plan plan;
    ls_checkpoint_table *tables;
    int64_t step;
    ls_safetensors *file;  // of file_rank, the last one read from
    int file_rank;
    void *piece;  // [PIECE_BYTES], or one row where that is longer
    size_t piece_bytes;
};

// ---- Opening ------------------------------------------------------------------------------------

static int read_array(ls_checkpoint *checkpoint, ls_checkpoint_array *out, const json_t *json,
                      const char *table) {
    const json_t *name = json_object_get(json, "name"), *dtype = json_object_get(json, "dtype");
    const json_t *per_row = json_object_get(json, "per_row");
    if (!json_is_string(name) || !json_is_string(dtype) || !json_is_boolean(per_row) ||
        strchr(json_string_value(name), '/') != NULL ||
        ls_dtype_parse(&out->dtype, json_string_value(dtype)) != LS_OK) {
        return LS_FAIL(
            LS_ERR_FORMAT,
            "'%s/index.json': an array of table \"%.100s\" has an invalid name, dtype or per_row",
            checkpoint->dir, table);
    }
    out->per_row = json_is_true(per_row);
    if (out->per_row && out->dtype != LS_F32 && out->dtype != LS_F64) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s/index.json': table \"%.100s\": an array per row has dtype %s",
                       checkpoint->dir, table, ls_dtype_name(out->dtype));
    }
    out->name = ls_arena_strdup(checkpoint->arena, json_string_value(name));
    return out->name ? LS_OK : ls_error_last()->code;
}

static int read_table(ls_checkpoint *checkpoint, int table, const json_t *json) {
    const char *wanted = checkpoint->plan.tables[table].name;
    const json_t *name = json_object_get(json, "name"), *arrays = json_object_get(json, "arrays");
    if (!json_is_string(name) || strcmp(json_string_value(name), wanted) != 0) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s/index.json': table %d is not \"%.100s\", as in plan.yaml",
                       checkpoint->dir, table, wanted);
    }
    size_t count = json_array_size(arrays);
    if (count < 1 || count > LS_CHECKPOINT_ARRAYS_MAX) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s/index.json': table \"%.100s\" has %zu arrays, not 1 to %d",
                       checkpoint->dir, wanted, count, LS_CHECKPOINT_ARRAYS_MAX);
    }
    ls_checkpoint_table *out = &checkpoint->tables[table];
    for (size_t a = 0; a < count; a++) {
        LS_TRY(read_array(checkpoint, &out->arrays[a], json_array_get(arrays, a), wanted));
        for (size_t b = 0; b < a; b++) {
            if (strcmp(out->arrays[a].name, out->arrays[b].name) == 0) {
                return LS_FAIL(LS_ERR_FORMAT,
                               "'%s/index.json': table \"%.100s\" has array \"%.64s\" twice",
                               checkpoint->dir, wanted, out->arrays[a].name);
            }
        }
    }
    out->array_count = (int)count;
    if (strcmp(out->arrays[0].name, "weights") != 0 || out->arrays[0].per_row) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s/index.json': the first array of table \"%.100s\" is not its weights",
                       checkpoint->dir, wanted);
    }
    const json_t *optimizer = json_object_get(json, "optimizer");
    if (optimizer && !json_is_string(optimizer)) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s/index.json': table \"%.100s\": the optimizer is not a name",
                       checkpoint->dir, wanted);
    }
    out->optimizer =
        optimizer ? ls_arena_strdup(checkpoint->arena, json_string_value(optimizer)) : NULL;
    return optimizer && !out->optimizer ? ls_error_last()->code : LS_OK;
}

static int read_index(ls_checkpoint *checkpoint, const json_t *root) {
    const json_t *tables = json_object_get(root, "tables"), *step = json_object_get(root, "step");
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, "lockstep checkpoint") != 0) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s/index.json' is not from a lockstep checkpoint",
                       checkpoint->dir);
    }
    if (json_integer_value(json_object_get(root, "version")) != 1) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "'%s/index.json': only version 1 is supported",
                       checkpoint->dir);
    }
    if (!json_is_integer(step) || json_integer_value(step) < 0) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s/index.json': step is not a number from 0",
                       checkpoint->dir);
    }
    checkpoint->step = json_integer_value(step);
    if (json_array_size(tables) != (size_t)checkpoint->plan.table_count) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s/index.json' has %zu tables, plan.yaml %d",
                       checkpoint->dir, json_array_size(tables), checkpoint->plan.table_count);
    }
    checkpoint->tables = ls_arena_alloc(checkpoint->arena, (size_t)checkpoint->plan.table_count,
                                        sizeof *checkpoint->tables);
    if (!checkpoint->tables) {
        return ls_error_last()->code;
    }
    for (int t = 0; t < checkpoint->plan.table_count; t++) {
        LS_TRY(read_table(checkpoint, t, json_array_get(tables, (size_t)t)));
    }
    return LS_OK;
}

static int read_plan(ls_checkpoint *checkpoint) {
    char path[CHECKPOINT_PATH_MAX], *text;
    size_t bytes;
    ls_text errors = {0};
    LS_TRY(ls_checkpoint__path(path, checkpoint->dir, false, "plan.yaml"));
    LS_TRY(ls_file_read(&text, &bytes, checkpoint->arena, path, INDEX_BYTES_MAX));
    int status = ls_plan_read(&checkpoint->plan, checkpoint->arena, &errors, path, text, bytes);
    ls_text_free(&errors);  // the first is the error's text
    return status;
}

static int open_in(ls_checkpoint *checkpoint) {
    char path[CHECKPOINT_PATH_MAX];
    json_t *root = NULL;
    LS_TRY(read_plan(checkpoint));
    LS_TRY(ls_checkpoint__path(path, checkpoint->dir, false, "index.json"));
    LS_TRY(ls_json_read(&root, path, INDEX_BYTES_MAX));
    int status = read_index(checkpoint, root);
    json_decref(root);
    return status
               ? status
               : ls_checkpoint__check_files(checkpoint->dir, &checkpoint->plan, checkpoint->tables);
}

int ls_checkpoint_open(ls_checkpoint **out, const char *dir) {
    LS_ASSERT(out && dir);
    *out = NULL;
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    ls_checkpoint *checkpoint = ls_arena_alloc(arena, 1, sizeof *checkpoint);
    const char *copy = ls_arena_strdup(arena, dir);
    if (!checkpoint || !copy) {
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    *checkpoint = (ls_checkpoint){.arena = arena, .dir = copy};
    int status = open_in(checkpoint);
    if (status) {
        ls_checkpoint_free(checkpoint);
        return status;
    }
    *out = checkpoint;
    return LS_OK;
}

void ls_checkpoint_free(ls_checkpoint *checkpoint) {
    if (checkpoint) {
        ls_safetensors_free(checkpoint->file);
        ls_free(checkpoint->piece, checkpoint->piece_bytes, 1);
        ls_arena_free(checkpoint->arena);  // which holds the checkpoint itself
    }
}

const ls_plan *ls_checkpoint_plan(const ls_checkpoint *checkpoint) {
    return &checkpoint->plan;
}

const ls_checkpoint_table *ls_checkpoint_tables(const ls_checkpoint *checkpoint) {
    return checkpoint->tables;
}

int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint) {
    return checkpoint->step;
}

// ---- Reading blocks -----------------------------------------------------------------------------

static int open_rank(ls_checkpoint *checkpoint, int rank) {
    char name[32], path[CHECKPOINT_PATH_MAX];
    if (checkpoint->file && checkpoint->file_rank == rank) {
        return LS_OK;
    }
    ls_safetensors_free(checkpoint->file);
    checkpoint->file = NULL;
    ls_checkpoint__rank_name(name, rank);
    LS_TRY(ls_checkpoint__path(path, checkpoint->dir, false, name));
    LS_TRY(ls_safetensors_open(&checkpoint->file, path));
    checkpoint->file_rank = rank;
    return LS_OK;
}

// The tensor of a shard's array, compared with what plan and index say of it.
static int find_tensor(const ls_safetensor **out, ls_checkpoint *checkpoint, int table, int array,
                       const ls_plan_shard *shard) {
    const ls_checkpoint_array *about = &checkpoint->tables[table].arrays[array];
    ls_shape shape = ls_checkpoint__shape(about, shard);
    char name[CHECKPOINT_NAME_MAX];
    LS_TRY(open_rank(checkpoint, shard->rank));
    LS_TRY(ls_checkpoint__name(name, &checkpoint->plan.tables[table], about, shard));
    const ls_safetensor *tensor = ls_safetensors_find(checkpoint->file, name);
    if (!tensor) {
        return LS_FAIL(LS_ERR_FORMAT, "checkpoint '%s': rank %d has no tensor \"%.200s\"",
                       checkpoint->dir, shard->rank, name);
    }
    bool same = tensor->dtype == (int)about->dtype && tensor->ndim == shape.ndim;
    for (int d = 0; d < shape.ndim && same; d++) {
        same = tensor->dim[d] == shape.dim[d];
    }
    if (!same) {
        char text[LS_SHAPE_TEXT_MAX];
        ls_shape_format(text, sizeof text, &shape);
        return LS_FAIL(LS_ERR_FORMAT, "checkpoint '%s': rank %d: tensor \"%.200s\" is not %s %s",
                       checkpoint->dir, shard->rank, name, ls_dtype_name(about->dtype), text);
    }
    *out = tensor;
    return LS_OK;
}

int ls_checkpoint_check_tensors(ls_checkpoint *checkpoint) {
    LS_ASSERT(checkpoint);
    const ls_plan *plan = &checkpoint->plan;
    const ls_safetensor *tensor;
    for (int rank = 0; rank < plan->ranks; rank++) {  // each file is opened once
        for (int t = 0; t < plan->table_count; t++) {
            const ls_plan_table *table = &plan->tables[t];
            for (int s = 0; s < table->shard_count; s++) {
                bool held = table->shards[s].rank == rank && ls_checkpoint__has(table, s);
                for (int a = 0; a < checkpoint->tables[t].array_count && held; a++) {
                    LS_TRY(find_tensor(&tensor, checkpoint, t, a, &table->shards[s]));
                }
            }
        }
    }
    return LS_OK;
}

static int make_piece(ls_checkpoint *checkpoint, size_t row_bytes) {
    size_t wanted = row_bytes > PIECE_BYTES ? row_bytes : PIECE_BYTES;
    if (checkpoint->piece_bytes >= wanted) {
        return LS_OK;
    }
    ls_free(checkpoint->piece, checkpoint->piece_bytes, 1);
    checkpoint->piece_bytes = 0;
    LS_TRY(ls_alloc(&checkpoint->piece, wanted, 1));
    checkpoint->piece_bytes = wanted;
    return LS_OK;
}

static ls_block block_of(const ls_plan_shard *shard) {
    return (ls_block){LS_SHAPE(shard->row_offset, shard->column_offset),
                      LS_SHAPE(shard->rows, shard->columns)};
}

// Takes rows [first, first + rows) of a shard's array to the block.
typedef void (*take_rows)(void *out, const ls_plan_shard *to, const void *piece,
                          const ls_plan_shard *rows, size_t element_bytes);

static void take_elements(void *out, const ls_plan_shard *to, const void *piece,
                          const ls_plan_shard *rows, size_t element_bytes) {
    ls_block to_block = block_of(to), from_block = block_of(rows);
    (void)ls_block_copy(out, &to_block, piece, &from_block, element_bytes);
}

static void take_per_row(void *out, const ls_plan_shard *to, const void *piece,
                         const ls_plan_shard *rows, size_t element_bytes) {
    memcpy((char *)out + (size_t)(rows->row_offset - to->row_offset) * element_bytes, piece,
           (size_t)rows->rows * element_bytes);
}

// The part of one number per row that `columns` columns of to's have in it, summed in f64.
static void add_per_row(void *out, const ls_plan_shard *to, const void *piece,
                        const ls_plan_shard *rows, size_t element_bytes) {
    double *sum = (double *)out + (rows->row_offset - to->row_offset);
    for (int64_t i = 0; i < rows->rows; i++) {
        double value = element_bytes == sizeof(float) ? (double)((const float *)piece)[i]
                                                      : ((const double *)piece)[i];
        sum[i] += value * (double)rows->columns;
    }
}

static int read_shard(ls_checkpoint *checkpoint, int table, int array, const ls_plan_shard *shard,
                      const ls_plan_shard *block, const ls_block *common, void *out,
                      take_rows take) {
    const ls_checkpoint_array *about = &checkpoint->tables[table].arrays[array];
    const ls_safetensor *tensor;
    LS_TRY(find_tensor(&tensor, checkpoint, table, array, shard));
    size_t element = ls_dtype_bytes(about->dtype);
    size_t row_bytes = about->per_row ? element : (size_t)shard->columns * element;
    LS_TRY(make_piece(checkpoint, row_bytes));
    int64_t end = common->offset.dim[0] + common->size.dim[0];
    for (int64_t row = common->offset.dim[0]; row < end;) {
        int64_t rows = (int64_t)(checkpoint->piece_bytes / row_bytes);
        rows = rows < end - row ? rows : end - row;
        LS_TRY(ls_safetensors_read_part(checkpoint->piece, (size_t)rows * row_bytes,
                                        checkpoint->file, tensor,
                                        (size_t)(row - shard->row_offset) * row_bytes));
        ls_plan_shard piece = {.row_offset = row,
                               .rows = rows,
                               .column_offset =
                                   about->per_row ? common->offset.dim[1] : shard->column_offset,
                               .columns = about->per_row ? common->size.dim[1] : shard->columns};
        take(out, block, checkpoint->piece, &piece, element);
        row += rows;
    }
    return LS_OK;
}

static int read_shards(ls_checkpoint *checkpoint, int table, int array, const ls_plan_shard *block,
                       void *out, take_rows take) {
    const ls_plan_table *plan = &checkpoint->plan.tables[table];
    ls_block wanted = block_of(block), common;
    for (int s = 0; s < plan->shard_count; s++) {
        ls_block held = block_of(&plan->shards[s]);
        if (ls_checkpoint__has(plan, s) && ls_block_intersect(&common, &wanted, &held) > 0) {
            LS_TRY(
                read_shard(checkpoint, table, array, &plan->shards[s], block, &common, out, take));
        }
    }
    return LS_OK;
}

// Whether every shard that has a part of the block has all of its columns.
static bool has_all_columns(const ls_plan_table *plan, const ls_plan_shard *block) {
    ls_block wanted = block_of(block), common;
    for (int s = 0; s < plan->shard_count; s++) {
        ls_block held = block_of(&plan->shards[s]);
        if (ls_block_intersect(&common, &wanted, &held) > 0 &&
            common.size.dim[1] != block->columns) {
            return false;
        }
    }
    return true;
}

static int read_joined(ls_checkpoint *checkpoint, int table, int array, const ls_plan_shard *block,
                       void *out) {
    double *sums;
    LS_TRY(ls_alloc((void **)&sums, (size_t)block->rows, sizeof *sums));
    int status = read_shards(checkpoint, table, array, block, sums, add_per_row);
    bool narrow = checkpoint->tables[table].arrays[array].dtype == LS_F32;
    for (int64_t i = 0; i < block->rows && !status; i++) {
        double mean = sums[i] / (double)block->columns;
        if (narrow) {
            ((float *)out)[i] = (float)mean;
        } else {
            ((double *)out)[i] = mean;
        }
    }
    ls_free(sums, (size_t)block->rows, sizeof *sums);
    return status;
}

int ls_checkpoint_read(ls_checkpoint *checkpoint, int table, int array, const ls_plan_shard *block,
                       void *out) {
    LS_ASSERT(checkpoint && block && table >= 0 && table < checkpoint->plan.table_count);
    LS_ASSERT(array >= 0 && array < checkpoint->tables[table].array_count);
    const ls_plan_table *plan = &checkpoint->plan.tables[table];
    LS_ASSERT(block->row_offset >= 0 && block->rows <= plan->rows - block->row_offset);
    LS_ASSERT(block->column_offset >= 0 && block->columns <= plan->columns - block->column_offset);
    if (block->rows == 0 || block->columns == 0) {
        return LS_OK;
    }
    if (!checkpoint->tables[table].arrays[array].per_row) {
        return read_shards(checkpoint, table, array, block, out, take_elements);
    }
    return has_all_columns(plan, block)
               ? read_shards(checkpoint, table, array, block, out, take_per_row)
               : read_joined(checkpoint, table, array, block, out);
}

// ---- Another plan -------------------------------------------------------------------------------

typedef struct resharding {
    ls_checkpoint *from;
    const ls_plan *plan;
    int *table_of;  // [plan->table_count] in `from`
} resharding;

static int read_resharded(void *arg, int table, int shard, int array, void *out) {
    resharding *to = arg;
    return ls_checkpoint_read(to->from, to->table_of[table], array,
                              &to->plan->tables[table].shards[shard], out);
}

static int match_tables(resharding *to, ls_checkpoint_table *tables) {
    const ls_plan *have = &to->from->plan;
    for (int t = 0; t < to->plan->table_count; t++) {
        const ls_plan_table *wanted = &to->plan->tables[t];
        int found = 0;
        while (found < have->table_count && strcmp(have->tables[found].name, wanted->name) != 0) {
            found++;
        }
        if (found == have->table_count) {
            return LS_FAIL(LS_ERR_INVALID,
                           "the plan has a table \"%.100s\", which checkpoint '%s' lacks",
                           wanted->name, to->from->dir);
        }
        const ls_plan_table *table = &have->tables[found];
        if (table->rows != wanted->rows || table->columns != wanted->columns) {
            return LS_FAIL(LS_ERR_INVALID,
                           "table \"%.100s\" is %" PRId64 " x %" PRId64 " in the plan and %" PRId64
                           " x %" PRId64 " in checkpoint '%s'",
                           wanted->name, wanted->rows, wanted->columns, table->rows, table->columns,
                           to->from->dir);
        }
        to->table_of[t] = found;
        tables[t] = to->from->tables[found];
    }
    if (to->plan->table_count != have->table_count) {
        return LS_FAIL(LS_ERR_INVALID,
                       "the plan has %d tables, checkpoint '%s' %d: some would be lost",
                       to->plan->table_count, to->from->dir, have->table_count);
    }
    return LS_OK;
}

static int reshard_in(const char *dir, ls_checkpoint *from, const ls_plan *plan, ls_arena *arena) {
    resharding to = {.from = from, .plan = plan};
    ls_checkpoint_table *tables = ls_arena_alloc(arena, (size_t)plan->table_count, sizeof *tables);
    to.table_of = ls_arena_alloc(arena, (size_t)plan->table_count, sizeof *to.table_of);
    if (!tables || !to.table_of) {
        return ls_error_last()->code;
    }
    LS_TRY(match_tables(&to, tables));
    const checkpoint_source source = {plan, tables, from->step, read_resharded, &to};
    LS_TRY(ls_checkpoint__begin(dir));
    int status = LS_OK;
    for (int rank = 0; rank < plan->ranks && !status; rank++) {
        status = ls_checkpoint__write_rank(dir, &source, rank);
    }
    status = status ? status : ls_checkpoint__publish(dir, &source);
    if (status) {
        ls_checkpoint__give_up(dir);
    }
    return status;
}

int ls_checkpoint_reshard(const char *dir, ls_checkpoint *from, const ls_plan *plan) {
    LS_ASSERT(dir && from && plan);
    LS_TRY(ls_plan_check(plan));
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    int status = reshard_in(dir, from, plan, arena);
    ls_arena_free(arena);
    return status;
}
