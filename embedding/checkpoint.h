// Checkpoints of sharded embedding collections: weights and optimizer states as each rank's shards
// hold them, in a folder that any plan and any number of ranks can be loaded from.
//
// DIR/index.json              format, version, step; per table: arrays (name, dtype, per_row) and
//                             the optimizer whose states are among them; weight_map: each tensor's
//                             file
// DIR/plan.yaml               who holds what (planner/plan_file.h)
// DIR/rank_00003.safetensors  the arrays of rank 3's shards, each named TABLE/ARRAY/ROW_COLUMN by
//                             the shard's first cell: "weights", "momentum1", "momentum2".
//                             A data_parallel table stands once, with its first rank; shards
//                             without elements do not, nor does a rank that has no others.
// A checkpoint appears complete or not at all: it is written to DIR.partial and renamed.
//
// A state of one number per row belongs to a row of a shard, not of the table. Cut along other
// columns, such a state is the mean of the parts that it is made of, weighted by their columns:
// all states of that kind are sums or moving means of a mean of squares over the columns, so this
// is what the wider row would have had. A narrower row gets the wider one's value.
#ifndef LS_EMBEDDING_CHECKPOINT_H
#define LS_EMBEDDING_CHECKPOINT_H

#include "embedding/training.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_CHECKPOINT_ARRAYS_MAX 3

// One array of a table: [rows, columns] of the whole table, or [rows] for each column block.
typedef struct ls_checkpoint_array {
    const char *name;  // "weights", "momentum1", "momentum2"
    ls_dtype dtype;
    bool per_row;
} ls_checkpoint_array;

typedef struct ls_checkpoint_table {
    ls_checkpoint_array arrays[LS_CHECKPOINT_ARRAYS_MAX];  // the first: the weights
    int array_count;
    const char
        *optimizer;  // optimizer of the states (ls_optimizer_about); NULL: none, or not named
} ls_checkpoint_table;

typedef struct ls_checkpoint ls_checkpoint;

// Opens a checkpoint. Files may be hostile: LS_ERR_FORMAT names file and reason, a tensor among
// them that the index does not name or that is of no shard of its rank; LS_ERR_IO.
int ls_checkpoint_open(ls_checkpoint **out, const char *dir);
void ls_checkpoint_free(ls_checkpoint *checkpoint);  // NULL is allowed
// All borrowed. Tables stand in the order of the plan's.
const ls_plan *ls_checkpoint_plan(const ls_checkpoint *checkpoint);
const ls_checkpoint_table *ls_checkpoint_tables(const ls_checkpoint *checkpoint);
int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint);
// Calls visit with the path of each file in `dir` that a checkpoint is made of, by name. Stops at
// the first status that is not LS_OK and returns it.
typedef int (*ls_checkpoint_visit)(void *arg, const char *path);
int ls_checkpoint_each_file(const char *dir, ls_checkpoint_visit visit, void *arg);
// Whether every tensor that plan and index name exists with its dtype and shape: LS_ERR_FORMAT,
// LS_ERR_IO. Reads only headers. Not thread-safe.
int ls_checkpoint_check_tensors(ls_checkpoint *checkpoint);

// The place of a table in a checkpoint: its index, and the indices of the arrays of its module.
typedef struct ls_checkpoint_place {
    int table;
    int arrays[LS_CHECKPOINT_ARRAYS_MAX];  // weights, then the optimizer's states in their order
} ls_checkpoint_place;

// The arrays of a table that `optimizer` updates (NULL: none, only weights).
void ls_checkpoint_describe(ls_checkpoint_table *out, const ls_table *table,
                            const ls_optimizer *optimizer);
// Finds these in the checkpoint. LS_ERR_INVALID: the table is missing, its size or an array's type
// is another, or the states are not this optimizer's. Without an optimizer any states pass.
int ls_checkpoint_find(ls_checkpoint_place *out, const ls_checkpoint *checkpoint,
                       const ls_table *table, const ls_optimizer *optimizer);

// Writes the block's part of array `array` of table `table` to `out`: [rows, columns], dense, or
// [rows] if it has one number for each row. The block is inside of the table (asserted). Reads
// piece by piece. Not thread-safe.
int ls_checkpoint_read(ls_checkpoint *checkpoint, int table, int array, const ls_plan_shard *block,
                       void *out);

// Writes `from` anew, cut up by `plan`, which must name the same tables with the same sizes
// (LS_ERR_INVALID). One rank's arrays are in memory at a time. LS_ERR_INVALID where `dir` exists.
int ls_checkpoint_reshard(const char *dir, ls_checkpoint *from, const ls_plan *plan);

// Writes the module's tables, with their states where training was prepared, and its step. Under
// MPI every process must make the same call, and all of them fail where one does. LS_ERR_INVALID
// where `dir` exists, or where the plan does not tile its tables. LS_ERR_UNSUPPORTED, of loading
// too: a table's rows are quantised.
LS_API int ls_embedding_save(ls_embedding *module, const char *dir);
// Fills the held shards, states where training was prepared, and the step from the checkpoint in
// `dir`, of any plan and any number of ranks. Files may be hostile: LS_ERR_FORMAT names file and
// reason; LS_ERR_IO. LS_ERR_INVALID where tables, sizes, types or states are others.
LS_API int ls_embedding_load(ls_embedding *module, const char *dir);

#ifdef __cplusplus
}
#endif
#endif
