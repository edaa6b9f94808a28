// The kernels of training: from gradients of looked-up rows to new weights. Conventions are those
// of kernels.h: pure functions over plain memory, sizes last, nothing is allocated; T is f32, or
// f64 where dtype is f64.
#pragma once

#include "kernels/kernels.h"
#include "kernels/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

// Groups ids [count], each in [0, table_rows) (asserted) or equal to padding_id (-1: none), which
// does not count. rows [*unique] = the distinct ids, ascending; order [starts[*unique]] = the
// positions of ids, by row, within a row ascending; those of rows[u] are order[starts[u]] up to
// order[starts[u + 1]]. rows, order have room for count, starts for count + 1, scratch (all of it
// is overwritten) for LS_GROUP_SCRATCH * count. Nothing overlaps.
enum { LS_GROUP_SCRATCH = 2 };
typedef struct ls_row_groups {
    int64_t *rows, *starts, *order;
} ls_row_groups;
void ls_kernel_group_ids(const ls_row_groups *out, size_t *unique, int64_t *scratch,
                         const int64_t *ids, size_t count, int64_t table_rows, int64_t padding_id);
void ls_kernel_group_ids_reference(const ls_row_groups *out, size_t *unique, int64_t *scratch,
                                   const int64_t *ids, size_t count, int64_t table_rows,
                                   int64_t padding_id);

// Gradients per row. out [unique, dim] of T: row u adds up, in T, the rounded products g * scale of
// the occurrences order[starts[u] .. starts[u + 1]) of `from` (dtype f32, f16, bf16, f64). Every
// LS_GRADIENT_RUN occurrences are a left fold from +0, and so are those sums: what one rank's batch
// has most often would else be one long chain of additions.
enum { LS_GRADIENT_RUN = 64 };
typedef struct ls_gradients {
    const void *values;     // [, dim] of dtype, with row stride `stride` elements
    size_t stride;          //
    ls_dtype dtype;         //
    const int64_t *row_of;  // the row of each occurrence; NULL: its own
    const float *scales;    // of each occurrence (LS_FIELD: numbers of the field); NULL: none
} ls_gradients;
void ls_kernel_row_gradients(void *out, size_t dim, const ls_gradients *from, const int64_t *starts,
                             const int64_t *order, size_t unique);
void ls_kernel_row_gradients_reference(void *out, size_t dim, const ls_gradients *from,
                                       const int64_t *starts, const int64_t *order, size_t unique);

// Gradients of the ids' weights. out [count] of T: the left fold from +0, in T, over columns in
// ascending order of the rounded products of the gradient of occurrence k (of T, unscaled) and
// table[ids[k]]; 0 where ids[k] is padding_id. T is f64 where the table is.
void ls_kernel_weight_gradients(void *out, const void *table, const ls_table_shape *shape,
                                const ls_gradients *from, const int64_t *ids, int64_t padding_id,
                                size_t count);
void ls_kernel_weight_gradients_reference(void *out, const void *table, const ls_table_shape *shape,
                                          const ls_gradients *from, const int64_t *ids,
                                          int64_t padding_id, size_t count);

// Sums of norms. sums [count] f64 = for row ids[i] of weights [rows, dim]: the sum of |w|^norm_type
// (norm_type > 0; infinity: the largest |w|), in f64, in eight partial sums as in optimizer.h. Sums
// of column shards add up (infinity: their maximum) to the sum of the whole row.
void ls_kernel_norm_sums(double *sums, const void *weights, const ls_table_shape *shape,
                         const int64_t *ids, size_t count, double norm_type);
void ls_kernel_norm_sums_reference(double *sums, const void *weights, const ls_table_shape *shape,
                                   const int64_t *ids, size_t count, double norm_type);
typedef struct ls_norm_limit {
    double max_norm, norm_type, eps;
} ls_norm_limit;
// Rows ids [count] (distinct, in range) whose norm (the sum's root, rounded to T) is above max_norm
// are scaled in place by max_norm / (norm + eps), taken in f64 and rounded to T; products are
// rounded to T, then to dtype. sums as above; NULL: of the rows as they are. eps is 1e-7 in torch's
// embedding_renorm_, 0 in FBGEMM.
void ls_kernel_renormalise_rows(void *weights, const ls_table_shape *shape, const int64_t *ids,
                                const double *sums, size_t count, const ls_norm_limit *limit);
void ls_kernel_renormalise_rows_reference(void *weights, const ls_table_shape *shape,
                                          const int64_t *ids, const double *sums, size_t count,
                                          const ls_norm_limit *limit);

// One step of an optimizer over some rows of a shard.
typedef struct ls_row_update {
    void *weights;           // [rows, dim] of dtype (f32, f16, bf16, f64)
    ls_dtype dtype;          //
    int64_t rows;            //
    size_t dim;              //
    void *states[2];         // [rows] (per_row) or [rows, dim] of T; NULL where there is none
    const int64_t *row_ids;  // [count], distinct and ascending; NULL: rows 0 .. count
    const void *gradients;   // [count, dim] of T, one for each row
    size_t count;
    double factor;         // the gradient is first multiplied by this (rounded to T); 1: is not
    int64_t step;          // from 1: what the bias corrections count
    int64_t first_row;     // where the shard lies in its table, and the table's key: what
    int64_t first_column;  // stochastic rounding is drawn from, with the optimizer's seed and the
    uint64_t key;          // step. It does not depend on the sharding.
} ls_row_update;

// ls_optimizer_check must hold. Compared element by element, f32 weights: the fused sgd, adagrad
// and rowwise_adagrad (no decay) have the bits of FBGEMM's CPU kernels (1.6.0; of rowwise_adagrad
// for a table of one feature: it sums the squares of one with several in another order), the dense
// sgd those of torch.optim (2.11, CPU), adagrad, adam and adamw too but for torch's own square
// root, which is not correctly rounded where it is built with MKL. The other kinds FBGEMM has on
// GPUs alone: their operations are taken in the order and the precision that its source states,
// with its fma where it writes one.
void ls_kernel_update_rows(const ls_optimizer *optimizer, const ls_row_update *update);
void ls_kernel_update_rows_reference(const ls_optimizer *optimizer, const ls_row_update *update);

#ifdef __cplusplus
}
#endif
