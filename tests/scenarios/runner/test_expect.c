// When a scenario's `expect:` is met: by exactly what it names.
#include <criterion/criterion.h>
#include <string.h>

#include "runner/compare/expect.h"

// ---- Findings -----------------------------------------------------------------------------------
static const int first_ranks[] = {1, 3}, second_ranks[] = {3}, third_ranks[] = {0};
static const ls_finding op = {.id = LS_FINDING_OP_MISMATCH,
                              .ranks = first_ranks,
                              .rank_count = 2,
                              .where = "dir/file.yaml:6",
                              .text = "op differs"};
static const ls_finding nan_first = {.id = LS_FINDING_VALUE_NAN_FIRST,
                                     .ranks = second_ranks,
                                     .rank_count = 1,
                                     .where = "dir/file.yaml:7",
                                     .text = "NaN"};
static const ls_finding op_elsewhere = {.id = LS_FINDING_OP_MISMATCH,
                                        .ranks = third_ranks,
                                        .rank_count = 1,
                                        .where = "dir/file.yaml:8",
                                        .text = "another op"};

// Whether the findings meet the expectation; else the reason contains `why`.
static void check_finding(int line, const ls_finding *found, int count,
                          const ls_scenario_expect *expect, const char *why) {
    ls_arena *arena = NULL;
    const char *told = NULL;
    ls_finding all[4];
    cr_assert(ls_arena_create(&arena) == LS_OK && count <= 4);
    for (int i = 0; i < count; i++) {
        all[i] = found[i];
    }
    const ls_case_result result = {.findings = all, .finding_count = count};
    cr_expect(ls_expect_finding(&told, &result, expect, arena) == (why == NULL), "line %d: %s",
              line, told != NULL ? told : "met");
    cr_expect(why == NULL ? told == NULL : told != NULL && strstr(told, why) != NULL, "line %d: %s",
              line, told != NULL ? told : "nothing is told");
    ls_arena_free(arena);
}
#define FINDS(found, expect, why)                                                                  \
    check_finding(__LINE__, found, sizeof(found) / sizeof *(found), &(expect), why)

static ls_scenario_expect finding(ls_finding_id id) {
    return (ls_scenario_expect){.has_finding = true, .finding = id, .sample = -1};
}

// The finding itself, and none or another one in its place.
Test(expect, one_finding) {
    const ls_finding one[] = {op}, other[] = {nan_first}, both[] = {op, nan_first};
    const ls_scenario_expect expect = finding(LS_FINDING_OP_MISMATCH);
    FINDS(one, expect, NULL);
    check_finding(__LINE__, NULL, 0, &expect, "collective.op_mismatch did not appear");
    FINDS(other, expect,
          "unexpected value.nan_first at dir/file.yaml:7, in addition to or instead of "
          "collective.op_mismatch");
    FINDS(both, expect, "unexpected value.nan_first at dir/file.yaml:7");
}

// Accompanying findings must be listed, may be absent, and do not replace the expected one.
Test(expect, findings_that_come_along) {
    const char *names[] = {"handle.leak", "value.nan_first"};
    const ls_finding one[] = {op}, other[] = {nan_first}, both[] = {nan_first, op};
    ls_scenario_expect expect = finding(LS_FINDING_OP_MISMATCH);
    expect.also = (ls_string_list){.at = names, .count = 2};
    FINDS(both, expect, NULL);
    FINDS(one, expect, NULL);
    FINDS(other, expect, "the expected collective.op_mismatch did not appear as expected");
    expect.also.count = 1;
    FINDS(both, expect, "unexpected value.nan_first at dir/file.yaml:7");
}

