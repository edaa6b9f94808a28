// Writes traces: Chrome's trace event format, and text with a column per rank.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "runner/trace/trace_internal.h"

// ---- JSON ---------------------------------------------------------------------------------------
static void open_event(ls_json *json, const char *phase, int pid, int tid, double ts_us) {
    ls_json_object_open(json);
    ls_json_member_string(json, "ph", phase);
    ls_json_member_int(json, "pid", pid);
    ls_json_member_int(json, "tid", tid);
    ls_json_member_double(json, "ts", ts_us);
}

static void metadata(ls_json *json, const char *what, int pid, int tid, const char *name) {
    open_event(json, "M", pid, tid, 0);
    ls_json_member_string(json, "name", what);
    ls_json_member_object(json, "args");
    ls_json_member_string(json, "name", name);
    ls_json_object_close(json);
    ls_json_object_close(json);
}

static void sort_index(ls_json *json, const char *what, int pid, int tid, int index) {
    open_event(json, "M", pid, tid, 0);
    ls_json_member_string(json, "name", what);
    ls_json_member_object(json, "args");
    ls_json_member_int(json, "sort_index", index);
    ls_json_object_close(json);
    ls_json_object_close(json);
}

// Viewers take process 0 for the idle one, and a thread numbered as its process for the main one:
// so a case's number is above every rank's.
static int pid_of(int number) {
    return LS_RANKS_MAX + 1 + number;
}

static void write_case(ls_json *json, const ls_trace_case *of, int number) {
    int pid = pid_of(number);
    metadata(json, "process_name", pid, 0, of->name);
    sort_index(json, "process_sort_index", pid, 0, number);
    for (int rank = 0; rank < of->ranks; rank++) {
        char name[32];
        (void)snprintf(name, sizeof name, "rank %d", rank);
        metadata(json, "thread_name", pid, rank, name);
        sort_index(json, "thread_sort_index", pid, rank, rank);
    }
}

static void write_slice(ls_json *json, const ls_trace_set *set, const ls_trace_part *part,
                        size_t number) {
    open_event(json, "X", pid_of(set->trace_case), part->rank, part->start_us);
    ls_json_member_double(json, "dur", set->end_us - part->start_us);
    ls_json_member_string(json, "name", ls_kind_name(part->kind));
    bool message = ls_kind_is_message(part->kind);
    ls_json_member_string(json, "cat", message ? "message" : "collective");
    ls_json_member_object(json, "args");
    ls_json_member_uint(json, "set", number);
    ls_json_member_string(json, "communicator", set->comm);
    ls_json_member_uint(json, "seq", part->seq);
    ls_json_member_string(json, "dtype", ls_dtype_name(set->dtype));
    ls_json_member_uint(json, "count", part->count);
    if (set->reduces) {
        ls_json_member_string(json, "op", ls_op_name(set->op));
    }
    if (set->root >= 0) {
        ls_json_member_int(json, "root", set->root);
    }
    if (message) {
        const ls_trace_part *other = &set->parts[part == set->parts ? 1 : 0];
        ls_json_member_int(json, "peer", other->rank);
    }
    ls_json_member_given(json, "algorithm", set->algorithm);
    ls_json_member_given(json, "protocol", set->protocol);
    if (set->channels > 0) {
        ls_json_member_int(json, "channels", set->channels);
    }
    ls_json_member_uint(json, "send_bytes", part->send_bytes);
    ls_json_member_uint(json, "recv_bytes", part->recv_bytes);
    char where[512];
    int length = snprintf(where, sizeof where, "%.480s", part->file);
    if (part->line > 0) {
        (void)snprintf(where + length, sizeof where - (size_t)length, ":%d", part->line);
    }
    ls_json_member_string(json, "where", where);
    ls_json_object_close(json);
    ls_json_object_close(json);
}

// An arrow from the send's slice to the receive's. Where one slice ends and the next begins,
// readers attach the arrow to either: so both ends are half a tick inside.
static void write_flow(ls_json *json, const ls_trace_set *set, size_t number) {
    double met_us = fmax(set->parts[0].start_us, set->parts[1].start_us);
    for (int end = 0; end < 2; end++) {
        const ls_trace_part *part = &set->parts[end];
        open_event(json, end == 0 ? "s" : "f", pid_of(set->trace_case), part->rank,
                   end == 0 ? met_us + LS_TRACE_TICK_US / 2 : set->end_us - LS_TRACE_TICK_US / 2);
        ls_json_member_string(json, "name", "message");
        ls_json_member_string(json, "cat", "message");
        ls_json_member_uint(json, "id", number);
        if (end == 1) {
            ls_json_member_string(json, "bp", "e");
        }
        ls_json_object_close(json);
    }
}

