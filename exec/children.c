// The processes that the coordinator starts: their environment, and how they end.
#define _GNU_SOURCE  // pipe2
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/internal.h"
#include "process/child.h"
#include "process/processes.h"

bool ls_exec__stays(const ls_exec_options *options) {
    return options->listen != NULL || options->join != NULL;
}

// out: for a process that has been forked; NULL: in this process, which becomes the program.
static void set(ls_text *out, const char *name, const char *value) {
    if (out != NULL) {
        ls_text_printf(out, "\n%s=%s", name, value);
    } else {
        (void)setenv(name, value, 1);
    }
}

static void set_number(ls_text *out, const char *name, int value) {
    char text[16];
    (void)snprintf(text, sizeof text, "%d", value);
    set(out, name, text);
}

// Before what a list of paths has already.
static void set_first(ls_text *out, const char *name, const char *path) {
    const char *before = getenv(name);
    char list[8192];
    (void)snprintf(list, sizeof list, "%s%s%s", path, before != NULL && before[0] != 0 ? ":" : "",
                   before != NULL ? before : "");
    set(out, name, list);
}

// Behind what a list of words has already.
static void add_word(ls_text *out, const char *name, const char *word) {
    const char *before = getenv(name);
    char list[8192];
    (void)snprintf(list, sizeof list, "%s%s%s", before != NULL ? before : "",
                   before != NULL ? " " : "", word);
    set(out, name, list);
}

// The lock of a port, as a name that one process on this machine can have: another command must not
// take the port before rank 0 listens. -1: another command has it.
static int lock_port(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "lockstep-port-%d", port);
    int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (lock >= 0 && bind(lock, (const struct sockaddr *)(const void *)&name, bytes) != 0) {
        (void)close(lock);
        lock = -1;
    }
    return lock;
}

// A port for programs that rendezvous at one, free and not promised to another command. Below the
// kernel's range for connections and ephemeral ports, which could take it before rank 0 listens.
// Programs take the ports behind theirs for a second rendezvous, so commands' ports are apart.
static int free_port(int *lock) {
    enum { FIRST = 15000, COUNT = 1600, APART = 10 };
    for (int i = 0; i < COUNT; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        int port = FIRST + APART * (int)(((long)getpid() + i) % COUNT);
        *lock = lock_port(port);
        address.sin_port = htons((uint16_t)port);
        int made = *lock >= 0 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
        bool free = made >= 0 && bind(made, (const struct sockaddr *)(const void *)&address,
                                      sizeof address) == 0;
        if (made >= 0) {
            (void)close(made);
        }
        if (free) {
            return port;
        }
        if (*lock >= 0) {
            (void)close(*lock);
            *lock = -1;
        }
    }
    return 29500;
}

// The environment of every process of the program. rank < 0: of a launcher.
static void set_environment(ls_text *out, const ls_exec *exec, const char *dir, int rank,
                            int port) {
    const ls_exec_options *options = exec->options;
    set_first(out, "LD_PRELOAD", options->preload);
    if (options->python != NULL) {
        set_first(out, "PYTHONPATH", options->python);
        add_word(out, "PYTEST_ADDOPTS", "-p lockstep_pytest");
    }
    set(out, LS_PROCESSES_VARIABLE, dir);
    set(out, LS_WIRE_SOCKET, exec->socket);
    set(out, LS_WIRE_SIMULATED, options->observe ? "0" : "1");
    bool kept = options->kept != LS_EXEC_KEPT_NOTHING;
    if (options->observe) {
        set(out, LS_WIRE_REAL, options->real != NULL ? options->real : "gloo");
    } else {
        (void)unsetenv(LS_WIRE_REAL);
    }
    set(out, LS_WIRE_STAYS, ls_exec__stays(options) ? "1" : "0");
    set(out, LS_WIRE_PAYLOAD, options->observe && kept ? "1" : "0");
    set(out, LS_WIRE_WATCH, options->watch != NULL ? options->watch : "off");
    if (out == NULL) {
        ls_exec__set_device(options);
    }
    if (rank < 0) {
        return;
    }
    set_number(out, LS_WIRE_RANK, rank);
    set_number(out, LS_WIRE_RANKS, options->processes);
    set_number(out, "RANK", rank);
    set_number(out, "LOCAL_RANK", rank);
    set_number(out, "WORLD_SIZE", options->processes);
    set_number(out, "LOCAL_WORLD_SIZE", options->processes);
    set(out, "MASTER_ADDR", "127.0.0.1");
    set_number(out, "MASTER_PORT", port);
}

