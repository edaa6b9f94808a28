// Runs scenarios and puts the outcome into results: simulate, judge, compare, meet expectations.
#include "scenarios/runner/run.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "scenarios/runner/compare.h"
#include "scenarios/runner/execute.h"
#include "scenarios/runner/expect.h"
#include "scenarios/runner/planted.h"
#include "scenarios/runner/program.h"
#include "scenarios/runner/real.h"
#include "scenarios/runner/trace.h"

#define EXPLAIN_BYTES_MAX ((size_t)64 << 20)  // stage outputs past which orders are not searched

// One case being put together.
struct case_run {
    ls_results *results;
    ls_arena *arena;  // the results'
    const ls_scenario *scenario;
    const ls_run_options *options;
    ls_case_result result;
    ls_comparison comparison;
    ls_scenario_oracle *oracle;  // scenarios with tables
    ls_stages *simulated;
    ls_stages *expected;  // programs
    ls_stages *real;
    ls_call_orders *orders;  // of the real run's calls
    double start_seconds;
    bool record_only;    // nothing is compared
    ls_planted planted;  // what a real run showed of planted defects
    bool too_few_gpus;   // the real run needs more than this machine has
};

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void begin(struct case_run *run, ls_results *results, const ls_scenario *scenario,
                  const ls_run_options *options, const char *backend, const char *real) {
    *run = (struct case_run){
        .results = results,
        .arena = results->arena,
        .scenario = scenario,
        .options = options,
        .comparison = {.arena = results->arena},
        .start_seconds = now_seconds(),
        .result =
            {
                .name = ls_arena_strdup(results->arena, scenario->name),
                .not_run = ls_scenario_not_run(scenario),
                .file = ls_arena_strdup(results->arena, scenario->file),
                .backend = backend,
                .real = real,
                .class_ = LS_CLASS_BIT_EXACT,
                .reproduce =
                    ls_arena_printf(results->arena, "%s %s", options->reproduce, scenario->file),
            },
    };
}

static void add_finding(struct case_run *run, const ls_finding *finding) {
    ls_finding *findings =
        ls_arena_alloc(run->arena, (size_t)run->result.finding_count + 1, sizeof *findings);
    if (findings == NULL) {
        return;
    }
    if (run->result.finding_count > 0) {
        memcpy(findings, run->result.findings,
               (size_t)run->result.finding_count * sizeof *findings);
    }
    findings[run->result.finding_count] = *finding;
    run->result.findings = findings;
    run->result.finding_count += 1;
    if (run->result.class_ < LS_CLASS_FINDING) {
        run->result.class_ = LS_CLASS_FINDING;
    }
}

// ---- Simulating ---------------------------------------------------------------------------------
static int simulate_on(struct case_run *run, ls_world *world, const ls_order *order,
                       ls_stages *simulated, ls_stages *expected) {
    ls_backend *backend = NULL;
    LS_TRY(run->options->device != NULL
               ? ls_backend_sim_create_on(&backend, world, run->options->device)
               : ls_backend_sim_create(&backend, world));
    backend->order = order;
    // Recorded orders may differ between groups, and then so do the bits of what they replicate.
    int status = run->orders != NULL
                     ? LS_OK
                     : ls_spmd_check_on(&backend->check_replicas, run->options->checks,
                                        LS_FINDING_REPLICA_DIVERGED);
    bool traced = simulated == run->simulated;  // and no search of orders
    ls_trace_watch(traced ? run->options->trace : NULL, backend, run->scenario->name,
                   run->scenario);
    if (run->orders != NULL) {
        backend->order_of = ls_call_orders_of;
        backend->order_of_arg = run->orders;
    }
    ls_stage_sink sink = ls_stages_sink(simulated);
    ls_stage_sink expected_sink = {0};
    if (expected != NULL) {
        expected_sink = ls_stages_sink(expected);
    }
    const ls_execution execution = {
        .scenario = run->scenario,
        .backend = backend,
        .sink = &sink,
        .expected = expected != NULL ? &expected_sink : NULL,
    };
    ls_finding finding = {0};
    bool found = false;
    status = status == LS_OK ? ls_execute(&execution, run->arena, &finding, &found) : status;
    if (found) {
        add_finding(run, &finding);
    }
    ls_backend_free(backend);
    return status;
}

// Simulates under an order (NULL: rank order); expected (NULL: not wanted): what stages must give.
static int simulate_under(struct case_run *run, const char *order_text, ls_stages *simulated,
                          ls_stages *expected) {
    const ls_world_options options = {
        .mesh = run->scenario->mesh, .seed = run->scenario->seed, .device = run->options->device};
    ls_world *world = NULL;
    ls_order *order = NULL;
    int status = order_text != NULL ? ls_order_parse(&order, order_text) : LS_OK;
    if (status == LS_OK) {
        status = ls_world_create(&world, &options);
    }
    if (status == LS_OK) {
        status = simulate_on(run, world, order, simulated, expected);
    }
    ls_world_free(world);
    ls_order_free(order);
    return status;
}

