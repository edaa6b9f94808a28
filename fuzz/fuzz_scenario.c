// Fuzzing the scenario reader: whatever the bytes are, it returns, and either with a scenario or
// with at least one error. Built with libFuzzer it searches; built without, it replays files and
// folders.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    if (ls_diagnostics_create(&diagnostics, "fuzz.yaml") != LS_OK) {
        return 0;
    }
    int status =
        ls_scenario_parse(&scenario, diagnostics, "fuzz.yaml", (const char *)data, size, NULL);
    LS_ASSERT((status == LS_OK) == (scenario != NULL));
    LS_ASSERT(status != LS_OK || ls_diagnostics_count(diagnostics) == 0);
    LS_ASSERT(status != LS_ERR_FORMAT || ls_diagnostics_count(diagnostics) > 0);
    ls_text said = {0};
    ls_diagnostics_format(&said, diagnostics);
    LS_ASSERT(status != LS_ERR_FORMAT || said.length > 0);
    ls_text_free(&said);
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
    return 0;
}
