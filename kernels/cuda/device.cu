// A GPU as a device: its memory, and the kernels of this folder on the default stream.
#include "kernels/cuda/device.h"

#include <cstdio>
#include <cstring>

#include "kernels/cuda/device.cuh"

using namespace ls;

// ---- Memory -------------------------------------------------------------------------------------
static int cuda_alloc(ls_device *device, void **out, size_t bytes) {
    (void)device;
    *out = nullptr;
    cudaError_t error = cudaMallocAsync(out, bytes, nullptr);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        size_t free_bytes = 0, total_bytes = 0;
        (void)cudaMemGetInfo(&free_bytes, &total_bytes);
        *out = nullptr;
        return LS_FAIL(LS_ERR_MEMORY,
                       "out of GPU memory: %zu bytes wanted, %zu of the GPU's %zu are free", bytes,
                       free_bytes, total_bytes);
    }
    LS_TRY(check(error, "GPU memory"));
    return check(cudaMemsetAsync(*out, 0, bytes, nullptr), "clearing GPU memory");
}

static void cuda_free(ls_device *device, void *pointer, size_t bytes) {
    (void)device, (void)bytes;
    if (pointer != nullptr) {
        (void)cudaFreeAsync(pointer, nullptr);
    }
}

static bool cuda_owns(ls_device *device, const void *pointer) {
    (void)device;
    cudaPointerAttributes attributes;
    if (pointer == nullptr || cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

static int cuda_wait(ls_device *device) {
    (void)device;
    return check(cudaDeviceSynchronize(), "waiting for the GPU");
}

static int cuda_share(ls_device *device, void **out, size_t bytes) {
    *out = nullptr;
    cudaError_t error = cudaMallocManaged(out, bytes, cudaMemAttachGlobal);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        *out = nullptr;
        return LS_FAIL(LS_ERR_MEMORY, "out of GPU memory: %zu bytes wanted", bytes);
    }
    LS_TRY(check(error, "GPU memory"));
    LS_TRY(check(cudaMemsetAsync(*out, 0, bytes, nullptr), "clearing GPU memory"));
    return cuda_wait(device);
}

static void cuda_free_shared(ls_device *device, void *pointer, size_t bytes) {
    (void)device, (void)bytes;
    (void)cudaFree(pointer);  // NULL is allowed
}

static int cuda_copy_in(ls_device *device, void *out, const void *host, size_t bytes) {
    (void)device;
    if (bytes == 0) {
        return LS_OK;
    }
    return check(cudaMemcpy(out, host, bytes, cudaMemcpyHostToDevice), "copying to the GPU");
}

static int cuda_copy_out(ls_device *device, void *host, const void *in, size_t bytes) {
    (void)device;
    if (bytes == 0) {
        return LS_OK;
    }
    return check(cudaMemcpy(host, in, bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
}

static int cuda_import(ls_device *device, void **out, const void *handle) {
    (void)device;
    cudaIpcMemHandle_t given;
    static_assert(sizeof given == LS_DEVICE_HANDLE_BYTES, "the handle's size");
    memcpy(&given, handle, sizeof given);
    *out = nullptr;
    int status = check(cudaIpcOpenMemHandle(out, given, cudaIpcMemLazyEnablePeerAccess),
                       "opening another process's GPU memory");
    if (status != LS_OK) {
        (void)cudaGetLastError();  // nothing else is wrong
    }
    return status;
}

static void cuda_import_end(ls_device *device, void *pointer) {
    (void)device;
    if (pointer != nullptr && cudaIpcCloseMemHandle(pointer) != cudaSuccess) {
        (void)cudaGetLastError();
    }
}

// ---- Kernels ------------------------------------------------------------------------------------
static int cuda_equal(ls_device *device, bool *out, const void *a, const void *b, size_t bytes) {
    (void)device;
    return ls_kernel_equal_cuda(out, a, b, bytes, nullptr);
}

static int cuda_any_special(ls_device *device, bool *out, const void *data, size_t count,
                            ls_dtype dtype) {
    (void)device;
    return ls_kernel_any_special_cuda(out, data, count, dtype, nullptr);
}

static int cuda_convert(ls_device *device, void *out, ls_dtype out_dtype, const void *in,
                        ls_dtype in_dtype, size_t count) {
    (void)device;
    return ls_kernel_convert_cuda(out, out_dtype, in, in_dtype, count, nullptr);
}

static int cuda_fill(ls_device *device, void *out, ls_dtype dtype, const void *value,
                     size_t count) {
    (void)device;
    return ls_kernel_fill_cuda(out, dtype, value, count, nullptr);
}

static int cuda_copy(ls_device *device, void *out, const void *in, size_t bytes) {
    (void)device;
    return ls_kernel_copy_cuda(out, in, bytes, nullptr);
}

static int cuda_copy_2d(ls_device *device, void *out, size_t out_stride_bytes, const void *in,
                        size_t in_stride_bytes, size_t row_bytes, size_t rows) {
    (void)device;
    return ls_kernel_copy_2d_cuda(out, out_stride_bytes, in, in_stride_bytes, row_bytes, rows,
                                  nullptr);
}

static int cuda_select_bytes(ls_device *device, void *accumulator, const void *other,
                             const unsigned char *mask, size_t period, size_t start, size_t bytes) {
    (void)device;
    return ls_kernel_select_bytes_cuda(accumulator, other, mask, period, start, bytes, nullptr);
}

static int cuda_reduce(ls_device *device, void *out, const void *const *in, size_t in_count,
                       ls_dtype dtype, ls_op op, const double *premul, size_t count) {
    (void)device;
    return ls_kernel_reduce_cuda(out, in, in_count, dtype, op, premul, count, nullptr);
}

static int cuda_accumulate(ls_device *device, void *accumulator, const void *in, ls_dtype dtype,
                           ls_op op, size_t count) {
    (void)device;
    return ls_kernel_accumulate_cuda(accumulator, in, dtype, op, count, nullptr);
}

static int cuda_scale(ls_device *device, void *out, const void *in, const void *factor,
                      ls_dtype dtype, size_t count) {
    (void)device;
    return ls_kernel_scale_cuda(out, in, factor, dtype, count, nullptr);
}

static int cuda_accumulate_fma(ls_device *device, void *accumulator, const void *in,
                               const void *factor, ls_dtype dtype, size_t count) {
    (void)device;
    return ls_kernel_accumulate_fma_cuda(accumulator, in, factor, dtype, count, nullptr);
}

static int cuda_resolve_ids(ls_device *device, int64_t *ids, size_t count, int64_t rows,
                            ls_id_policy policy, size_t *bad_index) {
    (void)device;
    return ls_kernel_resolve_ids_cuda(ids, count, rows, policy, bad_index, nullptr);
}

static int cuda_gather_rows(ls_device *device, void *out, const void *table, size_t row_bytes,
                            int64_t rows, const int64_t *ids, size_t count) {
    (void)device;
    return ls_kernel_gather_rows_cuda(out, table, row_bytes, rows, ids, count, nullptr);
}

static int cuda_scatter_rows(ls_device *device, void *out, size_t out_stride_bytes, const void *in,
                             size_t row_bytes, const int64_t *positions, size_t count) {
    (void)device;
    return ls_kernel_scatter_rows_cuda(out, out_stride_bytes, in, row_bytes, positions, count,
                                       nullptr);
}

static int cuda_pooled_lookup(ls_device *device, void *out, size_t out_stride, const void *table,
                              const ls_table_shape *shape, const ls_bags *bags) {
    (void)device;
    return ls_kernel_pooled_lookup_cuda(out, out_stride, table, shape, bags, nullptr);
}

static int cuda_quantised_lookup(ls_device *device, float *out, size_t out_stride,
                                 const void *table, const ls_row_format *format, int64_t rows,
                                 size_t dim, const ls_bags *bags) {
    (void)device;
    return ls_kernel_quantised_lookup_cuda(out, out_stride, table, format, rows, dim, bags,
                                           nullptr);
}

static int cuda_dequantise_rows(ls_device *device, float *out, const void *in,
                                const ls_row_format *format, size_t rows, size_t dim) {
    (void)device;
    return ls_kernel_dequantise_rows_cuda(out, in, format, rows, dim, nullptr);
}

static int cuda_fill_empty_bags(ls_device *device, void *out, size_t out_stride, ls_dtype dtype,
                                double value, size_t dim, const ls_bags *bags) {
    (void)device;
    return ls_kernel_fill_empty_bags_cuda(out, out_stride, dtype, value, dim, bags, nullptr);
}

static int cuda_divide_bags(ls_device *device, void *out, size_t out_stride, ls_dtype dtype,
                            size_t dim, double added, const ls_bags *bags) {
    (void)device;
    return ls_kernel_divide_bags_cuda(out, out_stride, dtype, dim, added, bags, nullptr);
}

static int cuda_matmul(ls_device *device, void *out, const void *a, const void *b, ls_dtype dtype,
                       size_t m, size_t k, size_t n) {
    (void)device;
    return ls_kernel_matmul_cuda(out, a, b, dtype, m, k, n, nullptr);
}

static int cuda_bucketize(ls_device *device, const ls_buckets *out, const int64_t *ids,
                          const int64_t *lengths, const float *weights, const int64_t *row_starts,
                          size_t owners, size_t bags) {
    (void)device;
    scratch starts(nullptr);
    LS_TRY(starts.alloc((owners + 1) * sizeof(int64_t)));
    LS_TRY(check(cudaMemcpy(starts.as<void>(), row_starts, (owners + 1) * sizeof(int64_t),
                            cudaMemcpyHostToDevice),
                 "bucketize"));
    return ls_kernel_bucketize_cuda(out, ids, lengths, weights, starts.as<int64_t>(), owners, bags,
                                    nullptr);
}

static int cuda_group_ids(ls_device *device, const ls_row_groups *out, size_t *unique,
                          int64_t *scratch, const int64_t *ids, size_t count, int64_t table_rows,
                          int64_t padding_id) {
    (void)device;
    return ls_kernel_group_ids_cuda(out, unique, scratch, ids, count, table_rows, padding_id,
                                    nullptr);
}

static int cuda_row_gradients(ls_device *device, void *out, size_t dim, const ls_gradients *from,
                              const int64_t *starts, const int64_t *order, size_t unique) {
    (void)device;
    return ls_kernel_row_gradients_cuda(out, dim, from, starts, order, unique, nullptr);
}

static int cuda_weight_gradients(ls_device *device, void *out, const void *table,
                                 const ls_table_shape *shape, const ls_gradients *from,
                                 const int64_t *ids, int64_t padding_id, size_t count) {
    (void)device;
    return ls_kernel_weight_gradients_cuda(out, table, shape, from, ids, padding_id, count,
                                           nullptr);
}

static int cuda_norm_sums(ls_device *device, double *sums, const void *weights,
                          const ls_table_shape *shape, const int64_t *ids, size_t count,
                          double norm_type) {
    (void)device;
    return ls_kernel_norm_sums_cuda(sums, weights, shape, ids, count, norm_type, nullptr);
}

static int cuda_renormalise_rows(ls_device *device, void *weights, const ls_table_shape *shape,
                                 const int64_t *ids, const double *sums, size_t count,
                                 const ls_norm_limit *limit) {
    (void)device;
    return ls_kernel_renormalise_rows_cuda(weights, shape, ids, sums, count, limit, nullptr);
}

static int cuda_update_rows(ls_device *device, const ls_optimizer *optimizer,
                            const ls_row_update *update) {
    (void)device;
    return ls_kernel_update_rows_cuda(optimizer, update, nullptr);
}

// In the order of ls_device_ops.
static const ls_device_ops cuda_ops = {
    "cuda",
    false,
    cuda_alloc,
    cuda_free,
    cuda_owns,
    cuda_share,
    cuda_free_shared,
    cuda_wait,
    cuda_copy_in,
    cuda_copy_out,
    cuda_import,
    cuda_import_end,
    cuda_any_special,
    cuda_equal,
    cuda_convert,
    cuda_fill,
    cuda_copy,
    cuda_copy_2d,
    cuda_select_bytes,
    cuda_reduce,
    cuda_accumulate,
    cuda_scale,
    cuda_accumulate_fma,
    cuda_resolve_ids,
    cuda_gather_rows,
    cuda_scatter_rows,
    cuda_pooled_lookup,
    cuda_quantised_lookup,
    cuda_dequantise_rows,
    cuda_fill_empty_bags,
    cuda_divide_bags,
    cuda_matmul,
    cuda_bucketize,
    cuda_group_ids,
    cuda_row_gradients,
    cuda_weight_gradients,
    cuda_norm_sums,
    cuda_renormalise_rows,
    cuda_update_rows,
};

// ---- Opening ------------------------------------------------------------------------------------
static int count_devices(int *out) {
    *out = 0;
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        (void)cudaGetLastError();
        return LS_FAIL(LS_ERR_BACKEND, "no GPU: this machine has no NVIDIA driver");
    }
    cudaError_t error = cudaGetDeviceCount(out);
    if (error != cudaSuccess || *out == 0) {
        (void)cudaGetLastError();
        return LS_FAIL(LS_ERR_BACKEND, "no GPU: %s",
                       error == cudaSuccess ? "CUDA sees none" : cudaGetErrorString(error));
    }
    return LS_OK;
}

int ls_device_cuda_describe(char *out, size_t out_bytes) {
    int count = 0;
    LS_TRY(count_devices(&count));
    cudaDeviceProp properties;
    LS_TRY(check(cudaGetDeviceProperties(&properties, 0), "asking the GPU"));
    size_t free_bytes = 0, total_bytes = 0;
    LS_TRY(check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking the GPU"));
    int driver = 0;
    LS_TRY(check(cudaDriverGetVersion(&driver), "asking the driver"));
    (void)snprintf(out, out_bytes, "every rank on one %s, %.1f of %.1f GiB free, driver %d.%d",
                   properties.name, (double)free_bytes / (1 << 30), (double)total_bytes / (1 << 30),
                   driver / 1000, driver % 1000 / 10);
    return LS_OK;
}

int ls_device_cuda_open(ls_device **out) {
    static ls_device device;
    *out = nullptr;
    int count = 0;
    LS_TRY(count_devices(&count));
    LS_TRY(check(cudaSetDevice(0), "opening the GPU"));
    // Freed memory stays ours: a run makes and frees much of it.
    cudaMemPool_t pool;
    LS_TRY(check(cudaDeviceGetDefaultMemPool(&pool, 0), "the GPU's memory"));
    uint64_t kept_bytes = UINT64_MAX;
    LS_TRY(check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
                 "the GPU's memory"));
    device.ops = &cuda_ops;
    *out = &device;
    return LS_OK;
}
