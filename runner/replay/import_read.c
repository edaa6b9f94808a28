// Files, keys and stages of a result, for all importers.
#include "runner/replay/import_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/json.h"

ls_case_result ls_import__case(const ls_importing *state, const char *name, const char *file) {
    return (ls_case_result){
        .name = ls_arena_strdup(state->results->arena, name),
        .file = ls_arena_strdup(state->results->arena, file),
        .backend = ls_backend_kind_sim.name,
        .real = "recording",
        .reproduce = ls_result_command(state->results->arena, state->options->reproduce,
                                       state->options->reproduce_of),
    };
}

int ls_import__not_replayed(const ls_importing *state, ls_results *to, const char *name,
                            const char *part, const char *file, const char *what) {
    if (what[0] == 0) {
        return LS_OK;
    }
    ls_arena *arena = state->results->arena;
    ls_case_result result = ls_import__case(state, "", file);
    result.name = ls_arena_printf(arena, "%s/%s", name, part);
    result.skipped = true;
    result.skip_reason = ls_arena_printf(arena, "not replayed: %.1000s", what);
    result.reproduce = NULL;
    return ls_results_add(to, &result);
}

// Makes room for one more element of an array in an arena.
int ls_import_untold(ls_import *import, const char *part, const char *what) {
    ls_importing *state = import->state;
    return ls_import__not_replayed(state, &state->rest, import->name, part, state->result->file,
                                   what);
}

void ls_import_unknown_keys(ls_text *out, const json_t *object, const char *const *known) {
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

void ls_import_quote(ls_text *out, const char *text) {
    ls_json json;
    ls_json_begin(&json, out, 0);
    ls_json_string(&json, text);
}

bool ls_import_factors(ls_text *out, const json_t *entry, int ranks) {
    const json_t *factors = json_object_get(entry, "factors");
    bool all = json_array_size(factors) == (size_t)ranks;
    ls_text_puts(out, ", factors: [");
    for (size_t k = 0; k < json_array_size(factors); k++) {
        const json_t *factor = json_array_get(factors, k);
        all = all && json_is_number(factor);
        ls_text_printf(out, "%s%.17g", k > 0 ? ", " : "", json_number_value(factor));
    }
    ls_text_puts(out, "]");
    return all;
}

int ls_import_file(const char **path, ls_import *import, const json_t *name) {
    const char *file = json_string_value(name);
    ls_importing *state = import->state;
    *path = NULL;
    if (file == NULL || file[0] == 0 || file[0] == '.' || strpbrk(file, "/\\") != NULL ||
        strlen(file) >= NAME_MAX) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s/%s': entry %zu: file is missing or not a plain name",
                       import->dir, import->list, import->index);
    }
    import->name = import->file = ls_arena_strdup(import->arena, file);
    *path = ls_arena_printf(import->arena, "%s/%s", import->dir, file);
    const char **named = ls_arena_grow(import->arena, (void *)state->named, state->named_count,
                                       &state->named_room, sizeof *named);
    LS_TRY_MEMORY(import->name != NULL && *path != NULL && named != NULL);
    named[state->named_count++] = import->name;
    state->named = named;
    state->result->file = *path;
    return LS_OK;
}

// ---- Running ------------------------------------------------------------------------------------
static int parse(ls_scenario **out, const char *path, const ls_text *text) {
    ls_diagnostics *diagnostics = NULL;
    LS_TRY(text->failed ? LS_ERR_MEMORY : ls_diagnostics_create(&diagnostics, path));
    int status =
        ls_scenario_parse(out, diagnostics, path, ls_text_string(text), text->length, NULL);
    if (status != LS_OK && status != LS_ERR_MEMORY && ls_diagnostics_count(diagnostics) > 0) {
        ls_text errors = {0};
        ls_diagnostics_format(&errors, diagnostics);
        status = LS_FAIL(LS_ERR_FORMAT, "'%s': it does not give a valid scenario:\n%.600s", path,
                         ls_text_string(&errors));
        ls_text_free(&errors);
    }
    ls_diagnostics_free(diagnostics);
    return status;
}

// Makes room for `count` more stages of the case.
static int make_room(ls_import *import, int count) {
    ls_case_result *to = import->state->result;
    ls_stage_result *stages =
        ls_arena_alloc(import->arena, (size_t)to->stage_count + (size_t)count, sizeof *stages);
    LS_TRY_MEMORY(stages != NULL);
    if (to->stage_count > 0) {
        memcpy(stages, to->stages, (size_t)to->stage_count * sizeof *stages);
    }
    to->stages = stages;
    return LS_OK;
}

int ls_import_stage(ls_import *import, const ls_stage_result *stage) {
    ls_case_result *to = import->state->result;
    LS_TRY(make_room(import, 1));
    to->stages[to->stage_count++] = *stage;
    to->pass = to->pass && ls_class_passes(stage->class_);
    return stage->class_ == LS_CLASS_WRONG && stage->divergence == NULL ? LS_ERR_MEMORY : LS_OK;
}

// Adds a run's outcome: the stages that were compared with the other system's, and the oracle's
// stages that fail or differ by design.
static int add_stages(ls_import *import, const ls_import_run *run, const ls_case_result *of) {
    ls_case_result *to = import->state->result;
    LS_TRY(make_room(import, of->stage_count + 1));
    int of_real = 0;
    for (int i = 0; i < of->stage_count; i++) {
        of_real += of->stages[i].judge == LS_JUDGE_REAL;
    }
    for (int i = 0; i < of->stage_count; i++) {
        ls_stage_result stage = of->stages[i];
        if (stage.judge == LS_JUDGE_ORACLE &&
            (stage.class_ == LS_CLASS_UNJUDGED || ls_class_passes(stage.class_)) &&
            stage.class_ != LS_CLASS_BY_DESIGN) {
            continue;
        }
        if (run->stage != NULL) {
            bool alone = stage.judge == LS_JUDGE_REAL && of_real == 1;
            stage.name = alone ? ls_arena_strdup(import->arena, run->stage)
                               : ls_arena_printf(import->arena, "%s, %s", run->stage, stage.name);
        }
        if (stage.order == NULL && run->gave.order != NULL) {
            stage.order = ls_arena_strdup(import->arena, run->gave.order);
        }
        to->stages[to->stage_count++] = stage;
    }
    return LS_OK;
}

int ls_import_run_compared(ls_import *import, const ls_import_run *run) {
    ls_importing *state = import->state;
    ls_case_result *to = state->result;
    const ls_real_source real = {.imported = &run->gave};
    ls_results once = {.arena = import->arena, .command = state->results->command};
    ls_scenario *scenario = NULL;
    int status = parse(&scenario, to->file, run->scenario);
    status = status == LS_OK ? ls_run_compared(&once, scenario, &real, state->options) : status;
    ls_scenario_free(scenario);
    ls_text_free(run->scenario);
    LS_TRY(status);
    const ls_case_result *of = &once.cases[0];
    LS_TRY(add_stages(import, run, of));
    to->pass = to->pass && of->pass;
    to->class_ =
        of->class_ == LS_CLASS_ERROR || of->class_ == LS_CLASS_FINDING ? of->class_ : to->class_;
    to->environment = to->environment || of->environment;
    to->unusable = to->unusable || of->unusable;
    to->error = to->error != NULL ? to->error : of->error;
    if (to->finding_count == 0) {
        to->findings = of->findings;
        to->finding_count = of->finding_count;
    }
    return LS_OK;
}
