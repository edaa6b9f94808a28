// Stage 1, input_dist: every rank cuts its bags up by the owner of each id (routing.c) and sends
// lengths, ids and weights there, after the ranks have told one another how
// much to expect. A rank whose input is unusable says so in that first exchange, with negative
// sizes, so that no other rank waits for it. What arrives is data from elsewhere: memory is taken
// for sizes that agree with one another alone, and lengths and ids are checked before their use.
#include "embedding/internal.h"

// ---- The exchanges ------------------------------------------------------------------------------

// Everything one held rank has in flight during the exchanges of one group.
typedef struct traffic {
    int rank;
    int64_t batch;
    embedding_outgoing out;
    int64_t *sizes_sent, *sizes_got;  // [world size][words]
    size_t *word_counts;              // [world size] = words
    size_t *send_counts, *recv_counts;
    const int64_t *lengths;  // as received: [source rank][own slot][batch of the source]
    const int64_t *ids;      // (device) as received: [source rank][own slot][bag][id]
    const float *weights;    // (device)
} traffic;

// A rank tells each other one its batch, the ids and the weights that follow, and a check of these.
enum { WORD_CHECK, WORD_IDS, WORD_BATCH, WORD_WEIGHTS };

// All words of a rank that goes no further.
#define STOPPED (-1)

typedef enum payload { PAYLOAD_LENGTHS, PAYLOAD_IDS, PAYLOAD_WEIGHTS } payload;

static int words_of(const embedding_group *group) {
    return group->weighted ? 4 : 3;
}

// Differs from what it was when any one of the other words does.
static int64_t check_of(const int64_t *word, int words) {
    uint64_t sum = 0;
    for (int i = WORD_CHECK + 1; i < words; i++) {
        sum += (uint64_t)word[i];
    }
    return (int64_t)~sum;
}

static int traffic_create(traffic *out, const ls_embedding *module, const embedding_group *group,
                          int rank, ls_arena *scratch) {
    int words = words_of(group);
    out->rank = rank;
    size_t size = (size_t)module->size;
    ARENA_NEW(out->sizes_sent, scratch, size * (size_t)words);
    ARENA_NEW(out->sizes_got, scratch, size * (size_t)words);
    ARENA_NEW(out->word_counts, scratch, size);
    ARENA_NEW(out->send_counts, scratch, size);
    ARENA_NEW(out->recv_counts, scratch, size);
    for (size_t i = 0; i < size; i++) {
        out->word_counts[i] = (size_t)words;
    }
    return LS_OK;
}

static void fill_sizes(traffic *side, const ls_embedding *module, const embedding_group *group,
                       const embedding_part *part) {
    int words = words_of(group);
    for (int to = 0; to < module->size; to++) {
        int64_t *word = side->sizes_sent + (size_t)to * (size_t)words;
        for (int slot = group->rank_first[to]; slot < group->rank_first[to + 1]; slot++) {
            word[WORD_IDS] += part->sent_ids[slot];
        }
        word[WORD_BATCH] = side->batch;
        if (group->weighted) {
            word[WORD_WEIGHTS] = word[WORD_IDS];
        }
        word[WORD_CHECK] = check_of(word, words);
    }
}

static int run_exchange(ls_embedding_pass *pass, traffic *sides, const char *what, ls_dtype dtype,
                        ls_arena *scratch, const void *const *send, void *const *recv, bool sizes) {
    embedding_side *calls;
    ARENA_NEW(calls, scratch, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        calls[h] =
            (embedding_side){.rank = sides[h].rank,
                             .send = send[h],
                             .recv = recv[h],
                             .send_counts = sizes ? sides[h].word_counts : sides[h].send_counts,
                             .recv_counts = sizes ? sides[h].word_counts : sides[h].recv_counts};
    }
    embedding_exchange exchange = {
        .kind = LS_ALL_TO_ALL, .comm = pass->module->comm, .dtype = dtype, .what = what};
    return ls_embedding__exchange(pass->module->backend, &exchange, calls, pass->held_count);
}

static int exchange_sizes(ls_embedding_pass *pass, traffic *sides, ls_arena *scratch) {
    const void **send;
    void **recv;
    ARENA_NEW(send, scratch, pass->held_count);
    ARENA_NEW(recv, scratch, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        send[h] = sides[h].sizes_sent;
        recv[h] = sides[h].sizes_got;
    }
    return run_exchange(pass, sides, "input_dist sizes", LS_I64, scratch, send, recv, true);
}

