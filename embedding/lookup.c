// Stage 2, lookup: every shard pools or gathers the ids that reached it. Only sums and maxima: the
// source rank knows a bag's divisor and divides once, after the reduction. Pooled results go side
// by side into the rank's row of partial results, ready to be reduced or sent.
#include "embedding/internal.h"

#include <math.h>

// One shard's work: where its rows of results go, and with which stride.
typedef struct shard_lookup {
    const embedding_group *group;
    const embedding_slot *slot;
    const embedding_table *table;
    embedding_part *part;
    int k;           // own slot
    char *out;       // [rows, columns of the shard]
    int64_t stride;  // elements
    int64_t rows;
    bool blank;  // the rows hold already what an empty bag gives
} shard_lookup;

static size_t element_bytes(const shard_lookup *l) {
    return ls_dtype_bytes(l->group->dtype);
}

// Scratch for the lookup's [rows, columns] of another type than the outputs'.
static int make_scratch(embedding_pool *scratch, const shard_lookup *l, size_t element_bytes,
                        size_t columns, void **out) {
    size_t count;
    LS_TRY(ls_embedding__count(&count, l->rows, (int64_t)columns, 1));
    embedding_array array = {l->slot->block.rank, l->slot->pair, "looked up rows", count,
                             element_bytes};
    return ls_embedding__take(scratch, out, &array);
}

// values [rows, columns], as they were looked up, into the rows of results.
static int put(embedding_pool *scratch, const shard_lookup *l, const void *values) {
    ls_device *device = scratch->device;
    ls_dtype from = ls_embedding__looked_up_dtype(l->table->config);
    size_t columns = (size_t)l->slot->block.columns, count = (size_t)l->rows * columns;
    if (l->stride == l->slot->block.columns) {
        return device->ops->convert(device, l->out, l->group->dtype, values, from, count);
    }
    void *rounded;
    LS_TRY(make_scratch(scratch, l, element_bytes(l), columns, &rounded));
    LS_TRY(device->ops->convert(device, rounded, l->group->dtype, values, from, count));
    size_t bytes = columns * element_bytes(l);
    return device->ops->copy_2d(device, l->out, (size_t)l->stride * element_bytes(l), rounded,
                                bytes, bytes, (size_t)l->rows);
}

// Bags [first, first + bags).
static int pool_bags(ls_device *device, const shard_lookup *l, void *out, size_t stride,
                     size_t first, size_t bags) {
    const ls_table *table = l->table->config;
    const void *rows = l->table->shards[l->slot->shard].data;
    const int64_t *offsets = l->part->bag_offsets[l->k] + first, *ids = l->part->ids[l->k];
    const float *weights = l->part->weights[l->k];
    size_t columns = (size_t)l->slot->block.columns;
    if (first > 0) {
        size_t before = (size_t)(offsets[0] - offsets[-(ptrdiff_t)first]);
        ids += before;
        weights = weights ? weights + before : NULL;
        out = (char *)out + first * stride * ls_dtype_bytes(l->group->dtype);
    }
    if (table->row_format) {
        return device->ops->quantised_lookup(
            device, out, stride, rows, table->row_format, l->slot->block.rows, columns,
            &(const ls_bags){ids, offsets, weights, l->slot->local_padding, l->group->pooling,
                             bags});
    }
    return device->ops->pooled_lookup(
        device, out, stride, rows,
        &(const ls_table_shape){table->dtype, l->slot->block.rows, columns},
        &(const ls_bags){ids, offsets, weights, l->slot->local_padding, l->group->pooling, bags});
}

// A shard of thousands gets nearly nothing but empty bags: these stay as they are, where they may.
static int pool_rows(ls_device *device, const shard_lookup *l, void *out, size_t stride,
                     bool blank) {
    const int64_t *offsets = l->part->offsets[l->k];
    size_t bags = (size_t)l->rows, empty = 0;
    for (size_t bag = 0; bag < bags && blank; bag++) {
        empty += offsets[bag + 1] == offsets[bag] ? 1 : 0;
    }
    if (empty <= bags / 2) {
        return pool_bags(device, l, out, stride, 0, bags);
    }
    for (size_t first = 0, end; first < bags; first = end) {
        bool full = offsets[first + 1] > offsets[first];
        end = first + 1;
        while (end < bags && (offsets[end + 1] > offsets[end]) == full) {
            end++;
        }
        LS_TRY(full ? pool_bags(device, l, out, stride, first, end - first) : LS_OK);
    }
    return LS_OK;
}

