// Checking what a program's ranks do differently (`except:`): each field must change what the step,
// or the call that takes its place, does. A field that nothing honours would be a bug that is
// planted in vain, and a test that passes for it.
#include <inttypes.h>

#include "collectives/collectives.h"
#include "runner/scenario/read.h"

enum {
    SKIP = 1 << 0,
    REPEAT = 1 << 1,
    CALL = 1 << 2,
    COUNT = 1 << 3,
    DTYPE = 1 << 4,
    OP = 1 << 5,
    ROOT = 1 << 6,
    COUNTS = 1 << 7,
    EXIT = 1 << 8,
    SWAP = 1 << 9,
    REVERSE = 1 << 10,
    GROUP = 1 << 11,
    ROOM = 1 << 12,
    UNWRITTEN = 1 << 13,
    OVERLAP = 1 << 14,
    POKE = 1 << 15,
    SENT = ROOM | UNWRITTEN | POKE,  // what changes a buffer
};

static const struct {
    const char *key;
    unsigned field;
} keys[] = {
    {"skip", SKIP},   {"repeat", REPEAT},   {"call", CALL},       {"count", COUNT},
    {"dtype", DTYPE}, {"op", OP},           {"root", ROOT},       {"counts", COUNTS},
    {"exit", EXIT},   {"swap", SWAP},       {"reverse", REVERSE}, {"group", GROUP},
    {"room", ROOM},   {"overlap", OVERLAP}, {"poke", POKE},       {"unwritten", UNWRITTEN},
};
#define KEY_COUNT (sizeof keys / sizeof *keys)

// What a call of this kind takes from an exception.
static unsigned of_kind(ls_kind kind) {
    const ls_collective *collective = ls_collective_of(kind);
    bool both = collective->send.form != LS_SIDE_NONE && collective->recv.form != LS_SIDE_NONE;
    return (ls_collective_has_data(collective) ? COUNT | DTYPE | SENT : 0u) |
           (collective->reduces ? OP : 0u) | (collective->root_word != NULL ? ROOT : 0u) |
           (ls_collective_has_counts(collective) ? COUNTS : 0u) | (both ? OVERLAP : 0u);
}

// Steps on tensors make their calls themselves, with memory of their own.
static bool on_tensors(const ls_scenario_step *step) {
    return step->tensor != NULL || (!ls_step_makes_calls(step->kind) && step->kind < LS_STEP_WAIT);
}

static unsigned honoured(const ls_scenario_step *step, const ls_scenario_except *except) {
    const unsigned always = EXIT | SWAP;
    if (on_tensors(step)) {
        return always | SKIP | REPEAT |
               (ls_step_makes_calls(step->kind)
                    ? of_kind(ls_step_call_kind(step->kind)) & (OP | ROOT)
                    : 0);
    }
    switch (step->kind) {
    case LS_STEP_WAIT:
        return always | SKIP | REPEAT;
    case LS_STEP_TOUCH:
        return always;
    case LS_STEP_CHECK_REPLICA:
        return always | SKIP;
    case LS_STEP_SEND_RECV:
        return always | SKIP | COUNT | DTYPE | REVERSE | SENT;
    default:;
        bool other = ls_node_has(&except->node, "call");
        return always | SKIP | REPEAT | CALL | (step->ranks.count > 0 ? GROUP : 0) |
               of_kind(other ? except->kind : ls_step_call_kind(step->kind));
    }
}

static unsigned given(const ls_scenario_except *except) {
    unsigned fields = 0;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        bool off = (keys[i].field == SKIP && !except->skip) ||
                   (keys[i].field == REPEAT && !except->repeat) ||
                   (keys[i].field == EXIT && !except->exit) ||
                   (keys[i].field == SWAP && !except->swap) ||
                   (keys[i].field == REVERSE && !except->reverse) ||
                   (keys[i].field == UNWRITTEN && !except->unwritten);
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
                            ls_step_kind_name(step->kind), why);
        }
    }
}

static bool contains(const ls_int_list *list, int64_t rank) {
    for (int i = 0; i < list->count; i++) {
        if (list->at[i] == rank) {
            return true;
        }
    }
    return false;
}

// Ranks that the exception never reaches: of no group, or those of an earlier exception.
static void check_reached(ls_reader *reader, const ls_scenario_step *step, int index,
                          unsigned fields) {
    const ls_scenario_except *except = &step->excepts[index];
    bool members_only = (fields & (EXIT | SWAP | GROUP)) == 0 && step->ranks.count > 0;
    for (int i = 0; i < except->ranks.count && ls_read__going(reader); i++) {
        int64_t rank = except->ranks.at[i];
        ls_mark mark = ls_check__element(&except->ranks, i);
        if (members_only && !contains(&step->ranks, rank)) {
            ls_check__error(reader, mark, NULL, NULL,
                            "except: rank %" PRId64 " takes no part in this step", rank);
        }
        for (int k = 0; k < index; k++) {
            if (contains(&step->excepts[k].ranks, rank)) {
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
    const char *why = on_tensors(step)                                         ? " on a tensor"
                      : (idle & GROUP) != 0 && ls_step_makes_calls(step->kind) ? " without ranks"
                                                                               : "";
    refuse(reader, step, except, idle, why);
    if (fields == 0) {
        ls_check__error(reader, except->node.mark, "skip: true, for example", NULL,
                        "except: it does not say what these ranks do differently");
    }
    unsigned ends = (fields & EXIT) != 0 ? EXIT : fields & SKIP;
    if (ends != 0) {
        refuse(reader, step, except, fields & ~idle & ~(ends | SWAP),
               ends == EXIT ? ", where their program ends" : ", which they skip");
    }
    if ((fields & EXIT) != 0 && (fields & SWAP) != 0) {
        refuse(reader, step, except, SWAP, ", where their program ends");
    }
    if ((fields & SWAP) != 0 && step == &scenario->steps[scenario->step_count - 1]) {
        refuse(reader, step, except, SWAP, ", the last step");
    }
    fields &= ~idle;
    bool own_counts = step->counts.count > 0 || step->splits.count > 0 || (fields & COUNTS) != 0;
    ls_kind kind = (fields & CALL) != 0 ? except->kind : ls_step_call_kind(step->kind);
    if (ls_step_makes_calls(step->kind) && (fields & COUNT) != 0 && own_counts &&
        ((fields & COUNTS) == 0 || !ls_collective_has_splits(ls_collective_of(kind)))) {
        refuse(reader, step, except, COUNT, " beside counts or splits");
    }
    ls_dtype dtype = (fields & DTYPE) != 0 ? except->dtype : step->dtype;
    if ((fields & POKE) != 0 && !ls_dtype_is_float(dtype)) {
        ls_check__error(reader, ls_node_mark(&except->node, "poke"), NULL, NULL,
                        "except: poke: %s has neither NaN nor infinity", ls_dtype_name(dtype));
    }
    check_reached(reader, step, index, fields);
}
