// lockstep exec [-n RANKS] -- PROGRAM [ARGUMENTS]: a program written for NCCL, as it is, with every
// call of its ranks checked.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/debugger.h"
#include "cli/device.h"
#include "cli/exec_compare.h"
#include "cli/exec_hosts.h"
#include "cli/exec_report.h"
#include "cli/given_plan.h"
#include "cli/programs.h"
#include "cli/scenarios.h"
#include "cli/trace.h"
#include "cli/worlds.h"
#include "exec/coordinator.h"
#include "process/reaper.h"

// The backends of the second run, for comparison.
static const char *const others[] = {"gloo", NULL};
static const char *const watches[] = {"default", "off", "all", NULL};
static const char *const starts[] = {"auto", "exec", "fork", NULL};  // ls_exec_start's

static struct {
    cli_program_options program;
    cli_exec_hosts hosts;
    const char *machine, *order, *record, *capture, *core, *flight, *torchrec_plan, *tables,
        *preload;
    bool observe, simulate, payload, hash, compare, strict, debug, gdb;
    int other, device, start, watch;
} given;

static const cli_option options[] = {
    CLI_RANKS_OPTION(given.program, 4096,
                     "Start the program N times, as ranks 0 to N-1; default: once, as a launcher "
                     "that starts the ranks"),
    {CLI_SWITCH, "simulate", &given.simulate,
     .help = "Let lockstep move and reduce the data; ranks may share a GPU (default)"},
    {CLI_SWITCH, "observe", &given.observe,
     .help = "Let the real NCCL move the data and check the calls only; a GPU for each rank"},
    {CLI_CHOICE, "compare", &given.other, "gloo", .given = &given.compare, .choices = others,
     .help = "Run a PyTorch program again on gloo and compare call by call; --record DIR keeps "
             "gloo's calls"},
    {CLI_CHOICE, "start", &given.start, "HOW", .choices = starts,
     .help = "How ranks of a PyTorch program start: auto (default; two import torch and fork the "
             "others where that changes nothing), exec (each is started) or fork (one forks all)"},
    {CLI_STRING, "preload", &given.preload, "MODULES",
     .help = "Modules to import before a fork, as in torchrec,transformers"},
    {CLI_STRING, "order", &given.order, "ORDER",
     .help = "Reduction order, as in scenarios (default: rank)"},
    {CLI_CHOICE, "device", &given.device, "NAME", .choices = cli_call_devices,
     .help = "Device of large calls: auto (default: a GPU if there is one), cuda or host"},
    {CLI_STRING, "record", &given.record, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "Record the job's collectives in a new folder, which replay reads"},
    {CLI_STRING, "capture", &given.capture, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "Keep parameters, activations and gradients of a PyTorch program's models in a new "
             "folder, which diff reads"},
    {CLI_SWITCH, "payload", &given.payload,
     .help = "With --record: also record the sent and received data"},
    {CLI_SWITCH, "hash", &given.hash,
     .help = "With --record: record 8-byte hashes instead of the data"},
    {CLI_STRING, "flight-recorder", &given.flight, "PREFIX",
     .help = "Write PREFIX0, PREFIX1, ...: each rank's calls for PyTorch's fr_trace"},
    {CLI_STRING, "torchrec-plan", &given.torchrec_plan, "FILE",
     .help = "Check and cost a plan of TorchRec for these ranks before the program runs"},
    {CLI_STRING, "tables", &given.tables, "SCENARIO",
     .help = "With --torchrec-plan: scenario of its tables and inputs (default: sizes of the "
             "shards, 512 samples a rank with one id each)"},
    {CLI_SWITCH, "debug", &given.debug,
     .help = "Debug the ranks of a Python program at one prompt (docs/debugging.md)"},
    CLI_GDB_OPTION(given.gdb),
    {CLI_STRING, "core", &given.core, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "At a finding or an uncaught exception, keep in a new folder the frames and variables "
             "of each rank of a Python program, or of another program a core file of each, at most "
             "20 MB; lockstep gdb --core DIR opens it"},
    {CLI_CHOICE, "watch", &given.watch, "WHAT", .choices = watches,
     .help = "Values of PyTorch programs to compare between ranks: default, off or all; all "
             "compares after every step"},
    {CLI_SWITCH, "strict", &given.strict,
     .help = "Fail on notes too: ranks that share data, or do not, where that may be intended"},
    CLI_HOSTS_OPTIONS(given.hosts),
    CLI_CHECKS_OPTION(given.program),
    CLI_FAULTS_OPTION(given.program),
    CLI_HISTORY_OPTION(given.program),
    CLI_DEADLINE_OPTION(given.program, "End a run without progress for this many seconds, and "
                                       "explain it (default: 300 if ranks wait; 0: never)"),
    CLI_MACHINE_OPTION(given.machine),
    {.long_name = NULL},
};

