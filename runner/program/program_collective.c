// Executes a collective of a program on raw per-rank buffers: makes every held rank's call, runs
// them as one group, and emits what each rank received.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "orders/bound.h"
#include "runner/scenario/inputs.h"
#include "runner/program/program.h"

// One rank's call with the buffers it owns.
struct prepared {
    ls_call call;
    void *send;       // memory of the backend; in place: both sides
    void *recv;       //
    void *host_send;  // [send_bytes] what was sent; kept for the reference
    size_t send_count, recv_count;
    size_t send_bytes, recv_bytes, send_bytes_allocated;
};

struct collective {
    ls_program *program;
    const ls_scenario_step *step;
    struct prepared *prepared;  // [prepared_count]
    int prepared_count;
    int capacity;
};

// ---- Memory that the backend's calls accept -----------------------------------------------------
static int buffer_alloc(ls_backend *backend, void **out, size_t bytes, const ls_call *call,
                        const char *what) {
    int status = backend->ops->alloc != NULL
                     ? backend->ops->alloc(backend, out, bytes)
                     : ls_alloc(out, ls_world_allocator(backend->world), bytes, 1);
    if (status != LS_OK) {
        return ls_error_wrap("rank %d: the %s buffer, %zu bytes", call->rank, what, bytes);
    }
    return LS_OK;
}

static void buffer_free(ls_backend *backend, void *pointer, size_t bytes) {
    if (backend->ops->free != NULL) {
        backend->ops->free(backend, pointer, bytes);
    } else {
        ls_free(ls_world_allocator(backend->world), pointer, bytes, 1);
    }
}

static int buffer_write(ls_backend *backend, void *buffer, const void *host, size_t bytes) {
    if (backend->ops->copy_in != NULL) {
        return backend->ops->copy_in(backend, buffer, host, bytes);
    }
    memcpy(buffer, host, bytes);
    return LS_OK;
}

static int buffer_read(ls_backend *backend, void *host, const void *buffer, size_t bytes) {
    if (backend->ops->copy_out != NULL) {
        return backend->ops->copy_out(backend, host, buffer, bytes);
    }
    memcpy(host, buffer, bytes);
    return LS_OK;
}

// ---- Calls --------------------------------------------------------------------------------------
// In place as NCCL means it: one buffer, the smaller side being the rank's own block of the larger.
static int place_in_one_buffer(struct collective *collective, struct prepared *prepared) {
    ls_call *call = &prepared->call;
    size_t bytes =
        prepared->send_bytes > prepared->recv_bytes ? prepared->send_bytes : prepared->recv_bytes;
    int member = ls_comm_member(call->comm, call->rank);
    size_t offset = ls_call_own_offset(call, member) * ls_dtype_bytes(call->dtype);
    LS_TRY(buffer_alloc(collective->program->backend, &prepared->send, bytes, call, "in-place"));
    prepared->send_bytes_allocated = bytes;
    char *base = prepared->send;
    call->send = prepared->send_bytes < prepared->recv_bytes ? base + offset : base;
    call->recv = prepared->recv_bytes < prepared->send_bytes ? base + offset : base;
    return LS_OK;
}

static int place_in_two_buffers(struct collective *collective, struct prepared *prepared) {
    ls_backend *backend = collective->program->backend;
    if (prepared->send_bytes > 0) {
        LS_TRY(
            buffer_alloc(backend, &prepared->send, prepared->send_bytes, &prepared->call, "send"));
        prepared->send_bytes_allocated = prepared->send_bytes;
        prepared->call.send = prepared->send;
    }
    if (prepared->recv_bytes > 0) {
        LS_TRY(buffer_alloc(backend, &prepared->recv, prepared->recv_bytes, &prepared->call,
                            "receive"));
        prepared->call.recv = prepared->recv;
    }
    return LS_OK;
}

