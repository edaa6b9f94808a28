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
#include "cli/trace.h"
#include "mpi/mpi_run.h"
#include "ranks/settings.h"

static const char *const bufferings[] = {"none", "all", NULL};

static struct {
    int ranks, schedule, delayed_rank, explore, history, stack_kib, buffering;
    double deadline_seconds;
    const char *checks, *choices, *machine;
    bool explore_given, schedule_given, delayed_given, deadline_given;
    cli_stop_options stop;
} given = {.ranks = 4};

static const cli_option options[] = {
    {.type = CLI_INT,
     .short_name = 'n',
     .long_name = "ranks",
     .value = &given.ranks,
     .value_name = "N",
     .help = "Processes to run, each a rank (default: 4)",
     .int_min = 1,
     .int_max = 65536},
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
    {.type = CLI_CHOICE,
     .long_name = "schedule",
     .value = &given.schedule,
     .given = &given.schedule_given,
     .value_name = "NAME",
     .choices = ls_spmd__schedules,
     .help = "Who runs next: round-robin by default, random by --seed, delay or parallel"},
    {.type = CLI_INT,
     .long_name = "delayed-rank",
     .value = &given.delayed_rank,
     .given = &given.delayed_given,
     .value_name = "R",
     .help = "The rank that --schedule delay holds back (default: 0)",
     .int_min = 0,
     .int_max = 65535},
    {.type = CLI_STRING,
     .long_name = "checks",
     .value = &given.checks,
     .value_name = "GLOBS",
     .help = "Which checks are on: 'all', '-handle.leak', 'p2p.*'"},
    {.type = CLI_INT,
     .long_name = "history",
     .value = &given.history,
     .value_name = "N",
     .help = "Calls of each rank that are kept for findings (default: 16)",
     .int_min = 1,
     .int_max = 4096},
    {.type = CLI_INT,
     .long_name = "stack",
     .value = &given.stack_kib,
     .value_name = "KIB",
     .help = "Stack of each rank (default: 8192)",
     .int_min = 64,
     .int_max = 1 << 20},
    {.type = CLI_DOUBLE,
     .long_name = "deadline",
     .value = &given.deadline_seconds,
     .given = &given.deadline_given,
     .value_name = "SECONDS",
     .help = "End a rank that makes no call for so long (default: 60; 0: never)"},
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
        .spmd = {.ranks = given.ranks,
                 .seed = cli_options_common.seed,
                 .schedule = (ls_schedule_kind)given.schedule,
                 .delayed_rank = given.delayed_rank,
                 .checks = given.checks,
                 .stack_bytes = (size_t)(given.stack_kib > 0 ? given.stack_kib : 8192) << 10,
                 .history = given.history,
                 .fixed = true,
                 .deadline_seconds = !given.deadline_given        ? 60
                                     : given.deadline_seconds > 0 ? given.deadline_seconds
                                                                  : -1},
        .image = args->values[0],
        .argc = args->count,
        .argv = args->values,
        .buffering = (ls_mpi_buffering)given.buffering,
        .keep_images = given.stop.stop || given.stop.wait,
    };
    if (given.delayed_given && !given.schedule_given) {
        out->spmd.schedule = LS_SCHEDULE_DELAY;
    }
    bool on = false;
    if (ls_spmd_check_on(&on, given.checks, LS_FINDING_KIND_MISMATCH) != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    return read_choices(out);
}

// ---- The report ---------------------------------------------------------------------------------
static const char *reproduce(ls_arena *arena, const ls_mpi_options *used) {
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
    if (given.checks != NULL) {
        ls_text_printf(&text, " --checks '%s'", given.checks);
    }
    for (int i = 0; i < used->choice_count; i++) {
        ls_text_printf(&text, "%s%d", i == 0 ? " --choices " : ",", used->choices[i]);
    }
    for (int i = 0; i < used->argc; i++) {
        ls_text_printf(&text, "%s %s", i == 1 ? " --" : "", used->argv[i]);
    }
    const char *kept = ls_arena_strdup(arena, ls_text_string(&text));
    ls_text_free(&text);
    return kept;
}

static int report(const ls_mpi_options *used, const ls_spmd_result *result, int status) {
    ls_results *results = NULL;
    int made = ls_results_create(&results, "mpi");
    if (made != LS_OK) {
        return cli_fail(made);
    }
    const char *error =
        status != LS_OK ? ls_arena_strdup(results->arena, ls_error_last()->text) : NULL;
    int count = result != NULL ? ls_spmd_finding_count(result) : 0;
    ls_finding *findings = ls_arena_alloc(results->arena, (size_t)count + 1, sizeof *findings);
    for (int i = 0; findings != NULL && i < count; i++) {
        findings[i] = *ls_spmd_finding(result, i);
    }
    ls_case_result row = {
        .name = used->image,
        .file = used->image,
        .backend = "sim",
        .pass = status == LS_OK,
        .class_ = status == LS_OK ? LS_CLASS_BIT_EXACT
                  : count > 0     ? LS_CLASS_FINDING
                                  : LS_CLASS_ERROR,
        .findings = findings,
        .finding_count = count,
        .error = count > 0 ? NULL : error,
        .reproduce = reproduce(results->arena, used),
    };
    made =
        findings == NULL || row.reproduce == NULL ? LS_ERR_MEMORY : ls_results_add(results, &row);
    int code = made == LS_OK ? cli_report(results) : cli_fail(made);
    ls_results_free(results);
    return code;
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
    code = status != LS_OK && result == NULL ? cli_fail(status) : report(used, result, status);
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
