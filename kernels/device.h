// A device: memory and the kernels that work on it, behind one table of functions. The host is one
// (ordinary memory, the kernels of cpu/); a GPU is another (cuda/device.h). Code that uses a device
// runs on either, and gives the same bits on both.
//
// Pointers are device memory, except those marked (host); structs are the host's, and contain such
// pointers. Kernels take the arguments of kernels.h, run in call order, and return LS_ERR_BACKEND
// if the device failed; copies to and from the host wait for them. Not thread-safe.
#pragma once

#include "kernels/kernels.h"
#include "kernels/quantise.h"
#include "kernels/training.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_device ls_device;

#define LS_DEVICE_HANDLE_BYTES 64  // CUDA's

// The kernels, described in their headers, with parameters and arguments: those that each device
// implements by a function, and those that are a call of its kernel. (host): the out of equal and
// any_special, which wait; value, mask, premul, factor, format, optimizer, update, bad_index,
// unique, row_starts; in of reduce [in_count], whose pointers are the device's.
#define LS_DEVICE_OWN_MAP(X)                                                                       \
    X(any_special, (bool *out, const void *data, size_t count, ls_dtype dtype),                    \
      (out, data, count, dtype))                                                                   \
    X(equal, (bool *out, const void *a, const void *b, size_t bytes), (out, a, b, bytes))          \
    X(copy, (void *out, const void *in, size_t bytes), (out, in, bytes))                           \
    X(resolve_ids,                                                                                 \
      (int64_t * ids, size_t count, int64_t rows, ls_id_policy policy, size_t * bad_index),        \
      (ids, count, rows, policy, bad_index))                                                       \
    X(bucketize,                                                                                   \
      (const ls_buckets *out, const int64_t *ids, const int64_t *lengths, const float *weights,    \
       const int64_t *row_starts, size_t owners, size_t bags),                                     \
      (out, ids, lengths, weights, row_starts, owners, bags))
#define LS_DEVICE_KERNEL_MAP(X)                                                                    \
    X(convert, (void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype, size_t count),   \
      (out, out_dtype, in, in_dtype, count))                                                       \
    X(fill, (void *out, ls_dtype dtype, const void *value, size_t count),                          \
      (out, dtype, value, count))                                                                  \
    X(copy_2d,                                                                                     \
      (void *out, size_t out_stride_bytes, const void *in, size_t in_stride_bytes,                 \
       size_t row_bytes, size_t rows),                                                             \
      (out, out_stride_bytes, in, in_stride_bytes, row_bytes, rows))                               \
    X(select_bytes,                                                                                \
      (void *accumulator, const void *other, const unsigned char *mask, size_t period,             \
       size_t start, size_t bytes),                                                                \
      (accumulator, other, mask, period, start, bytes))                                            \
    X(reduce,                                                                                      \
      (void *out, const void *const *in, size_t in_count, ls_dtype dtype, ls_op op,                \
       const double *premul, size_t count),                                                        \
      (out, in, in_count, dtype, op, premul, count))                                               \
    X(accumulate, (void *accumulator, const void *in, ls_dtype dtype, ls_op op, size_t count),     \
      (accumulator, in, dtype, op, count))                                                         \
    X(scale, (void *out, const void *in, const void *factor, ls_dtype dtype, size_t count),        \
      (out, in, factor, dtype, count))                                                             \
    X(accumulate_fma,                                                                              \
      (void *accumulator, const void *in, const void *factor, ls_dtype dtype, size_t count),       \
      (accumulator, in, factor, dtype, count))                                                     \
    X(gather_rows,                                                                                 \
      (void *out, const void *table, size_t row_bytes, int64_t rows, const int64_t *ids,           \
       size_t count),                                                                              \
      (out, table, row_bytes, rows, ids, count))                                                   \
    X(scatter_rows,                                                                                \
      (void *out, size_t out_stride_bytes, const void *in, size_t row_bytes,                       \
       const int64_t *positions, size_t count),                                                    \
      (out, out_stride_bytes, in, row_bytes, positions, count))                                    \
    X(pooled_lookup,                                                                               \
      (void *out, size_t out_stride, const void *table, const ls_table_shape *shape,               \
       const ls_bags *bags),                                                                       \
      (out, out_stride, table, shape, bags))                                                       \
    X(quantised_lookup,                                                                            \
      (float *out, size_t out_stride, const void *table, const ls_row_format *format,              \
       int64_t rows, size_t dim, const ls_bags *bags),                                             \
      (out, out_stride, table, format, rows, dim, bags))                                           \
    X(dequantise_rows,                                                                             \
      (float *out, const void *in, const ls_row_format *format, size_t rows, size_t dim),          \
      (out, in, format, rows, dim))                                                                \
    X(fill_empty_bags,                                                                             \
      (void *out, size_t out_stride, ls_dtype dtype, double value, size_t dim,                     \
       const ls_bags *bags),                                                                       \
      (out, out_stride, dtype, value, dim, bags))                                                  \
    X(divide_bags,                                                                                 \
      (void *out, size_t out_stride, ls_dtype dtype, size_t dim, double added,                     \
       const ls_bags *bags),                                                                       \
      (out, out_stride, dtype, dim, added, bags))                                                  \
    X(matmul,                                                                                      \
      (void *out, const void *a, const void *b, ls_dtype dtype, size_t m, size_t k, size_t n),     \
      (out, a, b, dtype, m, k, n))                                                                 \
    X(group_ids,                                                                                   \
      (const ls_row_groups *out, size_t *unique, int64_t *scratch, const int64_t *ids,             \
       size_t count, int64_t table_rows, int64_t padding_id),                                      \
      (out, unique, scratch, ids, count, table_rows, padding_id))                                  \
    X(row_gradients,                                                                               \
      (void *out, size_t dim, const ls_gradients *from, const int64_t *starts,                     \
       const int64_t *order, size_t unique),                                                       \
      (out, dim, from, starts, order, unique))                                                     \
    X(weight_gradients,                                                                            \
      (void *out, const void *table, const ls_table_shape *shape, const ls_gradients *from,        \
       const int64_t *ids, int64_t padding_id, size_t count),                                      \
      (out, table, shape, from, ids, padding_id, count))                                           \
    X(norm_sums,                                                                                   \
      (double *sums, const void *weights, const ls_table_shape *shape, const int64_t *ids,         \
       size_t count, double norm_type),                                                            \
      (sums, weights, shape, ids, count, norm_type))                                               \
    X(renormalise_rows,                                                                            \
      (void *weights, const ls_table_shape *shape, const int64_t *ids, const double *sums,         \
       size_t count, const ls_norm_limit *limit),                                                  \
      (weights, shape, ids, sums, count, limit))                                                   \
    X(update_rows, (const ls_optimizer *optimizer, const ls_row_update *update),                   \
      (optimizer, update))