static int pool(embedding_pool *scratch, const shard_lookup *l) {
    if (l->rows == 0) {
        return LS_OK;
    }
    ls_device *device = scratch->device;
    const int64_t *ids = l->part->ids[l->k], *offsets = l->part->bag_offsets[l->k];
    size_t columns = (size_t)l->slot->block.columns, bags = (size_t)l->rows;
    ls_dtype dtype = ls_embedding__looked_up_dtype(l->table->config);
    if (dtype == l->group->dtype) {
        LS_TRY(pool_rows(device, l, l->out, (size_t)l->stride, l->blank));
    } else {
        void *values;
        LS_TRY(make_scratch(scratch, l, ls_dtype_bytes(dtype), columns, &values));
        LS_TRY(pool_rows(device, l, values, columns, false));
        LS_TRY(put(scratch, l, values));
    }
    if (l->group->pooling != LS_POOL_MAX || l->group->width == 1) {
        return LS_OK;
    }
    // -infinity where a bag has no id that counts: a maximum over several shards passes it by.
    return device->ops->fill_empty_bags(
        device, l->out, (size_t)l->stride, l->group->dtype, -(double)INFINITY, columns,
        &(const ls_bags){
            .ids = ids, .offsets = offsets, .padding_id = l->slot->local_padding, .count = bags});
}

// Sequence: a row for each id.
static int gather(embedding_pool *scratch, const shard_lookup *l) {
    ls_device *device = scratch->device;
    const ls_table *table = l->table->config;
    ls_dtype dtype = ls_embedding__looked_up_dtype(table);
    size_t count, row_bytes, columns = (size_t)l->slot->block.columns;
    LS_TRY(ls_embedding__shard_room(&count, &row_bytes, table, 1, l->slot->block.columns));
    row_bytes *= count;
    const void *rows = l->table->shards[l->slot->shard].data;
    void *gathered = l->out, *values;
    bool as_they_are = !table->row_format && dtype == l->group->dtype;
    if (!as_they_are) {
        LS_TRY(make_scratch(scratch, l, 1, row_bytes, &gathered));
    }
    LS_TRY(device->ops->gather_rows(device, gathered, rows, row_bytes, l->slot->block.rows,
                                    l->part->ids[l->k], (size_t)l->rows));
    if (as_they_are) {
        return LS_OK;
    }
    values = gathered;
    if (table->row_format) {
        LS_TRY(make_scratch(scratch, l, ls_dtype_bytes(dtype), columns, &values));
        LS_TRY(device->ops->dequantise_rows(device, values, gathered, table->row_format,
                                            (size_t)l->rows, columns));
    }
    return put(scratch, l, values);
}

static int count_partial(size_t *out, const ls_embedding *module, const embedding_group *group,
                         int rank, const embedding_part *part) {
    if (part->variable) {
        *out = part->starts[(size_t)module->size * (size_t)part->kinds];
        return LS_OK;
    }
    int64_t bags = 0;
    for (int from = 0; from < module->size; from++) {
        bags += part->batches[from];
    }
    return ls_embedding__count(out, bags, group->node_columns[rank / group->width], 1);
}

// The rank's row of partial results, [bags, columns of its node]. If ranks reduce, columns without
// a shard hold the operation's neutral element. On the host it is zeroed before, which costs
// nothing where it is not written.
static int make_partial(ls_embedding_pass *pass, const embedding_group *group, int rank,
                        embedding_part *part, const ls_stage_sink *sink) {
    size_t count;
    LS_TRY(count_partial(&count, pass->module, group, rank, part));
    int64_t own = 0;
    for (int i = group->rank_first[rank]; i < group->rank_first[rank + 1]; i++) {
        own += group->slots[i].first_in_rank ? group->slots[i].block.columns : 0;
    }
    embedding_array array = {rank, -1, "pooled partial results", count,
                             ls_dtype_bytes(group->dtype)};
    bool blank = pass->module->device->ops->is_host;
    bool whole = own == group->node_columns[rank / group->width];
    bool is_output = whole && slots_of(group, rank) == 1 && !part->variable;
    // A fault may flip a bit of the data that a rank with its own calls sends.
    if (blank && is_output && ls_embedding__exchange_shares(pass->module->backend)) {
        LS_TRY(ls_embedding__take_room(&pass->pool, &part->partial, &part->in_room, &array, sink));
    } else {
        LS_TRY((blank || !whole ? ls_embedding__take_zeroed
                                : ls_embedding__take)(&pass->pool, &part->partial, &array));
    }
    if (group->pooling == LS_POOL_MAX && group->width > 1 && count > 0) {
        double neutral;
        ls_element_from_f64(&neutral, group->dtype, -(double)INFINITY);
        ls_device *device = pass->module->device;
        return device->ops->fill(device, part->partial, group->dtype, &neutral, count);
    }
    return LS_OK;
}

// A dense array for one shard's results.
static int make_dense(embedding_pool *memory, shard_lookup *l) {
    size_t count;
    void *taken;
    LS_TRY(ls_embedding__count(&count, l->rows, l->slot->block.columns, 1));
    embedding_array array = {l->slot->block.rank, l->slot->pair, "looked up values", count,
                             element_bytes(l)};
    LS_TRY(ls_embedding__take(memory, &taken, &array));
    l->out = taken;
    l->stride = l->slot->block.columns;
    return LS_OK;
}

