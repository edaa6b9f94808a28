// See tally.h.
#include "runner/program/tally.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runner/plan/scenario_machine.h"
#include "runner/program/program.h"
#include "runner/trace/trace.h"

bool ls_tally_possible(const ls_scenario *scenario) {
    bool possible = scenario->is_program && scenario->tensor_count == 0;
    for (int i = 0; i < scenario->step_count; i++) {
        possible = possible && !ls_step_on_tensors(&scenario->steps[i]);
    }
    return possible;
}

int ls_tally_begin(ls_tally *out, const ls_scenario *scenario, struct ls_trace *trace,
                   ls_arena *arena) {
    ls_text errors = {0};
    *out = (ls_tally){.scenario = scenario, .arena = arena, .trace = trace};
    out->ready_us = ls_arena_alloc(arena, (size_t)scenario->ranks, sizeof(double));
    int status = out->ready_us != NULL ? ls_scenario_machine(&out->machine, &errors, scenario, NULL)
                                       : LS_ERR_MEMORY;
    ls_text_free(&errors);
    return status;
}

void ls_tally_restart(ls_tally *tally) {
    tally->row_count = 0;
    tally->sets = tally->calls = tally->bytes = 0;
    tally->end_us = 0;
    memset(tally->ready_us, 0, (size_t)tally->scenario->ranks * sizeof(double));
}

// ---- Rows ---------------------------------------------------------------------------------------
static bool make_room(ls_tally *tally) {
    if (tally->row_count < tally->row_room) {
        return true;
    }
    int room = tally->row_room, count = tally->row_count;
    ls_tally_place *places =
        ls_arena_grow(tally->arena, tally->places, count, &room, sizeof *places);
    room = tally->row_room;
    ls_call_row *rows = ls_arena_grow(tally->arena, tally->rows, count, &room, sizeof *rows);
    if (rows == NULL || places == NULL) {
        return false;
    }
    tally->rows = rows;
    tally->places = places;
    tally->row_room = room;
    return true;
}

// The step at a line, or one of its exceptions; NULL: the run's own call.
static const char *step_at(const ls_scenario *scenario, int line) {
    const char *name = NULL;
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        name = step->node.mark.line <= line ? step->name : name;
    }
    return name;
}

// A new row after those of smaller lines.
static ls_call_row *add_row(ls_tally *tally, const ls_call *call) {
    const ls_call_row made = {
        .call = ls_kind_name(call->kind),
        .purpose = step_at(tally->scenario, call->line),
        .where = ls_arena_printf(tally->arena, "%s:%d", call->file, call->line),
    };
    if (made.where == NULL || !make_room(tally)) {
        return NULL;
    }
    int at = tally->row_count++;
    for (; at > 0 && tally->places[at - 1].line > call->line; at--) {
        tally->rows[at] = tally->rows[at - 1];
        tally->places[at] = tally->places[at - 1];
    }
    tally->rows[at] = made;
    tally->places[at] = (ls_tally_place){.line = call->line, .comm = INT_MAX};
    return &tally->rows[at];
}

// Of several communicators along an axis, the row names the first.
static ls_call_row *row_of(ls_tally *tally, const ls_call *call) {
    const char *kind = ls_kind_name(call->kind);
    ls_call_row *row = NULL;
    for (int i = tally->row_count; i-- > 0 && row == NULL;) {
        bool same = tally->places[i].line == call->line && strcmp(tally->rows[i].call, kind) == 0;
        row = same ? &tally->rows[i] : NULL;
    }
    row = row != NULL ? row : add_row(tally, call);
    ls_tally_place *place = row != NULL ? &tally->places[row - tally->rows] : NULL;
    if (place != NULL && call->comm->id < place->comm) {
        place->comm = call->comm->id;
        row->communicator = ls_arena_strdup(tally->arena, call->comm->name);
        row = row->communicator != NULL ? row : NULL;
    }
    return row;
}

// The call's sent bytes, and its larger buffer.
static void count_bytes(uint64_t *sent, uint64_t *larger, const ls_call *call) {
    size_t send = 0, recv = 0;
    if (ls_call_send_elements(&send, call) != LS_OK ||
        ls_call_recv_elements(&recv, call) != LS_OK) {
        send = recv = 0;  // it has matched, so its sizes are valid
    }
    *sent = send * ls_dtype_bytes(call->dtype);
    *larger = (send > recv ? send : recv) * ls_dtype_bytes(call->dtype);
}

void ls_tally_met(void *arg, const ls_call *const *calls, int size) {
    ls_tally *tally = arg;
    uint64_t sent = 0, most = 0;
    double start = 0;
    bool one_host = true;
    const ls_topology *machine = &tally->machine;
    for (int m = 0; m < size; m++) {
        const ls_call *call = calls[m];
        uint64_t own = 0, larger = 0;
        count_bytes(&own, &larger, call);
        sent += own;
        most = larger > most ? larger : most;
        start = tally->ready_us[call->rank] > start ? tally->ready_us[call->rank] : start;
        one_host = one_host &&
                   call->rank / machine->ranks_per_host == calls[0]->rank / machine->ranks_per_host;
    }
    double end = start + ls_trace_duration_us(machine, calls[0]->kind, size, most, one_host);
    for (int m = 0; m < size; m++) {
        tally->ready_us[calls[m]->rank] = end;
    }
    tally->end_us = end > tally->end_us ? end : tally->end_us;
    tally->sets += 1;
    tally->calls += (uint64_t)size;
    tally->bytes += sent;
    ls_call_row *row = row_of(tally, calls[0]);
    if (row == NULL) {
        tally->failed = true;
        return;
    }
    row->calls += (uint64_t)size;
    row->bytes += sent;
    if (tally->trace != NULL) {
        ls_trace_met(tally->trace, calls, size);
    }
}

const char *ls_tally_tell(const ls_tally *tally) {
    return ls_arena_printf(tally->arena,
                           "unjudged: its calls match (%" PRIu64 " in %" PRIu64 " sets, %" PRIu64
                           " bytes sent, %.6g ms on %s); their results need data",
                           tally->calls, tally->sets, tally->bytes, tally->end_us / 1000,
                           tally->machine.name);
}
