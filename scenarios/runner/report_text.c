// Results for people: one table, then the failures in full.
#include <stdio.h>
#include <string.h>

#include "scenarios/runner/report_internal.h"

#define NAME_MAX_COLUMNS 44

typedef struct palette {
    const char *good, *bad, *dim, *bold, *off;
    const char *pass, *fail, *skip;
} palette;

static palette choose_palette(const ls_report_style *style) {
    palette p = {"", "", "", "", "", "pass", "FAIL", "skip"};
    if (style->color) {
        p.good = "\033[32m";
        p.bad = "\033[1;31m";
        p.dim = "\033[2m";
        p.bold = "\033[1m";
        p.off = "\033[0m";
    }
    if (style->unicode) {
        p.pass = "\u2713   ";
        p.fail = "\u2717   ";
        p.skip = "-   ";
    }
    return p;
}

// Characters, not bytes, of UTF-8 text.
static size_t columns(const char *text) {
    size_t count = 0;
    for (; *text != 0; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

static void put_left(ls_text *out, const char *text, size_t width) {
    ls_report__plain(out, text, strlen(text));
    size_t used = columns(text);
    ls_text_repeat(out, ' ', used < width ? width - used : 0);
}

static void put_number_right(ls_text *out, uint64_t value, size_t width) {
    ls_text number = {0};
    ls_report__number(&number, value);
    ls_text_repeat(out, ' ', number.length < width ? width - number.length : 0);
    ls_text_puts(out, ls_text_string(&number));
    out->failed = out->failed || number.failed;
    ls_text_free(&number);
}

static bool shown(const ls_case_result *result, const ls_report_style *style) {
    return !style->quiet || (!result->skipped && !result->pass);
}

static size_t name_width(const ls_results *results, const ls_report_style *style) {
    size_t width = 16;
    for (int c = 0; c < results->case_count; c++) {
        const ls_case_result *result = &results->cases[c];
        if (!shown(result, style)) {
            continue;
        }
        for (int s = 0; s < result->stage_count; s++) {
            size_t used = columns(result->stages[s].name) + 2;
            width = used > width ? used : width;
        }
        size_t used = columns(result->name);
        width = used > width ? used : width;
    }
    return width < NAME_MAX_COLUMNS ? width : NAME_MAX_COLUMNS;
}

static void put_stage(ls_text *out, const ls_stage_result *stage, size_t width, const palette *p) {
    bool good = ls_class_passes(stage->class_);
    ls_text_puts(out, "        ");
    put_left(out, stage->name, width - 2);
    ls_text_printf(out, "  %s", good ? p->good : p->bad);
    put_left(out, ls_class_name(stage->class_), 12);
    ls_text_puts(out, p->off);
    put_number_right(out, stage->elements, 14);
    put_number_right(out, stage->differing, 12);
    put_number_right(out, stage->max_ulps, 12);
    ls_text_printf(out, "%10.3g", stage->bound_ratio);
    if (stage->order != NULL) {
        ls_text_printf(out, "  %s", stage->order);
    }
    ls_text_puts(out, "\n");
}

static void put_case(ls_text *out, const ls_case_result *result, size_t width, const palette *p) {
    const char *color = result->skipped ? p->dim : result->pass ? p->good : p->bad;
    const char *mark = result->skipped ? p->skip : result->pass ? p->pass : p->fail;
    ls_text_printf(out, "%s%s%s  ", color, mark, p->off);
    put_left(out, result->name, width);
    if (result->skipped) {
        ls_text_printf(out, "  %s", p->dim);
        ls_report__plain(out, result->skip_reason, strlen(result->skip_reason));
        ls_text_printf(out, "%s\n", p->off);
        return;
    }
    ls_text_puts(out, "  ");
    ls_text_puts(out, color);
    put_left(out, ls_class_name(result->class_), 12);
    ls_text_puts(out, p->off);
    ls_text_printf(out, "  %s%s%s", result->backend != NULL ? result->backend : "",
                   result->real != NULL ? " against " : "",
                   result->real != NULL ? result->real : "");
    ls_text_printf(out, ", %.2f s\n", result->seconds);
    for (int s = 0; s < result->stage_count; s++) {
        put_stage(out, &result->stages[s], width, p);
    }
}

static void put_summary(ls_text *out, const ls_results *results, const palette *p) {
    bool pass = ls_results_pass(results);
    ls_text_printf(out, "%s%s: %d passed, %d failed, %d skipped%s\n", pass ? p->good : p->bad,
                   results->command, results->passed, results->failed, results->skipped, p->off);
}

int ls_report_text(ls_text *out, const ls_results *results, const ls_report_style *style) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(results != NULL && style != NULL);
    palette p = choose_palette(style);
    size_t width = name_width(results, style);
    bool any_stage = false;
    bool any_shown = false;
    for (int c = 0; c < results->case_count; c++) {
        any_shown = any_shown || shown(&results->cases[c], style);
        any_stage =
            any_stage || (results->cases[c].stage_count != 0 && shown(&results->cases[c], style));
    }
    if (any_stage) {
        ls_text_printf(out, "%s      ", p.dim);
        put_left(out, "case and stage", width);
        ls_text_printf(out, "  %-12s%14s%12s%12s%10s  %s%s\n", "class", "elements", "differing",
                       "max ulps", "of bound", "order", p.off);
    }
    for (int c = 0; c < results->case_count; c++) {
        if (shown(&results->cases[c], style)) {
            put_case(out, &results->cases[c], width, &p);
        }
    }
    for (int c = 0; c < results->case_count; c++) {
        const ls_case_result *result = &results->cases[c];
        bool expected = result->pass && result->finding_count != 0 && !style->quiet;
        if (result->skipped || (result->pass && !expected)) {
            continue;
        }
        ls_text_printf(out, "\n%s", p.bold);
        ls_report__plain(out, result->name, strlen(result->name));
        ls_text_printf(out, "%s (%s)\n", p.off, result->pass ? "as expected" : "failed");
        ls_report__explain(out, result, "  ");
    }
    if (any_shown) {
        ls_text_puts(out, "\n");
    }
    put_summary(out, results, &p);
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "text report: out of memory") : LS_OK;
}
