// A picture as characters.
#include <stdio.h>
#include <string.h>

#include "report/report_internal.h"
#include "report/show_internal.h"

#define LINES_MAX   64  // grid lines per slice
#define COLUMNS_MAX 16  // grid columns per slice
#define SLICES_MAX  32
#define LABEL_MAX   56
#define CELL_MAX    56

// "7" or "0-6", behind `word` in its singular or plural: "row 7", "rows 0-6". NULL: no word.
static void label(char *out, size_t out_bytes, const char *word, int64_t first, int64_t end) {
    bool one = end - first == 1;
    int used = 0;
    if (word != NULL) {
        used = snprintf(out, out_bytes, "%s%s ", word, one ? "" : "s");
    }
    if (one) {
        (void)snprintf(out + used, out_bytes - (size_t)used, "%lld", (long long)first);
    } else {
        (void)snprintf(out + used, out_bytes - (size_t)used, "%lld-%lld", (long long)first,
                       (long long)(end - 1));
    }
}

// "rank 3", "ranks 0, 2-3", "all ranks" or "nobody", truncated to fit; false: out of memory.
static bool cell(char *out, size_t out_bytes, const int *ranks, int count, int world) {
    ls_text text = {0};
    if (count == 0) {
        ls_text_puts(&text, "nobody");
    } else if (count == world && world > 1) {
        ls_text_puts(&text, "all ranks");
    } else {
        ls_text_puts(&text, count == 1 ? "rank " : "ranks ");
        ls_report__ranks(&text, ranks, count);
    }
    int used = snprintf(out, out_bytes, "%s", ls_text_string(&text));
    if (used >= (int)out_bytes) {
        (void)snprintf(out + out_bytes - 4, 4, "...");
    }
    bool whole = !text.failed;
    ls_text_free(&text);
    return whole;
}

typedef struct slice {
    const ls_picture *picture;
    const ls_show_cuts *rows, *columns;  // columns NULL: one dimension
    int row_dim, column_dim;             // -1 where there is none
    int64_t first[LS_DIMS_MAX];          // of the leading dimensions
    int *ranks;                          // [block_count] scratch
    bool failed;                         // no memory for a cell's text
} slice;

static void slice_cell(char *out, slice *s, int row, int column) {
    if (s->row_dim >= 0) {
        s->first[s->row_dim] = s->rows->at[row];
    }
    if (s->column_dim >= 0) {
        s->first[s->column_dim] = s->columns->at[column];
    }
    int count = ls_show__holders(s->ranks, s->picture, s->first);
    s->failed = !cell(out, CELL_MAX, s->ranks, count, s->picture->ranks) || s->failed;
}

static void rule(ls_text *out, size_t label_width, const size_t *widths, int columns) {
    ls_text_repeat(out, ' ', label_width + 1);
    for (int c = 0; c < columns; c++) {
        ls_text_puts(out, "+");
        ls_text_repeat(out, '-', widths[c] + 2);
    }
    ls_text_puts(out, "+\n");
}

static void put_row_cells(ls_text *out, const char (*cells)[CELL_MAX], const size_t *widths,
                          int columns) {
    for (int c = 0; c < columns; c++) {
        ls_text_printf(out, "| %-*s ", (int)widths[c], cells[c]);
    }
    ls_text_puts(out, "|\n");
}

