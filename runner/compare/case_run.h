// One case under construction: run.c runs it, simulate.c simulates it, verdict.c judges it. Private
// to them.
#pragma once

#include "runner/compare/compare.h"
#include "runner/compare/order_search.h"
#include "runner/program/execute.h"
#include "runner/launch/injected.h"
#include "runner/launch/real.h"
#include "runner/compare/run.h"

// One case under construction.
typedef struct ls_case_run {
    ls_results *results;
    ls_arena *arena;  // of the results
    const ls_scenario *scenario;
    const ls_run_options *options;
    ls_run_options own;  // storage for `options`
    ls_case_result result;
    ls_comparison comparison;
    ls_scenario_oracle *oracle;  // scenarios with tables
    ls_stages *simulated;
    ls_stages *by_ranks;  // of ranks as threads, for a debugger; NULL: not kept
    ls_stages *expected;  // programs
    ls_stages *clean;     // with injected defects: the run without them
    ls_stages *real;
    ls_stages *reordered;              // the simulation in the orders that were found; NULL: none
    const char *missed;                // the first fault that was not injected, with the reason;
                                       // NULL: none
    ls_call_orders *orders;            // of the real run's calls
    ls_order_search *search;           // of the real run's orders, during the search
    ls_recording *calls, *real_calls;  // of the simulation, and of the real run
    double start_seconds;
    bool record_only;      // nothing is compared
    const char *unjudged;  // the reason why values are not judged; NULL: they are
    ls_injected injected;  // the injected defects that a real run showed
    bool too_few_gpus;     // the real run needs more GPUs than this machine has
} ls_case_run;

void ls_case__add_finding(ls_case_run *run, const ls_finding *finding);
// Whether the run's values are judged: it has no finding, or an expected one that leaves values
// valid.
bool ls_case__values_stand(const ls_case_run *run);
// The reduction order that the simulation is given; NULL: rank order.
const char *ls_case__order(const ls_case_run *run);
// Simulates in this process. expected (NULL: not wanted): gets the expected stages.
int ls_case__simulate(ls_case_run *run, ls_stages *simulated, ls_stages *expected);
// Simulates as the options say. A simulation that is spread over processes leaves a recording,
// which is read; the plain references of its program (run->expected) run in this process.
int ls_case__simulate_spread(ls_case_run *run, ls_stages *simulated);

// The expected stages of the scenario.
ls_expectation ls_case__expectation(const ls_case_run *run);
// Judges a run by the oracle, and by the reference files that the scenario names.
int ls_case__judge(ls_case_run *run, const ls_stages *stages, const char *who);
// Fills in the norms of a trained simulation.
int ls_case__norms(ls_case_run *run);
// Checks that the replicas of data parallel tables are the same on all ranks after each update;
// *found: *out names the first difference.
int ls_case__check_replicas(ls_finding *out, bool *found, const ls_case_run *run,
                            const ls_stages *stages, const char *who);
// Fills in the result's class, verdict and stages, by the scenario's checks or expectations.
void ls_case__decide(ls_case_run *run);
