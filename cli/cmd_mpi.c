// lockstep mpi -n N PROGRAM [ARGUMENTS]: a program written for MPI and built by lockstep-cc, every
// process a rank of this one.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/debugger.h"
#include "cli/programs.h"
#include "cli/trace.h"
#include "mpi/mpi_run.h"

static const char *const bufferings[] = {"none", "all", NULL};

static struct {
    cli_program_options program;
    int explore, buffering;
    const char *choices, *machine;
    bool explore_given;
    cli_stop_options stop;
} given = {.program = {.ranks = 4, .stack_kib = 8192}};

static const cli_option options[] = {
    CLI_RANKS_OPTION(given.program, 65536, "Processes to run, each a rank (default: 4)"),
    {.type = CLI_INT,
     .long_name = "explore",
     .value = &given.explore,
     .given = &given.explore_given,
     .value_name = "N",
     .help = "Try every match of receives from MPI_ANY_SOURCE, at most N runs",
     .int_min = 1,
     .int_max = INT_MAX},
    {.type = CLI_STRING,
     .long_name = "choices",
     .value = &given.choices,
     .value_name = "LIST",
     .help = "Which match each such receive makes, as a finding of --explore says"},
    {.type = CLI_CHOICE,
     .long_name = "buffering",
     .value = &given.buffering,
     .value_name = "HOW",
     .choices = bufferings,
     .help = "Whether standard sends wait for their receive (none, default) or never (all)"},
    CLI_SCHEDULE_OPTIONS(given.program),
    CLI_CHECKS_OPTION(given.program),
    CLI_HISTORY_OPTION(given.program),
    CLI_STACK_OPTION(given.program, 64, "Stack of each rank (default: 8192)"),
    CLI_DEADLINE_OPTION(given.program, CLI_RANK_DEADLINE_HELP),
    CLI_STOP_OPTIONS(given.stop, "break-on-finding",
                     "Run in gdb, and stop where a check finds something"),
    CLI_MACHINE_OPTION(given.machine),
    {.long_name = NULL},
};

// ---- The library that answers the program's calls -----------------------------------------------
#define LIBRARY "liblockstep-mpi-programs.so"

static void *open_library(void) {
    char path[PATH_MAX];
    return dlopen(cli_find_beside(path, sizeof path, LIBRARY) ? path : LIBRARY,
                  RTLD_NOW | RTLD_GLOBAL);
}

// ---- Options ------------------------------------------------------------------------------------
#define CHOICES_MAX 4096
static int choices[CHOICES_MAX];

static int read_choices(ls_mpi_options *out) {
    const char *at = given.choices;
    while (at != NULL && *at != 0) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at || value < 0 || value > 65535 || out->choice_count == CHOICES_MAX ||
            (*end != ',' && *end != 0)) {
            cli_error("--choices '%.100s' is no list of numbers", given.choices);
            return LS_EXIT_USAGE;
        }
        choices[out->choice_count++] = (int)value;
        at = *end == ',' ? end + 1 : end;
    }
    out->choices = choices;
    return LS_EXIT_OK;
}

static int options_of(ls_mpi_options *out, const cli_args *args) {
    *out = (ls_mpi_options){
        .image = args->values[0],
        .argc = args->count,
        .argv = args->values,
        .buffering = (ls_mpi_buffering)given.buffering,
        .keep_images = given.stop.stop || given.stop.wait,
    };
    int code = cli_program_settings(&out->spmd, NULL, &given.program);
    return code == LS_EXIT_OK ? read_choices(out) : code;
}

