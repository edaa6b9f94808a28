// Draws the bytes from rank to rank as a matrix: text, and SVG.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/trace/trace.h"

#define TEXT_RANKS_MAX 32   // a larger matrix is summed over neighbouring ranks
#define CELL           22   // pixels
#define TITLE_MAX      100  // bytes of a title that are drawn

// The number of ranks that share a row and column of the drawing.
static int ranks_a_cell(int ranks, int most) {
    return (ranks + most - 1) / most;
}

static uint64_t cell(const uint64_t *bytes, int ranks, int each, int row, int column) {
    uint64_t sum = 0;
    for (int from = row * each; from < (row + 1) * each && from < ranks; from++) {
        for (int to = column * each; to < (column + 1) * each && to < ranks; to++) {
            sum += bytes[(size_t)from * (size_t)ranks + (size_t)to];
        }
    }
    return sum;
}

static void name_cell(char *out, size_t out_bytes, int index, int each, int ranks) {
    int last = (index + 1) * each - 1 < ranks - 1 ? (index + 1) * each - 1 : ranks - 1;
    if (last == index * each) {
        (void)snprintf(out, out_bytes, "%d", last);
    } else {
        (void)snprintf(out, out_bytes, "%d-%d", index * each, last);
    }
}

void ls_traffic_text(ls_text *out, const char *title, const uint64_t *bytes, int ranks) {
    int each = ranks_a_cell(ranks, TEXT_RANKS_MAX), cells = (ranks + each - 1) / each;
    ls_text_plain(out, title, strlen(title));
    ls_text_puts(out, ": bytes from the rank of the row to the rank of the column\n");
    ls_text_printf(out, "%10s", "from \\ to");
    char name[32];
    for (int column = 0; column < cells; column++) {
        name_cell(name, sizeof name, column, each, ranks);
        ls_text_printf(out, " %11s", name);
    }
    ls_text_printf(out, " %13s\n", "sends");
    uint64_t all = 0;
    for (int row = 0; row < cells; row++) {
        uint64_t sends = 0;
        name_cell(name, sizeof name, row, each, ranks);
        ls_text_printf(out, "%10s", name);
        for (int column = 0; column < cells; column++) {
            uint64_t here = cell(bytes, ranks, each, row, column);
            sends += here;
            if (here == 0) {
                ls_text_printf(out, " %11s", ".");
            } else {
                ls_text_printf(out, " %11" PRIu64, here);
            }
        }
        ls_text_printf(out, " %13" PRIu64 "\n", sends);
        all += sends;
    }
    ls_text_printf(out, "%" PRIu64 " bytes in all\n", all);
}

void ls_traffic_svg(ls_text *out, const char *title, const uint64_t *bytes, int ranks) {
    int each = ranks_a_cell(ranks, 128), cells = (ranks + each - 1) / each;
    int side = cells * CELL + 80;
    uint64_t most = 0;
    for (int row = 0; row < cells; row++) {
        for (int column = 0; column < cells; column++) {
            uint64_t here = cell(bytes, ranks, each, row, column);
            most = here > most ? here : most;
        }
    }
    // Letters of 12 pixels are about 7 wide; a longer title widens the drawing.
    size_t letters = strlen(title) < TITLE_MAX ? strlen(title) : TITLE_MAX;
    int width = 80 + 7 * (int)(letters + 60);
    ls_text_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                   "font-family=\"sans-serif\" font-size=\"10\">\n<title>",
                   width > side ? width : side, side);
    ls_text_xml(out, title);
    ls_text_puts(out, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                      "<text x=\"60\" y=\"14\" font-size=\"12\">");
    char shown[TITLE_MAX + 4];
    (void)snprintf(shown, sizeof shown, "%.*s%s", TITLE_MAX, title,
                   strlen(title) > TITLE_MAX ? "..." : "");
    ls_text_xml(out, shown);
    ls_text_printf(out, ": bytes, row sends to column; the darkest: %" PRIu64 "</text>\n", most);
    char name[32];
    for (int i = 0; i < cells; i++) {
        name_cell(name, sizeof name, i, each, ranks);
        ls_text_printf(out, "<text x=\"54\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
                       60 + i * CELL + 14, name);
        ls_text_printf(out, "<text x=\"%d\" y=\"54\" text-anchor=\"middle\">%s</text>\n",
                       60 + i * CELL + CELL / 2, name);
    }
    for (int row = 0; row < cells; row++) {
        for (int column = 0; column < cells; column++) {
            uint64_t here = cell(bytes, ranks, each, row, column);
            double part = here == 0 ? 0 : 0.1 + 0.9 * (double)here / (double)most;
            ls_text_printf(out,
                           "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#1f5fa8\" "
                           "fill-opacity=\"%.3f\" stroke=\"#ccc\"><title>%" PRIu64
                           " bytes</title></rect>\n",
                           60 + column * CELL, 60 + row * CELL, CELL, CELL, part, here);
        }
    }
    ls_text_puts(out, "</svg>\n");
}
