// A PyTorch program on several numbers of ranks, whose models are compared: in floats, or in exact
// arithmetic.
#define _XOPEN_SOURCE 700
#include "cli/worlds.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exec_report.h"
#include "exec/coordinator.h"
#include "process/reaper.h"
#include "runner/diff/diff.h"

#define RUNS_MAX  16
#define RANKS_MAX 4096
// Variables that the Python processes read (python/lockstep/models.py and proof).
#define FOLDER_VARIABLE "LOCKSTEP_CAPTURE"
#define STEPS_VARIABLE  "LOCKSTEP_CAPTURE_STEPS"
#define PROVE_VARIABLE  "LOCKSTEP_PROVE"
#define SEED_VARIABLE   "LOCKSTEP_PROVE_SEED"

typedef struct worlds {
    const cli_worlds *given;
    ls_results *results;
    const char *name;  // of the program
    const char *reproduce;
    bool exact;
    const char *prefix;  // of the runs' folders
    const char *const *argv;
    char front[PATH_MAX], python[PATH_MAX];
    char dir[PATH_MAX];   // a folder for each number of ranks
    int ranks[RUNS_MAX];  // the reference's first
    int runs;
    // Until the report is written, which has their words:
    ls_exec_result ran[2 * RUNS_MAX];  // [ran_count]
    int ran_count;
    bool failed;            // the reference
    ls_capture **captures;  // [captures_count]
    size_t captures_count, captures_room;
} worlds;

// ---- The call -----------------------------------------------------------------------------------
static int read_ranks(worlds *p) {
    const char *at = p->given->ranks != NULL ? p->given->ranks : "1,2";
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

// ---- The runs -----------------------------------------------------------------------------------
static int path_of(char *out, size_t bytes, const worlds *p, int run, const char *name) {
    int length = snprintf(out, bytes, "%s/%s%d_ranks_%d%s%s", p->dir, p->prefix, run, p->ranks[run],
                          name != NULL ? "/" : "", name != NULL ? name : "");
    return length > 0 && (size_t)length < bytes ? LS_OK
                                                : LS_FAIL(LS_ERR_INVALID, "a path is too long");
}

// Adds the case of a run that did not end well.
static int add_failed(const worlds *p, int run, const ls_exec_result *ran) {
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
        .note = ran->hints,
        .reproduce = p->reproduce,
    };
    return findings == NULL || row.name == NULL ? LS_ERR_MEMORY : ls_results_add(p->results, &row);
}

int cli_worlds_capture(const char *dir) {
    char whole[PATH_MAX];
    if (mkdir(dir, 0777) != 0 || realpath(dir, whole) == NULL) {
        return LS_FAIL(LS_ERR_IO, "cannot create '%s'; name a new folder", dir);
    }
    (void)setenv(FOLDER_VARIABLE, whole, 1);
    return LS_OK;
}

static int run_once(bool *passed, worlds *p, int run) {
    char folder[PATH_MAX], seed[32];
    ls_exec_result *ran = &p->ran[p->ran_count++];
    *ran = (ls_exec_result){.failed_rank = -1};
    LS_TRY(path_of(folder, sizeof folder, p, run, NULL));
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)cli_options_common.seed);
    LS_TRY(cli_worlds_capture(folder));
    (void)setenv(SEED_VARIABLE, seed, 1);
    (void)(p->exact ? setenv(PROVE_VARIABLE, "1", 1) : unsetenv(PROVE_VARIABLE));
    if (p->given->steps > 0) {
        char steps[32];
        (void)snprintf(steps, sizeof steps, "%llu", (unsigned long long)p->given->steps);
        (void)setenv(STEPS_VARIABLE, steps, 1);
    }
    const ls_exec_options how = {
        .processes = p->ranks[run],
        .argv = p->argv,
        .watch = p->exact ? NULL : "default",
        .strict = p->given->strict,
        .preload = p->front,
        .python = p->python,
        .quiet_stdout = cli_stdout_taken(),
        .deadline_seconds = p->given->deadline_given ? p->given->deadline_seconds : 300,
        .deadline_given = p->given->deadline_given,
    };
    LS_TRY(ls_exec_run(ran, &how));
    *passed = ran->status == LS_OK && !ran->died && ran->failed_rank < 0;
    return *passed ? LS_OK : add_failed(p, run, ran);
}

