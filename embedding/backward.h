// Shared by backward.c and gradients.c: the shards of the held ranks while gradients are on their
// way to them.
#pragma once

#include "embedding/internal.h"

// One held shard, and all that reached it.
typedef struct embedding_shard {
    const embedding_group *group;
    int held, rank;
    int table, shard;  // in the plan
    ls_plan_shard block;
    embedding_occurrences of;
    size_t *row_first;      // [slots + 1] rows of `arrived` before each slot
    void *arrived;          // (device) [rows, columns] gradients of bags, sequence: of ids; of a
    int64_t stride;         // row, elements; pooled, of one feature: some columns of a buffer that
                            // other ranks and shards also use, read-only
    const int64_t *row_of;  // (device) [ids] the row of `arrived`; NULL: its own number
    const float *scales;    // (device) [ids] weights, or NULL
    void *weights;          // (device) [ids] gradients of weights, or NULL
    embedding_touched *touched;
} embedding_shard;

typedef struct embedding_backward {
    ls_embedding_pass *pass;
    embedding_pool scratch;  // until backward ends
    void ***gradients;       // [held][pairs] (device) of the outputs
    embedding_shard *shards;
    int shard_count;
} embedding_backward;

// Counts the held shards, and creates the pass's list of their results.
int ls_embedding__shards_prepare(embedding_backward *b);
// A held rank's shards of a group, with room for arriving data if it is not shared.
int ls_embedding__shards_create(embedding_backward *b, const embedding_group *group, int held);
// Fills `arrived`: from a rank's gathered gradients [bags, columns of the node], or its own.
int ls_embedding__shards_take_pooled(embedding_backward *b, const embedding_group *group, int held,
                                     void *partial);
int ls_embedding__shards_take_local(embedding_backward *b, const embedding_group *group, int held);
// Where the rows of each own slot arrive, or its gradients of weights: [own slots].
int ls_embedding__shards_rows(const embedding_backward *b, const embedding_group *group, int held,
                              ls_arena *arena, bool weights, void ***out);
// The gradients of a local pair's weights, to out [ids].
int ls_embedding__shards_copy_weights(const embedding_backward *b, const embedding_group *group,
                                      int held, int pair, void *out);
// The arrived data of the shard, [rows, columns] side by side, in a new array if it was not.
int ls_embedding__shard_own_arrivals(embedding_backward *b, const embedding_shard *shard,
                                     void **out);
int ls_embedding__shards_emit_arrivals(embedding_backward *b, const ls_stage_sink *sink);
// The local row of a block that gets no gradient, or -1.
int64_t ls_embedding__shard_padding(const embedding_table *table, const ls_plan_shard *block);
// maxima.c: pooled by max, `arrived` becomes a gradient for each id, 0 where another one was
// larger.
int ls_embedding__shard_choose(embedding_backward *b, embedding_shard *shard);
// One gradient for each row, and those of weights.
int ls_embedding__shards_sum(embedding_backward *b, const ls_stage_sink *sink);
// Data parallel: sums of all ranks.
int ls_embedding__shards_reduce(embedding_backward *b, const ls_stage_sink *sink);
