// lockstep run FILE...: runs scenarios on one backend and judges them by their oracle.
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/core.h"
#include "cli/debugger.h"
#include "cli/device.h"
#include "cli/scenarios.h"
#include "cli/trace.h"
#include "runner/hooks.h"
#include "runner/scenario/schema.h"

static const char *const carriers[] = {"mpi", NULL};
static const char *const schedules[] = {"round-robin", "random", "delay", NULL};

static struct {
    cli_run_options run;
    cli_stop_options stop;
    const char *machine;
    const char *keep, *checkpoint;
    int backend;
    int on;
    int device;
    int schedule;
    int explore;
    const char *checks, *core;
    bool explain_schema;
    bool json_schema;
} given;

static const cli_option options[] = {
    {CLI_CHOICE, "backend", &given.backend, "NAME", .choices = ls_backend_names,
     .help = "Backend: sim (default), mpi or nccl"},
    {CLI_CHOICE, "on", &given.on, "NAME", .given = &given.run.spread, .choices = carriers,
     .help = "Spread the simulation over processes, each with a block of the ranks; the results "
             "are the same. They are started by"},
    {CLI_STRING, "keep", &given.keep, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help =
         "Keep the stage outputs of every rank as recordings in DIR, one directory per scenario"},
    {CLI_STRING, "checkpoint", &given.checkpoint, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "Save tables and optimizer states after the last step in the new folder DIR; lockstep "
             "reshard moves it to another plan"},
    CLI_DEVICE_OPTION(given.device),
    {CLI_CHOICE, "schedule", &given.schedule, "NAME", .choices = schedules,
     .help =
         "Schedule of the ranks: round-robin (default), random (by the seed), delay (rank 0 last)"},
    {CLI_INT, "explore", &given.explore, "N", .int_min = 1, .int_max = 1000000,
     .help = "Try N random schedules of the ranks and report the first that fails"},
    {CLI_STRING, "checks", &given.checks, "GLOBS",
     .help =
         "Checks by name, as \"-value.*\", \"-*,p2p.*\" or \"collective.order_mismatch=strict\""},
    {CLI_SWITCH, "shape-only", &given.run.shape_only,
     .help = "Match the calls of programs on buffers without data, and report counts, bytes and "
             "time; values are unjudged"},
    CLI_RUN_OPTIONS(given.run),
    CLI_MACHINE_OPTION(given.machine),
    CLI_STOP_OPTIONS(
        given.stop, "break-on-finding",
        "Run in gdb and stop at a finding or at a result that differs from the oracle's"),
    CLI_CORE_OPTION(given.core),
    {CLI_SWITCH, "explain-schema", &given.explain_schema,
     .help = "Print every key of a scenario file with type, default and meaning"},
    {CLI_SWITCH, "json-schema", &given.json_schema,
     .help = "Print the JSON schema of scenario files, for editors"},
    {.long_name = NULL},
};

static int print_schema(void) {
    ls_text text = {0};
    if (given.json_schema) {
        ls_schema_json(&text);
    } else {
        ls_schema_explain(&text);
    }
    int code = cli_output("-", &text);
    ls_text_free(&text);
    return code;
}

// A checkpoint is of one scenario's tables, as the simulator leaves them.
static int check_checkpoint(const cli_scenarios *scenarios) {
    const ls_scenario *scenario = scenarios->at[0];
    if (scenarios->count > 1) {
        cli_error("--checkpoint takes one scenario, not %d", scenarios->count);
    } else if (ls_backend_kinds[given.backend] != &ls_backend_kind_sim) {
        cli_error("--checkpoint requires the simulator, not %s", ls_backend_names[given.backend]);
    } else if (scenario->is_program || ls_scenario_injects(scenario)) {
        cli_error("%s: --checkpoint needs tables without injected defects", scenario->file);
    } else if (ls_scenario_quantises(scenario)) {
        cli_error("%s: --checkpoint cannot save quantised rows", scenario->file);
    } else if (access(given.checkpoint, F_OK) == 0) {
        cli_error("--checkpoint: \"%s\" exists", given.checkpoint);
    } else {
        return LS_EXIT_OK;
    }
    return LS_EXIT_USAGE;
}

static int run_one(ls_results *results, const ls_scenario *scenario, const ls_run_options *how) {
    const ls_backend_kind *backend = ls_backend_kinds[given.backend];
    return backend == &ls_backend_kind_sim ? ls_run_simulated(results, scenario, how)
                                           : ls_run_real(results, scenario, backend, how);
}

