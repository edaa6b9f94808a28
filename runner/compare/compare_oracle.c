// Compares stage outputs with the oracle of their step; and functions that compare.c shares.
#include <string.h>

#include "runner/compare/compare.h"

#include "runner/compare/reason.h"
#include "runner/scenario/stage_names.h"

static ls_class worse(ls_class a, ls_class b) {
    return a > b ? a : b;
}

bool ls_comparison__explains(const ls_stage_result *stage) {
    return stage->divergence == NULL || stage->class_ < LS_CLASS_WRONG;
}

// Records a wrong output of a stage; the first one's explanation is kept. Frees the text.
void ls_comparison__note_wrong(ls_comparison *comparison, ls_stage_result *stage, ls_text *text) {
    if (ls_comparison__explains(stage)) {
        stage->divergence = ls_result_text(comparison->arena, text);
    }
    ls_text_free(text);
    stage->class_ = worse(stage->class_, LS_CLASS_WRONG);
}

// Records an output that one side lacks; of: its stage, table, feature, field and rank.
int ls_comparison__note_absent(ls_comparison *comparison, ls_stage_result *stage,
                               const ls_stage_output *of, ls_text *text) {
    char key[LS_STAGE_KEY_MAX];
    ls_comparison__note_wrong(comparison, stage, text);
    LS_TRY(ls_stage_key(key, sizeof key, of));
    ls_divergence_place place = {
        .class_ = LS_CLASS_WRONG,
        .key = ls_arena_strdup(comparison->arena, key),
        .table = of->table != NULL ? ls_arena_strdup(comparison->arena, of->table) : NULL,
        .feature = of->feature != NULL ? ls_arena_strdup(comparison->arena, of->feature) : NULL,
        .rank = of->rank,
    };
    LS_TRY_MEMORY(place.key != NULL);
    ls_comparison__place(comparison, stage, &place);
    return LS_OK;
}

// ---- Against the oracle -------------------------------------------------------------------------
static int due_of(double **out, ls_arena *arena, const void *arg, const ls_stage_entry *entry,
                  int rank) {
    ls_stage_output output = ls_stage_entry_output(entry, rank);
    const ls_oracle *oracle = ls_execute_oracle_of(arg, &output);
    ls_expected expected;
    LS_TRY(ls_oracle_expect(oracle, &output, &expected));
    *out = NULL;
    if (expected.count == entry->ranks[rank].count) {
        *out = ls_reason_widened(
            arena, expected.ints != NULL ? (void *)expected.ints : (void *)expected.values,
            expected.ints != NULL ? LS_I64 : LS_F64, expected.count);
    }
    ls_expected_free(&expected);
    return LS_OK;
}

static int judge_output(ls_comparison *comparison, ls_stage_result *stage, const ls_stages *run,
                        const ls_stage_entry *entry, int rank, const ls_scenario_oracle *oracle) {
    const ls_stage_output of_rank = ls_stage_entry_output(entry, rank), *output = &of_rank;
    ls_stage_output of_step = of_rank;
    const ls_oracle *judge = ls_execute_oracle_of(oracle, &of_step);
    ls_judgement judgement;
    int status = ls_oracle_judge(judge, &of_step, &judgement);
    ls_text text = {0};
    if (of_step.stage != entry->stage && ls_execute_oracle_steps(oracle) > 1) {
        ls_text_printf(&text, "step %d: ", of_step.step_of_tables);
    }
    if (status == LS_ERR_NOT_FOUND) {
        ls_text_puts(&text, ls_error_last()->text);
        return ls_comparison__note_absent(comparison, stage, output, &text);
    }
    LS_TRY(status);
    ls_stage_result_compared(stage, judgement.elements - judgement.unknown);
    stage->unjudged += judgement.unknown;
    stage->vacuous += judgement.vacuous;
    stage->differing += judgement.differing;
    ls_stage_result_distance(stage, entry->dtype, judgement.max_ulps);
    if (judgement.bound_ratio > stage->bound_ratio) {
        stage->bound_ratio = judgement.bound_ratio;
    }
    ls_divergence_place place = {
        .key = entry->key,
        .table = entry->table,
        .feature = entry->feature,
        .entry = entry,
        .dtype = entry->dtype,
        .rank = output->rank,
        .element = judgement.first_differing,
        .count = entry->ranks[output->rank].count,
        .ours = output->data,
    };
    if (judgement.wrong > 0) {
        ls_text_puts(&text, judgement.text);
        if (ls_comparison__explains(stage) && judgement.first_wrong < judgement.elements) {
            (void)ls_reason_tell(&text, &(ls_reason_output){.stages = run,
                                                            .entry = entry,
                                                            .rank = rank,
                                                            .due = due_of,
                                                            .arg = oracle,
                                                            .got = output->data,
                                                            .of = "expected"});
        }
        ls_comparison__note_wrong(comparison, stage, &text);
        place.class_ = LS_CLASS_WRONG;
        place.element = judgement.first_wrong;
    } else if (judgement.by_design > 0) {
        if (stage->class_ < LS_CLASS_BY_DESIGN) {
            ls_text_puts(&text, judgement.text);
            stage->class_ = LS_CLASS_BY_DESIGN;
            stage->divergence = ls_result_text(comparison->arena, &text);
            stage->design = ls_arena_strdup(comparison->arena, judgement.text + judgement.why);
        }
        place.class_ = LS_CLASS_BY_DESIGN;
        place.element = judgement.first_by_design;
    } else if (judgement.differing > 0) {
        stage->class_ = worse(stage->class_, LS_CLASS_WITHIN_BOUND);
        place.class_ = LS_CLASS_WITHIN_BOUND;
    }
    ls_text_free(&text);
    ls_comparison__place(comparison, stage, &place);
    return LS_OK;
}

// Outputs that the oracle knows and the run did not give.
static int note_missing(ls_comparison *comparison, const ls_stages *run,
                        const ls_scenario_oracle *oracles, int step) {
    const ls_oracle *oracle = ls_execute_oracle_step(oracles, step);
    size_t count = ls_oracle_output_count(oracle);
    for (size_t i = 0; i < count; i++) {
        ls_stage_output output;
        LS_TRY(ls_oracle_output(oracle, i, &output));
        char key[LS_STAGE_KEY_MAX], name[LS_STAGE_KEY_MAX];
        ls_scenario_stage_name(name, sizeof name, ls_execute_oracle_scenario(oracles), step,
                               output.stage);
        output.stage = name;
        LS_TRY(ls_stage_key(key, sizeof key, &output));
        const ls_stage_entry *entry = ls_stages_find(run, key);
        if (entry != NULL && entry->ranks[output.rank].present) {
            continue;
        }
        ls_stage_result *stage = ls_comparison__stage(comparison, LS_JUDGE_ORACLE, 0, output.stage);
        LS_TRY_MEMORY(stage != NULL);
        ls_text text = {0};
        ls_text_printf(&text, "rank %d has no output %s", output.rank, key);
        LS_TRY(ls_comparison__note_absent(comparison, stage, &output, &text));
    }
    return LS_OK;
}

int ls_comparison__oracle(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario_oracle *oracle) {
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        ls_stage_result *stage = ls_comparison__stage(comparison, LS_JUDGE_ORACLE, 0, entry->stage);
        LS_TRY_MEMORY(stage != NULL);
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            if (entry->ranks[rank].present) {
                LS_TRY(judge_output(comparison, stage, run, entry, rank, oracle));
            }
        }
    }
    for (int step = 0; step < ls_execute_oracle_steps(oracle); step++) {
        LS_TRY(note_missing(comparison, run, oracle, step));
    }
    return LS_OK;
}
