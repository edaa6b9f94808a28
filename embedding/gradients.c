// Backward, on the owner: what arrived for a shard becomes one gradient for each of its rows.
#include "embedding/backward.h"

static const embedding_part *part_of(const embedding_backward *b, const embedding_shard *shard) {
    return &b->pass->parts[shard->held][shard->group - b->pass->module->groups];
}

static const embedding_table *table_of(const embedding_backward *b, const embedding_shard *shard) {
    return &b->pass->module->tables[shard->table];
}

// Own slot k is the first of its shard, and so stands for it. Of a data parallel table's copies on
// one rank (a broken plan) the first counts.
static bool opens_shard(const ls_embedding *module, const embedding_group *group, int rank, int k) {
    const embedding_slot *slots = &group->slots[group->rank_first[rank]];
    const embedding_pair *pair = &module->pairs[slots[k].pair];
    bool again = group->local && k > 0 && slots[k - 1].pair == slots[k].pair;
    return pair->feature == 0 && !again;
}

int ls_embedding__shards_prepare(embedding_backward *b) {
    ls_embedding_pass *pass = b->pass;
    const ls_embedding *module = pass->module;
    int count = 0;
    ARENA_NEW(pass->touched, pass->arena, pass->held_count);
    ARENA_NEW(pass->touched_count, pass->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h], held = 0;
        for (int g = 0; g < module->group_count; g++) {
            for (int k = 0; k < slots_of(&module->groups[g], rank); k++) {
                held += opens_shard(module, &module->groups[g], rank, k);
            }
        }
        ARENA_NEW(pass->touched[h], pass->arena, held);
        count += held;
    }
    ARENA_NEW(b->shards, b->scratch.arena, count);
    return LS_OK;
}

// ---- Arriving data ------------------------------------------------------------------------------

static int count_arrivals(const embedding_backward *b, embedding_shard *shard) {
    const embedding_part *part = part_of(b, shard);
    ARENA_NEW(shard->row_first, b->scratch.arena, shard->of.slot_count + 1);
    for (int i = 0; i < shard->of.slot_count; i++) {
        size_t rows = shard->group->pooling == LS_POOL_NONE
                          ? shard->of.first[i + 1] - shard->of.first[i]
                          : (size_t)part->bags[shard->of.slots[i]];
        LS_TRY(ls_size_add(&shard->row_first[i + 1], shard->row_first[i], rows));
    }
    return LS_OK;
}

// An array of the shard on the device, of `count` elements.
static int take(embedding_backward *b, embedding_pool *pool, const embedding_shard *shard,
                const char *what, size_t count, size_t bytes, void **out) {
    const embedding_array array = {shard->rank, table_of(b, shard)->first_pair, what, count, bytes};
    return ls_embedding__take(pool, out, &array);
}

// The weights of the ids of all slots, one after another.
static int join_weights(embedding_backward *b, embedding_shard *shard) {
    ls_device *device = b->pass->module->device;
    const embedding_part *part = part_of(b, shard);
    void *scales;
    LS_TRY(
        take(b, &b->scratch, shard, "weights of a shard", shard->of.count, sizeof(float), &scales));
    for (int i = 0; i < shard->of.slot_count; i++) {
        size_t first = shard->of.first[i], count = shard->of.first[i + 1] - first;
        if (count > 0) {
            LS_TRY(device->ops->copy(device, (float *)scales + first,
                                     part->weights[shard->of.slots[i]], count * sizeof(float)));
        }
    }
    shard->scales = scales;
    return LS_OK;
}

// A padding id's row gets no gradient, of sequences too.
int64_t ls_embedding__shard_padding(const embedding_table *table, const ls_plan_shard *block) {
    int64_t row = table->config->padding_id - block->row_offset;
    return table->config->has_padding_id && row >= 0 && row < block->rows ? row : -1;
}

// Pooled: every id has the gradient of its bag.
static int name_bags(embedding_backward *b, embedding_shard *shard) {
    const embedding_part *part = part_of(b, shard);
    size_t total = shard->of.count;
    int64_t *rows;
    const void *uploaded;
    ARENA_NEW(rows, b->scratch.arena, total);
    for (int i = 0; i < shard->of.slot_count; i++) {
        const int64_t *offsets = part->offsets[shard->of.slots[i]];
        for (int64_t bag = 0; bag < part->bags[shard->of.slots[i]]; bag++) {
            for (int64_t id = offsets[bag]; id < offsets[bag + 1]; id++) {
                rows[shard->of.first[i] + (size_t)id] = (int64_t)shard->row_first[i] + bag;
            }
        }
    }
    const embedding_array array = {shard->rank, table_of(b, shard)->first_pair, "bags of ids",
                                   total, sizeof(*rows)};
    LS_TRY(ls_embedding__upload(&b->scratch, &uploaded, &array, rows));
    shard->row_of = uploaded;
    return LS_OK;
}

