// The side of launched processes: announcing a rank and its end, receiving runs, and the reaper,
// which reports the death of its rank.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/child.h"
#include "runner/launch/launch_internal.h"
#include "process/processes.h"

#define PATH_BYTES LS_LAUNCH_PATH_BYTES

// In a launched process: its reaper's parent; and whether that had ended before, so that the reaper
// was re-parented.
static pid_t launcher;
static bool adopted;
static int runs = -1, said = -1;  // pipes for receiving runs and for reporting their end

static int write_mark(const char *dir, int rank, const char *suffix) {
    ls_text text = {0};
    ls_text_printf(&text, "%ld %ld %ld\n", (long)getpid(), launcher != 0 ? (long)getppid() : 0L,
                   (long)launcher);
    return ls_launch__tell(dir, rank, suffix, &text);
}

int ls_launch_announce(const char *watch_dir, int rank) {
    return write_mark(watch_dir, rank, "pid");
}

int ls_launch_done(const char *watch_dir, int rank) {
    LS_TRY(write_mark(watch_dir, rank, "done"));
    if (said >= 0 && write(said, "", 1) != 1) {
        return LS_FAIL_RANK(LS_ERR_BACKEND, rank, "cannot report that it is done: %s",
                            strerror(errno));
    }
    return LS_OK;
}

// ---- Runs, one after the other ------------------------------------------------------------------
int ls_launch_join(const char *dir, int process) {
    char path[PATH_BYTES];
    if (!ls_launch__mark(path, dir, process, "runs")) {
        return LS_FAIL(LS_ERR_IO, "the path of directory \"%s\" is too long", dir);
    }
    runs = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof path, "%s/" LS_LAUNCH_SAID, dir);
    said = open(path, O_WRONLY | O_CLOEXEC);
    if (runs < 0 || said < 0) {
        return LS_FAIL(LS_ERR_BACKEND, "cannot open the pipes in \"%s\": %s", dir, strerror(errno));
    }
    return LS_OK;
}

bool ls_launch_next(ls_launch_run *out) {
    size_t have = 0;
    while (have < sizeof *out) {
        ssize_t got = read(runs, (char *)out + have, sizeof *out - have);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return true;
}

// ---- Reports of a death -------------------------------------------------------------------------

static void wake(int number) {
    (void)number;  // interrupts waitpid
}

// Whether the reaper's parent is gone. A process closes its files before it disappears; the effects
// of that on the rank are not the rank's own failure.
static bool orphaned(void) {
    ls_process process;
    return getppid() != launcher || !ls_process_read(&process, launcher) || process.ending;
}

// Waits for the rank; *status is its exit status. False: the reaper's parent ended first.
static bool wait_for(pid_t child, int *status) {
    // Without SA_RESTART, so that waitpid returns.
    (void)sigaction(SIGUSR1, &(struct sigaction){.sa_handler = wake}, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGUSR1);
    bool alone = orphaned();
    while (!alone && waitpid(child, status, 0) < 0 && errno == EINTR) {
        alone = orphaned();
    }
    return !alone && !(WIFSIGNALED(*status) && (adopted || orphaned()));
}

void ls_launch_keep(const char *watch_dir) {
    const char *number = getenv("PMI_RANK");
    const char *run = getenv(LS_PROCESSES_VARIABLE);
    launcher = getppid();
    adopted = run != NULL && !ls_processes_has(run, launcher);
    pid_t child = number != NULL ? ls_child_fork(SIGKILL) : -1;
    if (child < 0) {
        launcher = 0;
        return;
    }
    if (child == 0) {
        return;
    }
    // Other processes may end this one when the rank is gone: it must report the death first.
    (void)setpriority(PRIO_PROCESS, 0, -20);
    int status = 0, rank = (int)strtol(number, NULL, 10);
    if (!wait_for(child, &status)) {
        (void)write_mark(watch_dir, rank, "orphaned");
        _exit(127);  // and ends the rank with it
    }
    if (!WIFSIGNALED(status)) {
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    char path[PATH_BYTES];
    FILE *file = ls_launch__mark(path, watch_dir, rank, "died") ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%d\n", WTERMSIG(status));
        (void)fclose(file);
    }
    // Ends this process by the same signal, for mpiexec.
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}
