// The expected results of a step's calls on buffers: the collective's plain reference on the sent
// data, and for sums of floats their exact values with a bound.
#include <stdio.h>
#include <string.h>
#include <math.h>

#include "orders/bound.h"
#include "runner/program/program.h"

static bool sums(const ls_call *call, int member) {
    const ls_collective *of = ls_collective_of(call->kind);
    return of->reduces && ls_dtype_is_float(call->dtype) && call->dtype != LS_FIELD &&
           ls_collective_term_count(of, member, call->comm->size) > 0;
}

// The allowed sums of a call.
struct allowed {
    double *exact, *bounds;
    unsigned char *overflow;
};

// The sum of all members' inputs in any order, for the elements of the call's result.
static int allow_sums(struct allowed *out, const ls_program *program, const ls_made_call *made,
                      const ls_made_call *const *members) {
    const ls_call *call = &made->call;
    int size = call->comm->size;
    int own = ls_comm_member(call->comm, call->rank);
    const ls_collective *of = ls_collective_of(call->kind);
    int terms = ls_collective_term_count(of, own, size);
    size_t skipped = of->send.form == LS_SIDE_BLOCKS ? ls_call_own_offset(call, own) : 0;
    size_t count = made->recv_count;
    ls_arena *arena = program->arena;
    const void **in = ls_arena_alloc(arena, (size_t)size, sizeof *in);
    double *premul = ls_arena_alloc(arena, (size_t)size, sizeof *premul);
    ls_bound_element *elements = ls_arena_alloc(arena, count, sizeof *elements);
    *out = (struct allowed){.exact = ls_arena_alloc(arena, count, sizeof *out->exact),
                            .bounds = ls_arena_alloc(arena, count, sizeof *out->bounds),
                            .overflow = ls_arena_alloc(arena, count, 1)};
    LS_TRY_MEMORY(in != NULL && premul != NULL && out->exact != NULL && out->bounds != NULL &&
                  out->overflow != NULL && elements != NULL);
    for (int m = 0; m < terms; m++) {
        in[m] = (const char *)members[m]->values + skipped * ls_dtype_bytes(call->dtype);
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
        // The remainder `lo` of an exact value beside its double.
        out->exact[i] = elements[i].hi + elements[i].lo;
        out->bounds[i] = elements[i].bound > 0 ? elements[i].bound + fabs(elements[i].lo) : 0.0;
        out->overflow[i] = elements[i].overflow;
    }
    return LS_OK;
}

// The expected result of a call: `data`; allowed: the bound, if floats are reduced.
static int emit_expected(const ls_program *program, const ls_scenario_step *step, int index,
                         const void *data, const struct allowed *allowed) {
    const ls_step_calls *calls = &program->calls[step - program->scenario->steps];
    const ls_made_call *made = &calls->at[index];
    char field[32];
    ls_program__field_of(field, calls, index);
    return ls_program__emit_expected(program,
                                     (ls_stage_output){.stage = step->name,
                                                       .field = field,
                                                       .rank = made->call.rank,
                                                       .dtype = made->call.dtype,
                                                       .shape = LS_SHAPE((int64_t)made->recv_count),
                                                       .data = data,
                                                       .exact = allowed->exact,
                                                       .bounds = allowed->bounds,
                                                       .overflow = allowed->overflow});
}

// The expected results of a group's members, from the collective's plain reference, for the calls
// [first, first + size) of one communicator.
static int expect_group(const ls_program *program, const ls_scenario_step *step, int first,
                        int size) {
    const ls_step_calls *made = &program->calls[step - program->scenario->steps];
    ls_arena *arena = program->arena;
    ls_call *calls = ls_arena_alloc(arena, (size_t)size, sizeof *calls);
    const ls_call **pointers = ls_arena_alloc(arena, (size_t)size, sizeof *pointers);
    const ls_made_call **members = ls_arena_alloc(arena, (size_t)size, sizeof *members);
    LS_TRY_MEMORY(calls != NULL && pointers != NULL && members != NULL);
    for (int m = 0; m < size; m++) {
        members[m] = &made->at[first + m];
        calls[m] = members[m]->call;
        calls[m].send = members[m]->values;
        calls[m].recv = NULL;
        if (members[m]->recv_count > 0) {
            calls[m].recv =
                ls_arena_alloc(arena, members[m]->recv_count, ls_dtype_bytes(calls[m].dtype));
            LS_TRY_MEMORY(calls[m].recv != NULL);
        }
        pointers[m] = &calls[m];
    }
    LS_TRY(ls_collective_of(calls[0].kind)->reference(pointers, size));
    struct allowed allowed = {0};
    for (int m = 0; m < size; m++) {
        bool same = allowed.exact != NULL && ls_collective_of(calls[m].kind)->replicates;
        if (members[m]->recv_count > 0) {
            LS_TRY(sums(&calls[m], m) && !same ? allow_sums(&allowed, program, members[m], members)
                                               : LS_OK);
            LS_TRY(emit_expected(program, step, first + m, calls[m].recv, &allowed));
        }
    }
    return LS_OK;
}

// A received message must equal the sent one: sends and receives are in pairs.
static int expect_messages(const ls_program *program, const ls_scenario_step *step) {
    const ls_step_calls *calls = &program->calls[step - program->scenario->steps];
    for (int i = 0; i + 1 < calls->count; i += 2) {
        if (calls->at[i + 1].recv_count > 0) {
            LS_TRY(emit_expected(program, step, i + 1, calls->at[i].values, &(struct allowed){0}));
        }
    }
    return LS_OK;
}

int ls_program__expect_received(const ls_program *program, const ls_scenario_step *step) {
    const ls_step_calls *calls = &program->calls[step - program->scenario->steps];
    if (program->execution->expected == NULL || calls->count == 0) {
        return LS_OK;
    }
    if (!ls_step_is_collective(step->kind)) {
        return expect_messages(program, step);
    }
    for (int first = 0; first < calls->count;) {
        int size = calls->at[first].call.comm->size;
        LS_TRY(expect_group(program, step, first, size));
        first += size;
    }
    return LS_OK;
}

// ---- Results ------------------------------------------------------------------------------------
void ls_program__field_of(char out[32], const ls_step_calls *calls, int index) {
    int earlier = 0;
    bool many = calls->at[index].call.kind == LS_RECV;  // else a rank receives once
    for (int i = 0; many && i < index; i++) {
        const ls_call *other = &calls->at[i].call;
        earlier += other->rank == calls->at[index].call.rank && other->kind == LS_RECV;
    }
    (void)snprintf(out, 32, earlier > 0 ? "recv[%d]" : "recv", earlier);
}
