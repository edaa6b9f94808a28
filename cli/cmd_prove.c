// lockstep prove [-n RANKS,RANKS...] -- PROGRAM [ARGUMENTS]: a program of torch.distributed on
// several numbers of ranks, in exact arithmetic.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/exec_report.h"
#include "cli/scenarios.h"
#include "exec/coordinator.h"
#include "runner/diff/diff.h"
#include "process/reaper.h"

#define RUNS_MAX  16
#define RANKS_MAX 4096
// Variables that the Python processes read (python/lockstep/proof).
#define FOLDER_VARIABLE    "LOCKSTEP_PROVE"
#define REFERENCE_VARIABLE "LOCKSTEP_PROVE_REFERENCE"
#define SEED_VARIABLE      "LOCKSTEP_PROVE_SEED"

static struct {
    const char *ranks, *ignore, *keep;
    double deadline_seconds;
    bool all, deadline_given;
    cli_run_options run;  // of scenarios
} given;

static const cli_option options[] = {
    {.type = CLI_STRING,
     .short_name = 'n',
     .long_name = "ranks",
     .value = &given.ranks,
     .value_name = "N,M...",
     .help = "Run the program on N ranks, the reference, then on M ranks and so on (default: 1,2). "
             "One number: on 1 and on that many"},
    {.type = CLI_SWITCH,
     .long_name = "all",
     .value = &given.all,
     .help = "Continue after the first tensor that is wrong"},
    {.type = CLI_STRING,
     .long_name = "ignore",
     .value = &given.ignore,
     .value_name = "PATTERNS",
     .help = "Do not compare tensors whose names match one of these patterns, separated by commas"},
    {.type = CLI_STRING,
     .long_name = "keep",
     .value = &given.keep,
     .output = CLI_OUTPUT_FOLDER,
     .value_name = "DIR",
     .help = "Keep the runs' values of the field in a new folder, which diff reads"},
    {.type = CLI_DOUBLE,
     .long_name = "deadline",
     .double_max = CLI_SECONDS_MAX,
     .value = &given.deadline_seconds,
     .given = &given.deadline_given,
     .value_name = "SECONDS",
     .help = "Explain and end a run in which nothing moves for so long (default: 300, where ranks "
             "wait; 0: never)"},
    CLI_OUTSIDE_OPTION(given.run.allow_outside),
    {.long_name = NULL},
};

typedef struct proof {
    ls_results *results;
    const char *name;  // of the program
    const char *const *argv;
    const char *reproduce;
    char front[PATH_MAX], python[PATH_MAX];
    char dir[PATH_MAX];   // a folder for each number of ranks
    int ranks[RUNS_MAX];  // the reference's first
    int runs;
    ls_capture **captures;  // [captures_count], until the report is written
    size_t captures_count, captures_room;
} proof;

// ---- The call -----------------------------------------------------------------------------------
static int read_ranks(proof *p) {
    const char *at = given.ranks != NULL ? given.ranks : "1,2";
    for (bool more = true; more; at += more ? 1 : 0) {
        uint64_t number = 0;
        if (!cli_read_number(&number, &at, at) || number < 1 || number > RANKS_MAX ||
            p->runs == RUNS_MAX || (*at != 0 && *at != ',')) {
            cli_error("-n takes numbers of ranks from 1 to %d, at most %d of them, as in -n 1,4",
                      RANKS_MAX, RUNS_MAX);
            return LS_EXIT_USAGE;
        }
        p->ranks[p->runs++] = (int)number;
        more = *at == ',';
    }
    if (p->runs == 1) {
        p->ranks[1] = p->ranks[0];
        p->ranks[0] = 1;
        p->runs = 2;
    }
    return LS_EXIT_OK;
}

static const char *reproduce(ls_arena *arena, const char *const *argv) {
    ls_text text = {0};
    ls_text_puts(&text, "lockstep prove");
    const char *words[][2] = {{"-n", given.ranks}, {"--ignore", given.ignore}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i][1] != NULL) {
            ls_text_printf(&text, " %s ", words[i][0]);
            ls_text_shell(&text, words[i][1]);
        }
    }
    if (cli_options_common.seed_given) {
        ls_text_printf(&text, " --seed %llu", (unsigned long long)cli_options_common.seed);
    }
    ls_text_printf(&text, "%s --", given.all ? " --all" : "");
    for (const char *const *word = argv; *word != NULL; word++) {
        ls_text_puts(&text, " ");
        ls_text_shell(&text, *word);
    }
    const char *kept = ls_arena_strdup(arena, ls_text_string(&text));
    ls_text_free(&text);
    return kept;
}

