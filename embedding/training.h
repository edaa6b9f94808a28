// Training a sharded embedding collection: backward takes the gradients of a pass's outputs to the
// owners of the rows, update makes one optimizer step of every row that a batch touched (dense
// form: of every row). Both go the ways that the forward took, backwards, with real collectives:
//   source     each output's gradient is divided by what the forward's mean divided by (quirks too)
//              and, where asked for, by the number of ranks
//   pooled     all_to_all over the exchange communicators, then all_gather over the reduce ones:
//              an owner gets the gradient of every bag that it had a part in
//   sequence   all_to_all: an owner gets the gradient of every id that it was sent
//   owner      the occurrences of a row, from all ranks and all features of the table, are summed
//              from +0 in a stated order: feature by feature as the table names them, in each the
//              bags as they came (by source rank, see module.h), in each bag its ids; one row each
//   data_parallel  each rank sums dense gradients of its own batch in the same order; all_reduce
//   update     rows with a gradient (form fused) or all (dense). Of a data_parallel table in the
//              fused form the ranks first agree on the rows, by one more all_reduce
// Gradients and states are f32, of f64 tables f64, but what travels of sequences has the table's
// dtype. Padding ids give their row no gradient. The divisor of a mean is constant: no gradient
// goes through it. Pooled by max, an element's gradient goes to the first id of the bag whose row
// was the largest there (NaN loses), where the bag's rows lie on one owner: not under row_wise,
// table_row_wise and grid (LS_ERR_UNSUPPORTED).
#ifndef LS_EMBEDDING_TRAINING_H
#define LS_EMBEDDING_TRAINING_H

#include "embedding/module.h"
#include "kernels/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_gradient_division {
    LS_GRADIENTS_SUMMED,   // over the ranks
    LS_GRADIENTS_DIVIDED,  // that, divided by the number of ranks, as TorchRec does, under every
                           // sharding type: each rank's loss is a mean of its own batch
} ls_gradient_division;

typedef struct ls_training {
    const ls_optimizer *optimizers;  // [table_count], by table
    ls_gradient_division division;
    double clip_norm;  // largest 2-norm of all tables' gradients together; 0: none
} ls_training;

// Makes the optimizers' states of the held shards (which hold their initial values) and keeps a
// copy of *training. A further call may change the numbers (a learning rate), but not an optimizer
// whose state there is: LS_ERR_INVALID. LS_ERR_UNSUPPORTED for a table that cannot be trained.
LS_API int ls_embedding_prepare_training(ls_embedding *module, const ls_training *training);

// Backward of a pass that has its outputs. gradients [held ranks][(table, feature) pairs, table by
// table]: of each output, of its shape and dtype (ls_embedding_output), in ordinary memory,
// borrowed for the call. Prepares training where that was not done. Under MPI every process must
// make the same call.
// The sink gets, in this order:
//   "output_grad"           per (table, feature) "values" of its bags: as fed, summed over the
//                           samples that share a bag, divided as the forward's mean was; not yet
//                           by the number of ranks
//   "output_dist_backward"  per shard and feature "values": what the owner received, pooled
//                           [sum of batches, columns], sequence [ids, columns]; not data_parallel
//   "lookup_backward"       per shard, the feature is the table's first: "rows" (i64 [n], local,
//                           ascending) and "gradients" [n, columns] of f32 (f64 tables: f64);
//                           data_parallel "gradients" [rows, dim], of the rank's own batch;
//                           weighted tables: per shard and feature "weights" [ids], the part of
//                           the weights' gradients that this shard's columns give
//   "input_dist_backward"   weighted tables, per (table, feature): "weights" [ids of the rank], the
//                           gradients of the rank's own weights, never divided by the number of
//                           ranks
//   "all_reduce"            data_parallel, per table: "gradients" [rows, dim]
LS_API int ls_embedding_backward(ls_embedding_pass *pass, const void *const *const *gradients,
                                 const ls_training *training, const ls_stage_sink *sink);

// One optimizer step of every held shard, after which the pass has done its work: LS_ERR_INVALID
// for a second update, and for one before backward. The sink gets
//   "clip"    with clip_norm, per rank, under the first table: "norm" [1] of f32, before clipping
//   "update"  per shard: "weights" [rows, columns], then "momentum1", "momentum2" where the
//             optimizer has them, [rows] or [rows, columns]
LS_API int ls_embedding_update(ls_embedding_pass *pass, const ls_stage_sink *sink);

// State `state` (0: momentum1, 1: momentum2) of shard `shard` (of the table in the plan; data
// parallel: 0) of a table as a held `rank` holds it, for reading and writing (checkpoints), in the
// memory of the backend's device where it has one. *shape [rows] or [rows, columns]. NULL: not
// held, not prepared, or the optimizer has no such state.
LS_API void *ls_embedding_state(ls_embedding *module, int table, int rank, int shard, int state,
                                ls_shape *shape, ls_dtype *dtype);
// Updates made so far; the next one is number step + 1. To be set when a checkpoint is read.
int64_t ls_embedding_step(const ls_embedding *module);
void ls_embedding_set_step(ls_embedding *module, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
