// A device: memory of its own and the kernels that work on it, behind one table of functions. The
// host is one (ordinary memory, the kernels of cpu/); a GPU is another (cuda/device.h). Code that
// goes through a device runs on either, and gives the same bits on both.
//
// Pointers are the device's memory, but those marked (host); structs are the host's, and hold such
// pointers. Kernels take what kernels.h says, run
// in the order of the calls, and return LS_ERR_BACKEND where the device failed; copies to and from
// the host wait for them. Not thread-safe.
#ifndef LS_KERNELS_DEVICE_H
#define LS_KERNELS_DEVICE_H

#include "kernels/kernels.h"
#include "kernels/quantise.h"
#include "kernels/training.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_device ls_device;

#define LS_DEVICE_HANDLE_BYTES 64  // CUDA's

typedef struct ls_device_ops {
    const char *name;  // "host", "cuda"
    bool is_host;      // its memory is ordinary memory
    // Zeroed memory, bytes > 0. LS_ERR_MEMORY says how many bytes were wanted and what is free.
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

    int (*any_special)(ls_device *device, bool *out, const void *data, size_t count,
                       ls_dtype dtype);  // out (host); waits for it
    int (*equal)(ls_device *device, bool *out, const void *a, const void *b,
                 size_t bytes);  // likewise
    int (*convert)(ls_device *device, void *out, ls_dtype out_dtype, const void *in,
                   ls_dtype in_dtype, size_t count);
    int (*fill)(ls_device *device, void *out, ls_dtype dtype, const void *value,
                size_t count);  // value (host)
    int (*copy)(ls_device *device, void *out, const void *in, size_t bytes);
    int (*copy_2d)(ls_device *device, void *out, size_t out_stride_bytes, const void *in,
                   size_t in_stride_bytes, size_t row_bytes, size_t rows);
    int (*select_bytes)(ls_device *device, void *accumulator, const void *other,
                        const unsigned char *mask, size_t period, size_t start,
                        size_t bytes);  // mask (host)
    // in, premul (host) [in_count]; in's pointers are device memory.
    int (*reduce)(ls_device *device, void *out, const void *const *in, size_t in_count,
                  ls_dtype dtype, ls_op op, const double *premul, size_t count);
    int (*accumulate)(ls_device *device, void *accumulator, const void *in, ls_dtype dtype,
                      ls_op op, size_t count);
    int (*scale)(ls_device *device, void *out, const void *in, const void *factor, ls_dtype dtype,
                 size_t count);  // factor (host)
    int (*accumulate_fma)(ls_device *device, void *accumulator, const void *in, const void *factor,
                          ls_dtype dtype, size_t count);  // factor (host)

    int (*resolve_ids)(ls_device *device, int64_t *ids, size_t count, int64_t rows,
                       ls_id_policy policy, size_t *bad_index);  // bad_index (host)
    int (*gather_rows)(ls_device *device, void *out, const void *table, size_t row_bytes,
                       int64_t rows, const int64_t *ids, size_t count);
    int (*scatter_rows)(ls_device *device, void *out, size_t out_stride_bytes, const void *in,
                        size_t row_bytes, const int64_t *positions, size_t count);
    int (*pooled_lookup)(ls_device *device, void *out, size_t out_stride, const void *table,
                         const ls_table_shape *shape, const ls_bags *bags);
    // format (host), of rows in device memory
    int (*quantised_lookup)(ls_device *device, float *out, size_t out_stride, const void *table,
                            const ls_row_format *format, int64_t rows, size_t dim,
                            const ls_bags *bags);
    int (*dequantise_rows)(ls_device *device, float *out, const void *in,
                           const ls_row_format *format, size_t rows, size_t dim);
    int (*fill_empty_bags)(ls_device *device, void *out, size_t out_stride, ls_dtype dtype,
                           double value, size_t dim, const ls_bags *bags);
    int (*divide_bags)(ls_device *device, void *out, size_t out_stride, ls_dtype dtype, size_t dim,
                       double added, const ls_bags *bags);
    int (*matmul)(ls_device *device, void *out, const void *a, const void *b, ls_dtype dtype,
                  size_t m, size_t k, size_t n);
    int (*bucketize)(ls_device *device, const ls_buckets *out, const int64_t *ids,
                     const int64_t *lengths, const float *weights, const int64_t *row_starts,
                     size_t owners, size_t bags);  // row_starts (host)

    int (*group_ids)(ls_device *device, const ls_row_groups *out, size_t *unique, int64_t *scratch,
                     const int64_t *ids, size_t count, int64_t table_rows,
                     int64_t padding_id);  // unique (host)
    int (*row_gradients)(ls_device *device, void *out, size_t dim, const ls_gradients *from,
                         const int64_t *starts, const int64_t *order, size_t unique);
    int (*weight_gradients)(ls_device *device, void *out, const void *table,
                            const ls_table_shape *shape, const ls_gradients *from,
                            const int64_t *ids, int64_t padding_id, size_t count);
    int (*norm_sums)(ls_device *device, double *sums, const void *weights,
                     const ls_table_shape *shape, const int64_t *ids, size_t count,
                     double norm_type);
    int (*renormalise_rows)(ls_device *device, void *weights, const ls_table_shape *shape,
                            const int64_t *ids, const double *sums, size_t count,
                            const ls_norm_limit *limit);
    int (*update_rows)(ls_device *device, const ls_optimizer *optimizer,
                       const ls_row_update *update);  // both (host), update's pointers are not
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
#endif
