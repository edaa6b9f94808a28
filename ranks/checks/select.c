// Which checks are on.
#include <fnmatch.h>
#include <string.h>

#include "ranks/internal.h"

// "all" selects only defects. A difference that may be intended (unread padding, a mask's infinity,
// a replica between its update and its gather) is checked if its check is named.
static void apply_named(ls_spmd *run, ls_finding_id id) {
    run->moved_garbage = run->moved_garbage || id == LS_FINDING_BUFFER_UNINITIALISED;
    run->brought_inf = run->brought_inf || id == LS_FINDING_VALUE_INF_FIRST;
    run->replicas_always = run->replicas_always || id == LS_FINDING_REPLICA_DIVERGED;
}

static int apply_glob(ls_spmd *run, const char *glob, bool on) {
    bool any = false, all = strcmp(glob, "all") == 0 || strcmp(glob, "*") == 0;
    for (int i = 0; i < LS_FINDING_COUNT; i++) {
        ls_finding_id id = (ls_finding_id)i;
        if (fnmatch(all ? "*" : glob, ls_finding_name(id), 0) != 0) {
            continue;
        }
        any = true;
        run->checks[id] = on;
        if (on && !all) {
            apply_named(run, id);
        }
        run->warned = run->warned || (on && id == LS_FINDING_REDUNDANT_REDUCE &&
                                      strcmp(glob, ls_finding_name(id)) == 0);
        run->moved_values =
            run->moved_values ||
            (on && (id == LS_FINDING_VALUE_NAN_FIRST || id == LS_FINDING_VALUE_INF_FIRST));
    }
    if (!any) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "no check is called \"%s\"", glob);
    }
    return LS_OK;
}

int ls_checks__select(ls_spmd *run, const char *globs) {
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        run->checks[id] = ls_finding_default((ls_finding_id)id);
    }
    while (globs != NULL && *globs != '\0') {
        char glob[64];
        size_t length = strcspn(globs, ",");
        bool on = *globs != '-';
        const char *start = on ? globs : globs + 1;
        size_t bytes = length - (on ? 0 : 1);
        if (bytes == 0 || bytes >= sizeof glob) {
            return LS_FAIL(LS_ERR_INVALID, "\"%.64s\" is not a list of checks", globs);
        }
        memcpy(glob, start, bytes);
        glob[bytes] = '\0';
        LS_TRY(on && strchr(glob, '=') != NULL ? ls_sites__select(run, glob)
                                               : apply_glob(run, glob, on));
        globs += length;
        globs += *globs == ',' ? 1 : 0;
    }
    return LS_OK;
}

void ls_checks__without_data(ls_spmd *run) {
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        run->checks[id] = run->checks[id] && !ls_finding_needs_data((ls_finding_id)id);
    }
}

int ls_spmd_check_on(bool *out, const char *checks, ls_finding_id id) {
    LS_ASSERT(out != NULL && (int)id >= 0 && id < LS_FINDING_COUNT);
    ls_spmd run = {0};
    LS_TRY(ls_checks__select(&run, checks));
    *out = run.checks[id];
    return LS_OK;
}
