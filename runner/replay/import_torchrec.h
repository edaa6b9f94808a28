// Shared by the importers of TorchRec's results: a trained collection from its file and manifest,
// and the sharding of its repetition.
#pragma once

#include "formats/safetensors.h"
#include "kernels/optimizer.h"
#include "planner/plan.h"
#include "runner/replay/import.h"

#define LS_TORCHREC_NAME_BYTES 512  // of a tensor

typedef struct ls_torchrec_table {
    const char *name, *pooling;
    ls_sharding sharding;
    int64_t rows, dim;
    const char **features;  // [feature_count]
    int feature_count, first_feature;
    // TorchRec's shards, by column, then row; data parallel: on every rank.
    ls_plan_shard *shards;
    int shard_count;
} ls_torchrec_table;

typedef struct ls_torchrec {
    const ls_safetensors *file;
    const char *name;  // of the file
    ls_arena *arena;
    bool *used;  // [tensors of the file] already used
    int world, steps;
    ls_optimizer_kind optimizer;
    double lr, eps;
    bool weighted;
    int64_t *batch;  // [world]
    ls_torchrec_table *tables;
    int table_count, feature_count;
    int *order;     // [feature_count] the features in the order of output and grad_output
    int64_t width;  // of this order
} ls_torchrec;

// The sharding of a repetition: TorchRec's own, or another.
typedef struct ls_torchrec_run {
    const ls_torchrec *of;
    int world;  // an additional rank has no samples
    struct {
        ls_sharding sharding;
        ls_plan_shard *shards;  // in the form of a plan
        int shard_count;
    } * tables;        // [table_count]
    bool no_division;  // the gradients are TorchRec's, divided by its world size
} ls_torchrec_run;

// *out: the data of a tensor of exactly this shape, in the arena. *count (may be NULL): its
// elements. The only dimension of `shape` may be -1: any number.
int ls_torchrec__tensor(void *out, int64_t *count, const ls_torchrec *c, const char *name,
                        ls_dtype dtype, const ls_shape *shape);
const ls_safetensor *ls_torchrec__find(const ls_torchrec *c, const char *name);
// A keyed tensor of a step and rank, [batch, width], and the first column of a feature.
int ls_torchrec__keyed(float **out, const ls_torchrec *c, int step, int rank, const char *what);
int64_t ls_torchrec__column(const ls_torchrec *c, int feature);
// The name of a feature (index over all tables), and its table.
const char *ls_torchrec__feature(const ls_torchrec *c, int feature, const ls_torchrec_table **of);
// "stepS.rankR.WHAT".
void ls_torchrec__name(char out[LS_TORCHREC_NAME_BYTES], int step, int rank, const char *what);

// import_torchrec_entry.c: reads the manifest's entry and the shards of the file. *skip: why it is
// not replayed.
int ls_torchrec__read(ls_torchrec *c, const json_t *entry, const char **skip);
// import_torchrec_plan.c: TorchRec's sharding (way 0), or mathematically equal ones (1, 2, ...),
// the last of them on one rank more. *made: the way exists.
#define LS_TORCHREC_WAYS 4
int ls_torchrec__plan(ls_torchrec_run *out, bool *made, const ls_torchrec *c, int way);
// import_torchrec_scenario.c: the scenario of a run.
int ls_torchrec__scenario(ls_text *out, const ls_torchrec_run *run);
// import_torchrec_gave.c: passes TorchRec's results to the sink, cut for the run's sharding; arg is
// the run.
int ls_torchrec__gave(void *arg, const ls_stage_sink *sink);
