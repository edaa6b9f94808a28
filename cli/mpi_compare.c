// The same program as real processes: mpiexec starts a shell for each rank, which keeps what the
// rank prints and its exit code. That, and files that the user names, is what is compared.
#define _GNU_SOURCE  // realpath
#include "cli/mpi_compare.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "process/child.h"
#include "process/processes.h"

#define RANKS_TOLD     8  // of those that differ
#define LINE_TOLD      200
#define NOT_STARTED    127  // exit code of a shell and mpiexec without a program to run
#define FILE_BYTES_MAX ((size_t)1 << 30)

static const char shell[] = "r=$(printf %05d \"${PMI_RANK:?}\"); \"$@\" >\"$0/rank_$r.out\"; c=$?; "
                            "echo $c >\"$0/rank_$r.code\"; exit $c";

int cli_mpi_compare_open(ls_reaper *reaper, char *printed, size_t bytes, const cli_mpi_real *real) {
    if (LOCKSTEP_MPIEXEC[0] == 0) {
        cli_error("this build has found no mpiexec.mpich: apt-get install mpich, and build again");
        return LS_EXIT_ENVIRONMENT;
    }
    if (access(real->program, X_OK) != 0) {
        cli_error("%s: %s; build the program with mpicc.mpich and name it with --real",
                  real->program, strerror(errno));
        return LS_EXIT_USAGE;
    }
    regex_t lines;
    if (real->ignore != NULL) {
        if (regcomp(&lines, real->ignore, REG_EXTENDED) != 0) {
            cli_error("--ignore '%.100s' is not a regular expression", real->ignore);
            return LS_EXIT_USAGE;
        }
        regfree(&lines);
    }
    int status = ls_reaper_make(reaper, NULL);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    (void)snprintf(printed, bytes, "%s/printed", reaper->dir);
    if (mkdir(printed, 0700) != 0) {
        cli_error("%s: %s", printed, strerror(errno));
        ls_reaper_remove(reaper);
        return LS_EXIT_ENVIRONMENT;
    }
    return LS_EXIT_OK;
}

// ---- The real run -------------------------------------------------------------------------------
_Noreturn static void become(const ls_reaper *reaper, const char *const *words) {
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/mpiexec.out", reaper->dir);
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int in = open("/dev/null", O_RDONLY);
    (void)dup2(in, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)setenv(LS_PROCESSES_VARIABLE, reaper->dir, 1);
    (void)execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(NOT_STARTED);
}

// How a real run ended; the caller's reaper ends what is left of it.
typedef enum real_end {
    REAL_ENDED,
    REAL_LATE,        // not in time
    REAL_NO_MPIEXEC,  // it could not be started, where no rank was
} real_end;

static real_end run_real(const ls_reaper *reaper, const char *const *words, double seconds) {
    pid_t child = ls_child_fork(0);
    if (child == 0) {
        become(reaper, words);
    }
    int how = 0;
    if (child > 0 && !ls_child_wait_for(child, &how, seconds)) {
        return REAL_LATE;
    }
    bool started = child > 0 && !(WIFEXITED(how) && WEXITSTATUS(how) == NOT_STARTED);
    return started ? REAL_ENDED : REAL_NO_MPIEXEC;
}

static real_end run_program(const ls_reaper *reaper, const cli_mpi_real *real) {
    char ranks[16], program[PATH_MAX];
    (void)snprintf(ranks, sizeof ranks, "%d", real->ranks);
    const char **words = calloc((size_t)real->argc + 8, sizeof *words);
    if (words == NULL || realpath(real->program, program) == NULL) {
        free((void *)words);
        return REAL_NO_MPIEXEC;
    }
    int count = 0;
    const char *const first[] = {LOCKSTEP_MPIEXEC, "-n",   ranks, "/bin/sh", "-c", shell,
                                 reaper->dir,      program};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        words[count++] = first[i];
    }
    for (int i = 1; i < real->argc; i++) {
        words[count++] = real->argv[i];
    }
    real_end ended = run_real(reaper, words, real->deadline_seconds);
    free((void *)words);
    return ended;
}

// ---- Printed output -----------------------------------------------------------------------------
typedef struct output {
    FILE *file;
    char *line;  // the one that was read last, without its end; NULL: none is left
    size_t room, length;
    bool whole;  // it has an end
    long number;
} output;

