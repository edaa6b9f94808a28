// wait, touch, check_replica: operations on the buffers of an earlier step. A step without such a
// buffer would have no effect, and a scenario that relies on it would prove nothing: it is
// rejected. A process that holds all ranks has nothing to do: its calls complete at once.
#include <inttypes.h>
#include <string.h>

#include "kernels/element.h"
#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {LS_STEP_EARLIER_FIELDS};
static const ls_schema_name part_names[] = {{"recv", 0}, {"send", 1}};
// clang-format off
static const ls_schema_field touch_fields[] = {
    LS_STEP_EARLIER_FIELDS,
    {"part", LS_FIELD_ENUM, LS_MEMBER(earlier.sent),
     .names = &(const ls_schema_names){.at = part_names, .count = 2}, .fallback = "recv",
     .doc = "Which buffer of that step.", .example = "part: send"},
    {"write", LS_FIELD_BOOL, LS_MEMBER(earlier.write), .fallback = "false",
     .doc = "Writes it (the first element changes) instead of reading it.",
     .example = "write: true"},
};
// clang-format on

// ---- Checks -------------------------------------------------------------------------------------
// Which member of the step's group a rank is; -1: none.
static int member_of(const ls_scenario *scenario, const ls_scenario_step *of, int64_t rank) {
    const ls_step_call *call = &of->call;
    if (call->axis >= 0) {
        int64_t stride = 1;
        for (int d = call->axis + 1; d < scenario->mesh.ndim; d++) {
            stride *= scenario->mesh.dim[d];
        }
        return (int)(rank / stride % scenario->mesh.dim[call->axis]);
    }
    return call->ranks.count > 0 ? ls_int_list_find(&call->ranks, rank) : (int)rank;
}

// Whether the counts imply a buffer. Lists of a wrong length are reported elsewhere.
static bool counted(const ls_scenario_step *of, int member, bool send) {
    const ls_step_call *call = &of->call;
    if (call->splits.count > 0) {
        bool any = false;
        for (int i = 0; i < call->splits.count && member < call->splits.count; i++) {
            const ls_int_list *row = &call->splits.at[send ? member : i];
            int column = send ? i : member;
            any = any || column >= row->count || row->at[column] > 0;
        }
        return any || member >= call->splits.count;
    }
    if (call->counts.count > 0) {
        const ls_collective *collective = ls_collective_of(ls_step_call_kind(of->kind));
        if (send != (collective->send.form == LS_SIDE_BLOCKS)) {  // only one block's side
            return member >= call->counts.count || call->counts.at[member] > 0;
        }
        return ls_check__sum(&call->counts) > 0;
    }
    return call->count > 0;
}

static bool has_buffer(const ls_scenario *scenario, const ls_scenario_step *of, int64_t rank,
                       bool send) {
    const ls_collective *collective = ls_collective_of(ls_step_call_kind(of->kind));
    const ls_side *side = send ? &collective->send : &collective->recv;
    int member = member_of(scenario, of, rank);
    return member >= 0 && ls_step_is_collective(of->kind) && side->form != LS_SIDE_NONE &&
           (!side->root_only || member == of->call.root) && counted(of, member, send);
}

static void check_touch(ls_reader *reader, const ls_scenario *scenario,
                        const ls_scenario_step *step, const ls_scenario_step *of) {
    const ls_step_earlier *does = &step->earlier;
    const char *part = does->sent ? "send" : "receive";
    for (int i = 0; i < does->ranks.count && ls_read__going(reader); i++) {
        int64_t rank = does->ranks.at[i];
        if (!has_buffer(scenario, of, rank, does->sent)) {
            ls_check__error(reader, ls_check__element(&does->ranks, i), NULL, NULL,
                            "touch: rank %" PRId64 " has no %s buffer in step %.60s", rank, part,
                            does->of);
        }
    }
    bool any = does->ranks.count > 0;
    for (int rank = 0; rank < scenario->ranks && !any; rank++) {
        any = has_buffer(scenario, of, rank, does->sent);
    }
    if (!any) {
        ls_check__error(reader, ls_node_mark(&step->node, "step"), NULL, NULL,
                        "touch: no rank has a %s buffer in step %.60s", part, does->of);
    }
}

static void check_wait(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step,
                       const ls_scenario_step *of) {
    const ls_step_earlier *does = &step->earlier;
    if (!of->call.asynchronous) {
        ls_check__error(reader, ls_node_mark(&step->node, "step"), "a step with async: true", NULL,
                        "wait: step %.60s is not asynchronous: there is nothing to wait for",
                        does->of);
    }
    for (int i = 0; i < does->ranks.count && ls_read__going(reader); i++) {
        if (member_of(scenario, of, does->ranks.at[i]) < 0) {
            ls_check__error(reader, ls_check__element(&does->ranks, i), NULL, NULL,
                            "wait: rank %" PRId64 " takes no part in step %.60s", does->ranks.at[i],
                            does->of);
        }
    }
}

static void check_replica(ls_reader *reader, const ls_scenario_step *step,
                          const ls_scenario_step *of) {
    if (!ls_step_is_collective(of->kind) ||
        !ls_collective_has_data(ls_collective_of(ls_step_call_kind(of->kind)))) {
        ls_check__error(reader, ls_node_mark(&step->node, "step"), NULL, NULL,
                        "check_replica: step %.60s leaves nothing that its ranks share",
                        step->earlier.of);
    }
}