static int add_call(struct collective *collective, const ls_call *call) {
    LS_ASSERT(collective->prepared_count < collective->capacity);
    struct prepared *prepared = &collective->prepared[collective->prepared_count];
    size_t element = ls_dtype_bytes(call->dtype);
    prepared->call = *call;
    collective->prepared_count += 1;
    LS_TRY(ls_call_send_elements(&prepared->send_count, call));
    LS_TRY(ls_call_recv_elements(&prepared->recv_count, call));
    LS_TRY(ls_size_mul(&prepared->send_bytes, prepared->send_count, element));
    LS_TRY(ls_size_mul(&prepared->recv_bytes, prepared->recv_count, element));
    if (collective->step->in_place && prepared->send_bytes > 0 && prepared->recv_bytes > 0) {
        LS_TRY(place_in_one_buffer(collective, prepared));
    } else {
        LS_TRY(place_in_two_buffers(collective, prepared));
    }
    if (prepared->send_bytes == 0) {
        return LS_OK;
    }
    LS_TRY(ls_alloc(&prepared->host_send, NULL, prepared->send_bytes, 1));
    LS_TRY(ls_inputs_step_values(prepared->host_send, collective->program->scenario,
                                 collective->step, call->rank, call->dtype, prepared->send_count));
    return buffer_write(collective->program->backend, (void *)(uintptr_t)prepared->call.send,
                        prepared->host_send, prepared->send_bytes);
}

static int add_member_call(struct collective *collective, const ls_comm *comm, int member) {
    const ls_program *program = collective->program;
    ls_call call;
    LS_TRY(ls_program__step_call(&call, program->arena, program->scenario, collective->step, comm,
                                 member));
    return add_call(collective, &call);
}

static int add_comm_calls(struct collective *collective, const ls_comm *comm) {
    for (int member = 0; member < comm->size; member++) {
        if (ls_world_held_index(collective->program->world, comm->ranks[member]) >= 0) {
            LS_TRY(add_member_call(collective, comm, member));
        }
    }
    return LS_OK;
}

static int add_pairs(struct collective *collective) {
    const ls_scenario_step *step = collective->step;
    ls_comm *all = collective->program->all;
    for (int i = 0; i < step->pairs.count; i++) {
        const int64_t *pair = step->pairs.at[i].at;
        for (int side = 0; side < 2; side++) {
            int rank = (int)pair[side];
            if (ls_world_held_index(collective->program->world, rank) < 0) {
                continue;
            }
            ls_call call = {
                .kind = side == 0 ? LS_SEND : LS_RECV,
                .comm = all,
                .rank = rank,
                .dtype = step->dtype,
                .root = (int)pair[1 - side],
                .count = (size_t)step->count,
                .file = collective->program->scenario->file,
                .line = step->node.mark.line,
            };
            LS_TRY(add_call(collective, &call));
        }
    }
    return LS_OK;
}

// ---- Outputs ------------------------------------------------------------------------------------
// Where what a call received goes: p2p calls are numbered per rank.
static void field_of(char out[32], const struct collective *collective, int index) {
    const struct prepared *prepared = &collective->prepared[index];
    int earlier = 0;
    for (int i = 0; i < index; i++) {
        const struct prepared *other = &collective->prepared[i];
        earlier += other->call.rank == prepared->call.rank && other->recv_count > 0;
    }
    (void)snprintf(out, 32, earlier > 0 ? "recv[%d]" : "recv", earlier);
}

static bool sums(const ls_call *call) {
    return ls_collective_of(call->kind)->reduces && ls_dtype_is_float(call->dtype);
}

// What the sums of a call may be.
struct allowed {
    double *exact, *bounds;
    unsigned char *overflow;
};

