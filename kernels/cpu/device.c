// The host as a device: ordinary memory and the kernels of this folder.
#include "kernels/device.h"

#include <string.h>

#include "base/memory.h"

// ---- Memory -------------------------------------------------------------------------------------
static int host_alloc(ls_device *device, void **out, size_t bytes) {
    (void)device;
    return ls_alloc(out, bytes, 1);
}

static void host_free(ls_device *device, void *pointer, size_t bytes) {
    (void)device;
    ls_free(pointer, bytes, 1);
}

static bool host_owns(ls_device *device, const void *pointer) {
    (void)device;
    return pointer != NULL;
}

static int host_wait(ls_device *device) {
    (void)device;
    return LS_OK;
}

static int host_move(ls_device *device, void *out, const void *in, size_t bytes) {
    (void)device;
    if (bytes > 0 && out != in) {
        memcpy(out, in, bytes);
    }
    return LS_OK;
}

static int host_import(ls_device *device, void **out, const void *handle) {
    (void)device, (void)handle;
    *out = NULL;
    return LS_FAIL(LS_ERR_UNSUPPORTED, "ordinary memory has no handles");
}

static void host_import_end(ls_device *device, void *pointer) {
    (void)device, (void)pointer;
}

// ---- Kernels ------------------------------------------------------------------------------------
static int host_equal(ls_device *device, bool *out, const void *a, const void *b, size_t bytes) {
    (void)device;
    *out = bytes == 0 || memcmp(a, b, bytes) == 0;
    return LS_OK;
}

static int host_any_special(ls_device *device, bool *out, const void *data, size_t count,
                            ls_dtype dtype) {
    (void)device;
    *out = ls_kernel_any_special(data, count, dtype);
    return LS_OK;
}

static int host_convert(ls_device *device, void *out, ls_dtype out_dtype, const void *in,
                        ls_dtype in_dtype, size_t count) {
    (void)device;
    ls_kernel_convert(out, out_dtype, in, in_dtype, count);
    return LS_OK;
}

static int host_fill(ls_device *device, void *out, ls_dtype dtype, const void *value,
                     size_t count) {
    (void)device;
    ls_kernel_fill(out, dtype, value, count);
    return LS_OK;
}

static int host_copy(ls_device *device, void *out, const void *in, size_t bytes) {
    (void)device;
    if (bytes > 0 && out != in) {
        ls_kernel_copy(out, in, bytes);
    }
    return LS_OK;
}

static int host_copy_2d(ls_device *device, void *out, size_t out_stride_bytes, const void *in,
                        size_t in_stride_bytes, size_t row_bytes, size_t rows) {
    (void)device;
    ls_kernel_copy_2d(out, out_stride_bytes, in, in_stride_bytes, row_bytes, rows);
    return LS_OK;
}

static int host_select_bytes(ls_device *device, void *accumulator, const void *other,
                             const unsigned char *mask, size_t period, size_t start, size_t bytes) {
    (void)device;
    ls_kernel_select_bytes(accumulator, other, mask, period, start, bytes);
    return LS_OK;
}

static int host_reduce(ls_device *device, void *out, const void *const *in, size_t in_count,
                       ls_dtype dtype, ls_op op, const double *premul, size_t count) {
    (void)device;
    ls_kernel_reduce(out, in, in_count, dtype, op, premul, count);
    return LS_OK;
}

static int host_accumulate(ls_device *device, void *accumulator, const void *in, ls_dtype dtype,
                           ls_op op, size_t count) {
    (void)device;
    ls_kernel_accumulate(accumulator, in, dtype, op, count);
    return LS_OK;
}

static int host_scale(ls_device *device, void *out, const void *in, const void *factor,
                      ls_dtype dtype, size_t count) {
    (void)device;
    ls_kernel_scale(out, in, factor, dtype, count);
    return LS_OK;
}

static int host_accumulate_fma(ls_device *device, void *accumulator, const void *in,
                               const void *factor, ls_dtype dtype, size_t count) {
    (void)device;
    ls_kernel_accumulate_fma(accumulator, in, factor, dtype, count);
    return LS_OK;
}

static int host_resolve_ids(ls_device *device, int64_t *ids, size_t count, int64_t rows,
                            ls_id_policy policy, size_t *bad_index) {
    (void)device;
    return ls_kernel_resolve_ids(ids, count, rows, policy, bad_index);
}

static int host_gather_rows(ls_device *device, void *out, const void *table, size_t row_bytes,
                            int64_t rows, const int64_t *ids, size_t count) {
    (void)device;
    ls_kernel_gather_rows(out, table, row_bytes, rows, ids, count);
    return LS_OK;
}

static int host_scatter_rows(ls_device *device, void *out, size_t out_stride_bytes, const void *in,
                             size_t row_bytes, const int64_t *positions, size_t count) {
    (void)device;
    ls_kernel_scatter_rows(out, out_stride_bytes, in, row_bytes, positions, count);
    return LS_OK;
}

static int host_pooled_lookup(ls_device *device, void *out, size_t out_stride, const void *table,
                              const ls_table_shape *shape, const ls_bags *bags) {
    (void)device;
    ls_kernel_pooled_lookup(out, out_stride, table, shape, bags);
    return LS_OK;
}