// A failed check of the collectives (ranks disagree, a buffer overlaps, ...) is a finding.
static void note_check(struct case_run *run) {
    ls_finding finding;
    if (ls_check_last()->found && ls_check_finding(&finding, run->arena) == LS_OK) {
        add_finding(run, &finding);
    }
}

static const char *stated_order(const struct case_run *run) {
    return run->options->order != NULL ? run->options->order : run->scenario->order;
}

// What the simulation refuses, or what only ranks on threads can do, is run nowhere else.
static bool simulation_decides(const struct case_run *run) {
    return run->result.finding_count > 0 || ls_program_needs_ranks(run->scenario);
}

// The program's collectives on buffers, each rank on its own thread: what is wrong with the calls.
static int run_ranks(struct case_run *run) {
    const ls_program_ranks_options options = {
        .schedule = run->options->schedule,
        .tries = run->options->explore,
        .checks = run->options->checks,
        .order = stated_order(run),
        .trace = run->options->trace,
    };
    ls_finding *findings = NULL;
    uint64_t seed = 0;
    int count = 0;
    LS_TRY(ls_program_ranks(&findings, &count, &seed, run->scenario, run->arena, &options));
    for (int f = 0; f < count; f++) {
        add_finding(run, &findings[f]);
    }
    if (count > 0 && options.tries > 0) {
        run->result.reproduce =
            ls_arena_printf(run->arena, "lockstep run --schedule random --seed %llu %s",
                            (unsigned long long)seed, run->scenario->file);
    }
    return LS_OK;
}

// Fills run->simulated (and run->expected, for programs).
static int simulate(struct case_run *run) {
    LS_TRY(ls_stages_create(&run->simulated, run->scenario->ranks));
    LS_TRY(ls_stages_create(&run->expected, run->scenario->ranks));
    if (ls_program_has_ranks(run->scenario)) {
        LS_TRY(run_ranks(run));
        if (simulation_decides(run)) {
            return LS_OK;
        }
    }
    ls_check_clear();
    int status = simulate_under(run, stated_order(run), run->simulated, run->expected);
    if (status != LS_OK && run->result.finding_count == 0) {
        note_check(run);
    }
    return run->result.finding_count > 0 ? LS_OK : status;
}

static int make_oracle(struct case_run *run) {
    if (run->scenario->is_program) {
        return LS_OK;
    }
    return ls_execute_oracle(&run->oracle, run->scenario, run->arena);
}

// Judges what a run gave by the oracle, or a program's by its plain references.
static int judge(struct case_run *run, const ls_stages *stages, const char *who,
                 const char *prefix) {
    if (run->scenario->checks.oracle_off || run->result.finding_count > 0) {
        return LS_OK;
    }
    if (run->oracle != NULL) {
        return ls_compare_oracle(&run->comparison, stages, run->oracle->oracle, prefix);
    }
    return ls_compare_expected(&run->comparison, run->expected, stages, who, prefix);
}

// Judges by the numbers of another system, where the scenario names some.
static int judge_references(struct case_run *run, const ls_stages *stages) {
    if (run->result.finding_count > 0) {
        return LS_OK;
    }
    return ls_compare_references(&run->comparison, stages, run->scenario,
                                 run->oracle != NULL ? run->oracle->oracle : NULL);
}

// ---- The verdict --------------------------------------------------------------------------------
// References come last in the comparison, in the scenario's order.
static ls_class allowed_class(const struct case_run *run, int index) {
    const ls_scenario_checks *checks = &run->scenario->checks;
    const ls_stage_result *stage = &run->comparison.stages[index];
    if (strncmp(stage->name, "reference:", 10) == 0) {
        int first = run->comparison.stage_count - checks->reference_count;
        return index >= first ? checks->references[index - first].allow : LS_CLASS_BIT_EXACT;
    }
    bool by_oracle = run->result.real == NULL || strncmp(stage->name, "oracle:", 7) == 0;
    return by_oracle ? checks->oracle : checks->real;
}

