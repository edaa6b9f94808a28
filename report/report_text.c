// Results for people: one table, then the failures in full.
#include <stdio.h>
#include <string.h>

#include "report/report_internal.h"

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
    ls_text_plain(out, text, strlen(text));
    size_t used = columns(text);
    ls_text_repeat(out, ' ', used < width ? width - used : 0);
}

// Frees the text.
static void put_right(ls_text *out, ls_text *text, size_t width) {
    ls_text_repeat(out, ' ', text->length < width ? width - text->length : 0);
    ls_text_puts(out, ls_text_string(text));
    out->failed = out->failed || text->failed;
    ls_text_free(text);
}

static void put_number_right(ls_text *out, uint64_t value, size_t width) {
    ls_text number = {0};
    ls_report__number(&number, value);
    put_right(out, &number, width);
}

static bool shown(const ls_case_result *result, const ls_report_style *style) {
    bool failed = !result->skipped && !result->pass;
    return failed || (!style->quiet && (result->skipped || !style->summed_up));
}

// The first case that was skipped for the same reason.
static int first_skip(const ls_results *results, int c) {
    int first = 0;
    while (!results->cases[first].skipped ||
           strcmp(results->cases[first].skip_reason, results->cases[c].skip_reason) != 0) {
        first++;
    }
    return first;
}

static int count_skips(const ls_results *results, int first) {
    int count = 0;
    for (int c = first; c < results->case_count; c++) {
        count += results->cases[c].skipped && first_skip(results, c) == first;
    }
    return count;
}

typedef struct table_widths {
    size_t name, elements, differing, ulps;  // in columns; numbers with two spaces before them
} table_widths;

// Frees the text.
static void widen(ls_text *out, size_t *width, ls_text *text) {
    *width = text->length + 2 > *width ? text->length + 2 : *width;
    out->failed = out->failed || text->failed;
    ls_text_free(text);
}

static void widen_for_number(ls_text *out, size_t *width, uint64_t value) {
    ls_text number = {0};
    ls_report__number(&number, value);
    widen(out, width, &number);
}

static table_widths choose_widths(ls_text *out, const ls_results *results,
                                  const ls_report_style *style) {
    table_widths widths = {.name = 16, .elements = 14, .differing = 12, .ulps = 12};
    for (int c = 0; c < results->case_count; c++) {
        const ls_case_result *result = &results->cases[c];
        if (!shown(result, style)) {
            continue;
        }
        for (int s = 0; s < result->stage_count; s++) {
            const ls_stage_result *stage = &result->stages[s];
            size_t used = columns(stage->name) + 2;
            widths.name = used > widths.name ? used : widths.name;
            widen_for_number(out, &widths.elements, stage->elements);
            widen_for_number(out, &widths.differing, stage->differing);
            ls_text distance = {0};
            ls_report__distance(&distance, stage);
            widen(out, &widths.ulps, &distance);
        }
        size_t used = columns(result->name);
        widths.name = used > widths.name ? used : widths.name;
    }
    widths.name = widths.name < NAME_MAX_COLUMNS ? widths.name : NAME_MAX_COLUMNS;
    return widths;
}

static void put_stage(ls_text *out, const ls_stage_result *stage, const table_widths *widths,
                      const palette *p) {
    bool good = ls_class_passes(stage->class_);
    ls_text_puts(out, "        ");
    put_left(out, stage->name, widths->name - 2);
    ls_text_printf(out, "  %s", good ? p->good : p->bad);
    put_left(out, ls_class_name(stage->class_), 12);
    ls_text_puts(out, p->off);
    put_number_right(out, stage->elements, widths->elements);
    put_number_right(out, stage->differing, widths->differing);
    ls_text distance = {0};
    ls_report__distance(&distance, stage);
    put_right(out, &distance, widths->ulps);
    ls_text_printf(out, "  %8.3g", stage->bound_ratio);
    if (stage->order != NULL) {
        ls_text_printf(out, "  %s", stage->order);
    }
    ls_text_puts(out, "\n");
}

// Calls with a purpose; the others are in the JSON and HTML reports.
static void put_calls(ls_text *out, const ls_case_result *result) {
    for (int i = 0; i < result->call_count; i++) {
        const ls_call_row *row = &result->calls[i];
        if (row->purpose == NULL) {
            continue;
        }
        ls_text_printf(out, "        %s on ", row->call);
        ls_text_plain(out, row->communicator, strlen(row->communicator));
        ls_text_puts(out, " for ");
        ls_text_plain(out, row->purpose, strlen(row->purpose));
        ls_text_printf(out, ": %llu call%s, ", (unsigned long long)row->calls,
                       row->calls == 1 ? "" : "s");
        ls_report__number(out, row->bytes);
        ls_text_puts(out, " bytes sent\n");
    }
}

