// The storage of a table's rows: numbers of its dtype, or quantised rows. It matters which comes
// first: whole rows are quantised and then cut, which keeps their scales, or each shard quantises
// what it holds (ls_table.quantise_shards).
#include "embedding/internal.h"

#define CHUNK_ROWS 256  // quantised at once, so that a whole row's f32 are never all of a table

ls_dtype ls_embedding__looked_up_dtype(const ls_table *table) {
    if (table->row_format) {
        return LS_F32;
    }
    return table->pooling == LS_POOL_NONE ? table->dtype : ls_optimizer_state_dtype(table->dtype);
}

int ls_embedding__check_kept(const ls_table *table) {
    if (table->has_output_dtype && table->output_dtype != LS_F32 && table->output_dtype != LS_F16 &&
        table->output_dtype != LS_BF16 && table->output_dtype != LS_F64) {
        return LS_FAIL(
            LS_ERR_UNSUPPORTED,
            "embedding: table %s: outputs must be f32, f16, bf16 or f64, not %s", table->name,
            ls_dtype_valid((int)table->output_dtype) ? ls_dtype_name(table->output_dtype) : "?");
    }
    if (!table->row_format) {
        return LS_OK;
    }
    if (ls_row_format_check(table->row_format)) {
        return ls_error_wrap("embedding: table %s", table->name);
    }
    if (table->dtype != LS_F32 && table->dtype != LS_F16 && table->dtype != LS_BF16) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "embedding: table %s of %s: rows are quantised from f32, f16 or bf16",
                       table->name, ls_dtype_name(table->dtype));
    }
    if (table->max_norm > 0) {
        return LS_FAIL(
            LS_ERR_UNSUPPORTED,
            "embedding: table %s: max_norm changes rows, and quantised rows are constant",
            table->name);
    }
    return LS_OK;
}

int ls_embedding__shard_room(size_t *count, size_t *element_bytes, const ls_table *table,
                             int64_t rows, int64_t columns) {
    if (!table->row_format) {
        *element_bytes = ls_dtype_bytes(table->dtype);
        return ls_embedding__count(count, rows, columns, 1);
    }
    *element_bytes = 1;
    LS_TRY(ls_row_format_bytes(count, table->row_format, (size_t)columns));
    return ls_size_mul(count, *count, (size_t)rows);
}

// ---- Quantising a shard -------------------------------------------------------------------------

// A few rows on their way.
typedef struct chunk {
    void *numbers;  // [CHUNK_ROWS, columns that are quantised together] of the table's dtype
    float *floats;  // the same in f32
    void *packed;   // the same, quantised
    int64_t first, columns;  // of them
} chunk;

static int chunk_create(chunk *out, const ls_table *table, const ls_plan_shard *block,
                        ls_arena *arena) {
    bool whole = !table->quantise_shards;
    out->first = whole ? 0 : block->column_offset;
    out->columns = whole ? table->dim : block->columns;
    size_t cells, row_bytes;
    LS_TRY(ls_embedding__count(&cells, CHUNK_ROWS, out->columns, 1));
    LS_TRY(ls_row_format_bytes(&row_bytes, table->row_format, (size_t)out->columns));
    out->numbers = ls_arena_alloc(arena, cells, ls_dtype_bytes(table->dtype));
    out->packed = out->numbers ? ls_arena_alloc(arena, CHUNK_ROWS, row_bytes) : NULL;
    if (!out->packed) {
        return ls_error_last()->code;
    }
    ARENA_NEW(out->floats, arena, cells);
    return LS_OK;
}

static int fill_rows(chunk *c, char *out, const ls_table *table, int index,
                     const ls_plan_shard *block, int64_t row, int64_t rows,
                     const ls_embedding_options *options) {
    size_t bad = 0, columns = (size_t)c->columns;
    LS_TRY(options->fill(options->fill_arg, index, block->rank, row, rows, c->first, c->columns,
                         c->numbers));
    ls_kernel_convert(c->floats, LS_F32, c->numbers, table->dtype, (size_t)rows * columns);
    if (ls_kernel_quantise_rows(c->packed, table->row_format, c->floats, columns, (size_t)rows,
                                columns, &bad)) {
        return LS_FAIL_RANK(LS_ERR_INVALID, block->rank,
                            "row %lld cannot be quantised to %s: it holds NaN or infinity, or its "
                            "range is too wide for its scale",
                            (long long)row + (long long)bad,
                            ls_row_element_name(table->row_format->element));
    }
    ls_kernel_cut_quantised_rows(out, c->packed, table->row_format, (size_t)rows, columns,
                                 (size_t)(block->column_offset - c->first), (size_t)block->columns);
    return LS_OK;
}

int ls_embedding__fill_quantised(void *out, const ls_table *table, int index,
                                 const ls_plan_shard *block, const ls_embedding_options *options) {
    ls_arena *arena;
    chunk c = {0};
    size_t row_bytes = 0;
    LS_TRY(ls_arena_create(&arena));
    int status = chunk_create(&c, table, block, arena);
    if (!status) {
        status = ls_row_format_bytes(&row_bytes, table->row_format, (size_t)block->columns);
    }
    for (int64_t done = 0; done < block->rows && !status; done += CHUNK_ROWS) {
        int64_t left = block->rows - done;
        status =
            fill_rows(&c, (char *)out + (size_t)done * row_bytes, table, index, block,
                      block->row_offset + done, left < CHUNK_ROWS ? left : CHUNK_ROWS, options);
    }
    ls_arena_free(arena);
    return status;
}
