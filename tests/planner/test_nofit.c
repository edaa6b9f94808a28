// Tests of the explanation if nothing fits, and of the reports.
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/time.h"
#include "planner/problem.h"
#include "tests/planner/golden.h"

static const ls_planner_feature ids = {.pooling = 2.0, .poolings = 1.0, .batch = 64.0};
#define MIB (INT64_C(1) << 20)

static ls_planner_problem *problem_of(const ls_topology *topology, const ls_planner_table *tables,
                                      int count) {
    ls_planner_options options = {.model = LS_PLANNER_LOCKSTEP};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, topology, tables, count, &options) == LS_OK, "%s",
              ls_error_last()->text);
    return problem;
}

// Each change offered, applied, has a plan.
static void expect_changes_hold(const ls_planner_diagnosis *why, int count) {
    cr_assert(why->change_count > 0);
    for (int i = 0; i < why->change_count; i++) {
        ls_planner_result result;
        ls_planner_problem *problem =
            problem_of(&why->changes[i].topology, why->changes[i].tables, count);
        cr_assert(ls_planner_solve(&result, problem) == LS_OK);
        cr_expect(result.found, "%s", why->changes[i].text);
        ls_planner_problem_free(problem);
    }
}

static bool offers(const ls_planner_diagnosis *why, const char *text) {
    for (int i = 0; i < why->change_count; i++) {
        if (strstr(why->changes[i].text, text)) {
            return true;
        }
    }
    return false;
}

// Three tables of 60 % of a rank on two ranks: memory suffices in sum, not in pieces. Cutting one
// of them, which the constraint forbids, is among the offers, and each offer gives a plan.
Test(nofit, fragmentation_is_told_from_shortage) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 2, 2) == LS_OK);
    topology.hbm_bytes = 100 * MIB;
    topology.ddr_bytes = 0;
    ls_planner_table tables[3];
    const char *names[3] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        tables[i] = make_table(names[i], 60 * MIB / 256, 64, &ids);
        tables[i].shardings = 1u << LS_TABLE_WISE;
        tables[i].kernels = 1u << LS_PLANNER_FUSED;
    }
    ls_planner_problem *problem = problem_of(&topology, tables, 3);
    ls_planner_result result;
    ls_planner_diagnosis why;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_assert(!result.found && result.proven);
    cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
    cr_expect(!why.shortage && why.hbm_missing == 0);
    cr_expect(why.unplaced == 1 && why.first_unplaced == 2);
    cr_expect(why.needed_bytes > why.roomiest_bytes);
    cr_expect(offers(&why, "allow row_wise for table a"));
    cr_expect(offers(&why, "one rank more: 3 ranks") && !offers(&why, "twice the ranks"));
    cr_expect(!offers(&why, "a batch of"));
    expect_changes_hold(&why, 3);
    // If the clock has cut the ids before, that is reported, and every change is still tried.
    const ls_planner_options cut = {.model = LS_PLANNER_LOCKSTEP, .cut = true};
    ls_planner_problem *again;
    ls_planner_diagnosis told;
    cr_assert(ls_planner_problem_create(&again, &topology, tables, 3, &cut) == LS_OK);
    cr_assert(ls_planner_solve(&result, again) == LS_OK && result.timed_out && !result.found);
    cr_assert(ls_planner_diagnose(&told, again) == LS_OK && !told.out_of_time);
    cr_expect(told.change_count == why.change_count && told.tried == why.tried);
    ls_planner_problem_free(again);
    ls_text text = {0};
    cr_expect(ls_planner_write_diagnosis(&text, problem, &why) == LS_OK);
    cr_expect(strstr(text.data, "fragmentation") && strstr(text.data, "table c finds no place"));
    cr_expect(why.blocked == 0 && !strstr(text.data, "constraints: "));
    ls_text_free(&text);
    ls_planner_problem_free(problem);
}