static void put_case(ls_text *out, const ls_case_result *result, const table_widths *widths,
                     const palette *p) {
    const char *color = result->pass ? p->good : p->bad;
    const char *mark = result->pass ? p->pass : p->fail;
    if (result->skipped) {
        color = p->dim;
        mark = p->skip;
    }
    ls_text_printf(out, "%s%s%s  ", color, mark, p->off);
    put_left(out, result->name, widths->name);
    if (result->skipped) {
        ls_text_printf(out, "  %s", p->dim);
        ls_text_plain(out, result->skip_reason, strlen(result->skip_reason));
        ls_text_printf(out, "%s\n", p->off);
        put_calls(out, result);
        ls_report__omitted(out, result, "        ");
        return;
    }
    ls_text_puts(out, "  ");
    ls_text_puts(out, color);
    put_left(out, ls_class_name(result->class_), 12);
    ls_text_puts(out, p->off);
    ls_text_printf(out, "  %s%s%s", result->backend != NULL ? result->backend : "",
                   result->real != NULL ? " against " : "",
                   result->real != NULL ? result->real : "");
    if (result->unproven != NULL) {
        ls_text_printf(out, ", %s", result->unproven);
    }
    ls_text_printf(out, ", %.2f s\n", result->seconds);
    for (int s = ls_report__next_stage(result, -1); s >= 0; s = ls_report__next_stage(result, s)) {
        const ls_stage_result *stage = &result->stages[s];
        put_stage(out, stage, widths, p);
        if (stage->unjudged > 0) {
            ls_text_printf(out, "          %snot judged: ", p->dim);
            ls_report__unjudged(out, stage);
            ls_text_printf(out, "%s\n", p->off);
        }
        if (result->pass && ls_report__tells_design(result, s)) {
            ls_text_puts(out, "          ");
            ls_text_plain(out, stage->divergence, strlen(stage->divergence));
            ls_text_puts(out, "\n");
        }
    }
    if (result->checked != NULL) {
        ls_text_printf(out, "        %s\n", result->checked);
    }
    for (const char *at = result->note; at != NULL && *at != 0; at += *at == '\n' ? 1 : 0) {
        const size_t length = strcspn(at, "\n");
        ls_text_puts(out, "        note: ");
        ls_text_plain(out, at, length);
        ls_text_puts(out, "\n");
        at += length;
    }
    put_calls(out, result);
    ls_report__omitted(out, result, "        ");
    for (int s = 0; s < result->norm_count; s++) {
        ls_text_printf(out, "        %s", p->dim);
        ls_report__norms(out, result, s);
        ls_text_printf(out, "%s\n", p->off);
    }
}

// A skipped case where each reason has one line.
static void put_skip(ls_text *out, const ls_results *results, int c, const table_widths *widths,
                     const palette *p) {
    if (first_skip(results, c) != c) {
        return;
    }
    int count = count_skips(results, c);
    if (count == 1) {
        put_case(out, &results->cases[c], widths, p);
        return;
    }
    char cases[32];
    (void)snprintf(cases, sizeof cases, "%d cases", count);
    ls_text_printf(out, "%s%s%s  ", p->dim, p->skip, p->off);
    put_left(out, cases, widths->name);
    ls_text_printf(out, "  %s", p->dim);
    const char *reason = results->cases[c].skip_reason;
    ls_text_plain(out, reason, strlen(reason));
    ls_text_printf(out, "%s\n", p->off);
}

static void put_summary(ls_text *out, const ls_results *results, const palette *p) {
    bool pass = ls_results_pass(results);
    ls_text_printf(out, "%s%s: %d passed", pass ? p->good : p->bad, results->command,
                   results->passed);
    for (int c = 0; c < results->case_count; c++) {
        const ls_case_result *result = &results->cases[c];
        if (result->pass && !result->skipped && result->unproven != NULL) {
            ls_text_printf(out, " (%s)", result->unproven);
        }
    }
    ls_text_printf(out, ", %d failed, %d skipped%s\n", results->failed, results->skipped, p->off);
}

int ls_report_text(ls_text *out, const ls_results *results, const ls_report_style *style) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(results != NULL && style != NULL);
    palette p = choose_palette(style);
    const table_widths widths = choose_widths(out, results, style);
    bool any_stage = false;
    bool any_shown = false;
    for (int c = 0; c < results->case_count; c++) {
        any_shown = any_shown || shown(&results->cases[c], style);
        any_stage =
            any_stage || (results->cases[c].stage_count != 0 && shown(&results->cases[c], style));
    }
    if (any_stage) {
        ls_text_printf(out, "%s      ", p.dim);
        put_left(out, "case and stage", widths.name);
        ls_text_printf(out, "  %-12s%*s%*s%*s  %8s  %s%s\n", "class", (int)widths.elements,
                       "elements", (int)widths.differing, "differing", (int)widths.ulps, "max ulps",
                       "of bound", "order", p.off);
    }
    for (int c = 0; c < results->case_count; c++) {
        if (results->cases[c].skipped && style->count_skips && !style->quiet) {
            put_skip(out, results, c, &widths, &p);
        } else if (shown(&results->cases[c], style)) {
            put_case(out, &results->cases[c], &widths, &p);
        }
    }
    for (int c = 0; c < results->case_count; c++) {
        const ls_case_result *result = &results->cases[c];
        bool expected = result->pass && result->finding_count != 0 && shown(result, style);
        if (result->skipped || (result->pass && !expected)) {
            continue;
        }
        ls_text_printf(out, "\n%s", p.bold);
        ls_text_plain(out, result->name, strlen(result->name));
        ls_text_printf(out, "%s (%s)\n", p.off, result->pass ? "as expected" : "failed");
        ls_report__explain(out, result, "  ");
    }
    if (any_shown) {
        ls_text_puts(out, "\n");
    }
    put_summary(out, results, &p);
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "text report: out of memory") : LS_OK;
}
