// reduce: the root gets the reduction of all members' buffers.
#include "collectives/check.h"

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    int root = calls[0]->root;
    size_t count = calls[0]->count, element = ls_dtype_bytes(calls[0]->dtype);
    ls_call_fold fold;
    LS_TRY(ls_call_fold__open(&fold, calls, size, order, count));
    size_t range = ls_call_fold__range(&fold);
    int status = LS_OK;
    for (size_t first = 0; first < count && status == LS_OK; first += range) {
        size_t length = count - first < range ? count - first : range;
        char *out = ls_block__at(calls[root]->recv, first, element);
        status = ls_call_fold__reduce(&fold, out, root, first, length);
    }
    ls_call_fold__close(&fold);
    return status;
}

static int reference(const ls_call *const *calls, int size) {
    const ls_call *root = calls[calls[0]->root];
    size_t count = root->count, element = ls_dtype_bytes(root->dtype);
    char *copies = NULL;
    LS_TRY(ls_reference__copies(&copies, calls, size, count));
    int status = ls_reference__fold(root->recv, copies, calls, size, count, 0, count);
    ls_free(copies, (size_t)size * count, element);
    return status;
}

const ls_collective ls_collective__reduce = {
    .doc = "The root gets the reduction of all ranks' buffers.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_COUNT, .root_only = true},
    .root_word = "to",
    .reduces = true,
    .order = LS_ORDER_REDUCE,
    .agree = LS_AGREE_DTYPE | LS_AGREE_OP | LS_AGREE_ROOT | LS_AGREE_COUNT,
    .math = math,
    .reference = reference,
};
