// Scenarios of thousands of ranks as `lockstep run` runs them, in processor time: a program without
// data, beside ranks that each run; a row-wise table, beside half as many ranks.
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "runner/compare/run.h"
#include "runner/trace/trace.h"

#define STEPS          10
#define STEP           "    - all_reduce: {count: 1048576, op: sum}\n"
#define CLASS_BYTES    200  // of memory that a rank may take for each of its calls
#define SCENARIO_BYTES 1024
#define TURNS          3

// A scenario, and how it is run.
typedef struct crowd {
    const char *name;
    int ranks;
    bool shape_only;
    bool each;         // every rank runs, for a trace
    const char *body;  // of its file, behind the mesh
} crowd;

static int run_as(ls_results *results, const ls_scenario *scenario, const crowd *c) {
    ls_trace *trace = NULL;
    LS_TRY(c->each ? ls_trace_create(&trace, NULL, false) : LS_OK);
    const ls_run_options options = {
        .shape_only = c->shape_only, .trace = trace, .reproduce = "lockstep run"};
    int status = ls_run_simulated(results, scenario, &options);
    ls_trace_free(trace);
    return status;
}

// *out_ms: the processor's time for it. LS_ERR_INVALID: it did not end as it must.
static int run_crowd(double *out_ms, const crowd *c) {
    char text[SCENARIO_BYTES];
    int length = snprintf(text, sizeof text, "lockstep: 1\nname: crowd\nmesh: {shape: [%d]}\n%s",
                          c->ranks, c->body);
    LS_ASSERT(length > 0 && length < (int)sizeof text);
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    ls_results *results = NULL;
    LS_TRY(ls_diagnostics_create(&diagnostics, "crowd.yaml"));
    double start = ls_bench__cpu_ms();
    int status =
        ls_scenario_parse(&scenario, diagnostics, "crowd.yaml", text, (size_t)length, NULL);
    status = status == LS_OK ? ls_results_create(&results, "bench") : status;
    status = status == LS_OK ? run_as(results, scenario, c) : status;
    bool fine = status == LS_OK && results->cases[0].error == NULL &&
                results->cases[0].finding_count == 0 && results->cases[0].skipped == c->shape_only;
    ls_results_free(results);
    *out_ms = ls_bench__cpu_ms() - start;
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
    return status == LS_OK && !fine ? LS_FAIL(LS_ERR_INVALID, "%s: it does not pass", c->name)
                                    : status;
}

static int measure(ls_bench *bench, const crowd *c, const crowd *beside, const char *yardstick,
                   double ratio_limit, double time_ms_limit, uint64_t bytes_limit) {
    ls_bench_row *row = ls_bench__row(bench, "scenarios", c->name);
    if (row == NULL) {
        return LS_OK;
    }
    row->ranks = c->ranks;
    row->repetitions = TURNS;
    row->time_ms_limit = time_ms_limit;
    row->yardstick = yardstick;
    row->ratio_limit = ratio_limit;
    row->memory_bytes_limit = bytes_limit;
    uint64_t before = ls_bench__memory_now();
    ls_bench__memory_reset();
    double times[TURNS], yardsticks[TURNS];
    LS_TRY(run_crowd(&times[0], c));  // warms up: gigabytes are the machine's to find
    uint64_t peak = ls_bench__memory_peak();
    for (int i = 0; i < TURNS; i++) {
        LS_TRY(run_crowd(&times[i], c));
        LS_TRY(run_crowd(&yardsticks[i], beside));
    }
    row->memory_bytes = before != 0 && peak > before ? peak - before : 0;
    row->time_ms = ls_bench__median(times, TURNS);
    row->time_ms_min = times[0];
    row->yardstick_ms = ls_bench__median(yardsticks, TURNS);
    row->ratio = times[0] / yardsticks[0];
    return LS_OK;
}

int ls_bench_suite_scenarios(ls_bench *bench) {
    static const char shape[] =
        "program:\n  steps:\n" STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP;
    static const char row_wise[] =
        "tables: [{name: t, rows: 65536, dim: 16, features: [f], sharding: {type: row_wise}}]\n"
        "inputs: {batch: 2, features: {f: {lengths: {constant: 4}}}}\n"
        "steps: [forward]\n";
    const crowd calls = {
        .name = "calls without data", .ranks = 65536, .shape_only = true, .body = shape};
    const crowd fibers = {
        .name = "ranks", .ranks = 4096, .shape_only = true, .each = true, .body = shape};
    const crowd table = {.name = "row-wise table", .ranks = 4096, .body = row_wise};
    const crowd half = {.name = "half of it", .ranks = 2048, .body = row_wise};
    LS_TRY(measure(bench, &calls, &fibers, "4096 ranks", 1, 10000,
                   (uint64_t)calls.ranks * STEPS * CLASS_BYTES));
    return measure(bench, &table, &half, "2048 ranks", 8, 5000, 0);
}
