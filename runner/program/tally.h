// Totals of a program's calls without their data: how many met, what they send, and when the last
// one would be over on a machine. Seen as sets of calls meet.
#ifndef LS_RUNNER_PROGRAM_TALLY_H
#define LS_RUNNER_PROGRAM_TALLY_H

#include "collectives/collectives.h"
#include "planner/topology.h"
#include "runner/result.h"
#include "runner/scenario/scenario.h"

struct ls_trace;

// Where a row's calls are made: the step's line, and the number of the first communicator.
typedef struct ls_tally_place {
    int line, comm;
} ls_tally_place;

typedef struct ls_tally {
    const ls_scenario *scenario;
    ls_arena *arena;
    ls_topology machine;
    struct ls_trace *trace;  // sees the sets, too; NULL: none
    ls_call_row *rows;       // [row_count] one for each step and kind of call, by their lines
    ls_tally_place *places;  // [row_count]
    int row_count, row_room;
    uint64_t sets, calls, bytes;
    double *ready_us;  // [ranks] when each rank's last call was over
    double end_us;
    int classes;  // of ranks, one of each of which was run; 0: every rank was
    bool failed;  // no memory for something
} ls_tally;

// Whether nothing but the values of the scenario is missing without its data: its calls are on
// buffers, and no rank acts on what it receives.
bool ls_tally_possible(const ls_scenario *scenario);
int ls_tally_begin(ls_tally *out, const ls_scenario *scenario, struct ls_trace *trace,
                   ls_arena *arena);
void ls_tally_restart(ls_tally *tally);  // another schedule: what was seen is forgotten
// An ls_met_observer; arg: the tally.
void ls_tally_met(void *arg, const ls_call *const *calls, int size);
// Why nothing is judged, with what was seen; in the tally's arena.
const char *ls_tally_tell(const ls_tally *tally);

#endif
