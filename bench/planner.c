// The planner on made-up models: how soon it has a plan, how far that is from what no plan can be
// under, and what TorchRec's search makes of the same options and costs. Runs only when it is asked
// for: the searches are given tens of seconds.
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "planner/planner.h"

#define MODELS_COUNT  50
#define MODELS_TABLES 30
#define MODELS_RANKS  8
#define MODELS_NODES  200000  // of each search: the same plan on every machine
#define PROPOSALS     2000
#define MEMORY_LIMIT  (500 * 1000 * 1000)

typedef struct instance {
    int tables, ranks;
    ls_planner_model model;
    double seconds;            // of the search; 0: MODELS_NODES nodes
    double first_limit_ms;     // 0: none
    double bound_ratio_limit;  // of the plan's cost to the lower bound
} instance;

// The planner's limits: on 128 ranks a plan within a second and 5 % in half a minute, on 16 ranks 1
// % in ten seconds.
static const instance instances[] = {
    {1000, 128, LS_PLANNER_TORCHREC, 30.0, 1000.0, 1.05},
    {1000, 128, LS_PLANNER_LOCKSTEP, 30.0, 1000.0, 1.05},
    {100, 16, LS_PLANNER_TORCHREC, 10.0, 0.0, 1.01},
    {100, 16, LS_PLANNER_LOCKSTEP, 10.0, 0.0, 1.01},
};
#define INSTANCE_COUNT ((int)(sizeof instances / sizeof *instances))

typedef struct solved {
    double first_ms, ms, bound_ms;            // first_ms: with the time to enumerate the options
    double torchrec_first_ms, torchrec_cost;  // its whole search; 0: it found none
    uint64_t memory;                          // most that the process held while we searched
} solved;

static int solve_both(solved *out, ls_planner_problem *problem, double started) {
    ls_planner_result result;
    double created = ls_bench__now_ms();
    LS_TRY(ls_planner_solve(&result, problem));
    if (!result.found) {
        return LS_FAIL(LS_ERR_INVALID, "bench: the planner found no plan for a made-up model");
    }
    out->first_ms = created - started + result.first_seconds * 1e3;
    out->ms = result.ms;
    out->bound_ms = result.lower_bound_ms;
    out->memory = ls_bench__memory_peak();
    double begin = ls_bench__now_ms();
    LS_TRY(
        ls_planner_baseline(&result, problem, LS_PROPOSE_ALL, LS_PARTITION_GREEDY_PERF, PROPOSALS));
    out->torchrec_first_ms = ls_bench__now_ms() - begin;
    out->torchrec_cost = result.found ? result.ms : 0.0;
    return LS_OK;
}

static int solve_model(solved *out, const instance *what, ls_instance_kind kind, uint64_t seed) {
    ls_arena *arena = NULL;
    ls_planner_table *tables = NULL;
    ls_topology topology;
    ls_planner_problem *problem = NULL;
    *out = (solved){0};
    const ls_planner_options options = {.model = what->model,
                                        .torchrec_options = what->model == LS_PLANNER_TORCHREC,
                                        .nodes_max = what->seconds > 0 ? INT64_MAX : MODELS_NODES,
                                        .seconds_max = what->seconds,
                                        .seed = seed};
    LS_TRY(ls_topology_preset(&topology, "v100_torchrec", what->ranks, 0));
    ls_bench__memory_reset();
    LS_TRY(ls_arena_create(&arena));
    int status = ls_planner_instance(&tables, arena, kind, what->tables, seed);
    double started = ls_bench__now_ms();
    if (status == LS_OK) {
        status = ls_planner_problem_create(&problem, &topology, tables, what->tables, &options);
    }
    status = status == LS_OK ? solve_both(out, problem, started) : status;
    ls_planner_problem_free(problem);
    ls_arena_free(arena);
    return status;
}

