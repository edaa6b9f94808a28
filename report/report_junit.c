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

static void add_line(ls_text *lines, const char *head, const char *line) {
    if (line != NULL) {
        ls_text_printf(lines, "%s%s%s", lines->length > 0 ? "\n" : "", head, line);
    }
}

// Checked calls, passes by design, the note, and unjudged parts, if there are any.
static void write_output(ls_text *out, const ls_case_result *result) {
    ls_text lines = {0};
    add_line(&lines, "checked: ", result->pass ? result->checked : NULL);
    for (int s = 0; s < result->stage_count && result->pass; s++) {
        add_line(&lines, "",
                 ls_report__tells_design(result, s) ? result->stages[s].divergence : NULL);
    }
    add_line(&lines, "note: ", result->note);
    add_line(&lines, "", result->unproven);
    if (lines.length > 0) {
        ls_text_puts(out, "      <system-out>");
        ls_text_xml(out, ls_text_string(&lines));
        ls_text_puts(out, "</system-out>\n");
    }
    out->failed = out->failed || lines.failed;
    ls_text_free(&lines);
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
    ls_text_puts(out, ">\n");
    if (result->pass) {
        write_output(out, result);
        ls_text_puts(out, "    </testcase>\n");
        return;
    }
    const char *tag = result->class_ == LS_CLASS_ERROR ? "error" : "failure";
    ls_text_printf(out, "      <%s", tag);
    attribute(out, "type", ls_class_name(result->class_));
    const char *message = result->error;
    if (result->error == NULL) {
        message = result->finding_count != 0 ? ls_finding_name(result->findings[0].id)
                                             : ls_class_name(result->class_);
    }
    attribute(out, "message", message);
    ls_text_puts(out, ">");
    ls_text explained = {0};
    ls_report__explain(&explained, result, "");
    ls_text_xml(out, ls_text_string(&explained));
    out->failed = out->failed || explained.failed;
    ls_text_free(&explained);
    ls_text_printf(out, "</%s>\n", tag);
    write_output(out, result);
    ls_text_puts(out, "    </testcase>\n");
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
