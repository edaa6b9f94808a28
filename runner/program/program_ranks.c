// A scenario as an SPMD program: every rank runs its stages or steps on its own thread, makes its
// own calls, and does differently what it is excepted for. So bugs show as they would in the ranks'
// own code: with the ranks at fault and the line of the step. Tables and tensors run as they do
// elsewhere, on a backend that holds the one rank.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runner/scenario/inputs.h"
#include "runner/program/program.h"

typedef struct message {
    const void *memory;
    size_t count;
    ls_dtype dtype;
} message;

typedef struct step_state {
    ls_rank_comm *comm;     // NULL: not a member
    void *send, *recv;      // recv lies in send's memory where in_place or overlapping
    bool one_buffer;        //
    size_t recv_count;      //
    ls_dtype dtype;         // of recv
    message *received;      // send_recv [pairs]: what this rank receives
    ls_request **requests;  // asynchronous; in the arena
    int request_count;
    bool lost;  // they are never waited for, and so their buffers never free
} step_state;

typedef struct rank_program {
    ls_program_run *shared;
    const ls_scenario *scenario;
    ls_rank *self;
    ls_arena *arena;
    ls_backend *own;         // holds this rank alone; NULL: there are neither tables nor tensors
    ls_execution execution;  // on it
    ls_program tensors;      // the program's, on it
    step_state *steps;       // [step_count]
    void **messages;         // memory of send_recv
    int message_count, message_room;
} rank_program;

// Where the rank makes a step's call: the exception's line, where there is one.
static int line_of(const ls_scenario_step *step, int rank) {
    const ls_scenario_except *except = NULL;
    return ls_program__except_of(&except, step, rank) ? except->node.mark.line
                                                      : step->node.mark.line;
}

// ---- Communicators, before the first step -------------------------------------------------------
static int open_group(rank_program *p, const ls_scenario_step *step, ls_rank_comm **out) {
    const ls_scenario_except *except = NULL;
    const ls_int_list *list = &step->ranks;
    if (ls_program__except_of(&except, step, ls_rank_id(p->self)) && except->group.count > 0) {
        list = &except->group;
    }
    int *members = ls_arena_alloc(p->arena, (size_t)list->count, sizeof *members);
    if (members == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < list->count; i++) {
        members[i] = (int)list->at[i];
    }
    return ls_comm_subset_at(p->scenario->file, line_of(step, ls_rank_id(p->self)), out,
                             ls_rank_world(p->self), members, list->count);
}

static int open_comms(rank_program *p) {
    for (int i = 0; i < p->scenario->step_count; i++) {
        const ls_scenario_step *step = &p->scenario->steps[i];
        ls_rank_comm **comm = &p->steps[i].comm;
        if (!ls_program__on_buffers(step)) {
            continue;
        }
        if (step->ranks.count > 0) {
            LS_TRY(open_group(p, step, comm));
        } else if (step->axis >= 0) {
            LS_TRY(ls_rank_axis(comm, p->self, step->axis));
        } else {
            *comm = ls_rank_world(p->self);
        }
    }
    return LS_OK;
}

// ---- Buffers ------------------------------------------------------------------------------------
static int fill(rank_program *p, const ls_scenario_step *step, const ls_scenario_except *except,
                void *send, ls_dtype dtype, size_t count) {
    if (count == 0) {
        return LS_OK;
    }
    size_t element = ls_dtype_bytes(dtype);
    size_t written = except != NULL && except->unwritten ? count - 1 : count;
    void *values = NULL;
    LS_TRY(ls_alloc(&values, NULL, count, element));
    int rank = ls_rank_id(p->self);
    int status = ls_inputs_step_values(values, p->scenario, step, rank, dtype, count);
    if (status == LS_OK) {
        if (except != NULL && except->poke != 0) {
            ls_element_from_f64(values, dtype, except->poke == 1 ? NAN : INFINITY);
        }
        memcpy(send, values, written * element);
    }
    ls_free(NULL, values, count, element);
    return status;
}

