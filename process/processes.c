// Reads /proc. A process is held by a pidfd before it is examined until it is ended, so that its
// number cannot be reused in between.
#define _GNU_SOURCE
#include "process/processes.h"
#include "base/time.h"
#include "process/child.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TRIES      500  // ended processes may take a moment to go, and may just have started others
#define PAUSE_MS   10
#define PATH_BYTES 4096
#define PF_EXITING 0x4u  // in the kernel's flags of a process

bool ls_process_read(ls_process *out, pid_t pid) {
    char path[64], line[1024] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    size_t got = fread(line, 1, sizeof line - 1, file);
    (void)fclose(file);
    line[got] = 0;
    // "PID (NAME) STATE PPID ..."; the name may hold anything.
    const char *open = strchr(line, '('), *close = strrchr(line, ')');
    long parent = 0;
    unsigned flags = 0;
    unsigned long user = 0, system = 0;
    char state = 0;
    if (open == NULL || close == NULL ||
        sscanf(close + 1, " %c %ld %*d %*d %*d %*d %u %*u %*u %*u %*u %lu %lu", &state, &parent,
               &flags, &user, &system) != 5) {
        return false;
    }
    *out = (ls_process){.pid = pid,
                        .parent = (pid_t)parent,
                        .stopped = state == 'T' || state == 't',
                        .ending = state == 'Z' || state == 'X' || (flags & PF_EXITING) != 0,
                        .cpu_seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK)};
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

bool ls_process_has_work(pid_t pid) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *tasks = opendir(path);
    bool found = false;
    for (const struct dirent *at; tasks != NULL && !found && (at = readdir(tasks)) != NULL;) {
        char text[512] = "";
        long thread = strtol(at->d_name, NULL, 10);
        if (thread <= 0 || (pid == getpid() && thread == syscall(SYS_gettid))) {
            continue;
        }
        (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/stat", (long)pid, thread);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : -1;
        if (file >= 0) {
            (void)close(file);
        }
        const char *state = got > 0 ? strrchr(text, ')') : NULL;
        found = state != NULL && state[1] == ' ' && (state[2] == 'R' || state[2] == 'D');
    }
    if (tasks != NULL) {
        (void)closedir(tasks);
    }
    return found;
}

// ---- Those of a launch --------------------------------------------------------------------------
bool ls_processes_has(const char *dir, pid_t pid) {
    char path[64], *entry = NULL;
    size_t room = 0, length = strlen(dir);
    const size_t name = strlen(LS_PROCESSES_VARIABLE "=");
    (void)snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file != NULL && !found && getdelim(&entry, &room, 0, file) > 0) {
        found = strncmp(entry, LS_PROCESSES_VARIABLE "=", name) == 0 &&
                strncmp(entry + name, dir, length) == 0 &&
                (entry[name + length] == 0 || entry[name + length] == '/');
    }
    free(entry);
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

// The next process in /proc; 0: none, or, if errno is set, none that could be read.
static pid_t next_process(DIR *proc) {
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            return (pid_t)strtol(entry->d_name, NULL, 10);
        }
    }
    return 0;
}

bool ls_processes_stopped(ls_process *out, const char *dir) {
    DIR *proc = opendir("/proc");
    bool found = false;
    for (pid_t pid; proc != NULL && !found && (pid = next_process(proc)) != 0;) {
        found = ls_processes_has(dir, pid) && ls_process_read(out, pid) && out->stopped;
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
    return found;
}

// Whether there was one.
static bool end_once(const char *dir) {
    DIR *proc = opendir("/proc");
    bool any = false;
    for (pid_t pid; proc != NULL && (pid = next_process(proc)) != 0;) {
        int fd = ls_child_open(pid);
        if (fd >= 0 && ls_processes_has(dir, pid)) {
            any = true;
            (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
    return any;
}

void ls_processes_end(const char *dir) {
    for (int i = 0; i < TRIES && end_once(dir); i++) {
        ls_time_sleep(PAUSE_MS / 1000.0);
    }
}

// ---- Shared memory ------------------------------------------------------------------------------
// Whether a process that could not be read completely may match: not if it is gone or another
// user's. Without memory or descriptors the answer is unknown.
static bool may_have(int error) {
    return error != 0 && error != ENOENT && error != ESRCH && error != EACCES && error != EPERM;
}

// The file itself decides: a process with another root has another path to it.
static bool has_open(pid_t pid, const struct stat *segment) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *fds = opendir(path);
    if (fds == NULL) {
        return may_have(errno);
    }
    bool found = false;
    struct stat about;
    errno = 0;
    for (const struct dirent *entry; !found && (entry = readdir(fds)) != NULL; errno = 0) {
        found = fstatat(dirfd(fds), entry->d_name, &about, AT_NO_AUTOMOUNT) == 0 &&
                about.st_dev == segment->st_dev && about.st_ino == segment->st_ino;
    }
    found = found || may_have(errno);
    (void)closedir(fds);
    return found;
}

static bool has_mapped(pid_t pid, const struct stat *segment) {
    char path[64], *line = NULL;
    size_t room = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/maps", (long)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return may_have(errno);
    }
    bool found = false;
    errno = 0;
    for (; !found && getline(&line, &room, file) > 0; errno = 0) {
        unsigned high, low;
        unsigned long inode;
        found = sscanf(line, "%*s %*s %*s %x:%x %lu", &high, &low, &inode) == 3 &&
                makedev(high, low) == segment->st_dev && inode == segment->st_ino;
    }
    found = found || may_have(errno);
    free(line);
    (void)fclose(file);
    return found;
}

// The maker of a segment holds it open until it is mapped, so open ones are examined first.
static bool in_use(const struct stat *segment) {
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        return true;
    }
    bool found = false;
    for (pid_t pid; !found && (pid = next_process(proc)) != 0;) {
        found = has_open(pid, segment) || has_mapped(pid, segment);
    }
    found = found || may_have(errno);
    (void)closedir(proc);
    return found;
}

// MPICH's, and those of UCX, which it sends through.
static bool is_segment(const char *name) {
    static const char *const begins[] = {"mpich_shar_", "ucx_shm_posix_"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

void ls_processes_sweep_shared(const char *in, time_t since) {
    DIR *dir = opendir(in);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[PATH_BYTES];
        struct stat about;
        int length = snprintf(path, sizeof path, "%s/%s", in, entry->d_name);
        // One without bytes may be about to be open: it has its name first.
        bool ours = length > 0 && (size_t)length < sizeof path && is_segment(entry->d_name) &&
                    lstat(path, &about) == 0 && S_ISREG(about.st_mode) &&
                    about.st_uid == geteuid() && about.st_ctim.tv_sec >= since && about.st_size > 0;
        if (ours && !in_use(&about)) {
            (void)unlink(path);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}
