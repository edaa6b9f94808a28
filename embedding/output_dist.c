// Stage 3, output_dist. Pooled: partial results, whose rows stand by source rank, are reduced over
// the node (reduce_scatter), sent to their source ranks (all_to_all), put together by
// columns, and finished there: mean divides, empty bags of max become 0. Sequence: rows travel back
// the way their ids came, to the place where each id stood.
#include "embedding/internal.h"

// One held rank's buffers on the way.
typedef struct transit {
    int rank, node, place;  // rank = node * width + place
    int64_t *batches;       // [world size], borrowed
    // On the device:
    void *partial;   // [bags, columns of the node]
    void *reduced;   // [batches of the sources with equal place, by node][columns of the node]
    void *received;  // per node: [own batch, columns of that node]
    size_t *send_counts, *recv_counts;
} transit;

static int take(embedding_pool *memory, void **out, int rank, const char *what, size_t count,
                ls_dtype dtype) {
    const embedding_array array = {rank, -1, what, count, ls_dtype_bytes(dtype)};
    return ls_embedding__take(memory, out, &array);
}

// ---- Pooled -------------------------------------------------------------------------------------

static int copy_columns(ls_device *device, void *out, int64_t out_stride, int64_t out_column,
                        const void *in, int64_t in_stride, int64_t in_column, int64_t columns,
                        int64_t rows, ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    if (rows == 0 || columns == 0) {
        return LS_OK;
    }
    return device->ops->copy_2d(device, (char *)out + (size_t)out_column * bytes,
                                (size_t)out_stride * bytes,
                                (const char *)in + (size_t)in_column * bytes,
                                (size_t)in_stride * bytes, (size_t)columns * bytes, (size_t)rows);
}

// Over each node: the sum (or maximum) of its ranks' partial results, each rank getting the rows of
// the source ranks with its own place.
static int reduce(ls_embedding_pass *pass, const embedding_group *group, transit *ways,
                  embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    int nodes = module->size / group->width;
    embedding_side *sides;
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    for (int node = 0; node < nodes; node++) {
        int side_count = 0;
        for (int h = 0; h < pass->held_count; h++) {
            transit *way = &ways[h];
            if (way->node != node) {
                continue;
            }
            size_t *counts;
            ARENA_NEW(counts, scratch->arena, group->width);
            for (int from = 0; from < module->size; from++) {
                size_t count;
                LS_TRY(
                    ls_embedding__count(&count, way->batches[from], group->node_columns[node], 1));
                LS_TRY(
                    ls_size_add(&counts[from % group->width], counts[from % group->width], count));
            }
            LS_TRY(take(scratch, &way->reduced, way->rank, "reduced results", counts[way->place],
                        group->dtype));
            sides[side_count++] = (embedding_side){.rank = way->rank,
                                                   .send = way->partial,
                                                   .recv = way->reduced,
                                                   .send_counts = counts};
        }
        embedding_exchange exchange = {.kind = LS_REDUCE_SCATTER,
                                       .comm = group->reduce[node],
                                       .dtype = group->dtype,
                                       .op = group->pooling == LS_POOL_MAX ? LS_MAX : LS_SUM,
                                       .what = "output_dist reduce"};
        LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, side_count));
    }
    return LS_OK;
}

// Among the ranks with equal place: each gets the rows of its own samples from every node.
static int exchange_pooled(ls_embedding_pass *pass, const embedding_group *group, transit *ways,
                           embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    int nodes = module->size / group->width;
    embedding_side *sides;
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    for (int place = 0; place < group->width; place++) {
        int side_count = 0;
        for (int h = 0; h < pass->held_count; h++) {
            transit *way = &ways[h];
            if (way->place != place) {
                continue;
            }
            size_t total = 0;
            ARENA_NEW(way->send_counts, scratch->arena, nodes);
            ARENA_NEW(way->recv_counts, scratch->arena, nodes);
            for (int node = 0; node < nodes; node++) {
                int64_t to_batch = way->batches[node * group->width + place];
                LS_TRY(ls_embedding__count(&way->send_counts[node], to_batch,
                                           group->node_columns[way->node], 1));
                LS_TRY(ls_embedding__count(&way->recv_counts[node], way->batches[way->rank],
                                           group->node_columns[node], 1));
                LS_TRY(ls_size_add(&total, total, way->recv_counts[node]));
            }
            LS_TRY(take(scratch, &way->received, way->rank, "results that come back", total,
                        group->dtype));
            sides[side_count++] = (embedding_side){.rank = way->rank,
                                                   .send = way->reduced,
                                                   .recv = way->received,
                                                   .send_counts = way->send_counts,
                                                   .recv_counts = way->recv_counts};
        }
        embedding_exchange exchange = {.kind = LS_ALL_TO_ALL,
                                       .comm = group->exchange[place],
                                       .dtype = group->dtype,
                                       .what = "output_dist outputs"};
        LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, side_count));
    }
    return LS_OK;
}