static void *allocate(rank_program *p, int line, size_t count, ls_dtype dtype) {
    return ls_rank_alloc_at(p->scenario->file, line, p->self, count * ls_dtype_bytes(dtype));
}

static int place(rank_program *p, const ls_scenario_step *step, step_state *state,
                 ls_program_call *made, int member) {
    ls_call *call = &made->call;
    const ls_scenario_except *except = made->except;
    size_t send = 0, recv = 0, element = ls_dtype_bytes(call->dtype);
    LS_TRY(ls_call_send_elements(&send, call));
    LS_TRY(ls_call_recv_elements(&recv, call));
    size_t room = except != NULL && except->room > 0 ? (size_t)except->room : SIZE_MAX;
    size_t send_room = send < room ? send : room, recv_room = recv < room ? recv : room;
    size_t shift = except != NULL ? (size_t)except->overlap : 0;
    state->one_buffer = (step->in_place || shift > 0) && send > 0 && recv > 0;
    size_t larger = send_room > recv_room ? send_room : recv_room;
    if (state->one_buffer) {
        state->send = allocate(p, call->line, larger + shift, call->dtype);
        if (state->send == NULL) {
            return LS_ERR_MEMORY;
        }
        char *base = state->send;
        size_t offset = shift == 0 ? ls_call_own_offset(call, member) * element : 0;
        call->send = send < recv ? base + offset : base;
        state->recv = recv < send ? base + offset : base + shift * element;
        call->recv = state->recv;
    } else {
        state->send = send > 0 ? allocate(p, call->line, send_room, call->dtype) : NULL;
        state->recv = recv > 0 ? allocate(p, call->line, recv_room, call->dtype) : NULL;
        if ((send > 0 && state->send == NULL) || (recv > 0 && state->recv == NULL)) {
            return LS_ERR_MEMORY;
        }
        call->send = state->send;
        call->recv = state->recv;
    }
    state->recv_count = recv;
    state->dtype = call->dtype;
    return fill(p, step, except, (void *)(uintptr_t)call->send, call->dtype,
                send < room ? send : send_room);
}

// ---- Outputs ------------------------------------------------------------------------------------
// What a completed call left in `memory`.
static int emit(rank_program *p, const ls_scenario_step *step, const step_state *state,
                const char *field, const void *memory, size_t count, ls_dtype dtype) {
    bool reduces = ls_collective_of(ls_step_call_kind(step->kind))->reduces;
    return ls_program__emit_memory(p->shared->sink, p->arena, ls_rank_comm_of(state->comm)->backend,
                                   step, field, ls_rank_id(p->self), memory, count, dtype,
                                   reduces && ls_dtype_is_float(dtype));
}

static int emit_received(rank_program *p, const ls_scenario_step *step, const step_state *state) {
    return emit(p, step, state, "recv", state->recv, state->recv_count, state->dtype);
}

// Messages are numbered as the step lists them.
static int emit_messages(rank_program *p, const ls_scenario_step *step, const step_state *state) {
    char field[32];
    for (int i = 0, received = 0; i < step->pairs.count && state->received != NULL; i++) {
        if (state->received[i].memory == NULL) {
            continue;
        }
        (void)snprintf(field, sizeof field, received > 0 ? "recv[%d]" : "recv", received);
        LS_TRY(emit(p, step, state, field, state->received[i].memory, state->received[i].count,
                    state->received[i].dtype));
        received += 1;
    }
    return LS_OK;
}

// ---- Steps --------------------------------------------------------------------------------------
static ls_request **room_for(rank_program *p, step_state *state, int count) {
    state->requests = ls_arena_alloc(p->arena, (size_t)count, sizeof(ls_request *));
    state->request_count = 0;
    return state->requests;
}

