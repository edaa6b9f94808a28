// Reductions over the inputs of a group, range by range, in any order; and the plain fold of the
// references.
#include <string.h>

#include "collectives/check.h"
#include "kernels/kernels.h"

// Bytes of all inputs' ranges together that should stay in the cache while one range is folded and
// handed out, and the least a single range should have so that the loop over ranges costs nothing.
#define FOLD_CACHE_BYTES ((size_t)192 * 1024)
#define FOLD_RANGE_MIN   ((size_t)2 * 1024)
#define FOLD_RANGE_MAX   ((size_t)16 * 1024)

static _Thread_local ls_fold_watcher watcher;
static _Thread_local void *watcher_arg;

void ls_call_fold__watch(ls_fold_watcher call, void *arg) {
    watcher = call;
    watcher_arg = arg;
}

void *ls_call_fold__watching(void) {
    return watcher_arg;
}

static const void **inputs_at(ls_call_fold *fold, size_t first) {
    for (int i = 0; i < fold->reduction.in_count; i++) {
        fold->at[i] = ls_block__at_const(fold->in[i], first, fold->element_bytes);
    }
    return fold->at;
}

bool ls_call_fold__is_special(const ls_call_fold *fold, const void *out, size_t length) {
    return fold->reduction.device == NULL && watcher != NULL &&
           ls_kernel_any_special(out, length, fold->reduction.dtype);
}

// in [in_count]: where the range begins in each input.
static void look_for_special(const ls_call_fold *fold, const void *out, const void *const *in,
                             size_t first, size_t length) {
    if (ls_call_fold__is_special(fold, out, length)) {
        watcher(watcher_arg, out, in, fold->members, fold->reduction.in_count, first, length);
    }
}

void ls_call_fold__look(ls_call_fold *fold, const void *out, size_t first, size_t length) {
    look_for_special(fold, out, inputs_at(fold, first), first, length);
}

int ls_call_fold__open(ls_call_fold *fold, const ls_call *const *calls, int size,
                       const ls_order *order, size_t count) {
    *fold = (ls_call_fold){.order = order};
    size_t n = (size_t)size;
    void *pointers = NULL, *premul = NULL;
    LS_TRY(ls_alloc(&pointers, 2 * n, sizeof(void *)));
    fold->in = pointers;
    fold->at = fold->in + n;
    if (calls[0]->op == LS_PREMUL_SUM) {
        int status = ls_alloc(&premul, n, sizeof(double));
        if (status != LS_OK) {
            ls_free(pointers, 2 * n, sizeof(void *));
            return status;
        }
        fold->premul = premul;
        for (int i = 0; i < size; i++) {
            fold->premul[i] = calls[i]->premul;
        }
    }
    for (int i = 0; i < size; i++) {
        fold->in[i] = calls[i]->send;
    }
    fold->element_bytes = ls_dtype_bytes(calls[0]->dtype);
    fold->reduction = (ls_reduction){
        .in = fold->in,
        .in_count = size,
        .dtype = calls[0]->dtype,
        .op = calls[0]->op,
        .premul = fold->premul,
        .count = count,
        .device = ls_call__device(calls[0]),
    };
    return LS_OK;
}

void ls_call_fold__close(ls_call_fold *fold) {
    size_t n = (size_t)fold->reduction.in_count;
    ls_free(fold->in, 2 * n, sizeof(void *));
    ls_free(fold->premul, n, sizeof(double));
    *fold = (ls_call_fold){0};
}

size_t ls_call_fold__range(const ls_call_fold *fold) {
    if (fold->reduction.device != NULL) {  // the caches are the device's own business
        return fold->reduction.count > 0 ? fold->reduction.count : 1;
    }
    size_t bytes = FOLD_CACHE_BYTES / (size_t)fold->reduction.in_count;
    bytes = bytes < FOLD_RANGE_MIN ? FOLD_RANGE_MIN : bytes;
    bytes = bytes > FOLD_RANGE_MAX ? FOLD_RANGE_MAX : bytes;
    return bytes / fold->element_bytes;
}

