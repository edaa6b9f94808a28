// A rank's own input: the id policy, and cutting bags up by the owner of each id. No communication.
#include "embedding/internal.h"

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
                                 .is_bag = jagged->inverse_indices != NULL,
                                 .position = at - jagged->offsets[sample],
                                 .id = jagged->ids[index],
                                 .rows = table->config->rows};
}

// The parts of the input that the kernels read: ids (there already), lengths, offsets and weights.
static int upload_bags(ls_embedding_pass *pass, int rank, int pair, size_t count,
                       const int64_t *ids, embedding_input *out) {
    const ls_jagged *from = &out->jagged;
    size_t batch = (size_t)from->batch;
    const void *lengths, *offsets, *weights = NULL;
    embedding_array array = {rank, pair, "lengths", batch, sizeof(int64_t)};
    LS_TRY(ls_embedding__upload(&pass->pool, &lengths, &array, from->lengths));
    array = (embedding_array){rank, pair, "offsets", batch + 1, sizeof(int64_t)};
    LS_TRY(ls_embedding__upload(&pass->pool, &offsets, &array, from->offsets));
    if (from->weights) {
        array = (embedding_array){rank, pair, "weights", count, sizeof(float)};
        LS_TRY(ls_embedding__upload(&pass->pool, &weights, &array, from->weights));
    }
    LS_TRY(ls_embedding__samples_prepare(pass, rank, pair, out));
    out->bags = (ls_jagged){.batch = from->batch,
                            .lengths = lengths,
                            .offsets = offsets,
                            .ids = ids,
                            .weights = weights};
    return LS_OK;
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
    size_t count = (size_t)(out->jagged.offsets[out->jagged.batch] - out->jagged.offsets[0]);
    if (table->weighted && !out->jagged.weights && count > 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "table %s is weighted, and the input of rank %d has no weights",
                            table->name, rank);
    }
    void *ids;
    embedding_array array = {rank, pair, "ids", count, sizeof(int64_t)};
    LS_TRY(ls_embedding__take(&pass->pool, &ids, &array));
    LS_TRY(module->device->ops->copy_in(module->device, ids, out->jagged.ids,
                                        count * sizeof(int64_t)));
    size_t bad = 0;
    int resolved = module->device->ops->resolve_ids(module->device, ids, count, table->rows,
                                                    module->id_policy, &bad);
    if (resolved != LS_OK && resolved != LS_ERR_INVALID) {
        return resolved;  // the device failed, not the data
    }
    if (resolved) {
        if (!module->has_bad_id) {
            note_bad_id(module, rank, pair, &out->jagged, bad);
        }
        return LS_FAIL_RANK(LS_ERR_FINDING, rank,
                            "%s: table %s, feature %s, rank %d, %s %lld, position %lld: id %lld "
                            "is not in [0, %lld)",
                            "input.id_out_of_range", table->name, feature, rank,
                            module->bad_id.is_bag ? "bag" : "sample",
                            (long long)module->bad_id.sample, (long long)module->bad_id.position,
                            (long long)module->bad_id.id, (long long)table->rows);
    }
    const void *host_ids;
    LS_TRY(ls_embedding__fetch(&pass->pool, &host_ids, ids, count, sizeof(int64_t)));
    out->jagged.ids = host_ids;
    return upload_bags(pass, rank, pair, count, ids, out);
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

// One rank's input of one pair, on its way into a group's slots.
typedef struct source {
    ls_embedding_pass *pass;
    const embedding_group *group;
    const embedding_input *input;
    int rank, pair;
    embedding_pool *scratch;
    embedding_part *part;
    embedding_outgoing *out;
} source;

// Where ids stood in their source, as what comes back for each of them must know: rows of
// sequences, gradients of weights.
static bool keeps_positions(const embedding_group *group) {
    return group->pooling == LS_POOL_NONE || group->weighted;
}

