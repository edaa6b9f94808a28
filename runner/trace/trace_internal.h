// Shared by the files that record and write traces.
#pragma once

#include "runner/trace/trace.h"

// The unit of times: a whole number of nanoseconds, and exact in binary, so that no reader rounds
// the end of a slice past the beginning of the next.
#define LS_TRACE_TICK_US 0.25

// One rank's part of a set.
typedef struct ls_trace_part {
    int rank;
    ls_kind kind;  // a message has two
    uint64_t seq;
    size_t count;
    uint64_t send_bytes, recv_bytes;
    double start_us;  // time of its call
    const char *file;
    int line;
} ls_trace_part;

// A matched set of calls.
typedef struct ls_trace_set {
    int trace_case;
    ls_dtype dtype;
    ls_op op;
    int root;  // world rank; -1: none
    bool reduces;
    const char *comm;
    const char *algorithm;  // this and the next: from a recording, else NULL
    const char *protocol;
    int channels;          // 0: unknown
    ls_trace_part *parts;  // [size]
    int size;
    double end_us;
} ls_trace_set;

typedef struct ls_trace_case {
    const char *name;
    const void *owner;
    int ranks;
    double *ready_us;  // [ranks] end of each rank's last call
} ls_trace_case;

struct ls_trace {
    ls_arena *arena;
    bool has_machine;
    ls_topology machine;
    bool wants_traffic;
    uint64_t *traffic;  // [ranks, ranks] of the last case
    ls_trace_case *cases;
    int case_count, case_room;
    ls_trace_set *sets;
    size_t set_count;
    int set_room;
    const char *file;  // the last one of a call, copied: calls may belong to a scenario that is
                       // freed
    int status;
};

// As ls_trace_met; returns the set (NULL: not recorded, see the trace's status).
ls_trace_set *ls_trace__add(ls_trace *trace, const ls_call *const *calls, int size);
