// Replaying torch's results: the directory, the manifest, and one case per entry.
#include "scenarios/runner/replay_torch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scenarios/runner/replay_torch_internal.h"

#define CASES_MAX      100000
#define PATH_BYTES     4096
#define JSON_BYTES_MAX ((size_t)64 << 20)

int ls_torch__stages(ls_results *results, ls_case_result *result, int count) {
    size_t had = (size_t)result->stage_count;
    ls_stage_result *grown =
        ls_arena_alloc(results->arena, had + (size_t)count, sizeof(*result->stages));
    if (!grown) {
        return LS_ERR_MEMORY;
    }
    if (had > 0) {
        memcpy(grown, result->stages, had * sizeof(*grown));
    }
    result->stages = grown;
    return LS_OK;
}

void ls_torch__case_error(ls_results *results, ls_case_result *result) {
    result->pass = false;
    ls_case_result_set_error(result, results->arena);
    result->error = result->error != NULL ? result->error : "out of memory";
    ls_error_clear();
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int join(char *out, const char *dir, const char *name) {
    int length = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    if (length < 0 || length >= PATH_BYTES) {
        return LS_FAIL(LS_ERR_LIMIT, "the path %s/%s is too long", dir, name);
    }
    return LS_OK;
}

// A file of the directory itself: nothing that leads elsewhere.
static bool is_plain_name(const char *name) {
    return name && name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 256;
}

int ls_torch__load_json(json_t **out, const char *path, json_error_t *error) {
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena, NULL));
    char *text = NULL;
    size_t bytes = 0;
    int status = ls_file_read(&text, &bytes, arena, path, JSON_BYTES_MAX);
    if (status == LS_OK) {
        *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
    }
    ls_arena_free(arena);
    return status;
}

// ---- The manifest -------------------------------------------------------------------------------

static json_t *load_manifest(const char *dir) {
    char path[PATH_BYTES];
    json_error_t error;
    if (join(path, dir, "manifest.json")) {
        return NULL;
    }
    json_t *manifest = NULL;
    if (ls_torch__load_json(&manifest, path, &error) != LS_OK) {
        return NULL;
    }
    bool ok = json_is_object(manifest) && json_object_get(manifest, "torch") &&
              json_is_array(json_object_get(manifest, "cases"));
    if (!ok) {
        json_decref(manifest);
        return NULL;
    }
    return manifest;
}

static const char *why_skipped(const char *kind, const json_t *args) {
    if (strcmp(kind, "embedding") == 0 || strcmp(kind, "embedding_bag") == 0) {
        return ls_torch__embedding_unsupported(strcmp(kind, "embedding_bag") == 0, args);
    }
    if (strcmp(kind, "optimizer") == 0) {
        return "optimizers are not replayed";
    }
    if (strcmp(kind, "quantized_rows") == 0) {
        return "quantised rows are not replayed";
    }
    return "a kind of result that lockstep does not know";
}

static int replay_entry(ls_results *results, const char *dir, const json_t *entry, size_t index) {
    const char *file = json_string_value(json_object_get(entry, "file"));
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    const json_t *args = json_object_get(entry, "args");
    ls_case_result result = {.backend = "sim", .real = "recording", .pass = true};
    char path[PATH_BYTES] = "";
    double start = now();
    int status = LS_OK;
    if (!is_plain_name(file) || !kind || !json_is_object(args)) {
        status = LS_FAIL(LS_ERR_FORMAT,
                         "entry %zu of the manifest lacks file, kind or args, or its "
                         "file is not in the directory",
                         index);
    } else {
        status = join(path, dir, file);
    }
    result.name = ls_arena_printf(results->arena, "%s", file && kind ? file : "manifest entry");
    result.file = ls_arena_strdup(results->arena, path);
    result.reproduce = ls_arena_printf(results->arena, "lockstep replay %s", dir);
    if (!result.name || !result.file || !result.reproduce) {
        return LS_ERR_MEMORY;
    }
    if (!status) {
        result.skip_reason = why_skipped(kind, args);
        result.skipped = result.skip_reason != NULL;
    }
    if (!status && !result.skipped) {
        status =
            ls_torch__embedding(results, &result, path, strcmp(kind, "embedding_bag") == 0, args);
    }
    if (status == LS_ERR_MEMORY) {
        return status;
    }
    if (status) {
        ls_torch__case_error(results, &result);
    }
    result.seconds = now() - start;
    return ls_results_add(results, &result);
}

static int replay_manifest(ls_results *results, const char *dir, const json_t *manifest) {
    const json_t *cases = json_object_get(manifest, "cases");
    if (json_array_size(cases) > CASES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "%s/manifest.json: more than %d cases", dir, CASES_MAX);
    }
    for (size_t i = 0; i < json_array_size(cases); i++) {
        LS_TRY(replay_entry(results, dir, json_array_get(cases, i), i));
    }
    return LS_OK;
}

// ---- The directory ------------------------------------------------------------------------------

static int is_dtensor(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 13 && strncmp(entry->d_name, "dtensor_", 8) == 0 &&
           strcmp(entry->d_name + length - 5, ".json") == 0;
}

static void free_names(struct dirent **names, int count) {
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

bool ls_replay_torch_recognises(const char *dir) {
    LS_ASSERT(dir);
    json_t *manifest = load_manifest(dir);
    if (manifest) {
        json_decref(manifest);
        return true;
    }
    ls_error_clear();
    struct dirent **names = NULL;
    int count = scandir(dir, &names, is_dtensor, alphasort);
    if (count < 0) {
        return false;
    }
    free_names(names, count);
    return count > 0;
}

int ls_replay_torch(ls_results *results, const char *dir) {
    LS_ASSERT(results && dir);
    struct dirent **names = NULL;
    int count = scandir(dir, &names, is_dtensor, alphasort);
    if (count < 0) {
        return LS_FAIL(LS_ERR_IO, "%s: %s", dir, strerror(errno));
    }
    json_t *manifest = load_manifest(dir);
    int status = LS_OK;
    if (!manifest && count == 0) {
        status = LS_FAIL(LS_ERR_FORMAT, "%s has no torch manifest and no dtensor_*.json", dir);
    }
    if (manifest) {
        status = replay_manifest(results, dir, manifest);
        json_decref(manifest);
    }
    for (int i = 0; i < count && !status; i++) {
        char path[PATH_BYTES];
        status = join(path, dir, names[i]->d_name);
        if (!status) {
            status = ls_torch__dtensor(results, path, names[i]->d_name, dir);
        }
    }
    free_names(names, count);
    return status;
}
