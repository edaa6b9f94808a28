// Runs mpiexec, watches its ranks, and cleans up after them. Linux: pidfds tell which rank died
// first (mpiexec kills the others right after), and the parent-death signal takes mpiexec down with
// us.
#define _GNU_SOURCE
#include "scenarios/runner/launch.h"

#include <errno.h>
#include <fcntl.h>
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

#include "scenarios/runner/launch_internal.h"

#define POLL_MS          20
#define POLL_STARTING_MS 2  // until every rank has said that it lives
#define PATH_BYTES       LS_LAUNCH_PATH_BYTES

struct watched_rank {
    pid_t pid;  // 0: not announced yet
    int fd;     // its pidfd, or -1
    bool gone;  // the process has ended
};

struct watch {
    const char *dir;
    int ranks;
    struct watched_rank *rank;
    int output;   // read end of the pipe; -1 at end of file
    pid_t child;  // mpiexec
};

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int write_mark(const char *dir, int rank, const char *suffix) {
    char path[PATH_BYTES];
    char temporary[PATH_BYTES + 8];
    if (!ls_launch__mark(path, dir, rank, suffix)) {
        return LS_FAIL(LS_ERR_IO, "the path of directory \"%s\" is too long", dir);
    }
    (void)snprintf(temporary, sizeof temporary, "%s.part", path);
    FILE *file = fopen(temporary, "w");
    if (file == NULL) {
        return LS_FAIL_RANK(LS_ERR_IO, rank, "cannot write \"%s\": %s", path, strerror(errno));
    }
    fprintf(file, "%ld\n", (long)getpid());
    if (fclose(file) != 0 || rename(temporary, path) != 0) {
        return LS_FAIL_RANK(LS_ERR_IO, rank, "cannot write \"%s\": %s", path, strerror(errno));
    }
    return LS_OK;
}

int ls_launch_announce(const char *watch_dir, int rank) {
    return write_mark(watch_dir, rank, "pid");
}

int ls_launch_done(const char *watch_dir, int rank) {
    return write_mark(watch_dir, rank, "done");
}

void ls_launch_keep(const char *watch_dir) {
    const char *number = getenv("PMI_RANK");
    pid_t parent = getpid();
    pid_t child = number != NULL ? fork() : -1;
    if (child < 0) {
        return;
    }
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(127);
        }
        return;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFSIGNALED(status)) {
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    char path[PATH_BYTES];
    int rank = (int)strtol(number, NULL, 10);
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

// The rank whose keeper says that a signal ended it (the earliest, of several).
static void read_deaths(const struct watch *watch, ls_launch_result *result) {
    struct timespec first = {0};
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
        }
    }
}

