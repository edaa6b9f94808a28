// The fake device: see fake_device.h. A wrong pointer ends the program with a message.
#define _GNU_SOURCE
#include "tests/cuda/fake_device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

#define POOL_BYTES ((size_t)1 << 31)
#define FREED      0xA5

static char *pool;   // [POOL_BYTES], without access between calls
static size_t top;   // bytes allocated so far; 0 when no array exists
static size_t live;  // arrays
static size_t used;  // calls
static long fail_at = -1;

static size_t pages(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

// Memory of other processes.
static struct imported {
    struct imported *next;
    char *data;
    size_t bytes;
} * imports;

static void set_access(char *at, size_t bytes, int protection) {
    if (mprotect(at, bytes, protection) != 0) {
        perror("fake device: mprotect");
        abort();
    }
}

static void access_pool(int protection) {
    if (top > 0) {
        set_access(pool, pages(top), protection);
    }
    for (const struct imported *block = imports; block != NULL; block = block->next) {
        set_access(block->data, block->bytes, protection);
    }
}

static bool owns(ls_device *device, const void *pointer) {
    (void)device;
    const char *at = pointer;
    for (const struct imported *block = imports; block != NULL; block = block->next) {
        if (at >= block->data && at < block->data + block->bytes) {
            return true;
        }
    }
    return at != NULL && pool != NULL && at >= pool && at < pool + POOL_BYTES;
}

// Shared memory is host memory, in a list.
static struct shared {
    struct shared *next;
    char *data;
    size_t bytes;
} * shared_blocks;

static bool is_shared(const void *pointer) {
    const char *at = pointer;
    for (const struct shared *block = shared_blocks; block != NULL; block = block->next) {
        if (at >= block->data && at < block->data + block->bytes) {
            return true;
        }
    }
    return false;
}

static bool fake_owns(ls_device *device, const void *pointer) {
    return owns(device, pointer) || is_shared(pointer);
}

static void expect_device(const void *pointer, const char *kernel) {
    if (pointer != NULL && !fake_owns(NULL, pointer)) {
        fprintf(stderr, "fake device: %s was given the host's memory\n", kernel);
        abort();
    }
}

static void expect_host(const void *pointer, const char *kernel) {
    if (owns(NULL, pointer)) {
        fprintf(stderr, "fake device: %s wants the host's memory here\n", kernel);
        abort();
    }
}

// ---- Memory -------------------------------------------------------------------------------------
static int fake_alloc(ls_device *device, void **out, size_t bytes) {
    (void)device;
    LS_ASSERT(bytes > 0);
    if (fail_at == 0) {
        return LS_FAIL(LS_ERR_MEMORY, "out of GPU memory: %zu bytes requested", bytes);
    }
    fail_at -= fail_at > 0;
    if (pool == NULL) {
        pool =
            mmap(NULL, POOL_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        LS_ASSERT(pool != MAP_FAILED);
    }
    // Aligned for elements only: neighbours are 8 bytes off the page grid.
    size_t start = (top + 7) / 8 * 8 + 8;
    LS_ASSERT(start + bytes <= POOL_BYTES);
    top = start + bytes;
    access_pool(PROT_READ | PROT_WRITE);
    memset(pool + start, 0, bytes);
    access_pool(PROT_NONE);
    live++;
    *out = pool + start;
    return LS_OK;
}

static void fake_free(ls_device *device, void *pointer, size_t bytes) {
    (void)device;
    if (pointer == NULL) {
        return;
    }
    expect_device(pointer, "free");
    LS_ASSERT(live > 0);
    access_pool(PROT_READ | PROT_WRITE);
    memset(pointer, FREED, bytes);
    access_pool(PROT_NONE);
    size_t start = (size_t)((char *)pointer - pool);
    top = --live == 0 ? 0 : top == start + bytes ? start : top;
}

static int fake_share(ls_device *device, void **out, size_t bytes) {
    (void)device;
    LS_ASSERT(bytes > 0);
    if (fail_at == 0) {
        return LS_FAIL(LS_ERR_MEMORY, "out of GPU memory: %zu bytes requested", bytes);
    }
    fail_at -= fail_at > 0;
    struct shared *block = calloc(1, sizeof *block);
    LS_ASSERT(block != NULL);
    *block = (struct shared){shared_blocks, calloc(1, bytes), bytes};
    LS_ASSERT(block->data != NULL);
    shared_blocks = block;
    live++;
    *out = block->data;
    return LS_OK;
}

static void fake_free_shared(ls_device *device, void *pointer, size_t bytes) {
    (void)device;
    for (struct shared **at = &shared_blocks; *at != NULL && pointer != NULL; at = &(*at)->next) {
        struct shared *block = *at;
        if (block->data == pointer) {
            LS_ASSERT(block->bytes == bytes);
            *at = block->next;
            free(block->data);
            free(block);
            live--;
            return;
        }
    }
    LS_ASSERT(pointer == NULL);
}

static int fake_wait(ls_device *device) {
    (void)device;
    return LS_OK;
}

static int fake_copy_in(ls_device *device, void *out, const void *host, size_t bytes) {
    (void)device;
    if (bytes > 0) {
        expect_device(out, "copy_in");
        expect_host(host, "copy_in");
        access_pool(PROT_READ | PROT_WRITE);
        memcpy(out, host, bytes);
        access_pool(PROT_NONE);
    }
    return LS_OK;
}

static int fake_copy_out(ls_device *device, void *host, const void *in, size_t bytes) {
    (void)device;
    if (bytes > 0) {
        expect_device(in, "copy_out");
        expect_host(host, "copy_out");
        access_pool(PROT_READ | PROT_WRITE);
        memcpy(host, in, bytes);
        access_pool(PROT_NONE);
    }
    return LS_OK;
}

static int fake_import(ls_device *device, void **out, const void *handle) {
    (void)device;
    fake_handle given;
    memcpy(&given, handle, sizeof given);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", given.pid, given.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct imported *block = calloc(1, sizeof *block);
    void *at = file >= 0 && block != NULL ? mmap(NULL, given.bytes, PROT_NONE, MAP_SHARED, file, 0)
                                          : MAP_FAILED;
    if (file >= 0) {
        (void)close(file);
    }
    if (at == MAP_FAILED) {
        free(block);
        return LS_FAIL(LS_ERR_BACKEND, "another process's memory cannot be opened");
    }
    *block = (struct imported){imports, at, given.bytes};
    imports = block;
    *out = at;
    return LS_OK;
}

static void fake_import_end(ls_device *device, void *pointer) {
    (void)device;
    for (struct imported **at = &imports; *at != NULL && pointer != NULL; at = &(*at)->next) {
        struct imported *block = *at;
        if (block->data == pointer) {
            *at = block->next;
            (void)munmap(block->data, block->bytes);
            free(block);
            return;
        }
    }
}

// ---- Kernels ------------------------------------------------------------------------------------
// Runs the host's kernel with the pages open. D: the device's pointers; H: the host's.
#define D(pointer) expect_device((pointer), kernel)
#define H(pointer) expect_host((pointer), kernel)
#define KERNEL(name, parameters, arguments, checks)                                                \
    static int fake_##name parameters {                                                            \
        static const char kernel[] = #name;                                                        \
        (void)device;                                                                              \
        checks;                                                                                    \
        used++;                                                                                    \
        access_pool(PROT_READ | PROT_WRITE);                                                       \
        int status = ls_device_host()->ops->name arguments;                                        \
        access_pool(PROT_NONE);                                                                    \
        return status;                                                                             \
    }
#define HOST ls_device_host()

KERNEL(convert,
       (ls_device * device, void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
        size_t count),
       (HOST, out, out_dtype, in, in_dtype, count), (D(out), D(in)))
KERNEL(fill, (ls_device * device, void *out, ls_dtype dtype, const void *value, size_t count),
       (HOST, out, dtype, value, count), (D(out), H(value)))
KERNEL(copy, (ls_device * device, void *out, const void *in, size_t bytes), (HOST, out, in, bytes),
       (D(out), D(in)))
KERNEL(copy_2d,
       (ls_device * device, void *out, size_t out_stride, const void *in, size_t in_stride,
        size_t row_bytes, size_t rows),
       (HOST, out, out_stride, in, in_stride, row_bytes, rows), (D(out), D(in)))
KERNEL(select_bytes,
       (ls_device * device, void *accumulator, const void *other, const unsigned char *mask,
        size_t period, size_t start, size_t bytes),
       (HOST, accumulator, other, mask, period, start, bytes), (D(accumulator), D(other), H(mask)))
KERNEL(accumulate,
       (ls_device * device, void *accumulator, const void *in, ls_dtype dtype, ls_op op,
        size_t count),
       (HOST, accumulator, in, dtype, op, count), (D(accumulator), D(in)))
KERNEL(scale,
       (ls_device * device, void *out, const void *in, const void *factor, ls_dtype dtype,
        size_t count),
       (HOST, out, in, factor, dtype, count), (D(out), D(in), H(factor)))
KERNEL(accumulate_fma,
       (ls_device * device, void *accumulator, const void *in, const void *factor, ls_dtype dtype,
        size_t count),
       (HOST, accumulator, in, factor, dtype, count), (D(accumulator), D(in), H(factor)))
KERNEL(resolve_ids,
       (ls_device * device, int64_t *ids, size_t count, int64_t rows, ls_id_policy policy,
        size_t *bad_index),
       (HOST, ids, count, rows, policy, bad_index), (D(ids), H(bad_index)))
KERNEL(gather_rows,
       (ls_device * device, void *out, const void *table, size_t row_bytes, int64_t rows,
        const int64_t *ids, size_t count),
       (HOST, out, table, row_bytes, rows, ids, count), (D(out), D(table), D(ids)))
KERNEL(scatter_rows,
       (ls_device * device, void *out, size_t out_stride, const void *in, size_t row_bytes,
        const int64_t *positions, size_t count),
       (HOST, out, out_stride, in, row_bytes, positions, count), (D(out), D(in), D(positions)))
KERNEL(pooled_lookup,
       (ls_device * device, void *out, size_t out_stride, const void *table,
        const ls_table_shape *shape, const ls_bags *bags),
       (HOST, out, out_stride, table, shape, bags),
       (D(out), D(table), D(bags->ids), D(bags->offsets), D(bags->weights), H(shape), H(bags)))
KERNEL(quantised_lookup,
       (ls_device * device, float *out, size_t out_stride, const void *table,
        const ls_row_format *format, int64_t rows, size_t dim, const ls_bags *bags),
       (HOST, out, out_stride, table, format, rows, dim, bags),
       (D(out), D(table), D(bags->ids), D(bags->offsets), D(bags->weights), H(bags)))
KERNEL(dequantise_rows,
       (ls_device * device, float *out, const void *in, const ls_row_format *format, size_t rows,
        size_t dim),
       (HOST, out, in, format, rows, dim), (D(out), D(in)))
KERNEL(fill_empty_bags,
       (ls_device * device, void *out, size_t out_stride, ls_dtype dtype, double value, size_t dim,
        const ls_bags *bags),
       (HOST, out, out_stride, dtype, value, dim, bags),
       (D(out), D(bags->ids), D(bags->offsets), H(bags)))
KERNEL(divide_bags,
       (ls_device * device, void *out, size_t out_stride, ls_dtype dtype, size_t dim, double added,
        const ls_bags *bags),
       (HOST, out, out_stride, dtype, dim, added, bags),
       (D(out), D(bags->ids), D(bags->offsets), D(bags->weights), H(bags)))
KERNEL(matmul,
       (ls_device * device, void *out, const void *a, const void *b, ls_dtype dtype, size_t m,
        size_t k, size_t n),
       (HOST, out, a, b, dtype, m, k, n), (D(out), D(a), D(b)))
KERNEL(bucketize,
       (ls_device * device, const ls_buckets *out, const int64_t *ids, const int64_t *lengths,
        const float *weights, const int64_t *row_starts, size_t owners, size_t bags),
       (HOST, out, ids, lengths, weights, row_starts, owners, bags),
       (D(out->lengths), D(out->ids), D(out->weights), D(out->positions), D(ids), D(lengths),
        D(weights), H(row_starts), H(out)))

KERNEL(group_ids,
       (ls_device * device, const ls_row_groups *out, size_t *unique, int64_t *scratch,
        const int64_t *ids, size_t count, int64_t table_rows, int64_t padding_id),
       (HOST, out, unique, scratch, ids, count, table_rows, padding_id),
       (D(out->rows), D(out->starts), D(out->order), H(unique), D(scratch), D(ids), H(out)))
KERNEL(row_gradients,
       (ls_device * device, void *out, size_t dim, const ls_gradients *from, const int64_t *starts,
        const int64_t *order, size_t unique),
       (HOST, out, dim, from, starts, order, unique),
       (D(out), D(from->values), D(from->row_of), D(from->scales), D(starts), D(order), H(from)))
KERNEL(weight_gradients,
       (ls_device * device, void *out, const void *table, const ls_table_shape *shape,
        const ls_gradients *from, const int64_t *ids, int64_t padding_id, size_t count),
       (HOST, out, table, shape, from, ids, padding_id, count),
       (D(out), D(table), D(from->values), D(from->row_of), D(ids), H(shape), H(from)))
KERNEL(norm_sums,
       (ls_device * device, double *sums, const void *weights, const ls_table_shape *shape,
        const int64_t *ids, size_t count, double norm_type),
       (HOST, sums, weights, shape, ids, count, norm_type), (D(sums), D(weights), D(ids), H(shape)))
KERNEL(renormalise_rows,
       (ls_device * device, void *weights, const ls_table_shape *shape, const int64_t *ids,
        const double *sums, size_t count, const ls_norm_limit *limit),
       (HOST, weights, shape, ids, sums, count, limit),
       (D(weights), D(ids), D(sums), H(shape), H(limit)))
KERNEL(update_rows,
       (ls_device * device, const ls_optimizer *optimizer, const ls_row_update *update),
       (HOST, optimizer, update),
       (H(optimizer), H(update), D(update->weights), D(update->states[0]), D(update->states[1]),
        D(update->row_ids), D(update->gradients)))

KERNEL(any_special, (ls_device * device, bool *out, const void *data, size_t count, ls_dtype dtype),
       (HOST, out, data, count, dtype), (H(out), D(data)))

KERNEL(equal, (ls_device * device, bool *out, const void *a, const void *b, size_t bytes),
       (HOST, out, a, b, bytes), (H(out), D(a), D(b)))

static int fake_reduce(ls_device *device, void *out, const void *const *in, size_t in_count,
                       ls_dtype dtype, ls_op op, const double *premul, size_t count) {
    (void)device;
    expect_device(out, "reduce");
    expect_host(in, "reduce");
    expect_host(premul, "reduce");
    for (size_t i = 0; i < in_count; i++) {
        expect_device(in[i], "reduce");
    }
    used++;
    access_pool(PROT_READ | PROT_WRITE);
    int status = HOST->ops->reduce(HOST, out, in, in_count, dtype, op, premul, count);
    access_pool(PROT_NONE);
    return status;
}

// ---- The device ---------------------------------------------------------------------------------
ls_device *fake_device(void) {
    static const ls_device_ops ops = {
        .name = "fake",
        .alloc = fake_alloc,
        .free = fake_free,
        .owns = fake_owns,
        .share = fake_share,
        .free_shared = fake_free_shared,
        .wait = fake_wait,
        .copy_in = fake_copy_in,
        .copy_out = fake_copy_out,
        .import = fake_import,
        .import_end = fake_import_end,
        .any_special = fake_any_special,
        .equal = fake_equal,
        .convert = fake_convert,
        .fill = fake_fill,
        .copy = fake_copy,
        .copy_2d = fake_copy_2d,
        .select_bytes = fake_select_bytes,
        .reduce = fake_reduce,
        .accumulate = fake_accumulate,
        .scale = fake_scale,
        .accumulate_fma = fake_accumulate_fma,
        .resolve_ids = fake_resolve_ids,
        .gather_rows = fake_gather_rows,
        .scatter_rows = fake_scatter_rows,
        .pooled_lookup = fake_pooled_lookup,
        .quantised_lookup = fake_quantised_lookup,
        .dequantise_rows = fake_dequantise_rows,
        .fill_empty_bags = fake_fill_empty_bags,
        .divide_bags = fake_divide_bags,
        .matmul = fake_matmul,
        .bucketize = fake_bucketize,
        .group_ids = fake_group_ids,
        .row_gradients = fake_row_gradients,
        .weight_gradients = fake_weight_gradients,
        .norm_sums = fake_norm_sums,
        .renormalise_rows = fake_renormalise_rows,
        .update_rows = fake_update_rows,
    };
    static ls_device device = {.ops = &ops};
    return &device;
}

void fake_device_fail_after(long count) {
    fail_at = count;
}

size_t fake_device_live(void) {
    return live;
}

size_t fake_device_used(void) {
    return used;
}
