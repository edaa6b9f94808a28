// Ranks of a Python program that are forked: the process of rank 0, and that of rank 1, imports
// torch before the program runs, and forks other ranks (python/lockstep/starting.py).
#define _GNU_SOURCE  // pipe2
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/internal.h"
#include "process/child.h"
#include "process/descriptor.h"

#define SETTINGS_BYTES 49152

// ---- The program --------------------------------------------------------------------------------
// A wrapper in another language may change options and the environment, so that only a binary
// counts.
static bool is_binary(const char *path) {
    char magic[4] = "", real[PATH_MAX];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool found = file >= 0 && access(path, X_OK) == 0 && read(file, magic, 4) == 4 &&
                 memcmp(magic, "\177ELF", 4) == 0 && realpath(path, real) != NULL &&
                 strncmp(strrchr(real, '/') + 1, "python3", strlen("python3")) == 0;
    if (file >= 0) {
        (void)close(file);
    }
    return found;
}

static bool is_python(const char *name) {
    const char *at = getenv("PATH");
    if (strchr(name, '/') != NULL || at == NULL) {
        return is_binary(name);
    }
    for (size_t length; *at != 0; at += length + (at[length] == ':' ? 1 : 0)) {
        char path[PATH_MAX];
        length = strcspn(at, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)length, at, name);
        if (access(path, X_OK) == 0) {
            return is_binary(path);
        }
    }
    return false;
}

// The word of a Python command with the script, or behind -m or -c; *kind: 's', 'm' or 'c'. 0:
// there is none, or the interpreter's options keep it from reading sitecustomize.
static int program_word(const char *const *argv, char *kind) {
    int i = 1;
    for (; argv[i] != NULL && argv[i][0] == '-'; i++) {
        for (const char *at = argv[i] + 1; *at != 0; at++) {
            if ((*at == 'm' || *at == 'c') && at[1] == 0 && argv[i + 1] != NULL) {
                *kind = *at;
                return i + 1;
            }
            if (!isalpha((unsigned char)*at) || strchr("mcIESihVx", *at) != NULL) {
                return 0;
            }
            if (*at == 'W' || *at == 'X') {
                i += at[1] == 0 && argv[i + 1] != NULL ? 1 : 0;
                break;
            }
        }
        if (argv[i][1] == 0) {
            return 0;  // stdin
        }
    }
    *kind = 's';
    return argv[i] != NULL ? i : 0;
}

int ls_exec__starters(const ls_exec *exec) {
    const ls_exec_options *options = exec->options;
    const int most = options->start == LS_EXEC_START_FORK ? 1 : 2;
    char kind = 0;
    bool can = options->python != NULL && options->start != LS_EXEC_START_EXEC &&
               !ls_gdb_debugs_processes && options->processes > most &&
               program_word(options->argv, &kind) > 0 && is_python(options->argv[0]);
    return can ? most : 0;
}

void ls_exec__set_starter(const ls_exec *exec, int socket) {
    const ls_exec_options *options = exec->options;
    char text[64], kind = 0;
    int word = program_word(options->argv, &kind);
    (void)snprintf(text, sizeof text, "%d %c %d %d", socket, kind, word,
                   options->start == LS_EXEC_START_FORK);
    (void)setenv(LS_WIRE_STARTER, text, 1);
    if (options->modules != NULL) {
        (void)setenv(LS_WIRE_MODULES, options->modules, 1);
    }
}

// ---- Forking ------------------------------------------------------------------------------------
// The first answer of the starter; its stderr is passed on meanwhile. The length; at most 0: none
// came before it ended or the deadline was over.
static ssize_t hear_starter(ls_exec *exec, int socket, char *out, size_t bytes) {
    const ls_exec_options *options = exec->options;
    const bool limited = options->deadline_given && options->deadline_seconds > 0;
    while (!limited || ls_time_now() - exec->moved < options->deadline_seconds) {
        struct pollfd at[3] = {{.fd = socket, .events = POLLIN}};
        nfds_t count = 1;
        for (int i = 0; i < exec->child_count && count < 3; i++) {
            at[count++] = (struct pollfd){.fd = exec->children[i].errors, .events = POLLIN};
        }
        (void)poll(at, count, 100);
        for (int i = 0; i < exec->child_count; i++) {
            ls_exec__hear(exec, &exec->children[i], false);
        }
        ssize_t got = recv(socket, out, bytes - 1, MSG_DONTWAIT);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            out[got > 0 ? got : 0] = 0;
            return got;
        }
    }
    out[0] = 0;
    return -1;
}

