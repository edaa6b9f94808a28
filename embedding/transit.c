// The ways of pooled results between owners and sources, there (output_dist) and back (backward):
// over the ranks of each node, and among the ranks with equal place in their nodes.
#include "embedding/internal.h"

int ls_embedding__take_elements(embedding_pool *memory, void **out, int rank, const char *what,
                                size_t count, ls_dtype dtype) {
    const embedding_array array = {rank, -1, what, count, ls_dtype_bytes(dtype)};
    return ls_embedding__take(memory, out, &array);
}

int ls_embedding__copy_columns(ls_device *device, const embedding_columns *to,
                               const embedding_columns *from, int64_t columns, int64_t rows,
                               ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    if (rows == 0 || columns == 0) {
        return LS_OK;
    }
    return device->ops->copy_2d(
        device, (char *)to->data + (size_t)to->column * bytes, (size_t)to->stride * bytes,
        (const char *)from->data + (size_t)from->column * bytes, (size_t)from->stride * bytes,
        (size_t)columns * bytes, (size_t)rows);
}

// Elements between a source and a node, either of which is this rank's.
static int count_blocks(size_t *out, const embedding_group *group, const embedding_transit *way,
                        int source, int node) {
    const embedding_part *part = way->part;
    if (!part->variable) {
        return ls_embedding__count(out, part->batches[source], group->node_columns[node], 1);
    }
    *out = 0;
    for (int b = group->block_first[node]; b < group->block_first[node + 1]; b++) {
        const embedding_slot *slot = &group->slots[group->blocks[b]];
        int64_t batch = node == way->node ? ls_embedding__batch(part, source, slot)
                                          : way->inputs[slot->pair].jagged.batch;
        size_t count;
        LS_TRY(ls_embedding__count(&count, batch, slot->block.columns, 1));
        LS_TRY(ls_size_add(out, *out, count));
    }
    return LS_OK;
}

static int count_way(const ls_embedding *module, const embedding_group *group,
                     embedding_transit *way, ls_arena *arena) {
    int nodes = module->size / group->width;
    ARENA_NEW(way->by_place, arena, group->width);
    ARENA_NEW(way->by_source_node, arena, nodes);
    ARENA_NEW(way->by_owner_node, arena, nodes);
    for (int source = 0; source < module->size; source++) {
        size_t count, *place = &way->by_place[source % group->width];
        LS_TRY(count_blocks(&count, group, way, source, way->node));
        LS_TRY(ls_size_add(place, *place, count));
    }
    for (int node = 0; node < nodes; node++) {
        LS_TRY(count_blocks(&way->by_source_node[node], group, way,
                            node * group->width + way->place, way->node));
        LS_TRY(count_blocks(&way->by_owner_node[node], group, way, way->rank, node));
        LS_TRY(ls_size_add(&way->outputs, way->outputs, way->by_owner_node[node]));
    }
    for (int place = 0; place < group->width; place++) {
        LS_TRY(ls_size_add(&way->partials, way->partials, way->by_place[place]));
    }
    return LS_OK;
}

int ls_embedding__transits_create(embedding_transit **out, const ls_embedding_pass *pass,
                                  const embedding_group *group, ls_arena *arena) {
    const ls_embedding *module = pass->module;
    embedding_transit *ways;
    ARENA_NEW(ways, arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h];
        ways[h] = (embedding_transit){.rank = rank,
                                      .node = rank / group->width,
                                      .place = rank % group->width,
                                      .part = &pass->parts[h][group - module->groups],
                                      .inputs = pass->inputs[h]};
        LS_TRY(count_way(module, group, &ways[h], arena));
    }
    *out = ways;
    return LS_OK;
}

int ls_embedding__transit_reduce(const ls_embedding_pass *pass, const embedding_group *group,
                                 embedding_transit *ways, bool backward, embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    embedding_side *sides;
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    bool shares = backward && ls_embedding__exchange_shares(module->backend);
    for (int node = 0; node < module->size / group->width; node++) {
        int side_count = 0;
        void *shared = NULL;
        for (int h = 0; h < pass->held_count; h++) {
            embedding_transit *way = &ways[h];
            if (way->node != node) {
                continue;
            }
            void **to = backward ? &way->partial : &way->reduced;
            *to = shared;
            if (!shared) {
                LS_TRY(ls_embedding__take_elements(
                    scratch, to, way->rank, backward ? "gradients of a node" : "reduced results",
                    backward ? way->partials : way->by_place[way->place], group->dtype));
            }
            shared = shares ? *to : NULL;
            sides[side_count++] = (embedding_side){.rank = way->rank,
                                                   .send = backward ? way->reduced : way->partial,
                                                   .recv = *to,
                                                   .recv_shared = shares,
                                                   .send_counts = backward ? NULL : way->by_place,
                                                   .recv_counts = backward ? way->by_place : NULL};
        }
        embedding_exchange exchange = {
            .kind = backward ? LS_ALL_GATHER : LS_REDUCE_SCATTER,
            .comm = group->reduce[node],
            .dtype = group->dtype,
            .op = group->pooling == LS_POOL_MAX ? LS_MAX : LS_SUM,
            .stage = backward ? LS_STAGE_OUTPUT_DIST_BACKWARD : LS_STAGE_OUTPUT_DIST,
            .what = backward ? "output_dist_backward gather" : "output_dist reduce"};
        LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, side_count));
    }
    return LS_OK;
}

