// See debugger.h.
#define _GNU_SOURCE
#include "cli/debugger.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/exec_report.h"
#include "cli/scenarios.h"
#include "collectives/hooks.h"
#include "exec/wire.h"

static struct {
    int argc;
    char **argv;
} started;

void cli_debugger_remember(int argc, char **argv) {
    started.argc = argc;
    started.argv = argv;
}

// The extension beside the program (build tree), or where it is installed. NULL: neither.
static const char *find_extension(char *out, size_t out_bytes) {
    const char *folder = cli_program_dir();
    int length = snprintf(out, out_bytes, "%s/lockstep-gdb.py", folder);
    if (length > 0 && (size_t)length < out_bytes && access(out, R_OK) == 0) {
        return out;
    }
    length = snprintf(out, out_bytes, "%s/../share/lockstep/gdb/lockstep-gdb.py", folder);
    return length > 0 && (size_t)length < out_bytes && access(out, R_OK) == 0 ? out : NULL;
}

int cli_gdb_exec(const char *const *commands, int command_count, const char *const *options,
                 int option_count, const char *const *argv, int argc) {
    char path[PATH_MAX], source[PATH_MAX + 16], safe[PATH_MAX + 32];
    if (find_extension(path, sizeof path) == NULL) {
        cli_error("the gdb extension lockstep-gdb.py is neither beside the program nor installed");
        return LS_EXIT_ENVIRONMENT;
    }
    (void)snprintf(source, sizeof source, "source %s", path);
    *strrchr(path, '/') = 0;
    (void)snprintf(safe, sizeof safe, "add-auto-load-safe-path %s", path);
    size_t room = (size_t)(10 + 2 * command_count + option_count + argc);
    const char **words = calloc(room, sizeof *words);
    if (words == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "cannot start gdb"));
    }
    size_t count = 0;
    const char *gdb = getenv("LOCKSTEP_GDB");
    words[count++] = gdb != NULL && gdb[0] != 0 ? gdb : "gdb";
    words[count++] = "-q";
    words[count++] = "-iex";
    words[count++] = safe;
    words[count++] = "-iex";
    words[count++] = source;
    words[count++] = "-iex";  // programs for MPI are loaded by the run
    words[count++] = "set breakpoint pending on";
    for (int i = 0; i < command_count; i++) {
        words[count++] = "-ex";
        words[count++] = commands[i];
    }
    for (int i = 0; i < option_count; i++) {
        words[count++] = options[i];
    }
    if (argc > 0) {
        words[count++] = "--args";
    }
    for (int i = 0; i < argc; i++) {
        words[count++] = argv[i];
    }
    LS_ASSERT(count < room);
    // A core file has all 64 MiB that each arena of malloc reserves, and ranks take turns.
    (void)setenv("MALLOC_ARENA_MAX", "1", 0);
    (void)fflush(NULL);
    // execvp does not write to the words; its type is older than const.
    (void)execvp(words[0], (char *const *)(uintptr_t)words);
    cli_error("cannot start %s: %s; Debian and Ubuntu: apt-get install gdb", words[0],
              strerror(errno));
    free(words);
    return LS_EXIT_ENVIRONMENT;
}

const char *cli_debugger_own_path(void) {
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) {
        return started.argv[0];
    }
    path[length] = 0;
    return path;
}

int cli_gdb_exec_self(const char *const *commands, int command_count, const char *const *without,
                      int count) {
    const char **argv = calloc((size_t)started.argc + 1, sizeof *argv);
    if (argv == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "cannot start gdb"));
    }
    int kept = 0;
    argv[kept++] = cli_debugger_own_path();
    bool words = false;  // behind "--" they are the program's
    for (int i = 1; i < started.argc; i++) {
        bool keep = true;
        words = words || strcmp(started.argv[i], "--") == 0;
        for (int w = 0; w < count && !words; w++) {
            keep = keep && strcmp(started.argv[i], without[w]) != 0;
        }
        if (keep) {
            argv[kept++] = started.argv[i];
        }
    }
    int code = cli_gdb_exec(commands, command_count, NULL, 0, argv, kept);
    free(argv);
    return code;
}

