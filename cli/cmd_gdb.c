// lockstep gdb [GDB OPTIONS] FILE, lockstep gdb [GDB OPTIONS] -- PROGRAM [ARGUMENTS]: gdb with the
// extension loaded.
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/core.h"
#include "cli/debugger.h"

// gdb's options whose value is the next word, without their dashes.
static const char *const with_value[] = {"ex",
                                         "eval-command",
                                         "iex",
                                         "init-eval-command",
                                         "eix",
                                         "eiex",
                                         "x",
                                         "ix",
                                         "command",
                                         "s",
                                         "init-command",
                                         "symbols",
                                         "e",
                                         "exec",
                                         "se",
                                         "c",
                                         "d",
                                         "core",
                                         "cd",
                                         "directory",
                                         "tty",
                                         "b",
                                         "i",
                                         "l",
                                         "interpreter",
                                         "p",
                                         "pid",
                                         "data-directory"};

static bool takes_value(const char *word) {
    const char *name = word + strspn(word, "-");
    for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++) {
        if (strcmp(name, with_value[i]) == 0) {
            return true;
        }
    }
    return false;
}

// Takes the one file out of the words before "--"; what is left are options of gdb's. Returns their
// number, *file NULL: there is none; -1: there are several.
static int take_file(const char **file, const char **words, int count) {
    int kept = 0;
    *file = NULL;
    for (int i = 0; i < count; i++) {
        bool option = words[i][0] == '-';
        if (!option && *file != NULL) {
            return -1;
        }
        if (!option) {
            *file = words[i];
            continue;
        }
        words[kept++] = words[i];
        if (takes_value(words[i]) && i + 1 < count) {
            words[kept++] = words[++i];
        }
    }
    return kept;
}

// The word before the folder that `--core` of a run has made; -1: none, gdb's own --core names a
// file.
static int kept_at(const cli_args *args) {
    for (int i = 0; i + 1 < args->count; i++) {
        const char *name = args->values[i] + strspn(args->values[i], "-");
        char index[PATH_MAX];
        (void)snprintf(index, sizeof index, "%s/core.json", args->values[i + 1]);
        if (name != args->values[i] && strcmp(name, "core") == 0 && access(index, R_OK) == 0) {
            return i;
        }
    }
    return -1;
}

// A post-mortem of Python ranks, or core files: gdb's other options go before them.
static int open_kept(const cli_args *args, int at) {
    const char *folder = args->values[at + 1];
    char pattern[PATH_MAX], command[PATH_MAX + 16];
    (void)snprintf(pattern, sizeof pattern, "%s/*.core", folder);
    glob_t found;
    bool cores = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    if (!cores) {
        const char *const face[] = {"postmortem", folder, NULL};
        return cli_python_debugger(face, false);
    }
    (void)snprintf(command, sizeof command, "open-cores %s", folder);
    const char *const commands[] = {command};
    memmove((void *)(args->values + at), (const void *)(args->values + at + 2),
            (size_t)(args->count - at - 2) * sizeof *args->values);
    return cli_gdb_exec(commands, 1, args->values, args->count - 2, NULL, 0);
}

static int run(const cli_args *args) {
    if (args->count == 5 && strcmp(args->values[0], CLI_CORE_WRITER) == 0) {
        return cli_core_write(args->values + 1);
    }
    int kept = kept_at(args);
    if (kept >= 0) {
        return open_kept(args, kept);
    }
    int before = args->before_dashes < 0 ? args->count : args->before_dashes;
    const char *file = NULL;
    int options = take_file(&file, args->values, before);
    const char **after = args->values + before;
    int after_count = args->count - before;
    if (options < 0) {
        cli_error("gdb takes one scenario file; a program and its arguments go after '--'");
        return LS_EXIT_USAGE;
    }
    if (file == NULL && after_count == 0) {
        cli_error("gdb needs a scenario file, or a program after '--'");
        return LS_EXIT_USAGE;
    }
    if (file == NULL) {
        return cli_gdb_exec(NULL, 0, args->values, options, after, after_count);
    }
    if (access(file, R_OK) != 0) {
        cli_error("%s: there is no such file, or it cannot be read", file);
        return LS_EXIT_USAGE;
    }
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0) {
        cli_error("lockstep cannot find the path of its own executable");
        return LS_EXIT_ENVIRONMENT;
    }
    own[length] = 0;
    // Words after "--" are options, too: both sets of words are adjacent.
    memmove((void *)(args->values + options), (const void *)after,
            (size_t)after_count * sizeof *after);
    const char *const program[] = {own, "run", file};
    return cli_gdb_exec(NULL, 0, args->values, options + after_count, program, 3);
}

const cli_command cli_cmd_gdb = {
    .name = "gdb",
    .arguments = "[GDB OPTIONS] FILE | [GDB OPTIONS] -- PROGRAM [ARGUMENTS]",
    .arguments_max = -1,
    .passes_options = true,
    .summary = "Debug a scenario or a program in gdb, rank by rank",
    .details = "Starts gdb on `lockstep run FILE`, or on a program linked with lockstep. The "
               "commands ranks, rank, next-collective, goto-collective, catch finding, waitgraph, "
               "shard, diff-ranks and others are loaded; docs/debugging.md shows them. Options of "
               "gdb itself go before the file or the program: -tui, -ex COMMAND, -x FILE, "
               "--interpreter=mi, ... --core DIR opens what --core DIR of exec, mpi or spmd saved. "
               "The environment variable LOCKSTEP_GDB names another gdb.",
    .example = "lockstep gdb scenarios/bugs/collective_under_if_rank_0.yaml",
    .run = run,
};
