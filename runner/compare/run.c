// Runs scenarios and fills in results: simulates, runs for real, compares. verdict.c gives the
// verdict.
#include "runner/compare/run.h"

#include <stddef.h>

#include "base/time.h"
#include "runner/compare/case_run.h"
#include "orders/explain.h"
#include "runner/program/program.h"
#include "ranks/hooks.h"
#include "runner/hooks.h"
#include "runner/program/tally.h"
#include "runner/compare/recorded.h"
#include "runner/scenario/input_file.h"
#include "runner/scenario/proof.h"

_Static_assert(offsetof(ls_run_options, device) % sizeof(uint64_t) == 0 &&
                   sizeof(ls_run_options) - offsetof(ls_run_options, device) ==
                       3 * sizeof(uint64_t),
               "as many words as installed headers reserve");

#define EXPLAIN_BYTES_MAX ((size_t)64 << 20)  // outputs above which orders are not searched

static int begin(ls_case_run *run, ls_results *results, const ls_scenario *scenario,
                 const ls_run_options *given, const ls_backend_kind *backend, const char *real) {
    ls_run_options options;
    LS_TRY(ls_options_take(&options, sizeof options, given));
    const char *file = options.reproduce_of != NULL ? options.reproduce_of : scenario->file;
    *run = (ls_case_run){
        .results = results,
        .arena = results->arena,
        .scenario = scenario,
        .own = options,
        .comparison = {.arena = results->arena,
                       .main = real != NULL ? LS_JUDGE_REAL : LS_JUDGE_ORACLE,
                       .proves = scenario->draw > 0},
        .start_seconds = ls_time_now(),
        .result =
            {
                .name = ls_arena_strdup(results->arena, scenario->name),
                .file = ls_arena_strdup(results->arena, scenario->file),
                .backend = backend->name,
                .real = real,
                .reproduce = ls_result_command(results->arena, options.reproduce, file),
            },
    };
    run->options = &run->own;
    ls_gdb_case = run;
    return LS_OK;
}

// ---- Simulating ---------------------------------------------------------------------------------
// A failed check of the collectives (ranks disagree, a buffer overlaps, ...) is a finding.
static void note_check(ls_case_run *run) {
    ls_finding finding;
    if (ls_check_last()->found && ls_check_finding(&finding, run->arena) == LS_OK) {
        ls_case__add_finding(run, &finding);
    }
}

// Runs the scenario with a thread for each rank: finds wrong calls, and the effects of injected
// defects.
static int run_ranks(ls_case_run *run, ls_stages *stages, ls_tally *tally) {
    const ls_stage_sink sink = stages != NULL ? ls_stages_sink(stages) : (ls_stage_sink){0};
    const ls_program_ranks_options options = {
        .schedule = run->options->schedule,
        .tries = run->options->explore,
        .checks = run->options->checks,
        .order = ls_case__order(run),
        .trace = run->options->trace,
        .sink = stages != NULL ? &sink : NULL,
        .tally = tally,
    };
    ls_program_outcome outcome;
    LS_TRY(ls_program_ranks(&outcome, run->scenario, run->arena, &options));
    for (int f = 0; f < outcome.finding_count; f++) {
        ls_case__add_finding(run, &outcome.findings[f]);
    }
    run->missed = outcome.missed;
    if (outcome.finding_count > 0 && options.tries > 0) {
        const char *command =
            ls_arena_printf(run->arena, "%s --schedule random --seed %llu", run->options->reproduce,
                            (unsigned long long)outcome.seed);
        run->result.reproduce =
            command == NULL ? NULL : ls_result_command(run->arena, command, run->scenario->file);
    }
    return LS_OK;
}

static int check_replicas(ls_case_run *run, const ls_stages *stages, const char *who) {
    ls_finding finding;
    bool found = false;
    LS_TRY(ls_case__check_replicas(&finding, &found, run, stages, who));
    if (found) {
        ls_case__add_finding(run, &finding);
        ls_hooks__before_stop();
        ls_gdb_hook_finding(NULL, &finding);
    }
    return LS_OK;
}

// Schedules and selected checks need ranks that make their own calls.
static bool asks_for_ranks(const ls_run_options *options) {
    return options->explore > 0 || options->schedule != LS_SCHEDULE_ROUND_ROBIN ||
           options->checks != NULL;
}

