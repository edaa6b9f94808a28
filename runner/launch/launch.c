// Starts mpiexec, assigns runs to its ranks, watches them, and cleans up. Linux: pidfds show which
// rank died first, since mpiexec kills the others right after; the parent-death signal ends mpiexec
// with this process.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "process/child.h"
#include "runner/launch/launch_internal.h"
#include "process/processes.h"

#define POLL_MS          20
#define POLL_STARTING_MS 2  // until every rank has announced itself
#define PATH_BYTES       LS_LAUNCH_PATH_BYTES

// The rank whose reaper reports a signal, the earliest of several. False: none.
static bool read_deaths(const ls_watch *watch, ls_launch_result *result) {
    struct timespec first = {0};
    for (int r = 0; r < watch->ranks; r++) {
        char path[PATH_BYTES];
        struct stat about;
        int number = 0;
        FILE *file = ls_launch__mark(path, watch->home, r, "died") ? fopen(path, "r") : NULL;
        if (file == NULL) {
            continue;
        }
        bool read = fstat(fileno(file), &about) == 0 && fscanf(file, "%d", &number) == 1;
        (void)fclose(file);
        if (read && number > 0 && ls_launch__earlier(&about.st_mtim, &first)) {
            first = about.st_mtim;
            result->died_rank = r;
            result->died_signal = number;
        }
    }
    result->died_at = first;
    return first.tv_sec != 0;
}

