// The planner's choice between equally good plans stays what it was: a plan determines a
// checkpoint's shards, so it may only change on purpose.
#include <string.h>

#include "planner/plan_file.h"
#include "planner/problem.h"
#include "planner/redistribute.h"
#include "tests/figures.h"
#include "tests/planner/small.h"

#define SMALL 1000

static void tell_plan(ls_text *out, const ls_planner_result *result) {
    ls_text_printf(out, "%d %d %d %.9g %.9g %.9g %.9g nodes %lld\n", result->found, result->proven,
                   (int)result->stop, result->ms, result->lower_bound_ms, result->gap,
                   result->startup_ms, (long long)result->nodes);
    cr_expect(!result->found ||
              (result->first_seconds >= 0.0 && result->first_seconds <= result->seconds));
    for (int r = 0; result->found && r < result->plan.ranks; r++) {
        const ls_planner_rank *rank = &result->ranks[r];
        ls_text_printf(out, "rank %.9g %lld %lld %lld %lld %d\n", rank->ms,
                       (long long)rank->hbm_bytes, (long long)rank->ddr_bytes,
                       (long long)rank->input_bytes, (long long)rank->output_bytes, rank->shards);
    }
    cr_assert(!result->found || ls_plan_write(out, &result->plan) == LS_OK);
}

static void tell_options(ls_text *out, const ls_planner_problem *problem) {
    for (int t = 0; t < ls_planner_table_count(problem); t++) {
        for (int o = 0; o < ls_planner_option_count(problem, t); o++) {
            const ls_planner_option *option = ls_planner_option_at(problem, t, o);
            ls_text_printf(out, "%d %s %s %d %d\n", t, ls_sharding_name(option->sharding),
                           ls_planner_kernel_name(option->kernel), option->column_blocks,
                           option->pinned);
            for (int k = 0; k < option->shard_count; k++) {
                const ls_planner_shard *s = &option->shards[k];
                ls_text_printf(out, "%d %lld %lld %lld %lld", s->block.rank,
                               (long long)s->block.row_offset, (long long)s->block.rows,
                               (long long)s->block.column_offset, (long long)s->block.columns);
                ls_text_printf(out, " %.9g %.9g %.9g %.9g %.9g %.9g", s->cost.forward_compute_ms,
                               s->cost.forward_comms_ms, s->cost.backward_compute_ms,
                               s->cost.backward_comms_ms, s->cost.prefetch_ms,
                               s->cost.input_comms_ms);
                ls_text_printf(out, " %lld %lld %lld %lld\n", (long long)s->hbm_bytes,
                               (long long)s->ddr_bytes, (long long)s->input_bytes,
                               (long long)s->output_bytes);
            }
        }
    }
}

enum {
    OPTIONS,
    PLANS,
    LARGE,
    BASELINES,
    DIAGNOSES,
    REPORTS,
    PROGRAMS,
    STAGES,
    FILES,
    SEQUENCES,
    FIGURES
};
static const char *const names[] = {
    "options", "small plans", "large plans", "baselines", "diagnoses",
    "reports", "programs",    "stages",      "files",     "sequences of collectives"};

static void tell_baselines(ls_text *out, ls_planner_problem *problem, int64_t proposals) {
    for (int p = LS_PROPOSE_GREEDY_DEPTH; p <= LS_PROPOSE_ALL; p++) {
        for (int q = LS_PARTITION_GREEDY_PERF; q <= LS_PARTITION_MEMORY_BALANCED; q++) {
            ls_planner_result result;
            cr_assert_eq(ls_planner_baseline(&result, problem, (ls_planner_proposer)p,
                                             (ls_planner_partitioner)q, proposals),
                         LS_OK);
            tell_plan(out, &result);
        }
    }
}

