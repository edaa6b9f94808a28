// all_to_all: block j of member i's send becomes block i of member j's recv. Even, or with each
// member's own splits.
#include <inttypes.h>
#include <string.h>

#include "collectives/check.h"

static size_t sends(const ls_call *const *calls, int from, int to) {
    return ls_block__count(calls[from]->send_counts, calls[from]->count, to);
}

static size_t receives(const ls_call *const *calls, int from, int to) {
    return ls_block__count(calls[to]->recv_counts, calls[to]->count, from);
}

// Whether member `m` is in every pair that differs, with itself or with two others: then only it is
// at fault.
static bool in_all_pairs(const ls_call *const *calls, int size, int m) {
    int partner = -1;
    bool several = false;
    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++) {
            if (sends(calls, from, to) == receives(calls, from, to)) {
                continue;
            }
            if (from != m && to != m) {
                return false;
            }
            int other = from == m ? to : from;
            several = several || other == m || (partner >= 0 && other != partner);
            partner = other != m ? other : partner;
        }
    }
    return several;
}

#define TILE 64  // members per tile, so that their counts and the ends of their buffers stay cached

static bool splits_agree(const ls_call *const *calls, int size) {
    for (int first = 0; first < size; first += TILE) {
        int end = first + TILE < size ? first + TILE : size;
        for (int to = 0; to < size; to++) {
            for (int from = first; from < end; from++) {
                if (sends(calls, from, to) != receives(calls, from, to)) {
                    return false;
                }
            }
        }
    }
    return true;
}

// The count that i sends to j must equal the count that j receives from i. Even calls need no such
// look.
static int check_splits(const ls_call *const *calls, int size) {
    if (splits_agree(calls, size)) {
        return LS_OK;
    }
    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++) {
            if (sends(calls, from, to) == receives(calls, from, to)) {
                continue;
            }
            char where_from[LS_CALL_WHERE_MAX], where_to[LS_CALL_WHERE_MAX];
            int alone = from;
            if (!in_all_pairs(calls, size, from)) {
                alone = in_all_pairs(calls, size, to) ? to : -1;
            }
            ls_check__note(LS_FINDING_SPLIT_MISMATCH, calls[alone >= 0 ? alone : from]);
            if (from != to && alone < 0) {
                ls_check__note_rank(calls[to]);
            }
            return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[from]->rank,
                                "all_to_all on %s, call %" PRIu64 ": rank %d sends %zu elements to "
                                "rank %d (%s), which receives %zu from it (%s)%s",
                                calls[from]->comm->name, calls[from]->seq, calls[from]->rank,
                                sends(calls, from, to), calls[to]->rank,
                                ls_call__where(where_from, calls[from]), receives(calls, from, to),
                                ls_call__where(where_to, calls[to]),
                                alone >= 0 ? "; one rank is in all pairs that differ" : "");
        }
    }
    return LS_OK;
}

static int check(const ls_call *const *calls, int size) {
    bool any_counts = false;
    for (int i = 0; i < size; i++) {
        any_counts = any_counts || calls[i]->send_counts != NULL;
    }
    // A member that gives one count among members with splits is fine when the pairs agree.
    LS_TRY(ls_check__agree(calls, size,
                           LS_AGREE_DTYPE | (any_counts ? 0u : (unsigned)LS_AGREE_COUNT)));
    return any_counts ? check_splits(calls, size) : LS_OK;
}

static uint64_t bytes(const ls_call *const *calls, int from, int to) {
    return (uint64_t)sends(calls, from, to) * ls_dtype_bytes(calls[from]->dtype);
}

// Constant sizes let the compiler make a move of the commonest small blocks.
static int copy_block(ls_device *device, char *to, const char *from, size_t bytes, size_t total) {
    if (device == NULL && bytes == 4) {
        memcpy(to, from, 4);
    } else if (device == NULL && bytes == 8) {
        memcpy(to, from, 8);
    } else if (device == NULL && bytes == 16) {
        memcpy(to, from, 16);
    } else if (device == NULL && bytes == 24) {
        memcpy(to, from, 24);
    } else {
        return ls_block__copy_result(device, to, from, bytes, total);
    }
    return LS_OK;
}

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)order;
    size_t element = ls_dtype_bytes(calls[0]->dtype);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(char *)));
    const char **block = memory;  // [size] each member's next block
    size_t total = 0;  // bytes of the result, taking all members to send as much as the first
    for (int i = 0; i < size; i++) {
        total += sends(calls, 0, i) * element * (size_t)size;
        block[i] = calls[i]->send;
    }
    ls_device *device = ls_call__device(calls[0]);
    int status = LS_OK;
    for (int first = 0; first < size; first += TILE) {
        int end = first + TILE < size ? first + TILE : size;
        char *next[TILE];  // where the next block of each receiver goes
        for (int to = first; to < end; to++) {
            next[to - first] = calls[to]->recv;
        }
        for (int from = 0; from < size && status == LS_OK; from++) {
            for (int to = first; to < end && status == LS_OK; to++) {
                size_t length = sends(calls, from, to) * element;
                if (length > 0) {
                    status = copy_block(device, next[to - first], block[from], length, total);
                    next[to - first] += length;
                    block[from] += length;
                }
            }
        }
    }
    ls_free(memory, (size_t)size, sizeof(char *));
    return status;
}

static int reference(const ls_call *const *calls, int size) {
    size_t element = ls_dtype_bytes(calls[0]->dtype);
    for (int to = 0; to < size; to++) {
        unsigned char *out = calls[to]->recv;
        size_t at = 0;
        for (int from = 0; from < size; from++) {
            size_t start = 0;
            for (int k = 0; k < to; k++) {
                start += sends(calls, from, k);
            }
            const unsigned char *in = calls[from]->send;
            for (size_t k = 0; k < receives(calls, from, to) * element; k++) {
                out[at++] = in[start * element + k];
            }
        }
    }
    return LS_OK;
}

const ls_collective ls_collective__all_to_all = {
    .doc = "Every rank sends a block of its own to every rank.",
    .send = {.form = LS_SIDE_BLOCKS},
    .recv = {.form = LS_SIDE_BLOCKS},
    .check = check,
    .bytes = bytes,
    .math = math,
    .reference = reference,
    .bus_times = 1,
};
