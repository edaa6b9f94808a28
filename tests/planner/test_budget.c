// Tests of the limits of a search: nodes, which every phase counts and which alone determine the
// plan; and the clock, which only cuts, with a report. No test measures time.
#include <math.h>
#include <string.h>

#include "base/time.h"
#include "planner/plan_file.h"
#include "planner/problem.h"
#include "tests/planner/golden.h"
#include "tests/planner/hard.h"

static const struct {
    int tables, ranks;
    double hbm, ddr;
} shapes[] = {{80, 32, 0.6, 0.5}, {80, 32, 1.05, 0.0}, {200, 64, 0.9, 0.2}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

static void make(hard *out, int shape, int model) {
    hard_make(out, shapes[shape].tables, shapes[shape].ranks, shapes[shape].hbm, shapes[shape].ddr,
              model == 0 ? LS_PLANNER_LOCKSTEP : LS_PLANNER_TORCHREC);
}

// The bytes of a plan, equal for equal plans.
static void write_places(ls_text *out, const ls_planner_result *result) {
    cr_assert(result->found && ls_plan_write(out, &result->plan) == LS_OK);
}

// No phase exceeds the budget, whatever the size: one step takes at most some hundred nodes. The
// budget is used up: a phase that does not count would run without end.
Test(budget, nodes_are_kept_by_every_phase) {
    static const int64_t limits[] = {1, 700, 20000, 200000};
    for (int shape = 0; shape < SHAPES; shape++) {
        for (int model = 0; model < 2; model++) {
            for (int n = 0; n < 4; n++) {
                hard of;
                ls_planner_result result;
                make(&of, shape, model);
                of.options.nodes_max = limits[n];
                ls_planner_problem *problem = hard_solve(&result, &of);
                // The first plan is searched under any budget.
                int64_t first = n == 0 ? 20000 : 1000;
                cr_expect(result.nodes >= limits[n] && result.nodes <= limits[n] + first,
                          "shape %d, model %d: %lld of %lld nodes", shape, model,
                          (long long)result.nodes, (long long)limits[n]);
                cr_expect(result.stop == LS_PLANNER_STOP_NODES && !result.timed_out);
                cr_expect(!result.proven);
                ls_planner_problem_free(problem);
                ls_arena_free(of.arena);
            }
        }
    }
}

// Only the exact search, without an initial plan: blocks that fit nowhere count, too.
Test(budget, nodes_are_kept_by_the_exact_search) {
    for (int model = 0; model < 2; model++) {
        hard of;
        ls_planner_result result;
        make(&of, 0, model);
        of.options.nodes_max = 100000;
        of.options.exact_only = true;
        ls_planner_problem *problem = hard_solve(&result, &of);
        cr_expect(result.nodes >= 100000 && result.nodes <= 100100, "%lld nodes",
                  (long long)result.nodes);
        cr_expect(!result.proven && result.stop == LS_PLANNER_STOP_NODES);
        ls_planner_problem_free(problem);
        ls_arena_free(of.arena);
    }
}

// A clock that does not cut changes nothing, including the counts.
Test(budget, the_plan_depends_on_the_nodes_alone) {
    for (int model = 0; model < 2; model++) {
        ls_text plans[2] = {{0}, {0}};
        ls_planner_result results[2];
        for (int turn = 0; turn < 2; turn++) {
            hard of;
            make(&of, 0, model);
            of.options.nodes_max = 60000;
            of.options.seconds_max = turn == 0 ? 0.0 : 1e6;
            ls_planner_problem *problem = hard_solve(&results[turn], &of);
            write_places(&plans[turn], &results[turn]);
            ls_planner_problem_free(problem);
            ls_arena_free(of.arena);
        }
        cr_expect(results[0].nodes == results[1].nodes && results[0].ms == results[1].ms);
        cr_expect_str_eq(ls_text_string(&plans[0]), ls_text_string(&plans[1]));
        ls_text_free(&plans[0]);
        ls_text_free(&plans[1]);
    }
}

static bool says(int (*write)(ls_text *, const ls_planner_problem *, const ls_planner_result *),
                 const ls_planner_problem *problem, const ls_planner_result *result,
                 const char *part) {
    ls_text text = {0};
    cr_assert(write(&text, problem, result) == LS_OK);
    bool found = strstr(ls_text_string(&text), part) != NULL;
    ls_text_free(&text);
    return found;
}

static int write_json(ls_text *out, const ls_planner_problem *problem,
                      const ls_planner_result *result) {
    return ls_planner_write_json(out, problem, result, "why");
}

// If the clock cut, both reports say so, and the bound still holds; otherwise neither does. The
// nodes here would take hours.
Test(budget, what_the_clock_cut_is_told) {
    hard of;
    ls_planner_result result;
    make(&of, 0, 0);
    of.options.nodes_max = INT64_MAX;
    of.options.seconds_max = 0.05;
    ls_planner_problem *problem = hard_solve(&result, &of);
    cr_assert(result.timed_out && result.stop == LS_PLANNER_STOP_TIME && !result.proven);
    cr_expect(result.lower_bound_ms > 0.0);
    cr_expect(says(ls_planner_write_text, problem, &result, "another run may find another"));
    cr_expect(says(write_json, problem, &result, "\"stop\": \"time\""));
    cr_expect(says(write_json, problem, &result, "\"repeatable\": false"));
    ls_planner_problem_free(problem);
    of.options.nodes_max = 1;
    of.options.seconds_max = 0.0;
    problem = hard_solve(&result, &of);
    cr_expect(!says(ls_planner_write_text, problem, &result, "another run"));
    cr_expect(says(write_json, problem, &result, "\"stop\": \"nodes\""));
    cr_expect(says(write_json, problem, &result, "\"repeatable\": true"));
    ls_planner_problem_free(problem);
    // The same search of tables that the clock has cut before.
    of.options.cut = true;
    problem = hard_solve(&result, &of);
    cr_expect(says(write_json, problem, &result, "\"stop\": \"nodes\""));
    cr_expect(says(write_json, problem, &result, "\"repeatable\": false"));
    ls_planner_problem_free(problem);
    ls_arena_free(of.arena);
}

// Without time the bound is weaker, never too high and never "impossible".
Test(budget, a_bound_without_time_is_weaker) {
    for (int shape = 0; shape < SHAPES; shape++) {
        hard of;
        ls_planner_result whole;
        ls_planner_result cut;
        make(&of, shape, 0);
        of.options.nodes_max = 1;
        ls_planner_problem *a = hard_solve(&whole, &of);
        of.options.seconds_max = 1e-9;
        ls_planner_problem *b = hard_solve(&cut, &of);
        cr_expect(cut.lower_bound_ms > 0.0 && cut.lower_bound_ms <= whole.lower_bound_ms,
                  "%g and %g", cut.lower_bound_ms, whole.lower_bound_ms);
        cr_expect(!cut.proven && !whole.proven);
        ls_planner_problem_free(a);
        ls_planner_problem_free(b);
        ls_arena_free(of.arena);
    }
}

// Tables of 60 % of a rank, one more than ranks: each tried change has its own search.
static ls_planner_problem *make_unfit(ls_arena *arena, int64_t nodes) {
    static const ls_planner_feature ids = {.pooling = 2.0, .poolings = 1.0, .batch = 64.0};
    enum { RANKS = 12 };
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", RANKS, RANKS) == LS_OK);
    topology.hbm_bytes = INT64_C(100) << 20;
    topology.ddr_bytes = 0;
    ls_planner_table tables[RANKS + 1];
    for (int i = 0; i <= RANKS; i++) {
        tables[i] = make_table(ls_arena_printf(arena, "t%d", i), (60 << 20) / 256 + i, 64, &ids);
        tables[i].shardings = 1u << LS_TABLE_WISE;
        tables[i].kernels = 1u << LS_PLANNER_FUSED;
    }
    const ls_planner_options options = {.nodes_max = nodes};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, RANKS + 1, &options) == LS_OK);
    return problem;
}

