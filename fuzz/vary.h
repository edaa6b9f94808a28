// A scenario beside itself in another form that must give the same: its tables cut otherwise, in
// another order or on fewer ranks, and its checkpoint cut up by another plan and back.
#pragma once

#include <jansson.h>

#include "runner/compare/run.h"

typedef enum ls_fuzz_variation {
    LS_FUZZ_SHARDED,   // all tables by another type
    LS_FUZZ_REVERSED,  // the tables in the opposite order
    LS_FUZZ_FEWER,     // on fewer ranks, each of which has what it had
} ls_fuzz_variation;

// The tree of the other form of `scenario`, whose tree is `tree`; *out NULL: there is none. type:
// of LS_FUZZ_SHARDED. LS_ERR_MEMORY.
int ls_fuzz_vary(json_t **out, const json_t *tree, const ls_scenario *scenario,
                 ls_fuzz_variation variation, const char *type);
// Runs the other form, judged by its own oracle and by what `scenario` gives as well: what each
// sample gets in the first step, and the whole of a program's tensors. *fits: there is such a form,
// and it was run.
int ls_fuzz_run_varied(ls_results *results, bool *fits, const json_t *tree,
                       const ls_scenario *scenario, ls_fuzz_variation variation, const char *type,
                       const ls_run_options *options);
// Runs the scenario, saves its tables, cuts them up by another plan for as many or fewer ranks, and
// that by its own again: byte for byte the same files. options->checkpoint: names the folders,
// which are removed.
int ls_fuzz_run_resharded(ls_results *results, bool *fits, const json_t *tree,
                          const ls_scenario *scenario, const ls_run_options *options);