static const ls_scenario_step *find(const ls_scenario *scenario, const ls_scenario_step *step) {
    for (const ls_scenario_step *at = step; at-- > scenario->steps && step->earlier.of != NULL;) {
        if (at->name != NULL && strcmp(at->name, step->earlier.of) == 0 && ls_step_on_buffers(at)) {
            return at;
        }
    }
    return NULL;
}

static void check(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    ls_step_earlier *does = &step->earlier;
    ls_check__members(reader, scenario, &does->ranks, "rank");
    ls_check__excepts(reader, scenario, step, scenario->ranks);
    if (step->kind == LS_STEP_CHECK_REPLICA && ls_step_has(step, "ranks")) {
        ls_check__error(reader, ls_node_mark(&step->node, "ranks"),
                        "except: [{ranks: ..., skip: true}]", NULL,
                        "ranks: all members of the step's group take part in the check");
    }
    const ls_scenario_step *of = find(scenario, step);
    does->index = of != NULL ? (int)(of - scenario->steps) : -1;
    if (of == NULL && does->of != NULL) {
        ls_check__error(reader, ls_node_mark(&step->node, "step"),
                        "the name of an earlier collective on buffers", NULL,
                        "there is no earlier step %.60s", does->of);
    }
    if (of == NULL || scenario->ranks == 0) {
        return;
    }
    if (step->kind == LS_STEP_TOUCH) {
        check_touch(reader, scenario, step, of);
    } else if (step->kind == LS_STEP_WAIT) {
        check_wait(reader, scenario, step, of);
    } else {
        check_replica(reader, step, of);
    }
}

// ---- Runs ---------------------------------------------------------------------------------------
// The rank's call in that step; NULL: none.
static ls_step_calls *calls_of(const ls_program *program, const ls_scenario_step *step) {
    const ls_int_list *ranks = &step->earlier.ranks;
    bool part = program->self != NULL &&
                (ranks->count == 0 || ls_int_list_find(ranks, ls_rank_id(program->self)) >= 0);
    return part ? &program->calls[step->earlier.index] : NULL;
}

static int wait(ls_program *program, const ls_scenario_step *step) {
    const ls_scenario_except *except = ls_program__except(program, step);
    ls_step_calls *calls = calls_of(program, step);
    if (calls == NULL) {
        return LS_OK;
    }
    int times;
    if (except == NULL) {
        times = 1;
    } else if (except->skip) {
        times = 0;
    } else {
        times = except->repeat ? 2 : 1;
    }
    calls->lost = calls->lost && times == 0;
    for (int t = 0; t < times; t++) {
        for (int i = 0; i < calls->request_count; i++) {
            LS_TRY(ls_wait_at(program->scenario->file, ls_program__line(program, step),
                              calls->requests[i]));
        }
    }
    const ls_scenario_step *of = &program->scenario->steps[step->earlier.index];
    return times > 0 && calls->request_count > 0 ? ls_program__emit_received(program, of) : LS_OK;
}

static int touch(ls_program *program, const ls_scenario_step *step) {
    const ls_step_calls *calls = calls_of(program, step);
    const ls_made_call *made = calls != NULL && calls->count > 0 ? &calls->at[0] : NULL;
    void *memory = NULL;
    if (made != NULL) {
        memory = step->earlier.sent ? made->send : made->call.recv;
    }
    if (memory == NULL) {
        return LS_OK;
    }
    ls_dtype dtype = made->call.dtype;
    LS_TRY(ls_touch_at(program->scenario->file, ls_program__line(program, step), program->self,
                       memory, ls_dtype_bytes(dtype), step->earlier.write));
    if (step->earlier.write && !program->execution->shape_only) {
        ls_element_from_f64(memory, dtype, ls_element_to_f64(memory, dtype) + 1);
    }
    return LS_OK;
}

static int run_check(ls_program *program, const ls_scenario_step *step) {
    const ls_scenario_except *except = ls_program__except(program, step);
    const ls_step_calls *calls = calls_of(program, step);
    if (calls == NULL || calls->comm == NULL || (except != NULL && except->skip)) {
        return LS_OK;
    }
    const ls_made_call nothing = {.times = 0};
    const ls_made_call *made = calls->count > 0 ? &calls->at[0] : &nothing;
    return ls_check_replica_at(program->scenario->file, ls_program__line(program, step),
                               made->call.recv, made->recv_count, made->call.dtype, calls->comm);
}

const ls_step_type ls_step__wait = {
    LS_STEP_RECORD("wait", fields, "Waits for the calls of an asynchronous step."),
    .form = LS_STEP_OF_EARLIER,
    .excepts = LS_EXCEPT_SKIP | LS_EXCEPT_REPEAT,
    .check = check,
    .run = wait,
};
const ls_step_type ls_step__touch = {
    LS_STEP_RECORD("touch", touch_fields, "The program reads or writes a buffer of a step."),
    .form = LS_STEP_OF_EARLIER,
    .check = check,
    .run = touch,
};
const ls_step_type ls_step__check_replica = {
    LS_STEP_RECORD("check_replica", fields,
                   "Checks that all ranks received the same bits in a step."),
    .form = LS_STEP_OF_EARLIER,
    .excepts = LS_EXCEPT_SKIP,
    .check = check,
    .run = run_check,
};
