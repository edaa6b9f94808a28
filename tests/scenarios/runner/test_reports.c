// Tests of results and of the text and JSON reports. XML has a test of its own.
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ulps.h"
#include "tests/scenarios/runner/example_results.h"

// A case's class is its worst stage's, findings count as such, and every case is counted once.
Test(results, class_is_the_worst_stages) {
    ls_results *results = NULL;
    cr_assert(example_results(&results) == LS_OK);
    cr_expect(results->passed == 2 && results->failed == 2 && results->skipped == 1);
    cr_expect(results->cases[0].class_ == LS_CLASS_BIT_EXACT);
    cr_expect(results->cases[1].class_ == LS_CLASS_WRONG);
    cr_expect(results->cases[2].class_ == LS_CLASS_ERROR);
    cr_expect(results->cases[3].class_ == LS_CLASS_FINDING);
    cr_expect(!ls_results_pass(results));
    ls_results_free(results);
}

// An empty run is not a pass, and a thousand cases survive the growth of their array.
Test(results, empty_is_no_pass_and_many_are_kept) {
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "run") == LS_OK);
    cr_expect(!ls_results_pass(results));
    for (int i = 0; i < 1000; i++) {
        ls_case_result result = {.name = ls_arena_printf(results->arena, "case %d", i),
                                 .pass = true};
        cr_assert(ls_results_add(results, &result) == LS_OK);
    }
    cr_expect(ls_results_pass(results) && results->passed == 1000);
    cr_expect_str_eq(results->cases[0].name, "case 0");
    cr_expect_str_eq(results->cases[999].name, "case 999");
    ls_results_free(results);
}

static json_t *parse(const ls_results *results) {
    ls_text text = {0};
    cr_assert(ls_report_json(&text, results) == LS_OK);
    json_error_t error;
    json_t *root = json_loads(ls_text_string(&text), JSON_REJECT_DUPLICATES, &error);
    cr_assert(root != NULL, "line %d: %s", error.line, error.text);
    ls_text_free(&text);
    return root;
}

// The JSON report has the members that scripts read, with their types, and the counts agree.
Test(report_json, has_the_promised_members) {
    ls_results *results = NULL;
    cr_assert(example_results(&results) == LS_OK);
    json_t *root = parse(results);
    cr_expect(json_integer_value(json_object_get(root, "format")) == 1);
    cr_expect_str_eq(json_string_value(json_object_get(root, "command")), "compare");
    cr_expect_str_eq(json_string_value(json_object_get(root, "verdict")), "fail");
    cr_expect(json_integer_value(json_object_get(root, "passed")) == 2);
    cr_expect(json_integer_value(json_object_get(root, "failed")) == 2);
    cr_expect(json_integer_value(json_object_get(root, "skipped")) == 1);
    json_t *cases = json_object_get(root, "cases");
    cr_assert(json_array_size(cases) == 4, "a skipped case has no verdict");
    json_t *first = json_array_get(cases, 0);
    cr_expect(json_is_null(json_object_get(first, "real")));
    cr_expect(json_is_null(json_object_get(first, "reproduce")));
    json_t *second = json_array_get(cases, 1);
    cr_expect_str_eq(json_string_value(json_object_get(second, "verdict")), "fail");
    cr_expect_str_eq(json_string_value(json_object_get(second, "class")), "wrong");
    cr_expect_str_eq(json_string_value(json_object_get(second, "real")), "mpi");
    json_t *stage = json_array_get(json_object_get(second, "stages"), 1);
    cr_expect(json_integer_value(json_object_get(stage, "differing")) == 16);
    cr_expect_str_eq(json_string_value(json_object_get(stage, "bound_ratio")), "Infinity");
    cr_expect_str_eq(json_string_value(json_object_get(stage, "order")), "ring, 2 channels");
    json_t *finding = json_array_get(json_object_get(second, "findings"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(finding, "id")), "collective.op_mismatch");
    cr_expect(json_array_size(json_object_get(finding, "ranks")) == 5);
    cr_expect_str_eq(json_string_value(json_object_get(finding, "where")), "train.c:12");
    json_decref(root);
    ls_results_free(results);
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) {
        count += 1;
    }
    return count;
}

