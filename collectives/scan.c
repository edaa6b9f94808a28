// scan: member i gets the reduction of the buffers of members 0 to i, folded in that order whatever
// the order of other reductions; an average is of those i + 1. exscan: of members 0 to i - 1, and
// member 0 gets what changes nothing under the operation.
#include "collectives/check.h"
#include "kernels/kernels.h"

static uint64_t bytes_scan(const ls_call *const *calls, int from, int to) {
    return from <= to ? (uint64_t)calls[from]->count * ls_dtype_bytes(calls[from]->dtype) : 0;
}

static uint64_t bytes_exscan(const ls_call *const *calls, int from, int to) {
    return from != to ? bytes_scan(calls, from, to) : 0;
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

// Whether a NaN or an infinity that is in one result of the chain is in all behind it: a sum or a
// product never loses one, where a type does not saturate infinities.
static bool carries_specials(const ls_call *call) {
    ls_float_format format = ls_dtype_format(call->dtype);
    return (call->op == LS_SUM || call->op == LS_PROD) && !(format.infinite && format.saturates);
}

// The last result shows whether there is a NaN or infinity; then all are searched, in order.
static void look_along_chain(ls_call_fold *fold, const ls_call *const *calls, int size,
                             size_t first, size_t length) {
    const char *last = ls_block__at(calls[size - 1]->recv, first, fold->element_bytes);
    if (!ls_call_fold__is_special(fold, last, length)) {
        return;
    }
    for (int i = 0; i < size; i++) {
        const int members[] = {i > 0 ? -1 : 0, i};
        fold->members = members;
        set_inputs(fold, calls, i, true);
        ls_call_fold__look(fold, ls_block__at(calls[i]->recv, first, fold->element_bytes), first,
                           length);
        fold->members = NULL;
    }
}

// Range by range. In place is safe: an upward chain reads an input only for its own member's
// result; the others go downwards, and a result is stored where only members above it read.
static int fold_range(ls_call_fold *fold, const ls_call *const *calls, int size, size_t first,
                      size_t length) {
    bool chained = calls[0]->op != LS_AVG && calls[0]->op != LS_PREMUL_SUM;
    fold->looks_later = carries_specials(calls[0]);
    for (int k = 0; k < size; k++) {
        int i = chained ? k : size - 1 - k;
        const int members[] = {i > 0 ? -1 : 0, i};
        fold->members = chained ? members : NULL;
        set_inputs(fold, calls, i, chained);
        char *out = ls_block__at(calls[i]->recv, first, fold->element_bytes);
        int status = ls_call_fold__all_reduce(fold, out, first, length);
        fold->members = NULL;
        LS_TRY(status);
    }
    if (fold->looks_later && size > 0) {
        look_along_chain(fold, calls, size, first, length);
    }
    return LS_OK;
}

// From each member's result to the next one's buffer, from above.
static int shift_range(const ls_call_fold *fold, const ls_call *const *calls, int size,
                       size_t first, size_t length) {
    size_t element = fold->element_bytes;
    ls_device *device = fold->reduction.device;
    for (int i = size - 1; i > 0; i--) {
        LS_TRY(ls_block__move(device, ls_block__at(calls[i]->recv, first, element),
                              ls_block__at(calls[i - 1]->recv, first, element), length * element));
    }
    return LS_OK;
}

static int fill_neutral(const ls_call *call) {
    if (call->count == 0) {
        return LS_OK;
    }
    uint64_t neutral = 0;
    ls_op_neutral(&neutral, call->op, call->dtype);
    ls_device *device = ls_call__device(call);
    if (device != NULL) {
        return device->ops->fill(device, call->recv, call->dtype, &neutral, call->count);
    }
    ls_kernel_fill(call->recv, call->dtype, &neutral, call->count);
    return LS_OK;
}

static int prefixes(const ls_call *const *calls, int size, bool with_own) {
    size_t count = calls[0]->count;
    ls_call_fold fold;
    LS_TRY(ls_call_fold__open(&fold, calls, size, NULL, count));
    size_t range = ls_call_fold__range(&fold);
    int status = LS_OK;
    for (size_t first = 0; first < count && status == LS_OK; first += range) {
        size_t length = count - first < range ? count - first : range;
        status = fold_range(&fold, calls, with_own ? size : size - 1, first, length);
        if (status == LS_OK && !with_own) {
            status = shift_range(&fold, calls, size, first, length);
        }
    }
    fold.reduction.in_count = size;
    ls_call_fold__close(&fold);
    return status;
}

static int math_scan(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    return prefixes(calls, size, true);
}

static int math_exscan(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    LS_TRY(prefixes(calls, size, false));
    return fill_neutral(calls[0]);
}

static int plain(const ls_call *const *calls, int size, int (*terms)(int member)) {
    size_t count = calls[0]->count, element = ls_dtype_bytes(calls[0]->dtype);
    char *copies = NULL;
    LS_TRY(ls_reference__copies(&copies, calls, size, count));
    int status = LS_OK;
    for (int i = 0; i < size && status == LS_OK; i++) {
        for (size_t k = 0; k < count && terms(i) == 0; k++) {
            ls_op_neutral((char *)calls[i]->recv + k * element, calls[i]->op, calls[i]->dtype);
        }
        if (terms(i) > 0) {
            status = ls_reference__fold(calls[i]->recv, copies, calls, terms(i), count, 0, count);
        }
    }
    ls_free(copies, (size_t)size * count, element);
    return status;
}

static int terms_scan(int member) {
    return member + 1;
}

static int terms_exscan(int member) {
    return member;
}

static int reference_scan(const ls_call *const *calls, int size) {
    return plain(calls, size, terms_scan);
}

static int reference_exscan(const ls_call *const *calls, int size) {
    return plain(calls, size, terms_exscan);
}

// Without bus_times, which nccl-tests does not have for them: a chain of ranks passes the buffer
// over each of its links once.
const ls_collective ls_collective__scan = {
    .doc = "Every rank gets the reduction of its own buffer and those of the ranks before it.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_COUNT},
    .reduces = true,
    .terms = terms_scan,
    .agree = LS_AGREE_DTYPE | LS_AGREE_OP | LS_AGREE_COUNT,
    .bytes = bytes_scan,
    .math = math_scan,
    .reference = reference_scan,
};

const ls_collective ls_collective__exscan = {
    .doc = "Every rank gets the reduction of the buffers of the ranks before it; the first rank "
           "gets the operation's identity.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_COUNT},
    .reduces = true,
    .terms = terms_exscan,
    .agree = LS_AGREE_DTYPE | LS_AGREE_OP | LS_AGREE_COUNT,
    .bytes = bytes_exscan,
    .math = math_exscan,
    .reference = reference_exscan,
};