// The changes that are tried if nothing fits take nodes, too: with few nodes few are tried, and the
// report says that others were not.
Test(budget, changes_share_one_count_of_nodes) {
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    int tried[3];
    static const int64_t nodes[] = {1, 400, 10000000};
    for (int n = 0; n < 3; n++) {
        ls_planner_problem *problem = make_unfit(arena, nodes[n]);
        ls_planner_diagnosis why;
        ls_text text = {0};
        cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
        cr_expect(why.out_of_nodes == (n < 2) && !why.out_of_time);
        cr_expect(!why.shortage && why.unplaced == 1);
        cr_assert(ls_planner_write_diagnosis(&text, problem, &why) == LS_OK);
        cr_expect((strstr(ls_text_string(&text), "nodes left out the rest") != NULL) == (n < 2));
        tried[n] = why.tried;
        ls_text_free(&text);
        ls_planner_problem_free(problem);
    }
    cr_expect(tried[0] == 1 && tried[0] < tried[1] && tried[1] < tried[2], "%d, %d, %d", tried[0],
              tried[1], tried[2]);
    ls_arena_free(arena);
}

// Without time nothing is tried again, and the shortage is reported all the same.
Test(budget, without_time_no_change_is_tried) {
    ls_arena *arena;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_planner_problem *problem = make_unfit(arena, 0);
    problem->options.seconds_max = 1e-9;
    ls_planner_result result;
    ls_planner_diagnosis why;
    ls_text text = {0};
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && !result.found);
    cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
    cr_expect(why.out_of_time && why.tried == 0 && why.unplaced == 1);
    cr_assert(ls_planner_write_diagnosis(&text, problem, &why) == LS_OK);
    cr_expect(strstr(ls_text_string(&text), "another run may offer others") != NULL);
    ls_text_free(&text);
    ls_planner_problem_free(problem);
    ls_arena_free(arena);
}