static bool open_output(output *out, const char *folder, int rank) {
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof path, "%s/rank_%05d.out", folder, rank);
    *out = (output){.file = fopen(path, "re")};
    return out->file != NULL;
}

static void close_output(output *out) {
    free(out->line);
    if (out->file != NULL) {
        (void)fclose(out->file);
    }
}

// Takes out what is not compared. A line may have bytes of 0.
static void cut(output *out, const regex_t *ignored) {
    size_t from = 0;
    while (from <= out->length) {
        regmatch_t found = {.rm_so = (regoff_t)from, .rm_eo = (regoff_t)out->length};
        int flags = REG_STARTEND | (from > 0 ? REG_NOTBOL : 0);
        if (regexec(ignored, out->line, 1, &found, flags) != 0) {
            return;
        }
        size_t start = (size_t)found.rm_so, end = (size_t)found.rm_eo;
        memmove(out->line + start, out->line + end, out->length - end);
        out->length -= end - start;
        from = end == start ? start + 1 : start;  // the folder is empty again
    }
}

static bool next_line(output *out, const regex_t *ignored) {
    ssize_t length = out->file != NULL ? getline(&out->line, &out->room, out->file) : -1;
    if (length < 0) {
        return false;
    }
    out->number += 1;
    out->whole = length > 0 && out->line[length - 1] == '\n';
    out->length = (size_t)length - (out->whole ? 1 : 0);
    if (ignored != NULL) {
        cut(out, ignored);
    }
    return true;
}

static void begin(ls_text *text) {
    ls_text_printf(text, "%s", ls_text_string(text)[0] != 0 ? "; " : "");
}

static void add_line(ls_text *text, const char *who, bool there, const output *of) {
    if (!there) {
        ls_text_printf(text, "%s nothing more", who);
        return;
    }
    ls_text_printf(text, "%s line %ld: \"", who, of->number);
    for (size_t i = 0; i < of->length && i < LINE_TOLD; i++) {
        unsigned char c = (unsigned char)of->line[i];
        ls_text_printf(text, c < 32 || c == 127 ? "\\x%02x" : "%c", c);
    }
    ls_text_printf(text, "\"%s", of->whole ? "" : " (without an end of line)");
}

static bool same_line(const output *a, const output *b) {
    return a->length == b->length && a->whole == b->whole &&
           memcmp(a->line, b->line, a->length) == 0;
}

typedef struct amount {
    long lines, files;
    size_t bytes;
} amount;

// Whether both have printed the same; else reports the first difference.
static bool same_output(ls_text *text, const char *printed, const ls_reaper *reaper, int rank,
                        const regex_t *ignored, amount *compared) {
    output here, real;
    (void)open_output(&here, printed, rank);
    (void)open_output(&real, reaper->dir, rank);
    bool a = false, b = false, same = true;
    do {
        a = next_line(&here, ignored);
        b = next_line(&real, ignored);
        same = a == b && (!a || same_line(&here, &real));
        compared->lines += a && same ? 1 : 0;
        compared->bytes += a && same ? here.length : 0;
    } while (a && b && same);
    if (!same) {
        begin(text);
        ls_text_printf(text, "rank %d prints ", rank);
        add_line(text, "here", a, &here);
        add_line(text, ", under MPICH", b, &real);
    }
    close_output(&here);
    close_output(&real);
    return same;
}

// ---- Written files ------------------------------------------------------------------------------
// The files that a pattern names, whole.
typedef struct kept_file {
    const char *name;
    char *content;
    size_t bytes;
} kept_file;

struct cli_mpi_files {
    const char *pattern;
    ls_arena *arena;
    kept_file *all;
    size_t count;
};

static int read_files(cli_mpi_files *out, ls_arena *arena, const char *pattern) {
    glob_t found;
    *out = (cli_mpi_files){.pattern = pattern, .arena = arena};
    int how = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (how != 0) {
        return how == GLOB_NOMATCH ? LS_OK
                                   : LS_FAIL(LS_ERR_IO, "--files '%.200s' cannot be read", pattern);
    }
    int status = LS_OK;
    out->all = ls_arena_alloc(arena, found.gl_pathc, sizeof *out->all);
    status = out->all == NULL ? LS_ERR_MEMORY : LS_OK;
    for (size_t i = 0; i < found.gl_pathc && status == LS_OK; i++) {
        struct stat about;
        if (stat(found.gl_pathv[i], &about) != 0 || !S_ISREG(about.st_mode)) {
            continue;
        }
        kept_file *made = &out->all[out->count];
        made->name = ls_arena_strdup(arena, found.gl_pathv[i]);
        status = made->name == NULL ? LS_ERR_MEMORY
                                    : ls_file_read(&made->content, &made->bytes, arena, made->name,
                                                   FILE_BYTES_MAX);
        out->count += 1;
    }
    globfree(&found);
    return status;
}