static int64_t sum_of(const int64_t *values, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

// The plain way, for plans whose blocks leave gaps or overlap: each block takes what it contains.
// On the host, whatever the device: the results go there after.
typedef struct scanned {
    int64_t *lengths, *ids, *positions;
    float *weights;
    int64_t sent;
} scanned;

static int scan(scanned *out, const ls_plan_shard *block, const ls_jagged *jagged,
                ls_arena *arena) {
    int64_t first = jagged->offsets[0], total = jagged->offsets[jagged->batch] - first;
    ARENA_NEW(out->lengths, arena, jagged->batch);
    ARENA_NEW(out->ids, arena, total);
    ARENA_NEW(out->weights, arena, total);
    ARENA_NEW(out->positions, arena, total);
    out->sent = 0;
    for (int64_t bag = 0; bag < jagged->batch; bag++) {
        for (int64_t i = jagged->offsets[bag] - first; i < jagged->offsets[bag + 1] - first; i++) {
            int64_t row = jagged->ids[i] - block->row_offset;
            if (row >= 0 && row < block->rows) {
                out->lengths[bag]++;
                out->ids[out->sent] = row;
                out->weights[out->sent] = jagged->weights ? jagged->weights[i] : 0;
                out->positions[out->sent++] = i;
            }
        }
    }
    return LS_OK;
}

static int route_by_scan(const source *from, int slot) {
    const embedding_group *group = from->group;
    const ls_jagged *jagged = &from->input->jagged;
    embedding_pool *pool = from->scratch;
    scanned found = {0};
    LS_TRY(scan(&found, &group->slots[slot].block, jagged, from->pass->arena));
    const void *lengths, *ids, *weights, *positions;
    size_t sent = (size_t)found.sent;
    embedding_array array = {from->rank, from->pair, "lengths to send", (size_t)jagged->batch,
                             sizeof(int64_t)};
    LS_TRY(ls_embedding__upload(pool, &lengths, &array, found.lengths));
    array = (embedding_array){from->rank, from->pair, "ids to send", sent, sizeof(int64_t)};
    LS_TRY(ls_embedding__upload(pool, &ids, &array, found.ids));
    LS_TRY(ls_embedding__upload(&from->pass->pool, &positions, &array, found.positions));
    array = (embedding_array){from->rank, from->pair, "weights to send", sent, sizeof(float)};
    LS_TRY(ls_embedding__upload(pool, &weights, &array, found.weights));
    from->out->lengths[slot] = lengths;
    from->out->ids[slot] = ids;
    if (group->weighted) {
        from->out->weights[slot] = weights;
    }
    if (keeps_positions(group)) {
        from->part->positions[slot] = positions;
    }
    from->out->sent_ids[slot] = found.sent;
    return LS_OK;
}

// The result of bucketize for one column block (device), for all its row blocks.
typedef struct buckets {
    void *lengths, *ids, *weights, *positions;
} buckets;

static int take_buckets(buckets *out, const source *from, size_t length_count, size_t total) {
    embedding_array array = {from->rank, from->pair, "lengths to send", length_count,
                             sizeof(int64_t)};
    *out = (buckets){0};
    LS_TRY(ls_embedding__take(from->scratch, &out->lengths, &array));
    array = (embedding_array){from->rank, from->pair, "ids to send", total, sizeof(int64_t)};
    LS_TRY(ls_embedding__take(from->scratch, &out->ids, &array));
    if (keeps_positions(from->group)) {
        array.what = "positions";
        LS_TRY(ls_embedding__take(&from->pass->pool, &out->positions, &array));
    }
    if (from->group->weighted) {
        array = (embedding_array){from->rank, from->pair, "weights to send", total, sizeof(float)};
        LS_TRY(ls_embedding__take(from->scratch, &out->weights, &array));
    }
    return LS_OK;
}

static int route_by_bucket(const source *from, const embedding_route *route) {
    const ls_jagged *jagged = &from->input->jagged, *bags = &from->input->bags;
    int64_t total = jagged->offsets[jagged->batch] - jagged->offsets[0];
    ls_device *device = from->pass->module->device;
    size_t length_count;
    buckets to;
    LS_TRY(ls_embedding__count(&length_count, route->count, jagged->batch, 1));
    LS_TRY(take_buckets(&to, from, length_count, (size_t)total));
    // An input without ids may come without weights.
    float *weights = bags->weights ? to.weights : NULL;
    LS_TRY(device->ops->bucketize(device,
                                  &(const ls_buckets){to.lengths, to.ids, weights, to.positions},
                                  bags->ids, bags->lengths, weights ? bags->weights : NULL,
                                  route->row_starts, (size_t)route->count, (size_t)jagged->batch));
    const void *fetched;
    LS_TRY(ls_embedding__fetch(from->scratch, &fetched, to.lengths, length_count, sizeof(int64_t)));
    const int64_t *lengths = fetched;
    int64_t at = 0;
    for (int i = 0; i < route->count; i++) {
        int slot = from->group->route_slots[route->first + i];
        int64_t first = (int64_t)i * jagged->batch;
        from->out->lengths[slot] = (const int64_t *)to.lengths + first;
        from->out->ids[slot] = (const int64_t *)to.ids + at;
        if (to.weights) {
            from->out->weights[slot] = (const float *)to.weights + at;
        }
        if (to.positions) {
            from->part->positions[slot] = (const int64_t *)to.positions + at;
        }
        from->out->sent_ids[slot] = sum_of(lengths + first, jagged->batch);
        at += from->out->sent_ids[slot];
    }
    LS_ASSERT(at == total);
    return LS_OK;
}

int ls_embedding__outgoing_create(embedding_outgoing *out, const embedding_group *group,
                                  ls_arena *arena) {
    *out = (embedding_outgoing){0};
    ARENA_NEW(out->sent_ids, arena, group->slot_count);
    ARENA_NEW(out->lengths, arena, group->slot_count);
    ARENA_NEW(out->ids, arena, group->slot_count);
    if (group->weighted) {
        ARENA_NEW(out->weights, arena, group->slot_count);
    }
    return LS_OK;
}

int ls_embedding__route_rank(ls_embedding_pass *pass, const embedding_group *group, int held,
                             embedding_pool *scratch, embedding_part *part,
                             embedding_outgoing *out) {
    if (keeps_positions(group)) {
        ARENA_NEW(part->positions, pass->arena, group->slot_count);
    }
    for (int r = 0; r < group->route_count; r++) {
        const embedding_route *route = &group->routes[r];
        const source from = {.pass = pass,
                             .group = group,
                             .input = &pass->inputs[held][route->pair],
                             .rank = ls_world_held(pass->module->world)[held],
                             .pair = route->pair,
                             .scratch = scratch,
                             .part = part,
                             .out = out};
        if (route->sound) {
            LS_TRY(route_by_bucket(&from, route));
            continue;
        }
        for (int i = 0; i < route->count; i++) {
            LS_TRY(route_by_scan(&from, group->route_slots[route->first + i]));
        }
    }
    if (keeps_positions(group)) {
        size_t bytes = (size_t)group->slot_count * sizeof *out->sent_ids;
        part->sent_ids = ls_arena_copy(pass->filled.arena, out->sent_ids, bytes);
        return part->sent_ids ? LS_OK : ls_error_last()->code;
    }
    return LS_OK;
}