// If memory suffices and a constraint fails, the constraint is named, in the explanation of a plan
// too; if memory is short with every constraint dropped, it is memory.
Test(nofit, constraints_are_named) {
    static const int first[] = {0};
    static const struct {
        const char *apart;
        bool ranks, forbidden, large;
        const char *told;
    } cases[] = {
        {"big", false, false, false, "'apart: big' with a, b leaves no rank for table c"},
        {NULL, true, false, true, "'only_ranks' leaves no rank for table c"},
        {NULL, false, true, true, "'not_ranks' leaves no rank for table c"},
    };
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 2, 2) == LS_OK);
    topology.hbm_bytes = 150 * MIB;
    topology.ddr_bytes = 0;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        ls_planner_table tables[3];
        static const char *const names[3] = {"a", "b", "c"};
        for (int i = 0; i < 3; i++) {
            tables[i] = make_table(names[i], (cases[n].large ? 60 : 6) * MIB / 256, 64, &ids);
            tables[i].shardings = 1u << LS_TABLE_WISE;
            tables[i].kernels = 1u << LS_PLANNER_FUSED;
            tables[i].apart = cases[n].apart;
            tables[i].ranks = tables[i].forbidden = first;
            tables[i].rank_count = cases[n].ranks;
            tables[i].forbidden_count = cases[n].forbidden;
        }
        ls_planner_problem *problem = problem_of(&topology, tables, 3);
        ls_planner_result result;
        ls_planner_diagnosis why;
        cr_assert(ls_planner_solve(&result, problem) == LS_OK && !result.found);
        cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
        ls_text text = {0};
        cr_assert(ls_planner_write_diagnosis(&text, problem, &why) == LS_OK);
        cr_expect(strstr(text.data, cases[n].told), "%zu: %s", n, text.data);
        cr_expect(!strstr(text.data, "fragmentation"), "%zu: %s", n, text.data);
        ls_text_free(&text);
        ls_planner_problem_free(problem);
    }
}

// The other ways to cut b need the rank of a, which b must not share; without `apart` they fit.
Test(report, explanation_names_the_constraint) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 2, 2) == LS_OK);
    for (int apart = 0; apart < 2; apart++) {
        ls_planner_table tables[2] = {make_table("a", 5000, 64, &ids),
                                      make_table("b", 5000, 64, &ids)};
        tables[0].shardings = 1u << LS_TABLE_WISE;
        tables[1].shardings = 1u << LS_TABLE_WISE | 1u << LS_ROW_WISE;
        tables[0].apart = tables[1].apart = apart ? "far" : NULL;
        ls_planner_problem *problem = problem_of(&topology, tables, 2);
        ls_planner_result result;
        cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
        ls_text text = {0};
        cr_assert(ls_planner_explain(&text, problem, &result, "b") == LS_OK);
        bool named = strstr(text.data, "'apart: far' with a leaves no rank for it") != NULL;
        cr_expect(named == (apart == 1), "%s", text.data);
        cr_expect(!strstr(text.data, "the other tables leave is too small"), "%s", text.data);
        ls_text_free(&text);
        ls_planner_problem_free(problem);
    }
}

// Tables that are kept together lack a place together; another host is all of its ranks; and
// without time no change is tried.
Test(nofit, tables_together_on_hosts) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 4, 2) == LS_OK);
    topology.hbm_bytes = 100 * MIB;
    topology.ddr_bytes = 0;
    ls_planner_table tables[10];
    char names[10][8];
    for (int i = 0; i < 10; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        tables[i] = make_table(names[i], 45 * MIB / 256, 64, &ids);
        tables[i].shardings = 1u << LS_TABLE_WISE;
        tables[i].kernels = 1u << LS_PLANNER_FUSED;
        tables[i].together = i < 2 ? "pair" : NULL;
    }
    tables[0].rows = tables[1].rows = 40 * MIB / 256;
    for (int late = 0; late < 2; late++) {
        ls_planner_problem *problem = problem_of(&topology, tables, 10);
        ls_planner_result result;
        static ls_planner_diagnosis why;
        cr_assert(ls_planner_solve(&result, problem) == LS_OK && !result.found);
        if (late) {
            problem->deadline = ls_time_now() - 1.0;
        }
        cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
        cr_expect(why.unplaced == 2, "%d", why.unplaced);
        cr_expect(why.out_of_time == (late == 1) && (why.tried == 0) == (late == 1));
        cr_expect(late || offers(&why, "one host more: 6 ranks"));
        ls_planner_problem_free(problem);
    }
    tables[2].together = "pair";  // 125 MiB
    ls_planner_problem *problem = problem_of(&topology, tables, 4);
    static ls_planner_diagnosis why;
    cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
    cr_expect(why.unplaced == 3, "%d", why.unplaced);
    ls_planner_problem_free(problem);
}

