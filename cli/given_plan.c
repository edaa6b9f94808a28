// The plans of --from-torchrec and --torchrec-plan.
#include "cli/given_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/scenarios.h"
#include "formats/json.h"
#include "planner/plan_file.h"
#include "runner/plan/scenario_machine.h"
#include "runner/plan/scenario_planner.h"
#include "runner/scenario/load.h"
#include "runner/scenario/scenario_layout.h"

int cli_given_plan_take(ls_scenario *scenario, const char *path, ls_arena *arena) {
    for (int t = 0; t < scenario->table_count; t++) {
        scenario->tables[t].sharding.plan = path;
    }
    ls_plan whole;
    int status = ls_scenario_plan_read(&whole, scenario, path, arena);
    for (int i = 0; status == LS_OK && i < whole.table_count; i++) {
        bool known = false;
        for (int t = 0; t < scenario->table_count && !known; t++) {
            known = strcmp(scenario->tables[t].name, whole.tables[i].name) == 0;
        }
        if (!known) {
            status = LS_FAIL(LS_ERR_FORMAT, "the plan %s has a table '%s', which %s lacks", path,
                             whole.tables[i].name, scenario->file);
        }
    }
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

// ---- The scenario of a plan alone ---------------------------------------------------------------
// As JSON has it, which YAML is as well: whatever a name holds.
static void write_name(ls_text *out, const char *name) {
    ls_json json;
    ls_json_begin(&json, out, 0);
    ls_json_string(&json, name);
}

static void write_scenario(ls_text *out, const ls_plan *plan) {
    ls_text_printf(out, "lockstep: 1\nname: the plan's tables\nmesh: {shape: [%d]}\ntables:\n",
                   plan->ranks);
    for (int t = 0; t < plan->table_count; t++) {
        const ls_plan_table *table = &plan->tables[t];
        ls_text_puts(out, "  - {name: ");
        write_name(out, table->name);
        ls_text_printf(out, ", rows: %lld, dim: %lld, features: [f%d]}\n", (long long)table->rows,
                       (long long)table->columns, t);
    }
    ls_text_puts(out, "inputs:\n  batch: 512\n  features:\n");
    for (int t = 0; t < plan->table_count; t++) {
        ls_text_printf(out, "    f%d: {lengths: {uniform: [1, 1]}, ids: uniform}\n", t);
    }
}

// A plan without its tables: they are as large as its shards say.
static int of_shards(ls_scenario **out, const char *path, int ranks, ls_arena *arena) {
    char *data = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(&data, &bytes, arena, path, LS_PLAN_FILE_BYTES_MAX));
    ls_plan plan;
    if (!ls_plan_is_torchrec(data, bytes)) {
        return LS_FAIL(LS_ERR_FORMAT, "%s: not a plan of TorchRec's", path);
    }
    if (ls_plan_read_torchrec(&plan, arena, data, bytes, ranks, ranks, NULL, 0) != LS_OK) {
        return ls_error_wrap("%s", path);
    }
    ls_text text = {0};
    ls_diagnostics *diagnostics = NULL;
    write_scenario(&text, &plan);
    const ls_scenario_options options = {.allow_outside = true};
    int status = ls_diagnostics_create(&diagnostics, path);
    status = status == LS_OK ? ls_scenario_parse(out, diagnostics, path, ls_text_string(&text),
                                                 text.length, &options)
                             : status;
    if (status != LS_OK && diagnostics != NULL && ls_diagnostics_count(diagnostics) > 0) {
        ls_text why = {0};
        ls_diagnostics_format(&why, diagnostics);
        status =
            LS_FAIL(LS_ERR_FORMAT, "the plan's tables are not valid: %s", ls_text_string(&why));
        ls_text_free(&why);
    }
    ls_diagnostics_free(diagnostics);
    ls_text_free(&text);
    return status;
}

// ---- Cost ---------------------------------------------------------------------------------------
static int solve(ls_text *out, bool *fits, const ls_topology *topology,
                 const ls_planner_table *tables, int count) {
    ls_planner_problem *problem = NULL;
    ls_planner_result result;
    LS_TRY(ls_planner_problem_create(&problem, topology, tables, count, &(ls_planner_options){0}));
    int status = ls_planner_solve(&result, problem);
    status = status == LS_OK ? ls_planner_write_text(out, problem, &result) : status;
    *fits = status == LS_OK && result.found;
    ls_planner_problem_free(problem);
    return status;
}

static int cost(ls_text *out, const char *path, ls_scenario *scenario, const char *machine,
                ls_arena *arena) {
    CLI_TRY(cli_given_plan_take(scenario, path, arena));
    ls_topology topology;
    ls_planner_table *tables = NULL;
    ls_text errors = {0};
    bool cut = false, fits = false;
    int status = ls_scenario_machine(&topology, &errors, scenario, machine);
    (void)fputs(ls_text_string(&errors), stderr);
    ls_text_free(&errors);
    status = status == LS_OK ? ls_scenario_planner_tables(&tables, &cut, scenario, INFINITY, arena)
                             : status;
    status = status == LS_OK ? solve(out, &fits, &topology, tables, scenario->table_count) : status;
    if (status != LS_OK) {
        return cli_fail(status);
    }
    return fits ? LS_EXIT_OK : LS_EXIT_FINDING;
}

static int cost_given(ls_text *out, const char *path, const char *tables, int ranks,
                      const char *machine, ls_arena *arena) {
    if (tables == NULL) {
        ls_scenario *made = NULL;
        int status = of_shards(&made, path, ranks, arena);
        int code = status == LS_OK ? cost(out, path, made, machine, arena) : cli_fail(status);
        ls_scenario_free(made);
        return code;
    }
    cli_scenarios scenarios;
    const char *files[] = {tables};
    int code = cli_scenarios_load(&scenarios, &(cli_args){.values = files, .count = 1}, false);
    CLI_TRY(code);
    if (ranks > 0 && scenarios.at[0]->ranks != ranks) {
        cli_error("%s is for %d ranks, the program has %d", tables, scenarios.at[0]->ranks, ranks);
        code = LS_EXIT_USAGE;
    } else {
        code = cost(out, path, scenarios.at[0], machine, arena);
    }
    cli_scenarios_free(&scenarios);
    return code;
}

int cli_given_plan_cost(ls_text *out, const char *path, const char *tables, int ranks,
                        const char *machine) {
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    int code = cost_given(out, path, tables, ranks, machine, arena);
    ls_arena_free(arena);
    return code;
}
