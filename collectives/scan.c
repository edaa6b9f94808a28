// scan: member i gets the reduction of the buffers of members 0 to i, folded in that order whatever
// the order of other reductions; an average is of those i + 1.
#include "collectives/check.h"

static int check(const ls_call *const *calls, int size) {
    return ls_check__agree(calls, size, LS_AGREE_DTYPE | LS_AGREE_OP | LS_AGREE_COUNT);
}

static uint64_t bytes(const ls_call *const *calls, int size, int from, int to) {
    (void)size;
    return from <= to ? (uint64_t)calls[from]->count * ls_dtype_bytes(calls[from]->dtype) : 0;
}

// The inputs of member i's fold: its own behind the result of the member before it, or, where a
// result cannot be folded on (an average, factors of each member), all from the first on.
static void set_inputs(ls_call_fold *fold, const ls_call *const *calls, int i, bool chained) {
    fold->reduction.in_count = i + 1;
    if (chained) {
        fold->in[0] = i > 0 ? calls[i - 1]->recv : calls[0]->send;
        fold->reduction.in_count = 1;
    }
    if (chained && i > 0) {
        fold->in[1] = calls[i]->send;
        fold->reduction.in_count = 2;
    }
}

// Range by range. In place is safe: a chain goes upwards and reads an input for its own member's
// result alone; the others go downwards, and a result lies where only members above it read.
static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    size_t count = calls[0]->count, element = ls_dtype_bytes(calls[0]->dtype);
    bool chained = calls[0]->op != LS_AVG && calls[0]->op != LS_PREMUL_SUM;
    ls_call_fold fold;
    LS_TRY(ls_call_fold__open(&fold, calls, size, NULL, count));
    size_t range = ls_call_fold__range(&fold);
    int status = LS_OK;
    for (size_t first = 0; first < count; first += range) {
        size_t length = count - first < range ? count - first : range;
        for (int k = 0; k < size && status == LS_OK; k++) {
            int i = chained ? k : size - 1 - k;
            set_inputs(&fold, calls, i, chained);
            char *out = ls_block__at(calls[i]->recv, first, element);
            status = ls_call_fold__all_reduce(&fold, out, first, length);
        }
    }
    fold.reduction.in_count = size;
    ls_call_fold__close(&fold);
    return status;
}

static int reference(const ls_call *const *calls, int size) {
    size_t count = calls[0]->count, element = ls_dtype_bytes(calls[0]->dtype);
    char *copies = NULL;
    LS_TRY(ls_reference__copies(&copies, calls, size, count));
    int status = LS_OK;
    for (int i = 0; i < size && status == LS_OK; i++) {
        status = ls_reference__fold(calls[i]->recv, copies, calls, i + 1, count, 0, count);
    }
    ls_free(copies, (size_t)size * count, element);
    return status;
}

static int terms(int member) {
    return member + 1;
}

// nccl-tests has none: a chain of ranks passes the buffer over each of its links once.
static double bus_factor(int size) {
    (void)size;
    return 1.0;
}

const ls_collective ls_collective__scan = {
    .doc = "Every rank gets the reduction of its own buffer and those of the ranks before it.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_COUNT},
    .reduces = true,
    .terms = terms,
    .check = check,
    .bytes = bytes,
    .math = math,
    .reference = reference,
    .bus_factor = bus_factor,
};