// ---- Options ------------------------------------------------------------------------------------
typedef struct settings {
    ls_exec_options exec;
    ls_fault faults[LS_SPMD_FAULTS_MAX];
    ls_order *order;
    ls_trace *trace;
    const char *name;
    char front[PATH_MAX], observer[PATH_MAX], python[PATH_MAX];
} settings;

static int begin_trace(void *arg, int ranks) {
    const settings *used = arg;
    return used->trace != NULL ? ls_trace_begin(used->trace, used->name, ranks, NULL) : LS_OK;
}

// An option given that needs the data or the processes of all ranks on one host; NULL: none is.
static const char *alone(void) {
    const struct {
        const char *name;
        bool given;
    } all[] = {{"ranks", given.program.ranks > 0}, {"faults", given.program.faults != NULL},
               {"payload", given.payload},         {"hash", given.hash},
               {"capture", given.capture != NULL}, {"debug", given.debug},
               {"core", given.core != NULL},       {"start", given.start > 0}};
    size_t i = 0;
    while (i < sizeof all / sizeof *all && !all[i].given) {
        i += 1;
    }
    return i < sizeof all / sizeof *all ? all[i].name : NULL;
}

static int options_of(settings *out) {
    int code = cli_program_settings(&out->exec.spmd, out->faults, &given.program);
    if (code == LS_EXIT_OK && !given.observe) {
        code = cli_device_later(&out->exec.open_device, given.device);
    }
    CLI_TRY(code);
    out->exec.spmd.ranks = 0;  // reported by the processes, as the deadline is the coordinator's
    out->exec.spmd.deadline_seconds = 0;
    out->exec.processes = given.program.ranks;
    out->exec.start = (ls_exec_start)given.start;
    out->exec.modules = given.preload;
    out->exec.observe = given.observe;
    out->exec.record = given.compare ? NULL : given.record;
    out->exec.kept = given.hash ? LS_EXEC_KEPT_HASHES : LS_EXEC_KEPT_NOTHING;
    if (given.payload) {
        out->exec.kept = LS_EXEC_KEPT_PAYLOAD;
    }
    out->exec.flight = given.flight;
    out->exec.watch = watches[given.watch];
    out->exec.strict = given.strict;
    out->exec.deadline_seconds =
        given.program.deadline_given ? given.program.deadline_seconds : 300;
    out->exec.deadline_given = given.program.deadline_given;
    out->exec.quiet_stdout = cli_stdout_taken();
    out->exec.preload = out->front;
    if (given.capture != NULL && cli_worlds_capture(given.capture) != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    bool hooks = cli_exec_find_python(out->python, sizeof out->python);
    out->exec.python = hooks ? out->python : NULL;
    out->exec.opened = begin_trace;
    out->exec.opened_arg = out;
    code = cli_exec_set_hosts(&out->exec, &given.hosts, alone());
    if (given.order != NULL && code == LS_EXIT_OK) {
        char measured[PATH_MAX];
        (void)snprintf(measured, sizeof measured, "measured:%s", given.order);
        bool file = access(given.order, R_OK) == 0;
        if (ls_order_parse(&out->order, file ? measured : given.order) != LS_OK) {
            cli_error("%s", ls_error_last()->text);
            return LS_EXIT_USAGE;
        }
        out->exec.spmd.order = out->order;
    }
    return code;
}

// ---- The report ---------------------------------------------------------------------------------
static const char *reproduce(ls_arena *arena, const settings *used) {
    ls_text text = {0};
    ls_text_printf(&text, "lockstep exec%s%s%s", given.observe ? " --observe" : "",
                   given.compare ? " --compare gloo" : "", given.strict ? " --strict" : "");
    if (given.program.ranks > 0) {
        ls_text_printf(&text, " -n %d", given.program.ranks);
    }
    if (given.watch > 0) {
        ls_text_printf(&text, " --watch %s", watches[given.watch]);
    }
    if (given.start > 0) {
        ls_text_printf(&text, " --start %s", starts[given.start]);
    }
    if (given.device > 0) {
        ls_text_printf(&text, " --device %s", cli_call_devices[given.device]);
    }
    const char *words[][2] = {{"checks", given.program.checks},
                              {"faults", given.program.faults},
                              {"order", given.order},
                              {"preload", given.preload}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i][1] != NULL) {
            ls_text_printf(&text, " --%s ", words[i][0]);
            ls_text_shell(&text, words[i][1]);
        }
    }
    ls_text_printf(&text, " --");
    for (const char *const *word = used->exec.argv; *word != NULL; word++) {
        ls_text_puts(&text, " ");
        ls_text_shell(&text, *word);
    }
    return ls_result_text(arena, &text);
}