// Ranks: exactly these are at fault, and what comes along has none but these.
Test(expect, ranks_at_fault) {
    const int64_t exact[] = {1, 3}, fewer[] = {1}, others[] = {1, 2}, more[] = {0, 1, 3},
                  behind[] = {1, 3, 5};
    const char *names[] = {"value.nan_first"};
    const ls_finding one[] = {op}, both[] = {op, nan_first}, twice[] = {op, op_elsewhere};
    ls_scenario_expect expect = finding(LS_FINDING_OP_MISMATCH);
    expect.ranks = (ls_int_list){.at = exact, .count = 2};
    FINDS(one, expect, NULL);
    FINDS(twice, expect, "unexpected collective.op_mismatch");
    expect.also = (ls_string_list){.at = names, .count = 1};
    FINDS(both, expect, NULL);
    expect.ranks = (ls_int_list){.at = fewer, .count = 1};
    FINDS(one, expect, "unexpected collective.op_mismatch");
    expect.ranks = (ls_int_list){.at = others, .count = 2};
    FINDS(one, expect, "unexpected collective.op_mismatch");
    expect.ranks = (ls_int_list){.at = more, .count = 3};
    FINDS(one, expect, "did not appear as expected");
    expect.ranks = (ls_int_list){.at = behind, .count = 3};
    FINDS(one, expect, "did not appear as expected");
}

// A place is the end of the finding's, and words are a part of its text; both of one finding, which
// need not be the first.
Test(expect, place_and_words) {
    const ls_finding one[] = {op}, twice[] = {op, op_elsewhere};
    ls_scenario_expect expect = finding(LS_FINDING_OP_MISMATCH);
    expect.where = "file.yaml:6";
    FINDS(one, expect, NULL);
    FINDS(twice, expect, NULL);
    expect.where = "dir/file.yaml:6";
    FINDS(one, expect, NULL);
    expect.where = "file.yaml";
    FINDS(one, expect, "did not appear as expected");
    expect.where = "a/long/way/dir/file.yaml:6";
    FINDS(one, expect, "did not appear as expected");
    expect.where = "file.yaml:8";
    FINDS(twice, expect, NULL);
    expect.contains = "op differs";
    FINDS(twice, expect, "did not appear as expected");
    expect.where = NULL;
    FINDS(one, expect, NULL);
    expect.contains = "op differed";
    FINDS(one, expect, "did not appear as expected");
}

// ---- Stages -------------------------------------------------------------------------------------
enum { STAGES = 3 };

typedef struct outcome {
    ls_stage_result stages[STAGES];
    ls_divergence_place places[STAGES];
    bool fails[STAGES];
} outcome;

// The first stage is right, the second and the third are wrong.
static outcome two_wrong(void) {
    return (outcome){
        .stages = {{.name = "first", .stage = "first", .class_ = LS_CLASS_BIT_EXACT},
                   {.name = "real:second",
                    .stage = "second",
                    .class_ = LS_CLASS_WRONG,
                    .divergence = "element 7"},
                   {.name = "third", .stage = "third", .class_ = LS_CLASS_WRONG}},
        .places = {{0}, {.table = "t", .feature = "f"}, {.table = "t", .feature = "g"}},
        .fails = {false, true, true}};
}

static void check_stages(int line, outcome *of, const ls_scenario_expect *expect, const char *why) {
    ls_arena *arena = NULL;
    const char *told = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    const ls_comparison comparison = {
        .arena = arena, .stages = of->stages, .places = of->places, .stage_count = STAGES};
    bool met = ls_expect_divergence(&told, &comparison, of->fails, expect, NULL, arena);
    cr_expect(met == (why == NULL), "line %d: %s", line, told != NULL ? told : "met");
    cr_expect(why == NULL || (told != NULL && strstr(told, why) != NULL), "line %d: %s", line,
              told != NULL ? told : "nothing is told");
    ls_arena_free(arena);
}
#define STAGES_ARE(of, expect, why) check_stages(__LINE__, &(of), &(expect), why)

static ls_scenario_expect class_of(ls_class class_) {
    return (ls_scenario_expect){.has_class = true, .class_ = class_, .sample = -1};
}

// Without a list one stage has the class: none is too few, two are too many.
Test(expect, one_stage) {
    outcome of = two_wrong();
    const ls_scenario_expect expect = class_of(LS_CLASS_WRONG);
    STAGES_ARE(of, expect, "stage third is wrong, which was not expected");
    of.fails[2] = false;
    STAGES_ARE(of, expect, NULL);
    of.fails[1] = false;
    STAGES_ARE(of, expect, "the expected wrong did not appear");
    of.fails[1] = true;
    of.stages[1].class_ = LS_CLASS_WITHIN_BOUND;
    STAGES_ARE(of, expect, "stage real:second is within_bound, which was not expected");
}

