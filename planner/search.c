// The search as a whole: bound, first plans, improvement, exact search; and the result.
#include "base/time.h"
#include "planner/problem.h"

#include <math.h>

// Of the time, while no plan is found: what is left is for ls_planner_diagnose.
#define FIRST_SHARE 0.75

// ---- The result ---------------------------------------------------------------------------------

static void fill_rank(ls_planner_result *result, const ls_planner_shard *shard) {
    ls_planner_rank *rank = &result->ranks[shard->block.rank];
    rank->cost.forward_compute_ms += shard->cost.forward_compute_ms;
    rank->cost.forward_comms_ms += shard->cost.forward_comms_ms;
    rank->cost.backward_compute_ms += shard->cost.backward_compute_ms;
    rank->cost.backward_comms_ms += shard->cost.backward_comms_ms;
    rank->cost.prefetch_ms += shard->cost.prefetch_ms;
    rank->cost.input_comms_ms += shard->cost.input_comms_ms;
    rank->hbm_bytes += shard->hbm_bytes;
    rank->ddr_bytes += shard->ddr_bytes;
    rank->input_bytes += shard->input_bytes;
    rank->output_bytes += shard->output_bytes;
    rank->shards++;
}

static int fill_table(ls_planner_result *result, ls_planner_problem *problem, int table,
                      const ls_choice *choice, const ls_planner_option *option, const int *place) {
    size_t count = (size_t)option->shard_count;
    ls_planner_shard *shards = ls_arena_alloc(problem->arena, count, sizeof(*shards));
    ls_plan_shard *blocks = ls_arena_alloc(problem->arena, count, sizeof(*blocks));
    LS_TRY_MEMORY(shards != NULL && blocks != NULL);
    for (int i = 0; i < option->shard_count; i++) {
        shards[i] = option->shards[i];
        if (!option->pinned) {
            int unit = i / choice->unit_shards;
            shards[i].block.rank = ls_problem__rank(problem, choice, i, place[unit]);
        }
        blocks[i] = shards[i].block;
        fill_rank(result, &shards[i]);
    }
    result->chosen[table] = option;
    result->shards[table] = shards;
    result->plan.tables[table] = (ls_plan_table){
        .name = problem->tables[table].name,
        .module = problem->tables[table].module,
        .sharding = option->sharding,
        .kernel = option->kernel,
        .rows = problem->tables[table].rows,
        .columns = problem->tables[table].columns,
        .shards = blocks,
        .shard_count = option->shard_count,
    };
    return LS_OK;
}

int ls_result__fill(ls_planner_result *result, ls_planner_problem *problem,
                    const ls_assignment *assignment) {
    ls_arena *arena = problem->arena;
    size_t tables = (size_t)problem->table_count;
    result->found = true;
    result->chosen = ls_arena_alloc(arena, tables, sizeof(*result->chosen));
    result->shards = ls_arena_alloc(arena, tables, sizeof(*result->shards));
    result->ranks = ls_arena_alloc(arena, (size_t)problem->ranks, sizeof(*result->ranks));
    result->plan = (ls_plan){.ranks = problem->ranks,
                             .ranks_per_host = problem->group,
                             .table_count = problem->table_count};
    result->plan.tables = ls_arena_alloc(arena, tables, sizeof(*result->plan.tables));
    LS_TRY_MEMORY(result->chosen != NULL && result->shards != NULL && result->ranks != NULL &&
                  result->plan.tables != NULL);
    ls_found_plan *found = ls_arena_alloc(arena, 1, sizeof(*found));
    LS_TRY_MEMORY(found != NULL);
    *found = (ls_found_plan){.chosen = result->chosen, .before = problem->found};
    LS_TRY(ls_assignment__create(&found->assignment, problem, arena));
    ls_assignment__copy(&found->assignment, assignment, problem);
    problem->found = found;
    bool used[LS_SHARDING_COUNT] = {false};
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        const ls_choice *choice = &item->choices[assignment->choice[i]];
        used[choice->sharding] = true;
        for (int m = 0; m < item->table_count; m++) {
            LS_TRY(fill_table(result, problem, item->tables[m], choice, choice->options[m],
                              assignment->place[i]));
        }
    }
    double most = 0.0;
    for (int r = 0; r < problem->ranks; r++) {
        ls_planner_rank *rank = &result->ranks[r];
        rank->ms = ls_planner_cost_total(&rank->cost);
        rank->hbm_capacity = problem->hbm_capacity;
        rank->ddr_capacity = problem->topology.ddr_bytes;
        most = fmax(most, rank->ms);
    }
    result->startup_ms = 0.0;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        result->startup_ms += used[s] ? problem->startup_ms[s] : 0.0;
    }
    result->ms = most + result->startup_ms;
    return LS_OK;
}