// Fills run->simulated, and run->expected for programs.
static int simulate(ls_case_run *run) {
    bool injects = ls_scenario_injects(run->scenario);
    LS_TRY(ls_stages_create(&run->simulated, run->scenario->ranks));
    LS_TRY(ls_stages_create(&run->expected, run->scenario->ranks));
    LS_TRY(injects ? ls_stages_create(&run->clean, run->scenario->ranks) : LS_OK);
    bool ranks = injects || ls_program_has_ranks(run->scenario);
    LS_TRY(ls_gdb_keeps && !injects ? ls_stages_create(&run->by_ranks, run->scenario->ranks)
                                    : LS_OK);
    if (ranks) {
        LS_TRY(run_ranks(run, injects ? run->simulated : run->by_ranks, NULL));
        if (!ls_case__values_stand(run)) {
            return LS_OK;
        }
    }
    ls_check_clear();
    int status = ls_case__simulate_spread(run, injects ? run->clean : run->simulated);
    if (status != LS_OK) {
        note_check(run);
    } else {
        status = check_replicas(run, run->simulated, "simulated");
    }
    if (status == LS_OK && run->result.finding_count == 0 && !ranks &&
        asks_for_ranks(run->options)) {
        status = run_ranks(run, NULL, NULL);
    }
    return ls_case__values_stand(run) ? status : LS_OK;
}

static int make_oracle(ls_case_run *run) {
    if (run->scenario->is_program) {
        return LS_OK;
    }
    return ls_execute_oracle(&run->oracle, run->scenario, run->arena);
}

static int note_conversions(ls_case_run *run) {
    ls_text text = {0};
    ls_scenario_conversions(&text, run->scenario);
    bool any = text.length > 0 || text.failed;
    run->result.note = ls_result_text(run->arena, &text);
    int status = run->result.note == NULL ? LS_ERR_MEMORY : LS_OK;
    run->result.note = any ? run->result.note : NULL;
    return status;
}

static int finish(ls_case_run *run, int status) {
    status = status == LS_OK ? ls_case__norms(run) : status;
    status = status == LS_OK ? note_conversions(run) : status;
    if (status != LS_OK) {
        ls_case_result_set_error(&run->result, run->arena);
    }
    ls_case_result *result = &run->result;
    ls_case__decide(run);
    ls_injected_conclude(&run->injected, result);
    if (run->too_few_gpus && run->options->skip_too_few_gpus) {
        result->skipped = true;
        result->skip_reason = result->error;
        result->error = NULL;
    }
    result->seconds = ls_time_now() - run->start_seconds;
    ls_execute_oracle_free(run->oracle);
    ls_gdb_case = NULL;
    ls_stages_free(run->simulated);
    ls_stages_free(run->by_ranks);
    ls_stages_free(run->expected);
    ls_stages_free(run->clean);
    ls_stages_free(run->reordered);
    ls_stages_free(run->real);
    ls_call_orders_free(run->orders);
    ls_recording_free(run->calls);
    ls_recording_free(run->real_calls);
    return ls_results_add(run->results, result);
}

// ---- The three ways -----------------------------------------------------------------------------
// Runs on a real backend, or reads a recording, into run->real. A dead rank is a finding.
static int get_real(ls_case_run *run, const ls_real_source *real) {
    const ls_real_request request = {
        .scenario = run->scenario,
        .source = *real,
        .options = run->options,
        .too_few_gpus = &run->too_few_gpus,
        .orders = &run->orders,
        .calls = &run->real_calls,
    };
    ls_finding finding = {0};
    bool found = false;
    LS_TRY(ls_stages_create(&run->real, run->scenario->ranks));
    int status = ls_real_run(run->real, &request, run->arena, &finding, &found);
    if (found) {
        ls_case__add_finding(run, &finding);
    } else if (status == LS_OK) {
        status = check_replicas(run, run->real, run->result.real);
    }
    return found && status != LS_ERR_RANK_DIED ? LS_OK : status;
}

