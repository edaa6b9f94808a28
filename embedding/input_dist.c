// Stage 1, input_dist: every rank cuts its bags up by the owner of each id (routing.c) and sends
// lengths, ids and weights there, after the ranks have reported one another how much to expect. A
// rank whose input is unusable says so in that first exchange, with negative sizes, so that no
// other rank waits for it. Received data comes from elsewhere: memory is taken for sizes that agree
// with one another alone, and lengths and ids are checked before their use.
#include "embedding/input_dist.h"

// One group's exchanges, begun or over.
typedef struct group_arrival {
    embedding_traffic *sides;             // [held]
    embedding_pending pending[PAYLOADS];  // unless the exchanges are waited for at once
} group_arrival;

// The data that input_dist has in flight between its start and its end.
struct embedding_arrivals {
    embedding_pool sending;  // sent data; its memory is then used for the received data
    embedding_pool scratch;
    ls_arena *sizes;        // that are reported, until all have heard them
    group_arrival *groups;  // [groups]
    bool begins;            // exchanges are begun, not waited for
};

// ---- The exchanges ------------------------------------------------------------------------------

// Differs from the old text if any word does.
static int64_t check_of(const int64_t *word, int words) {
    uint64_t sum = 0;
    for (int i = WORD_CHECK + 1; i < words; i++) {
        sum += (uint64_t)word[i];
    }
    return (int64_t)~sum;
}

static int payload_count(const embedding_group *group) {
    return group->weighted ? PAYLOADS : PAYLOAD_WEIGHTS;
}

static int traffic_create(embedding_traffic *out, const ls_embedding_pass *pass,
                          const embedding_group *group, int rank, const size_t *word_counts) {
    size_t words = (size_t)pass->module->size * (size_t)words_of(group);
    out->rank = rank;
    out->word_counts = word_counts;
    ARENA_NEW(out->sizes_sent, pass->arrivals->sizes, words);
    ARENA_NEW(out->sizes_got, pass->arrivals->scratch.arena, words);
    return LS_OK;
}

// The same of all ranks, which share them.
static int count_words(size_t **out, const ls_embedding *module, const embedding_group *group,
                       ls_arena *scratch) {
    ARENA_NEW(*out, scratch, module->size);
    for (int i = 0; i < module->size; i++) {
        (*out)[i] = (size_t)words_of(group);
    }
    return LS_OK;
}

static int fill_sizes(embedding_traffic *side, const ls_embedding_pass *pass,
                      const embedding_group *group, const embedding_outgoing *out) {
    const ls_embedding *module = pass->module;
    int words = words_of(group);
    size_t *sends;
    ARENA_NEW(sends, pass->arrivals->sending.arena, module->size);
    side->send_counts[PAYLOAD_IDS] = side->send_counts[PAYLOAD_WEIGHTS] = sends;
    for (int to = 0; to < module->size; to++) {
        int64_t *word = side->sizes_sent + (size_t)to * (size_t)words;
        for (int slot = group->rank_first[to]; slot < group->rank_first[to + 1]; slot++) {
            word[WORD_IDS] += out->sent_ids[slot];
        }
        sends[to] = (size_t)word[WORD_IDS];
        word[WORD_BATCH] = side->variable ? VARIABLE : side->batch;
        if (group->weighted) {
            word[WORD_WEIGHTS] = word[WORD_IDS];
        }
        word[WORD_CHECK] = check_of(word, words);
    }
    return LS_OK;
}

// The exchange of sizes, or, by `which`, one of the uneven ones; pending, if not NULL, receives it
// in progress.
static int run_exchange(ls_embedding_pass *pass, embedding_traffic *sides, const char *name,
                        int which, ls_arena *scratch, embedding_pending *pending) {
    bool sizes = which < 0;
    embedding_side *calls;
    ARENA_NEW(calls, scratch, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        const embedding_traffic *side = &sides[h];
        calls[h] =
            (embedding_side){.rank = side->rank,
                             .send = sizes ? side->sizes_sent : side->send[which],
                             .recv = sizes ? side->sizes_got : side->recv[which],
                             .send_counts = sizes ? side->word_counts : side->send_counts[which],
                             .recv_counts = sizes ? side->word_counts : side->recv_counts[which]};
    }
    embedding_exchange exchange = {.kind = LS_ALL_TO_ALL,
                                   .comm = pass->module->comm,
                                   .dtype = which == PAYLOAD_WEIGHTS ? LS_F32 : LS_I64,
                                   .stage = LS_STAGE_INPUT_DIST,
                                   .what = name};
    ls_backend *backend = pass->module->backend;
    return !pending ? ls_embedding__exchange(backend, &exchange, calls, pass->held_count)
                    : ls_embedding__exchange_start(pending, backend, &exchange, calls,
                                                   pass->held_count, scratch);
}

