// Results as one HTML page: no script, no link to anything outside it.
#include <string.h>

#include "report/report_internal.h"

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>lockstep ";
static const char page_style[] =
    "</title>\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;"
    "color:#1c2330;background:#fff}\n"
    "table{border-collapse:collapse;width:100%;margin:.4em 0 1em}\n"
    "th,td{text-align:left;padding:.2em .7em;border-bottom:1px solid #e3e6ea}\n"
    "th{font-weight:600;color:#5a6473}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "summary{cursor:pointer;padding:.25em 0}\n"
    "pre{background:#f5f6f8;padding:.8em;overflow-x:auto}\n"
    ".pass{color:#1a7f37}.fail{color:#c62828;font-weight:600}.skip{color:#7a828e}\n"
    "@media(prefers-color-scheme:dark){body{color:#dde1e7;background:#14171c}"
    "pre{background:#20242b}th,td{border-color:#333a44}}\n"
    "</style></head><body>\n";

// The share of passed, failed and skipped cases as one bar.
static void write_bar(ls_text *out, const ls_results *results) {
    const int counts[] = {results->passed, results->failed, results->skipped};
    const char *const colors[] = {"#2da44e", "#d32f2f", "#b4bac3"};
    double total = results->case_count > 0 ? results->case_count : 1;
    double x = 0;
    ls_text_printf(
        out,
        "<svg width=\"100%%\" height=\"14\" viewBox=\"0 0 1000 14\" "
        "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%d passed, %d failed, %d "
        "skipped\">",
        counts[0], counts[1], counts[2]);
    for (int i = 0; i < 3; i++) {
        double width = 1000.0 * counts[i] / total;
        ls_text_printf(out, "<rect x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"14\" fill=\"%s\"/>",
                       x, width, colors[i]);
        x += width;
    }
    ls_text_puts(out, "</svg>\n");
}

static void write_stage(ls_text *out, const ls_stage_result *stage) {
    ls_text_puts(out, "<tr><td>");
    ls_text_xml(out, stage->name);
    ls_text_printf(out, "</td><td class=\"%s\">%s</td><td class=\"n\">",
                   ls_class_passes(stage->class_) ? "pass" : "fail", ls_class_name(stage->class_));
    ls_report__number(out, stage->elements);
    ls_text_puts(out, "</td><td class=\"n\">");
    ls_report__number(out, stage->differing);
    ls_text_puts(out, "</td><td class=\"n\">");
    ls_report__distance(out, stage);
    ls_text_printf(out, "</td><td class=\"n\">%.3g</td><td>", stage->bound_ratio);
    ls_text_xml(out, stage->order);
    ls_text_puts(out, "</td></tr>\n");
}

static void write_calls(ls_text *out, const ls_case_result *result) {
    ls_text_puts(out, "<table><tr><th>call</th><th>communicator</th><th>for</th><th>first at</th>"
                      "<th class=\"n\">calls</th><th class=\"n\">bytes sent</th></tr>\n");
    for (int i = 0; i < result->call_count; i++) {
        const ls_call_row *row = &result->calls[i];
        const char *const texts[] = {row->call, row->communicator, row->purpose, row->where};
        ls_text_puts(out, "<tr>");
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            ls_text_puts(out, "<td>");
            ls_text_xml(out, texts[t]);
            ls_text_puts(out, "</td>");
        }
        ls_text_puts(out, "<td class=\"n\">");
        ls_report__number(out, row->calls);
        ls_text_puts(out, "</td><td class=\"n\">");
        ls_report__number(out, row->bytes);
        ls_text_puts(out, "</td></tr>\n");
    }
    ls_text_puts(out, "</table>\n");
}

// A row for each set of calls, in their order; a column for each rank, with its own line.
static void write_timeline(ls_text *out, const ls_case_result *result) {
    ls_text_puts(out, "<details><summary>timeline</summary>\n<table><tr><th>call</th>");
    for (int r = 0; r < result->timeline_ranks; r++) {
        ls_text_printf(out, "<th>rank %d</th>", r);
    }
    ls_text_puts(out, "</tr>\n");
    for (int i = 0; i < result->timeline_count; i++) {
        const ls_call_set *set = &result->timeline[i];
        ls_text_puts(out, set->met ? "<tr><td>" : "<tr><td class=\"fail\">");
        ls_text_xml(out, set->call);
        ls_text_puts(out, " on ");
        ls_text_xml(out, set->communicator);
        if (set->purpose != NULL) {
            ls_text_puts(out, " for ");
            ls_text_xml(out, set->purpose);
        }
        ls_text_puts(out, set->met ? "</td>" : ", not complete</td>");
        for (int r = 0; r < result->timeline_ranks; r++) {
            const char *where = set->where[r], *slash = where ? strrchr(where, '/') : NULL;
            ls_text_puts(out, where != NULL ? "<td title=\"" : "<td>");
            if (where != NULL) {
                ls_text_xml(out, where);
                ls_text_puts(out, "\">");
                ls_text_xml(out, slash != NULL ? slash + 1 : where);
            }
            ls_text_puts(out, "</td>");
        }
        ls_text_puts(out, "</tr>\n");
    }
    ls_text_puts(out, "</table></details>\n");
}

