// Whether what a scenario expects appeared: a finding, or a verdict of a stage.
#include "scenarios/runner/expect.h"

#include <stdio.h>
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

bool ls_expect_finding(const ls_case_result *result, const ls_scenario_expect *expect) {
    for (int i = 0; i < result->finding_count; i++) {
        const ls_finding *finding = &result->findings[i];
        if (finding->id == expect->finding && ranks_match(expect, finding) &&
            (expect->where == NULL || ends_with(finding->where, expect->where)) &&
            (expect->contains == NULL || strstr(finding->text, expect->contains) != NULL)) {
            return true;
        }
    }
    return false;
}

static bool mentions(const char *text, const char *word, const char *name) {
    char wanted[160];
    (void)snprintf(wanted, sizeof wanted, "%s %s", word, name);
    return strstr(text, wanted) != NULL;
}

bool ls_expect_divergence(const ls_comparison *comparison, const ls_scenario_expect *expect) {
    for (int i = 0; i < comparison->stage_count; i++) {
        const ls_stage_result *stage = &comparison->stages[i];
        if (stage->class_ != expect->class_) {
            continue;
        }
        const char *text = stage->divergence != NULL ? stage->divergence : "";
        char sample[32];
        (void)snprintf(sample, sizeof sample, "%lld", (long long)expect->sample);
        if ((expect->table == NULL || mentions(text, "table", expect->table)) &&
            (expect->feature == NULL || mentions(text, "feature", expect->feature)) &&
            (expect->sample < 0 || mentions(text, "sample", sample)) &&
            (expect->contains == NULL || strstr(text, expect->contains) != NULL)) {
            return true;
        }
    }
    return false;
}
