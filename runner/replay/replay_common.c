// What the readers of NCCL's and torch's results have in common: names, and telling what of a
// result nothing replays.
#include <stdio.h>
#include <string.h>

#include "backends/kinds.h"
#include "runner/replay/replay_internal.h"

int ls_replay__path(char out[LS_REPLAY_PATH_MAX], const char *dir, const char *name) {
    int length = snprintf(out, LS_REPLAY_PATH_MAX, "%s/%s", dir, name);
    if (length < 0 || length >= LS_REPLAY_PATH_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "the path of \"%.100s\" is too long", name);
    }
    return LS_OK;
}

bool ls_replay__is_plain_name(const char *name) {
    return name != NULL && name[0] != 0 && name[0] != '.' && strpbrk(name, "/\\") == NULL &&
           strlen(name) < 256;
}

bool ls_replay__is_torch(const json_t *manifest) {
    return json_object_get(manifest, "torch") != NULL &&
           json_is_array(json_object_get(manifest, "cases"));
}

bool ls_replay__is_dtensor(const char *name) {
    size_t length = strlen(name);
    return length > 13 && strncmp(name, "dtensor_", 8) == 0 &&
           strcmp(name + length - 5, ".json") == 0;
}

void ls_replay__unknown_keys(ls_text *out, const json_t *object, const char *const *known) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        bool is_known = false;
        for (size_t i = 0; known[i] != NULL && !is_known; i++) {
            is_known = strcmp(known[i], key) == 0;
        }
        if (!is_known) {
            ls_text_printf(out, "%s%.100s", out->length > 0 ? ", " : "", key);
        }
    }
}

int ls_replay__not_replayed(ls_results *results, const char *name, const char *part,
                            const char *file, const char *what) {
    if (what[0] == 0) {
        return LS_OK;
    }
    ls_arena *arena = results->arena;
    ls_case_result result = {
        .name = ls_arena_printf(arena, "%s/%s", name, part),
        .file = ls_arena_strdup(arena, file),
        .backend = ls_backend_kind_sim.name,
        .real = "recording",
        .skipped = true,
        .skip_reason = ls_arena_printf(arena, "not replayed: %.1000s", what),
    };
    if (result.name == NULL || result.file == NULL || result.skip_reason == NULL) {
        return LS_ERR_MEMORY;
    }
    return ls_results_add(results, &result);
}

void ls_replay__case_error(ls_results *results, ls_case_result *result) {
    result->pass = false;
    ls_case_result_set_error(result, results->arena);
    result->error = result->error != NULL ? result->error : "out of memory";
    ls_error_clear();
}
