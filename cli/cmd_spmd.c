// lockstep spmd PROGRAM.so[:FUNCTION] [ARGUMENTS]: a program of the user's own as ranks, with all
// that scenarios get. The program is an ls_spmd_program in a shared library; its `arg` is the list
// of arguments, as ls_spmd_arguments.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/core.h"
#include "cli/debugger.h"
#include "cli/programs.h"
#include "cli/supervise.h"
#include "cli/trace.h"

static struct {
    cli_program_options program;
    int explore, lookahead;
    const char *mesh, *machine, *core;
    cli_stop_options stop;
} given = {.program = {.ranks = 4}};

static const cli_option options[] = {
    CLI_RANKS_OPTION(given.program, 65536, "Ranks to run (default: 4)"),
    {CLI_STRING, "mesh", &given.mesh, "AxB",
     .help = "The ranks as a mesh, as in 2x4 or host=2,gpu=4; instead of --ranks"},
    CLI_SCHEDULE_OPTIONS(given.program),
    {CLI_INT, "explore", &given.explore, "N", .int_min = 1, .int_max = INT_MAX,
     .help = "Try N random schedules from --seed on and report the first that fails"},
    CLI_CHECKS_OPTION(given.program),
    CLI_FAULTS_OPTION(given.program),
    {CLI_INT, "lookahead", &given.lookahead, "N", .int_min = 0, .int_max = 4096,
     .help = "Calls for which ranks continue after a mismatch, to name a missing call"},
    CLI_HISTORY_OPTION(given.program),
    CLI_STACK_OPTION(given.program, 16, "Stack of each rank (default: 1024)"),
    CLI_DEADLINE_OPTION(given.program, CLI_RANK_DEADLINE_HELP),
    CLI_STOP_OPTIONS(given.stop, "break-on-finding", "Run in gdb and stop at a finding"),
    CLI_CORE_OPTION(given.core),
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
        cli_error("'%.200s' is not PROGRAM.so[:FUNCTION]", named);
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
    int code = cli_program_settings(&out->spmd, out->faults, &given.program);
    out->spmd.lookahead = given.lookahead;
    if (code == LS_EXIT_OK && given.mesh != NULL &&
        ls_spmd__parse_mesh(&out->spmd.mesh, &out->spmd.ranks, given.mesh) != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    return code;
}

// ---- The report ---------------------------------------------------------------------------------
static ls_text reproduce(const ls_spmd_arguments *words_given, uint64_t seed,
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
    const char *words[][2] = {{"checks", given.program.checks}, {"faults", given.program.faults}};
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
    return text;
}

static int explore(ls_spmd_result **out, uint64_t *seed, program *p, const settings *used) {
    uint64_t observed;
    int status = ls_spmd__explore(out, seed, p->function, &p->arguments, &used->spmd,
                                  used->spmd.seed, given.explore, &observed);
    const char *ending = given.explore == 1 ? "" : "s";
    if (status == LS_OK && observed == 0) {
        cli_note("explored %d schedule%s: all interleavings of ranks that share nothing but their "
                 "calls: 1 class",
                 given.explore, ending);
    } else if (status == LS_OK) {
        cli_note("explored %d schedule%s: %llu steps of the program depend on the schedule, so "
                 "there may be others",
                 given.explore, ending, (unsigned long long)observed);
    }
    return status;
}

static int run_program(program *p, settings *used) {
    ls_trace *trace = NULL;
    int code = cli_trace_open(&trace, given.machine);
    CLI_TRY(code);
    if (trace != NULL &&
        (code = ls_trace_begin(trace, p->arguments.values[0], used->spmd.ranks, NULL)) != LS_OK) {
        return cli_trace_close(trace, cli_fail(code));
    }
    used->spmd.met = trace != NULL ? ls_trace_met : NULL;
    used->spmd.met_arg = trace;
    ls_spmd_result *result = NULL;
    uint64_t seed = used->spmd.seed;
    int status = given.explore > 0 ? explore(&result, &seed, p, used)
                                   : ls_spmd_run(&result, p->function, &p->arguments, &used->spmd);
    if (status != LS_OK && result == NULL) {
        code = cli_fail(status);
    } else {
        ls_text again = reproduce(&p->arguments, seed, used);
        code = cli_program_report("spmd", p->arguments.values[0], result, status,
                                  used->spmd.fault_count, &again);
    }
    ls_spmd_result_free(result);
    return cli_trace_close(trace, code);
}

typedef struct call {
    settings used;
    const cli_args *args;
} call;

static int run_here(void *arg) {
    call *of = arg;
    program p = {0};
    int code = open_program(&p, of->args);
    code = code == LS_EXIT_OK ? cli_core_open(given.core) : code;
    code = code == LS_EXIT_OK ? run_program(&p, &of->used) : code;
    cli_core_close();
    return code;
}

static ls_text reproduce_ended(void *arg, const char *more) {
    const call *of = arg;
    const ls_spmd_arguments words = {.count = of->args->count, .values = of->args->values};
    (void)more;
    return reproduce(&words, of->used.spmd.seed, &of->used);
}

static int run(const cli_args *args) {
    static const char *const catches[] = {"catch finding"};
    int code = cli_core_check(given.core, given.stop.stop || given.stop.wait);
    code = code == LS_EXIT_OK ? cli_stop(&given.stop, "break-on-finding", catches, 1) : code;
    static call of;
    of.args = args;
    CLI_TRY(code == LS_EXIT_OK ? options_of(&of.used) : code);
    return cli_supervise(&(cli_supervised){.command = "spmd",
                                           .name = args->values[0],
                                           .ranks = of.used.spmd.ranks,
                                           .deadline_seconds = of.used.spmd.deadline_seconds,
                                           .run = run_here,
                                           .reproduce = reproduce_ended,
                                           .arg = &of});
}

const cli_command cli_cmd_spmd = {
    .name = "spmd",
    .arguments = "PROGRAM.so[:FUNCTION] [-- ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run a C program with every rank as a thread",
    .details = "FUNCTION (spmd_main unless named) is an ls_spmd_program of ranks/ranks.h in a "
               "shared library; it receives the words after '--' as ls_spmd_arguments. A program "
               "with a main of its own takes the same from the environment: "
               "LOCKSTEP_SEED, LOCKSTEP_SCHEDULE, LOCKSTEP_DELAYED_RANK, LOCKSTEP_EXPLORE, "
               "LOCKSTEP_CHECKS, LOCKSTEP_FAULTS, LOCKSTEP_LOOKAHEAD, LOCKSTEP_DEADLINE, "
               "LOCKSTEP_STACK and LOCKSTEP_HISTORY.",
    .example = "lockstep spmd -n 4 ./mine.so",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