// name, backend: of the run's case. *passed: nothing was found.
static int add_run(bool *passed, ls_results *results, const settings *used, const char *name,
                   const char *backend, const ls_exec_result *result) {
    int count = 0;
    ls_finding *findings = cli_exec_findings(&count, results->arena, result);
    bool well =
        result->status == LS_OK && !result->died && result->failed_rank < 0 && result->loss == NULL;
    bool pass = well || (result->quit && count == 0);
    const char *error =
        pass || count > 0 ? NULL : cli_exec_error(results->arena, result, given.program.ranks);
    ls_case_result row = {
        .name = name,
        .file = used->name,
        .backend = backend,
        .pass = pass,
        .class_ = cli_program_class(pass, count),
        .calls = cli_exec_calls(results->arena, result),
        .call_count = result->made_count,
        .timeline = result->sets,
        .timeline_count = result->set_count,
        .timeline_ranks = result->ranks,
        .findings = findings,
        .finding_count = count,
        .error = error,
        .seconds = result->seconds,
        .environment = result->died || (count == 0 && !pass),
        .reproduce = reproduce(results->arena, used),
    };
    row.skip_reason = pass ? cli_exec_unchecked(results->arena, result) : NULL;
    row.skipped = row.skip_reason != NULL;
    row.start = cli_exec_start(results->arena, result, given.program.ranks);
    row.note = result->hints;
    row.checked = pass ? cli_program_checked(results->arena, result->calls, result->ranks) : NULL;
    *passed = pass && !row.skipped;
    return findings == NULL || row.calls == NULL || row.reproduce == NULL
               ? LS_ERR_MEMORY
               : ls_results_add(results, &row);
}

static int run_once(bool *passed, ls_results *results, ls_exec_result *ran, const settings *used) {
    LS_TRY(ls_exec_run(ran, &used->exec));
    LS_TRY(add_run(passed, results, used, used->name, given.observe ? "nccl" : "sim", ran));
    bool first = ran->before == NULL;  // the faults belong to the first run
    cli_program_notes(first ? ran->spmd : ran->before->spmd, used->exec.spmd.fault_count);
    return LS_OK;
}