static int take_arrivals(embedding_backward *b, const embedding_shard *shard, void **out) {
    size_t count;
    LS_TRY(
        ls_size_mul(&count, shard->row_first[shard->of.slot_count], (size_t)shard->block.columns));
    return take(b, &b->scratch, shard, "gradients that arrive", count,
                ls_dtype_bytes(shard->group->dtype), out);
}

int ls_embedding__shards_create(embedding_backward *b, const embedding_group *group, int held) {
    ls_embedding_pass *pass = b->pass;
    const ls_embedding *module = pass->module;
    int rank = ls_world_held(module->world)[held];
    for (int k = 0; k < slots_of(group, rank); k++) {
        if (!opens_shard(module, group, rank, k)) {
            continue;
        }
        const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
        embedding_shard *shard = &b->shards[b->shard_count++];
        *shard = (embedding_shard){.group = group,
                                   .held = held,
                                   .rank = rank,
                                   .table = module->pairs[slot->pair].table,
                                   .shard = slot->shard,
                                   .block = slot->block};
        shard->touched = &pass->touched[held][pass->touched_count[held]++];
        shard->touched->table = shard->table;
        shard->touched->shard = shard->shard;
        LS_TRY(ls_embedding__occurrences(
            &shard->of, pass, held, shard->table, shard->shard,
            ls_embedding__shard_padding(table_of(b, shard), &shard->block), &b->scratch));
        LS_TRY(count_arrivals(b, shard));
        if (group->weighted) {
            LS_TRY(join_weights(b, shard));
        }
        if (group->pooling != LS_POOL_NONE) {
            LS_TRY(name_bags(b, shard));
        }
        shard->stride = shard->block.columns;
        if (group->pooling == LS_POOL_NONE || shard->of.slot_count != 1) {
            LS_TRY(take_arrivals(b, shard, &shard->arrived));
        }
    }
    return LS_OK;
}

static char *arrival_of(const embedding_shard *shard, int i) {
    return (char *)shard->arrived +
           shard->row_first[i] * (size_t)shard->stride * ls_dtype_bytes(shard->group->dtype);
}

// Slot i's gradients are some columns of `from`: read in place if the shard has no other slot.
static int place_arrivals(const embedding_backward *b, embedding_shard *shard, int i,
                          const embedding_columns *from) {
    ls_dtype dtype = shard->group->dtype;
    if (shard->of.slot_count == 1) {
        shard->arrived = (char *)from->data + (size_t)from->column * ls_dtype_bytes(dtype);
        shard->stride = from->stride;
        return LS_OK;
    }
    const embedding_columns to = {arrival_of(shard, i), shard->block.columns, 0};
    return ls_embedding__copy_columns(b->pass->module->device, &to, from, shard->block.columns,
                                      (int64_t)(shard->row_first[i + 1] - shard->row_first[i]),
                                      dtype);
}

int ls_embedding__shard_own_arrivals(embedding_backward *b, const embedding_shard *shard,
                                     void **out) {
    *out = shard->arrived;
    if (shard->stride == shard->block.columns) {
        return LS_OK;
    }
    const embedding_columns from = {shard->arrived, shard->stride, 0};
    LS_TRY(take_arrivals(b, shard, out));
    const embedding_columns to = {*out, shard->block.columns, 0};
    return ls_embedding__copy_columns(b->pass->module->device, &to, &from, shard->block.columns,
                                      (int64_t)shard->row_first[shard->of.slot_count],
                                      shard->group->dtype);
}

// The shards of a group that a rank holds, of all.
#define FOR_SHARDS(b, of_group, of_held, shard)                                                    \
    for (embedding_shard *shard = (b)->shards; shard < (b)->shards + (b)->shard_count; shard++)    \
        if (shard->group == (of_group) && shard->held == (of_held))

int ls_embedding__shards_take_pooled(embedding_backward *b, const embedding_group *group, int held,
                                     void *partial) {
    FOR_SHARDS(b, group, held, shard) {
        for (int i = 0; i < shard->of.slot_count; i++) {
            const embedding_part *part = part_of(b, shard);
            int index = group->rank_first[shard->rank] + shard->of.slots[i];
            const embedding_slot *slot = &group->slots[index];
            if (part->variable) {
                // Its bags are not adjacent there.
                LS_TRY(shard->arrived ? LS_OK : take_arrivals(b, shard, &shard->arrived));
                LS_TRY(ls_embedding__transit_pieces(b->pass, group, part, index, partial,
                                                    arrival_of(shard, i), LS_OP_COUNT, true));
                continue;
            }
            const embedding_columns from = {
                partial, group->node_columns[shard->rank / group->width], slot->node_column};
            LS_TRY(place_arrivals(b, shard, i, &from));
        }
    }
    return LS_OK;
}

