// Results of a command: created, added to, counted.
#include "runner/result.h"

#include <string.h>

static const struct {
    const char *name;
    bool pass;
} classes[] = {
#define LS_CLASS_ROW(name, text, pass) [name] = {text, pass},
    LS_CLASS_MAP(LS_CLASS_ROW)
#undef LS_CLASS_ROW
};

const char *ls_class_name(ls_class class_) {
    LS_ASSERT((unsigned)class_ < LS_CLASS_COUNT);
    return classes[class_].name;
}

bool ls_class_passes(ls_class class_) {
    LS_ASSERT((unsigned)class_ < LS_CLASS_COUNT);
    return classes[class_].pass;
}

const char *ls_judge_name(ls_judge judge) {
    static const char *const names[LS_JUDGE_COUNT] = {"oracle", "real", "reference"};
    LS_ASSERT((unsigned)judge < LS_JUDGE_COUNT);
    return names[judge];
}

void ls_stage_result_compared(ls_stage_result *stage, uint64_t elements) {
    stage->elements += elements;
    if (elements > 0 && stage->class_ == LS_CLASS_UNJUDGED) {
        stage->class_ = LS_CLASS_BIT_EXACT;
    }
}

void ls_stage_result_distance(ls_stage_result *stage, ls_dtype dtype, uint64_t distance) {
    if (dtype == LS_FIELD) {
        return;
    }
    uint64_t *largest = ls_dtype_is_float(dtype) ? &stage->max_ulps : &stage->max_difference;
    *largest = distance > *largest ? distance : *largest;
}

int ls_results_create(ls_results **out, const char *command) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(command != NULL);
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_results *results = ls_arena_alloc(arena, 1, sizeof *results);
    char *name = ls_arena_strdup(arena, command);
    if (results == NULL || name == NULL) {
        ls_arena_free(arena);
        return ls_error_wrap("results");
    }
    results->arena = arena;
    results->command = name;
    *out = results;
    return LS_OK;
}

void ls_results_free(ls_results *results) {
    if (results != NULL) {
        ls_arena_free(results->arena);
    }
}

static int grow(ls_results *results) {
    LS_ASSERT(results->case_count <= results->case_capacity);
    if (results->case_count < results->case_capacity) {
        return LS_OK;
    }
    if (results->case_capacity > (1 << 29)) {
        return LS_FAIL(LS_ERR_LIMIT, "results: more than %d cases", results->case_capacity);
    }
    int capacity = results->case_capacity == 0 ? 16 : 2 * results->case_capacity;
    ls_case_result *cases = ls_arena_alloc(results->arena, (size_t)capacity, sizeof *cases);
    if (cases == NULL) {
        return ls_error_wrap("results");
    }
    if (results->case_count != 0) {
        memcpy(cases, results->cases, (size_t)results->case_count * sizeof *cases);
    }
    results->cases = cases;
    results->case_capacity = capacity;
    return LS_OK;
}

int ls_results_add(ls_results *results, const ls_case_result *result) {
    LS_ASSERT(results != NULL && result != NULL);
    if (ls_arena_failed(results->arena)) {  // a name, a sentence or a whole finding may be missing
        return LS_FAIL(LS_ERR_MEMORY, "results: out of memory");
    }
    LS_ASSERT(result->name != NULL);
    LS_ASSERT(!result->skipped || result->skip_reason != NULL);
    LS_TRY(grow(results));
    ls_case_result added = *result;
    for (int s = 0; s < added.stage_count; s++) {
        if (added.stages[s].class_ > added.class_) {
            added.class_ = added.stages[s].class_;
        }
    }
    if (added.unproven != NULL && added.pass) {
        added.class_ = LS_CLASS_UNJUDGED;
    }
    if (added.finding_count != 0 && added.class_ < LS_CLASS_FINDING) {
        added.class_ = LS_CLASS_FINDING;
    }
    results->cases[results->case_count++] = added;
    if (added.skipped) {
        results->skipped++;
    } else if (added.pass) {
        results->passed++;
    } else {
        results->failed++;
        results->environment += result->environment ? 1 : 0;
        results->unusable += result->unusable ? 1 : 0;
    }
    LS_ASSERT(results->passed + results->failed + results->skipped == results->case_count);
    return LS_OK;
}

void ls_results_skip(ls_results *results, int index, const char *reason) {
    LS_ASSERT(results != NULL && index >= 0 && index < results->case_count && reason != NULL);
    ls_case_result *added = &results->cases[index];
    if (added->pass && !added->skipped) {
        added->skipped = true;
        added->skip_reason = reason;
        results->passed--;
        results->skipped++;
    }
}

uint64_t ls_case_result_judged(const ls_case_result *result) {
    LS_ASSERT(result != NULL);
    uint64_t judged = 0;
    for (int s = 0; s < result->stage_count; s++) {
        judged += result->stages[s].elements;
    }
    return judged;
}

void ls_case_result_skip_unjudged(ls_case_result *result) {
    if (result->pass && !result->skipped && ls_case_result_judged(result) == 0) {
        result->skipped = true;
        result->skip_reason =
            "nothing was judged: no element of an output was compared with anything";
    }
}

void ls_case_result_set_error(ls_case_result *result, ls_arena *arena) {
    LS_ASSERT(result != NULL && arena != NULL);
    int code = ls_error_last()->code;
    result->class_ = LS_CLASS_ERROR;
    result->error = ls_arena_strdup(arena, ls_error_last()->text);
    bool found = code == LS_ERR_FINDING || code == LS_ERR_MISMATCH || code == LS_ERR_DEADLOCK;
    result->environment = ls_status_is_environment(code) || result->error == NULL;
    result->unusable = !result->environment && !found;
}

const char *ls_result_command(ls_arena *arena, const char *command, const char *file) {
    ls_text text = {.failed = command == NULL};
    ls_text_puts(&text, command != NULL ? command : "");
    ls_text_puts(&text, " ");
    ls_text_shell(&text, file);
    return ls_result_text(arena, &text);
}

const char *ls_result_text(ls_arena *arena, ls_text *text) {
    const char *copy = NULL;
    if (text->failed) {
        ls_arena_fail(arena);
    } else {
        copy = ls_arena_strdup(arena, ls_text_string(text));
    }
    ls_text_free(text);
    return copy;
}

bool ls_results_pass(const ls_results *results) {
    LS_ASSERT(results != NULL);
    return results->failed == 0 && results->passed > 0;
}
