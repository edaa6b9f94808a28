// lockstep verify [-n RANKS,RANKS...] -- PROGRAM [ARGUMENTS]: a program of torch.distributed on
// several numbers of ranks, tensor by tensor.
#include "cli/commands.h"
#include "cli/worlds.h"

static cli_worlds given = {.command = "verify", .steps = 4, .floats = true};

static const cli_option options[] = {
    CLI_WORLDS_OPTIONS(given),
    {CLI_SWITCH, "prove", &given.exact,
     .help =
         "Then run the program in exact arithmetic on the same numbers of ranks, as prove does"},
    {CLI_SWITCH, "strict", &given.strict, .help = "Fail for the notes of exec --strict, too"},
    {.long_name = NULL},
};

static int run(const cli_args *args) {
    const char *const words[] = {"", " --prove", " --strict", " --prove --strict"};
    given.options = words[(given.exact ? 1 : 0) + (given.strict ? 2 : 0)];
    return cli_worlds_run(&given, args);
}

const cli_command cli_cmd_verify = {
    .name = "verify",
    .arguments = "-- PROGRAM [ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run a PyTorch program on one rank and on many and compare its models",
    .details = "Runs the program, unmodified, on each number of ranks, with every call checked, "
               "and keeps the parameters, activations and gradients of its models. They are "
               "compared in program order with those of the first number of ranks, as diff does. "
               "The report names the first wrong tensor and a likely reason.",
    .example = "lockstep verify -n 1,4 -- python3 train.py",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