static const kept_file *file_named(const cli_mpi_files *of, const char *name) {
    for (size_t i = 0; i < of->count; i++) {
        if (strcmp(of->all[i].name, name) == 0) {
            return &of->all[i];
        }
    }
    return NULL;
}

// The files are again as they were before the run that has written the others.
static int restore(const cli_mpi_files *before, const cli_mpi_files *after) {
    for (size_t i = 0; i < after->count; i++) {
        if (file_named(before, after->all[i].name) == NULL && unlink(after->all[i].name) != 0) {
            return LS_FAIL(LS_ERR_IO, "%s: %s", after->all[i].name, strerror(errno));
        }
    }
    for (size_t i = 0; i < before->count; i++) {
        const kept_file *old = &before->all[i], *now = file_named(after, old->name);
        if (now == NULL || now->bytes != old->bytes ||
            memcmp(now->content, old->content, old->bytes) != 0) {
            LS_TRY(ls_file_write(old->name, old->content, old->bytes));
        }
    }
    return LS_OK;
}

static void compare_file(ls_text *text, const kept_file *a, const kept_file *b, amount *compared,
                         int *differ) {
    const char *name = a != NULL ? a->name : b->name;
    if (a != NULL && b != NULL && a->bytes == b->bytes &&
        memcmp(a->content, b->content, a->bytes) == 0) {
        compared->files += 1;
        compared->bytes += a->bytes;
        return;
    }
    if (*differ < RANKS_TOLD) {
        begin(text);
        ls_text_printf(text, "file %s ", name);
    }
    if (*differ < RANKS_TOLD && (a == NULL || b == NULL)) {
        ls_text_printf(text, "is there %s only", a == NULL ? "under MPICH" : "here");
    } else if (*differ < RANKS_TOLD) {
        size_t at = 0;
        while (at < a->bytes && at < b->bytes && a->content[at] == b->content[at]) {
            at += 1;
        }
        ls_text_printf(text, "differs from byte %zu on (%zu bytes here, %zu under MPICH)", at,
                       a->bytes, b->bytes);
    }
    *differ += 1;
}

static void compare_files(ls_text *text, const cli_mpi_files *here, const cli_mpi_files *real,
                          amount *compared, int *differ) {
    for (size_t i = 0; i < here->count; i++) {
        compare_file(text, &here->all[i], file_named(real, here->all[i].name), compared, differ);
    }
    for (size_t i = 0; i < real->count; i++) {
        if (file_named(here, real->all[i].name) == NULL) {
            compare_file(text, NULL, &real->all[i], compared, differ);
        }
    }
}

int cli_mpi_files_open(cli_mpi_files **out, ls_arena *arena, const char *pattern) {
    *out = pattern != NULL ? ls_arena_alloc(arena, 1, sizeof **out) : NULL;
    if (pattern == NULL) {
        return LS_OK;
    }
    return *out == NULL ? LS_ERR_MEMORY : read_files(*out, arena, pattern);
}

// A rank's exit code there; -1: it was ended before it had one.
static int real_code(const ls_reaper *reaper, int rank) {
    char path[PATH_MAX + 32];
    int code = -1;
    (void)snprintf(path, sizeof path, "%s/rank_%05d.code", reaper->dir, rank);
    FILE *file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%d", &code) != 1) {
        code = -1;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return code;
}

// If a run did not complete, its ranks have no exit codes to compare.
static bool same_code(ls_text *text, const ls_reaper *reaper, const ls_spmd_result *simulated,
                      bool whole, int rank) {
    int code = real_code(reaper, rank);
    if (!whole || code == (ls_spmd_exit_status(simulated, rank) & 0xff)) {
        return true;
    }
    begin(text);
    ls_text_printf(text, "rank %d exits with %d, under MPICH ", rank,
                   ls_spmd_exit_status(simulated, rank) & 0xff);
    ls_text_printf(text, code < 0 ? "it was killed with the others" : "with %d", code);
    return false;
}

