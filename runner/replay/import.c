// Replays a folder of another system's results: selects the importer, makes a case of each result,
// and reports files without an importer. See import.h.
#include "runner/replay/import_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "formats/json.h"

#define JSON_BYTES_MAX ((size_t)64 << 20)
#define RESULTS_MAX    100000
#define MANIFEST       "manifest.json"

static const ls_importer *const importers[] = {&ls_importer_nccl, &ls_importer_torch,
                                               &ls_importer_dtensor, &ls_importer_torchrec,
                                               &ls_importer_exec};
#define IMPORTER_COUNT (sizeof importers / sizeof *importers)

// ---- Results ------------------------------------------------------------------------------------
static int add_case(ls_importing *state, const ls_import *import, const ls_case_result *result) {
    int count = state->results->case_count - state->first;
    const char **groups = ls_arena_grow(state->results->arena, (void *)state->groups, count,
                                        &state->group_room, sizeof *groups);
    LS_TRY_MEMORY(groups != NULL);
    state->groups = groups;
    groups[count] = import != NULL ? import->group : NULL;
    return ls_results_add(state->results, result);
}

static int import_result(ls_importing *state, const ls_importer *importer, const char *path,
                         const json_t *entry, size_t index) {
    ls_case_result result = ls_import__case(state, "", path);
    ls_import import = {.dir = state->dir,
                        .arena = state->results->arena,
                        .list = strrchr(path, '/') + 1,
                        .index = index,
                        .options = state->options,
                        .state = state};
    import.name = ls_arena_printf(import.arena, "%s[%zu]", import.list, index);
    result.pass = true;
    state->result = &result;
    state->rest = (ls_results){.arena = import.arena, .command = state->results->command};
    ls_import_unknown_keys(&import.unknown, entry, importer->keys);
    double start = ls_time_now();
    int status = importer->import(&import, entry);
    bool failed = status == LS_ERR_MEMORY || import.unknown.failed;
    if (status != LS_OK) {
        result.pass = false;
        ls_case_result_set_error(&result, import.arena);
        ls_error_clear();
    } else if (import.skip != NULL) {
        result.skipped = true;
        result.skip_reason = ls_arena_strdup(import.arena, import.skip);
    } else {
        ls_case_result_skip_unjudged(&result);
    }
    result.name = import.name;
    result.seconds = ls_time_now() - start;
    bool told = result.class_ != LS_CLASS_ERROR && !result.skipped;
    status = failed ? LS_ERR_MEMORY : add_case(state, &import, &result);
    if (status == LS_OK && told) {
        status = ls_import_untold(&import, "unknown", ls_text_string(&import.unknown));
    }
    ls_text_free(&import.unknown);
    for (int i = 0; i < state->rest.case_count && status == LS_OK; i++) {
        status = add_case(state, NULL, &state->rest.cases[i]);
    }
    return status;
}

// Every result that a file lists.
static int import_list(ls_importing *state, const ls_importer *importer, const char *path,
                       const json_t *root) {
    const json_t *list =
        importer->results != NULL ? json_object_get(root, importer->results) : root;
    if (!json_is_array(list) || json_array_size(list) > RESULTS_MAX) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' does not list results, at most %d", path, RESULTS_MAX);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        LS_TRY(import_result(state, importer, path, json_array_get(list, i), i));
    }
    ls_text unknown = {0};
    if (importer->list_keys != NULL) {
        ls_import_unknown_keys(&unknown, root, importer->list_keys);
    }
    state->rest = (ls_results){.arena = state->results->arena, .command = ""};
    int status = ls_import__not_replayed(state, &state->rest, strrchr(path, '/') + 1, "unknown",
                                         state->dir, ls_text_string(&unknown));
    ls_text_free(&unknown);
    LS_TRY(status);
    return state->rest.case_count > 0 ? add_case(state, NULL, &state->rest.cases[0]) : LS_OK;
}

// ---- The summary --------------------------------------------------------------------------------
static void write_group(ls_text *out, const ls_importing *state, int first, int count) {
    size_t counts[LS_CLASS_COUNT] = {0}, skipped = 0, total = 0;
    const ls_case_result *cases = &state->results->cases[state->first];
    for (int i = first; i < count; i++) {
        if (state->groups[i] != NULL && strcmp(state->groups[i], state->groups[first]) == 0) {
            total++;
            skipped += cases[i].skipped ? 1 : 0;
            counts[cases[i].class_] += cases[i].skipped ? 0 : 1;
        }
    }
    ls_text_printf(out, "%s  %4zu:", state->groups[first], total);
    const char *separator = " ";
    for (int c = 0; c < LS_CLASS_COUNT; c++) {
        if (counts[c] > 0) {
            ls_text_printf(out, "%s%zu %s", separator, counts[c], ls_class_name((ls_class)c));
            separator = ", ";
        }
    }
    if (skipped > 0) {
        ls_text_printf(out, "%s%zu skipped", separator, skipped);
    }
    ls_text_puts(out, "\n");
}

static void write_line(ls_text *out, const char *head, const char *text) {
    if (text != NULL) {
        ls_text_printf(out, "%s%s\n", head, text);
    }
}

static void write_result(ls_text *out, const ls_case_result *result) {
    ls_text_printf(out, "\n%s: %s\n", result->name,
                   result->skipped ? "skipped" : ls_class_name(result->class_));
    const char *why = result->skipped ? result->skip_reason : result->error;
    write_line(out, "  ", why);
    for (int s = 0; s < result->stage_count && !result->skipped; s++) {
        const ls_stage_result *stage = &result->stages[s];
        write_line(out, "  order ", stage->order);
        write_line(out, "  ", stage->divergence);
    }
}

