// Stage results under construction, and the debugger hooks for the worst of them.
#include <string.h>

#include "runner/compare/compare.h"
#include "runner/hooks.h"

ls_stage_result *ls_comparison__stage(ls_comparison *comparison, ls_judge judge, int reference,
                                      const char *stage) {
    for (int i = 0; i < comparison->stage_count; i++) {
        ls_stage_result *known = &comparison->stages[i];
        if (known->judge == judge && known->reference == reference &&
            strcmp(known->stage, stage) == 0) {
            return known;
        }
    }
    if (comparison->stage_count == comparison->stage_capacity) {
        int capacity = comparison->stage_capacity != 0 ? comparison->stage_capacity * 2 : 8;
        ls_stage_result *stages =
            ls_arena_alloc(comparison->arena, (size_t)capacity, sizeof *stages);
        ls_divergence_place *places =
            ls_arena_alloc(comparison->arena, (size_t)capacity, sizeof *places);
        if (stages == NULL || places == NULL) {
            return NULL;
        }
        if (comparison->stage_count > 0) {
            memcpy(stages, comparison->stages, (size_t)comparison->stage_count * sizeof *stages);
            memcpy(places, comparison->places, (size_t)comparison->stage_count * sizeof *places);
        }
        comparison->stages = stages;
        comparison->places = places;
        comparison->stage_capacity = capacity;
    }
    bool plain = judge == comparison->main;
    const char *own = ls_arena_strdup(comparison->arena, stage);
    const char *name =
        plain ? own : ls_arena_printf(comparison->arena, "%s:%s", ls_judge_name(judge), stage);
    if (own == NULL || name == NULL) {
        return NULL;
    }
    ls_stage_result *result = &comparison->stages[comparison->stage_count];
    comparison->stage_count += 1;
    *result = (ls_stage_result){.name = name,
                                .stage = own,
                                .judge = judge,
                                .reference = reference,
                                .class_ = LS_CLASS_UNJUDGED};
    return result;
}

ls_class ls_comparison_class(const ls_comparison *comparison) {
    ls_class class_ = LS_CLASS_UNJUDGED;
    for (int i = 0; i < comparison->stage_count; i++) {
        ls_class stage = comparison->stages[i].class_;
        class_ = stage > class_ ? stage : class_;
    }
    return class_;
}

void ls_comparison_settle(ls_comparison *comparison) {
    for (int i = 0; i < comparison->stage_count; i++) {
        ls_stage_result *stage = &comparison->stages[i];
        bool most = stage->judge != LS_JUDGE_ORACLE || stage->vacuous >= stage->elements;
        if (stage->vacuous > 0 && most && stage->class_ <= LS_CLASS_WITHIN_BOUND) {
            stage->class_ = LS_CLASS_UNJUDGED;
        }
        if (comparison->proves && stage->class_ == LS_CLASS_BIT_EXACT) {
            stage->class_ = LS_CLASS_PROVED;
        }
    }
}

bool ls_stage_wants_order(const ls_stage_result *stage) {
    return stage->class_ > LS_CLASS_BIT_EXACT || stage->vacuous > 0;
}

// ---- Where it went wrong ------------------------------------------------------------------------
static bool same_name(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

void ls_comparison__place(ls_comparison *comparison, const ls_stage_result *stage,
                          const ls_divergence_place *place) {
    LS_ASSERT(stage >= comparison->stages && place->key != NULL);
    ls_divergence_place *noted = &comparison->places[stage - comparison->stages];
    if (place->class_ > noted->class_) {
        *noted = *place;
    } else if (place->class_ == noted->class_) {
        noted->tables = noted->tables || !same_name(place->table, noted->table);
        noted->features = noted->features || !same_name(place->feature, noted->feature);
    }
}

void ls_comparison_stop(const ls_comparison *comparison, int index,
                        const ls_scenario_oracle *oracle) {
    LS_ASSERT(index >= 0 && index < comparison->stage_count);
    const ls_divergence_place *place = &comparison->places[index];
    if (place->class_ <= LS_CLASS_BIT_EXACT) {
        return;
    }
    const ls_stage_result *stage = &comparison->stages[index];
    ls_gdb_divergence divergence = {
        .stage = stage->name,
        .key = place->key,
        .rank = place->rank,
        .dtype = place->dtype,
        .element = place->element,
        .count = place->count,
        .ours = place->ours,
        .theirs = place->theirs,
        .their_dtype = place->dtype,
        .class_name = ls_class_name(place->class_),
        .text = stage->divergence != NULL ? stage->divergence : "",
    };
    ls_expected expected = {0};
    if (place->theirs == NULL && place->entry != NULL && oracle != NULL) {
        ls_stage_output output = ls_stage_entry_output(place->entry, place->rank);
        const ls_oracle *of_step = ls_execute_oracle_of(oracle, &output);
        if (ls_oracle_expect(of_step, &output, &expected) == LS_OK &&
            expected.count == place->count) {
            divergence.theirs = expected.values != NULL ? (void *)expected.values : expected.ints;
            divergence.their_dtype = expected.values != NULL ? LS_F64 : LS_I64;
        }
    }
    ls_hooks__before_stop();
    ls_gdb_hook_divergence(&divergence);
    ls_expected_free(&expected);
}