static int run_all(const cli_scenarios *scenarios, ls_device *device) {
    CLI_TRY(given.checkpoint != NULL ? check_checkpoint(scenarios) : LS_EXIT_OK);
    ls_text command = {0};
    ls_text_printf(&command, "lockstep run --backend %s", ls_backend_names[given.backend]);
    cli_reproduce_device(&command, given.device);
    cli_reproduce_options(&command, &given.run);
    if (given.schedule != LS_SCHEDULE_ROUND_ROBIN && given.explore == 0) {
        ls_text_printf(&command, " --schedule %s", schedules[given.schedule]);
    }
    if (given.checks != NULL) {
        ls_text_puts(&command, " --checks ");
        ls_text_shell(&command, given.checks);
    }
    cli_each each = {"run", "running", given.machine, cli_run_options_of(&given.run, &command),
                     run_one};
    each.run.device = device;
    each.run.schedule = (ls_schedule_kind)given.schedule;
    each.run.explore = given.explore;
    each.run.checks = given.checks;
    each.run.keep_dir = given.keep;
    each.run.checkpoint = given.checkpoint;
    ls_gdb_keeps = given.core != NULL || cli_debugger_has() != 0;
    return cli_scenarios_each(scenarios, &each, &command);
}

// Options that need every rank of the simulation in this process.
static int check_spread(void) {
    const char *other = NULL;
    if (ls_backend_kinds[given.backend] != &ls_backend_kind_sim) {
        other = "--backend";
    } else if (given.device != 0) {
        other = "--device";
    } else if (given.checkpoint != NULL) {
        other = "--checkpoint";
    } else if (given.run.shape_only) {
        other = "--shape-only";
    } else if (cli_options_common.trace != NULL) {
        other = "--trace";
    } else if (given.stop.stop) {
        other = "--break-on-finding";
    } else if (given.core != NULL) {
        other = "--core";
    }
    if (given.run.spread && other != NULL) {
        cli_error("--on spreads the simulation over processes: %s does not go with it", other);
        return LS_EXIT_USAGE;
    }
    return LS_EXIT_OK;
}

static int run(const cli_args *args) {
    if (given.explain_schema || given.json_schema) {
        return print_schema();
    }
    if (args->count == 0) {
        cli_error("run needs at least one scenario file");
        return LS_EXIT_USAGE;
    }
    int code = check_spread();
    CLI_TRY(code);
    if (given.device != 0 && ls_backend_kinds[given.backend]->open == NULL) {
        cli_error("--device requires the simulator; %s runs on its own devices",
                  ls_backend_names[given.backend]);
        return LS_EXIT_USAGE;
    }
    if ((given.explore > 0 || given.schedule != LS_SCHEDULE_ROUND_ROBIN) &&
        ls_backend_kinds[given.backend]->open == NULL) {
        cli_error("--%s requires the simulator: under %s the machine schedules the ranks",
                  given.explore > 0 ? "explore" : "schedule", ls_backend_names[given.backend]);
        return LS_EXIT_USAGE;
    }
    if (given.run.shape_only && (ls_backend_kinds[given.backend] != &ls_backend_kind_sim ||
                                 given.device != 0 || given.keep != NULL)) {
        cli_error("--shape-only moves no data: it excludes --backend, --device and --keep");
        return LS_EXIT_USAGE;
    }
    const char *const catches[] = {"catch finding", "catch divergence"};
    code = cli_core_check(given.core, given.stop.stop || given.stop.wait);
    CLI_TRY(code == LS_EXIT_OK ? cli_stop(&given.stop, "break-on-finding", catches, 2) : code);
    ls_device *device = NULL;
    code = cli_core_open(given.core);
    code = code == LS_EXIT_OK ? cli_device_open(&device, given.device) : code;
    if (code == LS_EXIT_OK) {
        code = cli_scenarios_run(args, &given.run, given.keep, run_all, device);
    }
    cli_core_close();
    return code;
}

const cli_command cli_cmd_run = {
    .name = "run",
    .arguments = "FILE...",
    .arguments_max = -1,
    .summary = "Run scenarios on one backend and check them against the oracle",
    .details =
        "Simulates every rank in this process (--on: in several; --backend: in real processes), "
        "judges each stage by the unsharded oracle, and checks the scenario's expectations. Exit "
        "code 0: all checks pass; 1: a mismatch or a finding; 2: a file is unusable.",
    .example = "lockstep run scenarios/training/*.yaml --junit results.xml --report results.html",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