int cli_gdb_ranks(int ranks, bool others) {
    static const char *const commands[] = {"start-ranks"}, *const without[] = {"--gdb"};
    if (others || ranks == 0) {
        cli_error(others ? "--gdb excludes --debug, --core, --observe, --compare and --start"
                         : "--gdb requires -n RANKS: it does not follow a launcher");
        return LS_EXIT_USAGE;
    }
    return cli_gdb_exec_self(commands, 1, without, 1);
}

// The Python that runs the debugger's faces.
static const char *python_of(void) {
    const char *named = getenv("LOCKSTEP_PYTHON");
    return named != NULL && named[0] != 0 ? named : "python3";
}

int cli_python_debugger(const char *const *face, bool again) {
    char hook[PATH_MAX], package[PATH_MAX + 16];
    if (again && getenv(LS_WIRE_DEBUGGER) != NULL) {
        return LS_EXIT_OK;
    }
    if (!cli_exec_find_python(hook, sizeof hook)) {
        cli_error("lockstep's Python package is neither beside this program nor installed");
        return LS_EXIT_ENVIRONMENT;
    }
    (void)snprintf(package, sizeof package, "%s/../debugger", hook);
    const char **words = calloc((size_t)started.argc + 8, sizeof *words);
    if (words == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "cannot start the debugger"));
    }
    size_t count = 0;
    words[count++] = python_of();
    words[count++] = package;
    for (; *face != NULL && count < 6; face++) {
        words[count++] = *face;
    }
    if (again) {
        words[count++] = cli_debugger_own_path();
    }
    for (int i = 1; again && i < started.argc; i++) {
        words[count++] = started.argv[i];
    }
    (void)fflush(NULL);
    (void)execvp(words[0], (char *const *)(uintptr_t)words);
    cli_error("cannot start %s, which the debugger needs: %s", words[0], strerror(errno));
    free(words);
    return LS_EXIT_ENVIRONMENT;
}

int cli_python_debug(bool debug, const char *core, bool elsewhere) {
    if (elsewhere) {
        cli_error("--%s excludes --observe and --compare: the time-outs of other libraries end a "
                  "stopped run",
                  debug ? "debug" : "core");
        return LS_EXIT_USAGE;
    }
    if (debug && core != NULL) {
        cli_error("--debug and --core exclude each other");
        return LS_EXIT_USAGE;
    }
    if (core != NULL && getenv(LS_WIRE_DEBUGGER) == NULL && access(core, F_OK) == 0) {
        cli_error("--core %s: it exists; name a new folder", core);
        return LS_EXIT_USAGE;
    }
    const char *const face[] = {debug ? "prompt" : "core", core, NULL};
    return cli_python_debugger(face, true);
}

// The process that traces this thread; 0: none. A debugger attaches to one thread after the other:
// by the time it has this one, and lets it run again, it has them all and its breakpoints are set.
long cli_debugger_has(void) {
    FILE *status = fopen("/proc/thread-self/status", "r");
    char line[256];
    long pid = 0;
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "TracerPid:", 10) == 0) {
            pid = strtol(line + 10, NULL, 10);
        }
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return pid;
}

void cli_debugger_wait(void) {
    static bool waited;
    if (waited) {
        return;
    }
    waited = true;
    char path[PATH_MAX] = "";
    const char *extension = find_extension(path, sizeof path);
    fprintf(stderr, "lockstep: process %ld waits for a debugger: gdb -p %ld%s%s%s\n",
            (long)getpid(), (long)getpid(), extension != NULL ? " -iex 'source " : "",
            extension != NULL ? extension : "", extension != NULL ? "'" : "");
    (void)fflush(stderr);
    while (cli_debugger_has() == 0) {
        ls_time_sleep(0.05);
    }
}

int cli_stop(const cli_stop_options *options, const char *name, const char *const *catches,
             int count) {
    if (options->wait && !options->stop) {
        cli_debugger_wait();
    } else if (options->wait) {
        ls_gdb_before_stop = cli_debugger_wait;
    } else if (options->stop) {
        char option[64];
        (void)snprintf(option, sizeof option, "--%s", name);
        const char *commands[4] = {NULL};
        LS_ASSERT(count >= 0 && (size_t)count < sizeof commands / sizeof *commands);
        for (int i = 0; i < count; i++) {
            commands[i] = catches[i];
        }
        commands[count] = "run";
        const char *const without[] = {option};
        return cli_gdb_exec_self(commands, count + 1, without, 1);
    }
    return LS_EXIT_OK;
}