// A pass by design is in every report, with its sentence. In the text report a reason of several
// stages appears once, with the first of them, and other reasons beside it.
Test(reports, by_design_is_explained) {
    static const char *const why[] = {"table user is grid, and there a mean is not divided",
                                      "table item is grid, and there a mean is not divided"};
    static int (*const writers[])(ls_text *, const ls_results *) = {ls_report_json, ls_report_junit,
                                                                    ls_report_html};
    ls_stage_result stages[3];
    for (int s = 0; s < 3; s++) {
        stages[s] = (ls_stage_result){.name = "output_dist",
                                      .class_ = LS_CLASS_BY_DESIGN,
                                      .elements = 4,
                                      .differing = 3,
                                      .divergence = why[s / 2],
                                      .design = why[s / 2]};
    }
    ls_case_result result = {.name = "as designed",
                             .file = "a.yaml",
                             .backend = "sim",
                             .pass = true,
                             .stages = stages,
                             .stage_count = 3};
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "run") == LS_OK);
    cr_assert(ls_results_add(results, &result) == LS_OK);
    cr_expect(results->passed == 1 && results->cases[0].class_ == LS_CLASS_BY_DESIGN);
    for (size_t i = 0; i <= sizeof writers / sizeof *writers; i++) {
        ls_text text = {0};
        ls_report_style style = {0};
        int status = i < sizeof writers / sizeof *writers ? writers[i](&text, results)
                                                          : ls_report_text(&text, results, &style);
        cr_assert(status == LS_OK);
        int first = count_of(ls_text_string(&text), why[0]);
        cr_expect(first == (i == 0 ? 2 : 1), "report %zu: %d", i, first);
        cr_expect(count_of(ls_text_string(&text), why[1]) == 1, "report %zu", i);
        ls_text_free(&text);
    }
    ls_results_free(results);
}

// Stages that fail come first, and each reason of the others appears once; distances are words if
// no number of ulps describes them.
Test(reports, failures_come_first_and_distances_have_words) {
    static int (*const writers[])(ls_text *, const ls_results *) = {ls_report_junit,
                                                                    ls_report_html};
    ls_stage_result design = {.name = "early",
                              .class_ = LS_CLASS_BY_DESIGN,
                              .elements = 4,
                              .differing = 3,
                              .max_ulps = 5,
                              .divergence = "place: the reason",
                              .design = "the reason"};
    ls_stage_result stages[5] = {design, design, design};
    stages[3] = (ls_stage_result){.name = "ids",
                                  .class_ = LS_CLASS_WRONG,
                                  .elements = 4,
                                  .differing = 2,
                                  .max_difference = 1234,
                                  .bound_ratio = INFINITY};
    stages[4] = (ls_stage_result){.name = "values",
                                  .class_ = LS_CLASS_WRONG,
                                  .elements = 4,
                                  .differing = 1,
                                  .max_difference = 3,
                                  .bound_ratio = 2};
    static const uint64_t ulps[] = {7, LS_ULPS_SIGN, LS_ULPS_INFINITY, LS_ULPS_NAN};
    static const char *const words[] = {"", "sign change", "infinity", "NaN"};
    static const char *const told[] = {"7 ulps", "a sign change", "infinity", "NaN"};
    for (size_t u = 0; u < sizeof ulps / sizeof *ulps; u++) {
        stages[4].max_ulps = ulps[u];
        ls_case_result result = {.name = "x", .stages = stages, .stage_count = 5};
        ls_results *results = NULL;
        cr_assert(ls_results_create(&results, "run") == LS_OK);
        cr_assert(ls_results_add(results, &result) == LS_OK);
        for (size_t i = 0; i < 3; i++) {
            ls_text text = {0};
            ls_report_style style = {0};
            cr_assert((i < 2 ? writers[i](&text, results)
                             : ls_report_text(&text, results, &style)) == LS_OK);
            const char *report = ls_text_string(&text);
            cr_expect(strstr(report, "ids") < strstr(report, "early"), "%s", report);
            cr_assert(strstr(report, "stage ids is wrong") != NULL, "%s", report);
            cr_expect(strstr(report, "stage values is wrong") < strstr(report, "stage early is"));
            cr_expect(count_of(report, "2 of 4 elements differ, by up to 1,234\n") == 1, "%s",
                      report);
            char floats[96];
            (void)snprintf(floats, sizeof floats, "integers by up to 3, floats by up to %s (2 of",
                           told[u]);
            cr_expect(count_of(report, floats) == 1, "%s", report);
            cr_expect(count_of(report, "the reason") == 1, "%s", report);
            cr_expect(count_of(report, "2 more stages are by_design") == 1, "%s", report);
            cr_expect(strstr(report, "18,446,744") == NULL, "%s", report);
            ls_text_free(&text);
        }
        json_t *root = parse(results);
        json_t *of = json_object_get(json_array_get(json_object_get(root, "cases"), 0), "stages");
        json_t *value = json_object_get(json_array_get(of, 4), "max_ulps");
        cr_expect(u == 0 ? json_integer_value(value) == 7
                         : strcmp(json_string_value(value), words[u]) == 0);
        json_t *ids = json_array_get(of, 3);
        cr_expect(json_integer_value(json_object_get(ids, "max_difference")) == 1234);
        cr_expect(json_integer_value(json_object_get(ids, "max_ulps")) == 0);
        json_decref(root);
        ls_results_free(results);
    }
}