// Pools into the partial results; a further row block of the same columns is added. *dense, if
// requested, receives the shard's own results side by side.
static int pool_partial(shard_lookup *l, int64_t stride, embedding_pool *scratch, bool wants_dense,
                        const void **dense) {
    ls_device *device = scratch->device;
    size_t bytes = element_bytes(l), row_bytes = (size_t)l->slot->block.columns * bytes;
    char *partial = (char *)l->part->partial + (size_t)l->slot->node_column * bytes;
    if (l->slot->first_in_rank) {
        l->out = partial;
        l->stride = stride;
        l->blank = device->ops->is_host;
        LS_TRY(pool(scratch, l));
        l->blank = false;
        if (wants_dense && l->rows > 0 && stride != l->slot->block.columns) {
            LS_TRY(make_dense(scratch, l));
            LS_TRY(device->ops->copy_2d(device, l->out, row_bytes, partial, (size_t)stride * bytes,
                                        row_bytes, (size_t)l->rows));
        }
    } else {
        LS_TRY(make_dense(scratch, l));
        LS_TRY(pool(scratch, l));
        for (int64_t row = 0; row < l->rows; row++) {
            LS_TRY(device->ops->accumulate(device, partial + (size_t)(row * stride) * bytes,
                                           l->out + (size_t)row * row_bytes, l->group->dtype,
                                           l->group->pooling == LS_POOL_MAX ? LS_MAX : LS_SUM,
                                           (size_t)l->slot->block.columns));
        }
    }
    *dense = l->out;
    return LS_OK;
}

// The same for a batch with a size for each feature, whose columns are not adjacent.
static int pool_pieces(ls_embedding_pass *pass, shard_lookup *l, embedding_pool *scratch,
                       const void **dense) {
    const embedding_group *group = l->group;
    ls_op op = group->pooling == LS_POOL_MAX ? LS_MAX : LS_SUM;
    if (l->slot->first_in_rank) {
        op = LS_OP_COUNT;
    }
    LS_TRY(make_dense(scratch, l));
    LS_TRY(pool(scratch, l));
    *dense = l->out;
    return ls_embedding__transit_pieces(pass, group, l->part, (int)(l->slot - group->slots),
                                        l->part->partial, l->out, op, false);
}

static int lookup_slot(ls_embedding_pass *pass, const embedding_group *group, int held, int k,
                       embedding_pool *scratch, const ls_stage_sink *sink) {
    ls_embedding *module = pass->module;
    embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held], index = group->rank_first[rank] + k;
    const embedding_slot *slot = &group->slots[index];
    bool sequence = group->pooling == LS_POOL_NONE;
    shard_lookup l = {.group = group,
                      .slot = slot,
                      .table = &module->tables[module->pairs[slot->pair].table],
                      .part = part,
                      .k = k,
                      .rows = sequence ? part->offsets[k][part->bags[k]] : part->bags[k]};
    LS_ASSERT(l.table->held[slot->shard]);
    const void *values;
    if (sequence || group->local) {
        LS_TRY(make_dense(&pass->pool, &l));
        values = part->values[k] = l.out;
        if (!sequence) {
            LS_TRY(pool(scratch, &l));
        } else if (l.rows > 0) {
            LS_TRY(gather(scratch, &l));
        }
    } else if (part->variable) {
        LS_TRY(pool_pieces(pass, &l, scratch, &values));
    } else {
        LS_TRY(pool_partial(&l, group->node_columns[rank / group->width], scratch, sink != NULL,
                            &values));
    }
    embedding_emission emission = {
        .stage = LS_STAGE_LOOKUP,
        .field = LS_STAGE_FIELD_VALUES,
        .rank = rank,
        .pair = slot->pair,
        .shard = ls_embedding__shard_label(module, module->pairs[slot->pair].table, slot->shard),
        .dtype = group->dtype,
        .shape = LS_SHAPE(l.rows, slot->block.columns),
        .data = values,
        .in_room = part->in_room,
        .reduces = group->pooling == LS_POOL_SUM};
    return ls_embedding__emit(module, sink, &emission);
}

static int lookup_rank(ls_embedding_pass *pass, const embedding_group *group, int held,
                       const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    int rank = ls_world_held(module->world)[held];
    if (group->pooling != LS_POOL_NONE && !group->local) {
        LS_TRY(make_partial(pass, group, rank, &pass->parts[held][group - module->groups], sink));
    }
    int status = LS_OK;
    for (int k = 0; k < slots_of(group, rank) && !status; k++) {
        embedding_pool scratch;
        LS_TRY(ls_embedding__pool_create(&scratch, module));
        status = lookup_slot(pass, group, held, k, &scratch, sink);
        ls_embedding__pool_free(&scratch);
    }
    return status;
}

int ls_embedding__lookup(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_TRY(ls_embedding__renormalise(pass));
    for (int g = 0; g < pass->module->group_count; g++) {
        for (int h = 0; h < pass->held_count; h++) {
            LS_TRY(lookup_rank(pass, &pass->module->groups[g], h, sink));
        }
    }
    return LS_OK;
}
