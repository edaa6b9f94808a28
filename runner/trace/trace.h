// Traces: what every rank called, when and with whom, and how many bytes went from rank to rank. A
// trace sees sets of calls as they meet (ls_met_observer), and is written as Chrome's trace event
// format (Perfetto, chrome://tracing), as text with a column per rank, and as a matrix of bytes.
//
// Time is simulated. With a machine a set takes launch + latency * ceil(log2 ranks) + bus bytes /
// bandwidth, within a host or between hosts; without one every set takes one microsecond. A rank's
// next call begins where its last one ended: what it computes in between is not known.
#ifndef LS_RUNNER_TRACE_TRACE_H
#define LS_RUNNER_TRACE_TRACE_H

#include "collectives/collectives.h"
#include "planner/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_TRAFFIC_RANKS_MAX 4096  // of a matrix of bytes

typedef struct ls_trace ls_trace;

// machine (copied; NULL: a logical clock). traffic: also sums the bytes from rank to rank.
int ls_trace_create(ls_trace **out, const ls_topology *machine, bool traffic);
void ls_trace_free(ls_trace *trace);  // NULL is allowed
// trace NULL, here and in ls_trace_watch: nothing happens. What follows belongs to a case of this
// name with `ranks` ranks; where the newest case has the same owner (NULL: has none), that one
// starts anew. At most LS_TRAFFIC_RANKS_MAX where traffic is summed (LS_ERR_LIMIT).
int ls_trace_begin(ls_trace *trace, const char *name, int ranks, const void *owner);
// Begins a case of the backend's world and has the trace see its sets of calls.
void ls_trace_watch(ls_trace *trace, ls_backend *backend, const char *name, const void *owner);
// An ls_met_observer; arg: the trace.
void ls_trace_met(void *arg, const ls_call *const *calls, int size);
// The time of a set of `size` calls on a machine; most: bytes of the largest buffer of a member.
double ls_trace_duration_us(const ls_topology *machine, ls_kind kind, int size, uint64_t most,
                            bool one_host);
// Adds a case with the calls that a recording keeps, matched again: as a real run made them. trace
// NULL: nothing happens. LS_ERR_FORMAT when its calls do not meet.
int ls_trace_recording(ls_trace *trace, const char *dir);
// Sets of calls in all cases.
size_t ls_trace_sets(const ls_trace *trace);
// LS_OK, or why something could not be kept.
int ls_trace_status(const ls_trace *trace);

int ls_trace_json(ls_text *out, const ls_trace *trace);
// One line per set of calls, one column per rank, "|" where a rank takes no part.
int ls_trace_text(ls_text *out, const ls_trace *trace);
// The matrix of the last case: bytes that rank `from` (row) sends to rank `to` (column); what a
// rank keeps is not counted. *ranks: its size. Borrowed; NULL where traffic was not summed.
const uint64_t *ls_trace_traffic(int *ranks, const ls_trace *trace);
void ls_traffic_text(ls_text *out, const char *title, const uint64_t *bytes, int ranks);
void ls_traffic_svg(ls_text *out, const char *title, const uint64_t *bytes, int ranks);

#ifdef __cplusplus
}
#endif
#endif