// ---- The same on gloo ---------------------------------------------------------------------------
// Runs the program with gloo's own groups, whose calls are kept in `dir`, and compares them with
// those of the first run, kept in `first`.
static int compare_in(ls_results *results, ls_text *summary, ls_exec_result *ran,
                      const settings *used, const char *first, const char *dir) {
    ls_exec_options again = used->exec;
    again.observe = true;
    again.real = others[given.other];
    again.preload = used->observer;
    again.record = dir;
    again.kept = LS_EXEC_KEPT_PAYLOAD;
    again.flight = NULL;
    again.watch = NULL;
    again.spmd.met = NULL;
    again.spmd.fault_count = 0;
    LS_TRY(ls_exec_run(ran, &again));
    bool passed = false;
    ls_arena *arena = results->arena;
    const char *name = ls_arena_printf(arena, "%s on %s", used->name, again.real);
    int status =
        name != NULL ? add_run(&passed, results, used, name, again.real, ran) : LS_ERR_MEMORY;
    if (status != LS_OK || (!passed && !results->cases[results->case_count - 1].skipped)) {
        return status;
    }
    const ls_exec_runs both = {.first = first,
                               .second = dir,
                               .real = again.real,
                               .name = ls_arena_printf(arena, "%s, both runs", used->name),
                               .file = used->name,
                               .reproduce = reproduce(arena, used)};
    const ls_run_options how = {.order = given.order,
                                .program_dir = cli_program_dir(),
                                .reproduce = "lockstep replay",
                                .reproduce_of = given.record != NULL ? dir : "DIR"};
    LS_TRY(both.name != NULL ? LS_OK : LS_ERR_MEMORY);
    return cli_exec_compare(results, summary, &both, passed ? &how : NULL);
}

static int run_twice(ls_results *results, ls_text *summary, ls_exec_result *ran,
                     const settings *used) {
    ls_reaper reaper = {.pid = 0};
    LS_TRY(ls_reaper_make(&reaper, NULL));
    char first[PATH_MAX + 16], second[PATH_MAX + 16];
    (void)snprintf(first, sizeof first, "%s/sim", reaper.dir);
    (void)snprintf(second, sizeof second, "%s/%s", reaper.dir, others[given.other]);
    settings kept = *used;
    kept.exec.record = first;
    kept.exec.kept = LS_EXEC_KEPT_HASHES;
    bool passed = false;
    int status = run_once(&passed, results, ran, &kept);
    if (status == LS_OK && passed) {
        status = compare_in(results, summary, &ran[1], used, first,
                            given.record != NULL ? given.record : second);
    }
    ls_reaper_remove(&reaper);
    return status;
}

static int run_program(const settings *used) {
    ls_exec_result ran[2] = {{.failed_rank = -1}, {.failed_rank = -1}};  // the findings' words
    ls_results *results = NULL;
    ls_text summary = {0};
    bool passed = false;
    int status = ls_results_create(&results, "exec");
    if (status == LS_OK) {
        status = given.compare ? run_twice(results, &summary, ran, used)
                               : run_once(&passed, results, ran, used);
    }
    int code = status == LS_OK ? cli_report_with(results, &summary, false) : cli_fail(status);
    ls_text_free(&summary);
    ls_results_free(results);
    ls_exec_result_free(&ran[0]);
    ls_exec_result_free(&ran[1]);
    return code;
}

// The plan's cost is reported before the program runs.
static int tell_plan(void) {
    if (given.torchrec_plan == NULL) {
        return LS_EXIT_OK;
    }
    ls_text text = {0};
    int code = cli_given_plan_cost(&text, given.torchrec_plan, given.tables, given.program.ranks,
                                   given.machine);
    bool quiet = cli_stdout_taken() || cli_options_common.quiet;
    if (text.length > 0 && (!quiet || code == LS_EXIT_FINDING)) {
        int told = cli_print(&text);
        code = code == LS_EXIT_OK ? told : code;
    }
    ls_text_free(&text);
    return code;
}

