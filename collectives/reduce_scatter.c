// reduce_scatter: member i gets the reduction of all members' blocks i; counts may differ.
#include "collectives/check.h"

static const size_t *send_counts(const ls_call *call) {
    return call->send_counts;
}

static int check(const ls_call *const *calls, int size) {
    unsigned count = calls[0]->send_counts == NULL ? LS_AGREE_COUNT : 0;
    LS_TRY(ls_check__agree(calls, size, LS_AGREE_DTYPE | LS_AGREE_OP | LS_AGREE_FORM | count));
    return ls_check__same_counts(calls, size, send_counts);
}

// In place is safe: member i's output lies in block i of its own input, and that block is read for
// output i alone.
static int math(const ls_call *const *calls, int size, const ls_order *order) {
    ls_call_fold fold;
    LS_TRY(ls_call_fold__open(&fold, calls, size, order, 0));
    size_t start = 0;
    int status = LS_OK;
    for (int i = 0; i < size && status == LS_OK; i++) {
        fold.reduction.count = calls[i]->count;
        if (calls[i]->count != 0) {
            status = ls_call_fold__block(&fold, calls[i]->recv, i, start);
        }
        start += calls[i]->count;
    }
    ls_call_fold__close(&fold);
    return status;
}

static int reference(const ls_call *const *calls, int size) {
    size_t element = ls_dtype_bytes(calls[0]->dtype), total = 0;
    for (int i = 0; i < size; i++) {
        total += calls[i]->count;
    }
    char *copies = NULL;
    LS_TRY(ls_reference__copies(&copies, calls, size, total));
    int status = LS_OK;
    size_t first = 0;
    for (int i = 0; i < size && status == LS_OK; i++) {
        status =
            ls_reference__fold(calls[i]->recv, copies, calls, size, total, first, calls[i]->count);
        first += calls[i]->count;
    }
    ls_free(copies, (size_t)size * total, element);
    return status;
}

const ls_collective ls_collective__reduce_scatter = {
    .doc = "Every rank gets its block of the reduction.",
    .send = {.form = LS_SIDE_BLOCKS},
    .recv = {.form = LS_SIDE_COUNT},
    .reduces = true,
    .order = LS_ORDER_REDUCE_SCATTER,
    .check = check,
    .math = math,
    .reference = reference,
    .bus_times = 1,
};
