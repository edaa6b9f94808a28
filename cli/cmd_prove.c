// lockstep prove FILE... | -- PROGRAM [ARGUMENTS]: scenarios, or a program of torch.distributed on
// several numbers of ranks, in exact arithmetic; or --rules: the sharding rules of a library.
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/rules.h"
#include "cli/scenarios.h"
#include "cli/worlds.h"

static cli_worlds given = {.command = "prove", .options = "", .exact = true};
static cli_run_options of_scenarios;
static cli_rules of_rules;

static const cli_option options[] = {
    CLI_WORLDS_OPTIONS(given),
    CLI_OUTSIDE_OPTION(of_scenarios.allow_outside),
    CLI_RULES_OPTIONS(of_rules),
    {.long_name = NULL},
};

static int prove_all(const cli_scenarios *scenarios, ls_device *device) {
    (void)device;
    ls_results *results = NULL;
    ls_text command = {0};
    int status = ls_results_create(&results, "prove");
    if (status != LS_OK) {
        return cli_fail(status);
    }
    ls_text_puts(&command, "lockstep prove");
    cli_reproduce_options(&command, &of_scenarios);
    const ls_run_options how = cli_run_options_of(&of_scenarios, &command);
    for (int i = 0; status == LS_OK && i < scenarios->count; i++) {
        cli_progress("proving", i, scenarios->count);
        status = ls_run_proved(results, scenarios->at[i], &how);
    }
    cli_progress_end();
    int code = status == LS_OK ? cli_report(results) : cli_fail(status);
    ls_results_free(results);
    ls_text_free(&command);
    return code;
}

static bool of_a_program(void) {
    return given.ranks != NULL || given.ignore != NULL || given.keep != NULL || given.all ||
           given.steps_given || given.deadline_given;
}

static int run(const cli_args *args) {
    if (of_rules.subject != NULL) {
        if (args->count > 0 || of_a_program() || of_scenarios.allow_outside) {
            cli_error("--rules takes no file, no program and none of their options");
            return LS_EXIT_USAGE;
        }
        return cli_rules_run(&of_rules);
    }
    if (cli_rules_given(&of_rules)) {
        cli_error("--only, --results, --resume, --against, --programs, --sample, --quick and "
                  "--python require --rules");
        return LS_EXIT_USAGE;
    }
    if (args->count == 0) {
        cli_error("prove takes scenario files, '-- PROGRAM [ARGUMENTS]' or --rules");
        return LS_EXIT_USAGE;
    }
    if (args->before_dashes == args->count || args->before_dashes < 0) {
        if (of_a_program()) {
            cli_error("-n, --steps, --ignore, --keep, --all and --deadline require '-- PROGRAM'; a "
                      "scenario file sets its own ranks");
            return LS_EXIT_USAGE;
        }
        return cli_scenarios_run(args, &of_scenarios, NULL, prove_all, NULL);
    }
    if (of_scenarios.allow_outside) {
        cli_error("--allow-outside applies to scenario files only");
        return LS_EXIT_USAGE;
    }
    if (args->before_dashes != 0) {
        cli_error("prove takes scenario files or '-- PROGRAM [ARGUMENTS]', not both");
        return LS_EXIT_USAGE;
    }
    return cli_worlds_run(&given, args);
}

const cli_command cli_cmd_prove = {
    .name = "prove",
    .arguments = "FILE... | -- PROGRAM [ARGUMENTS] | --rules dtensor|torchrec",
    .arguments_min = 0,
    .arguments_max = -1,
    .summary = "Prove that a scenario or PyTorch program computes the same on one rank and on many",
    .details = "Simulates scenario files, or runs the program, unmodified, on each number of "
               "ranks, with a number of a prime "
               "field beside every floating-point number. Sums of any order are equal there, and "
               "random values make other formulas differ: a tensor is proved or wrong, without a "
               "tolerance. For the first wrong tensor the report names step, module, rank and "
               "element, and a likely reason. --rules compares each sharding rule of DTensor or "
               "TorchRec with the unsharded operation instead.",
    .example = "lockstep prove -n 1,4 -- python3 train.py",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
