// Stage 3, output_dist. Pooled: partial results, whose rows stand by source rank, are reduced over
// the node (reduce_scatter), sent to their source ranks (all_to_all), assembled by
// columns, and finished there: mean divides, empty bags of max become 0. Sequence: rows travel back
// the way their ids came, to the place where each id stood.
#include "embedding/internal.h"

// ---- Pooled -------------------------------------------------------------------------------------

static int dist_pooled(ls_embedding_pass *pass, const embedding_group *group,
                       embedding_pool *scratch) {
    embedding_transit *ways;
    LS_TRY(ls_embedding__transits_create(&ways, pass, group, scratch->arena));
    for (int h = 0; h < pass->held_count; h++) {
        ways[h].partial = pass->parts[h][group - pass->module->groups].partial;
        ways[h].reduced = ways[h].partial;
    }
    if (group->width > 1) {
        LS_TRY(ls_embedding__transit_reduce(pass, group, ways, false, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        ways[h].received = ways[h].reduced;
    }
    if (group->exchange) {
        LS_TRY(ls_embedding__transit_exchange(pass, group, ways, false, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        void **outputs;
        ARENA_NEW(outputs, scratch->arena, pass->module->pair_count);
        for (int pair = 0; pair < pass->module->pair_count; pair++) {
            outputs[pair] = pass->inputs[h][pair].values;
        }
        LS_TRY(ls_embedding__transit_outputs(pass, group, &ways[h], outputs, false));
    }
    return LS_OK;
}

// ---- Finishing on the source rank ---------------------------------------------------------------

// The remaining work for one pair. A bag without a counting id gives 0: sums have it, and for max
// the shards may have -infinity.
static int finish(const ls_embedding *module, const ls_table *table, const embedding_group *group,
                  int index, embedding_input *pair) {
    ls_device *device = module->device;
    if (table->pooling != LS_POOL_MAX || pair->bags.batch == 0) {
        return ls_embedding__divide(module, pair, index, pair->values);
    }
    size_t dim = (size_t)table->dim;
    return device->ops->fill_empty_bags(device, pair->values, dim, group->dtype, 0, dim,
                                        &(const ls_bags){.ids = pair->bags.ids,
                                                         .offsets = pair->bags.offsets,
                                                         .padding_id = ls_embedding__padding(table),
                                                         .count = (size_t)pair->bags.batch});
}

// ---- Sequence -----------------------------------------------------------------------------------

// Puts every returned row where its id stood in the source's feature.
static int unpack_sequence(ls_embedding_pass *pass, const embedding_group *group, int held,
                           const void *returned) {
    const ls_embedding *module = pass->module;
    ls_device *device = module->device;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    size_t bytes = ls_dtype_bytes(group->dtype), at = 0;
    for (int i = 0; i < group->slot_count; i++) {
        const embedding_slot *slot = &group->slots[i];
        int64_t dim = module->tables[module->pairs[slot->pair].table].config->dim;
        size_t row_bytes = (size_t)slot->block.columns * bytes, rows = (size_t)part->sent_ids[i];
        char *output = pass->inputs[held][slot->pair].values;
        if (rows > 0) {
            LS_TRY(device->ops->scatter_rows(
                device, output + (size_t)slot->block.column_offset * bytes, (size_t)dim * bytes,
                (const char *)returned + at, row_bytes, part->positions[i], rows));
        }
        at += rows * row_bytes;
    }
    return LS_OK;
}

static int dist_sequence(ls_embedding_pass *pass, const embedding_group *group,
                         embedding_pool *scratch) {
    embedding_rows rows = {
        .dtype = group->dtype, .stage = LS_STAGE_OUTPUT_DIST, .what = "output_dist outputs"};
    ARENA_NEW(rows.owned, scratch->arena, pass->held_count);
    ARENA_NEW(rows.sourced, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        rows.owned[h] = pass->parts[h][group - pass->module->groups].values;
    }
    LS_TRY(ls_embedding__exchange_rows(pass, group, &rows, scratch));
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(unpack_sequence(pass, group, h, rows.sourced[h]));
    }
    return LS_OK;
}

// ---- The stage ----------------------------------------------------------------------------------

// Data parallel: the lookup's result is the output.
static int keep_local(ls_embedding_pass *pass, const embedding_group *group, int held) {
    const ls_embedding *module = pass->module;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    for (int k = 0; k < slots_of(group, rank); k++) {
        const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
        const embedding_input *pair = &pass->inputs[held][slot->pair];
        int64_t dim = module->tables[module->pairs[slot->pair].table].config->dim;
        int64_t rows =
            group->pooling == LS_POOL_NONE ? part->offsets[k][part->bags[k]] : part->bags[k];
        const embedding_columns to = {pair->values, dim, slot->block.column_offset};
        const embedding_columns from = {part->values[k], slot->block.columns, 0};
        LS_TRY(ls_embedding__copy_columns(module->device, &to, &from, slot->block.columns, rows,
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
    ls_arena_will_be_full(scratch.arena);
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
    LS_TRY(finish(module, table, group, pair, input));
    int rank = ls_world_held(module->world)[held];
    LS_TRY(ls_embedding__samples_take(pass, rank, pair, input));
    embedding_emission emission = {.stage = LS_STAGE_OUTPUT_DIST,
                                   .field = LS_STAGE_FIELD_VALUES,
                                   .rank = rank,
                                   .pair = pair,
                                   .shard = -1,
                                   .dtype = group->dtype,
                                   .shape = LS_SHAPE(input->output_rows, table->dim),
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
        LS_TRY(ls_embedding__take_zeroed(&pass->pool, &input->values, &array));
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
