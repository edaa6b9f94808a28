// The work of one training step of a planned scenario, or of its forward pass: collectives with
// their buffers, lookups with their ids, updates with the gradients that arrive. Recorded from the
// first step of a run in the simulator, so that the same work can be executed, timed and checked
// elsewhere.
#pragma once

#include "collectives/collectives.h"
#include "kernels/device.h"
#include "kernels/optimizer.h"
#include "planner/plan.h"
#include "runner/scenario/scenario.h"

typedef enum ls_work_stage {
    LS_WORK_INPUT_DIST,
    LS_WORK_LOOKUP,
    LS_WORK_OUTPUT_DIST,
    LS_WORK_GRADIENTS,  // all communication of backward
    LS_WORK_UPDATE,     // gradients summed by row, and the optimizer's step
    LS_WORK_STAGE_COUNT
} ls_work_stage;
#define LS_WORK_FORWARD_STAGES 3  // those of a scenario without an update
const char *ls_work_stage_name(ls_work_stage stage);

// One collective of a group of ranks.
typedef struct ls_work_collective {
    ls_work_stage stage;
    const char
        *what;  // "sizes", "batches", "lengths", "ids", "weights", "reduce", "outputs", "gradients"
    int group;  // index into ls_work.groups
    int size;   // members
    ls_call *calls;  // [size] by member: `send` and counts are copies, `recv` is the result, `comm`
                     // is NULL
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
    const void *values;            // [bags or id_count, columns], the simulator's result; MAX: NULL
} ls_work_lookup;

// One shard's part of the update: occurrences of its rows, all features together.
typedef struct ls_work_update {
    int rank, table, shard;  // shard: of the table in the plan
    ls_plan_shard block;
    ls_dtype dtype;      // of the table
    ls_dtype sum_dtype;  // of summed gradients and states
    ls_dtype dtype_in;   // of the gradients that arrive
    const ls_optimizer *optimizer;
    double factor;               // of clipping
    int64_t padding_id;          // as a row of the shard; -1: none
    size_t id_count, row_count;  //
    int64_t *ids;                // [id_count] rows of the shard
    int64_t *row_of;             // [id_count] rows of `gradients`
    float *scales;               // [id_count] or NULL
    void *gradients;             // [row_count, columns] of dtype_in
    const void *dense;           // data parallel: of sum_dtype, reduced over ranks, for each of
    int64_t *dense_rows;         // [dense_count]; NULL: for every row
    size_t dense_count;
    const void *weights;  // [rows, columns] after the simulator's update
} ls_work_update;

typedef struct ls_work_group {
    int size;
    int *ranks;  // [size]
} ls_work_group;

typedef struct ls_work {
    const ls_scenario *scenario;
    int ranks;
    ls_work_group *groups;
    ls_work_collective *collectives;  // in the order in which they ran
    ls_work_lookup *lookups;          // by group of tables and rank, in execution order
    ls_work_update *updates;          // likewise
    int group_count, collective_count, lookup_count, update_count;
    int stage_count;  // LS_WORK_STAGE_COUNT, or LS_WORK_FORWARD_STAGES
} ls_work;

// Runs the scenario's first step with `plan` in the simulator: the whole step if the scenario
// updates its weights, else the forward pass. Everything is in `arena`; the scenario is borrowed.
// LS_ERR_INVALID for a program; LS_ERR_UNSUPPORTED for a table with max_norm.
int ls_work_capture(ls_work *out, const ls_scenario *scenario, const ls_plan *plan,
                    ls_arena *arena);

// Fills `out` [rows, columns] with the weights of a shard of a table before the step.
int ls_work_weights(void *out, const ls_work *steps, int table, const ls_plan_shard *block);

// An update that is repeated on a device, with all its arrays there.
enum { LS_WORK_SHARD_ARRAYS = 16 };
typedef struct ls_work_shard {
    ls_device *device;
    const ls_work_update *update;
    void *weights, *states[2];  // before the step; later as the updates leave them
    int64_t *ids, *row_of;      // gradients that arrive, as in ls_work_update
    float *scales;
    void *arrived, *dense;
    int64_t *dense_rows;
    int64_t *rows, *starts, *order, *sorting;  // of ls_kernel_group_ids
    void *sums, *spread;                       // gradients by row: of those touched, of all
    void *arrays[LS_WORK_SHARD_ARRAYS];
    size_t array_bytes[LS_WORK_SHARD_ARRAYS];
    int array_count;
} ls_work_shard;

// After a failure, too, ls_work_shard_close frees all memory.
int ls_work_shard_open(ls_work_shard *out, ls_device *device, const ls_work *steps,
                       const ls_work_update *update);
void ls_work_shard_close(ls_work_shard *shard);
int ls_work_shard_update(const ls_work_shard *shard);
// Whether the shard's weights have the simulator's bits after one update. LS_ERR_FINDING.
int ls_work_shard_check(const ls_work_shard *shard);

// Whether `got` is the result of member `member`: equal bits; for a sum, within the rounding of any
// order. LS_ERR_FINDING names stage, rank and element.
int ls_work_check_collective(const ls_work_collective *collective, int member, const void *got);
// The same for a lookup's result: equal bits.
int ls_work_check_lookup(const ls_work_lookup *lookup, const void *got);
