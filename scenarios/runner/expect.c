// Whether the finding that a scenario expects appeared.
#include "scenarios/runner/expect.h"

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
