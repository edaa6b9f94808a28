// lockstep spmd PROGRAM.so[:FUNCTION] [ARGUMENTS]: a program of the user's own as ranks, with all
// that scenarios get. The program is an ls_spmd_program in a shared library; its `arg` is the list
// of arguments, as ls_spmd_arguments.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/debugger.h"
#include "cli/trace.h"
#include "ranks/ranks.h"
#include "ranks/settings.h"

static struct {
    int ranks, schedule, delayed_rank, explore, lookahead, history, stack_kib;
    double deadline_seconds;
    const char *checks, *faults, *mesh, *machine;
    bool schedule_given, delayed_given, deadline_given;
    cli_stop_options stop;
} given = {.ranks = 4};

static const cli_option options[] = {
    {.type = CLI_INT,
     .short_name = 'n',
     .long_name = "ranks",
     .value = &given.ranks,
     .value_name = "N",
     .help = "Ranks to run (default: 4)",
     .int_min = 1,
     .int_max = 65536},
    {.type = CLI_STRING,
     .long_name = "mesh",
     .value = &given.mesh,
     .value_name = "AxB",
     .help = "The ranks as a mesh, as in 2x4 or host=2,gpu=4; in place of --ranks"},
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
    {.type = CLI_INT,
     .long_name = "explore",
     .value = &given.explore,
     .value_name = "N",
     .help = "Try N random schedules from --seed on and report the first that fails",
     .int_min = 1,
     .int_max = INT_MAX},
    {.type = CLI_STRING,
     .long_name = "checks",
     .value = &given.checks,
     .value_name = "GLOBS",
     .help = "Which checks are on: 'all', '-value.*', 'buffer.*,-handle.leak'"},
    {.type = CLI_STRING,
     .long_name = "faults",
     .value = &given.faults,
     .value_name = "LIST",
     .help = "What goes wrong: TYPE@RANK:CALL[:AMOUNT],... with types as in scenarios"},
    {.type = CLI_INT,
     .long_name = "lookahead",
     .value = &given.lookahead,
     .value_name = "N",
     .help = "Calls that ranks go on for after a mismatch, to name a call left out",
     .int_min = 0,
     .int_max = 4096},
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
     .help = "Stack of each rank (default: 1024)",
     .int_min = 16,
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

// ---- The program --------------------------------------------------------------------------------
typedef struct program {
    void *library;
    ls_spmd_program function;
    ls_spmd_arguments arguments;
} program;

static int open_program(program *out, const cli_args *args) {
    char path[PATH_MAX];
    const char *named = args->values[0], *colon = strrchr(named, ':');
    const char *function = colon != NULL ? colon + 1 : "spmd_main";
    size_t length = colon != NULL ? (size_t)(colon - named) : strlen(named);
    if (length == 0 || length + 3 > sizeof path || *function == 0) {
        cli_error("'%.200s' is no PROGRAM.so[:FUNCTION]", named);
        return LS_EXIT_USAGE;
    }
    // A name without a folder is one here, not one of the system's.
    (void)snprintf(path, sizeof path, "%s%.*s", memchr(named, '/', length) == NULL ? "./" : "",
                   (int)length, named);
    out->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (out->library == NULL) {
        cli_error("%s", dlerror());
        return LS_EXIT_USAGE;
    }
    void *symbol = dlsym(out->library, function);
    if (symbol == NULL) {
        cli_error("%s has no function %s; name another as %s:FUNCTION", path, function, path);
        return LS_EXIT_USAGE;
    }
    memcpy(&out->function, &symbol, sizeof symbol);
    out->arguments = (ls_spmd_arguments){.count = args->count, .values = args->values};
    return LS_EXIT_OK;
}

// ---- Options ------------------------------------------------------------------------------------
typedef struct settings {
    ls_spmd_options spmd;
    ls_fault faults[LS_SPMD_FAULTS_MAX];
} settings;

static int options_of(settings *out) {
    out->spmd = (ls_spmd_options){
        .ranks = given.ranks,
        .seed = cli_options_common.seed,
        .schedule = (ls_schedule_kind)given.schedule,
        .delayed_rank = given.delayed_rank,
        .checks = given.checks,
        .faults = out->faults,
        .stack_bytes = (size_t)given.stack_kib << 10,
        .history = given.history,
        .lookahead = given.lookahead,
        .fixed = true,
        .deadline_seconds = !given.deadline_given        ? 60
                            : given.deadline_seconds > 0 ? given.deadline_seconds
                                                         : -1,
    };
    if (given.delayed_given && !given.schedule_given) {
        out->spmd.schedule = LS_SCHEDULE_DELAY;
    }
    bool on = false;
    int status = ls_spmd_check_on(&on, given.checks, LS_FINDING_KIND_MISMATCH);
    if (status == LS_OK && given.mesh != NULL) {
        status = ls_spmd__parse_mesh(&out->spmd.mesh, &out->spmd.ranks, given.mesh);
    }
    if (status == LS_OK && given.faults != NULL) {
        status = ls_spmd__parse_faults(out->faults, &out->spmd.fault_count, given.faults);
    }
    if (status != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    return LS_EXIT_OK;
}

// ---- The report ---------------------------------------------------------------------------------
static const char *reproduce(ls_arena *arena, const ls_spmd_arguments *words_given, uint64_t seed,
                             const settings *used) {
    ls_text text = {0};
    ls_text_printf(&text, "lockstep spmd --ranks %d", used->spmd.ranks);
    if (given.mesh != NULL) {
        ls_text_printf(&text, " --mesh %s", given.mesh);
    }
    int schedule = given.explore > 0 ? LS_SCHEDULE_RANDOM : (int)used->spmd.schedule;
    ls_text_printf(&text, " --schedule %s --seed %llu", ls_spmd__schedules[schedule],
                   (unsigned long long)seed);
    if (schedule == LS_SCHEDULE_DELAY) {
        ls_text_printf(&text, " --delayed-rank %d", used->spmd.delayed_rank);
    }
    const char *words[][2] = {{"checks", given.checks}, {"faults", given.faults}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i][1] != NULL) {
            ls_text_printf(&text, " --%s '%s'", words[i][0], words[i][1]);
        }
    }
    if (given.lookahead > 0) {
        ls_text_printf(&text, " --lookahead %d", given.lookahead);
    }
    for (int i = 0; i < words_given->count; i++) {
        ls_text_printf(&text, "%s %s", i == 1 ? " --" : "", words_given->values[i]);
    }
    const char *kept = ls_arena_strdup(arena, ls_text_string(&text));
    ls_text_free(&text);
    return kept;
}