// Runs the calls without their data. Only findings that need no data are possible; nothing else is
// judged.
static int run_shape(ls_case_run *run) {
    const ls_scenario *scenario = run->scenario;
    if (!ls_tally_possible(scenario)) {
        run->unjudged = "unjudged: the traffic of tables and tensors depends on their data; use "
                        "lockstep plan and traffic (--shape-only needs calls on buffers)";
        return LS_OK;
    }
    ls_tally tally;
    LS_TRY(ls_tally_begin(&tally, scenario, run->options->trace, run->arena));
    LS_TRY(run_ranks(run, NULL, &tally));
    if (tally.failed) {
        return LS_FAIL(LS_ERR_MEMORY, "out of memory for the totals of the calls");
    }
    run->result.calls = tally.rows;
    run->result.call_count = tally.row_count;
    const ls_scenario_expect *expect = &scenario->expect;
    if (!expect->has_finding || ls_finding_needs_data(expect->finding)) {
        run->unjudged = ls_tally_tell(&tally);
        return run->unjudged != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    return LS_OK;
}

static int run_simulated(ls_case_run *run) {
    if (run->options->shape_only) {
        return run_shape(run);
    }
    LS_TRY(simulate(run));
    if (!ls_case__values_stand(run)) {
        return LS_OK;
    }
    LS_TRY(make_oracle(run));
    LS_TRY(ls_case__judge(run, run->simulated, "simulated"));
    const ls_real_source again = {.backend = &ls_backend_kind_sim};
    return run->options->keep_dir != NULL ? get_real(run, &again) : LS_OK;
}

// Simulates with one draw from the field.
static int run_drawn(ls_results *results, ls_scenario *scenario, int draw,
                     const ls_run_options *options) {
    ls_case_run run;
    const char *refused = ls_scenario_prove(scenario, draw, results->arena);
    LS_TRY(begin(&run, results, scenario, options, &ls_backend_kind_sim, NULL));
    run.unjudged = refused;
    return finish(&run, refused != NULL ? LS_OK : run_simulated(&run));
}

int ls_run_proved(ls_results *results, ls_scenario *scenario, const ls_run_options *options) {
    ls_results *first = NULL;
    LS_TRY(ls_results_create(&first, "prove"));
    int status = run_drawn(first, scenario, 1, options);
    int draw = first->failed > 0 || first->skipped > 0 ? 1 : 2;
    ls_results_free(first);
    return status == LS_OK ? run_drawn(results, scenario, draw, options) : status;
}

int ls_run_simulated(ls_results *results, const ls_scenario *scenario,
                     const ls_run_options *options) {
    ls_case_run run;
    LS_TRY(begin(&run, results, scenario, options, &ls_backend_kind_sim, NULL));
    return finish(&run, run_simulated(&run));
}

// Whether the real run only has to show the simulation's finding; or whether there is no real run,
// since the scenario injects what ranks in one process cannot do.
static bool is_about_defects(const ls_case_run *run, const ls_real_source *real) {
    const ls_real_request request = {.source = *real, .options = run->options};
    return run->result.finding_count > 0 ||
           (ls_scenario_injects(run->scenario) && real->backend != NULL &&
            ls_real_one_process(&request));
}

// A finding of the simulation must also appear in the real run. Without a finding, values are
// judged.
static int inject(ls_case_run *run, const ls_real_source *real) {
    const ls_real_request request = {.scenario = run->scenario,
                                     .source = *real,
                                     .options = run->options,
                                     .too_few_gpus = &run->too_few_gpus};
    if (ls_case__values_stand(run)) {
        LS_TRY(make_oracle(run));
        LS_TRY(ls_case__judge(run, run->simulated, "simulated"));
    }
    int status = ls_injected_run(&run->injected, &request, run->result.findings,
                                 run->result.finding_count, run->arena);
    if (status == LS_ERR_RANK_DIED) {
        ls_case__add_finding(run, &run->injected.death);
    }
    return status;
}

static int run_real(ls_case_run *run, const ls_backend_kind *backend) {
    const ls_real_source real = {.backend = backend};
    // Programs need the simulation for their plain references.
    LS_TRY(simulate(run));
    if (is_about_defects(run, &real)) {
        return inject(run, &real);
    }
    LS_TRY(make_oracle(run));
    LS_TRY(get_real(run, &real));
    return ls_case__judge(run, run->real, backend->name);
}

int ls_run_real(ls_results *results, const ls_scenario *scenario, const ls_backend_kind *backend,
                const ls_run_options *options) {
    ls_case_run run;
    LS_TRY(begin(&run, results, scenario, options, backend, NULL));
    return finish(&run, run_real(&run, backend));
}

// Simulates again with each call in the order that the real run recorded. An order of the user
// stays.
static int simulate_as_recorded(ls_case_run *run) {
    // Injected defects run on ranks as threads, in one order for all.
    if (run->orders == NULL || ls_call_orders_count(run->orders) == 0 ||
        run->options->order != NULL || run->clean != NULL) {
        ls_call_orders_free(run->orders);
        run->orders = NULL;
        return LS_OK;
    }
    ls_stages *again = NULL;
    LS_TRY(ls_stages_create(&again, run->scenario->ranks));
    int status = ls_case__simulate(run, again, NULL);
    if (status == LS_OK) {
        ls_stages_free(run->simulated);
        run->simulated = again;
    } else {
        ls_stages_free(again);
    }
    return status;
}

// Simulates in the orders that the search chooses, and compares with the real run. *fits: replicas
// stay equal. If only some orders are found, they may not.
static int compare_reordered(ls_comparison *again, bool *fits, ls_case_run *run) {
    ls_expectation expectation = ls_case__expectation(run);
    expectation.orders = run->search;
    *again = (ls_comparison){
        .arena = run->arena, .main = LS_JUDGE_REAL, .partial = run->comparison.partial};
    ls_stages_free(run->reordered);
    run->reordered = NULL;
    LS_TRY(ls_stages_create(&run->reordered, run->scenario->ranks));
    int status = ls_case__simulate(run, run->reordered, NULL);
    *fits = status == LS_OK;
    if (status == LS_ERR_MISMATCH) {
        ls_error_clear();
        return LS_OK;
    }
    LS_TRY(status);
    return ls_compare_runs(again, run->reordered, run->real, &expectation, "simulated",
                           run->result.real);
}

static bool any_wants_order(const ls_comparison *comparison) {
    bool wants = false;
    for (int i = 0; i < comparison->stage_count; i++) {
        wants = wants || ls_stage_wants_order(&comparison->stages[i]);
    }
    return wants;
}

static int search_orders(ls_case_run *run) {
    ls_comparison again;
    bool fits = false;
    LS_TRY(compare_reordered(&again, &fits, run));
    LS_TRY(ls_order_search_located(run->search));
    LS_TRY(compare_reordered(&again, &fits, run));
    if (fits) {
        LS_TRY(ls_order_search_tell(run->search, &run->comparison, &again));
    }
    bool guesses = ls_order_search_guesses(run->search) &&
                   (!fits || (ls_comparison_class(&again) <= LS_CLASS_WITHIN_BOUND &&
                              any_wants_order(&again)));
    for (int i = 0; guesses && ls_order_common(i) != NULL; i++) {
        ls_order_search_restart(run->search, ls_order_common(i));
        LS_TRY(compare_reordered(&again, &fits, run));
        if (fits && !any_wants_order(&again)) {
            return ls_order_search_tell(run->search, &run->comparison, &again);
        }
    }
    return LS_OK;
}

// For sums that differ: searches the orders for these bits.
static int explain_sums(ls_case_run *run) {
    if (!any_wants_order(&run->comparison) ||
        ls_comparison_class(&run->comparison) > LS_CLASS_WRONG || run->clean != NULL ||
        ls_stages_bytes(run->simulated) > EXPLAIN_BYTES_MAX) {
        return LS_OK;
    }
    LS_TRY(ls_order_search_create(&run->search, run->simulated, run->real, run->orders));
    int status = search_orders(run);
    ls_order_search_free(run->search);
    run->search = NULL;
    return status;
}

static int run_compared(ls_case_run *run, const ls_real_source *real) {
    LS_TRY(simulate(run));
    if (is_about_defects(run, real)) {
        return inject(run, real);
    }
    LS_TRY(make_oracle(run));
    LS_TRY(get_real(run, real));
    if (run->result.finding_count > 0) {
        return LS_OK;
    }
    LS_TRY(simulate_as_recorded(run));
    if (!run->scenario->checks.real_off) {
        const ls_expectation expectation = ls_case__expectation(run);
        LS_TRY(ls_compare_runs(&run->comparison, run->simulated, run->real, &expectation,
                               "simulated", run->result.real));
        if (run->clean == NULL && run->real_calls != NULL) {  // an injected defect may change them
            LS_TRY(ls_recorded_compare_calls(&run->comparison, run->calls, run->real_calls));
        }
        LS_TRY(explain_sums(run));
    }
    return ls_case__judge(run, run->simulated, "simulated");
}

int ls_run_compared(ls_results *results, const ls_scenario *scenario, const ls_real_source *real,
                    const ls_run_options *options) {
    ls_case_run run;
    LS_TRY(begin(&run, results, scenario, options, &ls_backend_kind_sim,
                 real->backend != NULL ? real->backend->name : "recording"));
    run.comparison.partial = real->imported != NULL;
    return finish(&run, run_compared(&run, real));
}

int ls_run_recorded(ls_results *results, const ls_scenario *scenario,
                    const ls_backend_kind *backend, const ls_run_options *options) {
    ls_case_run run;
    LS_TRY(begin(&run, results, scenario, options, backend, NULL));
    run.record_only = true;
    const ls_real_request request = {.scenario = scenario,
                                     .source = {.backend = backend},
                                     .options = run.options,
                                     .too_few_gpus = &run.too_few_gpus};
    ls_finding finding = {0};
    bool found = false;
    int status = ls_real_run(NULL, &request, run.arena, &finding, &found);
    if (found) {
        ls_case__add_finding(&run, &finding);
    }
    return finish(&run, found && status != LS_ERR_RANK_DIED ? LS_OK : status);
}