// Examining places counts, too: 1,024 are a node.
Test(budget, looks_are_counted) {
    ls_search_budget budget = {.deadline = INFINITY};
    ls_search__count(&budget, 2, 3 * 1024);
    cr_expect(budget.nodes == 5, "%lld", (long long)budget.nodes);
}

// So does listing what can be chosen, before the search.
Test(budget, listing_is_counted) {
    hard of;
    ls_planner_result result;
    make(&of, 2, 0);
    ls_planner_problem *problem = NULL;
    cr_assert(ls_planner_problem_create(&problem, &of.topology, of.tables, of.count, &of.options) ==
              LS_OK);
    int64_t blocks = 0;
    for (int t = 0; t < of.count; t++) {
        for (int i = 0; i < ls_planner_option_count(problem, t); i++) {
            blocks += ls_planner_option_at(problem, t, i)->shard_count;
        }
    }
    cr_expect(blocks > 1024 && problem->create_looks == blocks, "%lld of %lld",
              (long long)problem->create_looks, (long long)blocks);
    problem->options.nodes_max = 1;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    const int64_t nodes = result.nodes;
    problem->create_looks += 1024 * 1000;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_expect(result.nodes == nodes + 1000, "%lld", (long long)result.nodes);
    ls_planner_problem_free(problem);
    ls_arena_free(of.arena);
}

// An unfinished list gives no plan, and no wrong bound either.
Test(budget, listing_looks_at_the_clock) {
    hard of;
    make(&of, 0, 0);
    of.options.seconds_max = 1e-9;
    ls_planner_problem *problem = NULL;
    cr_assert(ls_planner_problem_create(&problem, &of.topology, of.tables, of.count, &of.options) ==
              LS_ERR_TIMEOUT);
    cr_expect(problem == NULL);
    cr_expect_str_eq(ls_error_last()->text,
                     "plan: the time limit passed after listing the options of 0 of 80 tables "
                     "on 32 ranks, before there was a plan");
    ls_arena_free(of.arena);
}

// Without a plan the search ends before the deadline: the rest is for the explanation.
Test(budget, no_plan_ends_earlier) {
    const double later = ls_time_now() + 1e6;
    for (int found = 0; found < 2; found++) {
        ls_search_budget budget = {
            .deadline_first = 0, .deadline = later, .first = found ? later : 0};
        ls_search__look(&budget, INT64_C(1) << 40);
        cr_expect(budget.late == (found == 0));
    }
}

// The clock starts before the options are listed, and a missing plan is reported as cut if the ids
// were.
Test(budget, what_came_before_counts) {
    hard of;
    ls_planner_result result;
    make(&of, 0, 0);
    of.options.nodes_max = 0;
    of.options.seconds_max = 1000;
    of.options.cut = true;
    ls_planner_problem *problem = NULL;
    cr_assert(ls_planner_problem_create(&problem, &of.topology, of.tables, shapes[0].tables,
                                        &of.options) == LS_OK);
    problem->create_seconds = 1e6;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_expect(result.stop == LS_PLANNER_STOP_TIME);
    ls_planner_problem_free(problem);
    of.topology.hbm_bytes = of.topology.ddr_bytes = 1;
    cr_assert(ls_planner_problem_create(&problem, &of.topology, of.tables, shapes[0].tables,
                                        &of.options) == LS_OK);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_expect(!result.found && result.proven && result.timed_out);
    ls_planner_problem_free(problem);
    ls_arena_free(of.arena);
}
