// lockstep mutate FILE...: injects defects in scenarios, and reports which their checks find.
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "fuzz/mutate.h"

static struct {
    int count;
    bool allow_outside;
} given = {.count = 1000};

static const cli_option options[] = {
    {CLI_INT, "count", &given.count, "N", .int_min = 1, .int_max = 1000000,
     .help = "Inject at most N defects into a scenario (default 1000)"},
    CLI_OUTSIDE_OPTION(given.allow_outside),
    {.long_name = NULL},
};

static int mutate(const cli_args *files) {
    ls_results *results = NULL;
    ls_text table = {0};
    const ls_text nothing = {0};
    const ls_run_options run =
        cli_run_options_of(&(cli_run_options){.allow_outside = given.allow_outside}, &nothing);
    int status = ls_results_create(&results, "mutate");
    for (int i = 0; status == LS_OK && i < files->count; i++) {
        cli_progress("mutating", i, files->count);
        ls_text_puts(&table, i > 0 ? "\n" : "");
        status = ls_fuzz_mutate(results, &table, files->values[i], given.count, &run);
    }
    cli_progress_end();
    int code = status == LS_OK ? cli_report_with(results, &table, false) : cli_fail(status);
    ls_text_free(&table);
    ls_results_free(results);
    return code;
}

static int run(const cli_args *args) {
    int code = cli_scenarios_check(args, given.allow_outside);
    return code == LS_EXIT_OK ? mutate(args) : code;
}

const cli_command cli_cmd_mutate = {
    .name = "mutate",
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Inject defects into scenarios and show which checks catch them",
    .details = "Runs each scenario once per injected defect: a call left out or made twice, a "
               "flipped bit, a wrong argument, misrouted or reordered data, stale buffers, a shard "
               "off by one. The report has, by kind, the checks that catch it. For each survivor "
               "it names a check that would catch it. Exit code 1: a defect survives.",
    .example = "lockstep mutate scenarios/sharded_embedding/row_wise.yaml",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