static int run_collective(rank_program *p, const ls_scenario_step *step, step_state *state) {
    if (state->comm == NULL) {
        return LS_OK;
    }
    int member = ls_rank_comm_rank(state->comm);
    ls_program_call made;
    LS_TRY(ls_program__member_call(&made, p->arena, p->scenario, step, ls_rank_comm_of(state->comm),
                                   member));
    if (made.times == 0) {
        return LS_OK;
    }
    if (ls_collective_has_data(ls_collective_of(made.call.kind))) {
        LS_TRY(place(p, step, state, &made, member));
    }
    if (step->asynchronous && room_for(p, state, made.times) == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < made.times; i++) {
        ls_request **request = step->asynchronous ? &state->requests[state->request_count++] : NULL;
        LS_TRY(ls_post_at(p->scenario->file, made.call.line, &made.call, state->comm, request));
        state->lost = step->asynchronous;
    }
    if (step->replica) {
        LS_TRY(ls_replica_declare_at(p->scenario->file, made.call.line, state->recv,
                                     state->recv_count, state->dtype, state->comm));
    }
    return step->asynchronous ? LS_OK : emit_received(p, step, state);
}

static int post_message(rank_program *p, const ls_scenario_step *step, step_state *state, int index,
                        bool sends) {
    const int64_t *pair = step->pairs.at[index].at;
    const ls_scenario_except *except = NULL;
    int rank = ls_rank_id(p->self);
    bool differs = ls_program__except_of(&except, step, rank);
    ls_call call = {
        .kind = sends ? LS_SEND : LS_RECV,
        .dtype = differs && ls_node_has(&except->node, "dtype") ? except->dtype : step->dtype,
        .count =
            (size_t)(differs && ls_node_has(&except->node, "count") ? except->count : step->count),
        .root = (int)pair[sends ? 1 : 0],
    };
    int line = line_of(step, rank);
    size_t room = differs && except->room > 0 ? (size_t)except->room : call.count;
    void *memory = allocate(p, line, room, call.dtype);
    if (memory == NULL || p->message_count == p->message_room) {
        return LS_ERR_MEMORY;
    }
    p->messages[p->message_count++] = memory;
    if (sends) {
        call.send = memory;
        LS_TRY(fill(p, step, except, memory, call.dtype, room < call.count ? room : call.count));
    } else {
        call.recv = memory;
        state->received[index] =
            (message){memory, room < call.count ? room : call.count, call.dtype};
    }
    ls_request **request = step->asynchronous ? &state->requests[state->request_count++] : NULL;
    state->lost = step->asynchronous;
    return ls_post_at(p->scenario->file, line, &call, state->comm, request);
}

static int run_messages(rank_program *p, const ls_scenario_step *step, step_state *state) {
    const ls_scenario_except *except = NULL;
    int rank = ls_rank_id(p->self), count = step->pairs.count;
    bool differs = ls_program__except_of(&except, step, rank);
    bool grouped = !step->blocking && !step->asynchronous;
    if (differs && except->skip) {
        return LS_OK;
    }
    state->received = ls_arena_alloc(p->arena, (size_t)count, sizeof *state->received);
    if (state->received == NULL || (step->asynchronous && room_for(p, state, 2 * count) == NULL)) {
        return LS_ERR_MEMORY;
    }
    if (grouped) {
        LS_TRY(ls_group_start_at(p->scenario->file, line_of(step, rank), p->self));
    }
    int status = LS_OK;
    for (int i = 0; i < count && status == LS_OK; i++) {
        int index = differs && except->reverse ? count - 1 - i : i;
        for (int side = 0; side < 2 && status == LS_OK; side++) {
            if (step->pairs.at[index].at[side] == rank) {
                status = post_message(p, step, state, index, side == 0);
            }
        }
    }
    if (grouped) {
        int ended = ls_group_end_at(p->scenario->file, line_of(step, rank), p->self);
        status = status == LS_OK ? ended : status;
    }
    return status == LS_OK && !step->asynchronous ? emit_messages(p, step, state) : status;
}