// ---- The runs -----------------------------------------------------------------------------------
static int path_of(char *out, size_t bytes, const proof *p, int run, const char *name) {
    int length = snprintf(out, bytes, "%s/%d_ranks_%d%s%s", p->dir, run, p->ranks[run],
                          name != NULL ? "/" : "", name != NULL ? name : "");
    return length > 0 && (size_t)length < bytes ? LS_OK
                                                : LS_FAIL(LS_ERR_INVALID, "a path is too long");
}

// Adds the case of a run that did not end well.
static int add_failed(const proof *p, int run, const ls_exec_result *ran) {
    int count = 0;
    ls_arena *arena = p->results->arena;
    ls_finding *findings = cli_exec_findings(&count, arena, ran);
    ls_case_result row = {
        .name = ls_arena_printf(arena, "%s on %d ranks", p->name, p->ranks[run]),
        .file = p->name,
        .backend = "sim",
        .class_ = count > 0 ? LS_CLASS_FINDING : LS_CLASS_ERROR,
        .findings = findings,
        .finding_count = count,
        .error = count > 0 ? NULL : cli_exec_error(arena, ran, p->ranks[run]),
        .seconds = ran->seconds,
        .environment = ran->died || count == 0,
        .reproduce = p->reproduce,
    };
    return findings == NULL || row.name == NULL ? LS_ERR_MEMORY : ls_results_add(p->results, &row);
}

static int run_once(bool *passed, const proof *p, int run) {
    char folder[PATH_MAX], reference[PATH_MAX], seed[32];
    ls_exec_result ran = {.failed_rank = -1};
    LS_TRY(path_of(folder, sizeof folder, p, run, NULL));
    LS_TRY(path_of(reference, sizeof reference, p, 0, NULL));
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)cli_options_common.seed);
    if (mkdir(folder, 0777) != 0) {
        return LS_FAIL(LS_ERR_IO, "'%s' cannot be made", folder);
    }
    (void)setenv(FOLDER_VARIABLE, folder, 1);
    (void)setenv(SEED_VARIABLE, seed, 1);
    (void)(run > 0 ? setenv(REFERENCE_VARIABLE, reference, 1) : unsetenv(REFERENCE_VARIABLE));
    const ls_exec_options how = {
        .processes = p->ranks[run],
        .argv = p->argv,
        .preload = p->front,
        .python = p->python,
        .quiet_stdout = cli_stdout_taken(),
        .deadline_seconds = given.deadline_given ? given.deadline_seconds : 300,
        .deadline_given = given.deadline_given,
    };
    LS_TRY(ls_exec_run(&ran, &how));
    *passed = ran.status == LS_OK && !ran.died && ran.failed_rank < 0;
    int status = *passed ? LS_OK : add_failed(p, run, &ran);
    ls_exec_result_free(&ran);
    return status;
}

// ---- The comparison -----------------------------------------------------------------------------
static int add_error(const proof *p, const char *name, const char *why) {
    ls_case_result row = {.name = name,
                          .file = p->name,
                          .class_ = LS_CLASS_ERROR,
                          .error = why,
                          .reproduce = p->reproduce};
    return name == NULL || why == NULL ? LS_ERR_MEMORY : ls_results_add(p->results, &row);
}

static int open_capture(ls_capture **out, proof *p, const char *path) {
    if (p->captures_count == p->captures_room) {
        size_t room = 2 * p->captures_room + 16;
        ls_capture **more = realloc((void *)p->captures, room * sizeof *more);
        if (more == NULL) {
            return LS_FAIL(LS_ERR_MEMORY, "no memory");
        }
        p->captures = more;
        p->captures_room = room;
    }
    LS_TRY(ls_capture_open(out, path));
    p->captures[p->captures_count++] = *out;
    return LS_OK;
}

