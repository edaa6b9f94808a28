// All of torch's results, where they lie beside the project.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "scenarios/runner/replay_torch.h"

// Every case without max_norm passes; optimizers, quantised rows and max_norm alone are skipped.
Test(replay_torch, everything_passes) {
    char dir[4096];
    const char *shared = getenv("LOCKSTEP_SHARED");
    snprintf(dir, sizeof dir, "%s/torch_truth", shared ? shared : "");
    if (!shared || !ls_replay_torch_recognises(dir)) {
        cr_skip_test("no torch_truth");
    }
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "replay") == LS_OK);
    cr_assert(ls_replay_torch(results, dir) == LS_OK, "%s", ls_error_last()->text);
    for (int i = 0; i < results->case_count; i++) {
        const ls_case_result *result = &results->cases[i];
        for (int s = 0; s < result->stage_count; s++) {
            cr_expect(ls_class_passes(result->stages[s].class_), "%s, %s: %s", result->name,
                      result->stages[s].name, result->stages[s].divergence);
        }
        cr_expect(result->skipped || result->pass, "%s: %s", result->name, result->error);
    }
    cr_expect(results->failed == 0);
    cr_expect(results->passed >= 10 + 48 + 60, "%d passed", results->passed);
    fprintf(stderr, "passed %d, skipped %d, failed %d\n", results->passed, results->skipped,
            results->failed);
    ls_results_free(results);
}
