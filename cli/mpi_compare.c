// The same program as real processes: mpiexec starts a shell for each rank, which keeps what the
// rank prints and its exit code. Nothing else of the two runs is compared.
#define _GNU_SOURCE  // realpath
#include "cli/mpi_compare.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "runner/launch/processes.h"

#define PAUSE_MS   10
#define RANKS_TOLD 8  // of those that differ
#define LINE_TOLD  200

static const char shell[] = "r=$(printf %05d \"${PMI_RANK:?}\"); \"$@\" >\"$0/rank_$r.out\"; c=$?; "
                            "echo $c >\"$0/rank_$r.code\"; exit $c";

int cli_mpi_compare_open(ls_keeper *keeper, char *printed, size_t bytes, const cli_mpi_real *real) {
    if (LOCKSTEP_MPIEXEC[0] == 0) {
        cli_error("this build has found no mpiexec.mpich: apt-get install mpich, and build again");
        return LS_EXIT_ENVIRONMENT;
    }
    if (access(real->program, X_OK) != 0) {
        cli_error("%s: %s; it is the program as mpicc.mpich builds it (--real)", real->program,
                  strerror(errno));
        return LS_EXIT_USAGE;
    }
    regex_t lines;
    if (real->ignore != NULL) {
        if (regcomp(&lines, real->ignore, REG_EXTENDED) != 0) {
            cli_error("--ignore '%.100s' is no regular expression", real->ignore);
            return LS_EXIT_USAGE;
        }
        regfree(&lines);
    }
    int status = ls_keeper_make(keeper, NULL);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    (void)snprintf(printed, bytes, "%s/printed", keeper->dir);
    if (mkdir(printed, 0700) != 0) {
        cli_error("%s: %s", printed, strerror(errno));
        ls_keeper_remove(keeper);
        return LS_EXIT_ENVIRONMENT;
    }
    return LS_EXIT_OK;
}

