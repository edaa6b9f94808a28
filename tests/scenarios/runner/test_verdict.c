// The verdict of a case: the classes that its checks allow, and the effect of findings,
// expectations and injected defects.
#include <criterion/criterion.h>
#include <string.h>

#include "runner/compare/case_run.h"

static ls_scenario_reference references[] = {{.allow = LS_CLASS_WITHIN_BOUND},
                                             {.allow = LS_CLASS_BIT_EXACT}};
static ls_scenario_fault fault = {.type = LS_FAULT_BIT_FLIP};
static ls_finding leak = {.id = LS_FINDING_HANDLE_LEAK, .text = "a leak"};

typedef struct fixture {
    ls_scenario scenario;
    ls_case_run run;
} fixture;

// A case of one stage that the oracle calls bit exact.
static void begin(fixture *f) {
    *f = (fixture){.scenario = {.checks = {.oracle = LS_CLASS_BY_DESIGN,
                                           .real = LS_CLASS_WITHIN_BOUND,
                                           .references = references,
                                           .reference_count = 2},
                                .expect = {.sample = -1}}};
    f->run.scenario = &f->scenario;
    cr_assert(ls_arena_create(&f->run.arena) == LS_OK);
    f->run.comparison.arena = f->run.arena;
}

static ls_stage_result *add(fixture *f, ls_judge judge, int reference, ls_class class_) {
    ls_stage_result *stage = ls_comparison__stage(&f->run.comparison, judge, reference, "s");
    cr_assert(stage != NULL);
    stage->class_ = class_;
    stage->elements = 1;
    return stage;
}

static const ls_case_result *decide(fixture *f) {
    ls_case__decide(&f->run);
    return &f->run.result;
}

static void end(fixture *f) {
    ls_stages_free(f->run.clean);
    ls_stages_free(f->run.simulated);
    ls_arena_free(f->run.arena);
}

static void find(fixture *f) {
    ls_case__add_finding(&f->run, &leak);
    f->run.result.class_ = LS_CLASS_FINDING;
}

static void inject(fixture *f) {
    f->scenario.faults = &fault;
    f->scenario.fault_count = 1;
    cr_assert(ls_stages_create(&f->run.clean, 1) == LS_OK);
    cr_assert(ls_stages_create(&f->run.simulated, 1) == LS_OK);
}

static void put(ls_stages *stages, const char *stage, float a, float b) {
    const float data[2] = {a, b};
    const ls_stage_output output = {
        .stage = stage, .field = "v", .dtype = LS_F32, .shape = LS_SHAPE(2), .data = data};
    ls_stage_sink sink = ls_stages_sink(stages);
    cr_assert(sink.emit(sink.arg, &output) == LS_OK);
}

// A case keeps all of its findings, in their order.
Test(verdict, findings_are_kept) {
    fixture f;
    ls_finding other = {.id = LS_FINDING_REPLICA_DIVERGED, .text = "another"};
    begin(&f);
    find(&f);
    ls_case__add_finding(&f.run, &other);
    find(&f);
    const ls_finding *findings = f.run.result.findings;
    cr_assert(f.run.result.finding_count == 3);
    cr_expect_str_eq(findings[0].text, "a leak");
    cr_expect_str_eq(findings[1].text, "another");
    cr_expect(findings[1].id == LS_FINDING_REPLICA_DIVERGED && findings[2].id == leak.id);
    end(&f);
}

// Each judge has the worst class that the scenario's checks allow, and each reference its own; one
// class worse fails, and the report names the required one.
Test(verdict, each_judge_has_its_own_limit) {
    const struct {
        ls_judge judge;
        int reference;
        ls_class worst;
    } cases[] = {{LS_JUDGE_ORACLE, 0, LS_CLASS_BY_DESIGN},
                 {LS_JUDGE_REAL, 0, LS_CLASS_WITHIN_BOUND},
                 {LS_JUDGE_REFERENCE, 0, LS_CLASS_WITHIN_BOUND},
                 {LS_JUDGE_REFERENCE, 1, LS_CLASS_BIT_EXACT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int over = 0; over < 2; over++) {
            fixture f;
            begin(&f);
            ls_class class_ = (ls_class)((int)cases[i].worst + over);
            add(&f, LS_JUDGE_ORACLE, 7, LS_CLASS_BIT_EXACT);
            const ls_stage_result *stage = add(&f, cases[i].judge, cases[i].reference, class_);
            const ls_case_result *result = decide(&f);
            cr_expect(result->pass == (over == 0), "case %zu, over %d", i, over);
            cr_expect(result->class_ == class_ && result->stage_count == 2);
            cr_expect((stage->divergence != NULL) == (over == 1), "case %zu", i);
            end(&f);
        }
    }
}

