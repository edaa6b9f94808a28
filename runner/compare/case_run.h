// One case while it is assembled: shared by run.c, which runs it, simulate.c, which simulates
// it, and verdict.c, which judges it. Private to them.
#ifndef LS_RUNNER_COMPARE_CASE_RUN_H
#define LS_RUNNER_COMPARE_CASE_RUN_H

#include "runner/compare/compare.h"
#include "runner/compare/order_search.h"
#include "runner/program/execute.h"
#include "runner/launch/planted.h"
#include "runner/launch/real.h"
#include "runner/compare/run.h"

// One case being assembled.
typedef struct ls_case_run {
    ls_results *results;
    ls_arena *arena;  // the results'
    const ls_scenario *scenario;
    const ls_run_options *options;
    ls_run_options own;  // what `options` points to
    ls_case_result result;
    ls_comparison comparison;
    ls_scenario_oracle *oracle;  // scenarios with tables
    ls_stages *simulated;
    ls_stages *by_ranks;  // of ranks as threads, for a debugger; NULL: not kept
    ls_stages *expected;  // programs
    ls_stages *clean;     // where defects are injected: the same without them
    ls_stages *real;
    ls_stages *reordered;              // the simulation in the orders that were found; NULL: none
    const char *missed;                // the first fault that was not injected, and why; NULL: none
    ls_call_orders *orders;            // of the real run's calls
    ls_order_search *search;           // of the real run's orders, while it goes on
    ls_recording *calls, *real_calls;  // of the simulation, and of the real run
    double start_seconds;
    bool record_only;      // nothing is compared
    const char *unjudged;  // why nothing is judged where nothing was found; NULL: it is
    ls_planted planted;    // what a real run showed of injected defects
    bool too_few_gpus;     // the real run needs more than this machine has
} ls_case_run;

void ls_case__add_finding(ls_case_run *run, const ls_finding *finding);
// Whether the run's values are judged: nothing is found, or what is, and is to be, spares them.
bool ls_case__values_stand(const ls_case_run *run);
// The order of reductions that is stated for the simulation; NULL: rank order.
const char *ls_case__order(const ls_case_run *run);
// Simulates in this process; expected (NULL: not wanted): what stages must give.
int ls_case__simulate(ls_case_run *run, ls_stages *simulated, ls_stages *expected);
// Simulates as the options say: spread over processes, whose recording it reads, and the plain
// references of a program (run->expected) in this one; or all of it here.
int ls_case__simulate_spread(ls_case_run *run, ls_stages *simulated);

// What the stages of the scenario must give.
ls_expectation ls_case__expectation(const ls_case_run *run);
// Judges what a run gave by the oracle, and by the numbers of other systems that the scenario
// names.
int ls_case__judge(ls_case_run *run, const ls_stages *stages, const char *who);
// Fills in the norms of what a simulation trained.
int ls_case__norms(ls_case_run *run);
// Whether the replicas of a run's data parallel tables are the same on all ranks after each update;
// *found: *out says where not first.
int ls_case__check_replicas(ls_finding *out, bool *found, const ls_case_run *run,
                            const ls_stages *stages, const char *who);
// Fills in the result's class, verdict and stages: whether what the scenario demands, or expects,
// is what came.
void ls_case__decide(ls_case_run *run);

#endif
