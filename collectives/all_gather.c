// all_gather: every member gets all members' blocks, one after another; counts may differ.
#include <string.h>

#include "collectives/check.h"

static const size_t *recv_counts(const ls_call *call) {
    return call->recv_counts;
}

static int check(const ls_call *const *calls, int size) {
    // With counts for each member, members' counts may differ; without, they may not.
    unsigned count = calls[0]->recv_counts == NULL ? LS_AGREE_COUNT : 0;
    LS_TRY(ls_check__agree(calls, size, LS_AGREE_DTYPE | LS_AGREE_FORM | count));
    return ls_check__same_counts(calls, size, recv_counts);
}

// The result is assembled once, tile by tile, in member 0's buffer and handed out while the tile
// is in the cache. In place is safe: a tile of an output holds only blocks' parts of that tile.
#define TILE_BYTES ((size_t)32 * 1024)

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    size_t element = ls_dtype_bytes(calls[0]->dtype), total = 0;
    for (int i = 0; i < size; i++) {
        total += calls[i]->count * element;
    }
    int block = 0;           // the block that the next byte comes from
    size_t block_start = 0;  // its first byte in the result
    char *row = calls[0]->recv;
    ls_device *device = ls_call__device(calls[0]);
    size_t tile = device != NULL ? total : TILE_BYTES;
    for (size_t first = 0; first < total; first += tile) {
        size_t end = total - first < tile ? total : first + tile;
        for (size_t at = first; at < end;) {
            size_t block_end = block_start + calls[block]->count * element;
            if (at == block_end) {
                block += 1;
                block_start = block_end;
                continue;
            }
            size_t stop = block_end < end ? block_end : end;
            LS_TRY(ls_block__move(device, row + at,
                                  (const char *)calls[block]->send + (at - block_start),
                                  stop - at));
            at = stop;
        }
        for (int i = 1; i < size; i++) {
            if (calls[i]->recv == row) {
                continue;  // recv_shared
            }
            LS_TRY(ls_block__copy_result(device, (char *)calls[i]->recv + first, row + first,
                                         end - first, total * (size_t)size));
        }
    }
    return LS_OK;
}

static int reference(const ls_call *const *calls, int size) {
    size_t element = ls_dtype_bytes(calls[0]->dtype), longest = 0;
    for (int i = 0; i < size; i++) {
        longest = calls[i]->count > longest ? calls[i]->count : longest;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size * longest, element));
    unsigned char *copies = memory;
    for (int i = 0; i < size; i++) {
        for (size_t k = 0; k < calls[i]->count * element; k++) {
            copies[(size_t)i * longest * element + k] = ((const unsigned char *)calls[i]->send)[k];
        }
    }
    for (int to = 0; to < size; to++) {
        unsigned char *out = calls[to]->recv;
        size_t at = 0;
        for (int from = 0; from < size; from++) {
            for (size_t k = 0; k < calls[from]->count * element; k++) {
                out[at++] = copies[(size_t)from * longest * element + k];
            }
        }
    }
    ls_free(memory, (size_t)size * longest, element);
    return LS_OK;
}

const ls_collective ls_collective__all_gather = {
    .doc = "Every rank gets all ranks' buffers, one after another.",
    .send = {.form = LS_SIDE_COUNT},
    .recv = {.form = LS_SIDE_BLOCKS},
    .replicates = true,
    .check = check,
    .math = math,
    .reference = reference,
    .bus_times = 1,
};