int ls_embedding__transit_exchange(const ls_embedding_pass *pass, const embedding_group *group,
                                   embedding_transit *ways, bool backward,
                                   embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    embedding_side *sides;
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    for (int place = 0; place < group->width; place++) {
        int side_count = 0;
        for (int h = 0; h < pass->held_count; h++) {
            embedding_transit *way = &ways[h];
            if (way->place != place) {
                continue;
            }
            void **to = backward ? &way->reduced : &way->received;
            LS_TRY(ls_embedding__take_elements(
                scratch, to, way->rank,
                backward ? "gradients that arrive" : "results that come back",
                backward ? way->by_place[place] : way->outputs, group->dtype));
            sides[side_count++] = (embedding_side){
                .rank = way->rank,
                .send = backward ? way->received : way->reduced,
                .recv = *to,
                .send_counts = backward ? way->by_owner_node : way->by_source_node,
                .recv_counts = backward ? way->by_source_node : way->by_owner_node};
        }
        embedding_exchange exchange = {
            .kind = LS_ALL_TO_ALL,
            .comm = group->exchange[place],
            .dtype = group->dtype,
            .stage = backward ? LS_STAGE_OUTPUT_DIST_BACKWARD : LS_STAGE_OUTPUT_DIST,
            .what = backward ? "output_dist_backward gradients" : "output_dist outputs"};
        LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, side_count));
    }
    return LS_OK;
}

int ls_embedding__transit_pieces(const ls_embedding_pass *pass, const embedding_group *group,
                                 const embedding_part *part, int slot, void *partial, void *values,
                                 ls_op op, bool backward) {
    const ls_embedding *module = pass->module;
    ls_device *device = module->device;
    const embedding_slot *of = &group->slots[slot];
    size_t bytes = ls_dtype_bytes(group->dtype), at = 0;
    for (int i = 0; i < module->size; i++) {
        int from = ls_embedding__source(group, module->size, i);
        size_t start = part->starts[(size_t)i * (size_t)part->kinds + (size_t)of->node_block];
        size_t count = (size_t)ls_embedding__batch(part, from, of) * (size_t)of->block.columns;
        char *piece = (char *)values + at * bytes, *place = (char *)partial + start * bytes;
        at += count;
        if (count == 0) {
            continue;
        }
        if (backward) {
            LS_TRY(device->ops->copy(device, piece, place, count * bytes));
        } else if (op == LS_OP_COUNT) {
            LS_TRY(device->ops->copy(device, place, piece, count * bytes));
        } else {
            LS_TRY(device->ops->accumulate(device, place, piece, group->dtype, op, count));
        }
    }
    return LS_OK;
}

int ls_embedding__transit_outputs(const ls_embedding_pass *pass, const embedding_group *group,
                                  const embedding_transit *way, void *const *outputs,
                                  bool backward) {
    const ls_embedding *module = pass->module;
    bool variable = way->part->variable;
    size_t start = 0, bytes = ls_dtype_bytes(group->dtype);  // of the node's block, in elements
    for (int node = 0; node < module->size / group->width; node++) {
        size_t at = start;
        for (int b = group->block_first[node]; b < group->block_first[node + 1]; b++) {
            const embedding_slot *slot = &group->slots[group->blocks[b]];
            int64_t rows = way->inputs[slot->pair].jagged.batch, columns = slot->block.columns;
            const embedding_columns output = {
                outputs[slot->pair], module->tables[module->pairs[slot->pair].table].config->dim,
                slot->block.column_offset};
            const embedding_columns travels = {(char *)way->received + at * bytes,
                                               variable ? columns : group->node_columns[node],
                                               variable ? 0 : slot->node_column};
            LS_TRY(ls_embedding__copy_columns(module->device, backward ? &travels : &output,
                                              backward ? &output : &travels, columns, rows,
                                              group->dtype));
            at += variable ? (size_t)rows * (size_t)columns : 0;
        }
        start += way->by_owner_node[node];
    }
    return LS_OK;
}