static int check_options(void) {
    if (given.simulate && given.observe) {
        cli_error("--simulate and --observe exclude each other");
        return LS_EXIT_USAGE;
    }
    if (given.observe && given.device > 0) {
        cli_error("--device requires --simulate");
        return LS_EXIT_USAGE;
    }
    if (given.compare && (given.observe || given.payload || given.hash || given.capture != NULL)) {
        cli_error("--compare excludes --observe, --payload, --hash and --capture");
        return LS_EXIT_USAGE;
    }
    if ((given.payload || given.hash) && given.record == NULL) {
        cli_error("--%s requires --record DIR", given.payload ? "payload" : "hash");
        return LS_EXIT_USAGE;
    }
    if (given.tables != NULL && given.torchrec_plan == NULL) {
        cli_error("--tables requires --torchrec-plan FILE");
        return LS_EXIT_USAGE;
    }
    if (given.torchrec_plan != NULL && given.tables == NULL && given.program.ranks == 0) {
        cli_error("--torchrec-plan needs -n RANKS, or --tables SCENARIO");
        return LS_EXIT_USAGE;
    }
    if (given.payload && given.hash) {
        cli_error("--payload and --hash exclude each other");
        return LS_EXIT_USAGE;
    }
    return LS_EXIT_OK;
}

static int run(const cli_args *args) {
    static settings used;
    int code = check_options();
    code = code == LS_EXIT_OK ? cli_exec_check_program(args->values[0]) : code;
    const bool elsewhere = given.observe || given.compare;
    if (code == LS_EXIT_OK && given.gdb) {
        const bool others_given = elsewhere || given.debug || given.core || given.start > 0;
        return cli_gdb_ranks(given.program.ranks, others_given);
    }
    if (code == LS_EXIT_OK && (given.debug || given.core != NULL)) {
        code = cli_python_debug(given.debug, given.core, elsewhere);
    }
    code = code == LS_EXIT_OK ? tell_plan() : code;
    code = code == LS_EXIT_OK ? options_of(&used) : code;
    size_t room = sizeof used.front;
    code = code == LS_EXIT_OK ? cli_exec_find_front(used.front, room, given.observe) : code;
    code =
        code == LS_EXIT_OK && given.compare ? cli_exec_find_front(used.observer, room, true) : code;
    // Without a trace only the plan uses the machine.
    bool clock = cli_options_common.trace != NULL || given.torchrec_plan == NULL;
    const char *machine = clock ? given.machine : NULL;
    code = code == LS_EXIT_OK ? cli_trace_open(&used.trace, machine) : code;
    if (code != LS_EXIT_OK) {
        ls_order_free(used.order);
        return code;
    }
    const char **argv = calloc((size_t)args->count + 1, sizeof *argv);
    if (argv == NULL) {
        ls_order_free(used.order);
        return cli_trace_close(used.trace, cli_fail(LS_FAIL(LS_ERR_MEMORY, "no memory")));
    }
    memcpy((void *)argv, (const void *)args->values, (size_t)args->count * sizeof *argv);
    used.exec.argv = argv;
    used.name = cli_exec_name(argv);
    used.exec.spmd.met = used.trace != NULL ? ls_trace_met : NULL;
    used.exec.spmd.met_arg = used.trace;
    code = used.exec.join != NULL ? cli_exec_run_agent(&used.exec) : run_program(&used);
    free((void *)argv);
    code = cli_trace_close(used.trace, code);
    ls_order_free(used.order);
    return code;
}

const cli_command cli_cmd_exec = {
    .name = "exec",
    .arguments = "-- PROGRAM [ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Run an NCCL or PyTorch program, unmodified, with every call checked",
    .details = "With -n the program is started N times, with RANK, LOCAL_RANK, WORLD_SIZE, "
               "MASTER_ADDR and MASTER_PORT set as torchrun does. Without -n it is a launcher "
               "(torchrun, mpiexec) that starts the ranks. A library that replaces NCCL's is "
               "preloaded into all of its processes. lockstep matches and checks their calls, and "
               "moves and reduces their data, so ranks may share a GPU.",
    .example = "lockstep exec -n 4 -- python3 train.py",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
