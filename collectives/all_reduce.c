// all_reduce: every member gets the reduction of all members' buffers.
#include <string.h>

#include "collectives/check.h"

// Range by range: all inputs of a range are folded into member 0's output and handed out while the
// range is in the cache. In place is safe because a range's outputs are written after all its
// inputs were read.
static int math(const ls_call *const *calls, int size, const ls_order *order) {
    size_t count = calls[0]->count, element = ls_dtype_bytes(calls[0]->dtype);
    ls_device *device = ls_call__device(calls[0]);
    ls_call_fold fold;
    LS_TRY(ls_call_fold__open(&fold, calls, size, order, count));
    size_t range = ls_call_fold__range(&fold);
    size_t total = (size_t)size * count * element;
    int status = LS_OK;
    for (size_t first = 0; first < count && status == LS_OK; first += range) {
        size_t length = count - first < range ? count - first : range;
        char *out = ls_block__at(calls[0]->recv, first, element);
        status = ls_call_fold__all_reduce(&fold, out, first, length);
        for (int i = 1; i < size && status == LS_OK; i++) {
            if (calls[i]->recv == calls[0]->recv) {
                continue;  // recv_shared
            }
            status = ls_block__copy_result(device, ls_block__at(calls[i]->recv, first, element),
                                           out, length * element, total);
        }
    }
    ls_call_fold__close(&fold);
    return status;
}

static int reference(const ls_call *const *calls, int size) {
    size_t count = calls[0]->count, element = ls_dtype_bytes(calls[0]->dtype);
    char *copies = NULL;
    LS_TRY(ls_reference__copies(&copies, calls, size, count));
    int status = ls_reference__fold(calls[0]->recv, copies, calls, size, count, 0, count);
    for (int i = 1; i < size && count > 0 && status == LS_OK; i++) {
        memcpy(calls[i]->recv, calls[0]->recv, count * element);
    }
    ls_free(copies, (size_t)size * count, element);
    return status;
}

const ls_collective ls_collective__all_reduce = {
    .doc = "Every rank gets the reduction of all ranks' buffers.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_COUNT},
    .reduces = true,
    .order = LS_ORDER_ALL_REDUCE,
    .replicates = true,
    .agree = LS_AGREE_DTYPE | LS_AGREE_OP | LS_AGREE_COUNT,
    .math = math,
    .reference = reference,
    .bus_times = 2,
};