// Learns from the received sizes how much comes from whom, and checks that it makes sense.
static int read_sizes(const ls_embedding *module, const embedding_group *group, traffic *side,
                      embedding_part *part) {
    int words = words_of(group), rank = side->rank;
    for (int from = 0; from < module->size; from++) {
        const int64_t *word = side->sizes_got + (size_t)from * (size_t)words;
        if (word[WORD_CHECK] == STOPPED && word[WORD_IDS] == STOPPED &&
            word[WORD_BATCH] == STOPPED) {
            return LS_FAIL_RANK(LS_ERR_FINDING, from,
                                "input_dist: rank %d stopped because of its input", from);
        }
        int64_t batch = word[WORD_BATCH];
        if (batch < 0 || word[WORD_IDS] < 0 || word[WORD_CHECK] != check_of(word, words) ||
            (group->weighted && word[WORD_WEIGHTS] != word[WORD_IDS]) ||
            __builtin_add_overflow(part->bags, batch, &part->bags)) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "input_dist: rank %d tells rank %d sizes that do not fit: batch "
                                "%lld, %lld ids",
                                from, rank, (long long)batch, (long long)word[WORD_IDS]);
        }
        part->batches[from] = batch;
    }
    return LS_OK;
}

static int total_of(size_t *out, const size_t *counts, int count) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        LS_TRY(ls_size_add(out, *out, counts[i]));
    }
    return LS_OK;
}

static int slots_of(const embedding_group *group, int rank) {
    return group->rank_first[rank + 1] - group->rank_first[rank];
}

// Fills the side's counts. What is sent follows from what there is, not from the sizes that were
// told: their memory was in other hands since.
static int prepare_counts(const ls_embedding *module, const embedding_group *group, traffic *side,
                          const embedding_part *part, payload what, size_t *sent, size_t *got) {
    for (int i = 0; i < module->size; i++) {
        size_t sends = 0, receives;
        if (what == PAYLOAD_LENGTHS) {
            LS_TRY(ls_embedding__count(&sends, slots_of(group, i), side->batch, 1));
            LS_TRY(
                ls_embedding__count(&receives, slots_of(group, side->rank), part->batches[i], 1));
        } else {
            for (int slot = group->rank_first[i]; slot < group->rank_first[i + 1]; slot++) {
                sends += (size_t)part->sent_ids[slot];
            }
            receives = (size_t)side->sizes_got[(size_t)i * (size_t)words_of(group) + WORD_IDS];
        }
        side->send_counts[i] = sends;
        side->recv_counts[i] = receives;
    }
    LS_TRY(total_of(sent, side->send_counts, module->size));
    return total_of(got, side->recv_counts, module->size);
}

// Concatenates one rank's pieces, which are in the order of the destination ranks, and makes room
// for what it gets.
static int pack(const ls_embedding_pass *pass, const embedding_group *group, traffic *side,
                const embedding_part *part, payload what, embedding_pool *scratch,
                const void **send, void **recv) {
    size_t bytes = what == PAYLOAD_WEIGHTS ? sizeof(float) : sizeof(int64_t);
    ls_device *device = pass->module->device;
    size_t sent, got, at = 0;
    LS_TRY(prepare_counts(pass->module, group, side, part, what, &sent, &got));
    void *packed;
    embedding_array array = {side->rank, -1, "the input on its way to the shards", sent, bytes};
    LS_TRY(ls_embedding__take(scratch, &packed, &array));
    array = (embedding_array){side->rank, -1, "the input that arrives for the shards", got, bytes};
    LS_TRY(ls_embedding__take(scratch, recv, &array));
    for (int slot = 0; slot < group->slot_count; slot++) {
        const void *piece = what == PAYLOAD_LENGTHS ? (const void *)side->out.lengths[slot]
                            : what == PAYLOAD_IDS   ? (const void *)side->out.ids[slot]
                                                    : (const void *)side->out.weights[slot];
        size_t count = what == PAYLOAD_LENGTHS ? (size_t)side->batch : (size_t)part->sent_ids[slot];
        if (count > 0) {
            LS_TRY(device->ops->copy(device, (char *)packed + at * bytes, piece, count * bytes));
        }
        at += count;
    }
    LS_ASSERT(at == sent);
    *send = packed;
    return LS_OK;
}