// A wrong stage has its own explanation, which stays.
Test(verdict, an_explanation_is_kept) {
    fixture f;
    begin(&f);
    ls_stage_result *stage = add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_WRONG);
    stage->divergence = "element 3";
    cr_expect_not(decide(&f)->pass);
    cr_expect_str_eq(stage->divergence, "element 3");
    end(&f);
}

// An unexpected finding fails a case with correct stages, and an error stays an error.
Test(verdict, findings_and_errors_fail) {
    fixture f;
    begin(&f);
    add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_BIT_EXACT);
    find(&f);
    cr_expect(!decide(&f)->pass && f.run.result.class_ == LS_CLASS_FINDING);
    end(&f);
    begin(&f);
    add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_BIT_EXACT);
    f.run.result.class_ = LS_CLASS_ERROR;
    f.run.result.error = "no memory";
    cr_expect(!decide(&f)->pass && f.run.result.class_ == LS_CLASS_ERROR);
    cr_expect_str_eq(f.run.result.error, "no memory");
    end(&f);
}

// An expected finding does not excuse a wrong stage, nor does an expected wrong stage excuse a
// finding.
Test(verdict, an_expectation_excuses_nothing_else) {
    for (int wrong = 0; wrong < 2; wrong++) {
        fixture f;
        begin(&f);
        f.scenario.expect.has_finding = true;
        f.scenario.expect.finding = LS_FINDING_HANDLE_LEAK;
        add(&f, LS_JUDGE_ORACLE, 0, wrong ? LS_CLASS_WRONG : LS_CLASS_BIT_EXACT);
        find(&f);
        cr_expect(decide(&f)->pass == (wrong == 0));
        end(&f);
    }
    for (int finds = 0; finds < 2; finds++) {
        fixture f;
        begin(&f);
        f.scenario.expect.has_class = true;
        f.scenario.expect.class_ = LS_CLASS_WRONG;
        add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_WRONG);
        if (finds) {
            find(&f);
        }
        cr_expect(decide(&f)->pass == (finds == 0));
        cr_expect(!finds || strstr(f.run.result.error, "which was not expected") != NULL);
        end(&f);
    }
}

// An injected defect must be reached and noticed. `unnoticed` excuses the second only, and itself
// requires that nothing was noticed.
Test(verdict, what_is_injected_is_noticed) {
    for (int unnoticed = 0; unnoticed < 2; unnoticed++) {
        for (int missed = 0; missed < 2; missed++) {
            fixture f;
            begin(&f);
            inject(&f);
            f.scenario.expect.unnoticed = unnoticed;
            f.run.missed = missed ? "not injected" : NULL;
            add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_BIT_EXACT);
            cr_expect(decide(&f)->pass == (unnoticed && !missed), "%d, %d", unnoticed, missed);
            const char *told = f.run.result.error;
            cr_expect(!missed || (told != NULL && strcmp(told, "not injected") == 0));
            cr_expect(missed || unnoticed || strstr(told, "changes no bit") != NULL, "%s", told);
            end(&f);
        }
    }
    fixture f;
    begin(&f);
    inject(&f);
    f.scenario.expect.unnoticed = true;
    add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_WRONG);
    cr_expect(!decide(&f)->pass && strstr(f.run.result.error, "go unnoticed") != NULL);
    end(&f);
}

// The changed elements are counted over all stages.
Test(verdict, harm_is_counted) {
    fixture f;
    begin(&f);
    inject(&f);
    put(f.run.clean, "a", 1, 2);
    put(f.run.simulated, "a", 1.5F, 2.5F);
    put(f.run.clean, "b", 1, 2);
    put(f.run.simulated, "b", 1, 3);
    add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_WITHIN_BOUND);
    cr_expect(!decide(&f)->pass);
    cr_expect(strstr(f.run.result.error, "changes 3 elements of the outputs") != NULL, "%s",
              f.run.result.error);
    end(&f);
}

