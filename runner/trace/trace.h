// Traces: the calls of every rank with their time, members and bytes. A trace observes sets of
// calls as they match (ls_met_observer). It is written in Chrome's trace event format (Perfetto,
// chrome://tracing), as text with a column for each rank, and as a matrix of bytes.
//
// Time is simulated. With a machine a set takes launch + latency * ceil(log2 ranks) + bus bytes /
// bandwidth, within a host or between hosts; without one every set takes one microsecond. A rank's
// next call begins at the end of its last one: its computation in between is unknown.
#pragma once

#include "collectives/collectives.h"
#include "planner/topology.h"

#define LS_TRAFFIC_RANKS_MAX 4096  // of a matrix of bytes

typedef struct ls_trace ls_trace;

// machine (copied; NULL: a logical clock). traffic: also sums the bytes from rank to rank.
int ls_trace_create(ls_trace **out, const ls_topology *machine, bool traffic);
void ls_trace_free(ls_trace *trace);  // NULL is allowed
// trace NULL, here and in ls_trace_watch: no effect. Later events belong to a case of this name
// with `ranks` ranks. If the newest case has the same owner (NULL: none), it starts anew. At most
// LS_TRAFFIC_RANKS_MAX if traffic is summed (LS_ERR_LIMIT).
int ls_trace_begin(ls_trace *trace, const char *name, int ranks, const void *owner);
// Begins a case of the backend's world and records its sets of calls.
void ls_trace_watch(ls_trace *trace, ls_backend *backend, const char *name, const void *owner);
// An ls_met_observer; arg: the trace.
void ls_trace_met(void *arg, const ls_call *const *calls, int size);
// The time of a set of `size` calls on a machine; most: bytes of the largest buffer of a member.
double ls_trace_duration_us(const ls_topology *machine, ls_kind kind, int size, uint64_t most,
                            bool one_host);
// Adds a case with the calls of a recording, matched again as in the real run. trace NULL: no
// effect. LS_ERR_FORMAT: its calls do not match.
int ls_trace_recording(ls_trace *trace, const char *dir);
// Sets of calls in all cases.
size_t ls_trace_sets(const ls_trace *trace);
// LS_OK, or the reason why an event was not recorded.
int ls_trace_status(const ls_trace *trace);

int ls_trace_json(ls_text *out, const ls_trace *trace);
// One line for each set of calls, one column for each rank, "|" for ranks that take no part.
int ls_trace_text(ls_text *out, const ls_trace *trace);
// The matrix of the last case: bytes that rank `from` (row) sends to rank `to` (column), without
// local copies. *ranks: its size. Borrowed; NULL if traffic was not summed.
const uint64_t *ls_trace_traffic(int *ranks, const ls_trace *trace);
void ls_traffic_text(ls_text *out, const char *title, const uint64_t *bytes, int ranks);
void ls_traffic_svg(ls_text *out, const char *title, const uint64_t *bytes, int ranks);
