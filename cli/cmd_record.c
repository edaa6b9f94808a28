// lockstep record FILE... --backend sim|mpi|nccl --out DIR: runs and keeps the recordings.

#include "cli/commands.h"
#include "cli/scenarios.h"

static struct {
    cli_run_options run;
    int backend;
    bool backend_given;
    const char *out;
} given;

static const cli_option options[] = {
    {CLI_CHOICE, "backend", &given.backend, "NAME", .choices = ls_backend_names,
     .given = &given.backend_given, .help = "Where to run"},
    {CLI_STRING, "out", &given.out, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "Folder of the recordings, one directory per scenario"},
    CLI_RUN_OPTIONS(given.run),
    {.long_name = NULL},
};

static int record_one(ls_results *results, const ls_scenario *scenario, const ls_run_options *how) {
    return ls_run_recorded(results, scenario, ls_backend_kinds[given.backend], how);
}

static int record_all(const cli_scenarios *scenarios, ls_device *device) {
    (void)device;
    ls_text command = {0};
    ls_text_printf(&command, "lockstep record --backend %s --out %s",
                   ls_backend_names[given.backend], given.out);
    cli_reproduce_options(&command, &given.run);
    cli_each each = {.command = "record", .doing = "recording", .one = record_one};
    each.run = cli_run_options_of(&given.run, &command);
    each.run.keep_dir = given.out;
    return cli_scenarios_each(scenarios, &each, &command);
}

static int run(const cli_args *args) {
    if (given.out == NULL || !given.backend_given) {
        cli_error("record needs --backend sim, --backend mpi or --backend nccl, and --out DIR");
        return LS_EXIT_USAGE;
    }
    return cli_scenarios_run(args, &given.run, given.out, record_all, NULL);
}

const cli_command cli_cmd_record = {
    .name = "record",
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run scenarios and keep the recordings",
    .details = "A recording holds every stage output and every call of every rank. 'lockstep "
               "compare --real DIR' compares with it on a machine without the processes or GPUs. A "
               "recording of the simulator can be compared with a model of your own. It is written "
               "completely or not at all.",
    .example = "lockstep record table.yaml --backend mpi --out kept",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
