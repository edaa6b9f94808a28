// kernels: pure functions over plain memory. They know no rank, keep no state and allocate nothing.
// cpu/ holds the fast versions and, beside each, a plain reference (suffix _reference) that tests
// compare them with; cuda/ implements the same face on a GPU.
//
// Conventions: outputs first, sizes last; every array's shape in its comment; sizes are element
// counts unless a name ends in _bytes. Arguments are the caller's duty (asserted where cheap);
// functions that meet bad *data* (an id out of range) return a status and say where.
// Results never depend on the number of worker threads.
#pragma once

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/element.h"
#include "kernels/pooling.h"
#include "kernels/quantise.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Conversions --------------------------------------------------------------------------------
// out [count] of out_dtype = in [count] of in_dtype, each element rounded once from its exact value
// (integers clamp; integer to integer is exact where it fits). May not alias.
void ls_kernel_convert(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                       size_t count);

// The same by plain code that shares nothing with the fast version; so for every _reference below.
void ls_kernel_convert_reference(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                                 size_t count);

// ---- Fill and copy ------------------------------------------------------------------------------
// out [count] = *value (one element of dtype).
LS_API_BACKENDS void ls_kernel_fill(void *out, ls_dtype dtype, const void *value, size_t count);
// out = in; may not overlap unless equal.
void ls_kernel_copy(void *out, const void *in, size_t bytes);
// The same, past the caches: for a result larger than them, where reading each line of it before
// it is overwritten would cost half as much again.
void ls_kernel_copy_streamed(void *out, const void *in, size_t bytes);
// Copies `rows` rows of row_bytes bytes between two strided arrays (strides in bytes).
void ls_kernel_copy_2d(void *out, size_t out_stride_bytes, const void *in, size_t in_stride_bytes,
                       size_t row_bytes, size_t rows);
// Byte i of accumulator [bytes] stays where mask [period] has 0xff at (start + i) % period; where
// it has 0 it becomes other's.
void ls_kernel_select_bytes(void *accumulator, const void *other, const unsigned char *mask,
                            size_t period, size_t start, size_t bytes);

// ---- Reduce -------------------------------------------------------------------------------------
// out [count] = left fold of in[0..in_count) [count] by op, in dtype, rounded after every step (f8:
// through f16, as NCCL does, which also saturates e5m2's infinities). Integers wrap. max, min: NaN
// loses against a number and -0 < +0. Which payload a NaN gets is not specified.
//   avg: the sum, then divided by in_count: floats rounded once more, integers toward zero.
//   premul_sum: in[k] is first multiplied by premul[k] (the factor rounded to dtype, the product
//   again; integers: the factor is truncated and clamped to the type, the product wraps), then
//   summed. premul is NULL for other ops.
// out may equal any of in[] or lie apart. in_count >= 1. ls_op_supports(op, dtype) must hold.
LS_API_BACKENDS void ls_kernel_reduce(void *out, const void *const *in, size_t in_count,
                                      ls_dtype dtype, ls_op op, const double *premul, size_t count);
void ls_kernel_reduce_reference(void *out, const void *const *in, size_t in_count, ls_dtype dtype,
                                ls_op op, const double *premul, size_t count);
// accumulator [count] = accumulator op in [count], one step of such a fold (not avg, premul_sum).
LS_API_BACKENDS void ls_kernel_accumulate(void *accumulator, const void *in, ls_dtype dtype,
                                          ls_op op, size_t count);
// out [count] = in [count] * *factor (one element of dtype), rounded; integers wrap, f8 through
// f16. out may equal in.
void ls_kernel_scale(void *out, const void *in, const void *factor, ls_dtype dtype, size_t count);
// accumulator [count] = fma(in [count], *factor, accumulator), rounded once: f32, f64, f16, bf16.
void ls_kernel_accumulate_fma(void *accumulator, const void *in, const void *factor, ls_dtype dtype,
                              size_t count);
// Whether data [count] holds a NaN or an infinity; never for integers.
bool ls_kernel_any_special(const void *data, size_t count, ls_dtype dtype);
bool ls_kernel_any_special_reference(const void *data, size_t count, ls_dtype dtype);

// ---- Embedding kernels --------------------------------------------------------------------------
// The rows of a table, or of a shard of one: [rows, dim] of dtype.
typedef struct ls_table_shape {
    ls_dtype dtype;
    int64_t rows;
    size_t dim;
} ls_table_shape;

// Bags of ids: bag b owns ids and weights [offsets[b] - offsets[0], offsets[b + 1] - offsets[0]).
typedef struct ls_bags {
    const int64_t *ids;      // [offsets[count] - offsets[0]]
    const int64_t *offsets;  // [count + 1]
    const float *weights;    // one for each id (LS_FIELD: numbers of the field), or NULL
    int64_t padding_id;      // ids equal to it do not count; -1: none
    ls_pooling pooling;      // of a lookup
    size_t count;
} ls_bags;

