// Pictures as one SVG document. Block edges stand where the elements do, in proportion, but a block
// is never too thin to see.
#include <stdio.h>
#include <string.h>

#include "report/report_internal.h"
#include "report/show_internal.h"

#define WIDTH        640.0
#define MARGIN       20.0
#define LABEL_WIDTH  110.0
#define TITLE_HEIGHT 44.0
#define CELL_WIDTH   46.0  // at least
#define CELL_HEIGHT  22.0  // at least
#define LETTER_WIDTH 9.0   // of titles, about
#define PICTURES_BIG 32    // more are drawn at the least height
#define SLICES_MAX   64

// Where each cut stands, in pixels: in proportion over `span`, each interval at least `least`.
static int positions(double **out, ls_arena *arena, const ls_show_cuts *cuts, double span,
                     double least) {
    double *at = ls_arena_alloc(arena, (size_t)cuts->count + 1, sizeof *at);
    if (at == NULL) {
        return ls_error_wrap("show");
    }
    double whole = cuts->count > 0 ? (double)cuts->at[cuts->count] : 1.0;
    for (int i = 0; i < cuts->count; i++) {
        double size = span * (double)(cuts->at[i + 1] - cuts->at[i]) / whole;
        at[i + 1] = at[i] + (size > least ? size : least);
    }
    *out = at;
    return LS_OK;
}

// Neighbouring ranks get colours far apart: steps of the golden angle.
static void put_color(ls_text *out, int rank) {
    int hue = (int)((rank * 137508LL / 1000) % 360);
    ls_text_printf(out, "hsl(%d,60%%,%d%%)", hue, rank % 2 == 0 ? 78 : 70);
}

typedef struct canvas {
    ls_text *out;
    ls_arena *arena;
    double y;  // where the next thing goes
    double width_max;
    double height;  // of a whole slice, where its rows need no more
} canvas;

static void put_label(canvas *c, double x, double y, const char *anchor, int64_t first,
                      int64_t end) {
    ls_text_printf(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"edge\">%lld", x,
                   y, anchor, (long long)first);
    if (end - first != 1) {
        ls_text_printf(c->out, "-%lld", (long long)(end - 1));
    }
    ls_text_puts(c->out, "</text>\n");
}

static void put_cell(canvas *c, const ls_picture *picture, const int *ranks, int count, double x,
                     double y, double width, double height) {
    ls_text_printf(c->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"", x,
                   y, width, height);
    if (count == 0) {
        ls_text_puts(c->out, "#fff\" stroke=\"#c00\" stroke-dasharray=\"4 3\"/>\n");
    } else {
        put_color(c->out, ranks[0]);
        ls_text_puts(c->out, "\" stroke=\"#444\"/>\n");
    }
    ls_text text = {0};
    if (count == 0) {
        ls_text_puts(&text, "nobody");
    } else if (count == picture->ranks && count > 1) {
        ls_text_puts(&text, "all");
    } else {
        ls_report__ranks(&text, ranks, count);
    }
    bool fits = (double)text.length * 7.5 < width;
    c->out->failed = c->out->failed || text.failed;
    ls_text_printf(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s<title>%s</title>",
                   x + width / 2, y + height / 2 + 4, fits ? ls_text_string(&text) : "...",
                   ls_text_string(&text));
    ls_text_puts(c->out, "</text>\n");
    c->out->failed = c->out->failed || text.failed;
    ls_text_free(&text);
}

// One two-dimensional slice; `first` holds the leading indices.
static int draw_slice(canvas *c, const ls_picture *picture, const ls_show_cuts *cuts,
                      int64_t *first, int *ranks) {
    int ndim = picture->shape.ndim;
    int row_dim = ndim >= 2 ? ndim - 2 : ndim - 1;
    int column_dim = ndim >= 2 ? ndim - 1 : -1;
    int64_t whole[] = {0, 1};
    ls_show_cuts one = {whole, 1};
    const ls_show_cuts *rows = row_dim >= 0 ? &cuts[row_dim] : &one;
    const ls_show_cuts *columns = column_dim >= 0 ? &cuts[column_dim] : &one;
    double *xs = NULL;
    double *ys = NULL;
    LS_TRY(positions(&xs, c->arena, columns, WIDTH, CELL_WIDTH));
    LS_TRY(positions(&ys, c->arena, rows, c->height, CELL_HEIGHT));
    double left = MARGIN + LABEL_WIDTH;
    double top = c->y + 18;
    for (int j = 0; j < columns->count && column_dim >= 0; j++) {
        put_label(c, left + (xs[j] + xs[j + 1]) / 2, top - 5, "middle", columns->at[j],
                  columns->at[j + 1]);
    }
    for (int i = 0; i < rows->count; i++) {
        if (row_dim >= 0) {
            put_label(c, left - 8, top + (ys[i] + ys[i + 1]) / 2 + 4, "end", rows->at[i],
                      rows->at[i + 1]);
            first[row_dim] = rows->at[i];
        }
        for (int j = 0; j < columns->count; j++) {
            if (column_dim >= 0) {
                first[column_dim] = columns->at[j];
            }
            int count = ls_show__holders(ranks, picture, first);
            put_cell(c, picture, ranks, count, left + xs[j], top + ys[i], xs[j + 1] - xs[j],
                     ys[i + 1] - ys[i]);
        }
    }
    c->y = top + ys[rows->count] + 12;
    double right = left + xs[columns->count] + MARGIN;
    c->width_max = right > c->width_max ? right : c->width_max;
    return LS_OK;
}

