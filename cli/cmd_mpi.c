// lockstep mpi -n N PROGRAM [ARGUMENTS]: a program written for MPI and built by lockstep-cc, every
// process a rank of this one.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/core.h"
#include "cli/debugger.h"
#include "cli/mpi_compare.h"
#include "cli/programs.h"
#include "cli/supervise.h"
#include "cli/trace.h"
#include "mpi/mpi_run.h"
#include "process/reaper.h"

static const char *const bufferings[] = {"none", "all", NULL};
static const char *const comparisons[] = {"mpich", NULL};
static int compare_with;

static struct {
    cli_program_options program;
    int explore, buffering;
    const char *choices, *machine;
    bool explore_given;
    bool compare;
    const char *real, *ignore, *files, *core;
    cli_stop_options stop;
} given = {.program = {.ranks = 4, .stack_kib = 8192}};

static const cli_option options[] = {
    CLI_RANKS_OPTION(given.program, 65536, "Processes to run, each a rank (default: 4)"),
    {CLI_INT, "explore", &given.explore, "N", .given = &given.explore_given, .int_min = 1,
     .int_max = INT_MAX,
     .help =
         "Explore every class of interleavings of receives from MPI_ANY_SOURCE, in at most N runs"},
    {CLI_STRING, "choices", &given.choices, "LIST",
     .help = "Replay these matches, as a finding of --explore prints them"},
    {CLI_CHOICE, "buffering", &given.buffering, "HOW", .choices = bufferings,
     .help = "Standard sends wait for their receive (none, default) or never (all)"},
    {CLI_CHOICE, "compare", &compare_with, "MPI", .given = &given.compare, .choices = comparisons,
     .help = "Also run real processes and compare stdout and exit code of each rank"},
    {CLI_STRING, "real", &given.real, "FILE",
     .help = "The program as built by mpicc (default: PROGRAM.mpich)"},
    {CLI_STRING, "ignore", &given.ignore, "REGEX",
     .help = "Ignore the parts of lines that match, such as times"},
    {CLI_STRING, "files", &given.files, "GLOB",
     .help = "Also compare the files of this pattern that the ranks write: 'out.*'"},
    CLI_SCHEDULE_OPTIONS(given.program),
    CLI_CHECKS_OPTION(given.program),
    CLI_HISTORY_OPTION(given.program),
    CLI_STACK_OPTION(given.program, 64, "Stack of each rank (default: 8192)"),
    CLI_DEADLINE_OPTION(given.program, CLI_RANK_DEADLINE_HELP),
    CLI_STOP_OPTIONS(given.stop, "break-on-finding", "Run in gdb and stop at a finding"),
    CLI_CORE_OPTION(given.core),
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
#define REAL_SECONDS 600  // of the real run, without --deadline
#define CHOICES_MAX  4096
static int choices[CHOICES_MAX];

static int read_choices(ls_mpi_options *out) {
    const char *at = given.choices;
    while (at != NULL && *at != 0) {
        const char *end = NULL;
        uint64_t value = 0;
        if (!cli_read_number(&value, &end, at) || value > 65535 ||
            out->choice_count == CHOICES_MAX || (*end != ',' && *end != 0)) {
            cli_error("--choices '%.100s' is not a list of numbers", given.choices);
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
    };
    int code = cli_program_settings(&out->spmd, NULL, &given.program);
    return code == LS_EXIT_OK ? read_choices(out) : code;
}

// ---- The report ---------------------------------------------------------------------------------
static ls_text reproduce_with(void *arg, const char *more) {
    const ls_mpi_options *used = arg;
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
    ls_text_printf(&text, "%s", more);
    for (int i = 0; i < used->argc; i++) {
        ls_text_printf(&text, "%s %s", i == 1 ? " --" : "", used->argv[i]);
    }
    return text;
}

static ls_text reproduce(ls_mpi_options *used) {
    return reproduce_with(used, "");
}

static char real_name[PATH_MAX];
static cli_mpi_files *files;  // before the run

static void real_of(cli_mpi_real *out, const ls_mpi_options *used) {
    (void)snprintf(real_name, sizeof real_name, "%s.mpich", used->image);
    *out = (cli_mpi_real){
        .program = given.real != NULL ? given.real : real_name,
        .ignore = given.ignore,
        .files = files,
        .ranks = used->spmd.ranks,
        .argc = used->argc,
        .argv = used->argv,
        .deadline_seconds = given.program.deadline_given && given.program.deadline_seconds > 0
                                ? given.program.deadline_seconds
                                : REAL_SECONDS,
    };
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

static void say_explored(const ls_mpi_explored *e, int status) {
    const char *runs = e->runs == 1 ? "" : "s", *classes = e->classes == 1 ? "" : "es";
    if (status != LS_OK) {
        cli_note("explored %d run%s: one has a finding", e->runs, runs);
    } else if (!e->exhaustive) {
        cli_note("explored %d run%s, %d class%s: there are more than --explore allows", e->runs,
                 runs, e->classes, classes);
    } else if (e->observed == 0) {
        cli_note("explored %d run%s: all interleavings: %d class%s", e->runs, runs, e->classes,
                 classes);
    } else {
        cli_note("explored %d run%s: every match of receives from MPI_ANY_SOURCE: %d class%s; %llu "
                 "results of MPI_Test and similar calls depend on more than these matches",
                 e->runs, runs, e->classes, classes, (unsigned long long)e->observed);
    }
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
    say_explored(&explored, status);
    return status;
}

// The run as it was, and where that was asked for the same program as real processes.
static int report(ls_mpi_options *used, const ls_spmd_result *result, int status, double seconds,
                  const ls_reaper *reaper) {
    ls_text again = reproduce(used);
    if (used->printed == NULL) {
        return cli_program_report("mpi", used->image, result, status, 0, &again);
    }
    cli_mpi_real real;
    real_of(&real, used);
    ls_results *results = NULL;
    if (ls_results_create(&results, "mpi") != LS_OK) {
        ls_text_free(&again);
        return cli_fail(LS_ERR_MEMORY);
    }
    int made = cli_program_add(results, used->image, result, status, &again);
    if (made == LS_OK) {
        results->cases[0].seconds = seconds;
    }
    int code = made == LS_OK ? cli_mpi_compare(results, reaper, used->printed, result, &real)
                             : cli_fail(made);
    code = code == LS_EXIT_OK ? cli_report(results) : code;
    cli_program_notes(result, 0);
    ls_results_free(results);
    return code;
}

static int run_program(void *library, ls_mpi_options *used, const ls_reaper *reaper) {
    ls_trace *trace = NULL;
    int code = cli_trace_open(&trace, given.machine);
    CLI_TRY(code);
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
    double begun = ls_time_now();
    int status = given.explore_given ? explore(library, &result, used) : run_once(&result, used);
    double seconds = ls_time_now() - begun;
    if (status != LS_OK && result == NULL) {
        code = cli_fail(status);
    } else {
        code = report(used, result, status, seconds, reaper);
    }
    ls_spmd_result_free(result);
    return cli_trace_close(trace, code);
}

// With files for a debugger: the reaper removes them, also where it kills this process.
static int run_apart(void *library, ls_mpi_options *used) {
    int code = cli_core_open(given.core);
    CLI_TRY(code);
    ls_reaper reaper = {.pid = 0};
    used->images = cli_core_folder();
    if (used->images == NULL && (given.stop.wait || cli_debugger_has() != 0)) {
        int status = ls_reaper_make(&reaper, NULL);
        if (status != LS_OK) {
            return cli_fail(status);
        }
        used->images = reaper.dir;
    }
    code = run_program(library, used, NULL);
    if (reaper.pid > 0) {
        ls_reaper_remove(&reaper);
    }
    cli_core_close();
    return code;
}

static int run_here(void *arg) {
    ls_mpi_options *used = arg;
    void *library = open_library();
    if (library == NULL) {
        cli_error("%s", dlerror());
        return LS_EXIT_ENVIRONMENT;
    }
    if (!given.compare) {
        return run_apart(library, used);
    }
    cli_mpi_real real;
    ls_reaper reaper;
    char printed[PATH_MAX + 16];
    real_of(&real, used);
    int code = cli_mpi_compare_open(&reaper, printed, sizeof printed, &real);
    CLI_TRY(code);
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    status = status == LS_OK ? cli_mpi_files_open(&files, arena, given.files) : status;
    used->printed = printed;
    code = status == LS_OK ? run_program(library, used, &reaper) : cli_fail(status);
    ls_reaper_remove(&reaper);
    ls_arena_free(arena);
    return code;
}

static int run(const cli_args *args) {
    static const char *const catches[] = {"catch finding"};
    int code = cli_core_check(given.core, given.stop.stop || given.stop.wait);
    code = code == LS_EXIT_OK ? cli_stop(&given.stop, "break-on-finding", catches, 1) : code;
    ls_mpi_options used;
    CLI_TRY(code == LS_EXIT_OK ? options_of(&used, args) : code);
    if (!given.compare && (given.real != NULL || given.ignore != NULL || given.files != NULL)) {
        cli_error("--real, --ignore and --files require --compare");
        return LS_EXIT_USAGE;
    }
    if (given.compare &&
        (given.explore_given || given.stop.stop || given.stop.wait || given.core != NULL)) {
        cli_error("--compare excludes --explore, --break-on-finding, --wait-for-debugger and "
                  "--core");
        return LS_EXIT_USAGE;
    }
    return cli_supervise(&(cli_supervised){.command = "mpi",
                                           .name = used.image,
                                           .ranks = used.spmd.ranks,
                                           .deadline_seconds = used.spmd.deadline_seconds,
                                           .run = run_here,
                                           .reproduce = reproduce_with,
                                           .arg = &used});
}

const cli_command cli_cmd_mpi = {
    .name = "mpi",
    .arguments = "PROGRAM [-- ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run an MPI program with every process as a rank in one process",
    .details = "PROGRAM was linked by lockstep-cc or lockstep-c++, which take the arguments of "
               "mpicc. Every rank has its own globals. A violation of MPI's rules is a finding "
               "with the line of the call, even if the run happens to finish.",
    .example = "lockstep-cc ring.c -o ring && lockstep mpi -n 4 ./ring",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
