// Memory of all ranks of an LSA team at once: an address that only multimem instructions may use. A
// load reduces what all have, in the order of the ranks; a store and a reduction reach all.
#include <string.h>

#include "device/internal.h"
#include "kernels/kernels.h"

#define BYTES_MAX 16  // of an instruction

void *ls_cuda_multimem_pointer(void *window, size_t offset, bool wanted, ls_cuda_site at) {
    const device_window *own = window;
    if (!wanted) {
        ls_device__invalid(own->rank, at,
                           "a multimem pointer; ncclDevCommCreate was not asked for multimem "
                           "(lsaMultimem)");
    }
    return ls_device__multimem_of((char *)own->base + offset);
}

static device_window *window_of(const char *at, size_t bytes) {
    device_window *window = ls_device__state.windows;
    for (; window != NULL; window = window->next) {
        size_t offset = (size_t)(at - (char *)window->base);
        if (!window->closed && at >= (char *)window->base && offset <= window->bytes &&
            bytes <= window->bytes - offset) {
            break;
        }
    }
    return window;
}

// One member's part: `data` is what the instruction stores, or has loaded so far.
static void reach(const ls_cuda_multimem *what, char *at, char *data, bool first) {
    size_t bytes = (size_t)what->bytes * (size_t)what->count;
    ls_dtype dtype = (ls_dtype)what->dtype;
    ls_op op = (ls_op)what->operation;
    size_t elements = bytes / ls_dtype_bytes(dtype);
    if (what->order < 0) {
        ls_device__access(at, bytes, what->kind != LS_CUDA_LOAD, ACCESS_PLAIN, NULL, &what->at);
    } else {
        ls_cuda_atomic(at, bytes, what->kind, what->order, what->scope, what->at);
    }
    if (what->kind == LS_CUDA_UPDATE) {
        ls_kernel_accumulate(at, data, dtype, op, elements);
    } else if (what->kind == LS_CUDA_STORE) {
        memcpy(at, data, bytes);
    } else if (first) {
        memcpy(data, at, bytes);
    } else {
        ls_kernel_accumulate(data, at, dtype, op, elements);
    }
    if (what->order >= 0) {
        ls_cuda_atomic_done(at, 0, what->kind != LS_CUDA_LOAD, what->order, what->at);
    }
}

void ls_cuda_multimem_do(const ls_cuda_multimem *what, uint64_t address, uint64_t *registers) {
    size_t each = (size_t)what->bytes, bytes = each * (size_t)what->count;
    int rank = ls_device__state.running->rank;
    const char *own = ls_device__single_of((const void *)(uintptr_t)address);
    device_window *window = own != NULL ? window_of(own, bytes) : NULL;
    char data[BYTES_MAX];
    if (window == NULL || bytes > sizeof data) {
        ls_device__invalid(rank, what->at,
                           "a multimem instruction of %zu bytes at an address that is no multimem "
                           "pointer into a window",
                           bytes);
        return;
    }
    for (size_t i = 0; i < (size_t)what->count; i++) {
        memcpy(data + i * each, &registers[i], each);
    }
    int lsa = ls_nccl_window_lsa(window), from = window->rank / lsa * lsa;
    for (int r = from; r < from + lsa; r++) {
        const device_window *member = ls_device__member(window, r);
        if (member == NULL) {
            ls_device__invalid(rank, what->at,
                               "a multimem instruction on a window that rank %d has not registered",
                               r);
            continue;
        }
        reach(what, (char *)member->base + (own - (char *)window->base), data, r == from);
    }
    for (size_t i = 0; i < (size_t)what->count; i++) {
        memcpy(&registers[i], data + i * each, each);
    }
    if (what->kind != LS_CUDA_LOAD) {
        ls_device__changed();
    }
}
