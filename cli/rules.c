// The table of sharding rules: starts the Python package's driver and reports its summary.
#include "cli/rules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/python.h"
#include "formats/json_read.h"
#include "process/reaper.h"

#define SUMMARY_BYTES_MAX ((size_t)256 << 20)
#define WORDS_MAX         32
#define NO_MODULE         4  // the driver's exit code where Python lacks a package

bool cli_rules_given(const cli_rules *given) {
    return given->only != NULL || given->results != NULL || given->against != NULL ||
           given->programs != NULL || given->python != NULL || given->sample != 0 ||
           given->resume || given->quick;
}

// ---- The driver ---------------------------------------------------------------------------------
// The driver's words; those of the options are borrowed.
static void words_of(const char *words[WORDS_MAX], const cli_rules *given, const char *results,
                     const char *summary, char seed[32]) {
    int count = 0;
    const char *fixed[] = {"lockstep.rules", given->subject, "--results",
                           results,          "--summary",    summary};
    const char *pairs[][2] = {
        {"--only", given->only}, {"--against", given->against}, {"--programs", given->programs}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        words[count++] = fixed[i];
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i][1] != NULL) {
            words[count++] = pairs[i][0];
            words[count++] = pairs[i][1];
        }
    }
    static char sample[32];
    (void)snprintf(sample, sizeof sample, "%d", given->sample);
    words[count++] = "--sample";
    words[count++] = sample;
    (void)snprintf(seed, 32, "%llu", (unsigned long long)cli_options_common.seed);
    words[count++] = "--seed";
    words[count++] = seed;
    if (given->resume) {
        words[count++] = "--resume";
    }
    if (given->quick) {
        words[count++] = "--quick";
    }
    if (!cli_options_common.quiet) {
        words[count++] = "--progress";
    }
    words[count] = NULL;
}

// Runs the driver. Returns an exit code of ours.
static int drive(const cli_rules *given, const char *results, const char *summary) {
    const char *words[WORDS_MAX];
    char seed[32];
    words_of(words, given, results, summary, seed);
    (void)setenv("PYTHONHASHSEED", "0", 0);  // OpInfo draws samples from sets of strings
    const int code = cli_python_run(given->python, words);
    if (code == LS_EXIT_OK || code == LS_EXIT_USAGE) {
        return code;
    }
    if (code > LS_EXIT_OK && code != NO_MODULE) {
        cli_error("the driver of the table ended with exit code %d", code);
    }
    return LS_EXIT_ENVIRONMENT;
}

// ---- The report ---------------------------------------------------------------------------------
static const char *text_of(ls_arena *arena, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return ls_arena_strdup(arena, text != NULL ? text : "");
}

