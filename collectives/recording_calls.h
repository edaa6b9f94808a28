// Shared by the files that read and write call records. Private to this folder.
#pragma once

#include "formats/json_read.h"
#include "collectives/recording_format.h"

typedef struct ls_recorded_calls {
    ls_recorded_call *calls;  // [count], in the recording's arena
    int count;
} ls_recorded_calls;

struct ls_recording {
    ls_arena *arena;
    const char *dir;
    ls_recording_info info;
    ls_recorded_calls *ranks;  // [info.ranks]
};

// Fills recording->ranks[rank] from the JSON of its calls; `path` is what errors name.
int ls_recording__calls_parse(ls_recording *recording, int rank, const json_t *list,
                              const char *path);

// *out = a copy of a string; NULL where the value is none.
int ls_recording__string(const char **out, ls_arena *arena, const json_t *value);
// A whole number in [low, high]; false where it is none.
bool ls_recording__integer(int64_t *out, const json_t *object, const char *key, int64_t low,
                           int64_t high);