static void read_pid(ls_watched_rank *out, const char *dir, int rank) {
    char path[PATH_BYTES];
    FILE *file = ls_launch__mark(path, dir, rank, "pid") ? fopen(path, "r") : NULL;
    if (file == NULL) {
        return;
    }
    long pid = 0, reaper = 0, started_by = 0;
    if (fscanf(file, "%ld %ld %ld", &pid, &reaper, &started_by) >= 1 && pid > 1) {
        out->pid = (pid_t)pid;
        out->reaper = (pid_t)reaper;
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
    pid_t child = ls_child_fork(SIGTERM);
    if (child < 0) {
        (void)close(pipe_fds[0]);
        (void)close(pipe_fds[1]);
        return LS_FAIL(LS_ERR_BACKEND, "cannot start a process: %s", strerror(errno));
    }
    if (child == 0) {
        (void)setpgid(0, 0);
        (void)setenv(LS_PROCESSES_VARIABLE, watch->home, 1);
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

// Reads the announcements of ranks; returns whether all have announced themselves.
static bool find_new_ranks(ls_watch *watch) {
    bool all = true;
    for (int r = 0; r < watch->ranks; r++) {
        ls_watched_rank *rank = &watch->rank[r];
        if (rank->pid == 0) {
            read_pid(rank, watch->dir, r);
            if (rank->pid != 0) {
                rank->fd = ls_child_open(rank->pid);
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

// Whether every rank has reported its end, as far as this process has read.
static bool all_done(ls_watch *watch) {
    char told[64];
    while (read(watch->said, told, sizeof told) > 0) {
        watch->told = true;
    }
    bool done = watch->told;
    for (int r = 0; done && r < watch->ranks; r++) {
        done = is_done(watch->dir, r);
    }
    return done;
}

// Waits briefly for output, a report or a death; records the first rank that died before it was
// done. Returns whether all ranks have announced themselves.
static bool poll_once(ls_watch *watch, struct pollfd *fds, ls_launch_result *result) {
    bool all = find_new_ranks(watch);
    int wait_ms = all ? POLL_MS : POLL_STARTING_MS;
    for (int r = 0; r < watch->ranks; r++) {
        bool live = watch->rank[r].pid != 0 && !watch->rank[r].gone;
        fds[r] = (struct pollfd){.fd = live ? watch->rank[r].fd : -1, .events = POLLIN};
    }
    fds[watch->ranks] = (struct pollfd){.fd = watch->output, .events = POLLIN};
    fds[watch->ranks + 1] = (struct pollfd){.fd = watch->said, .events = POLLIN};
    (void)poll(fds, (nfds_t)watch->ranks + 2, wait_ms);
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

// The signal that ended the first process, from mpiexec's output: "... (signal 9)".
static int signal_in_output(const char *output) {
    const char *at = strstr(output, "EXIT STRING:");
    const char *mark = at != NULL ? strstr(at, "(signal ") : NULL;
    long number = mark != NULL ? strtol(mark + strlen("(signal "), NULL, 10) : 0;
    return number > 0 && number < 65 ? (int)number : 0;
}

// Whether the parent of a rank's process ended first: the rank may have ended because of that.
static bool launcher_is_gone(const ls_watch *watch, const ls_launch_result *result) {
    char path[PATH_BYTES];
    for (int r = 0; r < watch->ranks; r++) {
        const ls_watched_rank *rank = &watch->rank[r];
        ls_process reaper;
        bool lost = rank->reaper != 0 && ls_process_read(&reaper, rank->reaper) && !reaper.ending &&
                    reaper.parent != rank->launcher;
        lost =
            lost || (ls_launch__mark(path, watch->home, r, "orphaned") && access(path, F_OK) == 0);
        if (lost && strstr(ls_text_string(&result->output), "BAD TERMINATION") == NULL) {
            return true;
        }
    }
    return false;
}

// How mpiexec ended, or the single process of all ranks.
static void note_end(ls_watch *watch, ls_launch_result *result, int status) {
    struct pollfd output = {.fd = watch->output, .events = POLLIN};
    while (watch->output >= 0 && poll(&output, 1, 0) > 0) {
        drain_output(watch, &result->output);  // its last output
    }
    (void)find_new_ranks(watch);
    bool of_ranks = false;
    for (int r = 0; r < watch->ranks; r++) {
        of_ranks = of_ranks || watch->rank[r].pid == watch->child;
    }
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    // If the process through which it starts ranks has ended, mpiexec fails by SIGPIPE.
    const bool fails = signal == SIGPIPE && !of_ranks;
    result->exit_code = fails ? 1 : 128 + signal;
    if (WIFEXITED(status)) {
        result->exit_code = WEXITSTATUS(status);
    }
    watch->killed = signal != 0 && !fails && !of_ranks;
    result->launcher_died =
        watch->killed || (result->exit_code != 0 && launcher_is_gone(watch, result));
    watch->child = 0;
}

// Ends all remaining processes of the run.
static void end_everything(ls_watch *watch) {
    if (watch->child != 0) {
        ls_child_end(watch->child, true, NULL);
    }
    ls_processes_end(watch->home);
}

// The rank that died, if any, and the signal.
static void note_deaths(const ls_watch *watch, ls_launch_result *result) {
    for (int r = 0; r < watch->ranks; r++) {
        result->started += watch->rank[r].pid != 0 ? 1 : 0;
    }
    if (result->died_rank != LS_RANK_NONE) {
        int of_output = signal_in_output(ls_text_string(&result->output));
        int of_code = result->exit_code - 128;  // from the single process of all ranks, or from
                                                // mpiexec's output
        result->died_signal = of_code > 0 && of_code < 65 ? of_code : 0;
        if (of_output != 0) {
            result->died_signal = of_output;
        }
    }
    // A rank's reaper is more reliable; but a launcher that is killed takes its ranks with it.
    if (read_deaths(watch, result) && !watch->killed) {
        result->launcher_died = false;
    }
    if (result->launcher_died) {
        result->died_rank = LS_RANK_NONE;
        result->died_signal = 0;
    }
    result->died_injected = result->died_rank != LS_RANK_NONE &&
                            ls_launch__place(watch->dir, result->died_rank).state == LS_PLACE_DIED;
}

// Watches until the run is done or has failed; in that case ends everything. Returns whether it is
// done.
static bool watch_until_end(ls_watch *watch, struct pollfd *fds, ls_launch_result *result,
                            double deadline_seconds) {
    double start = ls_time_now();
    // mpiexec ends the other ranks within milliseconds of a death. To see which came first, this
    // process must run at once when it wakes. Without the permission for that priority nothing
    // changes.
    int nice_before = getpriority(PRIO_PROCESS, 0);
    (void)setpriority(PRIO_PROCESS, 0, -20);
    bool running = true, done = false;
    result->exit_code = -1;
    while (running) {
        bool all = poll_once(watch, fds, result);
        int status = 0;
        running = false;
        if (ls_child_wait_for(watch->child, &status, 0)) {
            note_end(watch, result, status);
        } else if (all && all_done(watch)) {
            result->exit_code = 0;
            done = true;
        } else if (all && ls_launch__hangs(watch)) {
            result->hung = true;
        } else if (ls_time_now() - start > deadline_seconds ||
                   (!all && ls_launch__never_starts(watch))) {
            result->timed_out = true;
            ls_launch__see(&result->seen, watch);
        } else {
            running = true;
        }
    }
    if (!done) {
        end_everything(watch);
    }
    double drained_by = ls_time_now() + 1.0;
    while (!done && watch->output >= 0 && ls_time_now() < drained_by) {
        (void)poll_once(watch, fds, result);
    }
    (void)setpriority(PRIO_PROCESS, 0, nice_before);
    result->seconds = ls_time_now() - start;
    return done;
}

// ---- Processes that take one run after the other ------------------------------------------------
struct ls_process_set {
    ls_watch watch;
    char home[PATH_MAX];
    int processes;
    int *runs;   // [processes] one for each process, which receives its runs there
    bool ready;  // every process waits for a run
};

static int make_pipe(int *out, const char *path) {
    // Open in both directions: no open blocks, and a write stays in the pipe until it is read.
    *out = mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    return *out >= 0 ? LS_OK
                     : LS_FAIL(ls_status_of_errno(errno), "cannot make \"%s\": %s", path,
                               strerror(errno));
}

static int make_pipes(ls_process_set *set) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/" LS_LAUNCH_SAID, set->home);
    if (length < 0 || (size_t)length >= sizeof path) {
        return LS_FAIL(LS_ERR_IO, "the path of directory \"%s\" is too long", set->home);
    }
    LS_TRY(make_pipe(&set->watch.said, path));
    (void)fcntl(set->watch.said, F_SETFL, O_NONBLOCK);
    for (int p = 0; p < set->processes; p++) {
        if (!ls_launch__mark(path, set->home, p, "runs")) {
            return LS_FAIL(LS_ERR_IO, "the path of directory \"%s\" is too long", set->home);
        }
        LS_TRY(make_pipe(&set->runs[p], path));
    }
    return LS_OK;
}

static void hang_up(ls_process_set *set) {
    for (int p = 0; p < set->processes; p++) {
        if (set->runs[p] >= 0) {
            (void)close(set->runs[p]);
            set->runs[p] = -1;
        }
    }
}

static void set_free(ls_process_set *set) {
    hang_up(set);
    if (set->watch.said >= 0) {
        (void)close(set->watch.said);
    }
    if (set->watch.output >= 0) {
        (void)close(set->watch.output);
    }
    free(set->runs);
    free(set);
}

int ls_process_set_start(ls_process_set **out, const char *const *argv, int processes,
                         const char *home) {
    LS_ASSERT(processes >= 1 && argv[0] != NULL);
    ls_process_set *set = calloc(1, sizeof *set);
    int *runs = calloc((size_t)processes, sizeof *runs);
    if (set == NULL || runs == NULL) {
        free(set);
        free(runs);
        return LS_FAIL(LS_ERR_MEMORY, "cannot start %d processes", processes);
    }
    *set = (ls_process_set){
        .watch = {.home = set->home, .output = -1, .said = -1},
        .processes = processes,
        .runs = runs,
    };
    memset(runs, 0xff, (size_t)processes * sizeof *runs);
    int status = realpath(home, set->home) != NULL
                     ? LS_OK
                     : LS_FAIL(LS_ERR_BACKEND, "cannot watch \"%s\": %s", home, strerror(errno));
    status = status == LS_OK ? make_pipes(set) : status;
    status = status == LS_OK ? start_child(&set->watch, argv) : status;
    if (status != LS_OK) {
        set_free(set);
        return status;
    }
    set->ready = true;
    *out = set;
    return LS_OK;
}

static int tell_processes(const ls_process_set *set, const ls_launch_run *run) {
    for (int p = 0; p < set->processes; p++) {
        // Only one is in the pipe at a time, which has room for more.
        if (write(set->runs[p], run, sizeof *run) != (ssize_t)sizeof *run) {
            return LS_FAIL(LS_ERR_BACKEND, "cannot send a run to process %d: %s", p,
                           strerror(errno));
        }
    }
    return LS_OK;
}

static int watch_run(ls_launch_result *out, ls_process_set *set, const ls_launch_run *run) {
    ls_watch *watch = &set->watch;
    struct pollfd *fds = calloc((size_t)watch->ranks + 2, sizeof *fds);
    if (fds == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot watch %d ranks", watch->ranks);
    }
    int status = tell_processes(set, run);
    if (status == LS_OK) {
        set->ready = watch_until_end(watch, fds, out, run->deadline_seconds);
        note_deaths(watch, out);
    }
    free(fds);
    return status;
}

int ls_process_set_run(ls_launch_result *out, ls_process_set *set, const ls_launch_run *run,
                       int ranks, const ls_launch_hang *hang) {
    LS_ASSERT(set->ready && ranks >= 1 && run->deadline_seconds > 0);
    *out = (ls_launch_result){.died_rank = LS_RANK_NONE};
    ls_watch *watch = &set->watch;
    watch->rank = calloc((size_t)ranks, sizeof *watch->rank);
    if (watch->rank == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot watch %d ranks", ranks);
    }
    watch->dir = run->marks;
    watch->ranks = ranks;
    watch->hang = hang;
    watch->told = false;
    watch->quiet_since = watch->stopped_since = watch->looked = 0;
    for (int r = 0; r < ranks; r++) {
        watch->rank[r].fd = -1;
    }
    set->ready = false;
    int status = watch_run(out, set, run);
    for (int r = 0; r < ranks; r++) {
        if (watch->rank[r].fd >= 0) {
            (void)close(watch->rank[r].fd);
        }
    }
    free(watch->rank);
    watch->rank = NULL;
    watch->ranks = 0;
    return status;
}

bool ls_process_set_ready(const ls_process_set *set) {
    return set->ready;
}

// Waits for processes that have received the end of their runs.
static int wait_for_end(ls_process_set *set, double deadline_seconds) {
    ls_watch *watch = &set->watch;
    ls_text output = {0};
    double start = ls_time_now();
    int how = 0;
    while (!ls_child_wait_for(watch->child, &how, 0)) {
        if (ls_time_now() - start > deadline_seconds) {
            ls_text_free(&output);
            return LS_FAIL(LS_ERR_BACKEND, "processes of a run had not ended %.0f s after it",
                           deadline_seconds);
        }
        struct pollfd fd = {.fd = watch->output, .events = POLLIN};
        if (poll(&fd, 1, POLL_STARTING_MS) > 0) {
            drain_output(watch, &output);
        }
    }
    watch->child = 0;
    int status = LS_OK;
    if (how != 0) {
        status =
            LS_FAIL(LS_ERR_BACKEND, "processes failed after their last run (%s %d):\n%.2000s",
                    WIFEXITED(how) ? "exit code" : "signal",
                    WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how), ls_text_string(&output));
    }
    ls_text_free(&output);
    return status;
}

int ls_process_set_end(ls_process_set *set, double deadline_seconds) {
    hang_up(set);
    int status = set->ready ? wait_for_end(set, deadline_seconds) : LS_OK;
    end_everything(&set->watch);
    set_free(set);
    return status;
}

void ls_launch_result_free(ls_launch_result *result) {
    ls_text_free(&result->output);
    ls_text_free(&result->seen);
}