// A row "NAME/MODEL", or NULL when it is left out. Its elements are tables.
static ls_bench_row *new_row(ls_bench *bench, const char *name, const instance *what) {
    char text[LS_BENCH_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s/%s", name,
                   what->model == LS_PLANNER_TORCHREC ? "torchrec" : "lockstep");
    ls_bench_row *row = ls_bench__row(bench, "planner", text);
    if (row != NULL) {
        row->ranks = what->ranks;
        row->elements = (uint64_t)what->tables;
        row->repetitions = 1;
    }
    return row;
}

static void set_row(ls_bench_row *row, double value, const char *yardstick, double other,
                    double limit) {
    row->time_ms = value;
    row->time_ms_min = value;
    row->yardstick = yardstick;
    row->yardstick_ms = other;
    row->ratio = other > 0 ? value / other : 0;
    row->ratio_limit = limit;
}

static int bench_instance(ls_bench *bench, const instance *what) {
    ls_bench_row *first = new_row(bench, "first plan", what);
    ls_bench_row *bound = new_row(bench, "to bound", what);
    ls_bench_row *torchrec = new_row(bench, "to TorchRec", what);
    if (first == NULL && bound == NULL && torchrec == NULL) {
        return LS_OK;
    }
    solved got;
    LS_TRY(solve_model(&got, what, LS_INSTANCE_PRODUCTION, 1));
    if (first != NULL) {
        set_row(first, got.first_ms, "TorchRec's", got.torchrec_first_ms, 0);
        first->time_ms_limit = what->first_limit_ms;
    }
    if (bound != NULL) {
        set_row(bound, got.ms, "bound", got.bound_ms, what->bound_ratio_limit);
        bound->memory_bytes = got.memory;
        bound->memory_bytes_limit = MEMORY_LIMIT;
    }
    if (torchrec != NULL) {
        set_row(torchrec, got.ms, "TorchRec's", got.torchrec_cost, 1.0);
    }
    return LS_OK;
}

// Many random models: the median of what TorchRec's search comes to, and the worst of all, which
// must not be above it.
static int bench_models(ls_bench *bench) {
    const instance what = {MODELS_TABLES, MODELS_RANKS, LS_PLANNER_TORCHREC, 0, 0, 0};
    ls_bench_row *median = new_row(bench, "50 models, median", &what);
    ls_bench_row *worst = new_row(bench, "50 models, worst", &what);
    if (median == NULL && worst == NULL) {
        return LS_OK;
    }
    double ratios[MODELS_COUNT];
    double ours[MODELS_COUNT];
    double theirs[MODELS_COUNT];
    int count = 0;
    int worst_at = 0;
    for (int i = 0; i < MODELS_COUNT; i++) {
        solved got;
        if (bench->progress != NULL) {
            bench->progress("planner, random models", i, MODELS_COUNT);
        }
        LS_TRY(solve_model(&got, &what, LS_INSTANCE_RANDOM, (uint64_t)i + 1));
        if (got.torchrec_cost > 0) {  // otherwise we alone have found a plan
            ours[count] = got.ms;
            theirs[count] = got.torchrec_cost;
            ratios[count] = got.ms / got.torchrec_cost;
            worst_at = ratios[count] > ratios[worst_at] ? count : worst_at;
            count++;
        }
    }
    if (count == 0) {
        return LS_FAIL(LS_ERR_INVALID, "bench: TorchRec's search found no plan for any model");
    }
    if (worst != NULL) {
        set_row(worst, ours[worst_at], "TorchRec's", theirs[worst_at], 1.0);
        worst->repetitions = count;
    }
    if (median != NULL) {
        set_row(median, ls_bench__median(ours, count), "TorchRec's",
                ls_bench__median(theirs, count), 1.0);
        median->ratio = ls_bench__median(ratios, count);
        median->repetitions = count;
    }
    return LS_OK;
}

int ls_bench_suite_planner(ls_bench *bench) {
    if (bench->only == NULL) {
        return LS_OK;
    }
    LS_TRY(bench_models(bench));
    for (int i = 0; i < INSTANCE_COUNT; i++) {
        if (bench->progress != NULL) {
            bench->progress("planner, large models", i, INSTANCE_COUNT);
        }
        LS_TRY(bench_instance(bench, &instances[i]));
    }
    return LS_OK;
}