// An injected defect is also in the real run: a difference from that is another defect.
Test(expect, a_difference_from_the_real_run) {
    const char *names[] = {"second", "third"};
    outcome of = two_wrong();
    ls_scenario_expect expect = class_of(LS_CLASS_WRONG);
    expect.stages = (ls_string_list){.at = names, .count = 2};
    of.stages[1].judge = of.stages[2].judge = LS_JUDGE_ORACLE;
    STAGES_ARE(of, expect, NULL);
    of.stages[2].judge = LS_JUDGE_REAL;
    STAGES_ARE(of, expect, "stage third is wrong, which was not expected");
}

// With a list exactly its stages have it, by their names in the run; passing ones do not count.
Test(expect, listed_stages) {
    const char *names[] = {"second", "third", "first"}, *shown[] = {"real:second", "third"};
    outcome of = two_wrong();
    ls_scenario_expect expect = class_of(LS_CLASS_WRONG);
    expect.stages = (ls_string_list){.at = names, .count = 2};
    STAGES_ARE(of, expect, NULL);
    expect.stages.count = 3;
    STAGES_ARE(of, expect, "stage first is not wrong, as was expected");
    const char *before[] = {"first", "second", "third"};
    expect.stages.at = before;
    STAGES_ARE(of, expect, "stage first is not wrong, as was expected");
    expect.stages = (ls_string_list){.at = names, .count = 1};
    STAGES_ARE(of, expect, "stage third is wrong, which was not expected");
    expect.stages = (ls_string_list){.at = shown, .count = 2};
    STAGES_ARE(of, expect, "stage real:second is wrong, which was not expected");
    expect.stages = (ls_string_list){.at = names, .count = 2};
    of.stages[2].class_ = LS_CLASS_BY_DESIGN;
    STAGES_ARE(of, expect, "stage third is by_design, which was not expected");
}

// Table and feature apply to every stage and to all of its wrong elements.
Test(expect, table_and_feature) {
    const char *names[] = {"second", "third"};
    outcome of = two_wrong();
    ls_scenario_expect expect = class_of(LS_CLASS_WRONG);
    expect.stages = (ls_string_list){.at = names, .count = 2};
    expect.table = "t";
    STAGES_ARE(of, expect, NULL);
    of.places[1].tables = true;
    STAGES_ARE(of, expect, "stage real:second is wrong in another table than expected, too");
    expect.table = NULL;
    STAGES_ARE(of, expect, NULL);
    expect.feature = "f";
    STAGES_ARE(of, expect, "stage third is wrong in another feature than expected, too");
    of.places[2].feature = "f";
    STAGES_ARE(of, expect, NULL);
    of.places[2].features = true;
    STAGES_ARE(of, expect, "stage third is wrong in another feature");
    of.places[2] = (ls_divergence_place){0};
    STAGES_ARE(of, expect, "stage third is wrong in another feature");
    expect.feature = NULL;
    expect.table = "u";
    STAGES_ARE(of, expect, "stage real:second is wrong in another table");
}

// Words belong to the first stage only; a missing sample is not the expected one.
Test(expect, words_and_sample) {
    const char *names[] = {"second", "third"};
    outcome of = two_wrong();
    ls_scenario_expect expect = class_of(LS_CLASS_WRONG);
    expect.stages = (ls_string_list){.at = names, .count = 2};
    expect.contains = "element 7";
    STAGES_ARE(of, expect, NULL);
    expect.contains = "element 8";
    STAGES_ARE(of, expect, "stage real:second is wrong, but not where or how it was expected");
    of.stages[1].divergence = NULL;
    STAGES_ARE(of, expect, "not where or how");
    expect.contains = NULL;
    expect.sample = 0;
    STAGES_ARE(of, expect, "not where or how");
}