static void tell_result(ls_text told[FIGURES], ls_planner_problem *problem,
                        ls_planner_result *result) {
    ls_planner_diagnosis diagnosis;
    if (!result->found) {
        cr_assert_eq(ls_planner_diagnose(&diagnosis, problem), LS_OK);
        cr_assert_eq(ls_planner_write_diagnosis(&told[DIAGNOSES], problem, &diagnosis), LS_OK);
        return;
    }
    result->seconds = result->first_seconds = 0.0;
    cr_assert_eq(ls_planner_write_text(&told[REPORTS], problem, result), LS_OK);
    cr_assert_eq(ls_planner_write_json(&told[REPORTS], problem, result, NULL), LS_OK);
    cr_assert_eq(ls_planner_write_svg(&told[REPORTS], problem, result), LS_OK);
    cr_assert_eq(ls_plan_write_torchrec(&told[FILES], &result->plan), LS_OK);
    for (int t = 0; t < ls_planner_table_count(problem); t++) {
        const char *name = ls_planner_tables(problem)[t].name;
        cr_assert_eq(ls_planner_explain(&told[REPORTS], problem, result, name), LS_OK);
    }
    ls_planner_stages stages[64];
    cr_assert_leq(result->plan.ranks, 64);
    if (problem->options.model == LS_PLANNER_LOCKSTEP) {
        cr_assert_eq(ls_planner_stage_times(stages, problem, result), LS_OK);
        for (int r = 0; r < result->plan.ranks; r++) {
            ls_text_printf(&told[STAGES], "%.9g %.9g %.9g %.9g %.9g\n", stages[r].input_dist_ms,
                           stages[r].lookup_ms, stages[r].output_dist_ms, stages[r].gradients_ms,
                           stages[r].update_ms);
        }
    }
}

// The difference between the plan and a baseline's for the same tables.
static void tell_difference(ls_text *out, ls_planner_problem *problem,
                            const ls_planner_result *result) {
    ls_planner_result other;
    cr_assert_eq(
        ls_planner_baseline(&other, problem, LS_PROPOSE_GREEDY_SUM, LS_PARTITION_GREEDY_PERF, 20),
        LS_OK);
    if (result->found && other.found) {
        cr_assert(ls_plan_diff(out, &result->plan, &other.plan) >= 0);
    }
}

// Inputs that make_instance lacks: uneven ids, rows of other widths, and a machine with
// measurements.
static void draw_more(instance *in, uint64_t seed) {
    static const ls_row_format int8 = {.element = LS_ROW_INT8};
    static ls_planner_profile profile;
    in->options.nodes_max = 3000;
    in->options.seed = seed;
    in->options.torchrec_options = seed % 5 == 0;
    in->options.pipeline_depth = (int)(seed % 3);
    in->options.overlap = seed % 4 == 0 ? 0.5 : 0.0;
    in->options.reserve_share = seed % 7 == 0 ? 0.1 : 0.0;
    in->options.gap_goal = seed % 11 == 0 ? 0.05 : 0.0;
    if (seed % 2 == 0) {
        in->topology.exchange_us = 7.0 + (double)(seed % 9);
        in->topology.kernel_us = 3.0;
        in->topology.update_us = seed % 4 == 0 ? 11.0 : 0.0;
    }
    in->topology.ddr_shared = seed % 3 == 0;
    in->topology.ddr_bytes = seed % 8 == 0 ? 100000000 : in->topology.ddr_bytes;
    profile.distinct = 0.05 + 0.1 * (double)(seed % 9);
    for (int b = 0; b < LS_PLANNER_PROFILE_BINS; b++) {
        profile.ids[b] = 2.0 * (b + 0.5) / LS_PLANNER_PROFILE_BINS / LS_PLANNER_PROFILE_BINS;
    }
    if (in->tables[0].apart != NULL && in->count >= 4 && in->tables[2].together == NULL &&
        in->tables[2].layout == NULL && in->tables[3].layout == NULL) {
        in->tables[2].apart = in->tables[3].apart = "c";
    }
    for (int i = 0; i < in->count; i++) {
        uint64_t s = seed * 1000 + (uint64_t)i;
        ls_planner_table *table = &in->tables[i];
        table->columns = table->layout == NULL && s % 17 == 0 ? 200 : table->columns;
        table->weighted = s % 6 == 0;
        table->sequence = seed % 13 == 0;
        table->profile = draw(s, 70, 2) == 0 ? &profile : NULL;
        table->cache_load_factor = draw(s, 71, 3) == 0 ? 0.5 : 0.0;
        table->output_bytes = draw(s, 72, 4) == 0 ? 2 : 0;
        table->columns_min = draw(s, 73, 4) == 0 ? 16 : 0;
        table->kernels = draw(s, 74, 4) == 0 ? 0 : table->kernels;
        table->shardings = draw(s, 75, 4) == 0 && table->together == NULL && table->rank_count == 0
                               ? (1u << LS_SHARDING_COUNT) - 1u
                               : table->shardings;
        if (draw(s, 78, 8) == 0) {
            table->row_format = &int8;
            table->optimizer = NULL;
        }
        in->features[i].poolings = draw(s, 76, 3) == 0 ? 2.0 : 1.0;
        in->features[i].pooling = draw(s, 77, 5) == 0 ? 0.4 : in->features[i].pooling;
    }
}