static int run_wait(rank_program *p, const ls_scenario_step *step) {
    const ls_scenario_except *except = NULL;
    int rank = ls_rank_id(p->self), times = 1;
    if (ls_program__except_of(&except, step, rank)) {
        times = except->skip ? 0 : except->repeat ? 2 : 1;
    }
    step_state *state = &p->steps[step->of_index];
    state->lost = state->lost && times == 0;
    for (int t = 0; t < times; t++) {
        for (int i = 0; i < state->request_count; i++) {
            LS_TRY(ls_wait_at(p->scenario->file, line_of(step, rank), state->requests[i]));
        }
    }
    const ls_scenario_step *of = &p->scenario->steps[step->of_index];
    if (times == 0 || state->request_count == 0) {
        return LS_OK;
    }
    return of->kind == LS_STEP_SEND_RECV ? emit_messages(p, of, state)
                                         : emit_received(p, of, state);
}

static int run_touch(rank_program *p, const ls_scenario_step *step) {
    const step_state *state = &p->steps[step->of_index];
    void *memory = step->touch_send ? state->send : state->recv;
    if (memory == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_touch_at(p->scenario->file, line_of(step, ls_rank_id(p->self)), p->self, memory,
                       ls_dtype_bytes(state->dtype), step->touch_write));
    if (step->touch_write) {
        double now = ls_element_to_f64(memory, state->dtype);
        ls_element_from_f64(memory, state->dtype, now + 1);
    }
    return LS_OK;
}

static int run_check(rank_program *p, const ls_scenario_step *step) {
    const ls_scenario_except *except = NULL;
    const step_state *state = &p->steps[step->of_index];
    int rank = ls_rank_id(p->self);
    if (state->comm == NULL || (ls_program__except_of(&except, step, rank) && except->skip)) {
        return LS_OK;
    }
    return ls_check_replica_at(p->scenario->file, line_of(step, rank), state->recv,
                               state->recv_count, state->dtype, state->comm);
}

// A step on tensors, as this rank makes it.
static int run_tensor_step(rank_program *p, const ls_scenario_step *step) {
    const ls_scenario_except *except = NULL;
    ls_scenario_step own = *step;
    int times = 1, status = LS_OK;
    if (ls_program__except_of(&except, step, ls_rank_id(p->self))) {
        times = except->skip ? 0 : except->repeat ? 2 : 1;
        own.op = ls_node_has(&except->node, "op") ? except->op : own.op;
        own.root = ls_node_has(&except->node, "root") ? except->root : own.root;
    }
    ls_rank_backend_at(p->own, p->scenario->file, line_of(step, ls_rank_id(p->self)));
    const ls_stage_sink *sink = p->execution.sink;
    for (int i = 0; i < times && status == LS_OK; i++) {
        p->execution.sink = i + 1 == times ? sink : NULL;  // what the last one leaves counts
        status = ls_program__tensor_step(&p->tensors, &own);
    }
    const char *where = ls_scenario_where(p->scenario, &step->node);
    return status == LS_OK ? LS_OK : ls_error_wrap("%s: step %s", where, step->name);
}

static bool takes_part(const ls_scenario_step *step, int rank) {
    bool found = step->ranks.count == 0;
    for (int i = 0; i < step->ranks.count; i++) {
        found = found || step->ranks.at[i] == rank;
    }
    return found;
}

static int run_step(rank_program *p, int index) {
    const ls_scenario_step *step = &p->scenario->steps[index];
    bool part = takes_part(step, ls_rank_id(p->self));
    switch (step->kind) {
    case LS_STEP_WAIT:
        return part ? run_wait(p, step) : LS_OK;
    case LS_STEP_TOUCH:
        return part ? run_touch(p, step) : LS_OK;
    case LS_STEP_CHECK_REPLICA:
        return run_check(p, step);
    case LS_STEP_SEND_RECV:
        return run_messages(p, step, &p->steps[index]);
    default:
        return ls_program__on_buffers(step) ? run_collective(p, step, &p->steps[index])
                                            : run_tensor_step(p, step);
    }
}

static int run_steps(rank_program *p) {
    int rank = ls_rank_id(p->self);
    for (int i = 0; i < p->scenario->step_count; i++) {
        const ls_scenario_except *except = NULL;
        if (!ls_program__except_of(&except, &p->scenario->steps[i], rank)) {
            LS_TRY(run_step(p, i));
            continue;
        }
        if (except->exit) {
            return LS_OK;
        }
        bool swap = except->swap && i + 1 < p->scenario->step_count;
        if (swap) {
            LS_TRY(run_step(p, i + 1));
        }
        LS_TRY(run_step(p, i));
        i += swap ? 1 : 0;
    }
    return LS_OK;
}

