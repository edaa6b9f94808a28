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
    size_t named_count, named_room;
    const char **groups;  // of each case from `first` on [case_count - first]
    size_t group_room;
    int first;
} ls_importing;

int ls_import__not_replayed(const ls_importing *state, ls_results *to, const char *name,
                            const char *part, const char *file, const char *what);
// Makes room for one more element of an array in an arena.
void *ls_import__room(ls_arena *arena, const void *array, size_t count, size_t *room, size_t size);
ls_case_result ls_import__case(const ls_importing *state, const char *name, const char *file);