_Noreturn static void become(const ls_exec *exec, const char *dir, int rank, int port,
                             const int ends[2]) {
    ls_exec__gdb_child();
    if (ends[0] >= 0) {
        (void)dup2(ends[0], 2);
    }
    if (exec->options->quiet_stdout) {
        (void)dup2(2, 1);
    }
    set_environment(NULL, exec, dir, rank, port);
    if (ends[1] >= 0) {
        (void)fcntl(ends[1], F_SETFD, 0);
        ls_exec__set_starter(exec, ends[1]);
    }
    (void)execvp(exec->options->argv[0], (char *const *)(uintptr_t)exec->options->argv);
    static const char text[] = "lockstep exec: the program cannot be started\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(127);
}

// starter: the socket of a rank that may fork others; -1: it is none.
static int start(ls_exec *exec, const char *dir, int rank, int port, int starter) {
    const bool stays = ls_exec__stays(exec->options);
    int errors[2] = {-1, -1};
    if (!stays && pipe2(errors, O_CLOEXEC) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot create a pipe for rank %d: %s", rank,
                       strerror(errno));
    }
    pid_t child = ls_child_fork(stays ? 0 : SIGKILL);
    if (child == 0) {
        become(exec, dir, exec->options->processes > 0 ? rank : -1, port,
               (const int[]){errors[1], starter});
    }
    if (!stays) {
        (void)close(errors[1]);
        (void)fcntl(errors[0], F_SETFL, O_NONBLOCK);
    }
    exec->children[rank] = (ls_exec_child){.pid = child, .watch = -1, .errors = errors[0]};
    if (child < 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot start a process for rank %d: %s", rank,
                       strerror(errno));
    }
    exec->children[rank].watch = ls_child_open(child);
    return LS_OK;
}

// A forked rank becomes a child of this process when the one that forked it has ended.
static int start_by_forks(ls_exec *exec, const char *dir, int port, int starters) {
    int sockets[2] = {-1, -1}, pair[2], before = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &before);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    int status = LS_OK;
    for (int i = 0; i < starters && status == LS_OK; i++) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
            status = LS_FAIL(LS_ERR_RESOURCE, "cannot create a socket for rank %d: %s", i,
                             strerror(errno));
            continue;
        }
        sockets[i] = pair[0];
        status = start(exec, dir, i, port, pair[1]);
        (void)close(pair[1]);
    }
    status = status == LS_OK ? ls_exec__fork(exec, sockets, starters) : status;
    (void)prctl(PR_SET_CHILD_SUBREAPER, before);
    return status;
}

// Passes on what this command has set in its own environment after the process was forked.
static void set_capture(ls_text *out) {
    static const char *const names[] = {"LOCKSTEP_CAPTURE", "LOCKSTEP_CAPTURE_STEPS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) {
            set(out, names[i], value);
        }
    }
}

static int start_forked(ls_exec *exec, const char *dir, int port) {
    ls_exec_forked forked = {0};
    for (int r = 0; r < exec->child_count && ls_exec__next_forked(&forked); r++) {
        ls_text settings = {0};
        set_environment(&settings, exec, dir, r, port);
        set_capture(&settings);
        int status = ls_exec__adopt(exec, r, &forked, ls_text_string(&settings));
        ls_text_free(&settings);
        LS_TRY(status);
    }
    (void)unsetenv(LS_WIRE_FORKED);
    return LS_OK;
}

int ls_exec__start(ls_exec *exec, const char *dir) {
    int count = exec->options->processes > 0 ? exec->options->processes : 1;
    int port = free_port(&exec->port_lock);
    exec->children = ls_arena_alloc(exec->arena, (size_t)count, sizeof *exec->children);
    LS_TRY(exec->children != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int i = 0; i < count; i++) {
        exec->children[i] = (ls_exec_child){.pid = -1, .watch = -1, .errors = -1};
    }
    exec->child_count = count;
    LS_TRY(start_forked(exec, dir, port));
    int starters = ls_exec__starters(exec);
    if (starters > 0 && exec->forked == 0) {
        LS_TRY(start_by_forks(exec, dir, port, starters));
    }
    for (int i = 0; i < count; i++) {
        if (exec->children[i].pid < 0) {
            LS_TRY(start(exec, dir, i, port, -1));
        }
    }
    return LS_OK;
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
    exec->died = exec->died || (WIFSIGNALED(status) && !exec->injected);
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
