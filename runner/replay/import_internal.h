// The state of an import, shared by the importers. Private to this folder.
#pragma once

#include "runner/replay/import.h"

typedef struct ls_importing {
    ls_results *results;
    const ls_run_options *options;
    const char *dir;
    ls_case_result *result;  // the case under construction
    ls_results rest;         // the parts that are not replayed
    const char **named;      // files of the folder that lists name [named_count]
    int named_count, named_room;
    const char **groups;  // of each case from `first` on [case_count - first]
    int group_room;
    int first;
} ls_importing;

int ls_import__not_replayed(const ls_importing *state, ls_results *to, const char *name,
                            const char *part, const char *file, const char *what);
ls_case_result ls_import__case(const ls_importing *state, const char *name, const char *file);