static int host_quantised_lookup(ls_device *device, float *out, size_t out_stride,
                                 const void *table, const ls_row_format *format, int64_t rows,
                                 size_t dim, const ls_bags *bags) {
    (void)device;
    ls_kernel_quantised_lookup(out, out_stride, table, format, rows, dim, bags);
    return LS_OK;
}

static int host_dequantise_rows(ls_device *device, float *out, const void *in,
                                const ls_row_format *format, size_t rows, size_t dim) {
    (void)device;
    ls_kernel_dequantise_rows(out, in, format, rows, dim);
    return LS_OK;
}

static int host_fill_empty_bags(ls_device *device, void *out, size_t out_stride, ls_dtype dtype,
                                double value, size_t dim, const ls_bags *bags) {
    (void)device;
    ls_kernel_fill_empty_bags(out, out_stride, dtype, value, dim, bags);
    return LS_OK;
}

static int host_divide_bags(ls_device *device, void *out, size_t out_stride, ls_dtype dtype,
                            size_t dim, double added, const ls_bags *bags) {
    (void)device;
    ls_kernel_divide_bags(out, out_stride, dtype, dim, added, bags);
    return LS_OK;
}

static int host_matmul(ls_device *device, void *out, const void *a, const void *b, ls_dtype dtype,
                       size_t m, size_t k, size_t n) {
    (void)device;
    ls_kernel_matmul(out, a, b, dtype, m, k, n);
    return LS_OK;
}

static int host_bucketize(ls_device *device, const ls_buckets *out, const int64_t *ids,
                          const int64_t *lengths, const float *weights, const int64_t *row_starts,
                          size_t owners, size_t bags) {
    (void)device;
    ls_kernel_bucketize(out, ids, lengths, weights, row_starts, owners, bags);
    return LS_OK;
}

static int host_group_ids(ls_device *device, const ls_row_groups *out, size_t *unique,
                          int64_t *scratch, const int64_t *ids, size_t count, int64_t table_rows,
                          int64_t padding_id) {
    (void)device;
    ls_kernel_group_ids(out, unique, scratch, ids, count, table_rows, padding_id);
    return LS_OK;
}

static int host_row_gradients(ls_device *device, void *out, size_t dim, const ls_gradients *from,
                              const int64_t *starts, const int64_t *order, size_t unique) {
    (void)device;
    ls_kernel_row_gradients(out, dim, from, starts, order, unique);
    return LS_OK;
}

static int host_weight_gradients(ls_device *device, void *out, const void *table,
                                 const ls_table_shape *shape, const ls_gradients *from,
                                 const int64_t *ids, int64_t padding_id, size_t count) {
    (void)device;
    ls_kernel_weight_gradients(out, table, shape, from, ids, padding_id, count);
    return LS_OK;
}

static int host_norm_sums(ls_device *device, double *sums, const void *weights,
                          const ls_table_shape *shape, const int64_t *ids, size_t count,
                          double norm_type) {
    (void)device;
    ls_kernel_norm_sums(sums, weights, shape, ids, count, norm_type);
    return LS_OK;
}

static int host_renormalise_rows(ls_device *device, void *weights, const ls_table_shape *shape,
                                 const int64_t *ids, const double *sums, size_t count,
                                 const ls_norm_limit *limit) {
    (void)device;
    ls_kernel_renormalise_rows(weights, shape, ids, sums, count, limit);
    return LS_OK;
}

static int host_update_rows(ls_device *device, const ls_optimizer *optimizer,
                            const ls_row_update *update) {
    (void)device;
    ls_kernel_update_rows(optimizer, update);
    return LS_OK;
}

static const ls_device_ops host_ops = {
    .name = "host",
    .is_host = true,
    .alloc = host_alloc,
    .free = host_free,
    .owns = host_owns,
    .share = host_alloc,
    .free_shared = host_free,
    .wait = host_wait,
    .copy_in = host_move,
    .copy_out = host_move,
    .import = host_import,
    .import_end = host_import_end,
    .any_special = host_any_special,
    .equal = host_equal,
    .convert = host_convert,
    .fill = host_fill,
    .copy = host_copy,
    .copy_2d = host_copy_2d,
    .select_bytes = host_select_bytes,
    .reduce = host_reduce,
    .accumulate = host_accumulate,
    .scale = host_scale,
    .accumulate_fma = host_accumulate_fma,
    .resolve_ids = host_resolve_ids,
    .gather_rows = host_gather_rows,
    .scatter_rows = host_scatter_rows,
    .pooled_lookup = host_pooled_lookup,
    .quantised_lookup = host_quantised_lookup,
    .dequantise_rows = host_dequantise_rows,
    .fill_empty_bags = host_fill_empty_bags,
    .divide_bags = host_divide_bags,
    .matmul = host_matmul,
    .bucketize = host_bucketize,
    .group_ids = host_group_ids,
    .row_gradients = host_row_gradients,
    .weight_gradients = host_weight_gradients,
    .norm_sums = host_norm_sums,
    .renormalise_rows = host_renormalise_rows,
    .update_rows = host_update_rows,
};

ls_device *ls_device_host(void) {
    static ls_device host = {.ops = &host_ops};
    return &host;
}
