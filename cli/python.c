// Modules of the Python package, in a process of its interpreter.
#define _XOPEN_SOURCE 700
#include "cli/python.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/exec_report.h"
#include "process/child.h"

static void run_module(const char *interpreter, const char *package, const char *const *words) {
    char path[2 * PATH_MAX];
    const char *before = getenv("PYTHONPATH");
    size_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    const char **all = calloc(count + 3, sizeof *all);
    if (all == NULL) {
        cli_error("no memory");
        return;
    }
    all[0] = interpreter;
    all[1] = "-m";
    for (size_t i = 0; i < count; i++) {
        all[2 + i] = words[i];
    }
    // The package is the folder above its hook.
    (void)snprintf(path, sizeof path, "%s/../..%s%s", package, before != NULL ? ":" : "",
                   before != NULL ? before : "");
    (void)setenv("PYTHONPATH", path, 1);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)execvp(interpreter, (char *const *)all);
    cli_error("'%s' cannot be run; name an interpreter with --python", interpreter);
}

int cli_python_run(const char *interpreter, const char *const *words) {
    char package[PATH_MAX];
    if (!cli_exec_find_python(package, sizeof package)) {
        cli_error("the Python package is not beside this program, nor where it is installed");
        return -1;
    }
    interpreter = interpreter != NULL ? interpreter : "python3";
    (void)fflush(NULL);
    const pid_t child = ls_child_fork(SIGKILL);
    if (child < 0) {
        cli_error("cannot start a process for %s", interpreter);
        return -1;
    }
    if (child == 0) {
        run_module(interpreter, package, words);
        _exit(127);
    }
    int how = 0;
    ls_child_wait(child, &how);
    if (WIFEXITED(how) && WEXITSTATUS(how) != 127) {
        return WEXITSTATUS(how);
    }
    if (!WIFEXITED(how)) {
        cli_error("signal %d ended %s -m %s", WTERMSIG(how), interpreter, words[0]);
    }
    return -1;
}
