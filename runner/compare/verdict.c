// The verdict on a case: the judges of its stages, the classes that its scenario allows, and the
// expectations of scenarios with a known defect.
#include "runner/compare/case_run.h"
#include "runner/compare/expect.h"

ls_expectation ls_case__expectation(const ls_case_run *run) {
    if (run->oracle != NULL) {
        return (ls_expectation){.oracle = run->oracle, .clean = run->clean};
    }
    return (ls_expectation){.expected = run->expected, .clean = run->clean};
}

bool ls_case__values_stand(const ls_case_run *run) {
    bool stand = run->result.finding_count == 0 || run->scenario->expect.has_finding;
    for (int i = 0; i < run->result.finding_count; i++) {
        stand = stand && ls_finding_spares_values(run->result.findings[i].id);
    }
    return stand;
}

int ls_case__judge(ls_case_run *run, const ls_stages *stages, const char *who) {
    const ls_expectation expectation = ls_case__expectation(run);
    if (!ls_case__values_stand(run)) {
        return LS_OK;
    }
    run->comparison.found = run->result.finding_count > 0;
    if (!run->scenario->checks.oracle_off) {
        LS_TRY(ls_compare_expected(&run->comparison, stages, &expectation, who));
    }
    if (!run->comparison.proves) {  // references are floats
        LS_TRY(ls_compare_references(&run->comparison, stages, run->scenario, &expectation));
    }
    return run->comparison.stage_count > 0 ? LS_OK : ls_compare_nothing(&run->comparison, stages);
}

// ---- The verdict --------------------------------------------------------------------------------
static ls_class allowed_class(const ls_case_run *run, const ls_stage_result *stage) {
    const ls_scenario_checks *checks = &run->scenario->checks;
    switch (stage->judge) {
    case LS_JUDGE_REFERENCE:
        return checks->references[stage->reference].allow;
    case LS_JUDGE_REAL:
        return checks->real;
    default:
        return checks->oracle;
    }
}

// Marks the stages of a class that the scenario's checks do not allow, [stage_count]; debuggers
// stop there. *any: whether there is one.
static const bool *find_failing(bool *any, const ls_case_run *run) {
    int count = run->comparison.stage_count;
    bool *fails = ls_arena_alloc(run->arena, (size_t)count + 1, sizeof *fails);
    *any = fails == NULL;
    for (int i = 0; fails != NULL && i < count; i++) {
        ls_stage_result *stage = &run->comparison.stages[i];
        ls_class allowed = allowed_class(run, stage);
        bool differs = stage->vacuous > 0 && allowed < LS_CLASS_WITHIN_BOUND;
        fails[i] = stage->class_ > allowed || differs;
        if (fails[i] && stage->divergence == NULL) {
            stage->divergence = ls_arena_printf(run->arena, "the scenario's checks require %s",
                                                ls_class_name(allowed));
        }
        if (fails[i]) {
            ls_comparison_stop(&run->comparison, i, run->oracle);
            *any = true;
        }
    }
    return fails;
}

// The effect of injected defects on the outputs, if no check found them.
static const char *harm_of(ls_case_run *run) {
    ls_comparison changes = {.arena = run->arena, .main = LS_JUDGE_REAL};
    const ls_expectation nothing = {0};
    uint64_t differing = 0;
    if (run->missed != NULL) {
        run->result.unnoticed = LS_UNNOTICED_MISSED;
        return run->missed;
    }
    if (ls_compare_runs(&changes, run->clean, run->simulated, &nothing, "clean", "injected") !=
        LS_OK) {
        return NULL;
    }
    for (int i = 0; i < changes.stage_count; i++) {
        differing += changes.stages[i].differing;
    }
    run->result.unnoticed = differing == 0 ? LS_UNNOTICED_HARMLESS : LS_UNNOTICED_ROUNDING;
    return differing == 0
               ? "the injected defect changes no bit of any output, and no check notices it"
               : ls_arena_printf(run->arena,
                                 "the injected defect changes %llu elements of the outputs, all "
                                 "within rounding, and no check notices it",
                                 (unsigned long long)differing);
}

// A scenario of a known bug passes if and only if the bug is found. *why: the difference.
static bool decide(const char **why, ls_case_run *run) {
    const ls_scenario_expect *expect = &run->scenario->expect;
    ls_case_result *result = &run->result;
    bool failing = false, injected = ls_scenario_injects(run->scenario) && run->clean != NULL;
    const bool *fails = find_failing(&failing, run);
    if (result->class_ == LS_CLASS_ERROR || fails == NULL) {
        return false;
    }
    if (run->record_only) {  // the finding replaces a recording
        return result->finding_count == 0;
    }
    if (expect->has_finding) {
        *why = ls_case__values_stand(run) ? run->missed : NULL;
        return *why == NULL && !failing && ls_expect_finding(why, result, expect, run->arena);
    }
    if (expect->has_class) {
        *why = "a check found a defect, which was not expected";
        return result->finding_count == 0 &&
               ls_expect_divergence(why, &run->comparison, fails, expect, run->oracle, run->arena);
    }
    if (result->finding_count > 0 || failing) {
        *why = expect->unnoticed ? "the injected defect was expected to go unnoticed" : NULL;
        return false;
    }
    if (injected && (run->missed != NULL || !expect->unnoticed)) {
        *why = harm_of(run);
        return false;
    }
    return true;
}

// A stage whose bounds prove nothing: of another run's values, or if no other stage proves
// anything. NULL: none.
static const ls_stage_result *unproven_stage(const ls_case_run *run) {
    bool all = run->result.class_ == LS_CLASS_UNJUDGED;
    for (int i = 0; i < run->comparison.stage_count; i++) {
        const ls_stage_result *stage = &run->comparison.stages[i];
        if ((all || stage->judge != LS_JUDGE_ORACLE) && stage->vacuous > 0 &&
            stage->class_ == LS_CLASS_UNJUDGED) {
            return stage;
        }
    }
    return NULL;
}

// A pass that proves nothing is skipped.
static void skip_unproven(ls_case_run *run) {
    ls_case_result *result = &run->result;
    const ls_stage_result *unproven = unproven_stage(run);
    if (!result->pass || run->record_only || result->finding_count > 0) {
        return;  // the expected finding proves something
    }
    if (result->real != NULL && run->scenario->checks.real_off) {
        result->skipped = true;
        result->skip_reason = "nothing was compared with the real run: checks say real: off";
    }
    if (unproven != NULL) {
        result->skipped = true;
        result->skip_reason = ls_arena_printf(
            run->arena,
            "unjudged: %llu of %llu elements of %s differ within bounds too wide to prove "
            "anything; compare in a wider type, or name the order of the sums",
            (unsigned long long)unproven->vacuous,
            (unsigned long long)(unproven->elements + unproven->unjudged), unproven->name);
    }
    ls_case_result_skip_unjudged(result);
}

void ls_case__decide(ls_case_run *run) {
    ls_case_result *result = &run->result;
    const char *why = NULL;
    if (run->unjudged != NULL && result->finding_count == 0 && result->class_ != LS_CLASS_ERROR) {
        result->skipped = true;
        result->skip_reason = run->unjudged;
        return;
    }
    ls_comparison_settle(&run->comparison);
    ls_class class_ = ls_comparison_class(&run->comparison);
    result->class_ = class_ > result->class_ ? class_ : result->class_;
    result->pass = decide(&why, run);
    result->stages = run->comparison.stages;
    result->stage_count = run->comparison.stage_count;
    if (!result->pass && result->error == NULL) {
        result->error = why;
    }
    skip_unproven(run);
}