// What arrived. Lengths are control data: every rank goes through them.
static int unpack(traffic *side, const void *recv, payload what, embedding_pool *scratch) {
    if (what == PAYLOAD_IDS) {
        side->ids = recv;
    } else if (what == PAYLOAD_WEIGHTS) {
        side->weights = recv;
    } else {
        size_t got;
        const void *lengths;
        LS_TRY(total_of(&got, side->recv_counts, scratch->module->size));
        LS_TRY(ls_embedding__fetch(scratch, &lengths, recv, got, sizeof(int64_t)));
        side->lengths = lengths;
    }
    return LS_OK;
}

// One of the three uneven exchanges.
static int exchange_payload(ls_embedding_pass *pass, const embedding_group *group, traffic *sides,
                            payload what, embedding_pool *scratch) {
    static const char *const names[] = {[PAYLOAD_LENGTHS] = "input_dist lengths",
                                        [PAYLOAD_IDS] = "input_dist ids",
                                        [PAYLOAD_WEIGHTS] = "input_dist weights"};
    ls_dtype dtype = what == PAYLOAD_WEIGHTS ? LS_F32 : LS_I64;
    const int64_t g = group - pass->module->groups;
    const void **send;
    void **recv;
    ARENA_NEW(send, scratch->arena, pass->held_count);
    ARENA_NEW(recv, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(pack(pass, group, &sides[h], &pass->parts[h][g], what, scratch, &send[h], &recv[h]));
    }
    LS_TRY(run_exchange(pass, sides, names[what], dtype, scratch->arena, send, recv, false));
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(unpack(&sides[h], recv[h], what, scratch));
    }
    return LS_OK;
}

// ---- From the order of arrival to the order of slots --------------------------------------------

static const char *feature_of(const ls_embedding *module, const embedding_group *group, int rank,
                              int k) {
    const embedding_pair *pair = &module->pairs[group->slots[group->rank_first[rank] + k].pair];
    return module->tables[pair->table].config->features[pair->feature];
}

// Where slot k of source rank `from` begins in what arrived, [world size][own slots].
typedef struct arrival {
    size_t *lengths, *ids;
} arrival;

static int locate(const ls_embedding *module, const embedding_group *group, const traffic *side,
                  const embedding_part *part, ls_arena *scratch, arrival *out) {
    int own = slots_of(group, side->rank);
    size_t cells;
    LS_TRY(ls_embedding__count(&cells, module->size, own, 1));
    ARENA_NEW(out->lengths, scratch, cells);
    ARENA_NEW(out->ids, scratch, cells);
    size_t length_at = 0, id_at = 0;
    for (int from = 0; from < module->size; from++) {
        int64_t left = side->sizes_got[(size_t)from * (size_t)words_of(group) + WORD_IDS];
        for (int k = 0; k < own; k++) {
            size_t cell = (size_t)from * (size_t)own + (size_t)k;
            out->lengths[cell] = length_at;
            out->ids[cell] = id_at;
            for (int64_t b = 0; b < part->batches[from]; b++) {
                int64_t length = side->lengths[length_at++];
                if (length < 0 || length > left) {
                    return LS_FAIL_RANK(LS_ERR_MISMATCH, side->rank,
                                        "input_dist: rank %d sent rank %d for feature %s a length "
                                        "of %lld with %lld ids left",
                                        from, side->rank, feature_of(module, group, side->rank, k),
                                        (long long)length, (long long)left);
                }
                left -= length;
                id_at += (size_t)length;
            }
        }
        if (own > 0 && left != 0) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, side->rank,
                                "input_dist: rank %d sent rank %d %lld ids more than its lengths "
                                "say",
                                from, side->rank, (long long)left);
        }
    }
    return LS_OK;
}