// A pass without a judged element is skipped, unless it was expected or no comparison was
// requested; a failure is not.
Test(verdict, what_proves_nothing_is_skipped) {
    for (int kind = 0; kind < 4; kind++) {
        fixture f;
        begin(&f);
        add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_UNJUDGED)->elements = kind == 3 ? 1 : 0;
        f.run.record_only = kind == 1;
        if (kind == 2) {
            find(&f);
        }
        const ls_case_result *result = decide(&f);
        cr_expect(result->pass == (kind != 2) && result->skipped == (kind == 0), "kind %d", kind);
        end(&f);
    }
    fixture f;
    begin(&f);
    add(&f, LS_JUDGE_ORACLE, 0, LS_CLASS_UNJUDGED)->elements = 0;
    f.scenario.expect.has_finding = true;
    f.scenario.expect.finding = LS_FINDING_HANDLE_LEAK;
    find(&f);
    cr_expect(decide(&f)->pass && !f.run.result.skipped);
    end(&f);
}

// Elements within bounds that prove nothing leave a real run unjudged, however few they are, and
// fail it if its bits must be equal. For the oracle they do so if they are half of a stage.
Test(verdict, what_a_bound_does_not_prove_is_unjudged) {
    for (int kind = 0; kind < 6; kind++) {
        fixture f;
        begin(&f);
        bool real = kind < 3;
        ls_judge judge = real ? LS_JUDGE_REAL : LS_JUDGE_ORACLE;
        ls_stage_result *stage =
            add(&f, judge, 0, kind == 2 ? LS_CLASS_WRONG : LS_CLASS_WITHIN_BOUND);
        stage->elements = 9;
        stage->unjudged = stage->vacuous = kind == 4 ? 9 : 1;
        f.scenario.checks.real = kind == 1 ? LS_CLASS_BIT_EXACT : LS_CLASS_WITHIN_BOUND;
        f.scenario.checks.oracle = kind == 5 ? LS_CLASS_BIT_EXACT : LS_CLASS_BY_DESIGN;
        const ls_case_result *result = decide(&f);
        const ls_class wanted[] = {LS_CLASS_UNJUDGED,     LS_CLASS_UNJUDGED, LS_CLASS_WRONG,
                                   LS_CLASS_WITHIN_BOUND, LS_CLASS_UNJUDGED, LS_CLASS_WITHIN_BOUND};
        bool fails = kind == 1 || kind == 2 || kind == 5;
        cr_expect(f.run.comparison.stages[0].class_ == wanted[kind], "kind %d", kind);
        cr_expect(result->pass == !fails, "kind %d", kind);
        cr_expect(result->skipped == (kind == 0 || kind == 4), "kind %d", kind);
        cr_expect(!result->skipped || strstr(result->skip_reason, "too wide to prove") != NULL);
        end(&f);
    }
}

// A recording that is only made fails by a finding, and by no comparison.
Test(verdict, a_recording_is_not_judged) {
    for (int finds = 0; finds < 2; finds++) {
        fixture f;
        begin(&f);
        f.run.record_only = true;
        if (finds) {
            find(&f);
        }
        cr_expect(decide(&f)->pass == (finds == 0));
        end(&f);
    }
}

// ---- Judging ------------------------------------------------------------------------------------
static const ls_comparison *judge(fixture *f) {
    cr_assert(ls_case__judge(&f->run, f->run.simulated, "simulated") == LS_OK);
    return &f->run.comparison;
}

// A run is judged by its expectation; with the oracle off its elements count as unjudged, and after
// a finding its outputs are not examined.
Test(verdict, who_judges) {
    for (int off = 0; off < 2; off++) {
        fixture f;
        begin(&f);
        inject(&f);
        put(f.run.simulated, "a", 1, 2);
        put(f.run.clean, "a", 1, 3);
        f.run.expected = f.run.clean;
        f.scenario.checks.oracle_off = off;
        f.scenario.checks.reference_count = 0;
        const ls_comparison *comparison = judge(&f);
        cr_assert(comparison->stage_count == 1);
        const ls_stage_result *stage = &comparison->stages[0];
        cr_expect(stage->class_ == (off ? LS_CLASS_UNJUDGED : LS_CLASS_WRONG));
        cr_expect(stage->unjudged == (off ? 2 : 0));
        end(&f);
        begin(&f);
        inject(&f);
        put(f.run.simulated, "a", 1, 2);
        find(&f);
        cr_expect(judge(&f)->stage_count == 0);
        end(&f);
    }
}
