// Writing checkpoints, shared by what saves a module and what writes a checkpoint anew.
#pragma once

#include "embedding/checkpoint.h"

// The parts of a checkpoint.
typedef struct checkpoint_source {
    const ls_plan *plan;
    const ls_checkpoint_table *tables;  // [plan->table_count]
    int64_t step;
    // Writes an array of shard `shard` (of the table in the plan) to `out`.
    int (*read)(void *arg, int table, int shard, int array, void *out);
    void *arg;
} checkpoint_source;

#define CHECKPOINT_PATH_MAX 4096
// DIR/NAME, or DIR.partial/NAME while it is being written; name NULL: the folder itself.
int ls_checkpoint__path(char out[CHECKPOINT_PATH_MAX], const char *dir, bool partial,
                        const char *name);
void ls_checkpoint__rank_name(char out[32], int rank);
// Whether the shard is written: it has elements, and of a data_parallel table it is the first.
bool ls_checkpoint__has(const ls_plan_table *table, int shard);
// [rows, columns] or [rows].
ls_shape ls_checkpoint__shape(const ls_checkpoint_array *array, const ls_plan_shard *shard);
#define CHECKPOINT_NAME_MAX 512
int ls_checkpoint__name(char out[CHECKPOINT_NAME_MAX], const ls_plan_table *table,
                        const ls_checkpoint_array *array, const ls_plan_shard *shard);

// Whether the ranks' files hold exactly the tensors of these arrays' shards: LS_ERR_FORMAT names
// the first other one. Reads only headers.
int ls_checkpoint__check_files(const char *dir, const ls_plan *plan,
                               const ls_checkpoint_table *tables);

// In this order: one process begins, every rank is written, one process publishes.
int ls_checkpoint__begin(const char *dir);
int ls_checkpoint__write_rank(const char *dir, const checkpoint_source *source, int rank);
int ls_checkpoint__publish(const char *dir, const checkpoint_source *source);
// Removes what was begun; without error.
void ls_checkpoint__give_up(const char *dir);
