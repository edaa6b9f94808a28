// Reads a lockstep checkpoint as a capture: each array of a table is one tensor, whatever the plan.
#define _XOPEN_SOURCE 700
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/diff/capture_internal.h"

bool ls_capture__is_checkpoint(const char *dir) {
    static const char *const files[] = {"index.json", "plan.yaml"};
    bool found = true;
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        found = found && length > 0 && length < PATH_MAX && access(path, F_OK) == 0;
    }
    return found;
}

// Adds a tensor that rank 0 has, without its values.
static int add(ls_capture_piece **out, ls_capture *capture, const char *name, ls_dtype dtype,
               const ls_shape *shape) {
    ls_captured *tensor = NULL;
    ls_safetensor *at = ls_arena_alloc(capture->arena, 1, sizeof *at);
    LS_TRY_MEMORY(at != NULL && name != NULL);
    *at = (ls_safetensor){.name = name, .dtype = (int)dtype, .ndim = shape->ndim};
    LS_TRY(ls_shape_count(&at->count, shape));
    LS_TRY(ls_size_mul(&at->bytes, at->count, ls_dtype_bytes(dtype)));
    memcpy(at->dim, shape->dim, (size_t)shape->ndim * sizeof at->dim[0]);
    LS_TRY(ls_capture__add(&tensor, capture, name, 0, NULL, at));
    *out = &tensor->pieces[0];
    return LS_OK;
}

int ls_capture__checkpoint(ls_capture *capture, const char *dir) {
    LS_TRY(ls_checkpoint_open(&capture->checkpoint, dir));
    const ls_plan *plan = ls_checkpoint_plan(capture->checkpoint);
    capture->ranks = 1;  // each tensor is whole
    ls_capture_piece *piece = NULL;
    int64_t *step = ls_arena_alloc(capture->arena, 1, sizeof *step);
    LS_TRY_MEMORY(step != NULL);
    *step = ls_checkpoint_step(capture->checkpoint);
    LS_TRY(add(&piece, capture, "step", LS_I64, &(ls_shape){.ndim = 0}));
    piece->data = step;
    for (int t = 0; t < plan->table_count; t++) {
        const ls_plan_table *table = &plan->tables[t];
        const ls_checkpoint_table *of = &ls_checkpoint_tables(capture->checkpoint)[t];
        for (int a = 0; a < of->array_count; a++) {
            const char *name =
                ls_arena_printf(capture->arena, "%s.%s", table->name, of->arrays[a].name);
            const ls_shape shape = {.ndim = 2, .dim = {table->rows, table->columns}};
            LS_TRY(add(&piece, capture, name, of->arrays[a].dtype, &shape));
            piece->checkpoint = capture->checkpoint;
            piece->table = t;
            piece->array = a;
        }
    }
    return LS_OK;
}

// A number for each row belongs to a row of a shard: every column block of it gets the number.
static int read_per_row(char *out, const ls_capture_piece *piece, const ls_plan_table *table,
                        size_t bytes) {
    for (int s = 0; s < table->shard_count; s++) {
        const ls_plan_shard *shard = &table->shards[s];
        size_t rows = (size_t)shard->rows, columns = (size_t)shard->columns;
        void *values = NULL;
        LS_TRY(ls_alloc(&values, rows + 1, bytes));
        int status = columns == 0 || rows == 0 ? LS_OK
                                               : ls_checkpoint_read(piece->checkpoint, piece->table,
                                                                    piece->array, shard, values);
        for (size_t r = 0; status == LS_OK && r < rows; r++) {
            size_t first = ((size_t)shard->row_offset + r) * (size_t)table->columns +
                           (size_t)shard->column_offset;
            for (size_t c = 0; c < columns; c++) {
                memcpy(out + (first + c) * bytes, (char *)values + r * bytes, bytes);
            }
        }
        ls_free(values, rows + 1, bytes);
        LS_TRY(status);
    }
    return LS_OK;
}

int ls_capture_read(void *out, const ls_capture_piece *piece) {
    if (piece->data != NULL) {
        memcpy(out, piece->data, piece->at->bytes);
        return LS_OK;
    }
    if (piece->checkpoint == NULL) {
        return ls_safetensors_read(out, piece->at->bytes, piece->file, piece->at);
    }
    const ls_plan_table *table = &ls_checkpoint_plan(piece->checkpoint)->tables[piece->table];
    const ls_checkpoint_array *array =
        &ls_checkpoint_tables(piece->checkpoint)[piece->table].arrays[piece->array];
    if (array->per_row) {
        return read_per_row(out, piece, table, ls_dtype_bytes(array->dtype));
    }
    const ls_plan_shard whole = {.rows = table->rows, .columns = table->columns};
    return ls_checkpoint_read(piece->checkpoint, piece->table, piece->array, &whole, out);
}
