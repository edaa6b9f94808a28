// lockstep plan: a sharding plan for a scenario's tables, with a proof of how good it is.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/commands.h"
#include "cli/given_plan.h"
#include "cli/plan_times.h"
#include "cli/redistributions.h"
#include "cli/scenarios.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "runner/plan/scenario_machine.h"
#include "runner/plan/scenario_planner.h"
#include "runner/plan/validate.h"
#include "formats/json.h"

// Share of --seconds: ids are read until then, and the search ends in time for the reports.
#define IDS_BEFORE   0.4
#define WRITE_BEFORE 0.95

static const char *const models[] = {"lockstep", "torchrec", NULL};

static struct {
    const char *out, *svg, *lp, *torchrec, *from_torchrec, *explain, *machine, *measured, *keep;
    bool diff, validate, allow_outside;
    int model;
    uint64_t nodes;
    double seconds, gap, reserve;
    bool nodes_given, seconds_given;
    double started;  // of clock(), when the command began: what --seconds counts from
} given;

static const cli_option options[] = {
    {CLI_STRING, "out", &given.out, "PLAN", .output = CLI_OUTPUT_FILE,
     .help = "Write the plan to a file, for scenarios to use"},
    {CLI_STRING, "machine", &given.machine, "NAME|FILE",
     .help = "Machine: v100_torchrec, a100, h100, h200, or a YAML file (default: the scenario's "
             "machine)"},
    {CLI_CHOICE, "model", &given.model, "NAME", .choices = models,
     .help = "Cost model: lockstep (default) or torchrec (TorchRec's, as a baseline)"},
    {CLI_U64, "nodes", &given.nodes, "N", .given = &given.nodes_given,
     .help = "Stop the search after N nodes (default 10000000; 0: at the first plan). The plan "
             "depends on this count, not on the machine"},
    {CLI_DOUBLE, "seconds", &given.seconds, "S", .double_max = CLI_SECONDS_MAX,
     .given = &given.seconds_given,
     .help = "Stop S seconds after the start (default: never; 0: at the first plan). The report "
             "states if it did; another run may then find another plan"},
    {CLI_DOUBLE, "gap", &given.gap, "X", .double_max = 1000,
     .help = "Stop if the plan is proven within X of the best; 0.01 is 1 % (default 0)"},
    {CLI_DOUBLE, "reserve", &given.reserve, "X", .double_max = 1,
     .help = "Share of each rank's device memory kept free, below 1 (default 0)"},
    {CLI_STRING, "explain", &given.explain, "TABLE",
     .help = "Explain the place of each table and its next best choice"},
    {CLI_STRING, "svg", &given.svg, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Draw load and memory of every rank"},
    {CLI_STRING, "torchrec", &given.torchrec, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Write the plan in TorchRec's form as JSON"},
    {CLI_STRING, "from-torchrec", &given.from_torchrec, "FILE",
     .help = "Check and cost a plan of TorchRec's planner for all tables"},
    {CLI_STRING, "lp", &given.lp, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Write the problem for other solvers (CPLEX LP format)"},
    {CLI_SWITCH, "validate", &given.validate,
     .help =
         "Run the plan in the simulator and compare planned and moved bytes per rank and stage"},
    {CLI_STRING, "measured", &given.measured, "nccl|sim|FILE",
     .help = "Compare predicted and measured times per rank and stage: runs the plan on the GPUs "
             "(sim: on this CPU), or reads times and plan from FILE"},
    {CLI_STRING, "keep", &given.keep, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "With --measured nccl: write the times to a file"},
    {CLI_SWITCH, "diff", &given.diff, .help = "Compare two plan files"},
    CLI_OUTSIDE_OPTION(given.allow_outside),
    {.long_name = NULL},
};

// ---- Differences --------------------------------------------------------------------------------

// why: what is short when nothing fits; NULL: a plan was found.
static int write_pages(const char *file, const char *why) {
    ls_results *results = NULL;
    int status = ls_results_create(&results, "plan");
    if (status == LS_OK) {
        status =
            ls_results_add(results, &(ls_case_result){.name = file,
                                                      .file = file,
                                                      .pass = why == NULL,
                                                      .class_ = why == NULL ? LS_CLASS_BIT_EXACT
                                                                            : LS_CLASS_FINDING,
                                                      .error = why});
    }
    int code = status == LS_OK ? cli_report_pages(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

static void write_diff_json(ls_text *out, int differing, const char *text) {
    ls_json json;
    ls_json_report_begin(&json, out, 2, "plan");
    ls_json_member_string(&json, "verdict", differing == 0 ? "pass" : "fail");
    ls_json_member_int(&json, "differing", differing);
    ls_json_member_string(&json, "text", text);
    ls_json_report_end(&json);
}

static int write_diff(const ls_text *text, int differing, const char *file) {
    int code = LS_EXIT_OK;
    if (differing > 0 && !cli_stdout_taken() && !cli_options_common.quiet) {
        code = cli_print(text);
    }
    if (cli_options_common.json != NULL && code == LS_EXIT_OK) {
        ls_text json = {0};
        write_diff_json(&json, differing, ls_text_string(text));
        code = cli_output(cli_options_common.json, &json);
        ls_text_free(&json);
    }
    if (code == LS_EXIT_OK) {
        code = write_pages(file, differing > 0 ? ls_text_string(text) : NULL);
    }
    return code == LS_EXIT_OK && differing > 0 ? LS_EXIT_FINDING : code;
}

static int diff(const cli_args *args, ls_arena *arena) {
    ls_plan a;
    ls_plan b;
    int code = cli_plan_load(&a, arena, args->values[0]);
    int second = cli_plan_load(&b, arena, args->values[1]);
    if (code != LS_EXIT_OK || second != LS_EXIT_OK) {
        return code != LS_EXIT_OK ? code : second;
    }
    ls_text text = {0};
    int differing = ls_plan_diff(&text, &a, &b);
    code = differing < 0 ? cli_fail(differing) : write_diff(&text, differing, args->values[1]);
    ls_text_free(&text);
    return code;
}

// ---- Planning -----------------------------------------------------------------------------------

static int find_machine(ls_topology *out, const ls_scenario *scenario) {
    ls_text errors = {0};
    int status = ls_scenario_machine(out, &errors, scenario, given.machine);
    int code = LS_EXIT_OK;
    if (errors.length > 0) {
        (void)fputs(ls_text_string(&errors), stderr);
        code = LS_EXIT_USAGE;
    } else if (status != LS_OK) {
        code = cli_fail(status);
        code = status == LS_ERR_NOT_FOUND || status == LS_ERR_INVALID ? LS_EXIT_USAGE : code;
    }
    ls_text_free(&errors);
    return code;
}

// Hands what the last argument appends to text_ on, if it is wanted.
#define MAKE(code, wanted, send, ...)                                                              \
    do {                                                                                           \
        if ((wanted) && (code) == LS_EXIT_OK) {                                                    \
            ls_text text_ = {0};                                                                   \
            int status_ = __VA_ARGS__;                                                             \
            (code) = status_ == LS_OK ? (send) : cli_fail(status_);                                \
            ls_text_free(&text_);                                                                  \
        }                                                                                          \
    } while (0)
// To a path, unless it was not given; to stdout, for people.
#define WRITE(code, path, ...)   MAKE(code, (path) != NULL, cli_output((path), &text_), __VA_ARGS__)
#define PRINT(code, wanted, ...) MAKE(code, wanted, cli_print(&text_), __VA_ARGS__)

// The files about the plan itself, whatever the report is about.
static int write_plan_files(const ls_planner_problem *problem, const ls_planner_result *result) {
    int code = LS_EXIT_OK;
    WRITE(code, given.svg, ls_planner_write_svg(&text_, problem, result));
    WRITE(code, given.torchrec, ls_plan_write_torchrec(&text_, &result->plan));
    WRITE(code, given.out, ls_plan_write(&text_, &result->plan));
    return code;
}

static int write_found(const ls_planner_problem *problem, const ls_planner_result *result,
                       const char *file) {
    int code = LS_EXIT_OK;
    bool report = !cli_stdout_taken() && !cli_options_common.quiet;
    if (given.explain) {
        PRINT(code, report, ls_planner_explain(&text_, problem, result, given.explain));
    } else {
        PRINT(code, report, ls_planner_write_text(&text_, problem, result));
    }
    WRITE(code, cli_options_common.json, ls_planner_write_json(&text_, problem, result, NULL));
    code = code == LS_EXIT_OK ? write_plan_files(problem, result) : code;
    return code == LS_EXIT_OK ? write_pages(file, NULL) : code;
}

// Reports planned against simulated bytes instead of the plan.
static int write_validated(const ls_planner_problem *problem, const ls_planner_result *result,
                           const ls_scenario *scenario, ls_arena *arena) {
    ls_validated_rank *ranks = ls_arena_alloc(arena, (size_t)scenario->ranks, sizeof(*ranks));
    int status = ranks ? ls_validate_plan(ranks, scenario, &result->plan) : LS_ERR_MEMORY;
    if (status != LS_OK) {
        return cli_fail(status);
    }
    ls_text text = {0};
    ls_validate_write_text(&text, ranks, scenario->ranks);
    bool equal = ls_validate_differing(ranks, scenario->ranks) == 0;
    int code = cli_stdout_taken() || cli_options_common.quiet ? LS_EXIT_OK : cli_print(&text);
    WRITE(code, cli_options_common.json,
          (ls_validate_write_json(&text_, ranks, scenario->ranks), LS_OK));
    code = code == LS_EXIT_OK ? write_plan_files(problem, result) : code;
    if (code == LS_EXIT_OK) {
        code = write_pages(scenario->file, equal ? NULL : ls_text_string(&text));
    }
    ls_text_free(&text);
    return code == LS_EXIT_OK && !equal ? LS_EXIT_FINDING : code;
}

// Reports predicted against measured times instead of the plan. times: read from a file, or NULL.
static int write_measured(const ls_stage_times *times, const ls_planner_problem *problem,
                          const ls_planner_result *result, const ls_scenario *scenario,
                          ls_arena *arena) {
    ls_stage_times live;
    int code = LS_EXIT_OK;
    if (times == NULL) {
        code = cli_plan_times_measure(&live, cli_plan_times_live(given.measured), scenario,
                                      &result->plan, arena);
        times = &live;
    }
    if (code == LS_EXIT_OK) {
        code = cli_plan_times_report(times, problem, result, given.keep, arena);
    }
    code = code == LS_EXIT_OK ? write_plan_files(problem, result) : code;
    return code == LS_EXIT_OK ? write_pages(scenario->file, NULL) : code;
}

static int write_missing(ls_planner_problem *problem, const ls_planner_result *result,
                         const char *file) {
    ls_planner_diagnosis *why = calloc(1, sizeof(*why));
    ls_text text = {0};
    if (!why) {
        cli_error("out of memory");
        return LS_EXIT_ENVIRONMENT;
    }
    int code = LS_EXIT_OK;
    bool report = !cli_stdout_taken();
    int status = ls_planner_diagnose(why, problem);
    status = status == LS_OK ? ls_planner_write_diagnosis(&text, problem, why) : status;
    if (status != LS_OK) {
        code = cli_fail(status);
    }
    PRINT(code, report, ls_planner_write_text(&text_, problem, result));
    if (report && code == LS_EXIT_OK) {
        code = cli_print(&text);
    }
    WRITE(code, cli_options_common.json,
          ls_planner_write_json(&text_, problem, result, ls_text_string(&text)));
    code = code == LS_EXIT_OK ? write_pages(file, ls_text_string(&text)) : code;
    ls_text_free(&text);
    free(why);
    return code == LS_EXIT_OK ? LS_EXIT_FINDING : code;
}

// The times that --measured FILE names, and their plan as the only choice of every table.
static int take_times(ls_stage_times **out, ls_planner_table *tables, const ls_scenario *scenario,
                      ls_arena *arena) {
    *out = NULL;
    if (given.measured == NULL || cli_plan_times_live(given.measured) != NULL) {
        return LS_EXIT_OK;
    }
    ls_stage_times *times = ls_arena_alloc(arena, 1, sizeof(*times));
    int code = times ? cli_plan_times_read(times, given.measured, scenario, arena)
                     : cli_fail(LS_ERR_MEMORY);
    for (int t = 0; t < scenario->table_count && code == LS_EXIT_OK; t++) {
        tables[t].layout = &times->plan.tables[t];
    }
    *out = times;
    return code;
}

static ls_planner_options planner_options(const ls_scenario *scenario) {
    ls_planner_options out = {
        .model = given.model == 0 ? LS_PLANNER_LOCKSTEP : LS_PLANNER_TORCHREC,
        .torchrec_options = given.model == 1,
        .reserve_share = given.reserve,
        .gap_goal = given.gap,
        .seed = scenario->seed,
    };
    if (given.nodes_given) {  // 0 would be the default
        out.nodes_max = given.nodes > INT64_MAX ? INT64_MAX : (int64_t)given.nodes;
        out.nodes_max = out.nodes_max > 0 ? out.nodes_max : 1;
    }
    if (given.seconds_given && given.seconds > 0.0) {
        out.seconds_max =
            fmax(WRITE_BEFORE * given.seconds - (ls_time_now() - given.started), 1e-9);
    } else if (given.seconds_given) {  // the first plan, whatever it takes
        out.nodes_max = 1;
    }
    return out;
}

static int plan(const ls_scenario *scenario, ls_arena *arena) {
    if (scenario->is_program) {
        return cli_redistributions_report(scenario, arena);
    }
    ls_topology topology;
    ls_planner_table *tables = NULL;
    ls_stage_times *times = NULL;
    int code = find_machine(&topology, scenario);
    CLI_TRY(code);
    double deadline = given.seconds_given && given.seconds > 0.0
                          ? given.started + IDS_BEFORE * given.seconds
                          : INFINITY;
    bool cut = false;
    int status = ls_scenario_planner_tables(&tables, &cut, scenario, deadline, arena);
    if (status == LS_OK && (code = take_times(&times, tables, scenario, arena)) != LS_EXIT_OK) {
        return code;
    }
    ls_planner_options planner = planner_options(scenario);
    planner.cut = cut;
    ls_planner_problem *problem = NULL;
    if (status == LS_OK) {
        status =
            ls_planner_problem_create(&problem, &topology, tables, scenario->table_count, &planner);
    }
    ls_planner_result result;
    WRITE(code, status == LS_OK ? given.lp : NULL, ls_planner_write_lp(&text_, problem));
    if (status == LS_OK && code == LS_EXIT_OK) {
        status = ls_planner_solve(&result, problem);
        if (status == LS_OK) {
            if (!result.found) {
                code = write_missing(problem, &result, scenario->file);
            } else if (given.measured) {
                code = write_measured(times, problem, &result, scenario, arena);
            } else {
                code = given.validate ? write_validated(problem, &result, scenario, arena)
                                      : write_found(problem, &result, scenario->file);
            }
        }
    }
    if (status != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        code = status == LS_ERR_NOT_FOUND ? LS_EXIT_USAGE : cli_exit_of(status);
    }
    ls_planner_problem_free(problem);
    return code;
}

static int check_options(void) {
    const ls_backend_kind *live = cli_plan_times_live(given.measured);
    if (given.measured != NULL && (given.validate || given.diff || given.model != 0)) {
        cli_error("--measured excludes --validate, --diff and --model torchrec");
        return LS_EXIT_USAGE;
    }
    if (given.explain != NULL && (given.measured != NULL || given.validate)) {
        cli_error("--explain excludes --validate and --measured");
        return LS_EXIT_USAGE;
    }
    if (given.keep != NULL && live == NULL) {
        cli_error("--keep requires --measured nccl (or sim)");
        return LS_EXIT_USAGE;
    }
#ifndef LOCKSTEP_WITH_NCCL
    if (live != NULL && live->open == NULL) {
        return cli_become(live->threads_program);
    }
#endif
    return LS_EXIT_OK;
}

static int run(const cli_args *args) {
    given.started = ls_time_now();
    if (args->count != (given.diff ? 2 : 1)) {
        cli_error(given.diff ? "plan --diff compares two plan files"
                             : "plan takes one scenario file");
        return LS_EXIT_USAGE;
    }
    int code = check_options();
    CLI_TRY(code);
    ls_arena *arena;
    int status = ls_arena_create(&arena);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    if (given.diff) {
        code = diff(args, arena);
    } else {
        cli_scenarios scenarios;
        code = cli_scenarios_load(&scenarios, args, given.allow_outside);
        if (code == LS_EXIT_OK) {
            code = given.from_torchrec != NULL
                       ? cli_given_plan_take(scenarios.at[0], given.from_torchrec, arena)
                       : LS_EXIT_OK;
            code = code == LS_EXIT_OK ? plan(scenarios.at[0], arena) : code;
            cli_scenarios_free(&scenarios);
        }
    }
    ls_arena_free(arena);
    return code;
}

const cli_command cli_cmd_plan = {
    .name = "plan",
    .arguments = "FILE | --diff PLAN PLAN",
    .arguments_max = 2,
    .summary = "Find a sharding plan for tables, with a lower bound on its cost",
    .details = "Reads the scenario's inputs and searches all placements that its sharding keys "
               "allow. It prints the plan's cost, a lower bound of all plans, and the gap. If "
               "nothing fits, it names the missing memory and the single changes that help. Of a "
               "program it prints what each redistribution costs and the cheapest path. Exit "
               "code 0: a plan; 1: none, a difference (--diff), bytes that differ (--validate) or "
               "a wrong result (--measured); 2: a file is unusable.",
    .example = "lockstep plan tables.yaml --out plan.yaml",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
