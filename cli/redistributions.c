// Reports the redistributions of a program instead of a plan for tables.
#include "cli/redistributions.h"

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "report/show_redistributions.h"
#include "runner/plan/redistributions.h"

static int write_json(const ls_redistributions *all, const char *stopped) {
    ls_text text = {0};
    ls_json json;
    ls_json_report_begin(&json, &text, 2, "plan");
    ls_show_redistributions_json(&json, all, stopped);
    ls_json_report_end(&json);
    int code = cli_output(cli_options_common.json, &text);
    ls_text_free(&text);
    return code;
}

static int write_text(const ls_redistributions *all, const char *stopped,
                      const ls_scenario *scenario) {
    ls_text text = {0};
    int status = ls_show_redistributions_text(&text, all, stopped, scenario);
    int code = status == LS_OK ? cli_print(&text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

int cli_redistributions_report(const ls_scenario *scenario, ls_arena *arena) {
    ls_redistributions all;
    const char *stopped = NULL;
    int status = ls_redistributions_of(&all, &stopped, scenario, arena);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    if (all.count == 0 && stopped == NULL) {
        cli_error("%s: no table to place and no redistribution", scenario->file);
        return LS_EXIT_NOTHING;
    }
    int code = LS_EXIT_OK;
    if (!cli_stdout_taken() && !cli_options_common.quiet) {
        code = write_text(&all, stopped, scenario);
    }
    return code == LS_EXIT_OK && cli_options_common.json != NULL ? write_json(&all, stopped) : code;
}