// Whether every stage is of a class that the scenario's checks let pass. Debuggers stop at those
// that are not.
static bool stages_pass(const struct case_run *run) {
    const ls_oracle *oracle = run->oracle != NULL ? run->oracle->oracle : NULL;
    bool pass = true;
    for (int i = 0; i < run->comparison.stage_count && !run->record_only; i++) {
        ls_stage_result *stage = &run->comparison.stages[i];
        ls_class allowed = allowed_class(run, i);
        if (stage->class_ > allowed) {
            if (stage->divergence == NULL) {
                stage->divergence = ls_arena_printf(run->arena, "the scenario's checks want %s",
                                                    ls_class_name(allowed));
            }
            ls_comparison_stop(&run->comparison, i, oracle);
            pass = false;
        }
    }
    return pass;
}

// A scenario of a known bug passes when the bug is found, and only then.
static bool expectation_met(const struct case_run *run) {
    const ls_scenario_expect *expect = &run->scenario->expect;
    if (run->result.class_ == LS_CLASS_ERROR) {
        return false;
    }
    return (!expect->has_finding || ls_expect_finding(&run->result, expect)) &&
           (!expect->has_class || ls_expect_divergence(&run->comparison, expect));
}

static int finish(struct case_run *run, int status) {
    if (status != LS_OK) {
        ls_case_result_set_error(&run->result, run->arena);
    }
    ls_case_result *result = &run->result;
    result->stages = run->comparison.stages;
    result->stage_count = run->comparison.stage_count;
    ls_class class_ = ls_comparison_class(&run->comparison);
    result->class_ = class_ > result->class_ ? class_ : result->class_;
    const ls_scenario_expect *expect = &run->scenario->expect;
    bool stages_passed = stages_pass(run);
    result->pass =
        expect->has_finding || expect->has_class
            ? expectation_met(run)
            : result->class_ < LS_CLASS_ERROR && result->finding_count == 0 && stages_passed;
    if (!result->pass && result->error == NULL && (expect->has_finding || expect->has_class)) {
        result->error = ls_arena_printf(run->arena, "the expected %s did not appear",
                                        expect->has_finding ? ls_finding_name(expect->finding)
                                                            : ls_class_name(expect->class_));
    }
    ls_planted_conclude(&run->planted, result);
    if (run->too_few_gpus && run->options->skip_too_few_gpus) {
        result->skipped = true;
        result->skip_reason = result->error;
        result->error = NULL;
    }
    result->seconds = now_seconds() - run->start_seconds;
    ls_execute_oracle_free(run->oracle);
    ls_stages_free(run->simulated);
    ls_stages_free(run->expected);
    ls_stages_free(run->real);
    ls_call_orders_free(run->orders);
    return ls_results_add(run->results, result);
}

// ---- The three ways -----------------------------------------------------------------------------
static int run_simulated(struct case_run *run) {
    LS_TRY(simulate(run));
    if (run->result.finding_count > 0) {
        return LS_OK;
    }
    LS_TRY(make_oracle(run));
    LS_TRY(judge(run, run->simulated, "simulated", ""));
    return judge_references(run, run->simulated);
}

int ls_run_simulated(ls_results *results, const ls_scenario *scenario,
                     const ls_run_options *options) {
    struct case_run run;
    begin(&run, results, scenario, options, "sim", NULL);
    return finish(&run, run_simulated(&run));
}

// Runs on a real backend, or reads a recording, into run->real. A rank that died is a finding.
static int get_real(struct case_run *run, const char *real) {
    char keep_dir[PATH_MAX];
    bool keep = run->options->keep_dir != NULL;
    if (keep) {
        ls_real_recording_dir(keep_dir, sizeof keep_dir, run->options->keep_dir, run->scenario);
    }
    const ls_real_request request = {
        .keep_dir = keep ? keep_dir : NULL,
        .scenario = run->scenario,
        .backend = real,
        .options = run->options,
        .too_few_gpus = &run->too_few_gpus,
        .orders = &run->orders,
    };
    ls_finding finding = {0};
    bool found = false;
    LS_TRY(ls_stages_create(&run->real, run->scenario->ranks));
    int status = ls_real_run(run->real, &request, run->arena, &finding, &found);
    if (found) {
        add_finding(run, &finding);
        return LS_OK;
    }
    return status;
}

// What is planted must show in the real run as in the simulation.
static int plant(struct case_run *run, const char *real) {
    const ls_real_request request = {.scenario = run->scenario,
                                     .backend = real,
                                     .options = run->options,
                                     .too_few_gpus = &run->too_few_gpus};
    return ls_planted_run(&run->planted, &request, run->result.findings, run->result.finding_count,
                          run->arena);
}

static int run_real(struct case_run *run, const char *backend) {
    // Programs need the simulation for their plain references.
    LS_TRY(simulate(run));
    if (simulation_decides(run)) {
        return plant(run, backend);
    }
    LS_TRY(make_oracle(run));
    LS_TRY(get_real(run, backend));
    LS_TRY(judge(run, run->real, backend, ""));
    return judge_references(run, run->real);
}

