// The kernels of kernels.h on a GPU. Same names with the suffix _cuda, same results bit for bit: no
// float atomics, no contraction, sums in the order that kernels.h states. Arrays are device memory,
// aligned to their elements; arguments marked (host) are ordinary memory.
//
// Every function enqueues its work on `stream` of the current device and returns; LS_ERR_BACKEND
// and LS_ERR_MEMORY have CUDA's text. resolve_ids waits for it, since it reports on data. Ids out
// of range where kernels.h asserts stop the kernel (a later call reports it).
#pragma once

#include "kernels/kernels.h"
#include "kernels/quantise.h"
#include "kernels/training.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *ls_cuda_stream;  // a cudaStream_t; NULL: the default stream

int ls_kernel_convert_cuda(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                           size_t count, ls_cuda_stream stream);

// value (host): one element of dtype.
int ls_kernel_fill_cuda(void *out, ls_dtype dtype, const void *value, size_t count,
                        ls_cuda_stream stream);
int ls_kernel_copy_cuda(void *out, const void *in, size_t bytes, ls_cuda_stream stream);
int ls_kernel_copy_2d_cuda(void *out, size_t out_stride_bytes, const void *in,
                           size_t in_stride_bytes, size_t row_bytes, size_t rows,
                           ls_cuda_stream stream);
// mask (host): copied before the call returns.
int ls_kernel_select_bytes_cuda(void *accumulator, const void *other, const unsigned char *mask,
                                size_t period, size_t start, size_t bytes, ls_cuda_stream stream);

// out (host). Waits for the stream.
int ls_kernel_any_special_cuda(bool *out, const void *data, size_t count, ls_dtype dtype,
                               ls_cuda_stream stream);

int ls_kernel_equal_cuda(bool *out, const void *a, const void *b, size_t bytes,
                         ls_cuda_stream stream);

// in (host) [in_count]: device pointers; premul (host) [in_count] or NULL.
int ls_kernel_reduce_cuda(void *out, const void *const *in, size_t in_count, ls_dtype dtype,
                          ls_op op, const double *premul, size_t count, ls_cuda_stream stream);
int ls_kernel_accumulate_cuda(void *accumulator, const void *in, ls_dtype dtype, ls_op op,
                              size_t count, ls_cuda_stream stream);
// factor (host): one element of dtype.
int ls_kernel_scale_cuda(void *out, const void *in, const void *factor, ls_dtype dtype,
                         size_t count, ls_cuda_stream stream);
int ls_kernel_accumulate_fma_cuda(void *accumulator, const void *in, const void *factor,
                                  ls_dtype dtype, size_t count, ls_cuda_stream stream);

// Waits for the stream. bad_index (host) as in kernels.h.
int ls_kernel_resolve_ids_cuda(int64_t *ids, size_t count, int64_t rows, ls_id_policy policy,
                               size_t *bad_index, ls_cuda_stream stream);
int ls_kernel_gather_rows_cuda(void *out, const void *table, size_t row_bytes, int64_t rows,
                               const int64_t *ids, size_t count, ls_cuda_stream stream);
int ls_kernel_scatter_rows_cuda(void *out, size_t out_stride_bytes, const void *in,
                                size_t row_bytes, const int64_t *positions, size_t count,
                                ls_cuda_stream stream);
int ls_kernel_fill_empty_bags_cuda(void *out, size_t out_stride, ls_dtype dtype, double value,
                                   size_t dim, const ls_bags *bags, ls_cuda_stream stream);
int ls_kernel_divide_bags_cuda(void *out, size_t out_stride, ls_dtype dtype, size_t dim,
                               double added, const ls_bags *bags, ls_cuda_stream stream);
int ls_kernel_pooled_lookup_cuda(void *out, size_t out_stride, const void *table,
                                 const ls_table_shape *shape, const ls_bags *bags,
                                 ls_cuda_stream stream);
int ls_kernel_dequantise_rows_cuda(float *out, const void *in, const ls_row_format *format,
                                   size_t rows, size_t dim, ls_cuda_stream stream);