// Why nothing can be compared: a failure of the real run's, not a difference. NULL in text: none.
static bool failed(ls_text *text, const ls_reaper *reaper, real_end ended,
                   const ls_spmd_result *simulated, const cli_mpi_real *real) {
    bool started = false;
    if (ended == REAL_LATE) {
        ls_text_printf(text, "under MPICH it has not ended in %g s (--deadline)",
                       real->deadline_seconds);
        return true;
    }
    for (int r = 0; r < real->ranks; r++) {
        int code = real_code(reaper, r);
        bool here = simulated != NULL && (ls_spmd_exit_status(simulated, r) & 0xff) == code;
        started = started || code >= 0;
        if ((code == NOT_STARTED || code == NOT_STARTED - 1) && !here) {
            ls_text_printf(text, "%s cannot be run under mpiexec: exit code %d of rank %d",
                           real->program, code, r);
            return true;
        }
    }
    if (!started) {
        ls_text_printf(text,
                       ended == REAL_NO_MPIEXEC ? "%s cannot be started"
                                                : "%s has started no rank of the program",
                       LOCKSTEP_MPIEXEC);
    }
    return !started;
}

static int compare_ranks(ls_text *text, const ls_reaper *reaper, const char *printed,
                         const ls_spmd_result *simulated, const cli_mpi_real *real,
                         amount *compared) {
    int differ = 0;
    bool whole = simulated != NULL && ls_spmd_finding_count(simulated) == 0;
    regex_t ignored;
    bool ignores = real->ignore != NULL && regcomp(&ignored, real->ignore, REG_EXTENDED) == 0;
    for (int r = 0; r < real->ranks && differ < RANKS_TOLD; r++) {
        bool same = same_code(text, reaper, simulated, whole, r);
        same = same_output(text, printed, reaper, r, ignores ? &ignored : NULL, compared) && same;
        differ += same ? 0 : 1;
    }
    if (ignores) {
        regfree(&ignored);
    }
    return differ;
}

// The row of the comparison. The files of this run are as they were when the real one starts.
static int compare(ls_case_result *row, ls_text *text, const ls_reaper *reaper, const char *printed,
                   const ls_spmd_result *simulated, const cli_mpi_real *real) {
    cli_mpi_files here = {.count = 0}, there = {.count = 0};
    amount compared = {0};
    if (real->files != NULL) {
        LS_TRY(read_files(&here, real->files->arena, real->files->pattern));
        LS_TRY(restore(real->files, &here));
    }
    if (failed(text, reaper, run_program(reaper, real), simulated, real)) {
        row->class_ = LS_CLASS_ERROR;
        row->environment = true;
        return LS_OK;
    }
    int differ = compare_ranks(text, reaper, printed, simulated, real, &compared);
    if (real->files != NULL) {
        LS_TRY(read_files(&there, real->files->arena, real->files->pattern));
        compare_files(text, &here, &there, &compared, &differ);
    }
    row->unusable = real->files != NULL && here.count == 0 && there.count == 0;
    if (row->unusable) {
        begin(text);
        ls_text_printf(text, "--files '%.200s' names no file after either run",
                       real->files->pattern);
    }
    row->pass = differ == 0 && !row->unusable;
    row->class_ = row->unusable ? LS_CLASS_ERROR : LS_CLASS_BIT_EXACT;
    if (differ > 0) {
        row->class_ = LS_CLASS_WRONG;
    }
    if (row->pass && compared.bytes == 0) {
        row->unproven = "the exit codes are equal, but no output was compared";
    } else if (row->pass) {
        cli_note("%d rank%s print%s the same %ld lines as under MPICH, write the same %ld files, "
                 "and exit with the same codes",
                 real->ranks, real->ranks == 1 ? "" : "s", real->ranks == 1 ? "s" : "",
                 compared.lines, compared.files);
    }
    return LS_OK;
}

int cli_mpi_compare(ls_results *results, const ls_reaper *reaper, const char *printed,
                    const ls_spmd_result *simulated, const cli_mpi_real *real) {
    ls_text text = {0};
    ls_case_result row = {
        .name = real->program, .file = real->program, .backend = "sim", .real = "mpi"};
    double begun = ls_time_now();
    int status = compare(&row, &text, reaper, printed, simulated, real);
    row.seconds = ls_time_now() - begun;
    row.error = row.pass ? NULL : ls_arena_strdup(results->arena, ls_text_string(&text));
    ls_text_free(&text);
    status = status == LS_OK ? ls_results_add(results, &row) : status;
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}