// More bytes than all ranks have is a shortage, with the missing number.
Test(nofit, shortage_counts_the_missing_bytes) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 2, 2) == LS_OK);
    topology.hbm_bytes = 100 * MIB;
    topology.ddr_bytes = 0;
    ls_planner_table table = make_table("a", 300 * MIB / 256, 64, &ids);
    ls_planner_problem *problem = problem_of(&topology, &table, 1);
    ls_planner_result result;
    ls_planner_diagnosis why;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    cr_assert(!result.found && result.proven);
    cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
    cr_expect(why.shortage && why.ddr_missing == 0);
    cr_expect(!offers(&why, "one rank more") && offers(&why, "twice the ranks: 4"));
    expect_changes_hold(&why, 1);
    ls_planner_problem_free(problem);
    // Rows in host memory alone would need none of the device's but buffers; fused needs all of it.
    table.kernels = 1u << LS_PLANNER_FUSED;
    problem = problem_of(&topology, &table, 1);
    cr_assert(ls_planner_diagnose(&why, problem) == LS_OK);
    cr_expect(why.hbm_missing >= 100 * MIB && why.hbm_missing < 101 * MIB, "%lld",
              (long long)why.hbm_missing);
    cr_expect(offers(&why, "store table a in 2 bytes"));
    expect_changes_hold(&why, 1);
    ls_planner_problem_free(problem);
}

// The JSON has the documented fields, and its ranks' costs are those of its shards.
Test(report, json_holds_together) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 4, 2) == LS_OK);
    ls_planner_table tables[3];
    const char *names[3] = {"user", "item", "tiny"};
    for (int i = 0; i < 3; i++) {
        tables[i] = make_table(names[i], 100000 >> (3 * i), 128, &ids);
    }
    ls_planner_problem *problem = problem_of(&topology, tables, 3);
    ls_planner_result result;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.found);
    ls_text text = {0};
    cr_assert(ls_planner_write_json(&text, problem, &result, NULL) == LS_OK);
    json_t *root = json_loads(text.data, 0, NULL);
    cr_assert(root);
    cr_expect(json_integer_value(json_object_get(root, "format")) == 1);
    cr_expect_str_eq(json_string_value(json_object_get(root, "verdict")), "pass");
    cr_expect(json_integer_value(json_object_get(root, "ranks")) == 4);
    cr_expect(json_is_boolean(json_object_get(root, "proven_optimal")));
    double per_rank[4] = {0};
    size_t t;
    size_t k;
    json_t *table;
    json_t *shard;
    json_array_foreach(json_object_get(root, "tables"), t, table) {
        json_array_foreach(json_object_get(table, "shards"), k, shard) {
            int rank = (int)json_integer_value(json_object_get(shard, "rank"));
            cr_assert(rank >= 0 && rank < 4);
            per_rank[rank] += json_real_value(json_object_get(shard, "cost_ms"));
        }
    }
    double most = 0.0;
    for (int r = 0; r < 4; r++) {
        json_t *rank = json_array_get(json_object_get(root, "per_rank"), (size_t)r);
        double ms = json_number_value(json_object_get(rank, "cost_ms"));
        cr_expect_float_eq(ms, per_rank[r], 1e-12);
        most = fmax(most, ms);
    }
    double startup = json_number_value(json_object_get(root, "startup_ms"));
    cr_expect_float_eq(json_number_value(json_object_get(root, "cost_ms")), most + startup, 1e-12);
    json_decref(root);
    ls_text_free(&text);
    ls_planner_problem_free(problem);
}