static int exchange_sizes(ls_embedding_pass *pass, embedding_traffic *sides, ls_arena *scratch) {
    return run_exchange(pass, sides, "input_dist sizes", -1, scratch, NULL);
}

// Learns from the received sizes how much comes from whom, and checks that it makes sense.
static int read_sizes(const ls_embedding *module, const embedding_group *group,
                      embedding_traffic *side, embedding_part *part) {
    int words = words_of(group), rank = side->rank;
    int64_t bags = 0;
    for (int from = 0; from < module->size; from++) {
        const int64_t *word = side->sizes_got + (size_t)from * (size_t)words;
        if (word[WORD_CHECK] == STOPPED && word[WORD_IDS] == STOPPED &&
            word[WORD_BATCH] == STOPPED) {
            return LS_FAIL_RANK(LS_ERR_FINDING, from,
                                "input_dist: rank %d stopped because of its input", from);
        }
        int64_t batch = word[WORD_BATCH];
        if ((batch == VARIABLE) != side->variable && word[WORD_CHECK] == check_of(word, words)) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "input_dist: the input of rank %d has %s, that of rank %d %s",
                                side->variable ? rank : from, "a batch size per feature",
                                side->variable ? from : rank, "one batch size");
        }
        batch = batch == VARIABLE ? 0 : batch;
        if (batch < 0 || word[WORD_IDS] < 0 || word[WORD_CHECK] != check_of(word, words) ||
            (group->weighted && word[WORD_WEIGHTS] != word[WORD_IDS]) ||
            __builtin_add_overflow(bags, batch, &bags)) {
            return LS_FAIL_RANK(
                LS_ERR_MISMATCH, rank,
                "input_dist: rank %d sends rank %d sizes that do not match: batch %lld, %lld ids",
                from, rank, (long long)batch, (long long)word[WORD_IDS]);
        }
        if (!side->variable) {
            part->batches[from] = batch;
        }
    }
    return LS_OK;
}

// Three counts of the payloads replace the received sizes, which only the ids still need: among
// thousands of ranks these are most of the memory.
static void make_counts(const ls_embedding *module, const embedding_group *group,
                        embedding_traffic *side) {
    size_t size = (size_t)module->size;
    size_t *receives = (size_t *)side->sizes_got;
    for (size_t from = 0; from < size; from++) {
        receives[from] = (size_t)side->sizes_got[from * (size_t)words_of(group) + WORD_IDS];
    }
    side->sizes_sent = side->sizes_got = NULL;
    side->recv_counts[PAYLOAD_IDS] = side->recv_counts[PAYLOAD_WEIGHTS] = receives;
    side->recv_counts[PAYLOAD_LENGTHS] = receives + size;
    side->send_counts[PAYLOAD_LENGTHS] = receives + 2 * size;
}

// Variable: how many bags each rank has for each block of columns of the others' nodes.
static int exchange_batches(ls_embedding_pass *pass, const embedding_group *group,
                            const embedding_traffic *sides, ls_arena *scratch) {
    const ls_embedding *module = pass->module;
    size_t size = (size_t)module->size;
    embedding_side *calls;
    ARENA_NEW(calls, scratch, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        embedding_part *part = &pass->parts[h][group - module->groups];
        size_t *sends, *receives, total = 0;
        int64_t *sent;
        ARENA_NEW(sends, scratch, size);
        ARENA_NEW(receives, scratch, size);
        ARENA_NEW(sent, scratch, size * (size_t)group->slot_count);
        for (int to = 0; to < module->size; to++) {
            int node = to / group->width, end = group->block_first[node + 1];
            for (int b = group->block_first[node]; b < end; b++) {
                sent[total++] = sides[h].inputs[group->slots[group->blocks[b]].pair].jagged.batch;
            }
            sends[to] = (size_t)(end - group->block_first[node]);
            receives[to] = (size_t)part->kinds;
        }
        calls[h] = (embedding_side){.rank = sides[h].rank,
                                    .send = sent,
                                    .recv = part->batches,
                                    .send_counts = sends,
                                    .recv_counts = receives};
    }
    const embedding_exchange exchange = {.kind = LS_ALL_TO_ALL,
                                         .comm = module->comm,
                                         .dtype = LS_I64,
                                         .stage = LS_STAGE_INPUT_DIST,
                                         .what = "input_dist batches"};
    return ls_embedding__exchange(module->backend, &exchange, calls, pass->held_count);
}