static void decide_small(ls_text told[FIGURES], uint64_t seed) {
    static instance in;
    make_instance(&in, seed);
    draw_more(&in, seed);
    ls_planner_problem *problem = NULL;
    int status =
        ls_planner_problem_create(&problem, &in.topology, in.tables, in.count, &in.options);
    ls_text_printf(&told[OPTIONS], "seed %d: %d\n", (int)seed, status);
    if (status != LS_OK) {
        ls_text_printf(&told[OPTIONS], "%s\n", ls_error_last()->text);
        return;
    }
    tell_options(&told[OPTIONS], problem);
    ls_planner_result result;
    cr_assert_eq(ls_planner_solve(&result, problem), LS_OK);
    tell_plan(&told[PLANS], &result);
    tell_result(told, problem, &result);
    tell_baselines(&told[BASELINES], problem, 30);
    tell_difference(&told[FILES], problem, &result);
    cr_assert_eq(ls_planner_write_lp(&told[PROGRAMS], problem), LS_OK);
    ls_planner_problem_free(problem);
}

// More tables than can be proven, with plenty of memory and with little.
static void decide_large(ls_text told[FIGURES], int number) {
    static const struct {
        ls_instance_kind kind;
        int tables, ranks, per_host;
        double memory;  // of the weights' size, on all devices together
    } shapes[] = {
        {LS_INSTANCE_PRODUCTION, 40, 8, 4, 1.3},  {LS_INSTANCE_RANDOM, 60, 16, 8, 1.05},
        {LS_INSTANCE_PRODUCTION, 12, 4, 4, 4.0},  {LS_INSTANCE_RANDOM, 24, 6, 3, 0.6},
        {LS_INSTANCE_PRODUCTION, 80, 32, 8, 2.0}, {LS_INSTANCE_RANDOM, 9, 2, 2, 0.9},
    };
    ls_arena *arena;
    ls_planner_table *tables;
    ls_topology topology;
    ls_planner_problem *problem;
    ls_planner_result result;
    double bytes = 0.0;
    int count = shapes[number % 6].tables, ranks = shapes[number % 6].ranks;
    cr_assert_eq(ls_arena_create(&arena), LS_OK);
    cr_assert_eq(
        ls_planner_instance(&tables, arena, shapes[number % 6].kind, count, (uint64_t)number),
        LS_OK);
    cr_assert_eq(ls_topology_preset(&topology, number % 2 ? "a100" : "h200", ranks,
                                    shapes[number % 6].per_host),
                 LS_OK);
    for (int i = 0; i < count; i++) {
        bytes += (double)tables[i].rows * (double)tables[i].columns * tables[i].element_bytes;
    }
    topology.hbm_bytes = (int64_t)(bytes * shapes[number % 6].memory / ranks);
    topology.ddr_bytes = (int64_t)(bytes / ranks);
    topology.ddr_shared = number % 4 == 0;
    const ls_planner_options options = {.model =
                                            number < 6 ? LS_PLANNER_LOCKSTEP : LS_PLANNER_TORCHREC,
                                        .nodes_max = 3000,
                                        .seed = (uint64_t)number};
    cr_assert_eq(ls_planner_problem_create(&problem, &topology, tables, count, &options), LS_OK);
    cr_assert_eq(ls_planner_solve(&result, problem), LS_OK);
    tell_plan(&told[LARGE], &result);
    tell_result(told, problem, &result);
    tell_baselines(&told[BASELINES], problem, 10);
    ls_planner_problem_free(problem);
    ls_arena_free(arena);
}

