// The data that a rank sends in the exchanges of stage 1: its pieces in the order of the ranks they
// go to, and how much goes to each and comes from it.
#include "embedding/input_dist.h"

int ls_embedding__total(size_t *out, const size_t *counts, int count) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        LS_TRY(ls_size_add(out, *out, counts[i]));
    }
    return LS_OK;
}

static size_t element_bytes(payload what) {
    return what == PAYLOAD_WEIGHTS ? sizeof(float) : sizeof(int64_t);
}

// The data of a slot.
typedef struct outgoing_piece {
    const char *data;
    size_t bytes;
} outgoing_piece;

static outgoing_piece piece_of(const embedding_group *group, const embedding_traffic *side,
                               const embedding_outgoing *out, payload what, int slot) {
    size_t ids = (size_t)out->sent_ids[slot];
    size_t bags = (size_t)side->inputs[group->slots[slot].pair].jagged.batch;
    switch (what) {
    case PAYLOAD_LENGTHS:
        return (outgoing_piece){(const char *)out->lengths[slot], bags * sizeof(int64_t)};
    case PAYLOAD_IDS:
        return (outgoing_piece){(const char *)out->ids[slot], ids * sizeof(int64_t)};
    default:
        return (outgoing_piece){(const char *)out->weights[slot], ids * sizeof(float)};
    }
}

// Where one rank's pieces begin if they follow one another as they are, as those of one feature do;
// else NULL. And how many bytes they are.
static const char *in_a_row(const embedding_group *group, const embedding_traffic *side,
                            const embedding_outgoing *out, payload what, size_t *bytes) {
    const char *first = NULL, *end = NULL;
    bool apart = false;
    *bytes = 0;
    for (int slot = 0; slot < group->slot_count; slot++) {
        outgoing_piece piece = piece_of(group, side, out, what, slot);
        apart = apart || (piece.bytes > 0 && first != NULL && piece.data != end);
        first = piece.bytes > 0 && first == NULL ? piece.data : first;
        end = piece.bytes > 0 ? piece.data + piece.bytes : end;
        *bytes += piece.bytes;
    }
    return apart ? NULL : first;
}

int ls_embedding__pack(const ls_embedding_pass *pass, const embedding_group *group,
                       embedding_traffic *side, const embedding_outgoing *out, payload what,
                       embedding_pool *sending) {
    ls_device *device = pass->module->device;
    size_t bytes, at = 0;
    side->send[what] = in_a_row(group, side, out, what, &bytes);
    if (side->send[what] != NULL) {
        return LS_OK;
    }
    void *packed;
    size_t element = element_bytes(what);
    embedding_array array = {side->rank, -1, "the input on its way to the shards", bytes / element,
                             element};
    LS_TRY(ls_embedding__take(sending, &packed, &array));
    for (int slot = 0; slot < group->slot_count; slot++) {
        outgoing_piece piece = piece_of(group, side, out, what, slot);
        if (piece.bytes > 0) {
            LS_TRY(device->ops->copy(device, (char *)packed + at, piece.data, piece.bytes));
        }
        at += piece.bytes;
    }
    LS_ASSERT(at == bytes);
    side->send[what] = packed;
    return LS_OK;
}

// The sent data follows from the input, not from the sizes that were reported: their memory was in
// other hands since.
static int count_lengths(const ls_embedding *module, const embedding_group *group,
                         embedding_traffic *side, const embedding_part *part) {
    int first = group->rank_first[side->rank];
    for (int i = 0; i < module->size; i++) {
        size_t sends = 0, receives = 0;
        for (int slot = group->rank_first[i]; slot < group->rank_first[i + 1]; slot++) {
            sends += (size_t)side->inputs[group->slots[slot].pair].jagged.batch;
        }
        for (int k = 0; k < slots_of(group, side->rank); k++) {
            int64_t batch = ls_embedding__batch(part, i, &group->slots[first + k]);
            LS_TRY(ls_size_add(&receives, receives, (size_t)batch));
        }
        side->send_counts[PAYLOAD_LENGTHS][i] = sends;
        side->recv_counts[PAYLOAD_LENGTHS][i] = receives;
    }
    return LS_OK;
}

int ls_embedding__make_room(ls_embedding_pass *pass, const embedding_group *group,
                            embedding_traffic *side, const embedding_part *part, payload what,
                            embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    size_t got;
    if (what == PAYLOAD_LENGTHS) {
        LS_TRY(count_lengths(module, group, side, part));
    }
    LS_TRY(ls_embedding__total(&got, side->recv_counts[what], module->size));
    bool kept = what == PAYLOAD_LENGTHS && keeps_lengths(module, group, side->rank);
    embedding_array array = {side->rank, -1, "the input that arrives for the shards", got,
                             element_bytes(what)};
    return ls_embedding__take(kept ? &pass->filled : scratch, &side->recv[what], &array);
}