static int report(const program *p, const settings *used, const ls_spmd_result *result, int status,
                  uint64_t seed) {
    ls_results *results = NULL;
    int made = ls_results_create(&results, "spmd");
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
        .name = p->arguments.values[0],
        .file = p->arguments.values[0],
        .backend = "sim",
        .pass = status == LS_OK,
        .class_ = status == LS_OK ? LS_CLASS_BIT_EXACT
                  : count > 0     ? LS_CLASS_FINDING
                                  : LS_CLASS_ERROR,
        .findings = findings,
        .finding_count = count,
        .error = count > 0 ? NULL : error,
        .reproduce = reproduce(results->arena, &p->arguments, seed, used),
    };
    made =
        findings == NULL || row.reproduce == NULL ? LS_ERR_MEMORY : ls_results_add(results, &row);
    int code = made == LS_OK ? cli_report(results) : cli_fail(made);
    for (int i = 0; result != NULL && i < ls_spmd_warning_count(result); i++) {
        cli_note("warning: %s: %s", ls_finding_name(ls_spmd_warning(result, i)->id),
                 ls_spmd_warning(result, i)->text);
    }
    ls_results_free(results);
    return code;
}

static int run_program(program *p, settings *used) {
    ls_trace *trace = NULL;
    int code = cli_trace_open(&trace, given.machine);
    if (code != LS_EXIT_OK) {
        return code;
    }
    if (trace != NULL &&
        (code = ls_trace_begin(trace, p->arguments.values[0], used->spmd.ranks, NULL)) != LS_OK) {
        return cli_trace_close(trace, cli_fail(code));
    }
    used->spmd.met = trace != NULL ? ls_trace_met : NULL;
    used->spmd.met_arg = trace;
    ls_spmd_result *result = NULL;
    uint64_t seed = used->spmd.seed;
    int status = given.explore > 0 ? ls_spmd_explore(&result, &seed, p->function, &p->arguments,
                                                     &used->spmd, used->spmd.seed, given.explore)
                                   : ls_spmd_run(&result, p->function, &p->arguments, &used->spmd);
    if (status != LS_OK && result == NULL) {
        code = cli_fail(status);
    } else {
        code = report(p, used, result, status, seed);
    }
    ls_spmd_result_free(result);
    return cli_trace_close(trace, code);
}

static int run(const cli_args *args) {
    int code = cli_outputs_check(NULL);
    static const char *const catches[] = {"catch finding"};
    code = code == LS_EXIT_OK ? cli_stop(&given.stop, "break-on-finding", catches, 1) : code;
    static settings used;
    program p = {0};
    code = code == LS_EXIT_OK ? options_of(&used) : code;
    code = code == LS_EXIT_OK ? open_program(&p, args) : code;
    return code == LS_EXIT_OK ? run_program(&p, &used) : code;
}

const cli_command cli_cmd_spmd = {
    .name = "spmd",
    .arguments = "PROGRAM.so[:FUNCTION] [-- ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run a C program of your own, every rank a thread",
    .details = "FUNCTION (spmd_main unless named) is an ls_spmd_program of ranks/ranks.h in a "
               "shared library; it receives the words after '--' as ls_spmd_arguments. A program "
               "with a main of its own takes the same from the environment: "
               "LOCKSTEP_SEED, LOCKSTEP_SCHEDULE, LOCKSTEP_DELAYED_RANK, LOCKSTEP_EXPLORE, "
               "LOCKSTEP_CHECKS, LOCKSTEP_FAULTS, LOCKSTEP_LOOKAHEAD, LOCKSTEP_DEADLINE, "
               "LOCKSTEP_STACK and LOCKSTEP_HISTORY.",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
