// Compares a recording's scenario and calls with the simulated ones.
#include "runner/compare/recorded.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/scenario/scenario_meaning.h"

// ---- The scenario -------------------------------------------------------------------------------
static int parse(ls_scenario **out, const ls_recording_info *about, const char *path,
                 bool allow_outside) {
    const ls_scenario_options options = {
        .allow_outside = allow_outside, .has_seed = true, .seed = about->seed};
    ls_diagnostics *diagnostics = NULL;
    LS_TRY(ls_diagnostics_create(&diagnostics, path));
    int status = ls_scenario_parse(out, diagnostics, path, about->scenario, strlen(about->scenario),
                                   &options);
    if (status != LS_OK && status != LS_ERR_MEMORY && ls_diagnostics_count(diagnostics) > 0) {
        ls_text text = {0};
        ls_diagnostics_format(&text, diagnostics);
        status = LS_FAIL(LS_ERR_FORMAT, "the recorded scenario cannot be used:\n%.600s",
                         ls_text_string(&text));
        ls_text_free(&text);
    }
    ls_diagnostics_free(diagnostics);
    return status;
}

int ls_recorded_scenario(ls_scenario **out, const ls_recording *recording, const char *dir,
                         bool allow_outside) {
    *out = NULL;
    const ls_recording_info *about = ls_recording_about(recording);
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/" LS_RECORDING_INPUTS "/scenario.yaml", dir);
    if (length < 0 || (size_t)length >= sizeof path) {
        return LS_FAIL(LS_ERR_LIMIT, "the path \"%.200s...\" is too long", dir);
    }
    if (access(path, F_OK) != 0) {
        (void)snprintf(path, sizeof path, "%s/scenario.yaml", dir);
    }
    if (about->scenario == NULL) {
        return LS_FAIL(LS_ERR_FORMAT, "the recording in \"%s\" does not hold its scenario", dir);
    }
    LS_TRY(parse(out, about, path, allow_outside));
    int status = LS_OK;
    if ((*out)->ranks != about->ranks) {
        status = LS_FAIL(LS_ERR_FORMAT, "the recording in \"%s\" has %d ranks, its scenario %d",
                         dir, about->ranks, (*out)->ranks);
    } else if (strcmp((*out)->name, about->name) != 0) {
        status = LS_FAIL(LS_ERR_FORMAT,
                         "the recording in \"%s\" is called \"%.100s\", its scenario \"%.100s\"",
                         dir, about->name, (*out)->name);
    }
    if (status != LS_OK) {
        ls_scenario_free(*out);
        *out = NULL;
    }
    return status;
}

// The first line that differs; false: none.
static bool first_difference(const char **a, int *a_length, const char **b, int *b_length) {
    for (;;) {
        size_t x = strcspn(*a, "\n"), y = strcspn(*b, "\n");
        if (x != y || memcmp(*a, *b, x) != 0) {
            *a_length = x < INT_MAX ? (int)x : INT_MAX;
            *b_length = y < INT_MAX ? (int)y : INT_MAX;
            return true;
        }
        if ((*a)[x] == 0) {
            return false;
        }
        *a += x + 1;
        *b += y + 1;
    }
}

static int compare_meanings(const char *dir, const ls_scenario *recorded,
                            const ls_scenario *scenario) {
    enum { SHOWN = 160 };
    ls_text theirs = {0}, ours = {0};
    int status = ls_scenario_meaning(&theirs, recorded);
    status = status == LS_OK ? ls_scenario_meaning(&ours, scenario) : status;
    const char *a = ls_text_string(&theirs), *b = ls_text_string(&ours);
    int x = 0, y = 0;
    if (status == LS_OK && first_difference(&a, &x, &b, &y)) {
        status = LS_FAIL(LS_ERR_FORMAT,
                         "the recording in \"%s\" is of another scenario: it has %.*s; this one "
                         "has %.*s",
                         dir, x < SHOWN ? x : SHOWN, x > 0 ? a : "-", y < SHOWN ? y : SHOWN,
                         y > 0 ? b : "-");
    }
    ls_text_free(&theirs);
    ls_text_free(&ours);
    return status;
}

int ls_recorded_check(const ls_recording *recording, const char *dir, const ls_scenario *scenario,
                      bool allow_outside) {
    ls_scenario *recorded = NULL;
    LS_TRY(ls_recorded_scenario(&recorded, recording, dir, allow_outside));
    int status = compare_meanings(dir, recorded, scenario);
    ls_scenario_free(recorded);
    return status;
}

// ---- Calls --------------------------------------------------------------------------------------
int ls_recorded_watch(ls_recording_writer **out, ls_backend *backend, const ls_scenario *scenario) {
    const ls_recording_info info = {.name = scenario->name, .ranks = scenario->ranks};
    LS_TRY(ls_recording_writer_create(out, "", backend->world, &info));
    backend->observer = ls_recording_writer_observe;
    backend->observer_arg = *out;
    return LS_OK;
}

int ls_recorded_calls(ls_recording **out, ls_recording_writer *writer, int status) {
    status = status == LS_OK ? ls_recording_writer_calls(out, writer) : status;
    ls_recording_writer_free(writer);
    return status;
}

int ls_recorded_compare_calls(ls_comparison *comparison, const ls_recording *simulated,
                              const ls_recording *recorded) {
    ls_text text = {0};
    ls_call_difference difference;
    ls_recording_compare_calls(&difference, &text, simulated, recorded);
    int status = LS_OK;
    if (difference.differing > 0) {
        // A number distinguishes it from a step of that name.
        ls_stage_result *stage = ls_comparison__stage(comparison, LS_JUDGE_REAL, 1, "calls");
        const char *told = ls_result_text(comparison->arena, &text);
        status = stage != NULL && told != NULL ? LS_OK : LS_ERR_MEMORY;
        if (status == LS_OK) {
            stage->class_ = LS_CLASS_WRONG;
            stage->elements += difference.calls;
            stage->differing += difference.differing;
            stage->divergence = told;
        }
    }
    ls_text_free(&text);
    return status;
}
