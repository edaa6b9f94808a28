// All of torch's results.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/replay/import.h"

// Every case passes, gradients, max_norm and optimizers with it; quantised rows bit for bit.
Test(replay_torch, everything_passes) {
    char dir[4096];
    const char *source = getenv("LOCKSTEP_SOURCE");
    snprintf(dir, sizeof dir, "%s/tests/data/torch_truth", source ? source : ".");
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "replay") == LS_OK);
    const ls_run_options options = {.reproduce = "lockstep replay", .reproduce_of = dir};
    bool recording = true;
    cr_assert(ls_import_dir(results, NULL, &recording, dir, &options) == LS_OK, "%s",
              ls_error_last()->text);
    int gradients = 0;
    int steps = 0;
    for (int i = 0; i < results->case_count; i++) {
        const ls_case_result *result = &results->cases[i];
        for (int s = 0; s < result->stage_count; s++) {
            cr_expect(ls_class_passes(result->stages[s].class_), "%s, %s: %s", result->name,
                      result->stages[s].name, result->stages[s].divergence);
            const char *name = result->stages[s].name;
            bool of_rows = strncmp(name, "gradients", 9) == 0 && strstr(name, "input") == NULL;
            gradients += of_rows ? 1 : 0;
            steps += strstr(result->stages[s].name, ".update") != NULL ? 1 : 0;
        }
        cr_expect(result->skipped || result->pass, "%s: %s", result->name, result->error);
        cr_expect(strstr(result->name, "/unknown") == NULL, "%s", result->name);
        bool rows = strstr(result->name, "quantized_rows") != NULL;
        cr_expect(!result->skipped && (!rows || result->class_ == LS_CLASS_BIT_EXACT), "%s",
                  result->name);
    }
    cr_expect(results->failed == 0);
    cr_expect(results->passed >= 25 + 96 + 6 + 3 + 60, "%d passed", results->passed);
    cr_expect(gradients >= 10 + 48 && steps >= 6 * 3, "%d, %d", gradients, steps);
    fprintf(stderr, "passed %d, skipped %d, failed %d\n", results->passed, results->skipped,
            results->failed);
    ls_results_free(results);
}