static void write_summary(ls_text *out, const ls_importing *state) {
    int count = state->results->case_count - state->first;
    for (int i = 0; i < count; i++) {
        bool seen = state->groups[i] == NULL;
        for (int before = 0; before < i && !seen; before++) {
            seen = state->groups[before] != NULL &&
                   strcmp(state->groups[before], state->groups[i]) == 0;
        }
        if (!seen) {
            write_group(out, state, i, count);
        }
    }
    for (int i = 0; i < count; i++) {
        const ls_case_result *result = &state->results->cases[state->first + i];
        if (state->groups[i] != NULL && (result->skipped || result->class_ != LS_CLASS_BIT_EXACT)) {
            write_result(out, result);
        }
    }
}

// ---- The folder ---------------------------------------------------------------------------------
static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static bool ends_in(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length > end_length && strcmp(name + length - end_length, end) == 0;
}

static bool lists_results(const char *name) {
    for (size_t i = 0; i < IMPORTER_COUNT; i++) {
        if (fnmatch(importers[i]->list, name, 0) == 0) {
            return true;
        }
    }
    return false;
}

// Whether it is a result that no file lists. Beside a manifest of results, lists are results, too.
static bool is_unnamed(const ls_importing *state, const char *name, bool manifest) {
    bool result = ends_in(name, ".bin") || ends_in(name, ".safetensors") ||
                  (manifest && ends_in(name, ".json") && !lists_results(name));
    for (int i = 0; i < state->named_count && result; i++) {
        result = strcmp(state->named[i], name) != 0;
    }
    return result;
}

static int tell_unnamed(ls_importing *state, struct dirent **entries, int count, bool manifest) {
    ls_text list = {0};
    for (int i = 0; i < count; i++) {
        if (is_unnamed(state, entries[i]->d_name, manifest)) {
            ls_text_printf(&list, "%s%s", list.length > 0 ? ", " : "", entries[i]->d_name);
        }
    }
    if (list.length > 0) {
        ls_text_puts(&list, ": no manifest in the folder names it");
    }
    state->rest = (ls_results){.arena = state->results->arena, .command = ""};
    int status = list.failed ? LS_ERR_MEMORY
                             : ls_import__not_replayed(state, &state->rest, state->dir, "unnamed",
                                                       state->dir, ls_text_string(&list));
    ls_text_free(&list);
    LS_TRY(status);
    return state->rest.case_count > 0 ? add_case(state, NULL, &state->rest.cases[0]) : LS_OK;
}

// Reads a file that may list results. *recording: it is the manifest of one.
static int import_file(ls_importing *state, const char *name, bool *recording) {
    const char *path = ls_arena_printf(state->results->arena, "%s/%s", state->dir, name);
    const ls_importer *importer = NULL;
    json_t *root = NULL;
    LS_TRY(path == NULL ? LS_ERR_MEMORY : ls_json_read(&root, path, JSON_BYTES_MAX));
    *recording = strcmp(name, MANIFEST) == 0 && json_object_get(root, "lockstep_recording") != NULL;
    for (size_t i = 0; i < IMPORTER_COUNT && importer == NULL; i++) {
        bool own = fnmatch(importers[i]->list, name, 0) == 0 && importers[i]->recognise(root);
        importer = own ? importers[i] : NULL;
    }
    int status = LS_OK;
    if (importer != NULL) {
        status = import_list(state, importer, path, root);
    } else if (!*recording) {
        ls_text known = {0};
        for (size_t i = 0; i < IMPORTER_COUNT; i++) {
            bool same = fnmatch(importers[i]->list, name, 0) == 0;
            ls_text_printf(&known, "%s%s", same ? " nor of " : "", same ? importers[i]->of : "");
        }
        status = LS_FAIL(LS_ERR_FORMAT, "'%s' is not the manifest of a recording%s", path,
                         ls_text_string(&known));
        ls_text_free(&known);
    }
    json_decref(root);
    return status;
}

static int import_entries(ls_importing *state, struct dirent **entries, int count,
                          bool *recording) {
    bool manifest = false, ranks = false, other = false;
    for (int i = 0; i < count; i++) {
        manifest = manifest || strcmp(entries[i]->d_name, MANIFEST) == 0;
        ranks = ranks || ls_recording_file_rank(entries[i]->d_name) >= 0;
    }
    if (manifest) {
        LS_TRY(import_file(state, MANIFEST, recording));
    }
    if (ranks && !*recording) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "the folder '%s' holds files of a recording's ranks but no manifest",
                       state->dir);
    }
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, MANIFEST) != 0 && lists_results(name)) {
            LS_TRY(import_file(state, name, &other));
        }
    }
    return *recording ? LS_OK : tell_unnamed(state, entries, count, manifest);
}

int ls_import_dir(ls_results *results, ls_text *summary, bool *recording, const char *dir,
                  const ls_run_options *options) {
    LS_ASSERT(results != NULL && dir != NULL && options->reproduce_of != NULL);
    ls_importing state = {
        .results = results, .options = options, .dir = dir, .first = results->case_count};
    struct dirent **entries = NULL;
    *recording = false;
    int count = scandir(dir, &entries, visible, alphasort);
    if (count < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read the folder '%s': %s", dir,
                       strerror(errno));
    }
    int status = import_entries(&state, entries, count, recording);
    if (summary != NULL && status == LS_OK) {
        write_summary(summary, &state);
    }
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}