static void write_case(ls_text *out, const ls_case_result *result) {
    const char *verdict = ls_report__verdict(result);
    ls_text_printf(out, "<details%s><summary><span class=\"%s\">%s</span> <b>",
                   !result->skipped && !result->pass ? " open=\"open\"" : "", verdict, verdict);
    ls_text_xml(out, result->name);
    ls_text_puts(out, "</b> ");
    if (!result->skipped && result->backend != NULL) {
        ls_text_printf(out, "%s, ", ls_class_name(result->class_));
        ls_text_xml(out, result->backend);
        if (result->real != NULL) {
            ls_text_puts(out, " against ");
            ls_text_xml(out, result->real);
        }
        ls_text_printf(out, ", %.2f s", result->seconds);
    }
    ls_text_puts(out, "</summary>\n<p>");
    ls_text_xml(out, result->file);
    ls_text_puts(out, "</p>\n");
    if (result->skipped) {
        ls_text_puts(out, "<p>skipped: ");
        ls_text_xml(out, result->skip_reason);
        ls_text_puts(out, "</p>\n");
    }
    const char *const notes[] = {result->checked, result->unproven};
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        if (notes[i] != NULL) {
            ls_text_puts(out, "<p>");
            ls_text_xml(out, notes[i]);
            ls_text_puts(out, "</p>\n");
        }
    }
    if (result->note != NULL) {
        ls_text_puts(out, "<p>note: ");
        ls_text_xml(out, result->note);
        ls_text_puts(out, "</p>\n");
    }
    if (result->stage_count != 0) {
        ls_text_puts(out, "<table><tr><th>stage</th><th>class</th><th class=\"n\">elements</th>"
                          "<th class=\"n\">differing</th><th class=\"n\">max ulps</th>"
                          "<th class=\"n\">of bound</th><th>order</th></tr>\n");
        for (int s = ls_report__next_stage(result, -1); s >= 0;
             s = ls_report__next_stage(result, s)) {
            write_stage(out, &result->stages[s]);
        }
        ls_text_puts(out, "</table>\n");
    }
    if (result->call_count != 0) {
        write_calls(out, result);
    }
    if (result->timeline_count != 0) {
        write_timeline(out, result);
    }
    for (int s = 0; s < result->norm_count; s++) {
        ls_text_puts(out, "<p>");
        ls_report__norms(out, result, s);
        ls_text_puts(out, "</p>\n");
    }
    if (!result->skipped) {
        ls_text explained = {0};
        ls_report__explain(&explained, result, "");
        if (explained.length != 0) {
            ls_text_puts(out, "<pre>");
            ls_text_xml(out, ls_text_string(&explained));
            ls_text_puts(out, "</pre>\n");
        }
        out->failed = out->failed || explained.failed;
        ls_text_free(&explained);
    }
    ls_text_puts(out, "</details>\n");
}

int ls_report_html(ls_text *out, const ls_results *results) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(results != NULL);
    ls_text_puts(out, page_head);
    ls_text_xml(out, results->command);
    ls_text_puts(out, page_style);
    ls_text_puts(out, "<h1>lockstep ");
    ls_text_xml(out, results->command);
    ls_text_printf(
        out, ": <span class=\"%s\">%s</span></h1>\n<p>%d passed, %d failed, %d skipped</p>\n",
        ls_results_pass(results) ? "pass" : "fail", ls_results_pass(results) ? "pass" : "fail",
        results->passed, results->failed, results->skipped);
    write_bar(out, results);
    for (int c = 0; c < results->case_count; c++) {
        write_case(out, &results->cases[c]);
    }
    ls_text_puts(out, "</body></html>\n");
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "HTML report: out of memory") : LS_OK;
}
