// The process that outlives its owner by a moment. Linux: close_range.
#define _GNU_SOURCE
#include "process/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "process/child.h"
#include "process/descriptor.h"
#include "process/processes.h"

#define TRIES    100  // the owner's processes may still be writing while they end
#define PAUSE_MS 20

// Of what is kept, if it was made for that: only an empty one goes.
static void remove_folder(const ls_reaper *reaper) {
    if (reaper->folder[0] != 0) {
        (void)rmdir(reaper->folder);
    }
}

static void clean(const ls_reaper *reaper) {
    ls_processes_end(reaper->dir);
    // An empty one goes without the memory that a walk needs.
    for (int i = 0; i < TRIES && rmdir(reaper->dir) != 0 && errno != ENOENT; i++) {
        if (i > 0) {
            ls_time_sleep(PAUSE_MS / 1000.0);
        }
        (void)ls_file_remove_tree(reaper->dir);
    }
    remove_folder(reaper);
    ls_processes_sweep_shared(LS_PROCESSES_SHARED, reaper->started);
}

_Noreturn static void keep(int owner, const ls_reaper *reaper) {
    (void)setsid();  // Ctrl-C is for the owner
    const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        (void)signal(ignored[i], SIG_IGN);
    }
    (void)dup2(owner, 0);
    ls_descriptors_close(1);  // a reader of the owner's output does not wait for us
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR) {
    }
    clean(reaper);
    _exit(0);
}

// Starts the reaper, which removes the directory; it need not exist yet.
static int start(ls_reaper *out) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return LS_FAIL(LS_ERR_BACKEND, "cannot keep \"%s\": %s", out->dir, strerror(errno));
    }
    out->started = ls_time_wall_ns() / 1000000000 - 1;  // files' times lag a little
    // It has its name from the start: a tool that ends this process's children recognises the
    // reaper.
    char name[16] = "";
    (void)prctl(PR_GET_NAME, name);
    (void)prctl(PR_SET_NAME, LS_REAPER_NAME);
    pid_t child = ls_child_fork(0);
    if (child == 0) {
        keep(ends[0], out);
    }
    (void)prctl(PR_SET_NAME, name);
    (void)close(ends[0]);
    if (child < 0) {
        (void)close(ends[1]);
        return LS_FAIL(LS_ERR_BACKEND, "cannot start a process: %s", strerror(errno));
    }
    out->pid = child;
    out->pipe = ends[1];
    return LS_OK;
}

// Nothing is left to keep; it may have been stopped, and would not hear that.
static void stop(ls_reaper *reaper) {
    ls_child_end(reaper->pid, false, NULL);
    (void)close(reaper->pipe);
    *reaper = (ls_reaper){.pipe = -1};
}

// Adds a unique name.
static bool add_random(char *dir, size_t room) {
    unsigned char bytes[12];
    size_t length = strlen(dir);
    if (length + sizeof bytes >= room || getentropy(bytes, sizeof bytes) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        dir[length + i] = "abcdefghijklmnopqrstuvwxyz234567"[bytes[i] % 32];
    }
    dir[length + sizeof bytes] = '\0';
    return true;
}

// The whole path of `name`, whose last part need not exist.
static bool whole_path(char out[PATH_MAX], const char *name) {
    char folder[PATH_MAX];
    const char *slash = strrchr(name, '/');
    size_t length = slash == NULL ? 1 : (size_t)(slash - name);
    (void)snprintf(folder, sizeof folder, "%.*s", (int)length, slash == NULL ? "." : name);
    if (realpath(slash == name ? "/" : folder, out) == NULL) {
        return false;
    }
    size_t used = strcmp(out, "/") == 0 ? 0 : strlen(out);
    int added = snprintf(out + used, PATH_MAX - used, "/%s", slash == NULL ? name : slash + 1);
    if (added < 0 || used + (size_t)added >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    return true;
}

// Makes the folder of a name where there is none.
static void make_folder(ls_reaper *out, const char *name) {
    const char *slash = strrchr(name, '/');
    int length = snprintf(out->folder, sizeof out->folder, "%.*s",
                          slash != NULL ? (int)(slash - name) : 0, name);
    if (length <= 0 || (size_t)length >= sizeof out->folder || mkdir(out->folder, 0777) != 0) {
        out->folder[0] = 0;
    }
}

int ls_reaper_make(ls_reaper *out, const char *beside) {
    char dir[PATH_MAX];
    const char *base = getenv("TMPDIR");
    int length = 0;
    *out = (ls_reaper){.pipe = -1};
    if (beside != NULL) {
        size_t beside_length = strlen(beside);
        while (beside_length > 1 && beside[beside_length - 1] == '/') {
            beside_length -= 1;
        }
        length = snprintf(dir, sizeof dir, "%.*s.part-", (int)beside_length, beside);
    } else {
        length =
            snprintf(dir, sizeof dir, "%s/lockstep-", base != NULL && base[0] != 0 ? base : "/tmp");
    }
    if (length < 0 || (size_t)length >= sizeof dir || !add_random(dir, sizeof dir)) {
        return LS_FAIL(LS_ERR_IO, "the path of a temporary directory is too long");
    }
    if (beside != NULL) {
        make_folder(out, dir);
    }
    // The reaper starts before the directory exists: this process may be killed between the two.
    bool made = whole_path(out->dir, dir);
    int started = made ? start(out) : LS_OK;
    if (started != LS_OK) {
        remove_folder(out);
        return started;
    }
    made = made && mkdir(out->dir, S_IRWXU) == 0;
    if (!made) {
        // Where to put something is the caller's to say, where temporary files go the machine's.
        int status = beside != NULL ? ls_status_of_errno(errno) : LS_ERR_RESOURCE;
        status = LS_FAIL(status, "cannot make the directory \"%s\": %s", dir, strerror(errno));
        remove_folder(out);
        if (out->pid > 0) {
            stop(out);
        }
        return status;
    }
    return LS_OK;
}

void ls_reaper_remove(ls_reaper *reaper) {
    LS_ASSERT(reaper != NULL && reaper->pid > 0);
    clean(reaper);
    stop(reaper);
}