// Cuts what came from the nodes into the outputs of the pairs.
static int put_together(ls_embedding_pass *pass, const embedding_group *group, int held,
                        const transit *way) {
    const ls_embedding *module = pass->module;
    size_t bytes = ls_dtype_bytes(group->dtype);
    int64_t batch = way->batches[way->rank];
    size_t start = 0;  // of the node's block, in elements
    for (int node = 0; node < module->size / group->width; node++) {
        int end = group->rank_first[(node + 1) * group->width];
        for (int i = group->rank_first[node * group->width]; i < end; i++) {
            const embedding_slot *slot = &group->slots[i];
            if (slot->first_in_node) {
                int64_t dim = module->tables[module->pairs[slot->pair].table].config->dim;
                LS_TRY(copy_columns(module->device, pass->inputs[held][slot->pair].output, dim,
                                    slot->block.column_offset,
                                    (char *)way->received + start * bytes,
                                    group->node_columns[node], slot->node_column,
                                    slot->block.columns, batch, group->dtype));
            }
        }
        start += (size_t)batch * (size_t)group->node_columns[node];
    }
    return LS_OK;
}

static int dist_pooled(ls_embedding_pass *pass, const embedding_group *group,
                       embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    transit *ways;
    ARENA_NEW(ways, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h];
        embedding_part *part = &pass->parts[h][group - module->groups];
        ways[h] = (transit){.rank = rank,
                            .node = rank / group->width,
                            .place = rank % group->width,
                            .batches = part->batches,
                            .partial = part->partial,
                            .reduced = part->partial};
    }
    if (group->width > 1) {
        LS_TRY(reduce(pass, group, ways, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        ways[h].received = ways[h].reduced;
    }
    if (group->exchange) {
        LS_TRY(exchange_pooled(pass, group, ways, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(put_together(pass, group, h, &ways[h]));
    }
    return LS_OK;
}

// ---- Finishing on the source rank ---------------------------------------------------------------

// Sharding types whose means TorchRec divides on the source rank, after its reduce_scatter.
static bool by_rows(const embedding_group *group) {
    return group->sharding == LS_ROW_WISE || group->sharding == LS_TABLE_ROW_WISE;
}

static int divide(ls_device *device, const ls_table *table, const embedding_group *group,
                  embedding_input *pair, bool by_weights, double added) {
    const ls_jagged *bags = &pair->bags;
    size_t dim = (size_t)table->dim;
    return device->ops->divide_bags(device, pair->output, dim, group->dtype, dim, bags->ids,
                                    bags->offsets,
                                    by_weights && table->weighted ? bags->weights : NULL, added,
                                    ls_embedding__padding(table), (size_t)bags->batch);
}

static int divide_mean(const ls_embedding *module, const ls_table *table,
                       const embedding_group *group, embedding_input *pair) {
    if (group->sharding == LS_GRID && module->quirks.grid_mean_not_divided) {
        return LS_OK;
    }
    bool as_torchrec = table->mean_divisor == LS_MEAN_TORCHREC && by_rows(group);
    return divide(module->device, table, group, pair,
                  table->mean_divisor == LS_MEAN_WEIGHTS || as_torchrec,
                  as_torchrec ? LS_TORCHREC_MEAN_EPSILON : 0);
}

static bool has_mean_by_rows(const ls_embedding *module) {
    bool found = false;
    for (int t = 0; t < module->table_count; t++) {
        found = found || (module->tables[t].config->pooling == LS_POOL_MEAN &&
                          by_rows(&module->groups[module->tables[t].group]));
    }
    return found;
}

// The quirk row_wise_mean_divides_others.
static int divide_once_more(const ls_embedding *module, const ls_table *table,
                            const embedding_group *group, embedding_input *pair) {
    ls_device *device = module->device;
    if (!module->quirks.row_wise_mean_divides_others || !has_mean_by_rows(module)) {
        return LS_OK;
    }
    if (!by_rows(group)) {
        return divide(device, table, group, pair, true, LS_TORCHREC_MEAN_EPSILON);
    }
    if (table->pooling == LS_POOL_MEAN) {
        return LS_OK;
    }
    size_t count;
    double factor;
    LS_TRY(ls_embedding__count(&count, pair->bags.batch, table->dim, 1));
    ls_element_from_f64(&factor, group->dtype, 1 / (1 + LS_TORCHREC_MEAN_EPSILON));
    return device->ops->scale(device, pair->output, pair->output, &factor, group->dtype, count);
}

// What is left to do to one pair. A bag without an id that counts gives 0: sums have it, and of max
// the shards may have said -infinity.
static int finish(const ls_embedding *module, const ls_table *table, const embedding_group *group,
                  embedding_input *pair) {
    ls_device *device = module->device;
    if (table->pooling == LS_POOL_NONE || pair->bags.batch == 0) {
        return LS_OK;
    }
    if (table->pooling == LS_POOL_MAX) {
        size_t dim = (size_t)table->dim;
        return device->ops->fill_empty_bags(device, pair->output, dim, group->dtype, 0, dim,
                                            pair->bags.ids, pair->bags.offsets,
                                            ls_embedding__padding(table), (size_t)pair->bags.batch);
    }
    if (table->pooling == LS_POOL_MEAN) {
        LS_TRY(divide_mean(module, table, group, pair));
    }
    return divide_once_more(module, table, group, pair);
}

// ---- Sequence -----------------------------------------------------------------------------------

// Elements that owner `owner` returns to the source whose sent_ids are given.
static int returned_elements(size_t *out, const embedding_group *group, int owner,
                             const int64_t *sent_ids) {
    *out = 0;
    for (int slot = group->rank_first[owner]; slot < group->rank_first[owner + 1]; slot++) {
        size_t count;
        LS_TRY(ls_embedding__count(&count, sent_ids[slot], group->slots[slot].block.columns, 1));
        LS_TRY(ls_size_add(out, *out, count));
    }
    return LS_OK;
}

// Packs what the rank's slots gathered by source rank, and counts both directions.
static int pack_sequence(const ls_embedding *module, const embedding_group *group,
                         const embedding_part *part, embedding_pool *scratch, transit *out) {
    ls_device *device = module->device;
    size_t bytes = ls_dtype_bytes(group->dtype), sent = 0, got = 0, at = 0;
    int first = group->rank_first[out->rank], own = group->rank_first[out->rank + 1] - first;
    ARENA_NEW(out->send_counts, scratch->arena, module->size);
    ARENA_NEW(out->recv_counts, scratch->arena, module->size);
    for (int rank = 0; rank < module->size; rank++) {
        for (int k = 0; k < own; k++) {
            size_t count;
            LS_TRY(ls_embedding__count(&count, part->slot_ids[k][rank],
                                       group->slots[first + k].block.columns, 1));
            LS_TRY(ls_size_add(&out->send_counts[rank], out->send_counts[rank], count));
        }
        LS_TRY(returned_elements(&out->recv_counts[rank], group, rank, part->sent_ids));
        LS_TRY(ls_size_add(&sent, sent, out->send_counts[rank]));
        LS_TRY(ls_size_add(&got, got, out->recv_counts[rank]));
    }
    LS_TRY(take(scratch, &out->partial, out->rank, "rows to send back", sent, group->dtype));
    LS_TRY(take(scratch, &out->received, out->rank, "rows that come back", got, group->dtype));
    size_t *taken;
    ARENA_NEW(taken, scratch->arena, own);
    for (int rank = 0; rank < module->size; rank++) {
        for (int k = 0; k < own; k++) {
            size_t count =
                (size_t)part->slot_ids[k][rank] * (size_t)group->slots[first + k].block.columns;
            if (count > 0) {
                LS_TRY(device->ops->copy(device, (char *)out->partial + at * bytes,
                                         (char *)part->values[k] + taken[k] * bytes,
                                         count * bytes));
            }
            taken[k] += count;
            at += count;
        }
    }
    LS_ASSERT(at == sent);
    return LS_OK;
}

// Puts every returned row where its id stood in the source's feature.
static int unpack_sequence(ls_embedding_pass *pass, const embedding_group *group, int held,
                           const transit *way) {
    const ls_embedding *module = pass->module;
    ls_device *device = module->device;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    size_t bytes = ls_dtype_bytes(group->dtype), at = 0;
    for (int i = 0; i < group->slot_count; i++) {
        const embedding_slot *slot = &group->slots[i];
        int64_t dim = module->tables[module->pairs[slot->pair].table].config->dim;
        size_t row_bytes = (size_t)slot->block.columns * bytes, rows = (size_t)part->sent_ids[i];
        char *output = pass->inputs[held][slot->pair].output;
        if (rows > 0) {
            LS_TRY(device->ops->scatter_rows(
                device, output + (size_t)slot->block.column_offset * bytes, (size_t)dim * bytes,
                (char *)way->received + at, row_bytes, part->positions[i], rows));
        }
        at += rows * row_bytes;
    }
    return LS_OK;
}

static int dist_sequence(ls_embedding_pass *pass, const embedding_group *group,
                         embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    transit *ways;
    embedding_side *sides;
    ARENA_NEW(ways, scratch->arena, pass->held_count);
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        const embedding_part *part = &pass->parts[h][group - module->groups];
        ways[h] = (transit){.rank = ls_world_held(module->world)[h]};
        LS_TRY(pack_sequence(module, group, part, scratch, &ways[h]));
        sides[h] = (embedding_side){.rank = ways[h].rank,
                                    .send = ways[h].partial,
                                    .recv = ways[h].received,
                                    .send_counts = ways[h].send_counts,
                                    .recv_counts = ways[h].recv_counts};
    }
    embedding_exchange exchange = {.kind = LS_ALL_TO_ALL,
                                   .comm = module->comm,
                                   .dtype = group->dtype,
                                   .what = "output_dist outputs"};
    LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, pass->held_count));
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(unpack_sequence(pass, group, h, &ways[h]));
    }
    return LS_OK;
}