static int check_batches(const ls_embedding *module, const embedding_part *part, int rank) {
    int64_t bags = 0;
    for (int from = 0; from < module->size; from++) {
        for (int kind = 0; kind < part->kinds; kind++) {
            int64_t batch = part->batches[(size_t)from * (size_t)part->kinds + (size_t)kind];
            if (batch < 0 || __builtin_add_overflow(bags, batch, &bags)) {
                return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                    "input_dist: rank %d sends rank %d a batch of %lld bags", from,
                                    rank, (long long)batch);
            }
        }
    }
    return LS_OK;
}

// What arrived. Lengths are control data: every rank goes through them.
static int unpack(embedding_traffic *side, payload what, embedding_pool *scratch) {
    const void *recv = side->recv[what];
    if (what == PAYLOAD_IDS) {
        side->ids = recv;
    } else if (what == PAYLOAD_WEIGHTS) {
        side->weights = recv;
    } else {
        size_t got;
        const void *lengths;
        LS_TRY(ls_embedding__total(&got, side->recv_counts[what], scratch->module->size));
        LS_TRY(ls_embedding__fetch(scratch, &lengths, recv, got, sizeof(int64_t)));
        side->lengths = lengths;
    }
    return LS_OK;
}

// One of the three uneven exchanges.
static int send_payload(ls_embedding_pass *pass, const embedding_group *group,
                        group_arrival *arrival, payload what) {
    static const char *const names[] = {[PAYLOAD_LENGTHS] = "input_dist lengths",
                                        [PAYLOAD_IDS] = "input_dist ids",
                                        [PAYLOAD_WEIGHTS] = "input_dist weights"};
    struct embedding_arrivals *all = pass->arrivals;
    const int64_t g = group - pass->module->groups;
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(ls_embedding__make_room(pass, group, &arrival->sides[h], &pass->parts[h][g], what,
                                       &all->scratch));
    }
    return run_exchange(pass, arrival->sides, names[what], (int)what, all->scratch.arena,
                        all->begins ? &arrival->pending[what] : NULL);
}

static int receive_payload(ls_embedding_pass *pass, group_arrival *arrival, payload what) {
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(unpack(&arrival->sides[h], what, &pass->arrivals->scratch));
    }
    return LS_OK;
}

// ---- The stage ----------------------------------------------------------------------------------

static int start_group(ls_embedding_pass *pass, embedding_group *group) {
    ls_embedding *module = pass->module;
    int64_t g = group - module->groups;
    embedding_pool *sending = &pass->arrivals->sending, *scratch = &pass->arrivals->scratch;
    group_arrival *under_way = &pass->arrivals->groups[g];
    ARENA_NEW(under_way->sides, scratch->arena, pass->held_count);
    embedding_traffic *sides = under_way->sides;
    size_t *word_counts;
    embedding_outgoing out;  // of one rank after the other
    LS_TRY(count_words(&word_counts, module, group, scratch->arena));
    LS_TRY(ls_embedding__outgoing_create(&out, group, scratch->arena));
    for (int h = 0; h < pass->held_count; h++) {
        embedding_part *part = &pass->parts[h][g];
        int rank = ls_world_held(module->world)[h], node = rank / group->width;
        LS_TRY(traffic_create(&sides[h], pass, group, rank, word_counts));
        sides[h].inputs = pass->inputs[h];
        sides[h].variable = part->variable = pass->inputs[h][0].jagged.inverse_indices != NULL;
        sides[h].batch = pass->inputs[h][0].jagged.batch;
        part->kinds = part->variable ? group->block_first[node + 1] - group->block_first[node] : 1;
        LS_TRY(ls_embedding__route_rank(pass, group, h, sending, part, &out));
        for (int what = 0; what < payload_count(group); what++) {
            LS_TRY(ls_embedding__pack(pass, group, &sides[h], &out, (payload)what, sending));
        }
        LS_TRY(fill_sizes(&sides[h], pass, group, &out));
    }
    LS_TRY(exchange_sizes(pass, sides, scratch->arena));
    // Buffers whose memory is reused for results of the received sizes, and to the lengths that
    // come.
    ls_arena_adopt(pass->filled.arena, pass->arrivals->sizes);
    for (int h = 0; h < pass->held_count; h++) {
        embedding_part *part = &pass->parts[h][g];
        ARENA_NEW(part->batches, pass->filled.arena, (size_t)module->size * (size_t)part->kinds);
        LS_TRY(read_sizes(module, group, &sides[h], part));
        make_counts(module, group, &sides[h]);
    }
    if (sides[0].variable) {
        LS_TRY(exchange_batches(pass, group, sides, scratch->arena));
        for (int h = 0; h < pass->held_count; h++) {
            LS_TRY(check_batches(module, &pass->parts[h][g], sides[h].rank));
        }
    }
    for (int what = 0; what < payload_count(group); what++) {
        LS_TRY(send_payload(pass, group, under_way, (payload)what));
    }
    return LS_OK;
}