// Fills slot k: what every source sent for it, in the group's order of sources.
static int gather_slot(const ls_embedding *module, const embedding_group *group,
                       const traffic *side, const arrival *where, int k, embedding_pool *pool,
                       embedding_part *part) {
    ls_arena *arena = pool->arena;
    ls_device *device = module->device;
    int own = slots_of(group, side->rank);
    ARENA_NEW(part->lengths[k], arena, part->bags);
    ARENA_NEW(part->offsets[k], arena, part->bags + 1);
    ARENA_NEW(part->slot_ids[k], arena, module->size);
    int64_t bag = 0;
    for (int i = 0; i < module->size; i++) {
        int from = ls_embedding__source(group, module->size, i);
        const int64_t *lengths =
            side->lengths + where->lengths[(size_t)from * (size_t)own + (size_t)k];
        for (int64_t b = 0; b < part->batches[from]; b++, bag++) {
            part->lengths[k][bag] = lengths[b];
            part->offsets[k][bag + 1] = part->offsets[k][bag] + lengths[b];
            part->slot_ids[k][from] += lengths[b];
        }
    }
    LS_ASSERT(bag == part->bags);
    LS_TRY(ls_embedding__part_slot(pool, group, side->rank, k, part));
    int64_t at = 0;
    for (int i = 0; i < module->size; i++) {
        int from = ls_embedding__source(group, module->size, i);
        size_t first = where->ids[(size_t)from * (size_t)own + (size_t)k];
        size_t count = (size_t)part->slot_ids[k][from];
        if (count > 0) {
            LS_TRY(device->ops->copy(device, part->ids[k] + at, side->ids + first,
                                     count * sizeof(int64_t)));
        }
        if (count > 0 && group->weighted) {
            LS_TRY(device->ops->copy(device, part->weights[k] + at, side->weights + first,
                                     count * sizeof(float)));
        }
        at += (int64_t)count;
    }
    return LS_OK;
}

// Ids that arrived must be rows of the shard: other processes are not trusted with our memory.
static int check_rows(const ls_embedding *module, const embedding_group *group, int rank, int k,
                      const embedding_part *part) {
    ls_device *device = module->device;
    const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
    size_t bad = 0, count = (size_t)part->offsets[k][part->bags];
    int status =
        device->ops->resolve_ids(device, part->ids[k], count, slot->block.rows, LS_ID_ERROR, &bad);
    if (status == LS_ERR_INVALID) {
        ls_error error = *ls_error_last();
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "input_dist: rank %d was sent for feature %s local rows of a shard of "
                            "%lld rows: %s",
                            rank, feature_of(module, group, rank, k), (long long)slot->block.rows,
                            error.text);
    }
    return status;
}

static int settle_rank(ls_embedding_pass *pass, const embedding_group *group, const traffic *side,
                       embedding_pool *scratch, embedding_part *part) {
    arrival where = {0};
    LS_TRY(locate(pass->module, group, side, part, scratch->arena, &where));
    LS_TRY(ls_embedding__part_create(part, group, side->rank, pass->arena));
    int own = slots_of(group, side->rank);
    for (int k = 0; k < own; k++) {
        LS_TRY(gather_slot(pass->module, group, side, &where, k, &pass->pool, part));
        LS_TRY(check_rows(pass->module, group, side->rank, k, part));
    }
    return LS_OK;
}

// ---- The stage ----------------------------------------------------------------------------------

