// Compares the stage outputs of a run with an oracle and with another run. Each stage gets one
// ls_stage_result, which explains the first difference.
#pragma once

#include "runner/compare/difference.h"
#include "runner/program/execute.h"
#include "runner/result.h"
#include "runner/scenario/scenario.h"
#include "runner/compare/stages.h"

// A stage's first output of its class, for debuggers. Borrowed from the stores that were compared.
typedef struct ls_divergence_place {
    ls_class class_;              // at most LS_CLASS_BIT_EXACT: none
    const char *key;              // the output
    const char *table, *feature;  // its table and feature; NULL: none
    bool tables, features;        // outputs of other tables or features have the same class
    const ls_stage_entry *entry;  // NULL: the run has no such key, or several in one
    ls_dtype dtype;
    int rank;
    size_t element;      // index in both arrays; count: no such element
    size_t count;        // elements of the run's array
    const void *ours;    // [count] of dtype; NULL: the run has no output
    const void *theirs;  // [count] of dtype; NULL: the oracle's expected entry, or none
} ls_divergence_place;

// Stage results under construction; their pointers are into `arena`.
typedef struct ls_comparison {
    ls_arena *arena;
    bool proves;    // values are field elements: equal ones are proved
    ls_judge main;  // results are named by the stage alone
    bool partial;   // a real run may lack outputs; these are not compared
    bool found;     // likewise for this run, which may end early because of a finding
    ls_stage_result *stages;
    ls_divergence_place *places;  // [stage_capacity] one for each stage
    int stage_count;
    int stage_capacity;
} ls_comparison;

// The expected stages of a scenario: an oracle for tables, stages of plain code for a program. Both
// NULL: none.
typedef struct ls_order_search ls_order_search;
typedef struct ls_expectation {
    const ls_scenario_oracle *oracle;
    const ls_stages *expected;
    const ls_order_search *orders;  // orders of the real run's calls, if they were searched; else
                                    // NULL
    const ls_stages *clean;  // the simulated run without injected defects; NULL: none are injected
} ls_expectation;

// The proven order of an output on a rank: an element that differs is wrong even within its bound.
// NULL: not proven. (order_search.c)
const char *ls_order_search_proven(const ls_order_search *search, const char *key, int rank);

// Compares the outputs of each stage of `run` with the expected ones and adds the results. A stage
// is wrong if an output is missing or if an oracle does not know it. An output of a program without
// an expected value is unjudged. `run_name` appears in texts ("simulated").
int ls_compare_expected(ls_comparison *comparison, const ls_stages *run,
                        const ls_expectation *expectation, const char *run_name);

// Compares the outputs of each stage of `run` with those of `real` and adds the results. An element
// of real may differ only after a sum, and only by the bound of its rounding.
int ls_compare_runs(ls_comparison *comparison, const ls_stages *run, const ls_stages *real,
                    const ls_expectation *expectation, const char *run_name, const char *real_name);

// For each `checks.reference` of the scenario: compares the run's output with another system's
// numbers in a file. They may differ as a real run's may.
int ls_compare_references(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario *scenario, const ls_expectation *expectation);

// Adds each stage of `run` as unjudged.
int ls_compare_nothing(ls_comparison *comparison, const ls_stages *run);

// The expected value of one rank's output. *allowed NULL: every bit counts. LS_ERR_NOT_FOUND:
// unknown. The caller frees *out with ls_expected_free; *allowed points into it.
int ls_comparison__allowed(ls_expected *out, ls_allowance *allowed, bool *sums,
                           const ls_expectation *expectation, const ls_stage_entry *entry,
                           int rank);

// Compares each stage of `run` with the oracles of its steps. (compare_oracle.c, as the next two)
int ls_comparison__oracle(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario_oracle *oracle);
// Whether to explain the stage's next wrong output.
bool ls_comparison__explains(const ls_stage_result *stage);
// Records a wrong output of a stage; the first one's explanation is kept. Frees the text.
void ls_comparison__note_wrong(ls_comparison *comparison, ls_stage_result *stage, ls_text *text);
// Records an output that one side lacks; of: its stage, table, feature, field and rank.
int ls_comparison__note_absent(ls_comparison *comparison, ls_stage_result *stage,
                               const ls_stage_output *of, ls_text *text);

// The result of a stage and judge; created if it is new. NULL: out of memory.
ls_stage_result *ls_comparison__stage(ls_comparison *comparison, ls_judge judge, int reference,
                                      const char *stage);

// Records the place of a stage's class if it is worse than the recorded one.
void ls_comparison__place(ls_comparison *comparison, const ls_stage_result *stage,
                          const ls_divergence_place *place);

// Calls the debugger hooks (hooks.h) for stage `index`, if its place is recorded. oracle: supplies
// the expected value if the place has none; NULL: none. The compared stores must still exist.
void ls_comparison_stop(const ls_comparison *comparison, int index,
                        const ls_scenario_oracle *oracle);

// After all comparisons: a stage is unjudged if bounds that prove nothing cover some of its
// elements and none is wrong. For the oracle, if they cover half of what it judges.
void ls_comparison_settle(ls_comparison *comparison);
// The worst class of the stages; unjudged if nothing was compared.
ls_class ls_comparison_class(const ls_comparison *comparison);
// Whether an order of its sums may explain the stage's differences: it is not bit_exact, or some
// elements are within a bound that proves nothing.
bool ls_stage_wants_order(const ls_stage_result *stage);
