// See core.h. Another process writes the file, since a process cannot stop its own threads.
#define _GNU_SOURCE  // pipe2, syscall
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/core.h"
#include "cli/debugger.h"
#include "collectives/hooks.h"
#include "formats/json.h"
#include "process/child.h"
#include "process/core.h"
#include "process/reaper.h"

static struct {
    const char *dir, *program;
    ls_reaper reaper;
    bool open, saved;
} core;

int cli_core_check(const char *dir, bool debugger) {
    if (dir != NULL && debugger) {
        cli_error("--core excludes --break-on-finding and --wait-for-debugger");
        return LS_EXIT_USAGE;
    }
    if (dir != NULL && access(dir, F_OK) == 0) {
        cli_error("--core %s: it exists; name a new folder", dir);
        return LS_EXIT_USAGE;
    }
    return LS_EXIT_OK;
}

// The list of core files, which `lockstep gdb --core` reads.
static int write_index(const char *folder) {
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/core.json", folder);
    ls_json json;
    ls_text text = {0};
    ls_json_begin(&json, &text, 0);
    ls_json_object_open(&json);
    ls_json_member_int(&json, "format", 1);
    ls_json_member_array(&json, "cores");
    ls_json_object_open(&json);
    ls_json_member_string(&json, "file", "all.core");
    ls_json_member_string(&json, "program", cli_debugger_own_path());
    ls_json_object_close(&json);
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    FILE *file = fopen(path, "we");
    bool good = file != NULL && fputs(ls_text_string(&text), file) >= 0;
    good = (file == NULL || fclose(file) == 0) && good;
    int why = errno;
    ls_text_free(&text);
    return good ? LS_OK : LS_FAIL(ls_status_of_errno(why), "%s: %s", path, strerror(why));
}

// Makes the folder whole before it has its name.
int cli_core_write(const char *const *words) {
    const char *folder = words[2], *dir = words[3];
    pid_t process = (pid_t)strtol(words[0], NULL, 10), thread = (pid_t)strtol(words[1], NULL, 10);
    char path[PATH_MAX + 16];
    ls_core_written wrote;
    (void)snprintf(path, sizeof path, "%s/all.core", folder);
    int status = process > 0 && thread > 0 ? ls_core_write(&wrote, path, process, thread)
                                           : LS_FAIL(LS_ERR_INVALID, "no process");
    status = status == LS_OK ? write_index(folder) : status;
    if (status == LS_OK && rename(folder, dir) != 0) {
        status = LS_FAIL(ls_status_of_errno(errno), "%s", strerror(errno));
    }
    if (status != LS_OK) {
        (void)unlink(path);
        cli_note("no core file is saved in %s: %s", dir, ls_error_last()->text);
        return LS_EXIT_ENVIRONMENT;
    }
    char less[96] = "";
    if (wrote.left_out > 0) {
        (void)snprintf(less, sizeof less, " (without %.1f MB of memory, for which it has no room)",
                       (double)wrote.left_out / 1e6);
    }
    cli_note("saved a core file in %s%s; lockstep gdb --core %s opens it", dir, less, dir);
    return LS_EXIT_OK;
}

// Safe where a rank has crashed: a lock of the C library may be held, so nothing here takes one,
// and the child becomes another program at once. gdb's extension takes a frame of this name for
// the library.
static void cli_core_save(void) {
    int ready[2];
    char process[16], thread[16];
    if (core.saved || pipe2(ready, O_CLOEXEC) != 0) {
        return;
    }
    core.saved = true;
    (void)snprintf(process, sizeof process, "%ld", (long)getpid());
    (void)snprintf(thread, sizeof thread, "%ld", syscall(SYS_gettid));
    const char *words[] = {"lockstep", "gdb",           CLI_CORE_WRITER, process,
                           thread,     core.reaper.dir, core.dir,        NULL};
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);  // fork takes locks
    if (child == 0) {
        char byte;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!read(ready[0], &byte, 1);
        (void)execv(core.program, (char *const *)(uintptr_t)words);
        _exit(1);
    }
    if (child > 0) {
        (void)prctl(PR_SET_PTRACER, child);  // for systems on which only parents may trace
        (void)!write(ready[1], "", 1);
        ls_child_wait(child, NULL);
    }
    (void)close(ready[0]);
    (void)close(ready[1]);
}

int cli_core_open(const char *dir) {
    if (dir == NULL) {
        return LS_EXIT_OK;
    }
    int status = ls_reaper_make(&core.reaper, dir);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    core.dir = dir;
    core.program = cli_debugger_own_path();
    core.open = true;
    ls_gdb_before_stop = cli_core_save;
    return LS_EXIT_OK;
}

const char *cli_core_folder(void) {
    return core.open ? core.reaper.dir : NULL;
}

void cli_core_close(void) {
    if (core.open) {
        ls_reaper_remove(&core.reaper);
        core.open = false;
    }
}