#define LS_DEVICE_PARAMETERS(...)                     (ls_device * device, __VA_ARGS__)
#define LS_DEVICE_MEMBER(name, parameters, arguments) int(*name) LS_DEVICE_PARAMETERS parameters;

typedef struct ls_device_ops {
    const char *name;  // "host", "cuda"
    bool is_host;      // its memory is ordinary memory
    // Zeroed memory, bytes > 0. LS_ERR_MEMORY names the requested bytes and the free ones.
    int (*alloc)(ls_device *device, void **out, size_t bytes);
    void (*free)(ls_device *device, void *pointer, size_t bytes);  // NULL is allowed
    bool (*owns)(ls_device *device, const void *pointer);          // such memory, or shared memory
    // Zeroed memory that the host reaches too, though not while kernels run (wait ends that).
    int (*share)(ls_device *device, void **out, size_t bytes);
    void (*free_shared)(ls_device *device, void *pointer, size_t bytes);  // NULL is allowed
    int (*wait)(ls_device *device);                                       // for all kernels
    int (*copy_in)(ls_device *device, void *out, const void *host, size_t bytes);
    int (*copy_out)(ls_device *device, void *host, const void *in, size_t bytes);
    // Memory of another process on this machine by the handle [LS_DEVICE_HANDLE_BYTES] that it gave
    // out, until import_end. LS_ERR_UNSUPPORTED: the device has no such memory.
    int (*import)(ls_device *device, void **out, const void *handle);  // handle (host)
    void (*import_end)(ls_device *device, void *pointer);              // NULL is allowed

    LS_DEVICE_OWN_MAP(LS_DEVICE_MEMBER)
    LS_DEVICE_KERNEL_MAP(LS_DEVICE_MEMBER)
} ls_device_ops;

struct ls_device {
    const ls_device_ops *ops;
    void *impl;
};

// The host: ordinary memory. Never NULL; not to be freed.
ls_device *ls_device_host(void);

#ifdef __cplusplus
}
#endif
