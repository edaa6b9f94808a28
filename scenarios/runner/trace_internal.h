// What the files that keep and write traces share.
#ifndef LS_SCENARIOS_RUNNER_TRACE_INTERNAL_H
#define LS_SCENARIOS_RUNNER_TRACE_INTERNAL_H

#include "scenarios/runner/trace.h"

// One rank's part of a set.
typedef struct ls_trace_part {
    int rank;
    ls_kind kind;  // a message has two
    uint64_t seq;
    size_t count;
    uint64_t send_bytes, recv_bytes;
    double start_us;  // when it called
    const char *file;
    int line;
} ls_trace_part;

// A set of calls that met.
typedef struct ls_trace_set {
    int trace_case;
    ls_dtype dtype;
    ls_op op;
    int root;  // world rank; -1: none
    bool reduces;
    const char *comm;
    ls_trace_part *parts;  // [size]
    int size;
    double end_us;
} ls_trace_set;

typedef struct ls_trace_case {
    const char *name;
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
    size_t set_count, set_room;
    int status;
};

#endif
