// The least scenario that has a history's finding.
#include "diagnose/extract.h"

#include <string.h>

#include "diagnose/steps.h"
#include "fuzz/shrink.h"
#include "fuzz/trial.h"

#define ASKED_MAX 4000

// Whether a call moves nothing, or is a message of a rank to itself: smaller, and often irrelevant.
static bool is_hollow(const json_t *value) {
    const char *key;
    json_t *member;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (is_hollow(json_array_get(value, i))) {
                return true;
            }
        }
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        const json_t *pair = strcmp(key, "pairs") == 0 ? json_array_get(member, 0) : NULL;
        if ((strcmp(key, "count") == 0 && json_integer_value(member) == 0) ||
            (pair != NULL && json_equal(json_array_get(pair, 0), json_array_get(pair, 1))) ||
            is_hollow(member)) {
            return true;
        }
    }
    return false;
}

static bool has_one_rank(const json_t *scenario) {
    const json_t *shape = json_object_get(json_object_get(scenario, "mesh"), "shape");
    return json_integer_value(json_array_get(shape, 0)) < 2;
}

typedef struct asking {
    const char *finding;
    bool hollow;    // the job's own calls are
    bool one_rank;  // the job has
    int asked;
} asking;

static int has_finding(void *arg, const json_t *scenario, bool *has) {
    asking *ask = arg;
    if ((!ask->hollow && is_hollow(json_object_get(scenario, "program"))) ||
        (!ask->one_rank && has_one_rank(scenario))) {
        *has = false;
        return LS_OK;
    }
    const ls_run_options options = {.shape_only = true, .reproduce = "lockstep run"};
    ls_fuzz_outcome outcome = {.end = LS_FUZZ_UNFIT};
    LS_TRY(ls_fuzz_try(&outcome, scenario, "extracted.yaml", 0, &options));
    ask->asked += outcome.end != LS_FUZZ_UNFIT ? 1 : 0;
    const char *sign = outcome.sign;
    sign += strncmp(sign, "finding ", strlen("finding ")) == 0 ? strlen("finding ") : 0;
    *has = (outcome.end == LS_FUZZ_FOUND || outcome.end == LS_FUZZ_FAILED) &&
           strcmp(sign, ask->finding) == 0;
    return LS_OK;
}

int ls_history_extract(json_t **out, const ls_history *history, ls_finding_id finding,
                       ls_arena *arena) {
    static const uint64_t windows[] = {0, 4, 64, LS_STEPS_WHOLE};
    asking ask = {.finding = ls_finding_name(finding)};
    bool has = false;
    *out = NULL;
    for (size_t w = 0; w < sizeof windows / sizeof *windows && !has; w++) {
        for (int way = 0; way < 2 * LS_STEPS_REST_COUNT && !has; way++) {
            json_t *tree = NULL;
            LS_TRY(ls_steps_make(&tree, history, arena, windows[w],
                                 (ls_steps_rest)(way % LS_STEPS_REST_COUNT),
                                 way >= LS_STEPS_REST_COUNT));
            ask.hollow = is_hollow(json_object_get(tree, "program"));
            ask.one_rank = has_one_rank(tree);
            const int status = tree != NULL ? has_finding(&ask, tree, &has) : LS_OK;
            if (has) {
                *out = tree;
            } else {
                json_decref(tree);
            }
            LS_TRY(status);
        }
    }
    return has ? ls_fuzz_shrink(out, has_finding, &ask, &ask.asked, ASKED_MAX) : LS_OK;
}
