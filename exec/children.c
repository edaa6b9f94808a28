// The processes that the coordinator starts: their environment, what they write to stderr, and how
// they end.
#define _GNU_SOURCE  // pidfd, pipe2
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/internal.h"
#include "process/child.h"
#include "process/processes.h"

#define PARTIAL_SECONDS 0.1  // before a line without an end is passed on

static void set(const char *name, const char *value) {
    (void)setenv(name, value, 1);
}

static void set_number(const char *name, int value) {
    char text[16];
    (void)snprintf(text, sizeof text, "%d", value);
    set(name, text);
}

// Before what a list of paths has already.
static void set_first(const char *name, const char *path) {
    const char *before = getenv(name);
    char list[8192];
    (void)snprintf(list, sizeof list, "%s%s%s", path, before != NULL && before[0] != 0 ? ":" : "",
                   before != NULL ? before : "");
    set(name, list);
}

// Behind what a list of words has already.
static void add_word(const char *name, const char *word) {
    const char *before = getenv(name);
    char list[8192];
    (void)snprintf(list, sizeof list, "%s%s%s", before != NULL ? before : "",
                   before != NULL ? " " : "", word);
    set(name, list);
}

// A port that nobody has now, for programs that meet at one.
static int free_port(void) {
    struct sockaddr_in6_like {
        sa_family_t family;
        unsigned char port[2];
        unsigned char rest[28];
    } address = {.family = AF_INET};
    socklen_t bytes = 16;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 29500;
    if (made >= 0 && bind(made, (const struct sockaddr *)(const void *)&address, 16) == 0 &&
        getsockname(made, (struct sockaddr *)(void *)&address, &bytes) == 0) {
        port = address.port[0] * 256 + address.port[1];
    }
    if (made >= 0) {
        (void)close(made);
    }
    return port;
}

// The environment of every process of the program. rank < 0: of a launcher.
static void set_environment(const ls_exec *exec, const char *dir, int rank, int port) {
    const ls_exec_options *options = exec->options;
    set_first("LD_PRELOAD", options->preload);
    if (options->python != NULL) {
        set_first("PYTHONPATH", options->python);
        add_word("PYTEST_ADDOPTS", "-p lockstep_pytest");
    }
    set(LS_PROCESSES_VARIABLE, dir);
    set(LS_WIRE_SOCKET, exec->socket);
    set(LS_WIRE_SIMULATED, options->observe ? "0" : "1");
    bool kept = options->kept != LS_EXEC_KEPT_NOTHING;
    if (options->observe && options->real != NULL) {
        set(LS_WIRE_REAL, options->real);
    } else {
        (void)unsetenv(LS_WIRE_REAL);
    }
    set(LS_WIRE_PAYLOAD, options->observe && kept ? "1" : "0");
    set(LS_WIRE_WATCH, options->watch != NULL ? options->watch : "off");
    ls_exec__set_device(options);
    if (rank < 0) {
        return;
    }
    set_number(LS_WIRE_RANK, rank);
    set_number(LS_WIRE_RANKS, options->processes);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", options->processes);
    set_number("LOCAL_WORLD_SIZE", options->processes);
    set("MASTER_ADDR", "127.0.0.1");
    set_number("MASTER_PORT", port);
}

_Noreturn static void become(const ls_exec *exec, const char *dir, int rank, int port, int errors) {
    (void)dup2(errors, 2);
    if (exec->options->quiet_stdout) {
        (void)dup2(2, 1);
    }
    set_environment(exec, dir, rank, port);
    (void)execvp(exec->options->argv[0], (char *const *)(uintptr_t)exec->options->argv);
    static const char text[] = "lockstep exec: the program cannot be started\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(127);
}

int ls_exec__start(ls_exec *exec, const char *dir) {
    int count = exec->options->processes > 0 ? exec->options->processes : 1, port = free_port();
    exec->children = ls_arena_alloc(exec->arena, (size_t)count, sizeof *exec->children);
    LS_TRY(exec->children != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int i = 0; i < count; i++) {
        int errors[2];
        if (pipe2(errors, O_CLOEXEC) != 0) {
            return LS_FAIL(LS_ERR_RESOURCE, "no pipe for rank %d: %s", i, strerror(errno));
        }
        pid_t child = ls_child_fork(SIGKILL);
        if (child == 0) {
            become(exec, dir, exec->options->processes > 0 ? i : -1, port, errors[1]);
        }
        (void)close(errors[1]);
        (void)fcntl(errors[0], F_SETFL, O_NONBLOCK);
        exec->children[i] = (ls_exec_child){.pid = child, .errors = errors[0]};
        if (child < 0) {
            (void)close(errors[0]);
            return LS_FAIL(LS_ERR_RESOURCE, "no process for rank %d: %s", i, strerror(errno));
        }
        exec->children[i].watch = ls_child_open(child);
        exec->child_count = i + 1;
    }
    return LS_OK;
}

