// Checks the meaning of a scenario's checks, faults and expectations.
#include <stdio.h>
#include <string.h>

#include "runner/scenario/read.h"
#include "runner/scenario/stage_names.h"

#define CUT_NAMES_MAX 64  // limit on names for "did you mean"

static void check_table_name(ls_reader *reader, const ls_scenario *scenario, const ls_node *node,
                             const char *name) {
    if (name == NULL) {
        return;
    }
    const char *words[CUT_NAMES_MAX];
    size_t kept = 0;
    for (int i = 0; i < scenario->table_count; i++) {
        const char *table = scenario->tables[i].name == NULL ? "" : scenario->tables[i].name;
        if (strcmp(table, name) == 0) {
            return;
        }
        if (kept < CUT_NAMES_MAX) {
            words[kept++] = table;
        }
    }
    ls_check__error(reader, ls_node_mark(node, "table"), NULL, ls_nearest(name, words, kept),
                    "there is no table %.60s", name);
}

const char *ls_scenario_start_stage(const ls_scenario *scenario) {
    for (int k = 0; k < scenario->step_count; k++) {
        const char *name = scenario->steps[k].name;
        if (name != NULL && strcmp(name, "tensors") == 0) {
            return "the tensors";
        }
    }
    return "tensors";
}

static bool is_table_stage(const ls_scenario *scenario, const char *name) {
    static const ls_tables_step steps[] = {
#define STAGE(name, text, step) [LS_STAGE_##name] = LS_TABLES_##step,
        LS_STAGE_MAP(STAGE)
#undef STAGE
    };
    ls_stage stage;
    int step;
    return ls_scenario_stage_find(&stage, &step, scenario, name) &&
           ls_scenario_runs(scenario, steps[stage]);
}

// An unused key of an expectation would seem to be checked.
static void check_expected_keys(ls_reader *reader, const ls_scenario_expect *expect) {
    static const struct {
        const char *key;
        bool finding, cls;  // whether the key applies to a finding, to a class
    } keys[] = {{"ranks", true, false},   {"where", true, false}, {"also", true, false},
                {"contains", true, true}, {"table", false, true}, {"feature", false, true},
                {"sample", false, true},  {"stages", false, true}};
    bool finding = ls_node_has(&expect->node, "finding"), cls = ls_node_has(&expect->node, "class");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool fits = (keys[i].finding && finding) || (keys[i].cls && cls);
        if (ls_node_has(&expect->node, keys[i].key) && !fits) {
            const char *to = cls ? "a class" : "what goes unnoticed";
            if (finding) {
                to = "a finding";
            }
            ls_check__error(reader, ls_node_mark(&expect->node, keys[i].key), NULL, NULL,
                            "expect: %s does not apply to %s", keys[i].key, to);
        }
    }
}

static bool is_stage(const ls_scenario *scenario, const char *name) {
    bool known = scenario->is_program ? strcmp(name, ls_scenario_start_stage(scenario)) == 0
                                      : is_table_stage(scenario, name);
    for (int k = 0; k < scenario->step_count && !known; k++) {
        const char *step = scenario->steps[k].name;
        known = step != NULL && strcmp(name, step) == 0;
    }
    return known;
}

// Names in `expect:` must exist: findings, stages.
static void check_expected_names(ls_reader *reader, const ls_scenario *scenario) {
    const ls_scenario_expect *expect = &scenario->expect;
    for (int i = 0; i < expect->stages.count; i++) {
        if (!is_stage(scenario, expect->stages.at[i])) {
            ls_check__error(reader, expect->stages.marks[i], "the name of a stage", NULL,
                            "stages: the scenario has no stage %s", expect->stages.at[i]);
        }
    }
}

