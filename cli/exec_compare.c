// `lockstep exec --compare`: both runs of a program, and each call of the second.
#include "cli/exec_compare.h"

#include "runner/replay/import.h"

// The first call that fails, of the cases from `first` on.
static void tell_first(ls_text *summary, const ls_results *results, int first) {
    for (int i = first; i < results->case_count; i++) {
        const ls_case_result *of = &results->cases[i];
        if (!of->pass && !of->skipped && of->stage_count > 0) {
            ls_text_printf(summary, "the first call that is not within its bound: %s, %s\n",
                           of->name, of->stages[0].name);
            return;
        }
    }
}

int cli_exec_compare(ls_results *results, ls_text *summary, const ls_exec_runs *runs,
                     const ls_run_options *how) {
    LS_ASSERT(results != NULL && summary != NULL && results->case_count >= 2);
    const int first = results->case_count - 2;
    uint64_t compared = 0;
    bool recording = false;
    LS_TRY(ls_exec_runs_compare(results, summary, &compared, runs));
    const int calls = results->case_count;
    if (how != NULL) {
        LS_TRY(ls_import_dir(results, summary, &recording, runs->second, how));
        tell_first(summary, results, calls);
    }
    for (int i = first; i < first + 2 && compared == 0; i++) {  // that both ended is no comparison
        ls_results_skip(results, i, "no data was compared");
    }
    return LS_OK;
}