static ls_reshard_placement draw_placement(uint64_t seed, uint32_t what, int dims) {
    ls_reshard_kind kind = (ls_reshard_kind)draw(seed, what, 3);
    return (ls_reshard_placement){
        .kind = kind,
        .dim = kind == LS_RESHARD_SHARD ? (int)draw(seed, what + 1, (uint64_t)dims) : 0,
        .op = LS_SUM};
}

static void tell_sequence(ls_text *out, int status, const ls_reshard_plan *plan) {
    ls_text_printf(out, "%d\n", status);
    for (int i = 0; status == LS_OK && i < plan->count; i++) {
        const ls_reshard_step *step = &plan->steps[i];
        ls_text_printf(out, "%d: %d %d to %d %d by %s: %.9g %.9g\n", step->mesh_dim,
                       (int)step->from.kind, step->from.dim, (int)step->to.kind, step->to.dim,
                       step->collective != NULL ? step->collective : "none", step->bytes, step->us);
    }
}

// From one placement of a tensor to another, by the search and in DTensor's order.
static void decide_sequence(ls_text *out, uint64_t seed) {
    ls_reshard_placement from[3], to[3];
    ls_reshard_mesh mesh;
    int sizes[3], ndim = 1 + (int)draw(seed, 30, 3), dims = 1 + (int)draw(seed, 31, 3);
    for (int i = 0; i < ndim; i++) {
        sizes[i] = 1 + (int)draw(seed, 32 + (uint32_t)i, 5);
        from[i] = draw_placement(seed, 40 + 2 * (uint32_t)i, dims);
        to[i] = draw_placement(seed, 50 + 2 * (uint32_t)i, dims);
    }
    cr_assert_eq(ls_reshard_mesh_make(&mesh, sizes, ndim, 1 + (int)draw(seed, 60, 8)), LS_OK);
    double bytes = (double)(1 + draw(seed, 61, UINT64_C(1) << (4 + seed % 30)));
    ls_reshard_plan plan;
    ls_text_printf(out, "%.9g\n", ls_reshard_cost_us(bytes, from, to, &mesh));
    tell_sequence(out, ls_reshard_search(&plan, bytes, dims, from, to, &mesh), &plan);
    tell_sequence(out, ls_reshard_greedy(&plan, bytes, dims, from, to, &mesh), &plan);
}

Test(decisions, are_what_they_were) {
    ls_text told[FIGURES] = {{0}};
    for (uint64_t seed = 1; seed <= SMALL; seed++) {
        decide_small(told, seed);
    }
    for (int number = 0; number < 12; number++) {
        decide_large(told, number);
    }
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        decide_sequence(&told[SEQUENCES], seed);
    }
    figures_expect("tests/planner/decisions.txt", "unit/planner_decisions",
                   "The planner decides, or tells, otherwise than it did.", names, told, FIGURES);
}
