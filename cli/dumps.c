// See dumps.h.
#include "cli/dumps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/python.h"
#include "process/reaper.h"

static int read_dumps(ls_history **out, const ls_reaper *reaper, const cli_args *args,
                      const char *python) {
    char path[PATH_MAX + 32];
    const char **words = calloc((size_t)args->count + 3, sizeof *words);
    if (words == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "no memory"));
    }
    (void)snprintf(path, sizeof path, "%s/history.json", reaper->dir);
    words[0] = "lockstep.dumps";
    words[1] = path;
    for (int i = 0; i < args->count; i++) {
        words[2 + i] = args->values[i];
    }
    const int code = cli_python_run(python, words);
    free(words);
    if (code != LS_EXIT_OK) {
        return code == LS_EXIT_USAGE ? LS_EXIT_USAGE : LS_EXIT_ENVIRONMENT;
    }
    const int status = ls_history_read(out, path);
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

int cli_dumps_explain(ls_history **history, ls_spmd_result **found, const cli_args *args,
                      const char *python, const char *checks) {
    ls_reaper reaper = {.pid = 0};
    *history = NULL;
    *found = NULL;
    int status = ls_reaper_make(&reaper, NULL);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    const int code = read_dumps(history, &reaper, args, python);
    ls_reaper_remove(&reaper);
    CLI_TRY(code);
    for (int i = 0; i < (*history)->note_count; i++) {
        cli_note("%s", (*history)->notes[i]);
    }
    status = ls_history_explain(found, *history, checks);
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}
