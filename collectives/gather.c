// gather: the root gets all members' blocks, one after another; with counts on the root they
// differ.
#include "collectives/check.h"

static int check(const ls_call *const *calls, int size) {
    LS_TRY(ls_check__agree(calls, size, LS_AGREE_DTYPE | LS_AGREE_ROOT));
    return ls_check__root_counts(calls, size, calls[calls[0]->root]->recv_counts);
}

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    const ls_call *root = calls[calls[0]->root];
    size_t element = ls_dtype_bytes(root->dtype), start = 0;
    for (int i = 0; i < size; i++) {
        if (calls[i]->count != 0) {
            LS_TRY(ls_block__move(ls_call__device(root), ls_block__at(root->recv, start, element),
                                  calls[i]->send, calls[i]->count * element));
        }
        start += calls[i]->count;
    }
    return LS_OK;
}

static int reference(const ls_call *const *calls, int size) {
    unsigned char *out = calls[calls[0]->root]->recv;
    size_t at = 0;
    for (int i = 0; i < size; i++) {
        for (size_t k = 0; k < calls[i]->count * ls_dtype_bytes(calls[i]->dtype); k++) {
            out[at++] = ((const unsigned char *)calls[i]->send)[k];
        }
    }
    return LS_OK;
}

const ls_collective ls_collective__gather = {
    .doc = "The root gets all ranks' buffers, one after another.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_BLOCKS, .root_only = true},
    .root_word = "to",
    .check = check,
    .math = math,
    .reference = reference,
    .bus_times = 1,
};
