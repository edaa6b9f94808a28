// Shared by the commands that take scenario files: loading them all before anything runs, the
// options of a run, and the program's folder.
#pragma once

#include "cli/cli.h"
#include "kernels/device.h"
#include "runner/compare/run.h"
#include "runner/launch/process_pool.h"
#include "runner/scenario/scenario.h"

typedef struct cli_scenarios {
    ls_scenario **at;  // [count]
    int count;
} cli_scenarios;

// Options that run, compare and record have in common.
typedef struct cli_run_options {
    const char *order;        // --order
    double deadline_seconds;  // --deadline
    bool allow_outside;       // --allow-outside
    int processes;            // --processes, its number; 0: none was given
    bool processes_given;     //
    bool spread;              // --on mpi
    const char *memory;       // --memory, as given
    bool shape_only;          // --shape-only
} cli_run_options;

#define CLI_RUN_OPTIONS(options)                                                                   \
    CLI_OPTION(CLI_STRING, "order", &(options).order, "ORDER",                                     \
               .help =                                                                             \
                   "Reduction order of the simulator: rank, ring:..., tree:..., measured:FILE"),   \
        CLI_OPTION(CLI_DOUBLE, "deadline", &(options).deadline_seconds, "SECONDS",                 \
                   .double_max = CLI_SECONDS_MAX,                                                  \
                   .help = "End a real run that takes longer (default 60)"),                       \
        CLI_OPTION(                                                                                \
            CLI_STRING, "memory", &(options).memory, "BYTES",                                      \
            .help = "Refuse scenarios that need more memory than this, such as 16G (default: see " \
                    "doctor)"),                                                                    \
        CLI_OPTION(                                                                                \
            CLI_INT, "processes", &(options).processes, "P", .given = &(options).processes_given,  \
            .int_min = 1, .int_max = LS_RANKS_MAX, .optional = true,                               \
            .help =                                                                                \
                "NCCL: one process per rank (mpiexec) instead of one thread per rank; run --on "   \
                "mpi: this many processes, by default one per core"),                              \
        CLI_OUTSIDE_OPTION((options).allow_outside)

// Of every command that takes scenario files.
#define CLI_OUTSIDE_OPTION(value_)                                                                 \
    CLI_OPTION(CLI_SWITCH, "allow-outside", &(value_),                                             \
               .help = "Allow paths in scenarios outside of their folder")

// Loads every file; prints all errors of all files. Returns an exit code; on LS_EXIT_OK the caller
// frees *out.
int cli_scenarios_load(cli_scenarios *out, const cli_args *files, bool allow_outside);
void cli_scenarios_free(cli_scenarios *scenarios);
// Prints all errors of all files before anything runs, for commands that load each file separately.
// Returns an exit code.
int cli_scenarios_check(const cli_args *files, bool allow_outside);

// The memory that runs may take, by --memory or by the machine. From now on no allocation is
// larger. Returns an exit code.
int cli_memory_limit(uint64_t *out, const cli_run_options *options);

// Loads scenarios for a run, and passes them to `work`. Checks the options first, and refuses
// scenarios that need more memory than --memory, and those whose recordings would share a folder of
// keep_dir, which exists or can be created (--keep, --out; NULL: nothing is kept). Returns an exit
// code.
int cli_scenarios_run(const cli_args *files, const cli_run_options *options, const char *keep_dir,
                      int (*work)(const cli_scenarios *scenarios, ls_device *device),
                      ls_device *device);

typedef struct cli_each {
    const char *command, *doing;  // "run", "running"
    const char *machine;          // --machine
    ls_run_options run;           // from cli_run_options_of; completed here
    int (*one)(ls_results *results, const ls_scenario *scenario, const ls_run_options *options);
} cli_each;

// Runs scenarios one by one, and reports the results as those of `command`, with a trace if --trace
// asks for one by the clock of `machine`. Frees `reproduce`, the command of `run`. Returns an exit
// code.
int cli_scenarios_each(const cli_scenarios *scenarios, cli_each *each, ls_text *reproduce);

// Reads a plan file; prints all its errors. Returns an exit code.
int cli_plan_load(ls_plan *out, ls_arena *arena, const char *path);

// The library's options for a run. `command` is what reproduces it, without the file.
ls_run_options cli_run_options_of(const cli_run_options *options, const ls_text *command);

// Appends the options that a reproducing command must repeat: --order, --seed, --allow-outside.
void cli_reproduce_options(ls_text *out, const cli_run_options *options);

// The directory of the running program ("" when it cannot be found out). Static storage.
const char *cli_program_dir(void);
