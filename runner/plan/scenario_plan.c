// Builds the plan of a scenario: the shards that its keys give, and the planner's choice for the
// rest.
#include "runner/plan/scenario_plan.h"

#include <math.h>
#include <string.h>

#include "planner/planner.h"
#include "runner/scenario/scenario_layout.h"
#include "runner/plan/scenario_machine.h"
#include "runner/plan/scenario_planner.h"

#define PLAN_NODES_MAX 20000
#define PLAN_GAP       0.01

// Whether nothing is left to choose: the ranks are given, or the type determines them.
static bool is_fixed(const ls_scenario_table *table) {
    const ls_scenario_sharding *sharding = &table->sharding;
    return sharding->plan != NULL || sharding->ranks.count > 0 || sharding->host >= 0 ||
           (sharding->has_type &&
            (sharding->type == LS_ROW_WISE || sharding->type == LS_DATA_PARALLEL));
}

static ls_plan_shard *copy_shards(ls_arena *arena, const ls_plan_table *table) {
    return ls_arena_copy(arena, table->shards, (size_t)table->shard_count * sizeof *table->shards);
}

// Applies the planner's choice to the tables that are not fixed.
static int take(ls_plan *out, const ls_scenario *scenario, ls_arena *arena, const ls_plan *chosen) {
    for (int i = 0; i < scenario->table_count; i++) {
        if (is_fixed(&scenario->tables[i])) {
            continue;
        }
        ls_plan_table *table = &out->tables[i];
        *table = chosen->tables[i];
        table->name = scenario->tables[i].name;
        table->shards = copy_shards(arena, &chosen->tables[i]);
        LS_TRY_MEMORY(table->shards != NULL);
    }
    return LS_OK;
}

// Plans all tables; the fixed ones keep their place, so that their load counts.
static int place_open(ls_plan *out, const ls_scenario *scenario, ls_arena *arena) {
    ls_planner_table *tables;
    bool cut = false;
    LS_TRY(ls_scenario_planner_tables(&tables, &cut, scenario, INFINITY, arena));
    ls_topology topology;
    ls_text errors = {0};
    int found = ls_scenario_machine(&topology, &errors, scenario, NULL);
    ls_text_free(&errors);
    LS_TRY(found);
    // A limit on nodes instead of time: every process of a real run must find the same plan.
    const ls_planner_options options = {
        .nodes_max = PLAN_NODES_MAX, .gap_goal = PLAN_GAP, .seed = scenario->seed};
    ls_planner_problem *problem;
    LS_TRY(ls_planner_problem_create(&problem, &topology, tables, scenario->table_count, &options));
    ls_planner_result result;
    int status = ls_planner_solve(&result, problem);
    if (status == LS_OK && !result.found) {
        status =
            LS_FAIL(LS_ERR_INVALID, "no plan fits %d ranks of a %s; lockstep plan explains why",
                    scenario->ranks, topology.name);
    }
    status = status == LS_OK ? take(out, scenario, arena, &result.plan) : status;
    ls_planner_problem_free(problem);
    return status;
}

int ls_scenario_plan(ls_plan *out, const ls_scenario *scenario, ls_arena *arena) {
    *out = (ls_plan){
        .ranks = scenario->ranks,
        .ranks_per_host = scenario->ranks_per_host,
        .tables = ls_arena_alloc(arena, (size_t)scenario->table_count, sizeof *out->tables),
        .table_count = scenario->table_count,
    };
    LS_TRY_MEMORY(out->tables != NULL);
    bool open = false;
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        if (!is_fixed(table)) {
            open = true;
        } else if (ls_scenario_layout(&out->tables[i], scenario, table, arena) != LS_OK) {
            return ls_error_wrap("%s: table %s", ls_scenario_where(scenario, &table->node),
                                 table->name);
        }
    }
    if (open && place_open(out, scenario, arena) != LS_OK) {
        return ls_error_wrap("%s", scenario->file);
    }
    return LS_OK;
}
