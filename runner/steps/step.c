// Properties of a step that follow from its kind's descriptor.
#include "runner/steps/step.h"

const char *ls_step_kind_name(const ls_scenario_step *step) {
    return ls_step_is_collective(step->kind) ? ls_kind_name((ls_kind)step->kind)
                                             : step->type->record.name;
}

bool ls_step_is_collective(ls_step_kind kind) {
    return (int)kind < (int)LS_COLLECTIVE_COUNT;
}

ls_kind ls_step_call_kind(ls_step_kind kind) {
    return ls_step_is_collective(kind) ? (ls_kind)kind : LS_SEND;
}

bool ls_step_on_buffers(const ls_scenario_step *step) {
    return step->type->form == LS_STEP_OF_CALLS && step->tensor == NULL;
}

bool ls_step_on_tensors(const ls_scenario_step *step) {
    return step->type->form == LS_STEP_OF_TENSORS || step->tensor != NULL;
}

const ls_int_list *ls_step_ranks(const ls_scenario_step *step) {
    static const ls_int_list none = {.count = 0};
    ls_step_form form = step->type->form;
    if (form == LS_STEP_OF_CALLS) {
        return &step->call.ranks;
    }
    return form == LS_STEP_OF_EARLIER ? &step->earlier.ranks : &none;
}

bool ls_step_operand_of(ls_step_operand *out, const ls_scenario_step *step, int index) {
    const ls_step_type *type = step->type;
    if (type->operand != NULL) {
        return type->operand(out, step, index);
    }
    if (index > 0 || !ls_step_takes(step, "tensor")) {
        return false;
    }
    *out = (ls_step_operand){step->tensor, ls_node_mark(&step->node, "tensor")};
    return true;
}

bool ls_step_takes(const ls_scenario_step *step, const char *key) {
    return ls_schema_find(step->node.record, key) >= 0;
}

bool ls_step_has(const ls_scenario_step *step, const char *key) {
    return ls_step_takes(step, key) && ls_node_has(&step->node, key);
}

const char *ls_step__compares(ls_scenario_step *step) {
    (void)step;
    return "compares values, and a field has no order";
}

bool ls_placements__extreme(const ls_placements *placements) {
    bool found = false;
    for (int d = 0; d < placements->count; d++) {
        const ls_placement *at = &placements->at[d];
        found = found || (at->kind == LS_PLACE_PARTIAL && (at->op == LS_MAX || at->op == LS_MIN));
    }
    return found;
}

const char *ls_step__places(ls_scenario_step *step) {
    return ls_placements__extreme(&step->to.placements) ? ls_step__compares(step) : NULL;
}
