// See core.h. A child writes the file, since a process cannot stop its own threads.
#define _GNU_SOURCE  // gettid, pipe2
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/core.h"
#include "cli/debugger.h"
#include "collectives/hooks.h"
#include "formats/json.h"
#include "process/child.h"
#include "process/core.h"
#include "process/reaper.h"

static struct {
    const char *dir;
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
    ls_json_key(&json, "cores");
    ls_json_array_open(&json);
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
static void write_core(pid_t process, pid_t thread) {
    char path[PATH_MAX + 16];
    ls_core_written wrote;
    (void)snprintf(path, sizeof path, "%s/all.core", core.reaper.dir);
    int status = ls_core_write(&wrote, path, process, thread);
    status = status == LS_OK ? write_index(core.reaper.dir) : status;
    if (status == LS_OK && rename(core.reaper.dir, core.dir) != 0) {
        status = LS_FAIL(ls_status_of_errno(errno), "%s", strerror(errno));
    }
    if (status != LS_OK) {
        (void)unlink(path);
        cli_note("no core file is saved in %s: %s", core.dir, ls_error_last()->text);
        return;
    }
    char less[96] = "";
    if (wrote.left_out > 0) {
        (void)snprintf(less, sizeof less, " (without %.1f MB of memory, for which it has no room)",
                       (double)wrote.left_out / 1e6);
    }
    cli_note("saved a core file in %s%s; lockstep gdb --core %s opens it", core.dir, less,
             core.dir);
}

static void save(void) {
    int ready[2];
    pid_t process = getpid(), thread = gettid();
    if (core.saved || pipe2(ready, O_CLOEXEC) != 0) {
        return;
    }
    core.saved = true;
    pid_t child = ls_child_fork(SIGKILL);
    if (child == 0) {
        char byte;
        (void)signal(SIGXFSZ, SIG_IGN);  // a limit is an error
        (void)!read(ready[0], &byte, 1);
        write_core(process, thread);
        _exit(0);
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
    core.open = true;
    ls_gdb_before_stop = save;
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
