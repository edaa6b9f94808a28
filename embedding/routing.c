// A rank's own input: the id policy, and cutting bags up by the owner of each id. No communication.
#include "embedding/internal.h"

#include <string.h>

// ---- The rank's own input -----------------------------------------------------------------------

static void note_bad_id(ls_embedding *module, int rank, int pair, const ls_jagged *jagged,
                        size_t index) {
    const embedding_table *table = &module->tables[module->pairs[pair].table];
    int64_t sample = 0, at = (int64_t)index + jagged->offsets[0];
    while (jagged->offsets[sample + 1] <= at) {
        sample++;
    }
    module->has_bad_id = true;
    module->bad_id = (ls_bad_id){.table = table->config->name,
                                 .feature = table->config->features[module->pairs[pair].feature],
                                 .rank = rank,
                                 .sample = sample,
                                 .position = at - jagged->offsets[sample],
                                 .id = jagged->ids[index],
                                 .rows = table->config->rows};
}

// The pair's jagged input on this rank, ids copied and put through the policy.
static int prepare_pair(ls_embedding_pass *pass, int rank, int pair, const ls_keyed_jagged *input,
                        embedding_input *out) {
    ls_embedding *module = pass->module;
    const ls_table *table = module->tables[module->pairs[pair].table].config;
    const char *feature = table->features[module->pairs[pair].feature];
    int key;
    int status = ls_keyed_jagged_find(&key, input, feature);
    if (status) {
        return ls_error_wrap("table %s", table->name);
    }
    out->jagged = ls_keyed_jagged_feature(input, key);
    size_t count = (size_t)(out->jagged.offsets[input->batch] - out->jagged.offsets[0]);
    if (table->weighted && !out->jagged.weights && count > 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "table %s is weighted, and the input of rank %d has no weights",
                            table->name, rank);
    }
    int64_t *ids;
    ARENA_NEW(ids, pass->arena, count);
    if (count > 0) {
        memcpy(ids, out->jagged.ids, count * sizeof(*ids));
    }
    size_t bad = 0;
    // A table without rows has no nearest row either.
    ls_id_policy policy = table->rows == 0 ? LS_ID_ERROR : module->id_policy;
    if (ls_kernel_resolve_ids(ids, count, table->rows, policy, &bad)) {
        if (!module->has_bad_id) {
            note_bad_id(module, rank, pair, &out->jagged, bad);
        }
        return LS_FAIL_RANK(
            LS_ERR_FINDING, rank,
            "%s: table %s, feature %s, rank %d, sample %lld, position %lld: id %lld "
            "is not in [0, %lld)",
            "input.id_out_of_range", table->name, feature, rank, (long long)module->bad_id.sample,
            (long long)module->bad_id.position, (long long)module->bad_id.id,
            (long long)table->rows);
    }
    out->jagged.ids = ids;
    return LS_OK;
}

int ls_embedding__prepare_rank(ls_embedding_pass *pass, int held, const ls_keyed_jagged *input) {
    ls_embedding *module = pass->module;
    int rank = ls_world_held(module->world)[held];
    if (!input) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d has no input", rank);
    }
    for (int pair = 0; pair < module->pair_count; pair++) {
        LS_TRY(prepare_pair(pass, rank, pair, input, &pass->inputs[held][pair]));
    }
    return LS_OK;
}

// ---- Routing ------------------------------------------------------------------------------------

static int64_t sum_of(const int64_t *values, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

// The plain way, for plans whose blocks leave gaps or overlap: each block takes what it contains.
static int route_by_scan(const embedding_group *group, int slot, const ls_jagged *jagged,
                         ls_arena *arena, ls_arena *scratch, embedding_part *part,
                         embedding_outgoing *out) {
    const ls_plan_shard *block = &group->slots[slot].block;
    int64_t first = jagged->offsets[0], sent = 0;
    int64_t total = jagged->offsets[jagged->batch] - first;
    ARENA_NEW(out->lengths[slot], scratch, jagged->batch);
    ARENA_NEW(out->ids[slot], scratch, total);
    ARENA_NEW(out->weights[slot], scratch, total);
    int64_t *positions = NULL;
    if (group->pooling == LS_POOL_NONE) {
        ARENA_NEW(positions, arena, total);
        part->positions[slot] = positions;
    }
    for (int64_t bag = 0; bag < jagged->batch; bag++) {
        for (int64_t i = jagged->offsets[bag] - first; i < jagged->offsets[bag + 1] - first; i++) {
            int64_t row = jagged->ids[i] - block->row_offset;
            if (row >= 0 && row < block->rows) {
                out->lengths[slot][bag]++;
                out->ids[slot][sent] = row;
                out->weights[slot][sent] = jagged->weights ? jagged->weights[i] : 0;
                if (positions) {
                    positions[sent] = i;
                }
                sent++;
            }
        }
    }
    part->sent_ids[slot] = sent;
    return LS_OK;
}

static int route_by_bucket(const embedding_group *group, const embedding_route *route,
                           const ls_jagged *jagged, ls_arena *arena, ls_arena *scratch,
                           embedding_part *part, embedding_outgoing *out) {
    int64_t total = jagged->offsets[jagged->batch] - jagged->offsets[0];
    int64_t *lengths, *ids, *positions = NULL;
    float *weights = NULL;
    size_t length_count;
    LS_TRY(ls_embedding__count(&length_count, route->count, jagged->batch, 1));
    ARENA_NEW(lengths, scratch, length_count);
    ARENA_NEW(ids, scratch, total);
    if (group->weighted) {
        ARENA_NEW(weights, scratch, total);
    }
    if (group->pooling == LS_POOL_NONE) {
        ARENA_NEW(positions, arena, total);
    }
    ls_kernel_bucketize(lengths, ids, weights, positions, jagged->ids, jagged->lengths,
                        weights ? jagged->weights : NULL, route->row_starts, (size_t)route->count,
                        (size_t)jagged->batch);
    int64_t at = 0;
    for (int i = 0; i < route->count; i++) {
        int slot = group->route_slots[route->first + i];
        out->lengths[slot] = lengths + (int64_t)i * jagged->batch;
        out->ids[slot] = ids + at;
        out->weights[slot] = weights ? weights + at : NULL;
        if (positions) {
            part->positions[slot] = positions + at;
        }
        part->sent_ids[slot] = sum_of(out->lengths[slot], jagged->batch);
        at += part->sent_ids[slot];
    }
    LS_ASSERT(at == total);
    return LS_OK;
}

int ls_embedding__route_rank(ls_embedding_pass *pass, const embedding_group *group, int held,
                             ls_arena *scratch, embedding_part *part, embedding_outgoing *out) {
    ARENA_NEW(out->lengths, scratch, group->slot_count);
    ARENA_NEW(out->ids, scratch, group->slot_count);
    ARENA_NEW(out->weights, scratch, group->slot_count);
    ARENA_NEW(part->sent_ids, pass->arena, group->slot_count);
    if (group->pooling == LS_POOL_NONE) {
        ARENA_NEW(part->positions, pass->arena, group->slot_count);
    }
    for (int r = 0; r < group->route_count; r++) {
        const embedding_route *route = &group->routes[r];
        const ls_jagged *jagged = &pass->inputs[held][route->pair].jagged;
        if (route->sound) {
            LS_TRY(route_by_bucket(group, route, jagged, pass->arena, scratch, part, out));
            continue;
        }
        for (int i = 0; i < route->count; i++) {
            int slot = group->route_slots[route->first + i];
            LS_TRY(route_by_scan(group, slot, jagged, pass->arena, scratch, part, out));
        }
    }
    return LS_OK;
}
