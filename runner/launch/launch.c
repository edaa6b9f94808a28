// Runs mpiexec, watches its ranks, and cleans up after them. Linux: pidfds tell which rank died
// first (mpiexec kills the others right after), and the parent-death signal takes mpiexec down with
// us.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner/launch/launch_internal.h"
#include "runner/launch/processes.h"

#define POLL_MS          20
#define POLL_STARTING_MS 2  // until every rank has said that it lives
#define PATH_BYTES       LS_LAUNCH_PATH_BYTES

double ls_launch__now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Of a launched process: what started the one that keeps it; and whether that was gone even before,
// so that another's child it is.
static pid_t launcher;
static bool adopted;

static int write_mark(const char *dir, int rank, const char *suffix) {
    char path[PATH_BYTES];
    char temporary[PATH_BYTES + 8];
    if (!ls_launch__mark(path, dir, rank, suffix)) {
        return LS_FAIL(LS_ERR_IO, "the path of directory \"%s\" is too long", dir);
    }
    (void)snprintf(temporary, sizeof temporary, "%s.part", path);
    FILE *file = fopen(temporary, "w");
    if (file == NULL) {
        return LS_FAIL_RANK(ls_status_of_errno(errno), rank, "cannot write \"%s\": %s", path,
                            strerror(errno));
    }
    fprintf(file, "%ld %ld %ld\n", (long)getpid(), launcher != 0 ? (long)getppid() : 0L,
            (long)launcher);
    if (fclose(file) != 0 || rename(temporary, path) != 0) {
        return LS_FAIL_RANK(ls_status_of_errno(errno), rank, "cannot write \"%s\": %s", path,
                            strerror(errno));
    }
    return LS_OK;
}

int ls_launch_announce(const char *watch_dir, int rank) {
    return write_mark(watch_dir, rank, "pid");
}

int ls_launch_done(const char *watch_dir, int rank) {
    return write_mark(watch_dir, rank, "done");
}

static void wake(int number) {
    (void)number;  // waitpid returns
}

// Whether what started this process is gone. It closes its files before it is: what they do to the
// rank is not the rank's doing.
static bool orphaned(void) {
    ls_process process;
    return getppid() != launcher || !ls_process_read(&process, launcher) || process.ending;
}

