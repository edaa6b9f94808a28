// Runs a program's ranks as an SPMD program, and converts its findings. program_ranks.c has the
// program of each rank.
#include <stdlib.h>
#include <string.h>

#include "collectives/check.h"
#include "runner/program/program.h"
#include "runner/program/tally.h"
#include "runner/trace/trace.h"

#define LOOKAHEAD_MAX 64
#define STACK_BYTES   ((size_t)1 << 20)  // stack of a rank that may run modules
#define THREADS_MAX   1024               // limit on ranks as threads; more are fibers

bool ls_program_has_ranks(const ls_scenario *scenario) {
    for (int i = 0; scenario->is_program && i < scenario->step_count; i++) {
        if (ls_step_on_buffers(&scenario->steps[i])) {
            return true;
        }
    }
    return false;
}

// ---- The run ------------------------------------------------------------------------------------
static int copy_findings(ls_finding **out, int *count, const ls_spmd_result *result,
                         ls_arena *arena) {
    int n = ls_spmd_finding_count(result);
    ls_finding *copies = ls_arena_alloc(arena, (size_t)(n > 0 ? n : 1), sizeof *copies);
    LS_TRY_MEMORY(copies != NULL);
    for (int i = 0; i < n; i++) {
        const ls_finding *from = ls_spmd_finding(result, i);
        copies[i] = *from;
        copies[i].where = ls_arena_strdup(arena, from->where);
        copies[i].text = ls_arena_strdup(arena, from->text);
        if (from->rank_count > 0) {
            copies[i].ranks =
                ls_arena_copy(arena, from->ranks, (size_t)from->rank_count * sizeof *from->ranks);
        }
        if (from->places != NULL) {
            copies[i].places = ls_arena_copy(arena, from->places,
                                             (size_t)from->place_count * sizeof *from->places);
        }
        if (from->others != NULL) {
            copies[i].others = ls_arena_copy(arena, from->others,
                                             (size_t)from->other_count * sizeof *from->others);
        }
        if (copies[i].where == NULL || copies[i].text == NULL || copies[i].ranks == NULL ||
            (copies[i].places == NULL) != (from->places == NULL) ||
            (copies[i].others == NULL) != (from->others == NULL)) {
            return LS_ERR_MEMORY;
        }
    }
    *out = copies;
    *count = n;
    return LS_OK;
}

const ls_fault *ls_program__faults(const ls_scenario *scenario, ls_arena *arena) {
    ls_fault *faults = ls_arena_alloc(arena, (size_t)scenario->fault_count + 1, sizeof *faults);
    for (int i = 0; faults != NULL && i < scenario->fault_count; i++) {
        const ls_scenario_fault *from = &scenario->faults[i];
        bool counts = from->type == LS_FAULT_WRONG_COUNT || from->type == LS_FAULT_WRONG_SPLIT;
        faults[i] = (ls_fault){.type = from->type,
                               .rank = from->rank,
                               .call = (uint64_t)from->call,
                               .amount = counts && from->index == 0 ? 1 : from->index};
    }
    return faults;
}

// The finding that a rank's failure implies under injected defects. Missing memory implies one only
// if its absence was injected.
static bool by_plan(const ls_scenario *scenario, int status) {
    bool missing_memory = false;
    for (int i = 0; i < scenario->fault_count; i++) {
        missing_memory = missing_memory || scenario->faults[i].type == LS_FAULT_ALLOCATION;
    }
    return ls_scenario_injects(scenario) && (status != LS_ERR_MEMORY || missing_memory);
}

