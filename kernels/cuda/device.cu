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
                       "out of GPU memory: %zu bytes requested, %zu of the GPU's %zu are free",
                       bytes, free_bytes, total_bytes);
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
        return LS_FAIL(LS_ERR_MEMORY, "out of GPU memory: %zu bytes requested", bytes);
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

static int cuda_copy(ls_device *device, void *out, const void *in, size_t bytes) {
    (void)device;
    return ls_kernel_copy_cuda(out, in, bytes, nullptr);
}

static int cuda_resolve_ids(ls_device *device, int64_t *ids, size_t count, int64_t rows,
                            ls_id_policy policy, size_t *bad_index) {
    (void)device;
    return ls_kernel_resolve_ids_cuda(ids, count, rows, policy, bad_index, nullptr);
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

#define CUDA_ARGUMENTS(...) (__VA_ARGS__, nullptr)
#define CUDA(name, parameters, arguments)                                                          \
    static int cuda_##name LS_DEVICE_PARAMETERS parameters {                                       \
        (void)device;                                                                              \
        return ls_kernel_##name##_cuda CUDA_ARGUMENTS arguments;                                   \
    }
LS_DEVICE_KERNEL_MAP(CUDA)

// In the order of ls_device_ops.
#define ENTRY(name, ...) cuda_##name,
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
    LS_DEVICE_OWN_MAP(ENTRY)     //
    LS_DEVICE_KERNEL_MAP(ENTRY)  //
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