// The page has the calls of a program, each with its place and purpose.
Test(reports, calls_are_listed) {
    ls_call_row rows[] = {{"all_to_all", "host 1", "input_dist <a>", "train.c:12", 3, 4096},
                          {"barrier", "world", NULL, "train.c:20", 1, 0}};
    ls_case_result result = {.name = "program",
                             .file = "train.c",
                             .backend = "sim",
                             .pass = true,
                             .calls = rows,
                             .call_count = 2};
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "spmd") == LS_OK);
    cr_assert(ls_results_add(results, &result) == LS_OK);
    ls_text page = {0};
    cr_assert(ls_report_html(&page, results) == LS_OK);
    const char *const lines[] = {
        "<tr><td>all_to_all</td><td>host 1</td><td>input_dist &lt;a&gt;</td><td>train.c:12</td>"
        "<td class=\"n\">3</td><td class=\"n\">4,096</td></tr>\n",
        "<tr><td>barrier</td><td>world</td><td></td><td>train.c:20</td>"
        "<td class=\"n\">1</td><td class=\"n\">0</td></tr>\n"};
    for (size_t i = 0; i < 2; i++) {
        cr_expect(count_of(ls_text_string(&page), lines[i]) == 1, "%s", ls_text_string(&page));
    }
    ls_text_free(&page);
    ls_results_free(results);
}

// Every finding's name is written under its own number.
Test(report_json, finding_names_round_trip) {
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        ls_finding_id back;
        cr_assert(ls_finding_parse(&back, ls_finding_name((ls_finding_id)id)) == LS_OK);
        cr_expect((int)back == id);
    }
}

// The text report shows each failure in full, and no terminal control.
Test(report_text, tells_failures_and_obeys_no_escape) {
    ls_results *results = NULL;
    cr_assert(example_results(&results) == LS_OK);
    ls_text text = {0};
    ls_report_style plain = {.color = false};
    cr_assert(ls_report_text(&text, results, &plain) == LS_OK);
    const char *report = ls_text_string(&text);
    cr_expect(strchr(report, 0x1b) == NULL && strchr(report, 0x01) == NULL);
    cr_expect(strstr(report, "1,234,567") != NULL);
    cr_expect(strstr(report, "collective.op_mismatch, ranks 0, 2-4, 9, at train.c:12") != NULL);
    cr_expect(strstr(report, "sample 3, id 7") != NULL);
    cr_expect(strstr(report, "reproduce: lockstep compare 'dir/<x>&.yaml'") != NULL);
    cr_expect(strstr(report, "error: rank 3: <no> memory") != NULL);
    cr_expect(strstr(report, "compare: 2 passed, 2 failed, 1 skipped\n") != NULL);
    ls_text_free(&text);
    ls_results_free(results);
}

// Cases that are skipped for the same reason have one line on request; the reason of a single case
// keeps its name, and no case is left out.
Test(report_text, counts_skipped_cases_by_reason) {
    static const char *const reasons[] = {"not kept", "no file", "not kept", NULL, "not kept"};
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "replay") == LS_OK);
    for (int c = 0; c < 5; c++) {
        ls_case_result result = {.name = ls_arena_printf(results->arena, "call %d", c),
                                 .backend = "sim",
                                 .skipped = reasons[c] != NULL,
                                 .skip_reason = reasons[c],
                                 .pass = reasons[c] == NULL};
        cr_assert(ls_results_add(results, &result) == LS_OK);
    }
    for (int counted = 0; counted < 2; counted++) {
        for (int quiet = 0; quiet < 2; quiet++) {
            ls_text text = {0};
            ls_report_style style = {.count_skips = counted != 0, .quiet = quiet != 0};
            cr_assert(ls_report_text(&text, results, &style) == LS_OK);
            const char *report = ls_text_string(&text);
            int lines = counted != 0 ? 1 : 3;
            cr_expect(count_of(report, "not kept") == (quiet ? 0 : lines), "%s", report);
            cr_expect(count_of(report, "skip  3 cases") == (counted && !quiet), "%s", report);
            cr_expect(count_of(report, "skip  call 1 ") == !quiet, "%s", report);
            cr_expect(count_of(report, "pass  call 3 ") == !quiet, "%s", report);
            cr_expect(count_of(report, "replay: 1 passed, 0 failed, 4 skipped") == 1);
            ls_text_free(&text);
        }
    }
    json_t *root = parse(results);
    cr_expect(json_array_size(json_object_get(root, "skips")) == 4);
    json_decref(root);
    ls_results_free(results);
}

// Quiet drops what passed or was skipped, never a failure.
Test(report_text, quiet_keeps_failures) {
    ls_results *results = NULL;
    cr_assert(example_results(&results) == LS_OK);
    ls_text text = {0};
    ls_report_style quiet = {.color = true, .unicode = true, .quiet = true};
    cr_assert(ls_report_text(&text, results, &quiet) == LS_OK);
    const char *report = ls_text_string(&text);
    cr_expect(strstr(report, "good") == NULL && strstr(report, "later") == NULL);
    cr_expect(strstr(report, "broken") != NULL && strstr(report, "output_dist") != NULL);
    cr_expect(strstr(report, "\033[") != NULL, "colour was asked for");
    ls_text_free(&text);
    ls_results_free(results);
}
