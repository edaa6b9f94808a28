// Checks the exceptions of a program's ranks (`except:`): each field must change the step or the
// call that replaces it. A field without effect would inject nothing, and a test could pass because
// of that.
#include <inttypes.h>

#include "collectives/collectives.h"
#include "runner/scenario/read.h"
#include "runner/steps/step.h"

static const struct {
    const char *key;
    unsigned field;
} keys[] = {
    {"skip", LS_EXCEPT_SKIP},           {"repeat", LS_EXCEPT_REPEAT},   {"call", LS_EXCEPT_CALL},
    {"count", LS_EXCEPT_COUNT},         {"dtype", LS_EXCEPT_DTYPE},     {"op", LS_EXCEPT_OP},
    {"root", LS_EXCEPT_ROOT},           {"counts", LS_EXCEPT_COUNTS},   {"exit", LS_EXCEPT_EXIT},
    {"swap", LS_EXCEPT_SWAP},           {"reverse", LS_EXCEPT_REVERSE}, {"group", LS_EXCEPT_GROUP},
    {"room", LS_EXCEPT_ROOM},           {"overlap", LS_EXCEPT_OVERLAP}, {"poke", LS_EXCEPT_POKE},
    {"unwritten", LS_EXCEPT_UNWRITTEN},
};
#define KEY_COUNT (sizeof keys / sizeof *keys)

// The parts of an exception that apply to a call of this kind.
static unsigned of_kind(ls_kind kind) {
    const ls_collective *collective = ls_collective_of(kind);
    bool both = collective->send.form != LS_SIDE_NONE && collective->recv.form != LS_SIDE_NONE;
    return (ls_collective_has_data(collective) ? LS_EXCEPT_COUNT | LS_EXCEPT_DTYPE | LS_EXCEPT_SENT
                                               : 0u) |
           (collective->reduces ? LS_EXCEPT_OP : 0u) |
           (collective->root_word != NULL ? LS_EXCEPT_ROOT : 0u) |
           (ls_collective_has_counts(collective) ? LS_EXCEPT_COUNTS : 0u) |
           (both ? LS_EXCEPT_OVERLAP : 0u);
}

// Steps on tensors make their calls internally, on internal memory.
static unsigned honoured(const ls_scenario_step *step, const ls_scenario_except *except) {
    const unsigned always = LS_EXCEPT_EXIT | LS_EXCEPT_SWAP;
    const unsigned own = always | step->type->excepts;
    bool collective = ls_step_is_collective(step->kind);
    unsigned of_call = collective ? of_kind(ls_step_call_kind(step->kind)) : 0;
    if (ls_step_on_tensors(step)) {
        return always | LS_EXCEPT_SKIP | LS_EXCEPT_REPEAT |
               (collective ? of_call & (LS_EXCEPT_OP | LS_EXCEPT_ROOT) : own);
    }
    if (!collective) {
        return own;
    }
    return own | (ls_step_ranks(step)->count > 0 ? LS_EXCEPT_GROUP : 0) |
           (ls_node_has(&except->node, "call") ? of_kind(except->kind) : of_call);
}

static unsigned given(const ls_scenario_except *except) {
    unsigned fields = 0;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        bool off = (keys[i].field == LS_EXCEPT_SKIP && !except->skip) ||
                   (keys[i].field == LS_EXCEPT_REPEAT && !except->repeat) ||
                   (keys[i].field == LS_EXCEPT_EXIT && !except->exit) ||
                   (keys[i].field == LS_EXCEPT_SWAP && !except->swap) ||
                   (keys[i].field == LS_EXCEPT_REVERSE && !except->reverse) ||
                   (keys[i].field == LS_EXCEPT_UNWRITTEN && !except->unwritten);
        fields |= ls_node_has(&except->node, keys[i].key) && !off ? keys[i].field : 0;
    }
    return fields;
}

static void refuse(ls_reader *reader, const ls_scenario_step *step,
                   const ls_scenario_except *except, unsigned fields, const char *why) {
    for (size_t i = 0; i < KEY_COUNT && ls_read__going(reader); i++) {
        if ((fields & keys[i].field) != 0) {
            ls_check__error(reader, ls_node_mark(&except->node, keys[i].key), NULL, NULL,
                            "except: %s changes nothing in %s%s", keys[i].key,
                            ls_step_kind_name(step), why);
        }
    }
}

