// broadcast: every member gets the root's buffer. send is ignored away from the root.
#include "collectives/check.h"

#define TILE_BYTES ((size_t)32 * 1024)

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    const ls_call *root = calls[calls[0]->root];
    size_t total = root->count * ls_dtype_bytes(root->dtype);
    ls_device *device = ls_call__device(root);
    size_t tile = device != NULL ? total : TILE_BYTES;
    for (size_t first = 0; first < total; first += tile) {
        size_t length = total - first < tile ? total - first : tile;
        for (int i = 0; i < size; i++) {
            LS_TRY(ls_block__move(device, (char *)calls[i]->recv + first,
                                  (const char *)root->send + first, length));
        }
    }
    return LS_OK;
}

static int reference(const ls_call *const *calls, int size) {
    const ls_call *root = calls[calls[0]->root];
    size_t total = root->count * ls_dtype_bytes(root->dtype);
    for (int i = 0; i < size; i++) {
        for (size_t k = 0; k < total; k++) {
            ((unsigned char *)calls[i]->recv)[k] = ((const unsigned char *)root->send)[k];
        }
    }
    return LS_OK;
}

const ls_collective ls_collective__broadcast = {
    .doc = "Every rank gets the root's buffer.",
    .send = {.form = LS_SIDE_COUNT, .root_only = true},
    .recv = {.form = LS_SIDE_COUNT},
    .root_word = "from",
    .replicates = true,
    .agree = LS_AGREE_DTYPE | LS_AGREE_ROOT | LS_AGREE_COUNT,
    .math = math,
    .reference = reference,
};
