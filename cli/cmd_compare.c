// lockstep compare FILE... --real nccl|mpi|DIR: simulated against real, stage by stage.

#include "cli/commands.h"
#include "cli/debugger.h"
#include "cli/device.h"
#include "cli/scenarios.h"
#include "cli/trace.h"

static struct {
    cli_run_options run;
    cli_stop_options stop;
    const char *machine;
    const char *real;
    const char *keep;
    int device;
} given;

static const cli_option options[] = {
    {CLI_STRING, "real", &given.real, "nccl|mpi|DIR",
     .help = "Backend or recording to compare with: nccl, mpi or a directory"},
    {CLI_STRING, "keep", &given.keep, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "Keep the recordings of live runs in DIR, one directory per scenario"},
    CLI_DEVICE_OPTION(given.device),
    CLI_RUN_OPTIONS(given.run),
    CLI_MACHINE_OPTION(given.machine),
    CLI_STOP_OPTIONS(given.stop, "stop-at-divergence",
                     "Run in gdb and stop at the first wrong stage"),
    {.long_name = NULL},
};

static int compare_one(ls_results *results, const ls_scenario *scenario,
                       const ls_run_options *how) {
    // A live backend, else a directory: the simulator is what is compared, so "sim" is a directory.
    const ls_backend_kind *live = ls_backend_kind_named(given.real);
    ls_real_source real = {.dir = given.real};
    if (live != NULL && live->open == NULL) {
        real = (ls_real_source){.backend = live};
    }
    return ls_run_compared(results, scenario, &real, how);
}

static int compare_all(const cli_scenarios *scenarios, ls_device *device) {
    ls_text command = {0};
    ls_text_puts(&command, "lockstep compare --real ");
    ls_text_shell(&command, given.real);
    cli_reproduce_device(&command, given.device);
    cli_reproduce_options(&command, &given.run);
    cli_each each = {"compare", "comparing", given.machine,
                     cli_run_options_of(&given.run, &command), compare_one};
    each.run.device = device;
    each.run.keep_dir = given.keep;
    return cli_scenarios_each(scenarios, &each, &command);
}

static int run(const cli_args *args) {
    if (given.real == NULL) {
        cli_error("compare needs --real nccl, --real mpi or --real DIR");
        return LS_EXIT_USAGE;
    }
    const char *const catches[] = {"catch divergence"};
    int code = cli_stop(&given.stop, "stop-at-divergence", catches, 1);
    CLI_TRY(code);
    ls_device *device = NULL;
    CLI_TRY(cli_device_open(&device, given.device));
    return cli_scenarios_run(args, &given.run, given.keep, compare_all, device);
}

const cli_command cli_cmd_compare = {
    .name = "compare",
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Compare the simulation with a real run, stage by stage",
    .details =
        "Simulates each scenario and runs it for real, or reads a recording. Every output of every "
        "stage on every rank is compared: bit_exact, within_bound with its ratio, or wrong with "
        "the first differing element. Real processes are killed at their deadline.",
    .example = "lockstep compare scenarios/sharding_tutorial/mixed.yaml --real mpi",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
