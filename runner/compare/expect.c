// Checks that the expected finding or stage verdict appeared.
#include "runner/compare/expect.h"

#include <string.h>

static bool ranks_match(const ls_scenario_expect *expect, const ls_finding *finding) {
    if (expect->ranks.count == 0) {
        return true;
    }
    if (expect->ranks.count != finding->rank_count) {
        return false;
    }
    for (int i = 0; i < finding->rank_count; i++) {
        if (expect->ranks.at[i] != finding->ranks[i]) {
            return false;
        }
    }
    return true;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// A finding that may accompany the expected one of `ranks`.
static bool among(const ls_scenario_expect *expect, const ls_finding *finding) {
    for (int i = 0; i < finding->rank_count && expect->ranks.count > 0; i++) {
        if (ls_int_list_find(&expect->ranks, finding->ranks[i]) < 0) {
            return false;
        }
    }
    for (int i = 0; i < expect->also.count; i++) {
        if (strcmp(expect->also.at[i], ls_finding_name(finding->id)) == 0) {
            return true;
        }
    }
    return finding->id == expect->finding;
}

bool ls_expect_finding(const char **why, const ls_case_result *result,
                       const ls_scenario_expect *expect, ls_arena *arena) {
    bool met = false;
    for (int i = 0; i < result->finding_count; i++) {
        const ls_finding *finding = &result->findings[i];
        if (!among(expect, finding)) {
            *why = ls_arena_printf(arena, "unexpected %s at %s, in addition to or instead of %s",
                                   ls_finding_name(finding->id), finding->where,
                                   ls_finding_name(expect->finding));
            return false;
        }
        met =
            met || (finding->id == expect->finding && ranks_match(expect, finding) &&
                    (expect->where == NULL || ends_with(finding->where, expect->where)) &&
                    (expect->contains == NULL || strstr(finding->text, expect->contains) != NULL));
    }
    if (!met) {
        *why = ls_arena_printf(arena, "the expected %s did not appear%s",
                               ls_finding_name(expect->finding),
                               result->finding_count > 0 ? " as expected" : "");
    }
    return met;
}

static bool same(const char *wanted, const char *name) {
    return wanted == NULL || (name != NULL && strcmp(wanted, name) == 0);
}

static int64_t sample_of(const ls_divergence_place *place, const ls_scenario_oracle *oracle) {
    ls_provenance from = {.sample = -1};
    if (oracle != NULL && place->entry != NULL && place->element < place->count) {
        ls_stage_output output = ls_stage_entry_output(place->entry, place->rank);
        const ls_oracle *of_step = ls_execute_oracle_of(oracle, &output);
        if (ls_oracle_provenance(of_step, &output, place->element, &from) != LS_OK) {
            ls_error_clear();
        }
    }
    return from.sample;
}

static bool listed(const ls_scenario_expect *expect, const char *stage) {
    for (int i = 0; i < expect->stages.count; i++) {
        if (strcmp(expect->stages.at[i], stage) == 0) {
            return true;
        }
    }
    return false;
}

// Whether a failing stage is the expected one, `first` or a later one.
static bool diverges_as_expected(const char **why, const ls_stage_result *stage,
                                 const ls_divergence_place *place, bool first,
                                 const ls_scenario_expect *expect, const ls_scenario_oracle *oracle,
                                 ls_arena *arena) {
    // The real run has the same injected defects: a difference from it is another defect.
    bool may = stage->judge != LS_JUDGE_REAL &&
               (expect->stages.count > 0 ? listed(expect, stage->stage) : first);
    if (!may || stage->class_ != expect->class_) {
        *why = ls_arena_printf(arena, "stage %s is %s, which was not expected", stage->name,
                               ls_class_name(stage->class_));
        return false;
    }
    bool table = same(expect->table, place->table) && (expect->table == NULL || !place->tables);
    bool feature =
        same(expect->feature, place->feature) && (expect->feature == NULL || !place->features);
    if (!table || !feature) {
        *why =
            ls_arena_printf(arena, "stage %s is %s in another %s than expected, too", stage->name,
                            ls_class_name(stage->class_), table ? "feature" : "table");
        return false;
    }
    const char *text = stage->divergence != NULL ? stage->divergence : "";
    if (first && ((expect->sample >= 0 && sample_of(place, oracle) != expect->sample) ||
                  (expect->contains != NULL && strstr(text, expect->contains) == NULL))) {
        *why = ls_arena_printf(arena, "stage %s is %s, but not where or how it was expected",
                               stage->name, ls_class_name(stage->class_));
        return false;
    }
    return true;
}

bool ls_expect_divergence(const char **why, const ls_comparison *comparison, const bool *fails,
                          const ls_scenario_expect *expect, const ls_scenario_oracle *oracle,
                          ls_arena *arena) {
    int found = 0;
    for (int i = 0; i < comparison->stage_count; i++) {
        if (fails[i]) {
            if (!diverges_as_expected(why, &comparison->stages[i], &comparison->places[i],
                                      found == 0, expect, oracle, arena)) {
                return false;
            }
            found += 1;
        }
    }
    for (int k = 0; k < expect->stages.count; k++) {
        bool seen = false;
        for (int i = 0; i < comparison->stage_count; i++) {
            seen = seen ||
                   (fails[i] && strcmp(comparison->stages[i].stage, expect->stages.at[k]) == 0);
        }
        if (!seen) {
            *why = ls_arena_printf(arena, "stage %s is not %s, as was expected",
                                   expect->stages.at[k], ls_class_name(expect->class_));
            return false;
        }
    }
    if (found == 0) {
        *why =
            ls_arena_printf(arena, "the expected %s did not appear", ls_class_name(expect->class_));
    }
    return found > 0;
}