// ---- The report ---------------------------------------------------------------------------------
static ls_text reproduce(const ls_mpi_options *used) {
    ls_text text = {0};
    ls_text_printf(&text, "lockstep mpi -n %d", used->spmd.ranks);
    if (used->spmd.schedule != LS_SCHEDULE_ROUND_ROBIN) {
        ls_text_printf(&text, " --schedule %s --seed %llu", ls_spmd__schedules[used->spmd.schedule],
                       (unsigned long long)used->spmd.seed);
    }
    if (used->spmd.schedule == LS_SCHEDULE_DELAY) {
        ls_text_printf(&text, " --delayed-rank %d", used->spmd.delayed_rank);
    }
    if (used->buffering != LS_MPI_BUFFERING_NONE) {
        ls_text_printf(&text, " --buffering %s", bufferings[used->buffering]);
    }
    if (given.program.checks != NULL) {
        ls_text_printf(&text, " --checks '%s'", given.program.checks);
    }
    for (int i = 0; i < used->choice_count; i++) {
        ls_text_printf(&text, "%s%d", i == 0 ? " --choices " : ",", used->choices[i]);
    }
    for (int i = 0; i < used->argc; i++) {
        ls_text_printf(&text, "%s %s", i == 1 ? " --" : "", used->argv[i]);
    }
    return text;
}

static int find(void *library, const char *name, void *out) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        cli_error("%s", dlerror());
        return LS_EXIT_ENVIRONMENT;
    }
    memcpy(out, &symbol, sizeof symbol);
    return LS_EXIT_OK;
}

static int explore(void *library, ls_spmd_result **out, ls_mpi_options *used) {
    ls_mpi_explore_function explore_all;
    ls_mpi_explored explored;
    if (find(library, "ls_mpi_explore", &explore_all) != LS_EXIT_OK) {
        return LS_ERR_BACKEND;
    }
    int status = explore_all(out, used, given.explore, &explored);
    if (explored.choices != NULL) {
        used->choices = explored.choices;
        used->choice_count = explored.choice_count;
    }
    cli_note("explored %d run%s: %s", explored.runs, explored.runs == 1 ? "" : "s",
             explored.exhaustive ? "every match of receives from MPI_ANY_SOURCE"
             : status != LS_OK   ? "one has a finding"
                                 : "there are more matches than --explore allows");
    return status;
}

static int run_program(void *library, ls_mpi_options *used) {
    ls_trace *trace = NULL;
    int code = cli_trace_open(&trace, given.machine);
    if (code != LS_EXIT_OK) {
        return code;
    }
    if (trace != NULL &&
        (code = ls_trace_begin(trace, used->image, used->spmd.ranks, NULL)) != LS_OK) {
        return cli_trace_close(trace, cli_fail(code));
    }
    used->spmd.met = trace != NULL ? ls_trace_met : NULL;
    used->spmd.met_arg = trace;
    ls_spmd_result *result = NULL;
    ls_mpi_run_function run_once = NULL;
    code = find(library, "ls_mpi_run", &run_once);
    if (code != LS_EXIT_OK) {
        return cli_trace_close(trace, code);
    }
    int status = given.explore_given ? explore(library, &result, used) : run_once(&result, used);
    if (status != LS_OK && result == NULL) {
        code = cli_fail(status);
    } else {
        ls_text again = reproduce(used);
        code = cli_program_report("mpi", used->image, result, status, 0, &again);
    }
    ls_spmd_result_free(result);
    return cli_trace_close(trace, code);
}

static int run(const cli_args *args) {
    int code = cli_outputs_check(NULL);
    static const char *const catches[] = {"catch finding"};
    code = code == LS_EXIT_OK ? cli_stop(&given.stop, "break-on-finding", catches, 1) : code;
    ls_mpi_options used;
    code = code == LS_EXIT_OK ? options_of(&used, args) : code;
    if (code != LS_EXIT_OK) {
        return code;
    }
    void *library = open_library();
    if (library == NULL) {
        cli_error("%s", dlerror());
        return LS_EXIT_ENVIRONMENT;
    }
    return run_program(library, &used);
}

const cli_command cli_cmd_mpi = {
    .name = "mpi",
    .arguments = "PROGRAM [-- ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run a program written for MPI, every process a rank",
    .details = "PROGRAM is what lockstep-cc or lockstep-c++ has linked: they take the words of "
               "mpicc. Every rank has globals of its own. What MPI forbids, and what it lets "
               "happen only by luck, is a finding with the line of the call.",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
