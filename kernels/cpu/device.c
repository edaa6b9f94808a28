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

static int host_copy(ls_device *device, void *out, const void *in, size_t bytes) {
    (void)device;
    if (bytes > 0 && out != in) {
        ls_kernel_copy(out, in, bytes);
    }
    return LS_OK;
}

static int host_resolve_ids(ls_device *device, int64_t *ids, size_t count, int64_t rows,
                            ls_id_policy policy, size_t *bad_index) {
    (void)device;
    return ls_kernel_resolve_ids(ids, count, rows, policy, bad_index);
}

static int host_bucketize(ls_device *device, const ls_buckets *out, const int64_t *ids,
                          const int64_t *lengths, const float *weights, const int64_t *row_starts,
                          size_t owners, size_t bags) {
    (void)device;
    ls_kernel_bucketize(out, ids, lengths, weights, row_starts, owners, bags);
    return LS_OK;
}

#define HOST(name, parameters, arguments)                                                          \
    static int host_##name LS_DEVICE_PARAMETERS parameters {                                       \
        (void)device;                                                                              \
        ls_kernel_##name arguments;                                                                \
        return LS_OK;                                                                              \
    }
LS_DEVICE_KERNEL_MAP(HOST)

#define ENTRY(name, ...) .name = host_##name,
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
    LS_DEVICE_OWN_MAP(ENTRY)     //
    LS_DEVICE_KERNEL_MAP(ENTRY)  //
};

ls_device *ls_device_host(void) {
    static ls_device host = {.ops = &host_ops};
    return &host;
}
