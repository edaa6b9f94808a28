// Scenario files: YAML, the schema, and the checks of meaning. Paths in them do not resolve.
#include "fuzzers.h"
#include "runner/scenario/memory_need.h"
#include "runner/scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    if (ls_diagnostics_create(&diagnostics, "fuzzed.yaml") != LS_OK) {
        return 0;
    }
    int status = ls_scenario_parse(&scenario, diagnostics, "/nowhere/fuzzed.yaml",
                                   (const char *)data, bytes, NULL);
    LS_ASSERT((status == LS_OK) == (scenario != NULL));
    if (status == LS_OK) {
        LS_ASSERT(ls_diagnostics_count(diagnostics) == 0);
        LS_ASSERT(ls_memory_need(scenario) > 0 && ls_memory_need_of_shape(scenario) > 0);
    } else {
        LS_ASSERT(status == LS_ERR_MEMORY || ls_diagnostics_count(diagnostics) > 0);
    }
    ls_text said = {0};
    ls_diagnostics_format(&said, diagnostics);
    LS_ASSERT((said.length > 0) == (ls_diagnostics_count(diagnostics) > 0));
    ls_text_free(&said);
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
    return 0;
}
