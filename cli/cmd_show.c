// lockstep show: draws the owners of the blocks of each table and tensor of a scenario.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "report/show_redistributions.h"
#include "runner/plan/redistributions.h"
#include "report/show_scenario.h"

static const char *svg;
static const char *only;
static bool allow_outside;

static const cli_option options[] = {
    {CLI_STRING, "svg", &svg, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Write the drawing as SVG; -: to stdout, and nothing else goes there"},
    {CLI_STRING, "only", &only, "NAME", .help = "Draw one table or tensor"},
    CLI_OUTSIDE_OPTION(allow_outside),
    {.long_name = NULL},
};

// The pictures of a scenario and its redistributions.
typedef struct drawing {
    const ls_scenario *scenario;
    ls_picture *pictures;
    int count;
    ls_redistributions redistributions;
    const char *stopped;  // why the list of redistributions ends early; NULL: it does not
} drawing;

static int write_text(const drawing *all) {
    ls_text text = {0};
    int status = LS_OK;
    for (int i = 0; i < all->count && status == LS_OK; i++) {
        ls_text_puts(&text, i == 0 ? "" : "\n");
        status = ls_show_text(&text, &all->pictures[i]);
    }
    ls_text_puts(&text, all->redistributions.count > 0 || all->stopped != NULL ? "\n" : "");
    if (status == LS_OK) {
        status =
            ls_show_redistributions_text(&text, &all->redistributions, all->stopped, all->scenario);
    }
    int code = status == LS_OK ? cli_output("-", &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

static int write_svg(const drawing *all) {
    ls_text text = {0};
    int status = ls_show_svg(&text, all->pictures, all->count);
    int code = status == LS_OK ? cli_output(svg, &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

static int write_json(const drawing *all) {
    ls_text text = {0};
    ls_json json;
    ls_json_report_begin(&json, &text, 2, "show");
    ls_show_json(&json, all->pictures, all->count);
    ls_show_redistributions_json(&json, &all->redistributions, all->stopped);
    ls_json_report_end(&json);
    int code = cli_output(cli_options_common.json, &text);
    ls_text_free(&text);
    return code;
}

static int write_pages(const drawing *all) {
    ls_results *results = NULL;
    int status = ls_results_create(&results, "show");
    for (int i = 0; i < all->count && status == LS_OK; i++) {
        status = ls_results_add(results, &(ls_case_result){.name = all->pictures[i].title,
                                                           .file = all->scenario->file,
                                                           .pass = true});
    }
    int code = status == LS_OK ? cli_report_pages(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

static int find(drawing *out, ls_arena *arena) {
    LS_TRY(ls_pictures_of_scenario(&out->pictures, &out->count, arena, out->scenario, only));
    return only != NULL
               ? LS_OK
               : ls_redistributions_of(&out->redistributions, &out->stopped, out->scenario, arena);
}

static int write(const drawing *all) {
    if (all->count == 0) {
        cli_error("the scenario has no table and no tensor%s%s", only != NULL ? " named " : "",
                  only != NULL ? only : "");
        return only != NULL ? LS_EXIT_USAGE : LS_EXIT_NOTHING;
    }
    bool stdout_taken = cli_stdout_taken() || (svg != NULL && strcmp(svg, "-") == 0);
    int code = LS_EXIT_OK;
    if (!stdout_taken && !cli_options_common.quiet) {
        code = write_text(all);
    }
    if (code == LS_EXIT_OK && cli_options_common.json != NULL) {
        code = write_json(all);
    }
    if (code == LS_EXIT_OK && svg != NULL) {
        code = write_svg(all);
    }
    return code == LS_EXIT_OK ? write_pages(all) : code;
}

static int draw(const ls_scenario *scenario) {
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    drawing all = {.scenario = scenario};
    status = status == LS_OK ? find(&all, arena) : status;
    int code = status == LS_OK ? write(&all) : cli_fail(status);
    ls_arena_free(arena);
    return code;
}

static int run(const cli_args *args) {
    cli_scenarios scenarios;
    int code = cli_scenarios_load(&scenarios, args, allow_outside);
    CLI_TRY(code);
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
               "slice is drawn. A plan with gaps or overlaps is drawn as it is. A program's "
               "redistributions follow, with the collectives that run, the cheapest path and the "
               "cost of both by PyTorch's model.",
    .example = "lockstep show scenarios/sharded_embedding/row_wise.yaml --svg rows.svg",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