// Faults of training are checked at the step, and need an operation that they can affect.
static void check_training_fault(ls_reader *reader, const ls_scenario *scenario,
                                 const ls_scenario_fault *fault) {
    bool stale = fault->type == LS_FAULT_STALE_ROWS, has_norm = false;
    bool updates = fault->type == LS_FAULT_OTHER_STATE;
    for (int i = 0; i < scenario->table_count; i++) {
        has_norm = has_norm || scenario->tables[i].max_norm > 0;
    }
    if (ls_node_has(&fault->node, "call")) {
        ls_check__error(reader, ls_node_mark(&fault->node, "call"), "index: 0 for the first", NULL,
                        "call: a fault of training is selected by its step, the index");
    }
    if (fault->index >= scenario->train.steps) {
        ls_check__error(reader, ls_node_mark(&fault->node, "index"), NULL, NULL,
                        "index: there are %d training steps", scenario->train.steps);
    }
    ls_tables_step step = updates ? LS_TABLES_UPDATE : LS_TABLES_BACKWARD;
    if (stale ? !has_norm : !ls_scenario_runs(scenario, step)) {
        ls_check__error(reader, ls_node_mark(&fault->node, "type"), NULL, NULL,
                        stale ? "fault: no table has a max_norm" : "fault: the steps do not train");
    }
}

// A key without effect on the fault's type would inject another fault than intended.
static void check_fault(ls_reader *reader, const ls_scenario *scenario,
                        const ls_scenario_fault *fault) {
    bool counts = fault->type == LS_FAULT_WRONG_COUNT || fault->type == LS_FAULT_WRONG_SPLIT;
    bool allocation = fault->type == LS_FAULT_ALLOCATION;
    bool training = ls_fault_of_training(fault->type);
    bool indexed = counts || allocation || training || fault->type == LS_FAULT_BIT_FLIP;
    ls_mark mark = ls_node_mark(&fault->node, "index");
    if (!ls_node_has(&fault->node, "type")) {
        return;
    }
    if (ls_node_has(&fault->node, "index") && !indexed) {
        ls_check__error(reader, mark, NULL, NULL,
                        "index: it has no meaning in a fault of this type");
    } else if (fault->index < 0 && !counts) {
        ls_check__error(reader, mark, NULL, NULL,
                        "index: only a wrong count may be smaller than the right one");
    } else if (allocation && fault->index == 0) {
        ls_check__error(reader, mark, "index: 1 for the first", NULL,
                        "index: missing, so no allocation is selected");
    }
    if (ls_node_has(&fault->node, "call") && allocation) {
        ls_check__error(reader, ls_node_mark(&fault->node, "call"), "index: 1 for the first", NULL,
                        "call: an allocation is selected by its index, not by a call");
    }
    if (training) {
        check_training_fault(reader, scenario, fault);
    }
}

void ls_scenario__check_ends(ls_reader *reader, const ls_scenario *scenario) {
    for (int i = 0; i < scenario->checks.reference_count && ls_read__going(reader); i++) {
        const ls_scenario_reference *reference = &scenario->checks.references[i];
        check_table_name(reader, scenario, &reference->node, reference->table);
        if (reference->stage != NULL && !is_stage(scenario, reference->stage)) {
            ls_check__error(reader, ls_node_mark(&reference->node, "stage"), "the name of a stage",
                            NULL, "reference: the scenario has no stage %s", reference->stage);
        }
    }
    for (int i = 0; i < scenario->fault_count && ls_read__going(reader); i++) {
        const ls_scenario_fault *fault = &scenario->faults[i];
        check_fault(reader, scenario, fault);
        if (scenario->ranks > 0 && fault->rank >= scenario->ranks) {
            ls_check__error(reader, ls_node_mark(&fault->node, "rank"), NULL, NULL,
                            "fault: rank %d is not in the world of %d ranks", fault->rank,
                            scenario->ranks);
        }
    }
    const ls_scenario_expect *expect = &scenario->expect;
    if (expect->node.mark.line > 0) {
        check_expected_names(reader, scenario);
        ls_check__ranks(reader, scenario, &expect->ranks, "expect");
        check_table_name(reader, scenario, &expect->node, expect->table);
        int ways = ls_node_has(&expect->node, "finding") + ls_node_has(&expect->node, "class") +
                   expect->unnoticed;
        if (ways != 1) {
            ls_check__error(reader, expect->node.mark,
                            "finding: ..., class: wrong, or unnoticed: true", NULL, "expect: %s",
                            ways == 0 ? "neither a finding nor a class" : "more than one outcome");
        } else {
            check_expected_keys(reader, expect);
        }
        if (expect->unnoticed && !ls_scenario_injects(scenario)) {
            ls_check__error(reader, ls_node_mark(&expect->node, "unnoticed"), NULL, NULL,
                            "expect: no injected defect could go unnoticed");
        }
    }
}