const ls_assignment *ls_result__assignment(const ls_planner_problem *problem,
                                           const ls_planner_result *result) {
    const ls_found_plan *found = problem->found;
    while (found != NULL && found->chosen != result->chosen) {
        found = found->before;
    }
    LS_ASSERT(found != NULL);
    return &found->assignment;
}

// ---- Solving ------------------------------------------------------------------------------------

static int search(ls_assignment *best, bool *complete, ls_planner_problem *problem,
                  ls_search_budget *budget, ls_arena *arena) {
    const ls_planner_options *options = &problem->options;
    bool exact = ls_search__exact_possible(problem);
    *complete = false;
    LS_TRY(ls_assignment__create(best, problem, arena));
    if (!options->exact_only) {
        LS_TRY(ls_search__construct(best, problem, budget, arena));
        // Small problems are better proven than polished.
        int64_t rounds = exact && problem->item_count <= 12 ? 50 : INT64_MAX;
        int64_t nodes_max = budget->nodes_max;
        budget->nodes_max = exact ? nodes_max / 4 : nodes_max;
        LS_TRY(ls_search__improve(best, problem, budget, rounds, arena));
        budget->nodes_max = nodes_max;
    }
    if (exact && !ls_search__over(budget, best->ticks)) {
        LS_TRY(ls_search__exact(best, complete, problem, budget, arena));
    }
    return LS_OK;
}

static void judge(ls_planner_result *result, const ls_planner_problem *problem,
                  const ls_search_budget *budget, const ls_assignment *best, bool complete) {
    bool found = best->ticks != LS_TICKS_NONE;
    result->proven = complete || (found && best->ticks <= budget->lower);
    result->lower_bound_ms =
        found && result->proven ? result->ms : (double)budget->lower / problem->ticks_per_ms;
    if (found) {
        result->lower_bound_ms = fmin(result->lower_bound_ms, result->ms);
        result->gap =
            result->proven || result->ms == 0.0 ? 0.0 : result->ms / result->lower_bound_ms - 1.0;
    }
    bool near = found && result->gap <= problem->options.gap_goal;
    result->stop =
        budget->nodes >= budget->nodes_max ? LS_PLANNER_STOP_NODES : LS_PLANNER_STOP_SIZE;
    if (result->proven) {
        result->stop = LS_PLANNER_STOP_PROVEN;
    } else if (near) {
        result->stop = LS_PLANNER_STOP_GAP;
    } else if (budget->late) {
        result->stop = LS_PLANNER_STOP_TIME;
    }
    result->timed_out = budget->late || problem->options.cut;
}

// Blocks that were given may be broken on purpose.
static bool has_layouts(const ls_planner_problem *problem) {
    for (int i = 0; i < problem->table_count; i++) {
        if (problem->tables[i].layout) {
            return true;
        }
    }
    return false;
}

int ls_planner_solve(ls_planner_result *result, ls_planner_problem *problem) {
    LS_ASSERT(result && problem);
    const ls_planner_options *options = &problem->options;
    *result = (ls_planner_result){0};
    ls_search_budget budget = {.started = ls_time_now(), .gap_goal = options->gap_goal};
    budget.nodes_max = options->nodes_max ? options->nodes_max : LS_PLANNER_NODES_DEFAULT;
    bool timed = options->seconds_max > 0.0;
    double from = budget.started - problem->create_seconds;
    budget.deadline = timed ? from + options->seconds_max : INFINITY;
    budget.deadline_first = timed ? from + FIRST_SHARE * options->seconds_max : INFINITY;
    problem->deadline = timed ? budget.deadline : 0.0;
    ls_search__count(&budget, 0, problem->create_looks);
    ls_bound__root(&budget, problem);
    if (budget.lower == LS_TICKS_NONE) {
        result->timed_out = options->cut;
        result->proven = true;
        result->stop = LS_PLANNER_STOP_PROVEN;
        result->lower_bound_ms = INFINITY;
        result->seconds = ls_time_now() - budget.started;
        return LS_OK;
    }
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    ls_assignment best;
    bool complete;
    int status = search(&best, &complete, problem, &budget, arena);
    if (status == LS_OK && best.ticks != LS_TICKS_NONE) {
        status = ls_result__fill(result, problem, &best);
    }
    if (status == LS_OK) {
        judge(result, problem, &budget, &best, complete);
        result->nodes = budget.nodes;
        result->seconds = ls_time_now() - budget.started;
        result->first_seconds = result->found ? budget.first - budget.started : 0.0;
        if (result->found && !has_layouts(problem)) {
            status = ls_plan_check(&result->plan);
        }
    }
    ls_arena_free(arena);
    return status;
}
