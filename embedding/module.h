// A sharded embedding collection: tables, cut up and placed by a plan, and the three stages that
// take one batch through them. One implementation serves every sharding type: a table is a list of
// shards (rank, row block, column block), and the type alone says over how many ranks partial
// results are reduced.
//
// Width L of a sharding type, W ranks, rank r = n * L + l:
//   table_wise, column_wise, table_column_wise   L = 1: nothing to reduce
//   table_row_wise, grid                         L = ranks per host
//   row_wise                                     L = W
//   data_parallel                                no communication at all
// A sequence table reduces nothing: its width is 1 under every type.
// The tables that share (sharding type, weighted or not, pooled by sum / by max / sequence, output
// dtype) form a group and share its collectives:
//   input_dist   all_to_all of sizes (i64: lengths, ids, weights if weighted, batch; one more of
//                batch sizes where each feature has its own), then one uneven all_to_all each for
//                lengths, ids and weights. An id is made local (row minus the shard's first row)
//                and sent to every shard whose rows contain it.
//   lookup       each shard pools (sum or max, never mean) or gathers the ids that it got
//   output_dist  pooled: reduce_scatter over the L ranks (L > 1; max: of -infinity where a shard
//                had no id), all_to_all over the W / L ranks with equal l (L < W), then, on the
//                source rank, mean divides by the bag's count or sum of weights
//                (ls_mean_divisor), and empty bags give 0. Sequence: the ids' all_to_all
//                backwards, then original order.
// A NaN in a max table loses against any number, and against the -infinity of a shard without ids:
// a bag of nothing but NaN gives NaN where one shard holds it all, -infinity where several do.
// On an owner the batches of the source ranks lie one after another, ordered by (l, n): for L = 1
// and L = W that is ascending rank.
#ifndef LS_EMBEDDING_MODULE_H
#define LS_EMBEDDING_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "collectives/collectives.h"
#include "collectives/recording.h"
#include "embedding/jagged.h"
#include "kernels/pooling.h"
#include "kernels/quantise.h"
#include "planner/plan.h"
#include "ranks/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

// The divisor of a mean. Where ids have no weights, their weights are 1.
typedef enum ls_mean_divisor {
    LS_MEAN_WEIGHTS,   // the sum of the weights, under every sharding type
    LS_MEAN_IDS,       // the number of ids, under every sharding type
    LS_MEAN_TORCHREC,  // the number of ids, which is the unsharded meaning; row_wise and
                       // table_row_wise: the sum of the weights + LS_TORCHREC_MEAN_EPSILON
} ls_mean_divisor;
#define LS_TORCHREC_MEAN_EPSILON 1e-6

// Defects of TorchRec 1.6, each of which changes what some sharding types give; off unless asked
// for by name (docs/semantics.md).
typedef struct ls_torchrec_quirks {
    bool grid_mean_not_divided;         // mean tables under grid give their sums
    bool row_wise_mean_divides_others;  // a mean table under row_wise or table_row_wise has the
                                        // other sum and mean tables of the collection divided once
                                        // more: row_wise and table_row_wise sums by 1 + epsilon,
                                        // other types by their bag's weights or ids + epsilon
} ls_torchrec_quirks;

// One embedding table. {0} plus name, rows, dim, dtype and features is an unweighted sequence
// table.
typedef struct ls_table {
    const char *name;
    int64_t rows, dim;             // dim >= 1
    ls_dtype dtype;                // f32, f16, bf16 or f64
    ls_pooling pooling;            //
    const char *const *features;   // [feature_count]; a feature may feed several tables
    int feature_count;             // >= 1
    bool weighted;                 // inputs have a weight for each id (only sum and mean)
    bool has_padding_id;           // ids equal to padding_id do not count in a pooled bag
    int64_t padding_id;            // in [0, rows)
    ls_mean_divisor mean_divisor;  // only mean
    double max_norm;  // before a lookup, rows that it needs whose norm is larger are scaled down to
                      // this in place; 0: none
    double norm_type;  // the p of that norm; 0: 2
    // Inference: rows kept quantised, borrowed; NULL: as dtype (then of f32, f16 or bf16) has them.
    const ls_row_format *row_format;
    bool quantise_shards;   // each shard quantises its own rows, so that column shards have scales
                            // of their own; else whole rows are quantised before they are cut, and
                            // a column shard keeps their scale and bias
    bool has_output_dtype;  // inference: outputs are of output_dtype (f32, f16, bf16 or f64), to
    ls_dtype output_dtype;  // which the lookup rounds what it accumulated in f32 (f64 tables: f64)
} ls_table;

// The type of a table's outputs: output_dtype, or else pooled f32 (f64 tables: f64), of sequences
// the table's (quantised: f32).
ls_dtype ls_table_output_dtype(const ls_table *table);

// Writes rows [row, row + rows) x columns [column, column + columns) of table `table` to `out`
// (dense, row-major, of the table's dtype), for the shard of `rank`. Must give the same values for
// the same cell whatever the block.
typedef int (*ls_table_fill)(void *arg, int table, int rank, int64_t row, int64_t rows,
                             int64_t column, int64_t columns, void *out);