int ls_trace_json(ls_text *out, const ls_trace *trace) {
    LS_TRY(trace->status);
    ls_json json;
    ls_json_begin(&json, out, 0);
    ls_json_object_open(&json);
    ls_json_member_string(&json, "displayTimeUnit", "ns");
    ls_json_member_object(&json, "otherData");
    ls_json_member_string(&json, "clock",
                          trace->has_machine ? trace->machine.name : "logical: 1 us a set");
    ls_json_object_close(&json);
    ls_json_member_array(&json, "traceEvents");
    for (int i = 0; i < trace->case_count; i++) {
        write_case(&json, &trace->cases[i], i);
    }
    for (size_t s = 0; s < trace->set_count; s++) {
        const ls_trace_set *set = &trace->sets[s];
        for (int i = 0; i < set->size; i++) {
            write_slice(&json, set, &set->parts[i], s);
        }
        if (set->parts[0].kind == LS_SEND && set->size == 2) {
            write_flow(&json, set, s);
        }
    }
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    ls_text_puts(out, "\n");
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the trace") : LS_OK;
}

// ---- Text ---------------------------------------------------------------------------------------
#define COLUMN 15

static void cell(char *out, size_t out_bytes, const ls_trace_set *set, const ls_trace_part *part) {
    const ls_trace_part *other = part;
    if (set->size == 2) {
        other = &set->parts[part == set->parts ? 1 : 0];
    }
    if (part->kind == LS_SEND) {
        (void)snprintf(out, out_bytes, "-> %d", other->rank);
    } else if (part->kind == LS_RECV) {
        (void)snprintf(out, out_bytes, "<- %d", other->rank);
    } else {
        (void)snprintf(out, out_bytes, "%s", ls_kind_name(part->kind));
    }
}

static int write_line(ls_text *out, const ls_trace *trace, size_t number, int ranks) {
    const ls_trace_set *set = &trace->sets[number];
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)ranks, sizeof(int)));
    int *part_of = memory;  // + 1; 0: takes no part
    for (int i = 0; i < set->size; i++) {
        part_of[set->parts[i].rank] = i + 1;
    }
    ls_text_printf(out, "%6zu %10.3f  ", number, set->end_us);
    for (int rank = 0; rank < ranks; rank++) {
        char text[COLUMN + 1] = "|";
        if (part_of[rank] > 0) {
            cell(text, sizeof text, set, &set->parts[part_of[rank] - 1]);
        }
        ls_text_printf(out, "%-*s ", COLUMN, text);
    }
    const ls_trace_part *first = &set->parts[0];
    const char *base = strrchr(first->file, '/'), *file = base != NULL ? base + 1 : first->file;
    ls_text_printf(out, " %zu %s%s%s on ", first->count, ls_dtype_name(set->dtype),
                   set->reduces ? " " : "", set->reduces ? ls_op_name(set->op) : "");
    ls_text_plain(out, set->comm, strlen(set->comm));  // a program may contain any names
    ls_text_puts(out, ", ");
    ls_text_plain(out, file, strlen(file));
    ls_text_printf(out, ":%d\n", first->line);
    ls_free(memory, (size_t)ranks, sizeof(int));
    return LS_OK;
}

int ls_trace_text(ls_text *out, const ls_trace *trace) {
    LS_TRY(trace->status);
    size_t s = 0;
    for (int c = 0; c < trace->case_count; c++) {
        const ls_trace_case *of = &trace->cases[c];
        ls_text_plain(out, of->name, strlen(of->name));
        ls_text_printf(out, ": %d ranks\n%6s %10s  ", of->ranks, "set", "end us");
        for (int rank = 0; rank < of->ranks; rank++) {
            char name[32];
            (void)snprintf(name, sizeof name, "rank %d", rank);
            ls_text_printf(out, "%-*s ", COLUMN, name);
        }
        ls_text_puts(out, "\n");
        for (; s < trace->set_count && trace->sets[s].trace_case == c; s++) {
            LS_TRY(write_line(out, trace, s, of->ranks));
        }
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the trace") : LS_OK;
}
