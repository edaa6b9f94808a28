// Checkpoints of sharded embedding collections: weights and optimizer states as each rank's shards
// hold them, in a folder that any plan and any number of ranks can be loaded from.
//
// DIR/index.json              format, version, step; per table: dtype and arrays (name, dtype,
//                             per_row); weight_map: each tensor's file
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
// Writes the block's part of array `array` of table `table` to `out`: [rows, columns], dense, or
// [rows] where it is per row. The block lies in the table (asserted). Reads piece by piece. Not
// thread-safe.
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