static int fold_rank_order(ls_call_fold *fold, void *out, size_t first, size_t length) {
    const ls_reduction *reduction = &fold->reduction;
    (void)inputs_at(fold, first);
    ls_device *device = reduction->device;
    if (device != NULL) {
        return device->ops->reduce(device, out, fold->at, (size_t)reduction->in_count,
                                   reduction->dtype, reduction->op, reduction->premul, length);
    }
    ls_kernel_reduce(out, fold->at, (size_t)reduction->in_count, reduction->dtype, reduction->op,
                     reduction->premul, length);
    if (!fold->looks_later) {
        look_for_special(fold, out, fold->at, first, length);
    }
    return LS_OK;
}

int ls_call_fold__all_reduce(ls_call_fold *fold, void *out, size_t first, size_t length) {
    if (fold->order != NULL) {
        LS_TRY(ls_order_reduce(fold->order, LS_ORDER_ALL_REDUCE, out, &fold->reduction, 0, first,
                               length));
        ls_call_fold__look(fold, out, first, length);
        return LS_OK;
    }
    return fold_rank_order(fold, out, first, length);
}

int ls_call_fold__reduce(ls_call_fold *fold, void *out, int root, size_t first, size_t length) {
    if (fold->order != NULL) {
        LS_TRY(ls_order_reduce(fold->order, LS_ORDER_REDUCE, out, &fold->reduction, root, first,
                               length));
        ls_call_fold__look(fold, out, first, length);
        return LS_OK;
    }
    return fold_rank_order(fold, out, first, length);
}

int ls_call_fold__block(ls_call_fold *fold, void *out, int block, size_t start) {
    size_t count = fold->reduction.count;
    if (fold->order != NULL) {
        ls_reduction shifted = fold->reduction;
        shifted.in = inputs_at(fold, start);
        LS_TRY(
            ls_order_reduce(fold->order, LS_ORDER_REDUCE_SCATTER, out, &shifted, block, 0, count));
        look_for_special(fold, out, fold->at, start, count);
        return LS_OK;
    }
    size_t range = ls_call_fold__range(fold);
    for (size_t first = 0; first < count; first += range) {
        size_t length = count - first < range ? count - first : range;
        LS_TRY(fold_rank_order(fold, ls_block__at(out, first, fold->element_bytes), start + first,
                               length));
    }
    return LS_OK;
}

// ---- References ---------------------------------------------------------------------------------
int ls_reference__copies(char **out, const ls_call *const *calls, int size, size_t elements) {
    size_t bytes = ls_dtype_bytes(calls[0]->dtype), total = 0;
    void *memory = NULL;
    *out = NULL;
    LS_TRY(ls_size_mul(&total, (size_t)size, elements));
    LS_TRY(ls_alloc(&memory, total, bytes));
    *out = memory;
    for (int i = 0; i < size && elements != 0; i++) {
        memcpy(*out + (size_t)i * elements * bytes, calls[i]->send, elements * bytes);
    }
    return LS_OK;
}

int ls_reference__fold(void *out, const char *copies, const ls_call *const *calls, int size,
                       size_t elements, size_t first, size_t count) {
    size_t bytes = ls_dtype_bytes(calls[0]->dtype), n = (size_t)size;
    void *memory = NULL, *factors = NULL;
    LS_TRY(ls_alloc(&memory, n, sizeof(void *)));
    int status = ls_alloc(&factors, n, sizeof(double));
    const void **in = memory;
    double *premul = factors;
    for (size_t k = 0; k < count && status == LS_OK; k++) {
        for (int i = 0; i < size; i++) {
            in[i] = copies + ((size_t)i * elements + first + k) * bytes;
            premul[i] = calls[i]->premul;
        }
        ls_kernel_reduce_reference((char *)out + k * bytes, in, n, calls[0]->dtype, calls[0]->op,
                                   calls[0]->op == LS_PREMUL_SUM ? premul : NULL, 1);
    }
    ls_free(memory, n, sizeof(void *));
    ls_free(factors, n, sizeof(double));
    return status;
}
