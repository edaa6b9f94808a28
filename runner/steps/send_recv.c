// send_recv: messages between pairs of ranks.
#include "runner/steps/fields.h"

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD,
    {"pairs", LS_FIELD_INT_ROWS, .flags = LS_FIELD_REQUIRED, LS_MEMBER(call.pairs), .min = 0,
     .max = LS_RANKS_MAX - 1, .doc = "The messages: [from, to] each, all in one group.",
     .example = "pairs: [[0, 1], [1, 0]]"},
    {"except", LS_FIELD_RECORDS, LS_MEMBER(excepts), LS_AUX(except_count),
     .record = &ls_schema__except, .otherwise = "none",
     .doc = "Differences of some ranks: a defect.", .example = "except: [{ranks: [1], count: 3}]"},
    {"blocking", LS_FIELD_BOOL, LS_MEMBER(call.blocking), .fallback = "false",
     .doc = "Each rank makes its sends and receives one after another, waiting for each.",
     .example = "blocking: true"},
    LS_STEP_ASYNC_FIELD,
    LS_STEP_COUNT_FIELD,
    LS_STEP_DTYPE_FIELD,
    LS_STEP_VALUES_FIELD,
};
// clang-format on

static void check(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    const ls_int_rows *pairs = &step->call.pairs;
    step->call.axis = -1;
    ls_check__rows(reader, pairs, -1, 2, "pairs");
    for (int i = 0; i < pairs->count && scenario->ranks > 0 && ls_read__going(reader); i++) {
        for (int j = 0; j < pairs->at[i].count; j++) {
            ls_check__range(reader, ls_check__element(&pairs->at[i], j), "rank", pairs->at[i].at[j],
                            scenario->ranks);
        }
    }
    if (!ls_step_has(step, "count")) {
        ls_check__error(reader, step->node.mark, "count: 1024, for example", NULL,
                        "send_recv: the key count is missing");
    }
    ls_check__excepts(reader, scenario, step, scenario->ranks);
}

const ls_step_type ls_step__send_recv = {
    LS_STEP_RECORD("send_recv", fields, "Messages between pairs of ranks, as one group."),
    .form = LS_STEP_OF_CALLS,
    .excepts =
        LS_EXCEPT_SKIP | LS_EXCEPT_COUNT | LS_EXCEPT_DTYPE | LS_EXCEPT_REVERSE | LS_EXCEPT_SENT,
    .check = check,
    .run = ls_program__call_step,
};
