// Comparing: the stage outputs of a run with what an oracle demands, and with another run's. Gives
// one ls_stage_result per stage, with the first divergence explained.
#ifndef LS_SCENARIOS_RUNNER_COMPARE_H
#define LS_SCENARIOS_RUNNER_COMPARE_H

#include "embedding/oracle.h"
#include "scenarios/runner/result.h"
#include "scenarios/runner/scenario.h"
#include "scenarios/runner/stages.h"

// Where a stage's first output of its class is: what a debugger is shown. Borrowed from the stores
// that were compared.
typedef struct ls_divergence_place {
    ls_class class_;              // LS_CLASS_BIT_EXACT: there is none
    const char *key;              // the output
    const ls_stage_entry *entry;  // NULL: the run has none of the key, or has several in one
    ls_dtype dtype;
    int rank;
    size_t element;      // index in both arrays; count where there is no such element
    size_t count;        // elements of ours
    const void *ours;    // [count] of dtype; NULL: the run gave none
    const void *theirs;  // [count] of dtype; NULL: what the oracle expects of the entry, or nothing
} ls_divergence_place;

// Stage results being put together; everything they point at lives in `arena`.
typedef struct ls_comparison {
    ls_arena *arena;
    ls_stage_result *stages;
    ls_divergence_place *places;  // [stage_capacity] one per stage
    int stage_count;
    int stage_capacity;
} ls_comparison;

// Adds, per stage of `run`, how its outputs compare with the oracle's; names get `prefix`. Outputs
// that are missing, or that nothing demands, make their stage wrong.
int ls_compare_oracle(ls_comparison *comparison, const ls_stages *run, const ls_oracle *oracle,
                      const char *prefix);

// Adds, per stage of `run`, how its outputs compare with those of `real`. An element may differ
// where a sum was taken, by at most the two runs' rounding: bounds of the store, or of the oracle
// (NULL: none). `run_name` and `real_name` stand in the texts ("simulated", "mpi").
int ls_compare_runs(ls_comparison *comparison, const ls_stages *run, const ls_stages *real,
                    const ls_oracle *oracle, const char *run_name, const char *real_name,
                    const char *prefix);

// Adds, per stage of `expected` (what plain code says a program's stages must give, with bounds),
// how the same outputs of `run` compare. Outputs of which nothing is expected are left alone.
int ls_compare_expected(ls_comparison *comparison, const ls_stages *expected, const ls_stages *run,
                        const char *run_name, const char *prefix);

// Adds, for each of the scenario's `checks.reference`, how the run's output compares with the
// numbers of another system in a file. oracle: whose bounds say how far sums may lie apart; NULL:
// not at all.
int ls_compare_references(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario *scenario, const ls_oracle *oracle);

// The result of a stage by its name, made when it is new. NULL: out of memory.
ls_stage_result *ls_comparison__stage(ls_comparison *comparison, const char *prefix,
                                      const char *stage);

// Notes where a stage is of a class that is worse than what is noted already.
void ls_comparison__place(ls_comparison *comparison, const ls_stage_result *stage,
                          const ls_divergence_place *place);

// Calls the hooks that debuggers stop at (hooks.h) for stage `index`, if it has a place. oracle:
// whose expectation is shown where a place has none; NULL: none. What was compared must still be
// there.
void ls_comparison_stop(const ls_comparison *comparison, int index, const ls_oracle *oracle);

// The worst class of the stages; bit_exact when there is none.
ls_class ls_comparison_class(const ls_comparison *comparison);

#endif