static int draw_slices(canvas *c, const ls_picture *picture, const ls_show_cuts *cuts, int *ranks) {
    int ndim = picture->shape.ndim;
    int index[LS_DIMS_MAX] = {0};
    int64_t first[LS_DIMS_MAX] = {0};
    for (int drawn = 0; drawn < SLICES_MAX; drawn++) {
        if (ndim > 2) {
            ls_text_printf(c->out, "<text x=\"%.1f\" y=\"%.1f\">[", MARGIN, c->y + 12);
            for (int d = 0; d < ndim - 2; d++) {
                first[d] = cuts[d].at[index[d]];
                ls_text_printf(c->out, "%lld-%lld, ", (long long)first[d],
                               (long long)cuts[d].at[index[d] + 1] - 1);
            }
            ls_text_puts(c->out, ":, :]</text>\n");
            c->y += 18;
        }
        LS_TRY(draw_slice(c, picture, cuts, first, ranks));
        int d = ndim - 3;
        while (d >= 0 && ++index[d] == cuts[d].count) {
            index[d--] = 0;
        }
        if (d < 0) {
            return LS_OK;
        }
    }
    ls_text_printf(c->out, "<text x=\"%.1f\" y=\"%.1f\">only the first %d slices</text>\n", MARGIN,
                   c->y + 12, SLICES_MAX);
    c->y += 24;
    return LS_OK;
}

static int draw_picture(canvas *c, const ls_picture *picture) {
    ls_show_cuts cuts[LS_DIMS_MAX];
    LS_TRY(ls_show__cuts(cuts, c->arena, picture));
    size_t most =
        (size_t)(picture->block_count > picture->ranks ? picture->block_count : picture->ranks);
    int *ranks = ls_arena_alloc(c->arena, most + 1, sizeof *ranks);
    if (ranks == NULL) {
        return ls_error_wrap("show");
    }
    ls_text_printf(c->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"title\">", MARGIN, c->y + 16);
    ls_text_xml(c->out, picture->title);
    ls_text_puts(c->out, "</text>\n");
    double right = 2 * MARGIN + LETTER_WIDTH * (double)strlen(picture->title);
    c->width_max = right > c->width_max ? right : c->width_max;
    c->y += TITLE_HEIGHT - 16;
    bool empty = false;
    for (int d = 0; d < picture->shape.ndim; d++) {
        empty = empty || picture->shape.dim[d] == 0;
    }
    if (!empty) {
        LS_TRY(draw_slices(c, picture, cuts, ranks));
    }
    int idle = ls_show__idle(ranks, picture);
    if (idle != 0) {
        ls_text_printf(c->out, "<text x=\"%.1f\" y=\"%.1f\">nothing on ranks ", MARGIN, c->y + 12);
        ls_report__ranks(c->out, ranks, idle);
        ls_text_puts(c->out, "</text>\n");
        c->y += 20;
    }
    c->y += 24;
    return LS_OK;
}

int ls_show_svg(ls_text *out, const ls_picture *pictures, int count) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(pictures != NULL || count == 0);
    ls_text body = {0};
    canvas c = {.out = &body,
                .y = MARGIN,
                .width_max = WIDTH + LABEL_WIDTH + 2 * MARGIN,
                .height = CELL_HEIGHT * (count > PICTURES_BIG ? 2 : 12)};
    LS_TRY(ls_arena_create(&c.arena));
    int status = LS_OK;
    for (int i = 0; i < count && status == LS_OK; i++) {
        status = draw_picture(&c, &pictures[i]);
    }
    if (status == LS_OK) {
        ls_text_printf(out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                       "viewBox=\"0 0 %.0f %.0f\">\n<style>text{font:13px sans-serif}"
                       ".title{font-weight:bold}.edge{fill:#666;font-size:11px}</style>\n"
                       "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                       c.width_max, c.y, c.width_max, c.y);
        ls_text_puts(out, ls_text_string(&body));
        ls_text_puts(out, "</svg>\n");
        if (out->failed || body.failed) {
            status = LS_FAIL(LS_ERR_MEMORY, "show: out of memory");
        }
    }
    ls_arena_free(c.arena);
    ls_text_free(&body);
    return status;
}
