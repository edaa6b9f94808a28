// Programs without data, run by classes of ranks with equal calls: the report must equal that of
// running each rank, byte for byte, and most programs must run by classes. A trace needs each rank.
#include <criterion/criterion.h>
#include <string.h>

#include "base/base.h"
#include "fuzz/campaign.h"
#include "report/report.h"
#include "runner/compare/run.h"
#include "runner/program/program.h"
#include "runner/program/tally.h"
#include "runner/scenario/scenario.h"
#include "runner/trace/trace.h"

#define CASES 400  // random programs on buffers, half of them with a defect

static ls_scenario *scenario_of(const char *text) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert_eq(ls_diagnostics_create(&diagnostics, "case.yaml"), LS_OK);
    (void)ls_scenario_parse(&scenario, diagnostics, "case.yaml", text, strlen(text), NULL);
    ls_diagnostics_free(diagnostics);
    return scenario;
}

static void report(ls_text *out, const ls_scenario *scenario, ls_trace *trace) {
    ls_results *results = NULL;
    const ls_run_options options = {
        .shape_only = true, .trace = trace, .reproduce = "lockstep run --shape-only"};
    cr_assert_eq(ls_results_create(&results, "run"), LS_OK);
    cr_assert_eq(ls_run_simulated(results, scenario, &options), LS_OK);
    cr_assert_eq(ls_report_json(out, results), LS_OK);
    ls_results_free(results);
}

// The number of classes that run for the ranks; 0: each rank runs. The reports are equal.
static int classes_of(const char *text, const char *what) {
    ls_scenario *scenario = scenario_of(text);
    cr_assert_not_null(scenario, "%s is no scenario:\n%s", what, text);
    ls_trace *trace = NULL;
    cr_assert_eq(ls_trace_create(&trace, NULL, false), LS_OK);
    ls_text by_classes = {0}, by_ranks = {0};
    report(&by_classes, scenario, NULL);
    report(&by_ranks, scenario, trace);
    cr_assert_str_eq(ls_text_string(&by_classes), ls_text_string(&by_ranks), "%s:\n%s", what, text);
    ls_text_free(&by_classes);
    ls_text_free(&by_ranks);
    ls_trace_free(trace);
    ls_arena *arena = NULL;
    ls_tally tally;
    bool done = false;
    cr_assert_eq(ls_arena_create(&arena), LS_OK);
    if (ls_tally_possible(scenario)) {
        cr_assert_eq(ls_tally_begin(&tally, scenario, NULL, arena), LS_OK);
        cr_assert_eq(ls_program__classes(&done, scenario, &tally, arena), LS_OK);
    }
    int classes = done ? tally.classes : 0;
    ls_arena_free(arena);
    ls_scenario_free(scenario);
    return classes;
}

Test(classes, report_what_the_ranks_do) {
    int by_classes = 0, fewer = 0;
    for (uint32_t number = 2; number < 4 * CASES; number += 4) {
        ls_text text = {0};
        char what[32];
        (void)snprintf(what, sizeof what, "case %u", (unsigned)number);
        cr_assert_eq(ls_fuzz_case_text(&text, 1, number), LS_OK);
        ls_scenario *scenario = scenario_of(ls_text_string(&text));
        int classes = classes_of(ls_text_string(&text), what);
        by_classes += classes > 0;
        fewer += classes > 0 && classes < scenario->ranks;
        ls_scenario_free(scenario);
        ls_text_free(&text);
    }
    cr_expect_geq(by_classes, 60, "%d by classes", by_classes);
    cr_expect_geq(fewer, 30, "%d by fewer classes than ranks", fewer);
}

#define HEAD "lockstep: 1\nname: p\nmesh: {shape: [4, 3]}\nprogram:\n  steps:\n"

// The classes of programs, and programs in which each rank must run.
Test(classes, are_ranks_with_one_part) {
    static const struct {
        const char *steps;
        int classes;
    } table[] = {
        {"    - all_reduce: {count: 8, op: sum}\n    - all_to_all: {count: 2, axis: \"1\"}\n", 1},
        {"    - all_gather: {count: 8, in_place: true}\n    - barrier: {}\n", 1},
        {"    - reduce: {count: 8, op: sum, root: 2}\n", 2},
        {"    - broadcast: {count: 8, root: 1, axis: \"0\"}\n", 2},
        {"    - broadcast: {count: 8, root: 1, axis: \"0\"}\n"
         "    - gather: {count: 8, root: 0, axis: \"1\"}\n",
         4},
        {"    - all_gather: {counts: [1, 2, 1], axis: \"1\", in_place: true}\n", 2},
        {"    - reduce_scatter: {counts: [1, 2, 3], op: sum, axis: \"1\", in_place: true}\n", 3},
        {"    - all_to_all: {splits: [[1, 0, 2], [1, 1, 1], [0, 0, 4]], axis: \"1\"}\n", 3},
        {"    - all_reduce: {count: 1, op: max, ranks: [7, 5, 11]}\n"
         "    - all_reduce: {count: 1, op: max, ranks: [2, 0]}\n",
         3},
        {"    - all_reduce: {name: a, count: 1, op: sum, async: true}\n"
         "    - barrier: {}\n    - wait: {step: a}\n",
         1},
        {"    - all_reduce: {name: a, count: 1, op: sum, async: true, axis: \"0\"}\n"
         "    - barrier: {}\n    - wait: {step: a}\n",
         0},
        {"    - all_reduce: {name: a, count: 1, op: sum, async: true}\n", 0},
        {"    - all_reduce: {name: a, count: 1, op: sum, async: true}\n"
         "    - wait: {step: a, ranks: [0]}\n",
         0},
        {"    - all_reduce: {name: a, count: 1, op: sum, async: true}\n"
         "    - all_reduce: {name: b, count: 1, op: sum, async: true}\n"
         "    - wait: {step: a}\n    - wait: {step: a}\n",
         0},
        {"    - send_recv: {count: 1, pairs: [[0, 1]]}\n", 0},
        {"    - all_reduce: {count: 8, op: sum, except: [{ranks: [3], op: max}]}\n", 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ls_text text = {0};
        ls_text_printf(&text, "%s%s", HEAD, table[i].steps);
        cr_expect_eq(classes_of(ls_text_string(&text), "a program"), table[i].classes, "%s",
                     table[i].steps);
        ls_text_free(&text);
    }
}