// What all members' inputs come to in any order, as far as they go into the call's result.
static int allow_sums(struct allowed *out, struct collective *collective,
                      const struct prepared *prepared, const struct prepared *const *members) {
    const ls_call *call = &prepared->call;
    int size = call->comm->size;
    int own = ls_comm_member(call->comm, call->rank);
    const ls_collective *of = ls_collective_of(call->kind);
    int terms = of->prefix ? own + 1 : size;
    size_t skipped = of->send.form == LS_SIDE_BLOCKS ? ls_call_own_offset(call, own) : 0;
    size_t count = prepared->recv_count;
    ls_arena *arena = collective->program->arena;
    const void **in = ls_arena_alloc(arena, (size_t)size, sizeof *in);
    double *premul = ls_arena_alloc(arena, (size_t)size, sizeof *premul);
    ls_bound_element *elements = ls_arena_alloc(arena, count, sizeof *elements);
    *out = (struct allowed){.exact = ls_arena_alloc(arena, count, sizeof *out->exact),
                            .bounds = ls_arena_alloc(arena, count, sizeof *out->bounds),
                            .overflow = ls_arena_alloc(arena, count, 1)};
    if (in == NULL || premul == NULL || out->exact == NULL || out->bounds == NULL ||
        out->overflow == NULL || elements == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int m = 0; m < terms; m++) {
        in[m] = (const char *)members[m]->host_send + skipped * ls_dtype_bytes(call->dtype);
        premul[m] = members[m]->call.premul;
    }
    const ls_reduction reduction = {
        .in = in,
        .in_count = terms,
        .dtype = call->dtype,
        .op = call->op,
        .premul = call->op == LS_PREMUL_SUM ? premul : NULL,
        .count = count,
    };
    LS_TRY(ls_bound_reduction(elements, &reduction, 0, count));
    for (size_t i = 0; i < count; i++) {
        // The exact value as one double lies `lo` beside itself.
        out->exact[i] = elements[i].hi + elements[i].lo;
        out->bounds[i] = elements[i].bound > 0 ? elements[i].bound + fabs(elements[i].lo) : 0.0;
        out->overflow[i] = elements[i].overflow;
    }
    return LS_OK;
}

// What a call must receive: `data`; allowed: where floats are reduced, what they may be.
static int emit_expected(struct collective *collective, int index, const void *data,
                         const struct allowed *allowed) {
    const struct prepared *prepared = &collective->prepared[index];
    ls_shape shape = LS_SHAPE((int64_t)prepared->recv_count);
    char field[32];
    field_of(field, collective, index);
    return ls_program__emit_expected(collective->program, collective->step, NULL, field,
                                     prepared->call.rank, prepared->call.dtype, &shape, data,
                                     allowed->exact, allowed->bounds, allowed->overflow);
}

// What a group's members must receive, by the collective's plain reference, for the calls [first,
// first + size) of one communicator.
static int expect_group(struct collective *collective, int first, int size) {
    ls_arena *arena = collective->program->arena;
    ls_call *calls = ls_arena_alloc(arena, (size_t)size, sizeof *calls);
    const ls_call **pointers = ls_arena_alloc(arena, (size_t)size, sizeof *pointers);
    const struct prepared **members = ls_arena_alloc(arena, (size_t)size, sizeof *members);
    if (calls == NULL || pointers == NULL || members == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int m = 0; m < size; m++) {
        const struct prepared *prepared = &collective->prepared[first + m];
        calls[m] = prepared->call;
        calls[m].send = prepared->host_send;
        calls[m].recv = NULL;
        if (prepared->recv_bytes > 0) {
            calls[m].recv = ls_arena_alloc(arena, prepared->recv_bytes, 1);
            if (calls[m].recv == NULL) {
                return LS_ERR_MEMORY;
            }
        }
        pointers[m] = &calls[m];
        members[m] = prepared;
    }
    LS_TRY(ls_collective_of(calls[0].kind)->reference(pointers, size));
    struct allowed allowed = {0};
    for (int m = 0; m < size; m++) {
        bool same = allowed.exact != NULL && ls_collective_of(calls[m].kind)->replicates;
        if (members[m]->recv_count > 0 && sums(&calls[m]) && !same) {
            LS_TRY(allow_sums(&allowed, collective, members[m], members));
        }
        if (members[m]->recv_count > 0) {
            LS_TRY(emit_expected(collective, first + m, calls[m].recv, &allowed));
        }
    }
    return LS_OK;
}

// A received message must be what its sender sent: sends and receives stand in pairs.
static int expect_pairs(struct collective *collective) {
    for (int i = 0; i + 1 < collective->prepared_count; i += 2) {
        if (collective->prepared[i + 1].recv_count > 0) {
            LS_TRY(emit_expected(collective, i + 1, collective->prepared[i].host_send,
                                 &(struct allowed){0}));
        }
    }
    return LS_OK;
}

static int expect_all(struct collective *collective) {
    if (collective->program->execution->expected == NULL || collective->prepared_count == 0) {
        return LS_OK;
    }
    if (collective->step->kind == LS_STEP_SEND_RECV) {
        return expect_pairs(collective);
    }
    for (int first = 0; first < collective->prepared_count;) {
        int size = collective->prepared[first].call.comm->size;
        LS_TRY(expect_group(collective, first, size));
        first += size;
    }
    return LS_OK;
}