static void free_all(rank_program *p) {
    bool lost = false;
    for (int i = 0; i < p->scenario->step_count; i++) {
        const step_state *state = &p->steps[i];
        lost = lost || state->lost;
        if (!state->lost) {
            ls_rank_free(p->self, state->send);
            ls_rank_free(p->self, state->one_buffer ? NULL : state->recv);
        }
    }
    for (int i = 0; i < p->message_count && !lost; i++) {  // a lost message may be any
        ls_rank_free(p->self, p->messages[i]);
    }
    for (int i = 0; i < p->scenario->step_count; i++) {
        const ls_scenario_step *step = &p->scenario->steps[i];
        if (step->ranks.count > 0 && ls_program__on_buffers(step)) {
            (void)ls_comm_destroy_at(p->scenario->file, step->node.mark.line, p->steps[i].comm);
        }
    }
}

static int prepare(rank_program *p) {
    size_t steps = (size_t)p->scenario->step_count, messages = 0;
    for (size_t i = 0; i < steps; i++) {
        messages += 2 * (size_t)p->scenario->steps[i].pairs.count;
    }
    p->steps = ls_arena_alloc(p->arena, steps, sizeof *p->steps);
    p->messages = ls_arena_alloc(p->arena, messages + 1, sizeof *p->messages);
    p->message_room = (int)messages;
    return p->steps != NULL && p->messages != NULL ? LS_OK : LS_ERR_MEMORY;
}

static bool has_tensors(const ls_scenario *scenario) {
    bool has = scenario->tensor_count > 0;
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        has = has || (step->kind < LS_STEP_WAIT && !ls_program__on_buffers(step));
    }
    return has;
}

static int run_program(rank_program *p) {
    bool tensors = has_tensors(p->scenario);
    LS_TRY(prepare(p));
    LS_TRY(open_comms(p));
    int status = tensors ? ls_program__open(&p->tensors, &p->execution, p->arena) : LS_OK;
    status = status == LS_OK ? run_steps(p) : status;
    if (tensors) {
        ls_program__close(&p->tensors);
    }
    LS_TRY(status);
    free_all(p);
    return LS_OK;
}

// The line where calls of tables and tensors are made, but for those of a step.
static int first_line(const ls_scenario *scenario) {
    return scenario->is_program
               ? scenario->tensor_count > 0 ? scenario->tensors[0].node.mark.line : 1
               : scenario->tables[0].node.mark.line;
}

static int run_rank(rank_program *p) {
    if (!p->scenario->is_program || has_tensors(p->scenario)) {
        LS_TRY(
            ls_rank_backend_create(&p->own, p->self, p->scenario->file, first_line(p->scenario)));
    }
    p->execution = (ls_execution){
        .scenario = p->scenario, .backend = p->own, .sink = p->shared->sink, .self = p->self};
    if (p->scenario->is_program) {
        return run_program(p);
    }
    ls_finding finding = {0};
    bool found = false;
    int status = ls_execute__embedding(&p->execution, p->shared->arena, &finding, &found);
    if (found && !p->shared->found) {
        p->shared->finding = finding;
        p->shared->found = true;
    }
    return status;
}

int ls_program__rank_main(ls_rank *self, void *arg) {
    ls_program_run *shared = arg;
    rank_program p = {.shared = shared, .scenario = shared->scenario, .self = self};
    LS_TRY(ls_arena_create(&p.arena, NULL));
    int status = run_rank(&p);
    if (status != LS_OK && shared->error.code == LS_OK) {
        shared->error = *ls_error_last();
        shared->error.code = status;
        shared->error.rank = ls_rank_id(self);
    }
    ls_backend_free(p.own);
    ls_arena_free(p.arena);
    return status;
}
