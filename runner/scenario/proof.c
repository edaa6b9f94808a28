// See proof.h. Operations that compare values or round them to fewer bits have no counterpart in a
// field.
#include "runner/scenario/proof.h"

#include "runner/steps/step.h"

static const char *refuse(ls_arena *arena, const char *what, const char *name, const char *why) {
    const char *text = ls_arena_printf(arena, "unjudged: %s %s %s", what, name, why);
    return text != NULL ? text : "unjudged: out of memory";
}

static void replace(ls_dtype *dtype) {
    *dtype = ls_dtype_is_float(*dtype) ? LS_FIELD : *dtype;
}

// Replaces types; returns the reason why a field lacks the step, NULL: it has it.
static const char *step_missing(ls_scenario_step *step) {
    const ls_step_type *type = step->type;
    for (int i = 0; i < step->except_count; i++) {
        if (ls_node_has(&step->excepts[i].node, "dtype") || step->excepts[i].poke != 0) {
            return "has an exception about types or special values, which a field lacks";
        }
    }
    if (type->form == LS_STEP_OF_CALLS) {
        replace(&step->call.dtype);
        return ls_op_supports(step->call.op, step->call.dtype)
                   ? NULL
                   : "takes a maximum or minimum, and a field has no order";
    }
    return type->to_field != NULL ? type->to_field(step) : NULL;
}

static const char *program_missing(ls_scenario *scenario, ls_arena *arena) {
    for (int i = 0; i < scenario->tensor_count; i++) {
        ls_scenario_tensor *tensor = &scenario->tensors[i];
        if (ls_dtype_is_float(tensor->dtype) && tensor->has_placements &&
            ls_placements__extreme(&tensor->placements)) {
            return refuse(arena, "tensor", tensor->name,
                          "is a partial maximum or minimum, and a field has no order");
        }
        replace(&tensor->dtype);
    }
    for (int i = 0; i < scenario->step_count; i++) {
        const char *why = step_missing(&scenario->steps[i]);
        if (why != NULL) {
            return refuse(arena, "step", scenario->steps[i].name, why);
        }
    }
    return NULL;
}

// The values of a table's outputs are of its own type: casts are the identity.
static const char *table_missing(ls_scenario_table *table, const ls_optimizer *optimizer) {
    if (table->quantise.node.mark.line != 0) {
        return "keeps quantised rows, which loses bits";
    }
    if (table->pooling == LS_POOL_MAX) {
        return "is pooled by max, and a field has no order";
    }
    if (table->max_norm > 0) {
        return "has a max_norm, which compares a norm, and a field has no order";
    }
    if (optimizer != NULL && optimizer->stochastic_rounding) {
        return "rounds stochastically, and a field has no rounding";
    }
    table->dtype = LS_FIELD;
    table->has_output_dtype = false;
    return NULL;
}

const char *ls_scenario_prove(ls_scenario *scenario, int draw, ls_arena *arena) {
    LS_ASSERT(scenario != NULL && draw > 0);
    scenario->draw = draw;
    scenario->order = NULL;  // sums have none
    scenario->checks.oracle_off = false;
    scenario->checks.oracle = LS_CLASS_BY_DESIGN;
    const ls_scenario_expect *expect = &scenario->expect;
    if (expect->has_class && scenario->checks.reference_count > 0) {
        return "unjudged: the expected difference is from a file of floats";
    }
    if (expect->has_finding && (expect->finding == LS_FINDING_VALUE_NAN_FIRST ||
                                expect->finding == LS_FINDING_VALUE_INF_FIRST)) {
        return "unjudged: the expected finding needs a special value, which a field lacks";
    }
    for (int t = 0; t < scenario->table_count; t++) {
        const ls_optimizer *optimizer = ls_scenario_optimizer_of(scenario, t);
        const char *why = table_missing(&scenario->tables[t], optimizer);
        if (why != NULL) {
            return refuse(arena, "table", scenario->tables[t].name, why);
        }
    }
    if (scenario->checkpoint != NULL || scenario->train.clip_norm > 0) {
        return scenario->checkpoint != NULL
                   ? "unjudged: the checkpoint's numbers are floats, which lockstep cannot replace"
                   : "unjudged: clip_norm compares a norm, and a field has no order";
    }
    return program_missing(scenario, arena);
}