static int compare(proof *p, int run, const char *model, ls_diff_options *how) {
    ls_arena *arena = p->results->arena;
    char ref_path[PATH_MAX], run_path[PATH_MAX];
    LS_TRY(path_of(ref_path, sizeof ref_path, p, 0, model));
    LS_TRY(path_of(run_path, sizeof run_path, p, run, model));
    // A folder's name is its number and the model's.
    const char *own = strchr(model, ' ') != NULL ? strchr(model, ' ') + 1 : model;
    how->name = ls_arena_printf(arena, "%s%s%s, %d ranks against %d", p->name,
                                own[0] != 0 ? " " : "", own, p->ranks[run], p->ranks[0]);
    if (how->name == NULL) {
        return LS_ERR_MEMORY;
    }
    struct stat about;
    if (stat(run_path, &about) != 0) {
        return add_error(
            p, how->name,
            ls_arena_printf(arena, "on %d ranks no model of this number ran", p->ranks[run]));
    }
    ls_capture *ref = NULL, *many = NULL;
    LS_TRY(open_capture(&ref, p, ref_path));
    LS_TRY(open_capture(&many, p, run_path));
    return ls_diff_run(p->results, ref, many, how, p->reproduce);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_model(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int compare_all(proof *p, int run, ls_diff_options *how) {
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    LS_TRY(path_of(path, sizeof path, p, 0, NULL));
    int count = scandir(path, &entries, is_model, by_name), status = LS_OK;
    for (int i = 0; i < count; i++) {
        status = status == LS_OK ? compare(p, run, entries[i]->d_name, how) : status;
        free(entries[i]);
    }
    free((void *)entries);
    return status;
}

static int prove(proof *p, ls_diff_options *how) {
    for (int run = 0; run < p->runs; run++) {
        bool passed = false;
        LS_TRY(run_once(&passed, p, run));
        if (!passed && run == 0) {
            return LS_OK;
        }
        LS_TRY(run > 0 && passed ? compare_all(p, run, how) : LS_OK);
    }
    return LS_OK;
}

static int run_in(proof *p) {
    ls_reaper reaper = {.pid = 0};
    ls_diff_options how = {.all = given.all};
    LS_TRY(ls_diff_ignore(&how, p->results->arena, given.ignore));
    if (given.keep == NULL) {
        LS_TRY(ls_reaper_make(&reaper, NULL));
    } else if (mkdir(given.keep, 0777) != 0) {
        return LS_FAIL(LS_ERR_IO, "'%s' cannot be made; name a new folder", given.keep);
    }
    (void)snprintf(p->dir, sizeof p->dir, "%s", given.keep != NULL ? given.keep : reaper.dir);
    int status = prove(p, &how);
    if (given.keep == NULL) {
        ls_reaper_remove(&reaper);
    }
    return status;
}

static int prove_all(const cli_scenarios *scenarios, ls_device *device) {
    (void)device;
    ls_results *results = NULL;
    ls_text command = {0};
    int status = ls_results_create(&results, "prove");
    if (status != LS_OK) {
        return cli_fail(status);
    }
    ls_text_puts(&command, "lockstep prove");
    cli_reproduce_options(&command, &given.run);
    const ls_run_options how = cli_run_options_of(&given.run, &command);
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

static int run(const cli_args *args) {
    static proof p;
    if (args->before_dashes == args->count || args->before_dashes < 0) {
        if (given.ranks != NULL || given.ignore != NULL || given.keep != NULL || given.all ||
            given.deadline_given) {
            cli_error("-n, --ignore, --keep, --all and --deadline are for '-- PROGRAM'; a scenario "
                      "file has its ranks");
            return LS_EXIT_USAGE;
        }
        return cli_scenarios_run(args, &given.run, NULL, prove_all, NULL);
    }
    if (given.run.allow_outside) {
        cli_error("--allow-outside is for scenario files");
        return LS_EXIT_USAGE;
    }
    if (args->before_dashes != 0) {
        cli_error("prove takes scenario files or '-- PROGRAM [ARGUMENTS]', not both");
        return LS_EXIT_USAGE;
    }
    int code = read_ranks(&p);
    code = code == LS_EXIT_OK ? cli_exec_find_front(p.front, sizeof p.front, false) : code;
    if (code == LS_EXIT_OK && !cli_exec_find_python(p.python, sizeof p.python)) {
        cli_error("the Python package is not beside this program, nor where it is installed");
        code = LS_EXIT_ENVIRONMENT;
    }
    if (code != LS_EXIT_OK) {
        return code;
    }
    const char **argv = calloc((size_t)args->count + 1, sizeof *argv);
    if (argv == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "no memory"));
    }
    memcpy((void *)argv, (const void *)args->values, (size_t)args->count * sizeof *argv);
    p.argv = argv;
    p.name = cli_exec_name(argv);
    int status = ls_results_create(&p.results, "prove");
    if (status == LS_OK) {
        p.reproduce = reproduce(p.results->arena, argv);
        status = p.reproduce != NULL ? run_in(&p) : LS_ERR_MEMORY;
    }
    code = status == LS_OK ? cli_report(p.results) : cli_fail(status);
    for (size_t i = 0; i < p.captures_count; i++) {
        ls_capture_free(p.captures[i]);
    }
    free((void *)p.captures);
    ls_results_free(p.results);
    free((void *)argv);
    return code;
}

const cli_command cli_cmd_prove = {
    .name = "prove",
    .arguments = "FILE... | -- PROGRAM [ARGUMENTS]",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Prove that a scenario or PyTorch program computes the same on one rank and on many",
    .details = "Simulates scenario files, or runs the program, unmodified, on each number of "
               "ranks, with a number of a prime "
               "field beside every floating-point number. Sums of any order are equal there, and "
               "random values make other formulas differ: a tensor is proved or wrong, without a "
               "tolerance. The report names for the first wrong tensor its step, module, rank and "
               "element, and a likely reason.",
    .example = "lockstep prove -n 1,4 -- python3 train.py",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