// ---- The stage ----------------------------------------------------------------------------------

// Data parallel: the lookup's result is the output.
static int keep_local(ls_embedding_pass *pass, const embedding_group *group, int held) {
    const ls_embedding *module = pass->module;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    for (int k = 0; k < group->rank_first[rank + 1] - group->rank_first[rank]; k++) {
        const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
        const embedding_input *pair = &pass->inputs[held][slot->pair];
        int64_t dim = module->tables[module->pairs[slot->pair].table].config->dim;
        int64_t rows = group->pooling == LS_POOL_NONE ? part->offsets[k][part->bags] : part->bags;
        LS_TRY(copy_columns(module->device, pair->output, dim, slot->block.column_offset,
                            part->values[k], slot->block.columns, 0, slot->block.columns, rows,
                            group->dtype));
    }
    return LS_OK;
}

static int dist_group(ls_embedding_pass *pass, const embedding_group *group) {
    const ls_embedding *module = pass->module;
    if (group->local) {
        for (int h = 0; h < pass->held_count; h++) {
            LS_TRY(keep_local(pass, group, h));
        }
        return LS_OK;
    }
    embedding_pool scratch;
    LS_TRY(ls_embedding__pool_create(&scratch, module));
    int status = group->pooling == LS_POOL_NONE ? dist_sequence(pass, group, &scratch)
                                                : dist_pooled(pass, group, &scratch);
    ls_embedding__pool_free(&scratch);
    return status;
}

