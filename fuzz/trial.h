// One scenario, tried in one way: run and judged by the oracle, under another order or schedule,
// beside itself in another form (vary.h), or beside real processes.
#pragma once

#include <jansson.h>

#include "runner/compare/run.h"

// How a trial ended, best first.
typedef enum ls_fuzz_end {
    LS_FUZZ_PASSED,
    LS_FUZZ_UNFIT,        // the way does not fit the scenario, or it is none
    LS_FUZZ_NOTHING,      // there was nothing to judge
    LS_FUZZ_FOUND,        // the injected defect is
    LS_FUZZ_HARMLESS,     // the injected defect changes no bit
    LS_FUZZ_ROUNDING,     // ... or no more than rounding may
    LS_FUZZ_MISSED,       // no rank reaches the injected defect
    LS_FUZZ_FAILED,       // it is not as it should be
    LS_FUZZ_ENVIRONMENT,  // no memory, no processes
    LS_FUZZ_END_COUNT
} ls_fuzz_end;

// Plain data: it goes from process to process.
typedef struct ls_fuzz_outcome {
    ls_fuzz_end end;
    ls_class class_;
    bool injected;   // LS_FUZZ_ENVIRONMENT: it has a defect, which may have asked for too much
    char sign[160];  // failure that a smaller scenario must show
    char text[900];  // what is amiss
} ls_fuzz_outcome;

// Ways have numbers from 0; 0 is the plain one.
int ls_fuzz_way_count(void);
const char *ls_fuzz_way_name(int way);
// The command that shows it of a file: words before the file.
const char *ls_fuzz_way_command(int way);
// Whether it needs real processes; whether a scenario with injected defects is tried so.
bool ls_fuzz_way_real(int way);
// Of the ways that are alike, whether case `number` takes this one.
bool ls_fuzz_way_turn(int way, uint32_t number);

// Tries the scenario of the tree; `file` is its name, with the folder of its files.
// options->checkpoint: a name for folders that this may create and removes; NULL: no tables are
// saved. LS_ERR_MEMORY; all else is in *out.
int ls_fuzz_try(ls_fuzz_outcome *out, const json_t *scenario, const char *file, int way,
                const ls_run_options *options);

// The same over a field, as `lockstep prove` does, with injected defects too.
int ls_fuzz_prove(ls_fuzz_outcome *out, const json_t *scenario, const char *file,
                  const ls_run_options *options);

// Parses a tree as its text. LS_ERR_FORMAT: it is no scenario; `errors` (or NULL) has the reason.
int ls_fuzz_parse(ls_scenario **out, const json_t *scenario, const char *file, bool outside,
                  ls_text *errors);