int ls_embedding__shards_take_local(embedding_backward *b, const embedding_group *group, int held) {
    FOR_SHARDS(b, group, held, shard) {
        for (int i = 0; i < shard->of.slot_count; i++) {
            const embedding_slot *slot =
                &group->slots[group->rank_first[shard->rank] + shard->of.slots[i]];
            const embedding_columns from = {b->gradients[held][slot->pair],
                                            table_of(b, shard)->config->dim,
                                            slot->block.column_offset};
            LS_TRY(place_arrivals(b, shard, i, &from));
        }
    }
    return LS_OK;
}

int ls_embedding__shards_rows(const embedding_backward *b, const embedding_group *group, int held,
                              ls_arena *arena, bool weights, void ***out) {
    ARENA_NEW(*out, arena, slots_of(group, ls_world_held(b->pass->module->world)[held]));
    FOR_SHARDS(b, group, held, shard) {
        for (int i = 0; i < shard->of.slot_count; i++) {
            (*out)[shard->of.slots[i]] =
                weights ? (char *)shard->weights + shard->of.first[i] * ls_dtype_bytes(group->dtype)
                        : arrival_of(shard, i);
        }
    }
    return LS_OK;
}

int ls_embedding__shards_copy_weights(const embedding_backward *b, const embedding_group *group,
                                      int held, int pair, void *out) {
    ls_device *device = b->pass->module->device;
    size_t bytes = ls_dtype_bytes(group->dtype);
    FOR_SHARDS(b, group, held, shard) {
        for (int i = 0; i < shard->of.slot_count; i++) {
            const embedding_slot *slot =
                &group->slots[group->rank_first[shard->rank] + shard->of.slots[i]];
            size_t count = shard->of.first[i + 1] - shard->of.first[i];
            if (slot->pair == pair && count > 0) {
                LS_TRY(device->ops->copy(device, out,
                                         (char *)shard->weights + shard->of.first[i] * bytes,
                                         count * bytes));
            }
        }
    }
    return LS_OK;
}

int ls_embedding__shards_emit_arrivals(embedding_backward *b, const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    for (int s = 0; s < b->shard_count; s++) {
        embedding_shard *shard = &b->shards[s];
        if (shard->group->local) {
            continue;
        }
        if (ls_embedding__injected(module, LS_FAULT_EARLY_UPDATE, shard->rank)) {
            LS_TRY(ls_embedding__shard_own_arrivals(b, shard, &shard->arrived));
            shard->stride = shard->block.columns;
            LS_TRY(ls_embedding__scale(module, shard->arrived, 0, shard->group->dtype,
                                       (int64_t)shard->row_first[shard->of.slot_count],
                                       shard->block.columns));
        }
        embedding_shard own = *shard;  // received data, side by side
        own.stride = shard->block.columns;
        if (sink) {
            LS_TRY(ls_embedding__shard_own_arrivals(b, shard, &own.arrived));
        }
        for (int i = 0; i < shard->of.slot_count && sink; i++) {
            const embedding_emission emission = {
                .stage = LS_STAGE_OUTPUT_DIST_BACKWARD,
                .field = LS_STAGE_FIELD_VALUES,
                .rank = shard->rank,
                .pair = table_of(b, shard)->first_pair + i,
                .shard = ls_embedding__shard_label(module, shard->table, shard->shard),
                .dtype = shard->group->dtype,
                .shape = LS_SHAPE((int64_t)(shard->row_first[i + 1] - shard->row_first[i]),
                                  shard->block.columns),
                .data = arrival_of(&own, i)};
            LS_TRY(ls_embedding__emit(module, sink, &emission));
        }
    }
    return LS_OK;
}

// ---- One gradient for each row ------------------------------------------------------------------

static int sum_rows(embedding_backward *b, embedding_shard *shard) {
    ls_device *device = b->pass->module->device;
    embedding_occurrences *of = &shard->of;
    size_t columns = (size_t)shard->block.columns, count;
    void *rows, *gradients;
    if (ls_embedding__injected(b->pass->module, LS_FAULT_DUPLICATE_ONCE, shard->rank)) {
        LS_TRY(ls_embedding__count_once(of, &b->scratch));
    }
    embedding_pool *memory = &b->pass->pool;  // input of the update
    LS_TRY(ls_size_mul(&count, of->row_count, columns));
    LS_TRY(take(b, memory, shard, "gradients of rows", count,
                ls_dtype_bytes(ls_embedding__gradient_dtype(table_of(b, shard))), &gradients));
    LS_TRY(take(b, memory, shard, "rows with a gradient", of->row_count, sizeof(int64_t), &rows));
    if (of->row_count > 0) {
        LS_TRY(device->ops->copy(device, rows, of->rows, of->row_count * sizeof(int64_t)));
    }
    shard->touched->count = of->row_count;
    shard->touched->rows = rows;
    shard->touched->gradients = gradients;
    return device->ops->row_gradients(device, gradients, columns,
                                      &(const ls_gradients){shard->arrived, (size_t)shard->stride,
                                                            shard->group->dtype, shard->row_of,
                                                            shard->scales},
                                      of->starts, of->order, of->row_count);
}

