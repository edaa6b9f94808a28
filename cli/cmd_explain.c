// lockstep explain: what findings mean, from docs/findings.md, which is a part of the program.
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "collectives/finding.h"
#include "formats/json.h"

// The page itself, so that the documentation and this command cannot differ.
__asm__(".section .rodata\n"
        ".global cli_findings_page\n"
        "cli_findings_page:\n"
        ".incbin \"" LOCKSTEP_FINDINGS_PAGE "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char cli_findings_page[];

#define HEADING "\n## "

// The finding's section without its heading; false: the page has none.
static bool find_section(const char **out, size_t *length, const char *name) {
    const char *at = strstr(cli_findings_page, HEADING);
    for (; at != NULL; at = strstr(at, HEADING)) {
        at += strlen(HEADING);
        size_t title = strcspn(at, "\n");
        if (title != strlen(name) || strncmp(at, name, title) != 0) {
            continue;
        }
        at += title + strspn(at + title, "\n");
        const char *end = strstr(at, HEADING);
        *length = end != NULL ? (size_t)(end - at) : strlen(at);
        while (*length > 0 && at[*length - 1] == '\n') {
            *length -= 1;
        }
        *out = at;
        return true;
    }
    return false;
}

static void write_finding(ls_text *out, ls_finding_id id) {
    const char *section = "";
    size_t length = 0;
    bool found = find_section(&section, &length, ls_finding_name(id));
    LS_ASSERT(found && length > 0);
    ls_text_printf(out, "%s: %s\n\n", ls_finding_name(id), ls_finding_text(id));
    ls_text_append(out, section, length);
    ls_text_puts(out, "\n");
}

static void write_list(ls_text *out) {
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        ls_text_printf(out, "%-31s %s\n", ls_finding_name((ls_finding_id)id),
                       ls_finding_text((ls_finding_id)id));
    }
}

// first..last: the findings in it.
static void write_json(ls_text *out, int first, int last) {
    ls_json json;
    ls_json_report_begin(&json, out, 2, "explain");
    ls_json_member_array(&json, "findings");
    for (int i = first; i <= last; i++) {
        ls_finding_id id = (ls_finding_id)i;
        ls_text page = {0};
        write_finding(&page, id);
        ls_json_object_open(&json);
        ls_json_member_string(&json, "name", ls_finding_name(id));
        ls_json_member_bool(&json, "default", ls_finding_default(id));
        ls_json_member_string(&json, "reads", ls_finding_reads(id));
        ls_json_member_string(&json, "summary", ls_finding_text(id));
        ls_json_member_string(&json, "text", ls_text_string(&page));
        ls_json_object_close(&json);
        out->failed = out->failed || page.failed;
        ls_text_free(&page);
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
}

static const char *json_path;

static int run(const cli_args *args) {
    ls_finding_id id = LS_FINDING_KIND_MISMATCH;
    bool one = args->count == 1;
    if (one && ls_finding_parse(&id, args->values[0]) != LS_OK) {
        const char *text = ls_error_last()->text;
        bool near = strstr(text, "did you mean") != NULL;
        cli_error("%s%s", text, near ? "" : "; 'lockstep explain' lists them");
        return LS_EXIT_USAGE;
    }
    ls_text text = {0};
    if (json_path != NULL) {
        write_json(&text, one ? (int)id : 0, one ? (int)id : LS_FINDING_COUNT - 1);
    } else if (one) {
        write_finding(&text, id);
    } else {
        write_list(&text);
    }
    int code = cli_output(json_path != NULL ? json_path : "-", &text);
    ls_text_free(&text);
    return code;
}

static const cli_option options[] = {
    {CLI_STRING, "json", &json_path, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Write the result as JSON; -: to stdout"},
    {.long_name = NULL},
};

const cli_command cli_cmd_explain = {
    .name = "explain",
    .arguments = "[FINDING]",
    .arguments_max = 1,
    .summary = "Explain a finding, with an example and the fix",
    .details = "Without a name it lists all findings, one per line.",
    .options = options,
    .example = "lockstep explain collective.op_mismatch",
    .run = run,
};
