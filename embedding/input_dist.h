// Shared by the files of stage 1: input_dist.c, which sends and receives, pack.c, which makes what
// is sent, and settle.c, which puts what arrived in the order of the slots.
#pragma once

#include "embedding/internal.h"

typedef enum payload { PAYLOAD_LENGTHS, PAYLOAD_IDS, PAYLOAD_WEIGHTS, PAYLOADS } payload;

// Everything one held rank has in flight during the exchanges of one group.
typedef struct embedding_traffic {
    int rank;
    bool variable;                    // the rank's input has a batch size per feature
    int64_t batch;                    // else: of every feature
    const embedding_input *inputs;    // [pairs] of the rank
    int64_t *sizes_sent, *sizes_got;  // [world size][words]; once they are read, NULL
    const size_t *word_counts;        // [world size] = words
    const void *send[PAYLOADS];       // (device)
    void *recv[PAYLOADS];             // (device)
    size_t *send_counts[PAYLOADS], *recv_counts[PAYLOADS];  // weights: those of ids
    const int64_t *lengths;  // as received: [source rank][own slot][its bags]
    const int64_t *ids;      // (device) as received: [source rank][own slot][bag][id]
    const float *weights;    // (device)
} embedding_traffic;

// A rank sends each other one its batch, the numbers of ids and weights that follow, and a check of
// these.
enum { WORD_CHECK, WORD_IDS, WORD_BATCH, WORD_WEIGHTS };

// All words of a rank that goes no further.
#define STOPPED (-1)
// In place of a batch: a number of bags follows for each block of columns of the other's node.
#define VARIABLE (-2)

static inline int words_of(const embedding_group *group) {
    return group->weighted ? 4 : 3;
}

// Whether an owner's lengths are those that arrive, as they are: of its one slot, from sources that
// it keeps in the order of the ranks.
static inline bool keeps_lengths(const ls_embedding *module, const embedding_group *group,
                                 int rank) {
    return slots_of(group, rank) == 1 && (group->width == 1 || group->width == module->size) &&
           module->device->ops->is_host;
}

// pack.c: what one held rank sends of a payload, of what it cut up; how much of it goes to each
// rank and comes from it, and room for that. And the sum of counts [count].
int ls_embedding__pack(const ls_embedding_pass *pass, const embedding_group *group,
                       embedding_traffic *side, const embedding_outgoing *out, payload what,
                       embedding_pool *sending);
int ls_embedding__make_room(ls_embedding_pass *pass, const embedding_group *group,
                            embedding_traffic *side, const embedding_part *part, payload what,
                            embedding_pool *scratch);
int ls_embedding__total(size_t *out, const size_t *counts, int count);

// settle.c: fills *part, whose lengths and ids are checked, with what one held rank received.
int ls_embedding__settle_rank(ls_embedding_pass *pass, const embedding_group *group,
                              const embedding_traffic *side, embedding_part *part);