// Waits for the rank; *status is how it ended. False: what had started it went first.
static bool wait_for(pid_t child, int *status) {
    // Without SA_RESTART: waitpid is to return.
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
    pid_t parent = getpid();
    const char *run = getenv(LS_PROCESSES_VARIABLE);
    launcher = getppid();
    adopted = run != NULL && !ls_processes_has(run, launcher);
    pid_t child = number != NULL ? fork() : -1;
    if (child < 0) {
        launcher = 0;
        return;
    }
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(127);
        }
        return;
    }
    int status = 0, rank = (int)strtol(number, NULL, 10);
    if (!wait_for(child, &status)) {
        (void)write_mark(watch_dir, rank, "orphaned");
        _exit(127);  // and the rank with it
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
    // The same signal ends this process, so that mpiexec sees what happened.
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

// The rank whose keeper says that a signal ended it (the earliest, of several). False: none does.
static bool read_deaths(const ls_watch *watch, ls_launch_result *result) {
    struct timespec first = {0};
    bool any = false;
    for (int r = 0; r < watch->ranks; r++) {
        char path[PATH_BYTES];
        struct stat about;
        int number = 0;
        FILE *file = ls_launch__mark(path, watch->dir, r, "died") ? fopen(path, "r") : NULL;
        if (file == NULL) {
            continue;
        }
        bool read = fstat(fileno(file), &about) == 0 && fscanf(file, "%d", &number) == 1;
        (void)fclose(file);
        bool earlier =
            first.tv_sec == 0 || about.st_mtim.tv_sec < first.tv_sec ||
            (about.st_mtim.tv_sec == first.tv_sec && about.st_mtim.tv_nsec < first.tv_nsec);
        if (read && number > 0 && earlier) {
            first = about.st_mtim;
            result->died_rank = r;
            result->died_signal = number;
            any = true;
        }
    }
    return any;
}

static void read_pid(ls_watched_rank *out, const char *dir, int rank) {
    char path[PATH_BYTES];
    FILE *file = ls_launch__mark(path, dir, rank, "pid") ? fopen(path, "r") : NULL;
    if (file == NULL) {
        return;
    }
    long pid = 0, keeper = 0, started_by = 0;
    if (fscanf(file, "%ld %ld %ld", &pid, &keeper, &started_by) >= 1 && pid > 1) {
        out->pid = (pid_t)pid;
        out->keeper = (pid_t)keeper;
        out->launcher = (pid_t)started_by;
    }
    (void)fclose(file);
}

static bool is_done(const char *dir, int rank) {
    char path[PATH_BYTES];
    return ls_launch__mark(path, dir, rank, "done") && access(path, F_OK) == 0;
}

static int start_child(ls_watch *watch, const char *const *argv) {
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return LS_FAIL(LS_ERR_BACKEND, "cannot make a pipe: %s", strerror(errno));
    }
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        (void)close(pipe_fds[0]);
        (void)close(pipe_fds[1]);
        return LS_FAIL(LS_ERR_BACKEND, "cannot start a process: %s", strerror(errno));
    }
    if (child == 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)setenv(LS_PROCESSES_VARIABLE, watch->dir, 1);
        if (getppid() != parent) {
            _exit(127);
        }
        int null = open("/dev/null", O_RDONLY);
        (void)dup2(null, 0);
        (void)dup2(pipe_fds[1], 1);
        (void)dup2(pipe_fds[1], 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        dprintf(2, "cannot execute %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    (void)setpgid(child, child);
    (void)close(pipe_fds[1]);
    watch->child = child;
    watch->output = pipe_fds[0];
    return LS_OK;
}

// Looks for ranks that have said that they live; whether all have.
static bool find_new_ranks(ls_watch *watch) {
    bool all = true;
    for (int r = 0; r < watch->ranks; r++) {
        ls_watched_rank *rank = &watch->rank[r];
        if (rank->pid == 0) {
            read_pid(rank, watch->dir, r);
            if (rank->pid != 0) {
                rank->fd = (int)syscall(SYS_pidfd_open, rank->pid, 0);
            }
        }
        all = all && rank->pid != 0;
    }
    return all;
}

static void drain_output(ls_watch *watch, ls_text *output) {
    char buffer[4096];
    ssize_t got = read(watch->output, buffer, sizeof buffer);
    if (got > 0) {
        if (output->length + (size_t)got <= LS_LAUNCH_OUTPUT_MAX) {
            ls_text_append(output, buffer, (size_t)got);
        }
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        (void)close(watch->output);
        watch->output = -1;
    }
}

static bool rank_is_gone(const ls_watched_rank *rank, short events) {
    if (rank->fd >= 0) {
        return (events & POLLIN) != 0;
    }
    return kill(rank->pid, 0) != 0 && errno == ESRCH;
}

// Waits a little for output or a death; notes the first rank that died before it was done. Whether
// all ranks have said that they live.
static bool poll_once(ls_watch *watch, struct pollfd *fds, ls_launch_result *result) {
    bool all = find_new_ranks(watch);
    int wait_ms = all ? POLL_MS : POLL_STARTING_MS;
    for (int r = 0; r < watch->ranks; r++) {
        bool live = watch->rank[r].pid != 0 && !watch->rank[r].gone;
        fds[r] = (struct pollfd){.fd = live ? watch->rank[r].fd : -1, .events = POLLIN};
    }
    fds[watch->ranks] = (struct pollfd){.fd = watch->output, .events = POLLIN};
    (void)poll(fds, (nfds_t)watch->ranks + 1, wait_ms);
    for (int r = 0; r < watch->ranks; r++) {
        ls_watched_rank *rank = &watch->rank[r];
        if (rank->pid == 0 || rank->gone || !rank_is_gone(rank, fds[r].revents)) {
            continue;
        }
        rank->gone = true;
        if (result->died_rank == LS_RANK_NONE && !is_done(watch->dir, r)) {
            result->died_rank = r;
        }
    }
    if (fds[watch->ranks].revents != 0) {
        drain_output(watch, &result->output);
    }
    return all;
}

// The signal that mpiexec says ended the first process: "... (signal 9)".
static int signal_in_output(const char *output) {
    const char *at = strstr(output, "EXIT STRING:");
    const char *mark = at != NULL ? strstr(at, "(signal ") : NULL;
    long number = mark != NULL ? strtol(mark + strlen("(signal "), NULL, 10) : 0;
    return number > 0 && number < 65 ? (int)number : 0;
}

// Whether what started a rank's process was gone before that: the ranks may have ended by it.
static bool launcher_is_gone(const ls_watch *watch, const ls_launch_result *result) {
    char path[PATH_BYTES];
    for (int r = 0; r < watch->ranks; r++) {
        const ls_watched_rank *rank = &watch->rank[r];
        ls_process keeper;
        bool lost = rank->keeper != 0 && ls_process_read(&keeper, rank->keeper) && !keeper.ending &&
                    keeper.parent != rank->launcher;
        lost =
            lost || (ls_launch__mark(path, watch->dir, r, "orphaned") && access(path, F_OK) == 0);
        if (lost && strstr(ls_text_string(&result->output), "BAD TERMINATION") == NULL) {
            return true;
        }
    }
    return false;
}

// How mpiexec ended, or the one process of all ranks.
static void note_end(ls_watch *watch, ls_launch_result *result, int status) {
    struct pollfd output = {.fd = watch->output, .events = POLLIN};
    while (watch->output >= 0 && poll(&output, 1, 0) > 0) {
        drain_output(watch, &result->output);  // its last words
    }
    (void)find_new_ranks(watch);
    bool of_ranks = false;
    for (int r = 0; r < watch->ranks; r++) {
        of_ranks = of_ranks || watch->rank[r].pid == watch->child;
    }
    result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    watch->killed = WIFSIGNALED(status) && !of_ranks;
    result->launcher_died =
        watch->killed || (result->exit_code != 0 && launcher_is_gone(watch, result));
    watch->child = 0;
}

// Ends what is left of the run.
static void end_everything(ls_watch *watch) {
    if (watch->child != 0) {
        (void)kill(-watch->child, SIGKILL);
        while (waitpid(watch->child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    ls_processes_end(watch->dir);
}

// Which rank died, if one did, and of what.
static void note_deaths(const ls_watch *watch, ls_launch_result *result) {
    for (int r = 0; r < watch->ranks; r++) {
        result->started += watch->rank[r].pid != 0 ? 1 : 0;
    }
    if (result->died_rank != LS_RANK_NONE) {
        int of_output = signal_in_output(ls_text_string(&result->output));
        int of_code = result->exit_code - 128;  // the ranks' one process, or mpiexec's word
        result->died_signal = of_output != 0                ? of_output
                              : of_code > 0 && of_code < 65 ? of_code
                                                            : 0;
    }
    // A rank's keeper knows better; but a launcher that is killed takes ranks with it.
    if (read_deaths(watch, result) && !watch->killed) {
        result->launcher_died = false;
    }
    if (result->launcher_died) {
        result->died_rank = LS_RANK_NONE;
        result->died_signal = 0;
    }
    result->died_planted = result->died_rank != LS_RANK_NONE &&
                           ls_launch__place(watch->dir, result->died_rank).state == LS_PLACE_DIED;
}

static void watch_until_end(ls_watch *watch, struct pollfd *fds, ls_launch_result *result,
                            double deadline_seconds) {
    double start = ls_launch__now();
    // mpiexec ends the other ranks within milliseconds of a death: to see which came first, this
    // process must run at once when it wakes. Where that is not allowed nothing changes.
    int nice_before = getpriority(PRIO_PROCESS, 0);
    (void)setpriority(PRIO_PROCESS, 0, -20);
    bool running = true;
    result->exit_code = -1;
    while (running) {
        bool all = poll_once(watch, fds, result);
        int status = 0;
        if (waitpid(watch->child, &status, WNOHANG) == watch->child) {
            note_end(watch, result, status);
            running = false;
        } else if (all && ls_launch__hangs(watch)) {
            result->hung = true;
            running = false;
        } else if (ls_launch__now() - start > deadline_seconds ||
                   (!all && ls_launch__never_starts(watch))) {
            result->timed_out = true;
            ls_launch__see(&result->seen, watch);
            running = false;
        }
    }
    end_everything(watch);
    double drained_by = ls_launch__now() + 1.0;
    while (watch->output >= 0 && ls_launch__now() < drained_by) {
        (void)poll_once(watch, fds, result);
    }
    (void)setpriority(PRIO_PROCESS, 0, nice_before);
    result->seconds = ls_launch__now() - start;
}

static int run(ls_launch_result *out, ls_watch *watch, const char *const *argv,
               double deadline_seconds) {
    size_t ranks = (size_t)watch->ranks;
    struct pollfd *fds = calloc(ranks + 1, sizeof *fds);
    if (fds == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot watch %d ranks", watch->ranks);
    }
    int status = start_child(watch, argv);
    if (status == LS_OK) {
        watch_until_end(watch, fds, out, deadline_seconds);
        note_deaths(watch, out);
    }
    for (size_t r = 0; r < ranks; r++) {
        if (watch->rank[r].fd >= 0) {
            (void)close(watch->rank[r].fd);
        }
    }
    if (watch->output >= 0) {
        (void)close(watch->output);
    }
    free(fds);
    return status;
}

int ls_launch(ls_launch_result *out, const char *const *argv, int ranks, const char *watch_dir,
              double deadline_seconds, const ls_launch_hang *hang) {
    LS_ASSERT(ranks >= 1 && argv[0] != NULL && deadline_seconds > 0);
    *out = (ls_launch_result){.died_rank = LS_RANK_NONE};
    char dir[PATH_MAX];
    if (realpath(watch_dir, dir) == NULL) {
        return LS_FAIL(LS_ERR_BACKEND, "cannot watch \"%s\": %s", watch_dir, strerror(errno));
    }
    ls_watch watch = {.dir = dir, .ranks = ranks, .output = -1, .hang = hang};
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)ranks, sizeof *watch.rank));
    watch.rank = memory;
    for (int r = 0; r < ranks; r++) {
        watch.rank[r].fd = -1;
    }
    int status = run(out, &watch, argv, deadline_seconds);
    ls_free(watch.rank, (size_t)ranks, sizeof *watch.rank);
    return status;
}

void ls_launch_result_free(ls_launch_result *result) {
    ls_text_free(&result->output);
    ls_text_free(&result->seen);
}
