// Backward, on the way: the gradients of the outputs go from their sources to the owners of the
// rows, the gradients of the ids' weights come back, and data parallel gradients are reduced. The
// owners' computation is in gradients.c.
#include "embedding/backward.h"

#include <string.h>

static const embedding_group *group_of(const ls_embedding *module, int pair) {
    return &module->groups[module->tables[module->pairs[pair].table].group];
}

// ---- On the source ------------------------------------------------------------------------------

static int64_t output_rows(const embedding_group *group, const embedding_input *input) {
    const ls_jagged *jagged = &input->jagged;
    return group->pooling == LS_POOL_NONE ? jagged->offsets[jagged->batch] - jagged->offsets[0]
                                          : jagged->batch;
}

// One pair's gradient on the device: as fed, summed over the samples of each bag, then divided as
// the output was.
static int take_gradient(embedding_backward *b, int held, int pair, const void *fed,
                         const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    const embedding_group *group = group_of(module, pair);
    const embedding_input *input = &b->pass->inputs[held][pair];
    int rank = ls_world_held(module->world)[held];
    int64_t rows = output_rows(group, input);
    int64_t dim = module->tables[module->pairs[pair].table].config->dim;
    size_t count, bytes = ls_dtype_bytes(group->dtype);
    LS_TRY(ls_embedding__count(&count, input->output_rows, dim, 1));
    const embedding_array array = {rank, pair, "the output's gradient", count, bytes};
    void *gradient;
    LS_TRY(ls_embedding__take(&b->scratch, &gradient, &array));
    LS_ASSERT(fed || count == 0);
    if (count > 0) {
        LS_TRY(module->device->ops->copy_in(module->device, gradient, fed, count * bytes));
    }
    LS_TRY(ls_embedding__samples_fold(&b->scratch, rank, pair, input, gradient, &gradient));
    b->gradients[held][pair] = gradient;
    LS_TRY(ls_embedding__divide(module, input, pair, gradient));
    const embedding_emission emission = {.stage = LS_STAGE_OUTPUT_GRAD,
                                         .field = LS_STAGE_FIELD_VALUES,
                                         .rank = rank,
                                         .pair = pair,
                                         .shard = -1,
                                         .dtype = group->dtype,
                                         .shape = LS_SHAPE(rows, dim),
                                         .data = gradient};
    LS_TRY(ls_embedding__emit(module, sink, &emission));
    if (ls_embedding__injected(module, LS_FAULT_DIVIDED_TWICE, rank)) {
        LS_TRY(ls_embedding__scale(module, gradient, 1.0 / module->size, group->dtype, rows, dim));
    }
    if (module->division == LS_GRADIENTS_SUMMED || module->size == 1) {
        return LS_OK;
    }
    // Times the rounded reciprocal, as torch divides by a number on a GPU.
    return ls_embedding__scale(module, gradient, 1.0 / module->size, group->dtype, rows, dim);
}

static int take_gradients(embedding_backward *b, const void *const *const *gradients,
                          const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    ARENA_NEW(b->gradients, b->scratch.arena, b->pass->held_count);
    for (int h = 0; h < b->pass->held_count; h++) {
        ARENA_NEW(b->gradients[h], b->scratch.arena, module->pair_count);
        for (int pair = 0; pair < module->pair_count; pair++) {
            LS_TRY(take_gradient(b, h, pair, gradients[h][pair], sink));
        }
    }
    return LS_OK;
}

// ---- To the owners ------------------------------------------------------------------------------