static const embedding_group *group_of(const ls_embedding *module, int table) {
    return &module->groups[module->tables[table].group];
}

static int finish_pair(ls_embedding_pass *pass, int held, int pair, const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    const ls_table *table = module->tables[module->pairs[pair].table].config;
    const embedding_group *group = group_of(module, module->pairs[pair].table);
    embedding_input *input = &pass->inputs[held][pair];
    LS_TRY(finish(module, table, group, input));
    int64_t batch = input->jagged.batch;
    int64_t ids = input->jagged.offsets[batch] - input->jagged.offsets[0];
    embedding_emission emission = {
        .stage = "output_dist",
        .field = "values",
        .rank = ls_world_held(module->world)[held],
        .pair = pair,
        .shard = -1,
        .dtype = group->dtype,
        .shape = LS_SHAPE(group->pooling == LS_POOL_NONE ? ids : batch, table->dim),
        .data = input->output,
        .reduces = group->pooling == LS_POOL_SUM};
    return ls_embedding__emit(module, sink, &emission);
}

static int create_outputs(ls_embedding_pass *pass, int held) {
    const ls_embedding *module = pass->module;
    for (int pair = 0; pair < module->pair_count; pair++) {
        embedding_input *input = &pass->inputs[held][pair];
        const embedding_group *group = group_of(module, module->pairs[pair].table);
        int64_t batch = input->jagged.batch;
        int64_t ids = input->jagged.offsets[batch] - input->jagged.offsets[0];
        size_t count;
        LS_TRY(ls_embedding__count(&count, group->pooling == LS_POOL_NONE ? ids : batch,
                                   module->tables[module->pairs[pair].table].config->dim, 1));
        const embedding_array array = {ls_world_held(module->world)[held], pair, "the output",
                                       count, ls_dtype_bytes(group->dtype)};
        LS_TRY(ls_embedding__take(&pass->pool, &input->output, &array));
    }
    return LS_OK;
}

int ls_embedding__output_dist(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(create_outputs(pass, h));
    }
    for (int g = 0; g < module->group_count; g++) {
        LS_TRY(dist_group(pass, &module->groups[g]));
    }
    for (int h = 0; h < pass->held_count; h++) {
        for (int pair = 0; pair < module->pair_count; pair++) {
            LS_TRY(finish_pair(pass, h, pair, sink));
        }
    }
    return LS_OK;
}
