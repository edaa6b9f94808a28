// The orders of NCCL's symmetric-memory kernels, which read every rank's registered buffer
// directly: sums of f16, bf16 and f8 are accumulated in f32 and rounded once. Follows NCCL 2.28.9's
// device/symmetric, and agrees with what H200s returned (docs/orders.md).
#include "orders/internal.h"

#define WARP 32

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// The owner of element i of an all_reduce sums x[owner], x[owner + 1], ... Warps take turns by
// rank: in slices of four 16-byte packs a thread, then of four 4-byte packs, then single elements.
// Only as many chunks (of four warps) go that way as fill all ranks and blocks evenly. Buffers are
// taken to be 16-byte aligned.
typedef struct phases {
    size_t start[3];  // bytes
    size_t slice[3];  // bytes that one warp sums
    size_t end;
} phases;

static phases phases_of(const ls_order *order, const ls_order_range *range) {
    size_t bytes = ls_dtype_bytes(range->dtype);
    size_t turns = (size_t)range->ranks * (size_t)order->blocks;
    phases p = {{0, 0, 0}, {4 * WARP * 16, 4 * WARP * 4, WARP * bytes}, range->count * bytes};
    for (int i = 0; i < 2; i++) {
        size_t chunk = 4 * p.slice[i];
        size_t chunks = bytes > 4 && i == 1 ? 0 : (p.end - p.start[i]) / chunk;
        p.start[i + 1] = p.start[i] + chunks / turns * turns * chunk;
    }
    return p;
}

static void fold_from(ls_fold *fold, int owner) {
    for (int i = 0; i < fold->ranks; i++) {
        fold->steps[i].rank = (owner + i) % fold->ranks;
    }
}

static int owner_runs(const phases *p, const ls_order_range *range, ls_fold *fold,
                      ls_order_visit visit, void *arg) {
    size_t bytes = ls_dtype_bytes(range->dtype);
    size_t at = range->first;
    size_t end = range->first + range->length;
    while (at < end) {
        size_t byte = at * bytes;
        int phase = 2;
        if (byte < p->start[2]) {
            phase = byte >= p->start[1] ? 1 : 0;
        }
        size_t slice = (byte - p->start[phase]) / p->slice[phase];
        size_t slice_end = p->start[phase] + (slice + 1) * p->slice[phase];
        size_t phase_end = phase == 2 ? p->end : p->start[phase + 1];
        size_t stop = least(least(slice_end, phase_end) / bytes, end);
        int owner = (int)(slice % (size_t)range->ranks);
        fold_from(fold, owner);
        ls_order_run run = {at, stop - at, at, -1, slice, owner, fold};
        LS_TRY(visit(arg, &run));
        at = stop;
    }
    return LS_OK;
}

int ls_order__symmetric_runs(const ls_order *order, const ls_order_range *range,
                             ls_order_visit visit, void *arg) {
    if (range->call == LS_ORDER_REDUCE) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "order \"%s\": NCCL has no symmetric-memory kernel for reduce", order->text);
    }
    size_t ignored = 0;
    LS_TRY(ls_size_mul(&ignored, range->count, ls_dtype_bytes(range->dtype)));
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)range->ranks, sizeof(ls_fold_step)));
    ls_fold fold = {range->ranks, range->ranks, 1, true, memory};
    for (int i = 0; i < range->ranks; i++) {
        fold.steps[i].op = i == 0 ? LS_FOLD_LOAD : LS_FOLD_OWN;
    }
    int status = LS_OK;
    if (order->kernel == LS_SYMMETRIC_RSXLD && range->call == LS_ORDER_ALL_REDUCE) {
        phases p = phases_of(order, range);
        status = owner_runs(&p, range, &fold, visit, arg);
    } else {
        fold_from(&fold, order->kernel == LS_SYMMETRIC_LL ? 0 : range->target);
        ls_order_run run = {range->first, range->length, range->first, -1, 0, -1, &fold};
        status = range->length > 0 ? visit(arg, &run) : LS_OK;
    }
    ls_free(memory, (size_t)range->ranks, sizeof(ls_fold_step));
    return status;
}
