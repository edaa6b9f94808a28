// Totals of a program's calls without their data: the number that matched, their bytes, and the end
// of the last one on a machine. Collected as calls match.
#pragma once

#include "collectives/collectives.h"
#include "planner/topology.h"
#include "runner/result.h"
#include "runner/scenario/scenario.h"

struct ls_trace;

// The place of a row's calls: the step's line, and the number of the first communicator.
typedef struct ls_tally_place {
    int line, comm;
} ls_tally_place;

typedef struct ls_tally {
    const ls_scenario *scenario;
    ls_arena *arena;
    ls_topology machine;
    struct ls_trace *trace;  // receives the sets, too; NULL: none
    ls_call_row *rows;       // [row_count] one for each step and kind of call, by their lines
    ls_tally_place *places;  // [row_count]
    int row_count, row_room;
    uint64_t sets, calls, bytes;
    double *ready_us;  // [ranks] the end of each rank's last call
    double end_us;
    int classes;  // number of ranks, if only one of each class was run; 0: every rank was
    bool failed;  // out of memory
} ls_tally;

// Whether the program runs without its data: its calls are on buffers, and no rank acts on received
// values.
bool ls_tally_possible(const ls_scenario *scenario);
int ls_tally_begin(ls_tally *out, const ls_scenario *scenario, struct ls_trace *trace,
                   ls_arena *arena);
void ls_tally_restart(ls_tally *tally);  // starts another schedule: clears the totals
// An ls_met_observer; arg: the tally.
void ls_tally_met(void *arg, const ls_call *const *calls, int size);
// The reason why nothing is judged, with the totals; in the tally's arena.
const char *ls_tally_tell(const ls_tally *tally);