// The error of a rank without a finding.
static int take_error(ls_program_outcome *out, const ls_program_run *shared, ls_arena *arena) {
    const ls_error *error = &shared->error;
    ls_finding *finding = ls_arena_alloc(arena, 1, sizeof *finding);
    int *rank = ls_arena_alloc(arena, 1, sizeof *rank);
    LS_TRY_MEMORY(finding != NULL && rank != NULL);
    if (!shared->found && !by_plan(shared->scenario, error->code)) {
        return ls_error__set(error->file, error->line, error->code, error->rank, "%s", error->text);
    }
    *rank = error->rank;
    *finding =
        shared->found
            ? shared->finding
            : (ls_finding){.id = LS_FINDING_RANK_EXITED_EARLY,
                           .ranks = rank,
                           .rank_count = error->rank != LS_RANK_NONE,
                           .where = "",
                           .text = ls_arena_printf(arena, "a rank ended early: %s", error->text)};
    out->findings = finding;
    out->finding_count = 1;
    return finding->text != NULL ? LS_OK : LS_ERR_MEMORY;
}

static bool only_buffers(const ls_scenario *scenario) {
    return scenario->is_program && scenario->tensor_count == 0;
}

// With buffers only, the consequences of a mismatch do not depend on received data.
static int lookahead_of(const ls_scenario *scenario) {
    int steps = scenario->step_count < LOOKAHEAD_MAX ? scenario->step_count : LOOKAHEAD_MAX;
    return only_buffers(scenario) ? steps : 0;
}

// A scenario states its program's intent exactly; hints about the intent are off.
#define STRICT "all,collective.redundant_reduce,buffer.uninitialised,value.*,replica.*"

// Nothing is accessed while in flight, so no buffer needs separate pages.
#define IN_TURN ",-buffer.use_before_wait"

static bool has_asynchronous(const ls_scenario *scenario) {
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (ls_step_on_buffers(step) && step->call.asynchronous) {
            return true;
        }
    }
    return false;
}

// Tables and tensors are checked by their values, including NaN.
static const char *checks_of(const ls_scenario *scenario, bool hashed) {
    if (!only_buffers(scenario)) {
        return STRICT ",-buffer.modified_in_flight,-value.*,-collective.redundant_reduce";
    }
    if (hashed) {
        return STRICT;
    }
    return has_asynchronous(scenario) ? STRICT ",-buffer.modified_in_flight"
                                      : STRICT ",-buffer.modified_in_flight" IN_TURN;
}

static int run_once(ls_program_outcome *out, const ls_scenario *scenario, ls_arena *arena,
                    const ls_program_ranks_options *options, const ls_order *order) {
    bool hashed = scenario->expect.has_finding &&
                  scenario->expect.finding == LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT;
    ls_met_observer met = options->trace != NULL && options->tries == 0 ? ls_trace_met : NULL;
    met = options->tally != NULL ? ls_tally_met : met;
    const ls_spmd_options spmd = {
        .ranks = scenario->ranks,
        .mesh = scenario->mesh,
        .seed = out->seed,
        .schedule = options->tries > 0 ? LS_SCHEDULE_RANDOM : options->schedule,
        .checks = options->checks != NULL ? options->checks : checks_of(scenario, hashed),
        .order = order,
        .backend = options->backend,
        .met = met,
        .met_arg = options->tally != NULL ? (void *)options->tally : (void *)options->trace,
        .shape_only = options->tally != NULL,
        .faults = ls_program__faults(scenario, arena),
        .fault_count = scenario->fault_count,
        .stack_bytes = STACK_BYTES,
        .fibers = scenario->ranks > THREADS_MAX,
        .fixed = true,
        .lookahead = lookahead_of(scenario),
    };
    LS_TRY_MEMORY(spmd.faults != NULL);
    LS_TRY(ls_trace_begin(options->trace, scenario->name, scenario->ranks, scenario));
    ls_program_run shared = {.scenario = scenario,
                             .sink = options->sink,
                             .shape_only = options->tally != NULL,
                             .arena = arena};
    if (options->tally != NULL) {
        ls_tally_restart(options->tally);
    }
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run(&result, ls_program__rank_main, &shared, &spmd);
    if (result == NULL || (status == LS_ERR_MEMORY && !by_plan(scenario, status))) {
        ls_spmd_result_free(result);
        return status;
    }
    status = copy_findings(&out->findings, &out->finding_count, result, arena);
    if (status == LS_OK && out->finding_count == 0 && shared.error.code != LS_OK) {
        status = take_error(out, &shared, arena);
    }
    out->missed = NULL;
    for (int i = 0; i < scenario->fault_count && out->missed == NULL && status == LS_OK; i++) {
        const char *why = ls_spmd_fault_missed(result, i);
        if (why != NULL) {
            out->missed =
                ls_arena_printf(arena, "%s: the fault is not injected: %s",
                                ls_scenario_where(scenario, &scenario->faults[i].node), why);
            status = out->missed != NULL ? LS_OK : LS_ERR_MEMORY;
        }
    }
    ls_spmd_result_free(result);
    return status;
}

