// Runs a program's ranks as an SPMD program, and takes its findings over. What each rank does is
// program_ranks.c.
#include <stdlib.h>
#include <string.h>

#include "collectives/check.h"
#include "scenarios/runner/program.h"
#include "scenarios/runner/trace.h"

#define LOOKAHEAD_MAX 64

bool ls_program_has_ranks(const ls_scenario *scenario) {
    for (int i = 0; scenario->is_program && i < scenario->step_count; i++) {
        if (scenario->steps[i].kind <= LS_STEP_BARRIER && scenario->steps[i].tensor == NULL) {
            return true;
        }
    }
    return false;
}

bool ls_program_needs_ranks(const ls_scenario *scenario) {
    bool needs = scenario->is_program && scenario->fault_count > 0;
    for (int i = 0; i < scenario->step_count; i++) {
        needs = needs || scenario->steps[i].except_count > 0;
    }
    return needs;
}

// ---- The run ------------------------------------------------------------------------------------
static int copy_findings(ls_finding **out, int *count, const ls_spmd_result *result,
                         ls_arena *arena) {
    int n = ls_spmd_finding_count(result);
    ls_finding *copies = ls_arena_alloc(arena, (size_t)(n > 0 ? n : 1), sizeof *copies);
    if (copies == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        const ls_finding *from = ls_spmd_finding(result, i);
        copies[i] = *from;
        copies[i].where = ls_arena_strdup(arena, from->where);
        copies[i].text = ls_arena_strdup(arena, from->text);
        if (from->rank_count > 0) {
            copies[i].ranks =
                ls_arena_copy(arena, from->ranks, (size_t)from->rank_count * sizeof *from->ranks);
        }
        if (copies[i].where == NULL || copies[i].text == NULL || copies[i].ranks == NULL) {
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

static int run_once(ls_finding **out, int *count, const ls_scenario *scenario, ls_arena *arena,
                    const ls_program_ranks_options *options, const ls_order *order, uint64_t seed) {
    *out = NULL;
    *count = 0;
    bool hashed = scenario->expect.has_finding &&
                  scenario->expect.finding == LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT;
    const ls_spmd_options spmd = {
        .ranks = scenario->ranks,
        .mesh = scenario->mesh,
        .seed = seed,
        .schedule = options->tries > 0 ? LS_SCHEDULE_RANDOM : options->schedule,
        .checks = options->checks != NULL ? options->checks
                  : hashed                ? "all"
                                          : "all,-buffer.modified_in_flight",
        .order = order,
        .met = options->trace != NULL && options->tries == 0 ? ls_trace_met : NULL,
        .met_arg = options->trace,
        .faults = ls_program__faults(scenario, arena),
        .fault_count = scenario->fault_count,
        .lookahead = scenario->step_count < LOOKAHEAD_MAX ? scenario->step_count : LOOKAHEAD_MAX,
    };
    if (spmd.faults == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_trace_begin(options->trace, scenario->name, scenario->ranks, scenario));
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run(&result, ls_program__rank_main, (void *)(uintptr_t)scenario, &spmd);
    if (result != NULL && ls_spmd_finding_count(result) > 0) {
        status = copy_findings(out, count, result, arena);
    }
    ls_spmd_result_free(result);
    return status;
}

int ls_program_ranks(ls_finding **out, int *count, uint64_t *seed, const ls_scenario *scenario,
                     ls_arena *arena, const ls_program_ranks_options *options) {
    ls_order *order = NULL;
    LS_TRY(options->order != NULL ? ls_order_parse(&order, options->order) : LS_OK);
    int tries = options->tries > 0 ? options->tries : 1, status = LS_OK;
    *count = 0;
    for (int i = 0; i < tries && *count == 0 && status == LS_OK; i++) {
        *seed = scenario->seed + (uint64_t)i;
        status = run_once(out, count, scenario, arena, options, order, *seed);
    }
    ls_order_free(order);
    return status;
}

// ---- One rank of a real run ---------------------------------------------------------------------
// As a failed check of this thread, which is how processes tell what they found. The site's file
// can only be the scenario's.
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

int ls_program_rank_real(const ls_scenario *scenario, ls_backend *backend, ls_arena *arena) {
    const ls_spmd_options options = {.checks = "all",
                                     .faults = ls_program__faults(scenario, arena),
                                     .fault_count = scenario->fault_count};
    if (options.faults == NULL) {
        return LS_ERR_MEMORY;
    }
    int rank = ls_world_held(backend->world)[0];
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run_backend(&result, ls_program__rank_main, (void *)(uintptr_t)scenario,
                                     backend, &options);
    if (result != NULL && ls_spmd_finding_count(result) > 0) {
        status = tell(ls_spmd_finding(result, 0), scenario);
    } else if (result != NULL && ls_spmd_exit_status(result, rank) != 0) {
        const ls_finding gone = {
            .id = LS_FINDING_RANK_EXITED_EARLY,
            .ranks = &rank,
            .rank_count = 1,
            .where = "",
            .text = ls_arena_printf(arena, "rank %d returned with status %d", rank,
                                    ls_spmd_exit_status(result, rank)),
        };
        status = gone.text != NULL ? tell(&gone, scenario) : LS_ERR_MEMORY;
    }
    ls_spmd_result_free(result);
    return status;
}
