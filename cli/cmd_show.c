// lockstep show: draws who holds which block of each table and tensor of a scenario.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "report/show_scenario.h"

static const char *svg;
static const char *only;
static bool allow_outside;

static const cli_option options[] = {
    {.type = CLI_STRING,
     .long_name = "svg",
     .value = &svg,
     .output = CLI_OUTPUT_FILE,
     .value_name = "FILE",
     .help = "Write the drawing as SVG; -: to stdout, and nothing else goes there"},
    {.type = CLI_STRING,
     .long_name = "only",
     .value = &only,
     .value_name = "NAME",
     .help = "Draw one table or tensor"},
    CLI_OUTSIDE_OPTION(allow_outside),
    {.long_name = NULL},
};

static int write_text(const ls_picture *pictures, int count) {
    ls_text text = {0};
    int status = LS_OK;
    for (int i = 0; i < count && status == LS_OK; i++) {
        ls_text_puts(&text, i == 0 ? "" : "\n");
        status = ls_show_text(&text, &pictures[i]);
    }
    int code = status == LS_OK ? cli_output("-", &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

static int write_svg(const ls_picture *pictures, int count) {
    ls_text text = {0};
    int status = ls_show_svg(&text, pictures, count);
    int code = status == LS_OK ? cli_output(svg, &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

static int write_json(const ls_picture *pictures, int count) {
    ls_text text = {0};
    int status = ls_show_json(&text, pictures, count);
    int code = status == LS_OK ? cli_output(cli_options_common.json, &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

static int write_pages(const ls_scenario *scenario, const ls_picture *pictures, int count) {
    ls_results *results = NULL;
    int status = ls_results_create(&results, "show");
    for (int i = 0; i < count && status == LS_OK; i++) {
        status = ls_results_add(
            results,
            &(ls_case_result){.name = pictures[i].title, .file = scenario->file, .pass = true});
    }
    int code = status == LS_OK ? cli_report_pages(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

static int draw(const ls_scenario *scenario) {
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    ls_picture *pictures = NULL;
    int count = 0;
    if (status == LS_OK) {
        status = ls_pictures_of_scenario(&pictures, &count, arena, scenario, only);
    }
    int code = status == LS_OK ? LS_EXIT_OK : cli_fail(status);
    if (status == LS_OK && count == 0) {
        cli_error("the scenario has no table and no tensor%s%s", only != NULL ? " named " : "",
                  only != NULL ? only : "");
        code = only != NULL ? LS_EXIT_USAGE : LS_EXIT_NOTHING;
    }
    bool stdout_taken = cli_stdout_taken() || (svg != NULL && strcmp(svg, "-") == 0);
    if (code == LS_EXIT_OK && !stdout_taken && !cli_options_common.quiet) {
        code = write_text(pictures, count);
    }
    if (code == LS_EXIT_OK && cli_options_common.json != NULL) {
        code = write_json(pictures, count);
    }
    if (code == LS_EXIT_OK && svg != NULL) {
        code = write_svg(pictures, count);
    }
    if (code == LS_EXIT_OK) {
        code = write_pages(scenario, pictures, count);
    }
    ls_arena_free(arena);
    return code;
}

static int run(const cli_args *args) {
    cli_scenarios scenarios;
    int code = cli_scenarios_load(&scenarios, args, allow_outside);
    if (code != LS_EXIT_OK) {
        return code;
    }
    code = draw(scenarios.at[0]);
    cli_scenarios_free(&scenarios);
    return code;
}

const cli_command cli_cmd_show = {
    .name = "show",
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "Draw which rank holds which block of each table and tensor",
    .details = "Every cell of the drawing names the ranks that hold it. Beyond two dimensions each "
               "slice is drawn. A plan with gaps or overlaps is drawn as it is.",
    .example = "lockstep show scenarios/sharded_embedding/row_wise.yaml --svg rows.svg",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