static void draw_slice(ls_text *out, slice *s) {
    int rows = s->row_dim >= 0 ? s->rows->count : 1;
    int columns = s->column_dim >= 0 ? s->columns->count : 1;
    int shown_rows = rows < LINES_MAX ? rows : LINES_MAX;
    int shown_columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    char cells[COLUMNS_MAX][CELL_MAX];
    char heads[COLUMNS_MAX][CELL_MAX];
    size_t widths[COLUMNS_MAX];
    size_t label_width = 4;
    const char *row_word = s->picture->is_table ? "row" : NULL;
    const char *column_word = s->picture->is_table ? "column" : NULL;
    char text[LABEL_MAX];
    for (int c = 0; c < shown_columns; c++) {
        heads[c][0] = 0;
        if (s->column_dim >= 0) {
            label(heads[c], CELL_MAX, column_word, s->columns->at[c], s->columns->at[c + 1]);
        }
        widths[c] = strlen(heads[c]);
    }
    for (int r = 0; r < shown_rows; r++) {
        if (s->row_dim >= 0) {
            label(text, sizeof text, row_word, s->rows->at[r], s->rows->at[r + 1]);
            size_t used = strlen(text);
            label_width = used > label_width ? used : label_width;
        }
        for (int c = 0; c < shown_columns; c++) {
            slice_cell(cells[c], s, r, c);
            widths[c] = strlen(cells[c]) > widths[c] ? strlen(cells[c]) : widths[c];
        }
    }
    if (s->column_dim >= 0) {
        ls_text_repeat(out, ' ', label_width + 1);
        for (int c = 0; c < shown_columns; c++) {
            bool last = c + 1 == shown_columns;
            ls_text_printf(out, "  %-*s%s", last ? 0 : (int)widths[c], heads[c], last ? "" : " ");
        }
        ls_text_puts(out, "\n");
    }
    rule(out, label_width, widths, shown_columns);
    for (int r = 0; r < shown_rows; r++) {
        text[0] = 0;
        if (s->row_dim >= 0) {
            label(text, sizeof text, row_word, s->rows->at[r], s->rows->at[r + 1]);
        }
        for (int c = 0; c < shown_columns; c++) {
            slice_cell(cells[c], s, r, c);
        }
        ls_text_printf(out, "%*s ", (int)label_width, text);
        put_row_cells(out, (const char(*)[CELL_MAX])cells, widths, shown_columns);
        rule(out, label_width, widths, shown_columns);
    }
    out->failed = out->failed || s->failed;
    if (shown_rows < rows || shown_columns < columns) {
        ls_text_printf(out, "(%d of %d row blocks and %d of %d column blocks are shown)\n",
                       shown_rows, rows, shown_columns, columns);
    }
}

// Names the slice: "[0-1, 4, :, :]".
static void put_slice_name(ls_text *out, const ls_show_cuts *cuts, const int *index, int ndim) {
    ls_text_puts(out, "slice [");
    for (int d = 0; d < ndim; d++) {
        char text[LABEL_MAX] = ":";
        if (d < ndim - 2) {
            label(text, sizeof text, NULL, cuts[d].at[index[d]], cuts[d].at[index[d] + 1]);
        }
        ls_text_printf(out, "%s%s", d == 0 ? "" : ", ", text);
    }
    ls_text_puts(out, "]\n");
}

static void draw_slices(ls_text *out, const ls_picture *picture, const ls_show_cuts *cuts,
                        int *ranks) {
    int ndim = picture->shape.ndim;
    slice s = {.picture = picture, .row_dim = -1, .column_dim = -1, .ranks = ranks};
    if (ndim >= 1) {
        s.row_dim = ndim >= 2 ? ndim - 2 : 0;
        s.rows = &cuts[s.row_dim];
    }
    if (ndim >= 2) {
        s.column_dim = ndim - 1;
        s.columns = &cuts[s.column_dim];
    }
    int index[LS_DIMS_MAX] = {0};
    for (int drawn = 0;; drawn++) {
        if (drawn == SLICES_MAX) {
            ls_text_printf(out, "(only the first %d slices are shown)\n", SLICES_MAX);
            return;
        }
        for (int d = 0; d < ndim - 2; d++) {
            s.first[d] = cuts[d].at[index[d]];
        }
        if (ndim > 2) {
            put_slice_name(out, cuts, index, ndim);
        }
        draw_slice(out, &s);
        int d = ndim - 3;
        while (d >= 0 && ++index[d] == cuts[d].count) {
            index[d--] = 0;
        }
        if (d < 0) {
            return;
        }
    }
}

int ls_show_text(ls_text *out, const ls_picture *picture) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(picture != NULL && picture->title != NULL);
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_show_cuts cuts[LS_DIMS_MAX];
    int status = ls_show__cuts(cuts, arena, picture);
    size_t most =
        (size_t)(picture->block_count > picture->ranks ? picture->block_count : picture->ranks);
    int *ranks = ls_arena_alloc(arena, most + 1, sizeof *ranks);
    if (status == LS_OK && ranks == NULL) {
        status = ls_error_wrap("show");
    }
    if (status == LS_OK) {
        ls_text_plain(out, picture->title, strlen(picture->title));
        ls_text_puts(out, "\n");
        bool empty = false;
        for (int d = 0; d < picture->shape.ndim; d++) {
            empty = empty || picture->shape.dim[d] == 0;
        }
        if (empty) {
            ls_text_puts(out, "no elements\n");
        } else {
            draw_slices(out, picture, cuts, ranks);
        }
        int idle = ls_show__idle(ranks, picture);
        if (idle != 0) {
            ls_text_puts(out, idle == 1 ? "nothing on rank " : "nothing on ranks ");
            ls_report__ranks(out, ranks, idle);
            ls_text_puts(out, "\n");
        }
        status = out->failed ? LS_FAIL(LS_ERR_MEMORY, "show: out of memory") : LS_OK;
    }
    ls_arena_free(arena);
    return status;
}