int ls_kernel_quantised_lookup_cuda(float *out, size_t out_stride, const void *table,
                                    const ls_row_format *format, int64_t rows, size_t dim,
                                    const ls_bags *bags, ls_cuda_stream stream);
// row_starts [owners + 1] is device memory too.
int ls_kernel_bucketize_cuda(const ls_buckets *out, const int64_t *ids, const int64_t *lengths,
                             const float *weights, const int64_t *row_starts, size_t owners,
                             size_t bags, ls_cuda_stream stream);

int ls_kernel_matmul_cuda(void *out, const void *a, const void *b, ls_dtype dtype, size_t m,
                          size_t k, size_t n, ls_cuda_stream stream);

// Waits for the stream; unique (host).
int ls_kernel_group_ids_cuda(const ls_row_groups *out, size_t *unique, int64_t *scratch,
                             const int64_t *ids, size_t count, int64_t table_rows,
                             int64_t padding_id, ls_cuda_stream stream);
int ls_kernel_row_gradients_cuda(void *out, size_t dim, const ls_gradients *from,
                                 const int64_t *starts, const int64_t *order, size_t unique,
                                 ls_cuda_stream stream);
int ls_kernel_weight_gradients_cuda(void *out, const void *table, const ls_table_shape *shape,
                                    const ls_gradients *from, const int64_t *ids,
                                    int64_t padding_id, size_t count, ls_cuda_stream stream);
// LS_ERR_UNSUPPORTED unless norm_type is 1, 2 or infinity: CUDA's pow is not the C library's.
int ls_kernel_norm_sums_cuda(double *sums, const void *weights, const ls_table_shape *shape,
                             const int64_t *ids, size_t count, double norm_type,
                             ls_cuda_stream stream);
int ls_kernel_renormalise_rows_cuda(void *weights, const ls_table_shape *shape, const int64_t *ids,
                                    const double *sums, size_t count, const ls_norm_limit *limit,
                                    ls_cuda_stream stream);
// optimizer and update (host); update's pointers are device memory.
int ls_kernel_update_rows_cuda(const ls_optimizer *optimizer, const ls_row_update *update,
                               ls_cuda_stream stream);

// ---- An update in few launches, which wait for nothing and may be captured in a graph -----------
// bag_of [offsets[bags] - offsets[0]] = the bag of each id.
int ls_kernel_bag_of_cuda(int64_t *bag_of, const int64_t *offsets, size_t bags,
                          ls_cuda_stream stream);
// lists: what update_listed needs to know of ids [count], count <= room: row_lists_bytes bytes,
// zeros before the first call of all; after each list_rows must come an update_listed of the same
// ids, which leaves them fit for the next. Ids as of group_ids. LS_ERR_UNSUPPORTED above
// LS_ROW_LISTS_MAX ids (of `room`), 2^31 - 1 rows, or where the GPU cannot run a block for each
// 1,024 ids at once (an H100 runs 264).
enum { LS_ROW_LISTS_MAX = 1 << 17 };
int ls_kernel_row_lists_bytes(size_t *bytes, size_t room, int64_t table_rows, size_t dim);
int ls_kernel_list_rows_cuda(void *lists, size_t room, const int64_t *ids, size_t count,
                             int64_t table_rows, int64_t padding_id, ls_cuda_stream stream);
// group_ids, row_gradients and update_rows in one pass, with their bits. row_ids, gradients and
// count of `update` are not used; u->rows and u->dim are what the lists were made with. gradients,
// row_of and scales as of row_gradients. LS_ERR_UNSUPPORTED but for f32 rows, aligned to 16 bytes,
// of a multiple of 4 and at most 512 columns, and the fused sgd and rowwise_adagrad.
int ls_kernel_update_listed_cuda(const ls_optimizer *optimizer, const ls_row_update *update,
                                 void *lists, size_t room, size_t count, const ls_gradients *from,
                                 ls_cuda_stream stream);

#ifdef __cplusplus
}
#endif