int ls_program_ranks(ls_program_outcome *out, const ls_scenario *scenario, ls_arena *arena,
                     const ls_program_ranks_options *options) {
    ls_order *order = NULL;
    *out = (ls_program_outcome){0};
    LS_TRY(options->order != NULL ? ls_order_parse(&order, options->order) : LS_OK);
    int tries = options->tries > 0 ? options->tries : 1, status = LS_OK;
    bool done = false;
    if (options->tally != NULL && options->trace == NULL && options->checks == NULL &&
        options->tries == 0 && options->schedule == LS_SCHEDULE_ROUND_ROBIN) {
        status = ls_program__classes(&done, scenario, options->tally, arena);
    }
    for (int i = 0; i < tries && !done && out->finding_count == 0 && status == LS_OK; i++) {
        ls_program_ranks_options each = *options;
        each.sink = i == 0 ? options->sink : NULL;  // the values are equal under all schedules
        out->seed = scenario->seed + (uint64_t)i;
        status = run_once(out, scenario, arena, &each, order);
    }
    ls_order_free(order);
    return status;
}

// ---- The ranks of one process -------------------------------------------------------------------
// Reports it as a failed check of this thread, as processes do. The site's file can only be the
// scenario's.
static int tell(const ls_finding *finding, const ls_scenario *scenario) {
    ls_check_failure failure = {.found = true, .id = finding->id, .file = ""};
    const char *line = strrchr(finding->where, ':');
    if (line != NULL) {
        failure.file = scenario->file;
        failure.line = (int)strtol(line + 1, NULL, 10);
    }
    failure.rank_total = finding->rank_count;
    for (int i = 0; i < finding->rank_count && i < LS_CHECK_RANKS_MAX; i++) {
        failure.ranks[failure.rank_count++] = finding->ranks[i];
    }
    ls_check__restore(&failure);
    return LS_FAIL(LS_ERR_FINDING, "%s", finding->text);
}

// All of them in this process.
static int rank_all(const ls_scenario *scenario, ls_backend *backend, const ls_stage_sink *sink,
                    ls_arena *arena) {
    const ls_program_ranks_options options = {.sink = sink, .backend = backend};
    ls_program_outcome outcome;
    LS_TRY(ls_program_ranks(&outcome, scenario, arena, &options));
    return outcome.finding_count > 0 ? tell(outcome.findings, scenario) : LS_OK;
}

int ls_program_rank_real(const ls_scenario *scenario, ls_backend *backend,
                         const ls_stage_sink *sink, ls_arena *arena) {
    if (backend->ops->simulates) {
        return rank_all(scenario, backend, sink, arena);
    }
    ls_program_run shared = {.scenario = scenario, .sink = sink, .arena = arena};
    const ls_spmd_options options = {.checks = checks_of(scenario, true),
                                     .faults = ls_program__faults(scenario, arena),
                                     .fault_count = scenario->fault_count};
    LS_TRY_MEMORY(options.faults != NULL);
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run_backend(&result, ls_program__rank_main, &shared, backend, &options);
    if (result != NULL && ls_spmd_finding_count(result) > 0) {
        status = tell(ls_spmd_finding(result, 0), scenario);
    } else if (result != NULL && shared.error.code != LS_OK) {
        ls_program_outcome outcome;
        status = take_error(&outcome, &shared, arena);
        status = status == LS_OK ? tell(outcome.findings, scenario) : status;
    }
    ls_spmd_result_free(result);
    return status;
}