static int dist_group(ls_embedding_pass *pass, embedding_group *group, embedding_pool *scratch) {
    ls_embedding *module = pass->module;
    int64_t g = group - module->groups;
    traffic *sides;
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        embedding_part *part = &pass->parts[h][g];
        LS_TRY(traffic_create(&sides[h], module, group, ls_world_held(module->world)[h],
                              scratch->arena));
        ARENA_NEW(part->batches, pass->arena, module->size);
        sides[h].batch = pass->inputs[h][0].jagged.batch;
        LS_TRY(ls_embedding__route_rank(pass, group, h, scratch, part, &sides[h].out));
        fill_sizes(&sides[h], module, group, part);
    }
    LS_TRY(exchange_sizes(pass, sides, scratch->arena));
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(read_sizes(module, group, &sides[h], &pass->parts[h][g]));
    }
    LS_TRY(exchange_payload(pass, group, sides, PAYLOAD_LENGTHS, scratch));
    LS_TRY(exchange_payload(pass, group, sides, PAYLOAD_IDS, scratch));
    if (group->weighted) {
        LS_TRY(exchange_payload(pass, group, sides, PAYLOAD_WEIGHTS, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(settle_rank(pass, group, &sides[h], scratch, &pass->parts[h][g]));
    }
    return LS_OK;
}

// Data parallel: every rank keeps its own bags. The arrays are the input's own.
static int keep_group(ls_embedding_pass *pass, const embedding_group *group, int held) {
    const ls_embedding *module = pass->module;
    int rank = ls_world_held(module->world)[held];
    ls_device *device = module->device;
    embedding_part *part = &pass->parts[held][group - module->groups];
    LS_TRY(ls_embedding__part_create(part, group, rank, pass->arena));
    ARENA_NEW(part->batches, pass->arena, module->size);
    for (int k = 0; k < slots_of(group, rank); k++) {
        const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
        const ls_jagged *jagged = &pass->inputs[held][slot->pair].jagged;
        size_t count = (size_t)(jagged->offsets[jagged->batch] - jagged->offsets[0]);
        part->batches[rank] = part->bags = jagged->batch;
        ARENA_NEW(part->slot_ids[k], pass->arena, module->size);
        part->slot_ids[k][rank] = (int64_t)count;
        ARENA_NEW(part->lengths[k], pass->arena, jagged->batch);
        ARENA_NEW(part->offsets[k], pass->arena, jagged->batch + 1);
        for (int64_t b = 0; b < jagged->batch; b++) {
            part->lengths[k][b] = jagged->lengths[b];
            part->offsets[k][b + 1] = jagged->offsets[b + 1] - jagged->offsets[0];
        }
        LS_TRY(ls_embedding__part_slot(&pass->pool, group, rank, k, part));
        const ls_jagged *bags = &pass->inputs[held][slot->pair].bags;
        if (count > 0) {
            LS_TRY(device->ops->copy(device, part->ids[k], bags->ids, count * sizeof(int64_t)));
        }
        if (count > 0 && group->weighted) {
            LS_TRY(
                device->ops->copy(device, part->weights[k], bags->weights, count * sizeof(float)));
        }
    }
    return LS_OK;
}

// Tells the other ranks, in the first exchange that they expect, that some of ours cannot go on.
static void announce_failure(ls_embedding_pass *pass, const bool *failed, ls_arena *scratch) {
    const ls_embedding *module = pass->module;
    const embedding_group *group = NULL;
    for (int g = 0; g < module->group_count && !group; g++) {
        group = module->groups[g].local ? NULL : &module->groups[g];
    }
    if (!group || pass->held_count == module->size) {
        return;
    }
    traffic *sides = ls_arena_alloc(scratch, (size_t)pass->held_count, sizeof(*sides));
    if (!sides) {
        return;
    }
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h];
        if (traffic_create(&sides[h], module, group, rank, scratch)) {
            return;
        }
        for (size_t i = 0; i < (size_t)module->size * (size_t)words_of(group); i++) {
            sides[h].sizes_sent[i] = failed[h] ? STOPPED : 0;
        }
    }
    (void)exchange_sizes(pass, sides, scratch);
}

static int prepare_inputs(ls_embedding_pass *pass, const ls_keyed_jagged *const *inputs,
                          ls_arena *scratch) {
    bool *failed;
    ARENA_NEW(failed, scratch, pass->held_count);
    ls_error first = {.code = LS_OK};
    for (int h = 0; h < pass->held_count; h++) {
        failed[h] = ls_embedding__prepare_rank(pass, h, inputs[h]) != LS_OK;
        if (failed[h] && first.code == LS_OK) {
            first = *ls_error_last();
        }
    }
    if (first.code == LS_OK) {
        return LS_OK;
    }
    announce_failure(pass, failed, scratch);
    return ls_error__set(first.file, first.line, first.code, first.rank, "%s", first.text);
}

static int run_stage(ls_embedding_pass *pass, const ls_keyed_jagged *const *inputs,
                     embedding_pool *scratch) {
    ls_embedding *module = pass->module;
    module->has_bad_id = false;
    LS_TRY(prepare_inputs(pass, inputs, scratch->arena));
    for (int g = 0; g < module->group_count; g++) {
        if (!module->groups[g].local) {
            LS_TRY(dist_group(pass, &module->groups[g], scratch));
            continue;
        }
        for (int h = 0; h < pass->held_count; h++) {
            LS_TRY(keep_group(pass, &module->groups[g], h));
        }
    }
    return LS_OK;
}

int ls_embedding__input_dist(ls_embedding_pass *pass, const ls_keyed_jagged *const *inputs,
                             const ls_stage_sink *sink) {
    ls_embedding *module = pass->module;
    embedding_pool scratch;
    LS_TRY(ls_embedding__pool_create(&scratch, module));
    int status = run_stage(pass, inputs, &scratch);
    ls_embedding__pool_free(&scratch);
    for (int g = 0; sink && g < module->group_count && !status; g++) {
        const embedding_group *group = &module->groups[g];
        for (int h = 0; h < pass->held_count && !status; h++) {
            int rank = ls_world_held(module->world)[h];
            int own = group->rank_first[rank + 1] - group->rank_first[rank];
            for (int k = 0; k < own && !status; k++) {
                status = ls_embedding__part_emit(pass, group, h, k, sink);
            }
        }
    }
    return status;
}