int ls_run_real(ls_results *results, const ls_scenario *scenario, const char *backend,
                const ls_run_options *options) {
    struct case_run run;
    begin(&run, results, scenario, options, backend, NULL);
    return finish(&run, run_real(&run, backend));
}

// Simulates again, each call in the order that the real run says it used. An order that the user
// gave stays.
static int simulate_as_recorded(struct case_run *run) {
    if (run->orders == NULL || ls_call_orders_count(run->orders) == 0 ||
        run->options->order != NULL) {
        ls_call_orders_free(run->orders);
        run->orders = NULL;
        return LS_OK;
    }
    ls_stages *again = NULL;
    LS_TRY(ls_stages_create(&again, run->scenario->ranks));
    int status = simulate_under(run, stated_order(run), again, NULL);
    if (status == LS_OK) {
        ls_stages_free(run->simulated);
        run->simulated = again;
    } else {
        ls_stages_free(again);
    }
    return status;
}

// Orders that a real run may have summed in, tried when the stated one does not give its bits.
static const char *const known_orders[] = {
    "rank",          "ring:proto=ll",    "ring:proto=ll128",  "ring:proto=simple",
    "tree:proto=ll", "tree:proto=ll128", "tree:proto=simple",
};

// Whether simulating under `order` gives the real run's bits in every stage.
static bool order_explains(struct case_run *run, const char *order) {
    ls_stages *again = NULL;
    ls_comparison comparison = {.arena = run->arena};
    ls_call_orders *recorded = run->orders;
    run->orders = NULL;
    int status = ls_stages_create(&again, run->scenario->ranks);
    if (status == LS_OK) {
        status = simulate_under(run, order, again, NULL);
    }
    if (status == LS_OK) {
        status =
            ls_compare_runs(&comparison, again, run->real, NULL, "simulated", run->result.real, "");
    }
    ls_stages_free(again);
    run->orders = recorded;
    return status == LS_OK && ls_comparison_class(&comparison) == LS_CLASS_BIT_EXACT;
}

// Sums that differ within their bound: looks for a known order that gives exactly these bits.
static void explain_sums(struct case_run *run) {
    if (ls_comparison_class(&run->comparison) != LS_CLASS_WITHIN_BOUND ||
        ls_stages_bytes(run->simulated) > EXPLAIN_BYTES_MAX) {
        return;
    }
    for (size_t i = 0; i < sizeof known_orders / sizeof *known_orders; i++) {
        if (!order_explains(run, known_orders[i])) {
            continue;
        }
        for (int k = 0; k < run->comparison.stage_count; k++) {
            ls_stage_result *stage = &run->comparison.stages[k];
            if (stage->class_ == LS_CLASS_WITHIN_BOUND) {
                stage->class_ = LS_CLASS_REORDERED;
                stage->order = known_orders[i];
            }
        }
        return;
    }
}

static int run_compared(struct case_run *run, const char *real) {
    LS_TRY(simulate(run));
    if (simulation_decides(run)) {
        return plant(run, real);
    }
    LS_TRY(make_oracle(run));
    LS_TRY(get_real(run, real));
    if (run->result.finding_count > 0) {
        return LS_OK;
    }
    LS_TRY(simulate_as_recorded(run));
    if (!run->scenario->checks.real_off) {
        LS_TRY(ls_compare_runs(&run->comparison, run->simulated, run->real,
                               run->oracle != NULL ? run->oracle->oracle : NULL, "simulated",
                               run->result.real, ""));
        explain_sums(run);
    }
    LS_TRY(judge(run, run->simulated, "simulated", "oracle:"));
    return judge_references(run, run->simulated);
}

int ls_run_compared(ls_results *results, const ls_scenario *scenario, const char *real,
                    const ls_run_options *options) {
    bool live = strcmp(real, "mpi") == 0 || strcmp(real, "nccl") == 0;
    struct case_run run;
    begin(&run, results, scenario, options, "sim", live ? real : "recording");
    return finish(&run, run_compared(&run, real));
}

int ls_run_recorded(ls_results *results, const ls_scenario *scenario, const char *backend,
                    const char *dir, const ls_run_options *options) {
    struct case_run run;
    begin(&run, results, scenario, options, backend, NULL);
    run.record_only = true;
    const ls_real_request request = {.scenario = scenario,
                                     .backend = backend,
                                     .options = options,
                                     .too_few_gpus = &run.too_few_gpus,
                                     .keep_dir = dir};
    ls_finding finding = {0};
    bool found = false;
    int status = ls_real_run(NULL, &request, run.arena, &finding, &found);
    if (found) {
        add_finding(&run, &finding);
        status = LS_OK;
    }
    return finish(&run, status);
}