static pid_t read_pid(const char *dir, int rank) {
    char path[PATH_BYTES];
    if (!ls_launch__mark(path, dir, rank, "pid")) {
        return 0;
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    long pid = 0;
    if (fscanf(file, "%ld", &pid) != 1 || pid <= 1) {
        pid = 0;
    }
    (void)fclose(file);
    return (pid_t)pid;
}

static bool is_done(const char *dir, int rank) {
    char path[PATH_BYTES];
    return ls_launch__mark(path, dir, rank, "done") && access(path, F_OK) == 0;
}

static int start_child(struct watch *watch, const char *const *argv) {
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
static bool find_new_ranks(struct watch *watch) {
    bool all = true;
    for (int r = 0; r < watch->ranks; r++) {
        struct watched_rank *rank = &watch->rank[r];
        if (rank->pid == 0) {
            rank->pid = read_pid(watch->dir, r);
            if (rank->pid != 0) {
                rank->fd = (int)syscall(SYS_pidfd_open, rank->pid, 0);
            }
        }
        all = all && rank->pid != 0;
    }
    return all;
}

static void drain_output(struct watch *watch, ls_text *output) {
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

static bool rank_is_gone(const struct watched_rank *rank, short events) {
    if (rank->fd >= 0) {
        return (events & POLLIN) != 0;
    }
    return kill(rank->pid, 0) != 0 && errno == ESRCH;
}

// Waits a little for output or a death; notes the first rank that died before it was done.
static void poll_once(struct watch *watch, struct pollfd *fds, ls_launch_result *result) {
    int wait_ms = find_new_ranks(watch) ? POLL_MS : POLL_STARTING_MS;
    for (int r = 0; r < watch->ranks; r++) {
        bool live = watch->rank[r].pid != 0 && !watch->rank[r].gone;
        fds[r] = (struct pollfd){.fd = live ? watch->rank[r].fd : -1, .events = POLLIN};
    }
    fds[watch->ranks] = (struct pollfd){.fd = watch->output, .events = POLLIN};
    (void)poll(fds, (nfds_t)watch->ranks + 1, wait_ms);
    for (int r = 0; r < watch->ranks; r++) {
        struct watched_rank *rank = &watch->rank[r];
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
}

// The signal that mpiexec says ended the first process: "... (signal 9)".
static int signal_in_output(const char *output) {
    const char *at = strstr(output, "EXIT STRING:");
    const char *mark = at != NULL ? strstr(at, "(signal ") : NULL;
    long number = mark != NULL ? strtol(mark + strlen("(signal "), NULL, 10) : 0;
    return number > 0 && number < 65 ? (int)number : 0;
}

static void end_everything(struct watch *watch) {
    (void)kill(-watch->child, SIGKILL);
    (void)find_new_ranks(watch);
    for (int r = 0; r < watch->ranks; r++) {
        struct watched_rank *rank = &watch->rank[r];
        if (rank->pid == 0 || rank->gone) {
            continue;
        }
        if (rank->fd >= 0) {
            (void)syscall(SYS_pidfd_send_signal, rank->fd, SIGKILL, NULL, 0);
        } else {
            (void)kill(rank->pid, SIGKILL);
        }
    }
}

static void watch_until_end(struct watch *watch, struct pollfd *fds, ls_launch_result *result,
                            double deadline_seconds) {
    double start = now_seconds();
    // mpiexec ends the other ranks within milliseconds of a death: to see which came first, this
    // process must run at once when it wakes. Where that is not allowed nothing changes.
    int nice_before = getpriority(PRIO_PROCESS, 0);
    (void)setpriority(PRIO_PROCESS, 0, -20);
    bool running = true;
    result->exit_code = -1;
    while (running) {
        poll_once(watch, fds, result);
        int status = 0;
        pid_t ended = waitpid(watch->child, &status, WNOHANG);
        if (ended == watch->child) {
            result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            running = false;
        } else if (now_seconds() - start > deadline_seconds) {
            result->timed_out = true;
            end_everything(watch);
            (void)waitpid(watch->child, &status, 0);
            running = false;
        }
    }
    end_everything(watch);
    double drained_by = now_seconds() + 1.0;
    while (watch->output >= 0 && now_seconds() < drained_by) {
        poll_once(watch, fds, result);
    }
    (void)setpriority(PRIO_PROCESS, 0, nice_before);
    result->seconds = now_seconds() - start;
}

int ls_launch(ls_launch_result *out, const char *const *argv, int ranks, const char *watch_dir,
              double deadline_seconds) {
    LS_ASSERT(ranks >= 1 && argv[0] != NULL && deadline_seconds > 0);
    *out = (ls_launch_result){.died_rank = LS_RANK_NONE};
    struct watch watch = {.dir = watch_dir, .ranks = ranks, .output = -1};
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)ranks, sizeof *watch.rank));
    watch.rank = memory;
    for (int r = 0; r < ranks; r++) {
        watch.rank[r].fd = -1;
    }
    struct pollfd *fds = calloc((size_t)ranks + 1, sizeof *fds);
    int status = fds == NULL ? LS_FAIL(LS_ERR_MEMORY, "cannot watch %d ranks", ranks) : LS_OK;
    if (status == LS_OK) {
        status = start_child(&watch, argv);
    }
    if (status == LS_OK) {
        watch_until_end(&watch, fds, out, deadline_seconds);
        out->died_signal =
            out->died_rank != LS_RANK_NONE ? signal_in_output(ls_text_string(&out->output)) : 0;
        if (out->died_rank != LS_RANK_NONE && out->died_signal == 0 && out->exit_code > 128) {
            out->died_signal = out->exit_code - 128;  // the ranks' one process, or mpiexec's word
        }
        read_deaths(&watch, out);
    }
    for (int r = 0; r < ranks; r++) {
        if (watch.rank[r].fd >= 0) {
            (void)close(watch.rank[r].fd);
        }
    }
    if (watch.output >= 0) {
        (void)close(watch.output);
    }
    free(fds);
    ls_free(NULL, watch.rank, (size_t)ranks, sizeof *watch.rank);
    return status;
}

void ls_launch_result_free(ls_launch_result *result) {
    ls_text_free(&result->output);
}
