// Simulates a case in this process or spread over processes.
#include <string.h>

#include "runner/compare/case_run.h"
#include "runner/compare/recorded.h"
#include "runner/trace/trace.h"

void ls_case__add_finding(ls_case_run *run, const ls_finding *finding) {
    ls_finding *findings =
        ls_arena_alloc(run->arena, (size_t)run->result.finding_count + 1, sizeof *findings);
    if (findings == NULL) {
        return;  // ls_results_add reports it
    }
    if (run->result.finding_count > 0) {
        memcpy(findings, run->result.findings,
               (size_t)run->result.finding_count * sizeof *findings);
    }
    findings[run->result.finding_count] = *finding;
    run->result.findings = findings;
    run->result.finding_count += 1;
}

// The search of orders reads buffers of calls in host memory; every device gives the same bits.
static struct ls_device *device_of(const ls_case_run *run) {
    return run->search == NULL ? run->options->device : NULL;
}

static int simulate_on(ls_case_run *run, ls_world *world, const ls_order *order,
                       ls_stages *simulated, ls_stages *expected) {
    ls_backend *backend = NULL;
    LS_TRY(ls_backend_kind_sim.open(&backend, world, device_of(run)));
    backend->order = order;
    // Recorded orders may differ between groups; then replicas may differ in bits.
    int status = run->orders != NULL || run->search != NULL
                     ? LS_OK
                     : ls_spmd_check_on(&backend->check_replicas, run->options->checks,
                                        LS_FINDING_REPLICA_DIVERGED);
    bool traced = simulated == run->simulated;  // and no search of orders
    ls_trace_watch(traced ? run->options->trace : NULL, backend, run->scenario->name,
                   run->scenario);
    if (run->search != NULL) {
        ls_order_search_watch(run->search, backend, simulated);
    } else if (run->orders != NULL) {
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
        .checkpoint = traced ? run->options->checkpoint : NULL,
    };
    ls_recording_writer *calls = NULL;
    if (status == LS_OK && traced && run->result.real != NULL) {
        status = ls_recorded_watch(&calls, backend, run->scenario);
    }
    ls_finding finding = {0};
    bool found = false;
    status = status == LS_OK ? ls_execute(&execution, run->arena, &finding, &found) : status;
    if (found) {
        ls_case__add_finding(run, &finding);
    }
    status = calls != NULL ? ls_recorded_calls(&run->calls, calls, status) : status;
    ls_backend_free(backend);
    return status;
}

const char *ls_case__order(const ls_case_run *run) {
    return run->options->order != NULL ? run->options->order : run->scenario->order;
}

int ls_case__simulate(ls_case_run *run, ls_stages *simulated, ls_stages *expected) {
    const char *order_text = ls_case__order(run);
    const ls_world_options options = {.mesh = run->scenario->mesh, .seed = run->scenario->seed};
    ls_world *world = NULL;
    ls_order *order = NULL;
    int status = order_text != NULL ? ls_order_parse(&order, order_text) : LS_OK;
    status = status == LS_OK ? ls_world_create_on(&world, &options, device_of(run)) : status;
    status = status == LS_OK ? simulate_on(run, world, order, simulated, expected) : status;
    status = status == LS_OK ? ls_stages_arrange(simulated, run->scenario) : status;
    ls_world_free(world);
    ls_order_free(order);
    return status;
}

int ls_case__simulate_spread(ls_case_run *run, ls_stages *simulated) {
    ls_run_options options = *run->options;
    options.keep_dir = NULL;  // kept for a debugger
    const ls_real_request request = {.scenario = run->scenario,
                                     .source = {.backend = &ls_backend_kind_sim},
                                     .options = &options};
    if (ls_real_spread(&request) == 0) {
        return ls_case__simulate(run, simulated, run->expected);
    }
    if (run->scenario->is_program) {
        ls_stages *here = NULL;
        LS_TRY(ls_stages_create(&here, run->scenario->ranks));
        int status = ls_case__simulate(run, here, run->expected);
        ls_stages_free(here);
        LS_TRY(status);
    }
    ls_finding finding = {0};
    bool found = false;
    int status = ls_real_run(simulated, &request, run->arena, &finding, &found);
    if (found) {
        ls_case__add_finding(run, &finding);
    }
    return status;
}