// ---- The real run -------------------------------------------------------------------------------
_Noreturn static void become(const ls_keeper *keeper, const char *const *words) {
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/mpiexec.out", keeper->dir);
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int in = open("/dev/null", O_RDONLY);
    (void)dup2(in, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)setenv(LS_PROCESSES_VARIABLE, keeper->dir, 1);
    (void)execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

// Whether it has ended in time; the caller's keeper ends what is left.
static bool run_real(const ls_keeper *keeper, const char *const *words, double seconds) {
    pid_t child = fork();
    if (child == 0) {
        become(keeper, words);
    }
    int how;
    for (double waited = 0; child > 0 && waited < seconds; waited += PAUSE_MS / 1000.0) {
        if (waitpid(child, &how, WNOHANG) == child) {
            return true;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
    return false;
}

static bool run_program(const ls_keeper *keeper, const cli_mpi_real *real) {
    char ranks[16], program[PATH_MAX];
    (void)snprintf(ranks, sizeof ranks, "%d", real->ranks);
    if (realpath(real->program, program) == NULL) {
        return false;
    }
    const char **words = calloc((size_t)real->argc + 8, sizeof *words);
    if (words == NULL) {
        return false;
    }
    int count = 0;
    const char *const first[] = {LOCKSTEP_MPIEXEC, "-n",   ranks, "/bin/sh", "-c", shell,
                                 keeper->dir,      program};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        words[count++] = first[i];
    }
    for (int i = 1; i < real->argc; i++) {
        words[count++] = real->argv[i];
    }
    bool ended = run_real(keeper, words, real->deadline_seconds);
    free((void *)words);
    return ended;
}

// ---- What was printed ---------------------------------------------------------------------------
typedef struct output {
    FILE *file;
    char *line;  // the one that was read last, without its end; NULL: none is left
    size_t room;
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

// Takes out what is not compared.
static void cut(char *line, const regex_t *ignored) {
    regmatch_t found;
    size_t from = 0;
    while (regexec(ignored, line + from, 1, &found, from > 0 ? REG_NOTBOL : 0) == 0) {
        char *start = line + from + found.rm_so, *end = line + from + found.rm_eo;
        from += (size_t)found.rm_so;
        if (end == start) {
            if (*start == 0) {
                return;
            }
            from += 1;  // nothing, which is there again
        } else {
            memmove(start, end, strlen(end) + 1);
        }
    }
}

static bool next_line(output *out, const regex_t *ignored) {
    ssize_t length = out->file != NULL ? getline(&out->line, &out->room, out->file) : -1;
    if (length < 0) {
        return false;
    }
    out->number += 1;
    if (length > 0 && out->line[length - 1] == '\n') {
        out->line[length - 1] = 0;
    }
    if (ignored != NULL) {
        cut(out->line, ignored);
    }
    return true;
}

static void begin(ls_text *text) {
    ls_text_printf(text, "%s", ls_text_string(text)[0] != 0 ? "; " : "");
}

static void add_line(ls_text *text, const char *who, bool there, const output *of) {
    if (there) {
        ls_text_printf(text, "%s line %ld: \"%.*s\"", who, of->number, LINE_TOLD, of->line);
    } else {
        ls_text_printf(text, "%s nothing more", who);
    }
}

// Whether both have printed the same; else says where they begin to differ.
static bool same_output(ls_text *text, const char *printed, const ls_keeper *keeper, int rank,
                        const regex_t *ignored, long *lines) {
    output here, real;
    (void)open_output(&here, printed, rank);
    (void)open_output(&real, keeper->dir, rank);
    bool a = false, b = false, same = true;
    do {
        a = next_line(&here, ignored);
        b = next_line(&real, ignored);
        same = a == b && (!a || strcmp(here.line, real.line) == 0);
        *lines += a && same ? 1 : 0;
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

// A rank's exit code there; -1: it was ended before it had one.
static int real_code(const ls_keeper *keeper, int rank) {
    char path[PATH_MAX + 32];
    int code = -1;
    (void)snprintf(path, sizeof path, "%s/rank_%05d.code", keeper->dir, rank);
    FILE *file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%d", &code) != 1) {
        code = -1;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return code;
}

// Where a run did not come to its end, its ranks have no codes of their own to compare.
static bool same_code(ls_text *text, const ls_keeper *keeper, const ls_spmd_result *simulated,
                      bool whole, int rank) {
    int code = real_code(keeper, rank);
    if (!whole || code == (ls_spmd_exit_status(simulated, rank) & 0xff)) {
        return true;
    }
    begin(text);
    ls_text_printf(text, "rank %d exits with %d, under MPICH ", rank,
                   ls_spmd_exit_status(simulated, rank) & 0xff);
    ls_text_printf(text, code < 0 ? "it is ended with the others" : "with %d", code);
    return false;
}

int cli_mpi_compare(ls_results *results, const ls_keeper *keeper, const char *printed,
                    const ls_spmd_result *simulated, const cli_mpi_real *real) {
    ls_text text = {0};
    long lines = 0;
    int differ = 0;
    struct timespec begun, over;
    (void)clock_gettime(CLOCK_MONOTONIC, &begun);
    bool ended = run_program(keeper, real), started = false;
    (void)clock_gettime(CLOCK_MONOTONIC, &over);
    regex_t ignored;
    bool ignores = real->ignore != NULL && regcomp(&ignored, real->ignore, REG_EXTENDED) == 0;
    for (int r = 0; r < real->ranks; r++) {
        started = started || real_code(keeper, r) >= 0;
    }
    bool whole = simulated != NULL && ls_spmd_finding_count(simulated) == 0;
    for (int r = 0; started && r < real->ranks && differ < RANKS_TOLD; r++) {
        bool same = same_code(&text, keeper, simulated, whole, r);
        same = same_output(&text, printed, keeper, r, ignores ? &ignored : NULL, &lines) && same;
        differ += same ? 0 : 1;
    }
    if (ignores) {
        regfree(&ignored);
    }
    if (!ended) {
        begin(&text);
        ls_text_printf(&text, "under MPICH it has not ended in %g s", real->deadline_seconds);
    } else if (!started) {
        ls_text_printf(&text, "mpiexec has started no rank of %s", real->program);
    } else if (differ == 0) {
        cli_note("%d rank%s print%s the same %ld lines as under MPICH, and exit alike", real->ranks,
                 real->ranks == 1 ? "" : "s", real->ranks == 1 ? "s" : "", lines);
    }
    const char *said = ls_text_string(&text);
    ls_case_result row = {
        .name = real->program,
        .file = real->program,
        .backend = "sim",
        .real = "mpi",
        .pass = ended && started && differ == 0,
        .class_ =
            ended && started ? (differ == 0 ? LS_CLASS_BIT_EXACT : LS_CLASS_WRONG) : LS_CLASS_ERROR,
        .environment = ended && !started,
        .seconds =
            (double)(over.tv_sec - begun.tv_sec) + 1e-9 * (double)(over.tv_nsec - begun.tv_nsec),
        .error = ls_arena_strdup(results->arena, said),
    };
    row.error = row.pass ? NULL : row.error;
    ls_text_free(&text);
    int status = ls_results_add(results, &row);
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}
