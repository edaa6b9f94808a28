// The call of a group's member in a step, with the exceptions of some ranks.
#include "runner/program/program.h"

static const size_t *to_sizes(ls_arena *arena, const ls_int_list *list) {
    size_t *sizes = ls_arena_alloc(arena, (size_t)list->count, sizeof *sizes);
    for (int i = 0; sizes != NULL && i < list->count; i++) {
        sizes[i] = (size_t)list->at[i];
    }
    return sizes;
}

// counts: the uneven forms, per member.
static int set_counts(ls_arena *arena, ls_call *call, int member, const ls_int_list *counts) {
    if (counts->count == 0) {
        return LS_OK;
    }
    const size_t *sizes = to_sizes(arena, counts);
    LS_TRY_MEMORY(sizes != NULL);
    const ls_collective *collective = ls_collective_of(call->kind);
    if (ls_collective_has_splits(collective)) {
        call->send_counts = sizes;  // its send buffer; the receive buffer stays
        size_t *even = ls_arena_alloc(arena, (size_t)counts->count, sizeof *even);
        LS_TRY_MEMORY(even != NULL);
        for (int i = 0; i < counts->count; i++) {
            even[i] = call->count;
        }
        call->recv_counts = call->recv_counts != NULL ? call->recv_counts : even;
        return LS_OK;
    }
    bool sends = collective->send.form == LS_SIDE_BLOCKS;
    call->send_counts = sends ? sizes : NULL;
    call->recv_counts = sends ? NULL : sizes;
    call->count = sizes[member];
    return LS_OK;
}

// splits [members][members]: elements from row to column.
static int set_splits(ls_arena *arena, ls_call *call, int member, const ls_int_rows *splits) {
    if (splits->count == 0) {
        return LS_OK;
    }
    size_t size = (size_t)splits->count;
    size_t *recv = ls_arena_alloc(arena, size, sizeof *recv);
    call->send_counts = to_sizes(arena, &splits->at[member]);
    LS_TRY_MEMORY(recv != NULL && call->send_counts != NULL);
    for (size_t from = 0; from < size; from++) {
        recv[from] = (size_t)splits->at[from].at[member];
    }
    call->recv_counts = recv;
    return LS_OK;
}

const ls_scenario_except *ls_program__except(const ls_program *program,
                                             const ls_scenario_step *step) {
    for (int i = 0; i < step->except_count && program->self != NULL; i++) {
        const ls_scenario_except *except = &step->excepts[i];
        if (ls_int_list_find(&except->ranks, ls_rank_id(program->self)) >= 0) {
            return except;
        }
    }
    return NULL;
}

int ls_program__line(const ls_program *program, const ls_scenario_step *step) {
    const ls_scenario_except *except = ls_program__except(program, step);
    return except != NULL ? except->node.mark.line : step->node.mark.line;
}

static int apply(ls_made_call *made, ls_arena *arena, int member) {
    ls_call *call = &made->call;
    const ls_scenario_except *except = made->except;
    call->kind = ls_node_has(&except->node, "call") ? except->kind : call->kind;
    call->count = ls_node_has(&except->node, "count") ? (size_t)except->count : call->count;
    call->dtype = ls_node_has(&except->node, "dtype") ? except->dtype : call->dtype;
    call->op = ls_node_has(&except->node, "op") ? except->op : call->op;
    call->root = ls_node_has(&except->node, "root") ? except->root : call->root;
    LS_TRY(set_counts(arena, call, member, &except->counts));
    if (!except->swap) {  // the step's call, at another time
        call->line = except->node.mark.line;
    }
    made->times = except->repeat ? 2 : 1;
    if (except->skip) {
        made->times = 0;
    }
    return LS_OK;
}

int ls_program__member_call(ls_made_call *out, const ls_program *program,
                            const ls_scenario_step *step, const ls_comm *comm, int member) {
    const ls_step_call *says = &step->call;
    *out = (ls_made_call){.times = 1, .except = ls_program__except(program, step)};
    out->call = (ls_call){
        .kind = ls_step_call_kind(step->kind),
        .comm = comm,
        .rank = comm->ranks[member],
        .dtype = says->dtype,
        .op = says->op,
        .root = says->root,
        .count = (size_t)says->count,
        .file = program->scenario->file,
        .line = step->node.mark.line,
        .premul = member < says->factors.count ? says->factors.at[member] : 1.0,
    };
    LS_TRY(set_counts(program->arena, &out->call, member, &says->counts));
    LS_TRY(set_splits(program->arena, &out->call, member, &says->splits));
    return out->except != NULL ? apply(out, program->arena, member) : LS_OK;
}