static int emit_all(struct collective *collective) {
    for (int i = 0; i < collective->prepared_count; i++) {
        const struct prepared *prepared = &collective->prepared[i];
        if (prepared->recv_count == 0) {
            continue;
        }
        void *host = NULL;
        LS_TRY(ls_alloc(&host, NULL, prepared->recv_bytes, 1));
        int status = buffer_read(collective->program->backend, host, prepared->call.recv,
                                 prepared->recv_bytes);
        if (status == LS_OK) {
            ls_shape shape = LS_SHAPE((int64_t)prepared->recv_count);
            char field[32];
            field_of(field, collective, i);
            status = ls_program__emit(collective->program->execution->sink, collective->step, NULL,
                                      field, prepared->call.rank, prepared->call.dtype, &shape,
                                      host, sums(&prepared->call));
        }
        ls_free(NULL, host, prepared->recv_bytes, 1);
        LS_TRY(status);
    }
    return LS_OK;
}

// ---- The step -----------------------------------------------------------------------------------
static int add_all_calls(struct collective *collective, ls_comm **own_comm) {
    ls_program *program = collective->program;
    const ls_scenario_step *step = collective->step;
    if (step->kind == LS_STEP_SEND_RECV) {
        return add_pairs(collective);
    }
    if (step->ranks.count > 0) {
        int *ranks = ls_arena_alloc(program->arena, (size_t)step->ranks.count, sizeof *ranks);
        if (ranks == NULL) {
            return LS_ERR_MEMORY;
        }
        for (int i = 0; i < step->ranks.count; i++) {
            ranks[i] = (int)step->ranks.at[i];
        }
        LS_TRY(ls_comm_create(own_comm, program->backend, ranks, step->ranks.count, step->name));
        return add_comm_calls(collective, *own_comm);
    }
    if (step->axis < 0) {
        return add_comm_calls(collective, program->all);
    }
    ls_axis *axis = NULL;
    LS_TRY(ls_program__axis(&axis, program, step->axis));
    for (int i = 0; i < axis->comm_count; i++) {
        LS_TRY(add_comm_calls(collective, axis->comms[i]));
    }
    return LS_OK;
}

static int run_step(struct collective *collective, ls_comm **own_comm) {
    ls_program *program = collective->program;
    LS_TRY(add_all_calls(collective, own_comm));
    size_t count = (size_t)collective->prepared_count;
    ls_call *calls = ls_arena_alloc(program->arena, count, sizeof *calls);
    if (calls == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        calls[i] = collective->prepared[i].call;
    }
    if (count > 0) {
        LS_TRY(ls_backend_run(program->backend, calls, (int)count));
    }
    LS_TRY(expect_all(collective));
    return emit_all(collective);
}

static void free_buffers(struct collective *collective) {
    ls_backend *backend = collective->program->backend;
    for (int i = 0; i < collective->prepared_count; i++) {
        struct prepared *prepared = &collective->prepared[i];
        if (prepared->send != NULL) {
            buffer_free(backend, prepared->send, prepared->send_bytes_allocated);
        }
        if (prepared->recv != NULL) {
            buffer_free(backend, prepared->recv, prepared->recv_bytes);
        }
        ls_free(NULL, prepared->host_send, prepared->send_bytes, 1);
    }
}

int ls_program__collective(ls_program *program, const ls_scenario_step *step) {
    struct collective collective = {.program = program, .step = step};
    // Every held rank makes one call of a collective, and there are two ends of each message.
    int most = 2 * (step->pairs.count > program->scenario->ranks ? step->pairs.count
                                                                 : program->scenario->ranks);
    collective.prepared = ls_arena_alloc(program->arena, (size_t)most, sizeof *collective.prepared);
    if (collective.prepared == NULL) {
        return LS_ERR_MEMORY;
    }
    collective.capacity = most;
    ls_comm *own_comm = NULL;
    int status = run_step(&collective, &own_comm);
    free_buffers(&collective);
    ls_comm_free(own_comm);
    return status;
}
