// Comparing: the stage outputs of a run with what an oracle demands, and with another run's. Gives
// one ls_stage_result per stage, with the first divergence explained.
#ifndef LS_RUNNER_COMPARE_COMPARE_H
#define LS_RUNNER_COMPARE_COMPARE_H

#include "runner/compare/difference.h"
#include "runner/program/execute.h"
#include "runner/result.h"
#include "runner/scenario/scenario.h"
#include "runner/compare/stages.h"

// Where a stage's first output of its class is: what a debugger is shown. Borrowed from the stores
// that were compared.
typedef struct ls_divergence_place {
    ls_class class_;              // at most LS_CLASS_BIT_EXACT: there is none
    const char *key;              // the output
    const char *table, *feature;  // it is of; NULL: of none
    bool tables, features;        // outputs of other tables, of other features, are as bad
    const ls_stage_entry *entry;  // NULL: the run has none of the key, or has several in one
    ls_dtype dtype;
    int rank;
    size_t element;      // index in both arrays; count where there is no such element
    size_t count;        // elements of ours
    const void *ours;    // [count] of dtype; NULL: the run gave none
    const void *theirs;  // [count] of dtype; NULL: what the oracle expects of the entry, or nothing
} ls_divergence_place;

// Stage results being assembled; everything they point at lives in `arena`.
typedef struct ls_comparison {
    ls_arena *arena;
    bool proves;    // the values are numbers of a field: equal ones are proved
    ls_judge main;  // whose results are named by the stage alone
    bool partial;   // a real run has some of the outputs: what it lacks is not compared
    bool found;     // the same of this run, which does not come to some by what was found in it
    ls_stage_result *stages;
    ls_divergence_place *places;  // [stage_capacity] one per stage
    int stage_count;
    int stage_capacity;
} ls_comparison;

// What the stages of a scenario must give: an oracle where there are tables, else what plain code
// gives for a program. Both NULL: nothing is known.
typedef struct ls_order_search ls_order_search;
typedef struct ls_expectation {
    const ls_scenario_oracle *oracle;
    const ls_stages *expected;
    const ls_order_search *orders;  // of the real run's calls, where they were searched; else NULL
    const ls_stages
        *clean;  // where defects are injected: the simulated run without them; else NULL
} ls_expectation;

// The order that made an output on a rank, where it is proven: an element that differs is wrong
// then, also within its bound. NULL: it is not. (order_search.c)
const char *ls_order_search_proven(const ls_order_search *search, const char *key, int rank);

// Adds, per stage of `run`, how its outputs compare with what is expected. Outputs that are missing
// make their stage wrong, as do those that an oracle does not know; what a program's plain code
// does not say anything about counts as unjudged. `run_name` stands in the texts ("simulated").
int ls_compare_expected(ls_comparison *comparison, const ls_stages *run,
                        const ls_expectation *expectation, const char *run_name);

// Adds, per stage of `run`, how its outputs compare with those of `real`. An element of real may
// differ only where a sum was taken, and then it may lie as far from the exact value as rounding
// takes it.
int ls_compare_runs(ls_comparison *comparison, const ls_stages *run, const ls_stages *real,
                    const ls_expectation *expectation, const char *run_name, const char *real_name);

// Adds, for each of the scenario's `checks.reference`, how the run's output compares with the
// numbers of another system in a file, which may differ as those of a real run may.
int ls_compare_references(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario *scenario, const ls_expectation *expectation);

// Adds, per stage of `run`, its elements as unjudged.
int ls_compare_nothing(ls_comparison *comparison, const ls_stages *run);

// What is expected of one rank's output. Without *allowed every bit counts. LS_ERR_NOT_FOUND:
// nothing is known of it. Free *out with ls_expected_free when done; *allowed points into it.
int ls_comparison__allowed(ls_expected *out, ls_allowance *allowed, bool *sums,
                           const ls_expectation *expectation, const ls_stage_entry *entry,
                           int rank);

// Adds, per stage of `run`, what its steps' oracles say of its outputs. (compare_oracle.c, as the
// next two)
int ls_comparison__oracle(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario_oracle *oracle);
// Whether the explanation of the stage's next wrong output is kept.
bool ls_comparison__explains(const ls_stage_result *stage);
// Notes a wrong output of a stage; the first one's explanation is kept. Frees the text.
void ls_comparison__note_wrong(ls_comparison *comparison, ls_stage_result *stage, ls_text *text);
// An output that one side lacks; of: its stage, table, feature, field and rank.
int ls_comparison__note_absent(ls_comparison *comparison, ls_stage_result *stage,
                               const ls_stage_output *of, ls_text *text);

// The result of a stage by what judges it, made when it is new. NULL: out of memory.
ls_stage_result *ls_comparison__stage(ls_comparison *comparison, ls_judge judge, int reference,
                                      const char *stage);

// Notes where a stage is of a class that is worse than what is noted already.
void ls_comparison__place(ls_comparison *comparison, const ls_stage_result *stage,
                          const ls_divergence_place *place);

// Calls the hooks that debuggers stop at (hooks.h) for stage `index`, if it has a place. oracle:
// whose expectation is shown where a place has none; NULL: none. What was compared must still be
// there.
void ls_comparison_stop(const ls_comparison *comparison, int index,
                        const ls_scenario_oracle *oracle);

// Once all is compared: of a stage with elements within bounds that prove nothing, and none that is
// wrong, the class is unjudged. Of the oracle's, where they are half of what it judges.
void ls_comparison_settle(ls_comparison *comparison);
// The worst class of the stages; unjudged when nothing was compared.
ls_class ls_comparison_class(const ls_comparison *comparison);
// Whether a stage differs in elements that an order of its sums may explain: it is not bit_exact,
// or some lie within a bound that proves nothing.
bool ls_stage_wants_order(const ls_stage_result *stage);

#endif
