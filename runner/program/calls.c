// Steps on buffers: collectives and messages. A process that holds ranks makes their calls
// together. A rank that runs as a thread makes its own calls on its own memory, with its
// exceptions. Both use the same calls, contents of buffers and reports.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runner/program/program.h"
#include "runner/scenario/inputs.h"

static bool is_message_step(const ls_scenario_step *step) {
    return step->kind == LS_STEP_SEND_RECV;
}

static ls_step_calls *calls_of(const ls_program *program, const ls_scenario_step *step) {
    return &program->calls[step - program->scenario->steps];
}

static bool runs(const ls_program *program, int rank) {
    return program->self != NULL ? ls_rank_id(program->self) == rank
                                 : ls_world_held_index(program->world, rank) >= 0;
}

// ---- Memory -------------------------------------------------------------------------------------
// A rank's memory is watched and is in host memory; a process uses memory that the backend's calls
// accept.
static int allocate(const ls_program *program, void **out, size_t bytes, const ls_call *call,
                    const char *what) {
    ls_backend *backend = program->backend;
    if (program->self != NULL) {
        *out = ls_rank_alloc_at(call->file, call->line, program->self, bytes);
        return *out != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    int status = ls_world_ask_gate(backend->world, bytes);
    if (status == LS_OK) {
        status = backend->ops->alloc != NULL ? backend->ops->alloc(backend, out, bytes)
                                             : ls_alloc(out, bytes, 1);
    }
    if (status != LS_OK) {
        return ls_error_wrap("rank %d: the %s buffer, %zu bytes", call->rank, what, bytes);
    }
    return LS_OK;
}

static void release(const ls_program *program, void *memory, size_t bytes) {
    ls_backend *backend = program->backend;
    if (program->self != NULL) {
        ls_rank_free(program->self, memory);
    } else if (memory != NULL && backend->ops->free != NULL) {
        backend->ops->free(backend, memory, bytes);
    } else if (memory != NULL) {
        ls_free(memory, bytes, 1);
    }
}

static int write_to(const ls_program *program, void *memory, const void *host, size_t bytes) {
    if (program->self == NULL && program->backend->ops->copy_in != NULL) {
        return program->backend->ops->copy_in(program->backend, memory, host, bytes);
    }
    memcpy(memory, host, bytes);
    return LS_OK;
}

static bool is_elsewhere(const ls_program *program, const ls_made_call *made) {
    ls_backend *backend = made->call.comm->backend;
    return (program->self == NULL && backend->ops->copy_out != NULL) ||
           (backend->ops->is_device != NULL && backend->ops->is_device(backend, made->call.recv));
}

static int read_back(void *out, const ls_made_call *made, size_t bytes) {
    ls_backend *backend = made->call.comm->backend;
    return backend->ops->copy_out != NULL
               ? backend->ops->copy_out(backend, out, made->call.recv, bytes)
               : backend->ops->read_device(backend, out, made->call.recv, bytes);
}

// ---- Buffers ------------------------------------------------------------------------------------
// In place as NCCL defines it: one buffer, whose smaller side is the rank's own block of the
// larger. shift: elements between the starts of the two sides.
static int place_in_one(const ls_program *program, ls_made_call *made, size_t shift) {
    ls_call *call = &made->call;
    size_t element = ls_dtype_bytes(call->dtype), send = 0, recv = 0;
    LS_TRY(ls_call_send_elements(&send, call));
    LS_TRY(ls_call_recv_elements(&recv, call));
    size_t own = shift == 0 ? ls_call_own_offset(call, ls_comm_member(call->comm, call->rank)) : 0;
    size_t larger = made->send_count > made->recv_count ? made->send_count : made->recv_count;
    LS_TRY(ls_size_add(&made->send_bytes, larger, shift));
    LS_TRY(ls_size_mul(&made->send_bytes, made->send_bytes, element));
    LS_TRY(allocate(program, &made->send, made->send_bytes, call, "in-place"));
    char *base = made->send;
    call->send = send < recv ? base + own * element : base;
    call->recv = recv < send ? base + own * element : base + shift * element;
    return LS_OK;
}

static int place(const ls_program *program, const ls_scenario_step *step, ls_made_call *made) {
    ls_call *call = &made->call;
    const ls_scenario_except *except = made->except;
    size_t element = ls_dtype_bytes(call->dtype);
    size_t room = except != NULL && except->room > 0 ? (size_t)except->room : SIZE_MAX;
    size_t shift = except != NULL ? (size_t)except->overlap : 0;
    LS_TRY(ls_call_send_elements(&made->send_count, call));
    LS_TRY(ls_call_recv_elements(&made->recv_count, call));
    bool both = made->send_count > 0 && made->recv_count > 0;
    made->send_count = made->send_count < room ? made->send_count : room;
    made->recv_count = made->recv_count < room ? made->recv_count : room;
    if (both && (step->call.in_place || shift > 0)) {
        return place_in_one(program, made, shift);
    }
    LS_TRY(ls_size_mul(&made->send_bytes, made->send_count, element));
    LS_TRY(ls_size_mul(&made->recv_bytes, made->recv_count, element));
    if (made->send_count > 0) {
        LS_TRY(allocate(program, &made->send, made->send_bytes, call, "send"));
    }
    if (made->recv_count > 0) {
        LS_TRY(allocate(program, &made->recv, made->recv_bytes, call, "receive"));
    }
    call->send = made->send;
    call->recv = made->recv;
    return LS_OK;
}

static int write_values(const ls_program *program, const ls_scenario_step *step,
                        ls_made_call *made) {
    const ls_call *call = &made->call;
    const ls_scenario_except *except = made->except;
    size_t count = made->send_count;
    size_t written = except != NULL && except->unwritten ? count - 1 : count;
    LS_TRY(ls_inputs_step_values(made->values, program->scenario, step, call->rank, call->dtype,
                                 count));
    if (except != NULL && except->poke != 0) {
        ls_element_from_f64(made->values, call->dtype, except->poke == 1 ? NAN : INFINITY);
    }
    return write_to(program, (void *)(uintptr_t)call->send, made->values,
                    written * ls_dtype_bytes(call->dtype));
}

static int fill(const ls_program *program, const ls_scenario_step *step, ls_made_call *made) {
    size_t element = ls_dtype_bytes(made->call.dtype);
    if (made->send_count == 0 || program->execution->shape_only) {
        return LS_OK;
    }
    LS_TRY(ls_alloc(&made->values, made->send_count, element));
    int status = write_values(program, step, made);
    if (status != LS_OK || program->execution->expected == NULL) {
        ls_free(made->values, made->send_count, element);
        made->values = NULL;
    }
    return status;
}

// ---- Calls --------------------------------------------------------------------------------------
// The next call of the step; *out NULL: the rank skips it.
static int add(ls_made_call **out, const ls_program *program, const ls_scenario_step *step,
               const ls_comm *comm, int member) {
    ls_step_calls *calls = calls_of(program, step);
    LS_ASSERT(calls->count < calls->room);
    ls_made_call *made = &calls->at[calls->count];
    LS_TRY(ls_program__member_call(made, program, step, comm, member));
    calls->count += made->times > 0;
    *out = made->times > 0 ? made : NULL;
    return LS_OK;
}

static int add_member(const ls_program *program, const ls_scenario_step *step, const ls_comm *comm,
                      int member) {
    ls_made_call *made = NULL;
    LS_TRY(add(&made, program, step, comm, member));
    if (made == NULL) {
        return LS_OK;
    }
    LS_TRY(place(program, step, made));
    return fill(program, step, made);
}

static int add_members(const ls_program *program, const ls_scenario_step *step,
                       const ls_comm *comm) {
    if (program->self != NULL) {
        int own = ls_comm_member(comm, ls_rank_id(program->self));
        return own >= 0 ? add_member(program, step, comm, own) : LS_OK;
    }
    for (int member = 0; member < comm->size; member++) {
        if (runs(program, comm->ranks[member])) {
            LS_TRY(add_member(program, step, comm, member));
        }
    }
    return LS_OK;
}

// One end of a message.
static int add_end(const ls_program *program, const ls_scenario_step *step, const ls_comm *all,
                   int message, int side) {
    const int64_t *pair = step->call.pairs.at[message].at;
    ls_made_call *made = NULL;
    if (runs(program, (int)pair[side])) {
        LS_TRY(add(&made, program, step, all, (int)pair[side]));
    }
    if (made == NULL) {
        return LS_OK;
    }
    made->call.kind = side == 0 ? LS_SEND : LS_RECV;
    made->call.root = (int)pair[1 - side];
    made->call.line = ls_program__line(program, step);
    made->message = message;
    LS_TRY(place(program, step, made));
    return fill(program, step, made);
}

static int add_messages(const ls_program *program, const ls_scenario_step *step) {
    const ls_comm *all =
        program->self != NULL ? ls_comm_of(ls_rank_world(program->self)) : program->all;
    for (int i = 0; i < step->call.pairs.count; i++) {
        LS_TRY(add_end(program, step, all, i, 0));
        LS_TRY(add_end(program, step, all, i, 1));
    }
    return LS_OK;
}

// The group's communicators: a rank is in one of them, or in none; *own: one that was created for
// this step only.
static int add_calls(ls_program *program, const ls_scenario_step *step, ls_comm **own) {
    const ls_step_calls *calls = calls_of(program, step);
    const ls_int_list *ranks = &step->call.ranks;
    if (is_message_step(step)) {
        return add_messages(program, step);
    }
    if (program->self != NULL) {
        return calls->comm != NULL ? add_members(program, step, ls_comm_of(calls->comm)) : LS_OK;
    }
    if (ranks->count > 0) {
        int *members = ls_arena_alloc(program->arena, (size_t)ranks->count, sizeof *members);
        LS_TRY_MEMORY(members != NULL);
        for (int i = 0; i < ranks->count; i++) {
            members[i] = (int)ranks->at[i];
        }
        char subset[LS_COMM_NAME_BYTES];  // the name that ranks use for a communicator of their own
        ls_comm_subset_name(subset, program->all);
        LS_TRY(ls_comm_create(own, program->backend, members, ranks->count,
                              program->execution->shape_only ? subset : step->name));
        return add_members(program, step, *own);
    }
    if (step->call.axis < 0) {
        return add_members(program, step, program->all);
    }
    ls_axis *axis = NULL;
    LS_TRY(ls_program__axis(&axis, program, step->call.axis));
    for (int i = 0; i < axis->comm_count; i++) {
        LS_TRY(add_members(program, step, axis->comms[i]));
    }
    return LS_OK;
}

// ---- Making them --------------------------------------------------------------------------------
static int run_together(const ls_program *program, const ls_step_calls *calls) {
    size_t count = (size_t)calls->count;
    ls_call *all = ls_arena_alloc(program->arena, count, sizeof *all);
    LS_TRY_MEMORY(all != NULL);
    for (size_t i = 0; i < count; i++) {
        all[i] = calls->at[i].call;
    }
    return count > 0 ? ls_backend_run(program->backend, all, (int)count) : LS_OK;
}

static int post_range(const ls_program *program, ls_step_calls *calls, int first, int end,
                      bool async) {
    for (int i = first; i < end; i++) {
        const ls_made_call *made = &calls->at[i];
        for (int t = 0; t < made->times; t++) {
            ls_request **request = async ? &calls->requests[calls->request_count++] : NULL;
            calls->lost = async;
            LS_TRY(ls_post_at(program->scenario->file, made->call.line, &made->call, calls->comm,
                              request));
        }
    }
    return LS_OK;
}

// Messages from the last to the first; the two ends of one stay in order.
static int post_reversed(const ls_program *program, ls_step_calls *calls, bool async) {
    for (int end = calls->count; end > 0;) {
        int first = end - 1;
        while (first > 0 && calls->at[first - 1].message == calls->at[end - 1].message) {
            first -= 1;
        }
        LS_TRY(post_range(program, calls, first, end, async));
        end = first;
    }
    return LS_OK;
}

// As the rank makes them: messages as one group, unless each is waited for separately.
static int post(const ls_program *program, const ls_scenario_step *step, ls_step_calls *calls) {
    const char *file = program->scenario->file;
    const ls_scenario_except *except = ls_program__except(program, step);
    bool async = step->call.asynchronous, left_out = except != NULL && except->skip;
    bool grouped = is_message_step(step) && !left_out && !step->call.blocking && !async;
    int line = ls_program__line(program, step);
    if (async) {
        calls->requests =
            ls_arena_alloc(program->arena, 2 * (size_t)calls->count, sizeof(ls_request *));
        LS_TRY(calls->requests != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    LS_TRY(grouped ? ls_group_start_at(file, line, program->self) : LS_OK);
    int status = except != NULL && except->reverse
                     ? post_reversed(program, calls, async)
                     : post_range(program, calls, 0, calls->count, async);
    if (grouped) {
        int ended = ls_group_end_at(file, line, program->self);
        status = status == LS_OK ? ended : status;
    }
    if (status == LS_OK && step->call.replica && calls->count > 0) {
        const ls_made_call *made = &calls->at[0];
        status = ls_replica_declare_at(file, made->call.line, made->call.recv, made->recv_count,
                                       made->call.dtype, calls->comm);
    }
    return status;
}

static int emit(const ls_program *program, const ls_scenario_step *step, int index,
                const void *data) {
    const ls_step_calls *calls = calls_of(program, step);
    const ls_made_call *made = &calls->at[index];
    bool reduces = ls_collective_of(ls_step_call_kind(step->kind))->reduces;
    char field[32];
    ls_program__field_of(field, calls, index);
    return ls_program__emit(
        program->execution->sink,
        &(ls_stage_output){.stage = step->name,
                           .field = field,
                           .rank = made->call.rank,
                           .dtype = made->call.dtype,
                           .shape = LS_SHAPE((int64_t)made->recv_count),
                           .data = data,
                           .reduces = reduces && ls_dtype_is_float(made->call.dtype)});
}

static int emit_copy(const ls_program *program, const ls_scenario_step *step, int index) {
    const ls_made_call *made = &calls_of(program, step)->at[index];
    size_t element = ls_dtype_bytes(made->call.dtype);
    void *copy = NULL;
    LS_TRY(ls_alloc(&copy, made->recv_count, element));
    int status = read_back(copy, made, made->recv_count * element);
    status = status == LS_OK ? emit(program, step, index, copy) : status;
    ls_free(copy, made->recv_count, element);
    return status;
}

int ls_program__emit_received(const ls_program *program, const ls_scenario_step *step) {
    const ls_step_calls *calls = calls_of(program, step);
    for (int i = 0; i < calls->count && program->execution->sink != NULL; i++) {
        const ls_made_call *made = &calls->at[i];
        if (made->recv_count > 0) {
            LS_TRY(is_elsewhere(program, made) ? emit_copy(program, step, i)
                                               : emit(program, step, i, made->call.recv));
        }
    }
    return LS_OK;
}

// ---- The step -----------------------------------------------------------------------------------
static void free_step(const ls_program *program, ls_step_calls *calls) {
    for (int i = 0; i < calls->count; i++) {
        ls_made_call *made = &calls->at[i];
        release(program, made->send, made->send_bytes);
        release(program, made->recv, made->recv_bytes);
        ls_free(made->values, made->send_count, ls_dtype_bytes(made->call.dtype));
    }
    calls->count = 0;
}

static int run_step(ls_program *program, const ls_scenario_step *step, ls_comm **own) {
    ls_step_calls *calls = calls_of(program, step);
    LS_TRY(add_calls(program, step, own));
    if (program->self != NULL) {
        LS_TRY(post(program, step, calls));
        return step->call.asynchronous ? LS_OK : ls_program__emit_received(program, step);
    }
    LS_TRY(run_together(program, calls));
    LS_TRY(ls_program__expect_received(program, step));
    return ls_program__emit_received(program, step);
}

// The ends of a step's messages on this process's ranks.
static int count_ends(const ls_program *program, const ls_scenario_step *step) {
    int count = 0;
    for (int i = 0; i < step->call.pairs.count; i++) {
        const int64_t *pair = step->call.pairs.at[i].at;
        count += (runs(program, (int)pair[0]) ? 1 : 0) + (runs(program, (int)pair[1]) ? 1 : 0);
    }
    return count;
}

int ls_program__call_step(ls_program *program, const ls_scenario_step *step) {
    ls_step_calls *calls = calls_of(program, step);
    ls_comm *own = NULL;
    int members = program->self != NULL ? 1 : ls_world_held_count(program->world);
    calls->room = is_message_step(step) ? count_ends(program, step) : members;
    calls->at = ls_arena_alloc(program->arena, (size_t)calls->room, sizeof *calls->at);
    LS_TRY_MEMORY(calls->at != NULL);
    int status = run_step(program, step, &own);
    if (program->self == NULL) {  // a rank may wait for, read and write its buffers later
        free_step(program, calls);
    }
    ls_comm_free(own);
    return status;
}

// ---- A rank's communicators ---------------------------------------------------------------------
static int open_group(const ls_program *program, const ls_scenario_step *step, ls_rank_comm **out) {
    const ls_scenario_except *except = ls_program__except(program, step);
    const ls_int_list *list =
        except != NULL && except->group.count > 0 ? &except->group : &step->call.ranks;
    int *members = ls_arena_alloc(program->arena, (size_t)list->count, sizeof *members);
    LS_TRY_MEMORY(members != NULL);
    for (int i = 0; i < list->count; i++) {
        members[i] = (int)list->at[i];
    }
    return ls_comm_subset_at(program->scenario->file, ls_program__line(program, step), out,
                             ls_rank_world(program->self), members, list->count);
}

int ls_program__open_comms(ls_program *program) {
    const ls_scenario *scenario = program->scenario;
    // All processes open the communicators of tensors together, before a defect can keep one away.
    // Otherwise the others would wait where the simulated ones do not.
    for (int axis = 0; axis < scenario->mesh.ndim && scenario->tensor_count > 0; axis++) {
        ls_rank_comm *opened = NULL;
        LS_TRY(ls_rank_axis(&opened, program->self, axis));
    }
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        ls_rank_comm **comm = &program->calls[i].comm;
        if (!ls_step_on_buffers(step)) {
            continue;
        }
        if (step->call.ranks.count > 0) {
            LS_TRY(open_group(program, step, comm));
        } else if (step->call.axis >= 0) {
            LS_TRY(ls_rank_axis(comm, program->self, step->call.axis));
        } else {
            *comm = ls_rank_world(program->self);
        }
    }
    return LS_OK;
}

void ls_program__free_calls(ls_program *program) {
    const ls_scenario *scenario = program->scenario;
    for (int i = 0; i < scenario->step_count; i++) {
        if (!program->calls[i].lost) {
            free_step(program, &program->calls[i]);
        }
    }
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (ls_step_on_buffers(step) && step->call.ranks.count > 0) {
            (void)ls_comm_destroy_at(scenario->file, step->node.mark.line, program->calls[i].comm);
        }
    }
}
