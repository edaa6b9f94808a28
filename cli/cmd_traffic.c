// lockstep traffic FILE: the bytes that go from rank to rank when a scenario runs.
#include <string.h>

#include "formats/json.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "runner/trace/trace.h"

static const char *svg;
static bool allow_outside;

static const cli_option options[] = {
    {CLI_STRING, "svg", &svg, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Write the matrix as SVG; -: to stdout, and nothing else goes there"},
    CLI_OUTSIDE_OPTION(allow_outside),
    {.long_name = NULL},
};

static void make_json(ls_text *out, const ls_scenario *scenario, const uint64_t *bytes, int ranks) {
    ls_json json;
    ls_json_report_begin(&json, out, 0, "traffic");
    ls_json_member_string(&json, "name", scenario->name);
    ls_json_member_int(&json, "ranks", ranks);
    ls_json_member_array(&json, "bytes");
    for (int from = 0; from < ranks; from++) {
        ls_json_array_open(&json);
        for (int to = 0; to < ranks; to++) {
            ls_json_uint(&json, bytes[(size_t)from * (size_t)ranks + (size_t)to]);
        }
        ls_json_array_close(&json);
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
}

static int write_all(const ls_scenario *scenario, const ls_trace *trace) {
    int ranks = 0, code = LS_EXIT_OK;
    const uint64_t *bytes = ls_trace_traffic(&ranks, trace);
    ls_text text = {0}, json = {0}, drawing = {0};
    bool stdout_taken = cli_stdout_taken() || (svg != NULL && strcmp(svg, "-") == 0);
    if (!stdout_taken && !cli_options_common.quiet) {
        ls_traffic_text(&text, scenario->name, bytes, ranks);
        code = cli_print(&text);
    }
    if (code == LS_EXIT_OK && cli_options_common.json != NULL) {
        make_json(&json, scenario, bytes, ranks);
        code = cli_output(cli_options_common.json, &json);
    }
    if (code == LS_EXIT_OK && svg != NULL) {
        ls_traffic_svg(&drawing, scenario->name, bytes, ranks);
        code = cli_output(svg, &drawing);
    }
    ls_text_free(&text);
    ls_text_free(&json);
    ls_text_free(&drawing);
    return code;
}

static int measure(const ls_scenario *scenario) {
    ls_results *results = NULL;
    ls_trace *trace = NULL;
    int status = ls_results_create(&results, "traffic");
    status = status == LS_OK ? ls_trace_create(&trace, NULL, true) : status;
    const cli_run_options none = {0};
    ls_text command = {0};
    ls_text_puts(&command, "lockstep traffic");
    ls_run_options run_options = cli_run_options_of(&none, &command);
    run_options.trace = trace;
    status = status == LS_OK ? ls_run_simulated(results, scenario, &run_options) : status;
    status = status == LS_OK ? ls_trace_status(trace) : status;
    int code = LS_EXIT_OK;
    if (status != LS_OK) {
        code = cli_fail(status);
    } else if (results->cases[0].class_ == LS_CLASS_ERROR) {
        cli_error("%s", results->cases[0].error);
        code = results->cases[0].environment ? LS_EXIT_ENVIRONMENT : LS_EXIT_USAGE;
    } else {
        code = write_all(scenario, trace);
    }
    code = code == LS_EXIT_OK ? cli_report_pages(results) : code;
    if (code == LS_EXIT_OK && results->cases[0].finding_count > 0) {
        cli_error(
            "%s: the run ended with a finding, so the traffic covers only the calls before it",
            ls_finding_name(results->cases[0].findings[0].id));
        code = LS_EXIT_FINDING;
    }
    ls_trace_free(trace);
    ls_results_free(results);
    ls_text_free(&command);
    return code;
}

static int run(const cli_args *args) {
    cli_scenarios scenarios;
    int code = cli_scenarios_load(&scenarios, args, allow_outside);
    if (code == LS_EXIT_OK) {
        code = measure(scenarios.at[0]);
        cli_scenarios_free(&scenarios);
    }
    return code;
}

const cli_command cli_cmd_traffic = {
    .name = "traffic",
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "Show the bytes from rank to rank",
    .details = "Simulates the scenario. Over all collectives and messages it sums the bytes that "
               "each rank's result needs from each other rank's input, for any algorithm. "
               "The matrix is printed as text, JSON (--json) and SVG.",
    .example = "lockstep traffic scenarios/sharding_tutorial/mixed.yaml",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
