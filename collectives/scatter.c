// scatter: member i gets block i of the root's buffer; with counts on the root they differ.
#include <inttypes.h>

#include "collectives/check.h"

static int check(const ls_call *const *calls, int size) {
    LS_TRY(ls_check__agree(calls, size, LS_AGREE_DTYPE | LS_AGREE_ROOT));
    const ls_call *root = calls[calls[0]->root];
    if (root->send_counts == NULL) {
        return ls_check__agree(calls, size, LS_AGREE_COUNT);
    }
    for (int i = 0; i < size; i++) {
        if (root->send_counts[i] != calls[i]->count) {
            char where[LS_CALL_WHERE_MAX], where_root[LS_CALL_WHERE_MAX];
            ls_check__note(LS_FINDING_SPLIT_MISMATCH, calls[i]);
            return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[i]->rank,
                                "scatter on %s, call %" PRIu64 ": rank %d receives %zu elements "
                                "(%s), the root, rank %d, sends it %zu (%s)",
                                root->comm->name, root->seq, calls[i]->rank, calls[i]->count,
                                ls_call__where(where, calls[i]), root->rank, root->send_counts[i],
                                ls_call__where(where_root, root));
        }
    }
    return LS_OK;
}

static uint64_t bytes(const ls_call *const *calls, int size, int from, int to) {
    (void)size;
    return from == calls[from]->root ? (uint64_t)calls[to]->count * ls_dtype_bytes(calls[to]->dtype)
                                     : 0;
}

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    const ls_call *root = calls[calls[0]->root];
    size_t element = ls_dtype_bytes(root->dtype), start = 0;
    for (int i = 0; i < size; i++) {
        if (calls[i]->count != 0) {
            LS_TRY(ls_block__move(ls_call__device(root), calls[i]->recv,
                                  ls_block__at_const(root->send, start, element),
                                  calls[i]->count * element));
        }
        start += calls[i]->count;
    }
    return LS_OK;
}

static int reference(const ls_call *const *calls, int size) {
    const unsigned char *in = calls[calls[0]->root]->send;
    size_t at = 0;
    for (int i = 0; i < size; i++) {
        for (size_t k = 0; k < calls[i]->count * ls_dtype_bytes(calls[i]->dtype); k++) {
            ((unsigned char *)calls[i]->recv)[k] = in[at++];
        }
    }
    return LS_OK;
}

static double bus_factor(int size) {
    return (double)(size - 1) / size;
}

const ls_collective ls_collective__scatter = {
    .doc = "Every rank gets its block of the root's buffer.",
    .send = {.form = LS_SIDE_BLOCKS, .root_only = true},
    .recv = {.form = LS_SIDE_COUNT},
    .root_word = "from",
    .check = check,
    .bytes = bytes,
    .math = math,
    .reference = reference,
    .bus_factor = bus_factor,
};