// Where bucketize puts the ids of each owner.
typedef struct ls_buckets {
    int64_t *lengths;    // [owners, bags]
    int64_t *ids;        // [total] owner-major, then in the order of the bags; local to the owner
    float *weights;      // likewise, or NULL where there are none
    int64_t *positions;  // index in the source order of each id, or NULL
} ls_buckets;

// Applies the policy to ids [count] in place. On LS_ERR_INVALID *bad_index (may be NULL) is the
// first bad position and the ids are unchanged. A table of 0 rows has no valid id under any policy.
int ls_kernel_resolve_ids(int64_t *ids, size_t count, int64_t rows, ls_id_policy policy,
                          size_t *bad_index);

// out [count, row_bytes] = rows table[ids[i]]; ids in range (asserted).
void ls_kernel_gather_rows(void *out, const void *table, size_t row_bytes, int64_t rows,
                           const int64_t *ids, size_t count);

// Rows out[positions[i]] (strides of out_stride_bytes) = in [count, row_bytes]; positions distinct.
void ls_kernel_scatter_rows(void *out, size_t out_stride_bytes, const void *in, size_t row_bytes,
                            const int64_t *positions, size_t count);

// Pooled lookup. out [bags, dim] f32 with row stride out_stride elements; table of shape f32, f16,
// bf16 or f64. Padding does not reach the result.
// Accumulates in f32 (f64 tables: out is f64), in the order of the bag from +0, multiply then add
// (no fma); sum(w) likewise. max: of w e; NaN loses, -0 < +0. pooling is not LS_POOL_NONE. Ids that
// count are in range (asserted).
void ls_kernel_pooled_lookup(void *out, size_t out_stride, const void *table,
                             const ls_table_shape *shape, const ls_bags *bags);
void ls_kernel_pooled_lookup_reference(void *out, size_t out_stride, const void *table,
                                       const ls_table_shape *shape, const ls_bags *bags);

// The bits that the lookup of an f32 table gives of dequantised rows (quantise.h). out [bags, dim]
// with row stride out_stride elements; table [rows, ls_row_format_bytes]; ids that count are in
// range (asserted). From +0, in the order of the bag, multiply then add; mean: sum(w e) / sum(w).
// pooling is not LS_POOL_NONE. (FBGEMM adds in another order: w bias first, then fma of q with w
// scale.)
void ls_kernel_quantised_lookup(float *out, size_t out_stride, const void *table,
                                const ls_row_format *format, int64_t rows, size_t dim,
                                const ls_bags *bags);

// Every element of rows of out [bags, dim] (of dtype, with row stride out_stride
// elements) whose bag has no id that counts becomes `value`.
void ls_kernel_fill_empty_bags(void *out, size_t out_stride, ls_dtype dtype, double value,
                               size_t dim, const ls_bags *bags);
// Turns sums into means: divides row b of out [bags, dim] (f32, f64) by the number of bag b's ids
// that count, or, with weights, by the sum of their weights, plus `added`; divisor and quotient in
// f64, the sum in the order of the bag, one rounding at the end. Bags without an id that counts
// stay.
void ls_kernel_divide_bags(void *out, size_t out_stride, ls_dtype dtype, size_t dim, double added,
                           const ls_bags *bags);

// Bucketize: splits bags by the owner of each id, keeping order. Owner p holds ids
// [row_starts[p], row_starts[p+1]); row_starts [owners + 1], ascending, empty owners allowed.
// out->ids are id - row_starts[owner]; out->weights is NULL when weights is. All ids must be in
// range.
void ls_kernel_bucketize(const ls_buckets *out, const int64_t *ids, const int64_t *lengths,
                         const float *weights, const int64_t *row_starts, size_t owners,
                         size_t bags);
void ls_kernel_bucketize_reference(const ls_buckets *out, const int64_t *ids,
                                   const int64_t *lengths, const float *weights,
                                   const int64_t *row_starts, size_t owners, size_t bags);

// offsets [count + 1] = exclusive prefix sum of lengths [count], then the total.
// LS_ERR_INVALID for a negative length, LS_ERR_OVERFLOW past INT64_MAX; *bad_index names it.
int ls_kernel_offsets(int64_t *offsets, const int64_t *lengths, size_t count, size_t *bad_index);

// ---- Linear algebra -----------------------------------------------------------------------------
// out [m, n] = a [m, k] b [k, n] in dtype f32 or f64, row-major, each element a left fold over k of
// rounded products from +0 (no fma): the same bits however the work is split by rows or columns.
// out overlaps neither.
void ls_kernel_matmul(void *out, const void *a, const void *b, ls_dtype dtype, size_t m, size_t k,
                      size_t n);
void ls_kernel_matmul_reference(void *out, const void *a, const void *b, ls_dtype dtype, size_t m,
                                size_t k, size_t n);

#ifdef __cplusplus
}
#endif
