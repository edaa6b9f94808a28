// What a rank sends in the exchanges of stage 1: its pieces in the order of the ranks they go to,
// and how much goes to each and comes from it.
#include "embedding/input_dist.h"

int ls_embedding__total(size_t *out, const size_t *counts, int count) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        LS_TRY(ls_size_add(out, *out, counts[i]));
    }
    return LS_OK;
}

// Fills the side's counts. What is sent follows from what there is, not from the sizes that were
// told: their memory was in other hands since.
static int prepare_counts(const ls_embedding *module, const embedding_group *group,
                          embedding_traffic *side, const embedding_part *part, payload what,
                          size_t *sent, size_t *got) {
    for (int i = 0; i < module->size; i++) {
        size_t sends = 0, receives = 0;
        if (what == PAYLOAD_LENGTHS) {
            for (int slot = group->rank_first[i]; slot < group->rank_first[i + 1]; slot++) {
                sends += (size_t)side->inputs[group->slots[slot].pair].jagged.batch;
            }
            int first = group->rank_first[side->rank];
            for (int k = 0; k < slots_of(group, side->rank); k++) {
                int64_t batch = ls_embedding__batch(part, i, &group->slots[first + k]);
                LS_TRY(ls_size_add(&receives, receives, (size_t)batch));
            }
        } else {
            for (int slot = group->rank_first[i]; slot < group->rank_first[i + 1]; slot++) {
                sends += (size_t)part->sent_ids[slot];
            }
            receives = (size_t)side->sizes_got[(size_t)i * (size_t)words_of(group) + WORD_IDS];
        }
        side->send_counts[what][i] = sends;
        side->recv_counts[what][i] = receives;
    }
    LS_TRY(ls_embedding__total(sent, side->send_counts[what], module->size));
    return ls_embedding__total(got, side->recv_counts[what], module->size);
}

// What goes to a slot.
typedef struct outgoing_piece {
    const char *data;
    size_t bytes;
} outgoing_piece;

static outgoing_piece piece_of(const embedding_group *group, const embedding_traffic *side,
                               const embedding_part *part, payload what, int slot) {
    size_t ids = (size_t)part->sent_ids[slot];
    size_t bags = (size_t)side->inputs[group->slots[slot].pair].jagged.batch;
    switch (what) {
    case PAYLOAD_LENGTHS:
        return (outgoing_piece){(const char *)side->out.lengths[slot], bags * sizeof(int64_t)};
    case PAYLOAD_IDS:
        return (outgoing_piece){(const char *)side->out.ids[slot], ids * sizeof(int64_t)};
    default:
        return (outgoing_piece){(const char *)side->out.weights[slot], ids * sizeof(float)};
    }
}

// Where one rank's pieces begin if they follow one another as they are, as those of one feature do;
// else NULL.
static const char *in_a_row(const embedding_group *group, const embedding_traffic *side,
                            const embedding_part *part, payload what) {
    const char *first = NULL, *end = NULL;
    for (int slot = 0; slot < group->slot_count; slot++) {
        outgoing_piece piece = piece_of(group, side, part, what, slot);
        if (piece.bytes > 0 && first != NULL && piece.data != end) {
            return NULL;
        }
        first = piece.bytes > 0 && first == NULL ? piece.data : first;
        end = piece.bytes > 0 ? piece.data + piece.bytes : end;
    }
    return first;
}

// Concatenates one rank's pieces, which are in the order of the destination ranks, and makes room
// for what it gets.
int ls_embedding__pack(const ls_embedding_pass *pass, const embedding_group *group,
                       embedding_traffic *side, const embedding_part *part, payload what,
                       embedding_pool *scratch, const void **send, void **recv) {
    size_t bytes = what == PAYLOAD_WEIGHTS ? sizeof(float) : sizeof(int64_t);
    ls_device *device = pass->module->device;
    size_t sent, got, at = 0;
    LS_TRY(prepare_counts(pass->module, group, side, part, what, &sent, &got));
    embedding_array array = {side->rank, -1, "the input that arrives for the shards", got, bytes};
    LS_TRY(ls_embedding__take(scratch, recv, &array));
    *send = in_a_row(group, side, part, what);
    if (*send != NULL) {
        return LS_OK;
    }
    void *packed;
    array = (embedding_array){side->rank, -1, "the input on its way to the shards", sent, bytes};
    LS_TRY(ls_embedding__take(scratch, &packed, &array));
    for (int slot = 0; slot < group->slot_count; slot++) {
        outgoing_piece piece = piece_of(group, side, part, what, slot);
        if (piece.bytes > 0) {
            LS_TRY(device->ops->copy(device, (char *)packed + at, piece.data, piece.bytes));
        }
        at += piece.bytes;
    }
    LS_ASSERT(at == sent * bytes);
    *send = packed;
    return LS_OK;
}