// Has the process become a rank: the last of its lines are settings of its environment.
static int send_rank(const ls_exec *exec, int socket, const char *settings, int errors) {
    char text[SETTINGS_BYTES];
    int length = snprintf(text, sizeof text, "%ld\n%d%s", (long)getpid(),
                          exec->options->quiet_stdout, settings);
    if (length >= (int)sizeof text) {
        return LS_ERR_LIMIT;
    }
    ssize_t sent = ls_descriptor_send(socket, text, (size_t)length, errors, MSG_DONTWAIT);
    return sent == length ? LS_OK : LS_ERR_RESOURCE;
}

// Opens the stderr of a rank, and sends its other end with the settings.
static int settle(ls_exec *exec, int socket, int rank, const char *settings) {
    ls_exec_child *child = &exec->children[rank];
    int errors[2];
    if (pipe2(errors, O_CLOEXEC) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot create a pipe for rank %d: %s", rank,
                       strerror(errno));
    }
    (void)fcntl(errors[0], F_SETFL, O_NONBLOCK);
    child->errors = errors[0];
    int status = send_rank(exec, socket, settings, errors[1]);
    (void)close(errors[1]);
    return status;
}

static int watch(ls_exec_child *child, int rank, pid_t pid) {
    child->pid = pid;
    child->watch = ls_child_open(pid);
    return child->watch >= 0
               ? LS_OK
               : LS_FAIL(LS_ERR_RESOURCE, "rank %d cannot be watched: %s", rank, strerror(errno));
}

static int fork_rank(ls_exec *exec, int socket, int rank) {
    char text[256];
    (void)snprintf(text, sizeof text, "\n" LS_WIRE_RANK "=%d\nRANK=%d\nLOCAL_RANK=%d", rank, rank,
                   rank);
    if (settle(exec, socket, rank, text) != LS_OK ||
        hear_starter(exec, socket, text, sizeof text) <= 0) {
        return LS_FAIL(LS_ERR_RESOURCE,
                       "no process was forked for rank %d; --start exec forks none", rank);
    }
    return watch(&exec->children[rank], rank, (pid_t)strtol(text, NULL, 10));
}

bool ls_exec__next_forked(ls_exec_forked *forked) {
    const char *list = getenv(LS_WIRE_FORKED);
    const char *at = forked->next != NULL ? forked->next : list;
    char *end = NULL;
    if (at == NULL || *at == 0) {
        return false;
    }
    forked->pid = (pid_t)strtol(at, &end, 10);
    forked->socket = *end == ':' ? (int)strtol(end + 1, &end, 10) : -1;
    forked->next = *end == ',' ? end + 1 : "";
    return forked->pid > 0 && forked->socket >= 0;
}

int ls_exec__adopt(ls_exec *exec, int rank, const ls_exec_forked *forked, const char *settings) {
    int how = 0;
    bool own = waitpid(forked->pid, &how, WNOHANG) == 0;
    int status = own ? settle(exec, forked->socket, rank, settings) : LS_ERR_RESOURCE;
    (void)close(forked->socket);
    if (status != LS_OK) {
        return LS_FAIL(LS_ERR_RESOURCE, "process %ld, forked for rank %d, does not answer",
                       (long)forked->pid, rank);
    }
    exec->forked += 1;
    return watch(&exec->children[rank], rank, forked->pid);
}

// Of two, neighbours at distances 1, 2, 4, ... differ, so that a group has ranks of both.
static int starter_of(int rank, int starters) {
    return starters == 2 ? __builtin_parity((unsigned)rank) : 0;
}

int ls_exec__fork(ls_exec *exec, const int *sockets, int starters) {
    for (int s = 0; s < starters; s++) {
        char text[256];
        ssize_t got = hear_starter(exec, sockets[s], text, sizeof text);
        bool forks = got > 0 && strcmp(text, LS_WIRE_FORKS) == 0;
        if (!forks && exec->start_why[0] == 0) {
            (void)snprintf(exec->start_why, sizeof exec->start_why, "%s",
                           got > 0 ? text : "the interpreter did not read lockstep's hook");
        }
        for (int r = starters; r < exec->options->processes && forks; r++) {
            if (starter_of(r, starters) == s) {
                LS_TRY(fork_rank(exec, sockets[s], r));
                exec->forked += 1;
            }
        }
        if (forks) {  // its end of the socket is closed once this process is the ranks' parent
            (void)shutdown(sockets[s], SHUT_WR);
            (void)hear_starter(exec, sockets[s], text, sizeof text);
        }
        (void)close(sockets[s]);
    }
    return LS_OK;
}
