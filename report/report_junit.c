// Results as JUnit XML: one testsuite, one testcase per case, its file as the class name.
#include <stdio.h>

#include "report/report_internal.h"

static void attribute(ls_text *out, const char *name, const char *value) {
    ls_text_printf(out, " %s=\"", name);
    // Inside an attribute a newline or tab is kept only as a character reference.
    for (const char *part = value != NULL ? value : ""; *part != 0;) {
        size_t length = 0;
        while (part[length] != 0 && part[length] != '\n' && part[length] != '\t') {
            length++;
        }
        ls_text piece = {0};
        ls_text_append(&piece, part, length);
        ls_text_xml(out, ls_text_string(&piece));
        out->failed = out->failed || piece.failed;
        ls_text_free(&piece);
        part += length;
        if (*part != 0) {
            ls_text_puts(out, *part == '\n' ? "&#10;" : "&#9;");
            part++;
        }
    }
    ls_text_puts(out, "\"");
}

// What passes by design, and why; nothing where no stage does.
static void write_designs(ls_text *out, const ls_case_result *result) {
    const char *between = "      <system-out>";
    for (int s = 0; s < result->stage_count; s++) {
        const ls_stage_result *stage = &result->stages[s];
        if (ls_report__tells_design(result, s)) {
            ls_text_puts(out, between);
            ls_text_xml(out, stage->divergence);
            between = "\n";
        }
    }
    ls_text_puts(out, between[0] == '\n' ? "</system-out>\n" : "");
}

static void write_case(ls_text *out, const ls_case_result *result) {
    ls_text_puts(out, "    <testcase");
    attribute(out, "name", result->name);
    attribute(out, "classname", result->file);
    ls_text_printf(out, " time=\"%.3f\"", result->seconds);
    if (result->skipped) {
        ls_text_puts(out, ">\n      <skipped");
        attribute(out, "message", result->skip_reason);
        ls_text_puts(out, "/>\n    </testcase>\n");
        return;
    }
    if (result->pass && result->class_ == LS_CLASS_BY_DESIGN) {
        ls_text_puts(out, ">\n");
        write_designs(out, result);
        ls_text_puts(out, "    </testcase>\n");
        return;
    }
    if (result->pass && result->checked != NULL) {
        ls_text_puts(out, ">\n      <system-out>checked: ");
        ls_text_xml(out, result->checked);
        ls_text_puts(out, "</system-out>\n    </testcase>\n");
        return;
    }
    if (result->pass) {
        ls_text_puts(out, "/>\n");
        return;
    }
    const char *tag = result->class_ == LS_CLASS_ERROR ? "error" : "failure";
    ls_text_printf(out, ">\n      <%s", tag);
    attribute(out, "type", ls_class_name(result->class_));
    attribute(out, "message",
              result->error != NULL        ? result->error
              : result->finding_count != 0 ? ls_finding_name(result->findings[0].id)
                                           : ls_class_name(result->class_));
    ls_text_puts(out, ">");
    ls_text explained = {0};
    ls_report__explain(&explained, result, "");
    ls_text_xml(out, ls_text_string(&explained));
    out->failed = out->failed || explained.failed;
    ls_text_free(&explained);
    ls_text_printf(out, "</%s>\n    </testcase>\n", tag);
}

int ls_report_junit(ls_text *out, const ls_results *results) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(results != NULL);
    double seconds = 0;
    int errors = 0;
    for (int c = 0; c < results->case_count; c++) {
        const ls_case_result *result = &results->cases[c];
        seconds += result->seconds;
        errors += !result->skipped && !result->pass && result->class_ == LS_CLASS_ERROR;
    }
    ls_text_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite");
    ls_text name = {0};
    ls_text_printf(&name, "lockstep %s", results->command);
    attribute(out, "name", ls_text_string(&name));
    out->failed = out->failed || name.failed;
    ls_text_free(&name);
    ls_text_printf(
        out, " tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%.3f\">\n",
        results->case_count, results->failed - errors, errors, results->skipped, seconds);
    for (int c = 0; c < results->case_count; c++) {
        write_case(out, &results->cases[c]);
    }
    ls_text_puts(out, "  </testsuite>\n</testsuites>\n");
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "JUnit report: out of memory") : LS_OK;
}