// An explanation starts from the whole plan's cost, including start-up.
Test(report, explanation_tells_the_plan_s_cost) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 4, 2) == LS_OK);
    ls_planner_table tables[2] = {make_table("user", 100000, 128, &ids),
                                  make_table("item", 5000, 64, &ids)};
    tables[0].shardings = tables[1].shardings = 1u << LS_TABLE_WISE;
    ls_planner_problem *problem = problem_of(&topology, tables, 2);
    ls_planner_result result;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.startup_ms > 0.01 * result.ms);
    ls_text text = {0};
    char cost[64];
    (void)snprintf(cost, sizeof cost, "the plan costs %.4g", result.ms);
    cr_assert(ls_planner_explain(&text, problem, &result, "user") == LS_OK);
    cr_expect(strstr(text.data, cost), "%s is not in %s", cost, text.data);
    ls_text_free(&text);
    ls_planner_problem_free(problem);
}

// Of several results of one problem, an explanation is that of the one it is asked for.
Test(report, explanation_is_of_its_result) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 4, 4) == LS_OK);
    ls_planner_table tables[2] = {make_table("user", 100000, 128, &ids),
                                  make_table("item", 5000, 64, &ids)};
    ls_planner_options options = {.model = LS_PLANNER_TORCHREC};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, tables, 2, &options) == LS_OK);
    ls_planner_result results[2];
    cr_assert(ls_planner_solve(&results[0], problem) == LS_OK && results[0].found);
    cr_assert(ls_planner_baseline(&results[1], problem, LS_PROPOSE_UNIFORM,
                                  LS_PARTITION_GREEDY_PERF, 1) == LS_OK &&
              results[1].found);
    cr_assert(results[1].ms > 1.01 * results[0].ms);
    for (int i = 0; i < 2; i++) {
        ls_text text = {0};
        char cost[64];
        (void)snprintf(cost, sizeof cost, "the plan costs %.6g ms;", results[i].ms);
        cr_assert(ls_planner_explain(&text, problem, &results[i], "user") == LS_OK);
        cr_expect(strstr(text.data, cost), "%s is not in %s", cost, text.data);
        ls_text_free(&text);
    }
    ls_planner_problem_free(problem);
}

// An explanation lists every other way to cut the table; none of them is cheaper than an optimal
// plan.
Test(report, explanation_finds_nothing_better_than_the_optimum) {
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "v100_torchrec", 2, 2) == LS_OK);
    ls_planner_table tables[2] = {make_table("user", 100000, 128, &ids),
                                  make_table("item", 5000, 64, &ids)};
    ls_planner_problem *problem = problem_of(&topology, tables, 2);
    ls_planner_result result;
    cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.proven);
    ls_text text = {0};
    cr_assert(ls_planner_explain(&text, problem, &result, "user") == LS_OK);
    cr_expect(strstr(text.data, "next best: "));
    cr_expect(!strstr(text.data, "(-"), "%s", text.data);
    cr_expect(strstr(text.data, "row_wise fused"), "%s", text.data);
    cr_expect(ls_planner_explain(&text, problem, &result, "usr") == LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "did you mean \"user\"?"));
    ls_text_free(&text);
    text = (ls_text){0};
    cr_assert(ls_planner_write_svg(&text, problem, &result) == LS_OK);
    cr_expect(strncmp(text.data, "<svg", 4) == 0 && strstr(text.data, "</svg>"));
    ls_text_free(&text);
    text = (ls_text){0};
    cr_assert(ls_planner_write_text(&text, problem, &result) == LS_OK);
    cr_expect(strstr(text.data, "optimal, proven") && strstr(text.data, "dominates"));
    ls_text_free(&text);
    ls_planner_problem_free(problem);
}