typedef struct ls_embedding_options {
    size_t size;                // sizeof this struct (LS_OPTIONS); 0: as this header has it
    const ls_table *tables;     // [table_count], borrowed: must outlive the module
    int table_count;            //
    const ls_plan *plan;        // names every table; borrowed likewise
    ls_id_policy id_policy;     // for ids outside [0, rows), applied on the source rank
    ls_torchrec_quirks quirks;  // none by default
    ls_table_fill fill;         //
    void *fill_arg;             //
    bool allow_broken_plan;     // do not demand that shards tile the tables: ids that no shard owns
                                // are lost, those that several own count double (for experiments
                                // and for tests of the checks)
} ls_embedding_options;

// The first id outside its table, in order of rank, table, feature, sample, position.
typedef struct ls_bad_id {
    const char *table, *feature;
    int rank;
    int64_t sample, position;  // which bag, and where in it
    bool is_bag;               // of a batch with a size per feature: `sample` is a bag's number
    int64_t id, rows;
} ls_bad_id;

typedef struct ls_embedding ls_embedding;

// Makes the module on every held rank of the backend's world. Under MPI every process must make the
// same call. LS_ERR_INVALID names table, rank and rows or columns. Free it before the backend.
LS_API int ls_embedding_create(ls_embedding **out, ls_backend *backend,
                               const ls_embedding_options *options);
LS_API void ls_embedding_free(ls_embedding *module);  // NULL is allowed
// From now on held ranks apply the faults of training for which `injected` returns true.
void ls_embedding_inject(ls_embedding *module,
                         bool (*injected)(void *arg, ls_fault_type fault, int rank), void *arg);

// Shard `index` (of the table in the plan; data parallel: 0) of table `table` as a held `rank`
// holds it: its block and its weights [rows, columns], for reading and for updates, in the memory
// of the backend's device where it has one; quantised: [rows, ls_row_format_bytes], and count is
// bytes. NULL: not held.
LS_API ls_shard *ls_embedding_shard(ls_embedding *module, int table, int rank, int index);

// ---- One batch through the module ---------------------------------------------------------------
// A pass holds what one batch left at every stage: routed ids, splits, partial results, outputs.
typedef struct ls_embedding_pass ls_embedding_pass;

// Stage 1. inputs [held ranks of the world, ascending]; each must hold every feature of the tables
// (others are ignored), with weights where a table is weighted; borrowed until the pass is freed.
// All have one batch size or all have one for each feature: LS_ERR_MISMATCH names two that differ.
// LS_ERR_FINDING for an id out of range under LS_ID_ERROR (ls_embedding_bad_id tells which; ranks
// of other processes learn of it and fail too), LS_ERR_INVALID for unusable inputs.
// sink: NULL, or gets "lengths", "ids" (local) and, weighted, "weights" of every shard.
int ls_embedding_input_dist(ls_embedding_pass **out, ls_embedding *module,
                            const ls_keyed_jagged *const *inputs, const ls_stage_sink *sink);
// Stage 1 in two parts, so that the next batch travels while this one is looked up: when the first
// returns, the sizes are exchanged and lengths, ids and weights are under way (on backends that
// complete calls one after another they have arrived). Two batches or more may be in flight, and
// their waits come in the order of their starts. Use of the batch before the wait is reported:
// lookup with LS_ERR_FINDING, ls_embedding_output with NULL and the same; freeing the pass waits,
// too. Under MPI every process must make the same calls in the same order.
LS_API int ls_embedding_input_dist_start(ls_embedding_pass **out, ls_embedding *module,
                                         const ls_keyed_jagged *const *inputs);
LS_API int ls_embedding_input_dist_wait(ls_embedding_pass *pass, const ls_stage_sink *sink);
// Stage 2. The sink gets "values" of every shard: pooled [sum of batches, columns], sequence
// [ids, columns].
LS_API int ls_embedding_lookup(ls_embedding_pass *pass, const ls_stage_sink *sink);
// Stage 3. The sink gets "values" of every (table, feature): pooled [B_r, dim], sequence
// [ids of rank r, dim]; with a batch size per feature what the samples take of their bags, pooled
// [samples, dim], sequence [ls_jagged_sample_ids, dim].
LS_API int ls_embedding_output_dist(ls_embedding_pass *pass, const ls_stage_sink *sink);
// The three stages. On failure *out is NULL.
LS_API int ls_embedding_forward(ls_embedding_pass **out, ls_embedding *module,
                                const ls_keyed_jagged *const *inputs, const ls_stage_sink *sink);
LS_API void ls_embedding_pass_free(ls_embedding_pass *pass);  // NULL is allowed

// The outputs that a sink receives per held rank: stages "input_dist", "lookup", "output_dist"; the
// table's and feature's names; field as above, followed by "[i]" (the shard's index in the plan)
// where this rank holds several shards of the table. `reduces` is set where a sum in a bag or over
// ranks was taken.

// The output of a (table, feature) on a held rank: [*rows, dim] of *dtype (ls_table_output_dtype).
// Borrowed from the pass, in the memory of the backend's device where it has one. feature: index in
// the table's.
LS_API const void *ls_embedding_output(const ls_embedding_pass *pass, int rank, int table,
                                       int feature, int64_t *rows, ls_dtype *dtype);

// The id that made this module's last pass fail with LS_ERR_FINDING; NULL: none, or it is another
// process's.
LS_API const ls_bad_id *ls_embedding_bad_id(const ls_embedding *module);

#ifdef __cplusplus
}
#endif
#endif
