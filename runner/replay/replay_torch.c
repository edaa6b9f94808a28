// Replaying torch's results: the directory, the manifest, and one case per entry.
#include "runner/replay/replay_torch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/kinds.h"
#include "runner/replay/replay_torch_internal.h"

#define CASES_MAX 100000

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

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// ---- The manifest -------------------------------------------------------------------------------

// *out is NULL where there is none, or one of something else.
static int load_manifest(json_t **out, const char *dir) {
    char path[LS_REPLAY_PATH_MAX];
    *out = NULL;
    LS_TRY(ls_replay__path(path, dir, "manifest.json"));
    if (access(path, F_OK) != 0) {
        return LS_OK;
    }
    LS_TRY(ls_json_read(out, path, LS_REPLAY_JSON_BYTES_MAX));
    if (!ls_replay__is_torch(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    return LS_OK;
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

// What an entry's file, kind and args give; a status is the file's fault.
static int replay_file(ls_results *results, ls_case_result *result, ls_torch_rest *rest,
                       const char *path, const json_t *entry) {
    static const char *const known[] = {"file", "kind", "args", NULL};
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    const json_t *args = json_object_get(entry, "args");
    result->skip_reason = why_skipped(kind, args);
    result->skipped = result->skip_reason != NULL;
    if (result->skipped) {
        return LS_OK;
    }
    bool bag = strcmp(kind, "embedding_bag") == 0;
    ls_replay__unknown_keys(&rest->unknown, entry, known);
    int status = ls_torch__embedding(results, result, rest, path, bag, args);
    if (status != LS_OK && status != LS_ERR_MEMORY && status != LS_ERR_MISMATCH) {
        ls_error last = *ls_error_last();
        status = LS_FAIL(LS_ERR_FORMAT, "'%s': %s", path, last.text);
    }
    return status;
}

static int add_rest(ls_results *results, const ls_case_result *result, ls_torch_rest *rest) {
    if (rest->gradients.length > 0) {
        ls_text_puts(&rest->gradients, ": the simulator runs no backward pass");
    }
    int status = rest->gradients.failed || rest->unknown.failed ? LS_ERR_MEMORY : LS_OK;
    if (status == LS_OK) {
        status = ls_replay__not_replayed(results, result->name, "gradients", result->file,
                                         ls_text_string(&rest->gradients));
    }
    if (status == LS_OK) {
        status = ls_replay__not_replayed(results, result->name, "unknown", result->file,
                                         ls_text_string(&rest->unknown));
    }
    return status;
}

static int replay_entry(ls_results *results, const char *dir, const json_t *entry, size_t index) {
    const char *file = json_string_value(json_object_get(entry, "file"));
    ls_case_result result = {
        .backend = ls_backend_kind_sim.name, .real = "recording", .pass = true};
    ls_torch_rest rest = {0};
    char path[LS_REPLAY_PATH_MAX] = "";
    double start = now();
    int status = LS_OK;
    bool plain = ls_replay__is_plain_name(file);
    if (!plain || !json_is_string(json_object_get(entry, "kind")) ||
        !json_is_object(json_object_get(entry, "args"))) {
        status = LS_FAIL(LS_ERR_FORMAT,
                         "'%s/manifest.json': entry %zu lacks file, kind or args, or its file is "
                         "not in the directory",
                         dir, index);
    }
    if (plain && status == LS_OK) {
        status = ls_replay__path(path, dir, file);
    }
    result.name = ls_arena_strdup(results->arena, plain ? file : "manifest entry");
    result.file = ls_arena_strdup(results->arena, path);
    result.reproduce = ls_result_command(results->arena, "lockstep replay", dir);
    if (!result.name || !result.file || !result.reproduce) {
        return LS_ERR_MEMORY;
    }
    if (!status) {
        status = replay_file(results, &result, &rest, path, entry);
    }
    if (status && status != LS_ERR_MEMORY) {
        ls_replay__case_error(results, &result);
        status = LS_OK;
    }
    result.seconds = now() - start;
    ls_case_result_skip_unjudged(&result);
    if (!status) {
        status = ls_results_add(results, &result);
    }
    if (!status) {
        status = add_rest(results, &result, &rest);
    }
    ls_text_free(&rest.gradients);
    ls_text_free(&rest.unknown);
    return status;
}

static int replay_manifest(ls_results *results, const char *dir, const json_t *manifest) {
    const json_t *cases = json_object_get(manifest, "cases");
    if (json_array_size(cases) > CASES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "%s/manifest.json: more than %d cases", dir, CASES_MAX);
    }
    for (size_t i = 0; i < json_array_size(cases); i++) {
        LS_TRY(replay_entry(results, dir, json_array_get(cases, i), i));
    }
    static const char *const known[] = {"torch", "seed", "cases", NULL};
    ls_text unknown = {0};
    ls_replay__unknown_keys(&unknown, manifest, known);
    int status =
        ls_replay__not_replayed(results, "manifest.json", "unknown", dir, ls_text_string(&unknown));
    ls_text_free(&unknown);
    return status;
}

static bool is_named(const void *manifest, const char *file) {
    const json_t *cases = json_object_get(manifest, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(cases, i), "file"));
        if (name != NULL && strcmp(name, file) == 0) {
            return true;
        }
    }
    return false;
}

// ---- The directory ------------------------------------------------------------------------------

static int is_dtensor(const struct dirent *entry) {
    return ls_replay__is_dtensor(entry->d_name);
}

static void free_names(struct dirent **names, int count) {
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

int ls_replay_torch(ls_results *results, const char *dir) {
    LS_ASSERT(results && dir);
    struct dirent **names = NULL;
    int count = scandir(dir, &names, is_dtensor, alphasort);
    if (count < 0) {
        return LS_FAIL(errno == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO, "%s: %s", dir, strerror(errno));
    }
    json_t *manifest = NULL;
    int status = load_manifest(&manifest, dir);
    if (!status && !manifest && count == 0) {
        status = LS_FAIL(LS_ERR_FORMAT, "%s has no torch manifest and no dtensor_*.json", dir);
    }
    if (manifest) {
        status = replay_manifest(results, dir, manifest);
        if (!status) {
            status = ls_replay__unnamed(results, dir, is_named, manifest);
        }
        json_decref(manifest);
    }
    for (int i = 0; i < count && !status; i++) {
        char path[LS_REPLAY_PATH_MAX];
        status = ls_replay__path(path, dir, names[i]->d_name);
        if (!status) {
            status = ls_torch__dtensor(results, path, names[i]->d_name, dir);
        }
    }
    free_names(names, count);
    return status;
}