// ---- The comparison -----------------------------------------------------------------------------
// Adds the case of a model that one of two runs lacks, or a rank of it, which is no error.
static int add_missing(const worlds *p, const char *name, bool error, const char *why) {
    ls_case_result row = {.name = name,
                          .file = p->name,
                          .class_ = error ? LS_CLASS_ERROR : LS_CLASS_UNJUDGED,
                          .error = error ? why : NULL,
                          .skipped = !error,
                          .skip_reason = error ? NULL : why,
                          .reproduce = p->reproduce};
    return name == NULL || why == NULL ? LS_ERR_MEMORY : ls_results_add(p->results, &row);
}

// The first rank that has kept nothing; -1: there is none.
static int rank_without(const char *path, int ranks) {
    char file[PATH_MAX + 32];
    for (int r = 0; r < ranks; r++) {
        (void)snprintf(file, sizeof file, "%s/rank_%05d.json", path, r);
        if (access(file, F_OK) != 0) {
            return r;
        }
    }
    return -1;
}

static int open_capture(ls_capture **out, worlds *p, const char *path) {
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

static int compare(worlds *p, int run, const char *model, ls_diff_options *how) {
    ls_arena *arena = p->results->arena;
    char ref_path[PATH_MAX], run_path[PATH_MAX];
    LS_TRY(path_of(ref_path, sizeof ref_path, p, 0, model));
    LS_TRY(path_of(run_path, sizeof run_path, p, run, model));
    // A folder's name is its number and the model's.
    const char *own = strchr(model, '_') != NULL ? strchr(model, '_') + 1 : model;
    how->name = ls_arena_printf(arena, "%s %s, %d ranks against %d%s", p->name, own, p->ranks[run],
                                p->ranks[0], p->exact && p->given->floats ? ", exact" : "");
    LS_TRY_MEMORY(how->name != NULL);
    if (access(ref_path, F_OK) != 0 || access(run_path, F_OK) != 0) {
        const int lacks = p->ranks[access(ref_path, F_OK) != 0 ? 0 : run];
        return add_missing(
            p, how->name, true,
            ls_arena_printf(arena, "on %d ranks no model of this number ran", lacks));
    }
    for (int side = 0; side < 2; side++) {
        const int ranks = p->ranks[side == 0 ? 0 : run],
                  lacks = rank_without(side == 0 ? ref_path : run_path, ranks);
        if (lacks >= 0) {
            return add_missing(
                p, how->name, false,
                ls_arena_printf(arena, "rank %d of %d ran no model of this number", lacks, ranks));
        }
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

// The models that ran in `of`, but those that ran in `but`; -1: all.
static int compare_models(worlds *p, int run, int of, int but, ls_diff_options *how) {
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    LS_TRY(path_of(path, sizeof path, p, of, NULL));
    int count = scandir(path, &entries, is_model, by_name), status = LS_OK;
    for (int i = 0; i < count; i++) {
        const char *model = entries[i]->d_name;
        status = status == LS_OK && but >= 0 ? path_of(path, sizeof path, p, but, model) : status;
        if (status == LS_OK && (but < 0 || access(path, F_OK) != 0)) {
            status = compare(p, run, model, how);
        }
        free(entries[i]);
    }
    free((void *)entries);
    return status;
}

static int compare_worlds(worlds *p, ls_diff_options *how) {
    for (int run = 0; run < p->runs; run++) {
        bool passed = false;
        LS_TRY(run_once(&passed, p, run));
        if (!passed && run == 0) {
            p->failed = true;
            return LS_OK;
        }
        if (run > 0 && passed) {
            const int first = p->results->case_count;
            LS_TRY(compare_models(p, run, 0, -1, how));
            LS_TRY(compare_models(p, run, run, 0, how));
            if (first < p->results->case_count) {
                p->results->cases[first].note = p->ran[p->ran_count - 1].hints;
            }
        }
    }
    return LS_OK;
}

static int run_in(worlds *p) {
    ls_reaper reaper = {.pid = 0};
    ls_diff_options how = {.all = p->given->all};
    LS_TRY(ls_diff_ignore(&how, p->results->arena, p->given->ignore));
    const char *keep = p->given->keep;
    if (keep == NULL) {
        LS_TRY(ls_reaper_make(&reaper, NULL));
    } else if (mkdir(keep, 0777) != 0) {
        return LS_FAIL(LS_ERR_IO, "cannot create '%s'; name a new folder", keep);
    }
    (void)snprintf(p->dir, sizeof p->dir, "%s", keep != NULL ? keep : reaper.dir);
    int status = LS_OK;
    if (p->given->floats) {
        p->prefix = "";
        status = compare_worlds(p, &how);
    }
    if (status == LS_OK && p->given->exact && !p->failed) {
        p->exact = true;
        p->prefix = p->given->floats ? "exact_" : "";
        status = compare_worlds(p, &how);
    }
    if (keep == NULL) {
        ls_reaper_remove(&reaper);
    }
    return status;
}

static const char *reproduce(ls_arena *arena, const cli_worlds *given, const char *const *argv) {
    ls_text text = {0};
    ls_text_printf(&text, "lockstep %s", given->command);
    const char *words[][2] = {{"-n", given->ranks}, {"--ignore", given->ignore}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i][1] != NULL) {
            ls_text_printf(&text, " %s ", words[i][0]);
            ls_text_shell(&text, words[i][1]);
        }
    }
    if (cli_options_common.seed_given) {
        ls_text_printf(&text, " --seed %llu", (unsigned long long)cli_options_common.seed);
    }
    if (given->steps_given) {
        ls_text_printf(&text, " --steps %llu", (unsigned long long)given->steps);
    }
    ls_text_printf(&text, "%s%s --", given->options, given->all ? " --all" : "");
    for (const char *const *word = argv; *word != NULL; word++) {
        ls_text_puts(&text, " ");
        ls_text_shell(&text, *word);
    }
    return ls_result_text(arena, &text);
}

static int run_program(worlds *p) {
    int code = read_ranks(p);
    code = code == LS_EXIT_OK ? cli_exec_find_front(p->front, sizeof p->front, false) : code;
    if (code == LS_EXIT_OK && !cli_exec_find_python(p->python, sizeof p->python)) {
        cli_error("the Python package is not beside this program, nor where it is installed");
        code = LS_EXIT_ENVIRONMENT;
    }
    CLI_TRY(code);
    int status = ls_results_create(&p->results, p->given->command);
    if (status == LS_OK) {
        p->reproduce = reproduce(p->results->arena, p->given, p->argv);
        status = p->reproduce != NULL ? run_in(p) : LS_ERR_MEMORY;
    }
    code = status == LS_OK ? cli_report(p->results) : cli_fail(status);
    for (size_t i = 0; i < p->captures_count; i++) {
        ls_capture_free(p->captures[i]);
    }
    free((void *)p->captures);
    for (int i = 0; i < p->ran_count; i++) {
        ls_exec_result_free(&p->ran[i]);
    }
    ls_results_free(p->results);
    return code;
}

int cli_worlds_run(const cli_worlds *given, const cli_args *args) {
    static worlds p;
    const char **argv = calloc((size_t)args->count + 1, sizeof *argv);
    if (argv == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "no memory"));
    }
    memcpy((void *)argv, (const void *)args->values, (size_t)args->count * sizeof *argv);
    p = (worlds){.given = given, .argv = argv, .name = cli_exec_name(argv)};
    int code = run_program(&p);
    free((void *)argv);
    return code;
}