static uint64_t count_of(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *reproduce(ls_arena *arena, const cli_rules *given, const char *name) {
    ls_text text = {0};
    ls_text_printf(&text, "lockstep prove --rules %s", given->subject);
    ls_text_puts(&text, given->quick ? " --quick" : "");
    if (given->python != NULL) {
        ls_text_puts(&text, " --python ");
        ls_text_shell(&text, given->python);
    }
    if (cli_options_common.seed_given) {
        ls_text_printf(&text, " --seed %llu", (unsigned long long)cli_options_common.seed);
    }
    ls_text_puts(&text, " --only ");
    ls_text_shell(&text, name);
    return ls_result_text(arena, &text);
}

static ls_class class_of(const json_t *object, uint64_t wrong) {
    if (wrong > 0) {
        return LS_CLASS_WRONG;
    }
    return count_of(object, "rounded") > 0 ? LS_CLASS_WITHIN_BOUND : LS_CLASS_BIT_EXACT;
}

// A case for an operator: its combinations are the elements of a stage, and those that hang the
// elements of another.
static int add_case(ls_results *results, const cli_rules *given, const json_t *object) {
    ls_arena *arena = results->arena;
    const uint64_t wrong = count_of(object, "wrong"), hung = count_of(object, "hung");
    const uint64_t judged = count_of(object, "right") + wrong;
    ls_stage_result *stages = ls_arena_alloc(arena, 2, sizeof *stages);
    const char *text = text_of(arena, object, "text"), *name = text_of(arena, object, "name"),
               *reason = text_of(arena, object, "refusal");
    LS_TRY_MEMORY(stages != NULL && text != NULL && name != NULL && reason != NULL);
    int count = 0;
    memset(stages, 0, 2 * sizeof *stages);
    if (judged > 0 || hung == 0) {
        stages[count++] = (ls_stage_result){.name = "combinations",
                                            .stage = "combinations",
                                            .class_ = class_of(object, wrong),
                                            .elements = judged,
                                            .differing = wrong,
                                            .divergence = wrong > 0 ? text : NULL};
    }
    if (hung > 0) {
        stages[count++] = (ls_stage_result){.name = "combinations that hang",
                                            .stage = "hangs",
                                            .class_ = LS_CLASS_WRONG,
                                            .elements = hung,
                                            .differing = hung,
                                            .divergence = wrong > 0 ? NULL : text};
    }
    const bool refused = judged + hung == 0;
    const unsigned long long refusals = count_of(object, "refused");
    const char *note = NULL;
    if (refusals != 0) {
        note = ls_arena_printf(arena, "%llu combinations are refused%s%s", refusals,
                               *reason != 0 ? ", the first: " : "", reason);
    }
    ls_case_result row = {.name = name,
                          .file = given->subject,
                          .pass = wrong + hung == 0,
                          .class_ = LS_CLASS_UNJUDGED,
                          .stages = stages,
                          .stage_count = refused ? 0 : count,
                          .skipped = refused,
                          .skip_reason = refused ? "every combination is refused" : NULL,
                          .note = note,
                          .reproduce = reproduce(arena, given, name)};
    return ls_results_add(results, &row);
}

// The case of the differences from an earlier table: it fails where results are newly wrong.
static int add_comparison(ls_results *results, const cli_rules *given, const json_t *object) {
    ls_arena *arena = results->arena;
    const uint64_t fresh = count_of(object, "new"), mended = count_of(object, "mended");
    ls_stage_result *stage = ls_arena_alloc(arena, 1, sizeof *stage);
    const char *text = text_of(arena, object, "text");
    LS_TRY_MEMORY(stage != NULL && text != NULL);
    *stage = (ls_stage_result){.name = "combinations of both tables",
                               .stage = "against",
                               .judge = LS_JUDGE_REFERENCE,
                               .class_ = fresh > 0 ? LS_CLASS_WRONG : LS_CLASS_BIT_EXACT,
                               .elements = count_of(object, "both"),
                               .differing = fresh,
                               .divergence = fresh > 0 ? text : NULL};
    ls_case_result row = {.name = "newly wrong results",
                          .file = given->against,
                          .pass = fresh == 0,
                          .class_ = LS_CLASS_UNJUDGED,
                          .stages = stage,
                          .stage_count = 1,
                          .note = ls_arena_printf(arena, "%llu results are mended, %llu changed",
                                                  (unsigned long long)mended,
                                                  (unsigned long long)count_of(object, "changed")),
                          .reproduce = reproduce(arena, given, "*")};
    return ls_results_add(results, &row);
}

static int report(const cli_rules *given, const char *path) {
    json_t *summary = NULL;
    ls_results *results = NULL;
    int status = ls_json_read(&summary, path, SUMMARY_BYTES_MAX);
    status = status == LS_OK ? ls_results_create(&results, "prove") : status;
    const json_t *cases = json_object_get(summary, "cases"),
                 *against = json_object_get(summary, "against"),
                 *notes = json_object_get(summary, "notes");
    for (size_t i = 0; status == LS_OK && i < json_array_size(cases); i++) {
        status = add_case(results, given, json_array_get(cases, i));
    }
    if (status == LS_OK && json_is_object(against)) {
        status = add_comparison(results, given, against);
    }
    for (size_t i = 0; status == LS_OK && i < json_array_size(notes); i++) {
        cli_note("%s", json_string_value(json_array_get(notes, i)));
    }
    const int code = status == LS_OK ? cli_report(results) : cli_fail(status);
    ls_results_free(results);
    json_decref(summary);
    return code;
}

int cli_rules_run(const cli_rules *given) {
    char results[PATH_MAX + 32], summary[PATH_MAX + 32];
    if (strcmp(given->subject, "dtensor") != 0 && strcmp(given->subject, "torchrec") != 0) {
        cli_error("--rules takes dtensor or torchrec, not '%s'", given->subject);
        return LS_EXIT_USAGE;
    }
    if (given->resume && given->results == NULL) {
        cli_error("--resume continues the file of --results; name it");
        return LS_EXIT_USAGE;
    }
    ls_reaper reaper = {.pid = 0};
    int status = ls_reaper_make(&reaper, NULL);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    (void)snprintf(results, sizeof results, "%s/results.jsonl", reaper.dir);
    (void)snprintf(summary, sizeof summary, "%s/summary.json", reaper.dir);
    int code = drive(given, given->results != NULL ? given->results : results, summary);
    code = code == LS_EXIT_OK ? report(given, summary) : code;
    ls_reaper_remove(&reaper);
    return code;
}