static int settle_group(ls_embedding_pass *pass, embedding_group *group) {
    int64_t g = group - pass->module->groups;
    group_arrival *under_way = &pass->arrivals->groups[g];
    for (int what = 0; what < payload_count(group); what++) {
        LS_TRY(receive_payload(pass, under_way, (payload)what));
    }
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(ls_embedding__settle_rank(pass, group, &under_way->sides[h], &pass->parts[h][g]));
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
    for (int k = 0; k < slots_of(group, rank); k++) {
        const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
        const ls_jagged *jagged = &pass->inputs[held][slot->pair].jagged;
        size_t count = (size_t)(jagged->offsets[jagged->batch] - jagged->offsets[0]);
        part->bags[k] = jagged->batch;
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

// Informs the other ranks, in the next exchange that they expect, that some of ours cannot
// continue.
static void announce_failure(ls_embedding_pass *pass, const bool *failed, ls_arena *scratch) {
    const ls_embedding *module = pass->module;
    const embedding_group *group = NULL;
    for (int g = 0; g < module->group_count && !group; g++) {
        group = module->groups[g].local ? NULL : &module->groups[g];
    }
    if (!group || pass->held_count == module->size) {
        return;
    }
    embedding_traffic *sides = ls_arena_alloc(scratch, (size_t)pass->held_count, sizeof(*sides));
    size_t *word_counts;
    if (!sides || count_words(&word_counts, module, group, scratch)) {
        return;
    }
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h];
        if (traffic_create(&sides[h], pass, group, rank, word_counts)) {
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

static int start_groups(ls_embedding_pass *pass, const ls_keyed_jagged *const *inputs) {
    ls_embedding *module = pass->module;
    embedding_pool *scratch = &pass->arrivals->scratch;
    module->has_bad_id = false;
    LS_TRY(prepare_inputs(pass, inputs, scratch->arena));
    ARENA_NEW(pass->arrivals->groups, scratch->arena, module->group_count);
    for (int g = 0; g < module->group_count; g++) {
        if (!module->groups[g].local) {
            LS_TRY(start_group(pass, &module->groups[g]));
            continue;
        }
        for (int h = 0; h < pass->held_count; h++) {
            LS_TRY(keep_group(pass, &module->groups[g], h));
        }
    }
    return LS_OK;
}

int ls_embedding__input_dist_start(ls_embedding_pass *pass, const ls_keyed_jagged *const *inputs,
                                   bool begins) {
    ARENA_NEW(pass->arrivals, pass->arena, 1);
    LS_TRY(ls_embedding__pool_create(&pass->arrivals->sending, pass->module));
    LS_TRY(ls_embedding__pool_create(&pass->arrivals->scratch, pass->module));
    pass->arrivals->begins = begins;
    LS_TRY(ls_arena_create(&pass->arrivals->sizes));
    ls_arena_will_be_full(pass->arrivals->sizes);
    ls_arena_will_be_full(pass->arrivals->sending.arena);
    ls_arena_will_be_full(pass->arrivals->scratch.arena);
    return start_groups(pass, inputs);
}

// All that was begun, in its order, so that no memory is used any more.
static int wait_for_all(ls_embedding_pass *pass) {
    int status = LS_OK;
    for (int g = 0; pass->arrivals->groups && g < pass->module->group_count; g++) {
        for (int what = 0; what < PAYLOADS && !status; what++) {
            status = ls_embedding__exchange_wait(&pass->arrivals->groups[g].pending[what],
                                                 pass->module->backend);
        }
    }
    return status;
}

static int emit_groups(const ls_embedding_pass *pass, const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    for (int g = 0; sink && g < module->group_count; g++) {
        const embedding_group *group = &module->groups[g];
        for (int h = 0; h < pass->held_count; h++) {
            int rank = ls_world_held(module->world)[h];
            for (int k = 0; k < slots_of(group, rank); k++) {
                LS_TRY(ls_embedding__part_emit(pass, group, h, k, sink));
            }
        }
    }
    return LS_OK;
}

int ls_embedding__input_dist_wait(ls_embedding_pass *pass, bool settle, const ls_stage_sink *sink) {
    int status = wait_for_all(pass);
    ls_embedding__pool_free(&pass->arrivals->sending);
    for (int g = 0; settle && g < pass->module->group_count && !status; g++) {
        embedding_group *group = &pass->module->groups[g];
        status = group->local ? LS_OK : settle_group(pass, group);
    }
    ls_embedding__pool_free(&pass->arrivals->scratch);
    ls_arena_free(pass->arrivals->sizes);
    pass->arrivals = NULL;
    return status || !settle ? status : emit_groups(pass, sink);
}