// Every row has a gradient now, most of them 0.
static int spread_rows(embedding_backward *b, const embedding_shard *shard) {
    ls_device *device = b->pass->module->device;
    embedding_touched *touched = shard->touched;
    size_t columns = (size_t)shard->block.columns, count;
    size_t bytes = columns * ls_dtype_bytes(ls_embedding__gradient_dtype(table_of(b, shard)));
    void *dense;
    LS_TRY(ls_size_mul(&count, (size_t)shard->block.rows, bytes));
    const embedding_array array = {shard->rank, table_of(b, shard)->first_pair,
                                   "gradients of all rows", count, 1};
    LS_TRY(ls_embedding__take_zeroed(&b->pass->pool, &dense, &array));
    if (touched->count > 0) {
        LS_TRY(device->ops->scatter_rows(device, dense, bytes, touched->gradients, bytes,
                                         touched->rows, touched->count));
    }
    touched->gradients = dense;
    return LS_OK;
}

static int sum_weights(embedding_backward *b, embedding_shard *shard) {
    ls_device *device = b->pass->module->device;
    const embedding_table *table = table_of(b, shard);
    size_t ids = shard->of.count, columns = (size_t)shard->block.columns;
    LS_TRY(take(b, &b->scratch, shard, "gradients of weights", ids,
                ls_dtype_bytes(shard->group->dtype), &shard->weights));
    return device->ops->weight_gradients(
        device, shard->weights, table->shards[shard->shard].data,
        &(const ls_table_shape){table->config->dtype, shard->block.rows, columns},
        &(const ls_gradients){
            .values = shard->arrived, .stride = (size_t)shard->stride, .row_of = shard->row_of},
        shard->of.ids, ls_embedding__shard_padding(table, &shard->block), ids);
}

static int emit_sums(const embedding_backward *b, const embedding_shard *shard,
                     const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    const embedding_touched *touched = shard->touched;
    bool local = shard->group->local;
    int64_t rows = local ? shard->block.rows : (int64_t)touched->count;
    embedding_emission emission = {
        .stage = LS_STAGE_LOOKUP_BACKWARD,
        .field = LS_STAGE_FIELD_ROWS,
        .rank = shard->rank,
        .pair = table_of(b, shard)->first_pair,
        .shard = ls_embedding__shard_label(module, shard->table, shard->shard),
        .dtype = LS_I64,
        .shape = LS_SHAPE(rows),
        .data = touched->rows};
    if (!local) {
        LS_TRY(ls_embedding__emit(module, sink, &emission));
    }
    emission.field = LS_STAGE_FIELD_GRADIENTS;
    emission.dtype = ls_embedding__gradient_dtype(table_of(b, shard));
    emission.shape = LS_SHAPE(rows, shard->block.columns);
    emission.data = touched->gradients;
    emission.reduces = true;
    LS_TRY(ls_embedding__emit(module, sink, &emission));
    emission.field = LS_STAGE_FIELD_WEIGHTS;
    for (int i = 0; i < shard->of.slot_count && shard->weights; i++) {
        emission.pair = table_of(b, shard)->first_pair + i;
        emission.shape = LS_SHAPE((int64_t)(shard->of.first[i + 1] - shard->of.first[i]));
        emission.data =
            (const char *)shard->weights + shard->of.first[i] * ls_dtype_bytes(emission.dtype);
        LS_TRY(ls_embedding__emit(module, sink, &emission));
    }
    return LS_OK;
}

int ls_embedding__shards_sum(embedding_backward *b, const ls_stage_sink *sink) {
    for (int s = 0; s < b->shard_count; s++) {
        embedding_shard *shard = &b->shards[s];
        if (shard->group->pooling == LS_POOL_MAX) {
            LS_TRY(ls_embedding__shard_choose(b, shard));
        }
        LS_TRY(sum_rows(b, shard));
        if (shard->group->local) {
            LS_TRY(spread_rows(b, shard));
        }
        if (shard->group->weighted) {
            LS_TRY(sum_weights(b, shard));
        }
        LS_TRY(emit_sums(b, shard, sink));
        if (!shard->group->local && ls_embedding__every_row(table_of(b, shard))) {
            LS_TRY(spread_rows(b, shard));
            shard->touched->rows = NULL;
            shard->touched->count = (size_t)shard->block.rows;
        }
    }
    return LS_OK;
}