// ---- Their stderr -------------------------------------------------------------------------------
static void pass_on(const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t wrote = write(2, text, bytes);
        if (wrote < 0 && errno == EAGAIN) {
            struct pollfd at = {.fd = 2, .events = POLLOUT};
            (void)poll(&at, 1, -1);
        } else if (wrote < 0 && errno != EINTR) {
            return;  // nobody reads it
        }
        text += wrote > 0 ? wrote : 0;
        bytes -= wrote > 0 ? (size_t)wrote : 0;
    }
}

void ls_exec__warn(const char *sentence) {
    char line[512];
    int length = snprintf(line, sizeof line, "lockstep exec: %s\n", sentence);
    pass_on(line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

static void keep_lines(ls_exec_child *child, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        bool ends = text[i] == '\n' || text[i] == '\r';
        if (!ends && child->columns + 1 < sizeof child->line) {
            child->line[child->columns++] = text[i];
        } else if (ends && strspn(child->line, " \t") < child->columns) {
            memcpy(child->last, child->line, sizeof child->last);
        }
        child->columns = ends ? 0 : child->columns;
        child->line[child->columns] = 0;
    }
}

static void flush(ls_exec_child *child, size_t bytes) {
    pass_on(child->text, bytes);
    keep_lines(child, child->text, bytes);
    child->length -= bytes;
    memmove(child->text, child->text + bytes, child->length);
}

void ls_exec__hear(ls_exec_child *child, double now) {
    ssize_t got = 1;
    while (child->errors >= 0 && got > 0) {
        got = read(child->errors, child->text + child->length, sizeof child->text - child->length);
        child->length += got > 0 ? (size_t)got : 0;
        child->heard = got > 0 ? now : child->heard;
        size_t whole = child->length;
        while (whole > 0 && child->text[whole - 1] != '\n') {
            whole -= 1;
        }
        bool late = now - child->heard > PARTIAL_SECONDS || child->length == sizeof child->text;
        bool ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
        flush(child, late || ended ? child->length : whole);
        if (ended) {
            keep_lines(child, "\n", 1);
            (void)close(child->errors);
            child->errors = -1;
        }
    }
}

// ---- Ends ---------------------------------------------------------------------------------------
void ls_exec__reap(ls_exec *exec, ls_exec_child *child, bool block) {
    int status = 0;
    if (child->watch < 0 || waitpid(child->pid, &status, block ? 0 : WNOHANG) != child->pid) {
        return;
    }
    (void)close(child->watch);
    child->watch = -1;
    child->status = status;
    exec->progress = true;
    int rank = (int)(child - exec->children);
    if (exec->over || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        return;
    }
    if (exec->failed_rank < 0 && WIFEXITED(status)) {
        exec->failed_rank = rank;
        exec->failed_code = WEXITSTATUS(status);
    }
    exec->died = exec->died || (WIFSIGNALED(status) && !exec->planted);
}

bool ls_exec__child_status(ls_exec *exec, pid_t pid, int *status) {
    for (int i = 0; i < exec->child_count; i++) {
        if (exec->children[i].pid == pid) {
            ls_exec__reap(exec, &exec->children[i], true);  // its end was seen
            *status = exec->children[i].status;
            return true;
        }
    }
    return false;
}

int ls_exec__living_children(const ls_exec *exec) {
    int count = 0;
    for (int i = 0; i < exec->child_count; i++) {
        count += exec->children[i].watch >= 0 ? 1 : 0;
    }
    return count;
}

void ls_exec__describe_end(ls_text *out, const ls_exec_child *child) {
    int status = child->status;
    if (WIFSIGNALED(status)) {
        ls_text_printf(out, "was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    } else {
        ls_text_printf(out, "ended with exit code %d", WEXITSTATUS(status));
    }
}

void ls_exec__describe_stderr(ls_text *out, const ls_exec_child *child, int rank) {
    if (child->last[0] != 0 && child->status != 0) {
        ls_text_printf(out, "the last line that rank %d wrote to stderr: %s\n", rank, child->last);
    }
}

int ls_exec__ended_child(const ls_exec *exec, ls_text *out, bool *died) {
    int first = -1;
    *died = false;
    for (int i = 0; i < exec->child_count && exec->options->processes > 0; i++) {
        const ls_exec_child *child = &exec->children[i];
        if (child->watch >= 0) {
            continue;
        }
        ls_text_printf(out, "the process of rank %d ", i);
        ls_exec__describe_end(out, child);
        ls_text_puts(out, "\n");
        ls_exec__describe_stderr(out, child, i);
        *died = first < 0 ? WIFSIGNALED(child->status) : *died;
        first = first < 0 ? i : first;
    }
    return first;
}