// Ranks that the exception never reaches: outside of the group, or covered by an earlier exception.
static void check_reached(ls_reader *reader, const ls_scenario_step *step, int index,
                          unsigned fields) {
    const ls_scenario_except *except = &step->excepts[index];
    bool members_only = (fields & (LS_EXCEPT_EXIT | LS_EXCEPT_SWAP | LS_EXCEPT_GROUP)) == 0 &&
                        ls_step_ranks(step)->count > 0;
    for (int i = 0; i < except->ranks.count && ls_read__going(reader); i++) {
        int64_t rank = except->ranks.at[i];
        ls_mark mark = ls_check__element(&except->ranks, i);
        if (members_only && ls_int_list_find(ls_step_ranks(step), rank) < 0) {
            ls_check__error(reader, mark, NULL, NULL,
                            "except: rank %" PRId64 " takes no part in this step", rank);
        }
        for (int k = 0; k < index; k++) {
            if (ls_int_list_find(&step->excepts[k].ranks, rank) >= 0) {
                ls_check__error(reader, mark, NULL, NULL,
                                "except: rank %" PRId64 " is excepted above already", rank);
                break;
            }
        }
    }
}

void ls_check__except(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step,
                      int index) {
    const ls_scenario_except *except = &step->excepts[index];
    unsigned fields = given(except);
    unsigned idle = fields & ~honoured(step, except);
    const char *why = " on a tensor";
    if (!ls_step_on_tensors(step)) {
        why = (idle & LS_EXCEPT_GROUP) != 0 && ls_step_on_buffers(step) ? " without ranks" : "";
    }
    refuse(reader, step, except, idle, why);
    if (fields == 0) {
        ls_check__error(reader, except->node.mark, "skip: true, for example", NULL,
                        "except: it gives no difference for these ranks");
    }
    unsigned ends = (fields & LS_EXCEPT_EXIT) != 0 ? LS_EXCEPT_EXIT : fields & LS_EXCEPT_SKIP;
    if (ends != 0) {
        refuse(reader, step, except, fields & ~idle & ~(ends | LS_EXCEPT_SWAP),
               ends == LS_EXCEPT_EXIT ? ", where their program ends" : ", which they skip");
    }
    if ((fields & LS_EXCEPT_EXIT) != 0 && (fields & LS_EXCEPT_SWAP) != 0) {
        refuse(reader, step, except, LS_EXCEPT_SWAP, ", where their program ends");
    }
    if ((fields & LS_EXCEPT_SWAP) != 0 && step == &scenario->steps[scenario->step_count - 1]) {
        refuse(reader, step, except, LS_EXCEPT_SWAP, ", the last step");
    }
    fields &= ~idle;
    if (!ls_step_on_buffers(step)) {
        check_reached(reader, step, index, fields);
        return;
    }
    const ls_step_call *call = &step->call;
    bool own_counts =
        call->counts.count > 0 || call->splits.count > 0 || (fields & LS_EXCEPT_COUNTS) != 0;
    ls_kind kind = (fields & LS_EXCEPT_CALL) != 0 ? except->kind : ls_step_call_kind(step->kind);
    if ((fields & LS_EXCEPT_COUNT) != 0 && own_counts &&
        ((fields & LS_EXCEPT_COUNTS) == 0 || !ls_collective_has_splits(ls_collective_of(kind)))) {
        refuse(reader, step, except, LS_EXCEPT_COUNT, " beside counts or splits");
    }
    ls_dtype dtype = (fields & LS_EXCEPT_DTYPE) != 0 ? except->dtype : call->dtype;
    if ((fields & LS_EXCEPT_POKE) != 0 && !ls_dtype_is_float(dtype)) {
        ls_check__error(reader, ls_node_mark(&except->node, "poke"), NULL, NULL,
                        "except: poke: %s has neither NaN nor infinity", ls_dtype_name(dtype));
    }
    check_reached(reader, step, index, fields);
}