static int send_pooled(embedding_backward *b, const embedding_group *group,
                       embedding_pool *scratch) {
    const ls_embedding_pass *pass = b->pass;
    embedding_transit *ways;
    LS_TRY(ls_embedding__transits_create(&ways, pass, group, scratch->arena));
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(ls_embedding__take_elements(scratch, &ways[h].received, ways[h].rank,
                                           "gradients to send", ways[h].outputs, group->dtype));
        LS_TRY(ls_embedding__transit_outputs(pass, group, &ways[h], b->gradients[h], true));
        ways[h].reduced = ways[h].received;
    }
    if (group->exchange) {
        LS_TRY(ls_embedding__transit_exchange(pass, group, ways, true, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        ways[h].partial = ways[h].reduced;
    }
    if (group->width > 1) {
        LS_TRY(ls_embedding__transit_reduce(pass, group, ways, true, scratch));
    }
    for (int h = 0; h < pass->held_count; h++) {
        LS_TRY(ls_embedding__shards_take_pooled(b, group, h, ways[h].partial));
    }
    return LS_OK;
}

// The gradient of every id that was sent to a slot, slot by slot.
static int pack_sequence(const embedding_backward *b, const embedding_group *group, int held,
                         embedding_pool *scratch, void **out) {
    const ls_embedding *module = b->pass->module;
    ls_device *device = module->device;
    const embedding_part *part = &b->pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    size_t bytes = ls_dtype_bytes(group->dtype), total = 0, at = 0;
    for (int i = 0; i < group->slot_count; i++) {
        size_t count;
        LS_TRY(ls_embedding__count(&count, part->sent_ids[i], group->slots[i].block.columns, 1));
        LS_TRY(ls_size_add(&total, total, count));
    }
    LS_TRY(
        ls_embedding__take_elements(scratch, out, rank, "gradients to send", total, group->dtype));
    for (int i = 0; i < group->slot_count; i++) {
        const embedding_slot *slot = &group->slots[i];
        int64_t columns = slot->block.columns, sent = part->sent_ids[i];
        int64_t rows = output_rows(group, &b->pass->inputs[held][slot->pair]);
        int64_t dim = module->tables[module->pairs[slot->pair].table].config->dim;
        if (sent == 0) {
            continue;
        }
        embedding_columns from = {b->gradients[held][slot->pair], dim, slot->block.column_offset};
        if (columns < dim) {
            embedding_columns dense = {NULL, columns, 0};
            LS_TRY(ls_embedding__take_elements(scratch, &dense.data, rank, "gradients of columns",
                                               (size_t)rows * (size_t)columns, group->dtype));
            LS_TRY(ls_embedding__copy_columns(device, &dense, &from, columns, rows, group->dtype));
            from = dense;
        }
        LS_TRY(device->ops->gather_rows(device, (char *)*out + at * bytes, from.data,
                                        (size_t)columns * bytes, rows, part->positions[i],
                                        (size_t)sent));
        at += (size_t)sent * (size_t)columns;
    }
    return LS_OK;
}

static int send_sequence(embedding_backward *b, const embedding_group *group,
                         embedding_pool *scratch) {
    embedding_rows rows = {.dtype = group->dtype,
                           .to_owner = true,
                           .stage = LS_STAGE_OUTPUT_DIST_BACKWARD,
                           .what = "output_dist_backward gradients"};
    ARENA_NEW(rows.owned, scratch->arena, b->pass->held_count);
    ARENA_NEW(rows.sourced, scratch->arena, b->pass->held_count);
    for (int h = 0; h < b->pass->held_count; h++) {
        LS_TRY(pack_sequence(b, group, h, scratch, &rows.sourced[h]));
        LS_TRY(ls_embedding__shards_rows(b, group, h, scratch->arena, false, &rows.owned[h]));
    }
    return ls_embedding__exchange_rows(b->pass, group, &rows, scratch);
}

static int send_group(embedding_backward *b, const embedding_group *group) {
    for (int h = 0; h < b->pass->held_count; h++) {
        LS_TRY(ls_embedding__shards_create(b, group, h));
        if (group->local) {
            LS_TRY(ls_embedding__shards_take_local(b, group, h));
        }
    }
    if (group->local) {
        return LS_OK;
    }
    if (group->pooling != LS_POOL_NONE) {
        return send_pooled(b, group, &b->scratch);  // shards use the arrived data in place
    }
    embedding_pool scratch;
    LS_TRY(ls_embedding__pool_create(&scratch, b->pass->module));
    int status = send_sequence(b, group, &scratch);
    ls_embedding__pool_free(&scratch);
    return status;
}

// ---- Gradients of weights, back to the sources --------------------------------------------------

// Adds up what the column blocks of a pair give, in the order of their columns. gradient [ids].
static int add_weights(const embedding_backward *b, const embedding_group *group, int held,
                       const embedding_route *route, const void *const *of_slot, size_t ids,
                       embedding_pool *scratch, void *gradient) {
    ls_device *device = b->pass->module->device;
    const embedding_part *part = &b->pass->parts[held][group - b->pass->module->groups];
    size_t bytes = ls_dtype_bytes(group->dtype);
    void *block = NULL;
    const embedding_array array = {ls_world_held(b->pass->module->world)[held], -1,
                                   "gradients of weights", ids, bytes};
    for (int i = 0; i < route->count; i++) {
        int slot = group->route_slots[route->first + i];
        // If blocks leave gaps or overlap, an id may come back twice: each block separately.
        if (!block || !route->sound) {
            LS_TRY(ls_embedding__take_zeroed(scratch, &block, &array));
        }
        if (part->sent_ids[slot] > 0) {
            LS_TRY(device->ops->scatter_rows(device, block, bytes, of_slot[slot], bytes,
                                             part->positions[slot], (size_t)part->sent_ids[slot]));
        }
        if ((i + 1 == route->count || !route->sound) && ids > 0) {
            LS_TRY(device->ops->accumulate(device, gradient, block, group->dtype, LS_SUM, ids));
        }
    }
    return LS_OK;
}

static int emit_weights(const embedding_backward *b, const embedding_group *group, int held,
                        int pair, int64_t ids, void *gradient, const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    if (module->division == LS_GRADIENTS_DIVIDED) {
        LS_TRY(ls_embedding__scale(module, gradient, module->size, group->dtype, ids, 1));
    }
    const embedding_emission emission = {.stage = LS_STAGE_INPUT_DIST_BACKWARD,
                                         .field = LS_STAGE_FIELD_WEIGHTS,
                                         .rank = ls_world_held(module->world)[held],
                                         .pair = pair,
                                         .shard = -1,
                                         .dtype = group->dtype,
                                         .shape = LS_SHAPE(ids),
                                         .data = gradient,
                                         .reduces = true};
    return ls_embedding__emit(module, sink, &emission);
}

// One held rank's gradients of weights of one group, of every pair. sourced: what came back, slot
// by slot; local: NULL.
static int settle_weights(const embedding_backward *b, const embedding_group *group, int held,
                          const void *sourced, embedding_pool *scratch, const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    const embedding_part *part = &b->pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    const void **of_slot;
    ARENA_NEW(of_slot, scratch->arena, group->slot_count);
    size_t at = 0;
    for (int i = 0; i < group->slot_count && sourced; i++) {
        of_slot[i] = (const char *)sourced + at * ls_dtype_bytes(group->dtype);
        at += (size_t)part->sent_ids[i];
    }
    for (int pair = 0; pair < module->pair_count; pair++) {
        if (group_of(module, pair) != group) {
            continue;
        }
        const ls_jagged *jagged = &b->pass->inputs[held][pair].jagged;
        int64_t ids = jagged->offsets[jagged->batch] - jagged->offsets[0];
        void *gradient;
        const embedding_array array = {rank, -1, "gradients of weights", (size_t)ids,
                                       ls_dtype_bytes(group->dtype)};
        LS_TRY(ls_embedding__take_zeroed(scratch, &gradient, &array));
        for (int r = 0; r < group->route_count; r++) {
            if (group->routes[r].pair == pair) {
                LS_TRY(add_weights(b, group, held, &group->routes[r], of_slot, (size_t)ids, scratch,
                                   gradient));
            }
        }
        if (group->local) {
            LS_TRY(ls_embedding__shards_copy_weights(b, group, held, pair, gradient));
        }
        LS_TRY(emit_weights(b, group, held, pair, ids, gradient, sink));
    }
    return LS_OK;
}

static int return_weights(embedding_backward *b, const embedding_group *group,
                          embedding_pool *scratch, const ls_stage_sink *sink) {
    embedding_rows rows = {.dtype = group->dtype,
                           .columns = 1,
                           .stage = LS_STAGE_INPUT_DIST_BACKWARD,
                           .what = "input_dist_backward weights"};
    ARENA_NEW(rows.owned, scratch->arena, b->pass->held_count);
    ARENA_NEW(rows.sourced, scratch->arena, b->pass->held_count);
    for (int h = 0; h < b->pass->held_count && !group->local; h++) {
        LS_TRY(ls_embedding__shards_rows(b, group, h, scratch->arena, true, &rows.owned[h]));
    }
    if (!group->local) {
        LS_TRY(ls_embedding__exchange_rows(b->pass, group, &rows, scratch));
    }
    for (int h = 0; h < b->pass->held_count; h++) {
        LS_TRY(settle_weights(b, group, h, rows.sourced[h], scratch, sink));
    }
    return LS_OK;
}

// ---- The stage ----------------------------------------------------------------------------------

// If a bag's rows are on several ranks, none of them knows the largest one.
static int check_pooling(const ls_embedding *module) {
    for (int t = 0; t < module->table_count; t++) {
        const embedding_table *table = &module->tables[t];
        if (table->config->pooling == LS_POOL_MAX &&
            ls_sharding_traits_of(table->plan->sharding).rows != LS_OVER_ONE) {
            return LS_FAIL(LS_ERR_UNSUPPORTED,
                           "embedding: table %s is pooled by max, which has no backward under %s",
                           table->config->name, ls_sharding_name(table->plan->sharding));
        }
    }
    return LS_OK;
}

static int run(embedding_backward *b, const void *const *const *gradients,
               const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    LS_TRY(ls_embedding__shards_prepare(b));
    LS_TRY(take_gradients(b, gradients, sink));
    for (int g = 0; g < module->group_count; g++) {
        LS_TRY(send_group(b, &module->groups[g]));
    }
    LS_TRY(ls_embedding__shards_emit_arrivals(b, sink));
    LS_TRY(ls_embedding__shards_sum(b, sink));
    for (int g = 0; g < module->group_count; g++) {
        if (!module->groups[g].weighted) {
            continue;
        }
        embedding_pool scratch;
        LS_TRY(ls_embedding__pool_create(&scratch, module));
        int status = return_weights(b, &module->groups[g], &scratch, sink);
        ls_embedding__pool_free(&scratch);
        LS_TRY(status);
    }
    return ls_embedding__shards_reduce(b, sink);
}

int ls_embedding_backward(ls_embedding_pass *pass, const void *const *const *gradients,
                          const ls_training *training, const ls_stage_sink *sink) {
    LS_ASSERT(pass && gradients && training);
    if (pass->done != STAGE_OUTPUT_DIST) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: backward needs a pass that has its outputs, "
                                       "and one that had no backward yet");
    }
    LS_TRY(check_pooling(pass->module));
    LS_TRY(ls_embedding_prepare_training(pass->module, training));
    embedding_backward b = {.pass = pass};
    LS_TRY(ls_embedding__pool_create(&b.scratch, pass->module));
    int status = run(&b, gradients, sink);
    ls_embedding__pool_free(&b.scratch);
    if (!status) {
        pass->done = STAGE_BACKWARD;
    }
    return status;
}
