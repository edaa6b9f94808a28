// The work of a planned scenario's forward pass, stage by stage: its collectives with the
// buffers that they send and what comes out, and its lookups with their ids. Captured from a run in
// the simulator, so that the same work can be done and timed elsewhere, and checked.
#ifndef LS_RUNNER_PLAN_WORK_H
#define LS_RUNNER_PLAN_WORK_H

#include "collectives/collectives.h"
#include "kernels/kernels.h"
#include "planner/plan.h"
#include "runner/scenario/scenario.h"

typedef enum ls_work_stage {
    LS_WORK_INPUT_DIST,
    LS_WORK_LOOKUP,
    LS_WORK_OUTPUT_DIST,
    LS_WORK_STAGE_COUNT
} ls_work_stage;
const char *ls_work_stage_name(ls_work_stage stage);

// One collective of a group of ranks.
typedef struct ls_work_collective {
    ls_work_stage stage;
    const char *what;  // "sizes", "lengths", "ids", "weights", "reduce", "outputs"
    int group;         // index into ls_work.groups
    int size;          // members
    ls_call *calls;    // [size] by member: `send` and counts are copies, `recv` is what came out,
                       // `comm` NULL
    size_t *send_bytes, *recv_bytes;  // [size]
} ls_work_collective;

// One shard's lookup for one feature.
typedef struct ls_work_lookup {
    int rank, table, feature;  // feature: of the table
    int shard;                 // of the table in the plan
    ls_plan_shard block;
    ls_dtype dtype, out_dtype;  // of the table and of the results
    ls_pooling pooling;         // NONE, SUM or MAX
    int64_t padding_id;         // as a row of the shard; -1: none
    int64_t bags, id_count;
    const int64_t *ids, *offsets;  // [id_count] rows of the shard; [bags + 1]
    const float *weights;          // [id_count] or NULL
    const void *values;  // [bags or id_count, columns] as the simulator found them; MAX: NULL
} ls_work_lookup;

typedef struct ls_work_group {
    int size;
    int *ranks;  // [size]
} ls_work_group;

typedef struct ls_work {
    const ls_scenario *scenario;
    int ranks;
    ls_work_group *groups;
    ls_work_collective *collectives;  // in the order in which they ran
    ls_work_lookup *lookups;          // by group of tables and rank, as they ran
    int group_count, collective_count, lookup_count;
} ls_work;

// Runs the forward stages with `plan` in the simulator. Everything lives in `arena`; the scenario
// is borrowed. LS_ERR_INVALID for a program.
int ls_work_capture(ls_work *out, const ls_scenario *scenario, const ls_plan *plan,
                    ls_arena *arena);

// Fills `out` [rows, columns] with the weights that a lookup reads.
int ls_work_weights(void *out, const ls_work *steps, const ls_work_lookup *lookup);

// Whether `got` is what member `member` must receive: the same bits; of a sum, within the rounding
// of any order. LS_ERR_FINDING names stage, rank and element.
int ls_work_check_collective(const ls_work_collective *collective, int member, const void *got);
// The same for a lookup's results: the same bits.
int ls_work_check_lookup(const ls_work_lookup *lookup, const void *got);

#endif
