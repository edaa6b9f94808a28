// Checking that a step which names an earlier one (wait, touch, check_replica) finds there what it
// is about. One that finds nothing does nothing, and a scenario that relies on it would prove
// nothing.
#include <inttypes.h>

#include "runner/scenario/read.h"

// Which member of the step's group a rank is; -1: none.
static int member_of(const ls_scenario *scenario, const ls_scenario_step *of, int64_t rank) {
    if (of->axis >= 0) {
        int64_t stride = 1;
        for (int d = of->axis + 1; d < scenario->mesh.ndim; d++) {
            stride *= scenario->mesh.dim[d];
        }
        return (int)(rank / stride % scenario->mesh.dim[of->axis]);
    }
    for (int i = 0; i < of->ranks.count; i++) {
        if (of->ranks.at[i] == rank) {
            return i;
        }
    }
    return of->ranks.count > 0 ? -1 : (int)rank;
}

// Whether a buffer is there by the counts alone. Lists of a wrong length are told elsewhere.
static bool counted(const ls_scenario_step *of, int member, bool send) {
    if (of->splits.count > 0) {
        bool any = false;
        for (int i = 0; i < of->splits.count && member < of->splits.count; i++) {
            const ls_int_list *row = &of->splits.at[send ? member : i];
            int column = send ? i : member;
            any = any || column >= row->count || row->at[column] > 0;
        }
        return any || member >= of->splits.count;
    }
    if (of->counts.count > 0) {
        bool sends_all = of->kind == LS_STEP_REDUCE_SCATTER || of->kind == LS_STEP_SCATTER;
        if (send != sends_all) {  // the side of one block, not of all
            return member >= of->counts.count || of->counts.at[member] > 0;
        }
        bool any = false;
        for (int i = 0; i < of->counts.count; i++) {
            any = any || of->counts.at[i] > 0;
        }
        return any;
    }
    return of->count > 0;
}

static bool has_buffer(const ls_scenario *scenario, const ls_scenario_step *of, int64_t rank,
                       bool send) {
    int member = member_of(scenario, of, rank);
    bool root = member == of->root;
    if (member < 0 || !counted(of, member, send)) {
        return false;
    }
    switch (of->kind) {
    case LS_STEP_REDUCE:
    case LS_STEP_GATHER:
        return send || root;
    case LS_STEP_BROADCAST:
    case LS_STEP_SCATTER:
        return !send || root;
    default:
        return of->kind != LS_STEP_SEND_RECV && of->kind != LS_STEP_BARRIER;
    }
}

static void check_touch(ls_reader *reader, const ls_scenario *scenario,
                        const ls_scenario_step *step, const ls_scenario_step *of) {
    const char *part = step->touch_send ? "send" : "receive";
    for (int i = 0; i < step->ranks.count && ls_read__going(reader); i++) {
        int64_t rank = step->ranks.at[i];
        if (!has_buffer(scenario, of, rank, step->touch_send)) {
            ls_check__error(reader, ls_check__element(&step->ranks, i), NULL, NULL,
                            "touch: rank %" PRId64 " has no %s buffer in step %.60s", rank, part,
                            step->of);
        }
    }
    bool any = step->ranks.count > 0;
    for (int rank = 0; rank < scenario->ranks && !any; rank++) {
        any = has_buffer(scenario, of, rank, step->touch_send);
    }
    if (!any) {
        ls_check__error(reader, ls_node_mark(&step->node, "step"), NULL, NULL,
                        "touch: no rank has a %s buffer in step %.60s", part, step->of);
    }
}

void ls_check__of(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step) {
    const ls_scenario_step *of = &scenario->steps[step->of_index];
    ls_mark mark = ls_node_mark(&step->node, "step");
    if (step->kind == LS_STEP_TOUCH) {
        check_touch(reader, scenario, step, of);
    } else if (step->kind == LS_STEP_WAIT && !of->asynchronous) {
        ls_check__error(reader, mark, "a step with async: true", NULL,
                        "wait: step %.60s is not asynchronous: there is nothing to wait for",
                        step->of);
    } else if (step->kind == LS_STEP_CHECK_REPLICA &&
               (of->kind == LS_STEP_BARRIER || of->kind == LS_STEP_SEND_RECV)) {
        ls_check__error(reader, mark, NULL, NULL,
                        "check_replica: step %.60s leaves nothing that its ranks share", step->of);
    }
    for (int i = 0; step->kind == LS_STEP_WAIT && i < step->ranks.count && ls_read__going(reader);
         i++) {
        if (member_of(scenario, of, step->ranks.at[i]) < 0) {
            ls_check__error(reader, ls_check__element(&step->ranks, i), NULL, NULL,
                            "wait: rank %" PRId64 " takes no part in step %.60s", step->ranks.at[i],
                            step->of);
        }
    }
}
