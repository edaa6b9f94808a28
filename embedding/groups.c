// Groups: the tables that share collectives, the shard that serves each feature (slots) with its
// columns in a node's partial results, and the shards that share a feature's ids (routes). All of
// it follows from the plan, so every rank and every process gets the same.
#include "base/compare.h"
#include "embedding/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX (1 << 28)  // (shard, feature) pairs of a group

int ls_embedding__source(const embedding_group *group, int world_size, int k) {
    int nodes = world_size / group->width;
    return k % nodes * group->width + k / nodes;
}

ls_dtype ls_table_output_dtype(const ls_table *table) {
    LS_ASSERT(table);
    if (table->has_output_dtype) {
        return table->output_dtype;
    }
    bool as_kept = !table->row_format && table->pooling == LS_POOL_NONE;
    return as_kept ? table->dtype : ls_optimizer_state_dtype(table->dtype);
}

static ls_pooling pooling_class(const ls_table *table) {
    return table->pooling == LS_POOL_MEAN ? LS_POOL_SUM : table->pooling;
}

static int width_of(const ls_embedding *module, const embedding_table *table) {
    if (table->config->pooling == LS_POOL_NONE) {
        return 1;
    }
    return ls_sharding_width(table->plan->sharding, module->size, module->ranks_per_host);
}

static bool belongs(const embedding_group *group, const embedding_table *table) {
    return group->sharding == table->plan->sharding && group->weighted == table->config->weighted &&
           group->pooling == pooling_class(table->config) &&
           group->dtype == ls_table_output_dtype(table->config);
}

// ---- Slots --------------------------------------------------------------------------------------

// Something to sort slots by.
typedef struct slot_key {
    int64_t key[5];
    int slot;
} slot_key;

static int compare_keys(const void *a, const void *b) {
    const slot_key *left = a, *right = b;
    for (size_t i = 0; i < sizeof(left->key) / sizeof(left->key[0]); i++) {
        if (left->key[i] != right->key[i]) {
            return left->key[i] < right->key[i] ? -1 : 1;
        }
    }
    return left->slot < right->slot ? -1 : left->slot > right->slot;
}

static int compare_slots(const void *a, const void *b) {
    const embedding_slot *left = a, *right = b;
    int order = ls_compare(left->block.rank, right->block.rank);
    order = order != 0 ? order : ls_compare(left->pair, right->pair);
    return order != 0 ? order : ls_compare(left->shard, right->shard);
}

static int64_t local_padding(const ls_table *table, const ls_plan_shard *block) {
    int64_t padding = ls_embedding__padding(table);
    bool inside = padding >= block->row_offset && padding < block->row_offset + block->rows;
    return padding >= 0 && inside ? padding - block->row_offset : -1;
}

static int create_slots(ls_embedding *module, embedding_group *group) {
    int64_t slot_count = 0;
    for (int t = 0; t < module->table_count; t++) {
        const embedding_table *table = &module->tables[t];
        if (belongs(group, table)) {
            slot_count += (int64_t)table->plan->shard_count * table->config->feature_count;
        }
        if (slot_count > SLOTS_MAX) {
            return LS_FAIL(LS_ERR_LIMIT, "embedding: more than %d (shard, feature) pairs",
                           SLOTS_MAX);
        }
    }
    group->slot_count = (int)slot_count;
    ARENA_NEW(group->slots, module->arena, group->slot_count);
    ARENA_NEW(group->rank_first, module->arena, module->size + 1);
    int next = 0;
    for (int t = 0; t < module->table_count; t++) {
        const embedding_table *table = &module->tables[t];
        if (!belongs(group, table)) {
            continue;
        }
        for (int s = 0; s < table->plan->shard_count; s++) {
            const ls_plan_shard *block = &table->plan->shards[s];
            for (int f = 0; f < table->config->feature_count; f++) {
                group->slots[next++] =
                    (embedding_slot){.pair = table->first_pair + f,
                                     .shard = s,
                                     .block = *block,
                                     .local_padding = local_padding(table->config, block)};
            }
            group->rank_first[block->rank + 1] += table->config->feature_count;
        }
    }
    LS_ASSERT(next == group->slot_count);
    qsort(group->slots, (size_t)next, sizeof(*group->slots), compare_slots);
    for (int rank = 0; rank < module->size; rank++) {
        group->rank_first[rank + 1] += group->rank_first[rank];
    }
    return LS_OK;
}

// Lays out each node's row of partial results: the column blocks of its ranks, by pair and column.
static int lay_out_nodes(ls_embedding *module, embedding_group *group, slot_key *keys) {
    int nodes = module->size / group->width;
    ARENA_NEW(group->node_columns, module->arena, nodes);
    ARENA_NEW(group->blocks, module->arena, group->slot_count);
    ARENA_NEW(group->block_first, module->arena, nodes + 1);
    int blocks = 0;
    for (int i = 0; i < group->slot_count; i++) {
        const embedding_slot *slot = &group->slots[i];
        keys[i] = (slot_key){{slot->block.rank / group->width, slot->pair,
                              slot->block.column_offset, slot->block.columns, slot->block.rank},
                             i};
    }
    qsort(keys, (size_t)group->slot_count, sizeof(*keys), compare_keys);
    for (int i = 0; i < group->slot_count; i++) {
        embedding_slot *slot = &group->slots[keys[i].slot];
        int64_t *columns = &group->node_columns[keys[i].key[0]];
        int *node_blocks = &group->block_first[keys[i].key[0] + 1];
        slot->first_in_node =
            i == 0 || memcmp(keys[i].key, keys[i - 1].key, 4 * sizeof(int64_t)) != 0;
        slot->first_in_rank = slot->first_in_node || keys[i].key[4] != keys[i - 1].key[4];
        if (slot->first_in_node) {
            slot->node_column = *columns;
            if (__builtin_add_overflow(*columns, slot->block.columns, columns)) {
                return LS_FAIL(LS_ERR_OVERFLOW, "embedding: the columns of a node overflow");
            }
            slot->node_block = (*node_blocks)++;
            group->blocks[blocks++] = keys[i].slot;
        } else {
            slot->node_column = group->slots[keys[i - 1].slot].node_column;
            slot->node_block = *node_blocks - 1;
        }
    }
    for (int node = 0; node < nodes; node++) {
        group->block_first[node + 1] += group->block_first[node];
    }
    return LS_OK;
}

// ---- Routes -------------------------------------------------------------------------------------

static int finish_route(ls_embedding *module, embedding_group *group, embedding_route *route) {
    const embedding_table *table = &module->tables[module->pairs[route->pair].table];
    ARENA_NEW(route->row_starts, module->arena, route->count + 1);
    int64_t next = 0;
    route->sound = true;
    for (int i = 0; i < route->count; i++) {
        const ls_plan_shard *block = &group->slots[group->route_slots[route->first + i]].block;
        route->sound = route->sound && block->row_offset == next;
        route->row_starts[i] = block->row_offset;
        next = block->row_offset + block->rows;
    }
    route->row_starts[route->count] = next;
    route->sound = route->sound && next == table->config->rows;
    return LS_OK;
}

static int create_routes(ls_embedding *module, embedding_group *group, slot_key *keys) {
    ARENA_NEW(group->route_slots, module->arena, group->slot_count);
    ARENA_NEW(group->routes, module->arena, group->slot_count);
    for (int i = 0; i < group->slot_count; i++) {
        const embedding_slot *slot = &group->slots[i];
        keys[i] = (slot_key){{slot->pair, slot->block.column_offset, slot->block.columns,
                              slot->block.row_offset, slot->block.rows},
                             i};
    }
    qsort(keys, (size_t)group->slot_count, sizeof(*keys), compare_keys);
    for (int i = 0; i < group->slot_count; i++) {
        bool fresh = i == 0 || memcmp(keys[i].key, keys[i - 1].key, 3 * sizeof(int64_t)) != 0;
        if (fresh) {
            group->routes[group->route_count++] =
                (embedding_route){.pair = (int)keys[i].key[0], .first = i};
        }
        group->routes[group->route_count - 1].count++;
        group->route_slots[i] = keys[i].slot;
    }
    for (int i = 0; i < group->route_count; i++) {
        LS_TRY(finish_route(module, group, &group->routes[i]));
    }
    return LS_OK;
}

// ---- Communicators ------------------------------------------------------------------------------

// comms [count] of `size` ranks each: member m of communicator c is rank c * first_step + m * step.
static int create_comms(ls_embedding *module, ls_comm ***out, const char *name, int count, int size,
                        int first_step, int step) {
    ARENA_NEW(*out, module->arena, count);
    int *ranks;
    ARENA_NEW(ranks, module->arena, size);
    for (int c = 0; c < count; c++) {
        char text[48];
        snprintf(text, sizeof(text), "%s %d", name, c);
        for (int m = 0; m < size; m++) {
            ranks[m] = c * first_step + m * step;
        }
        LS_TRY(ls_comm_create(&(*out)[c], module->backend, ranks, size, text));
    }
    return LS_OK;
}

static int attach_comms(ls_embedding *module, embedding_group *group) {
    if (group->local) {
        return LS_OK;
    }
    if (group->width == 1) {
        group->exchange = &module->comm;
    } else if (group->width == module->size) {
        group->reduce = &module->comm;
    } else {
        int hosts = module->size / module->ranks_per_host;
        if (!module->host_comms) {
            LS_TRY(create_comms(module, &module->host_comms, "host", hosts, module->ranks_per_host,
                                module->ranks_per_host, 1));
            LS_TRY(create_comms(module, &module->cross_comms, "cross", module->ranks_per_host,
                                hosts, 1, module->ranks_per_host));
        }
        group->reduce = module->host_comms;
        group->exchange = module->cross_comms;
    }
    return LS_OK;
}

// ---- All of it ----------------------------------------------------------------------------------

static int create_group(ls_embedding *module, embedding_group *group) {
    LS_TRY(create_slots(module, group));
    slot_key *keys;
    LS_TRY(ls_alloc((void **)&keys, (size_t)group->slot_count, sizeof(*keys)));
    int status = LS_OK;
    if (!group->local) {
        status = lay_out_nodes(module, group, keys);
    }
    if (!status && !group->local) {
        status = create_routes(module, group, keys);
    }
    ls_free(keys, (size_t)group->slot_count, sizeof(*keys));
    return status ? status : attach_comms(module, group);
}

int ls_embedding__groups_create(ls_embedding *module) {
    ARENA_NEW(module->groups, module->arena, module->table_count);
    for (int t = 0; t < module->table_count; t++) {
        embedding_table *table = &module->tables[t];
        table->group = 0;
        while (table->group < module->group_count &&
               !belongs(&module->groups[table->group], table)) {
            table->group++;
        }
        if (table->group == module->group_count) {
            embedding_group *group = &module->groups[module->group_count++];
            *group = (embedding_group){.sharding = table->plan->sharding,
                                       .weighted = table->config->weighted,
                                       .pooling = pooling_class(table->config),
                                       .dtype = ls_table_output_dtype(table->config),
                                       .width = width_of(module, table),
                                       .local = table->plan->sharding == LS_DATA_PARALLEL};
        }
    }
    for (int g = 0; g < module->group_count; g++) {
        LS_TRY(create_group(module, &module->groups[g]));
    }
    return LS_OK;
}

void ls_embedding__groups_free(ls_embedding *module) {
    for (int i = 0; module->host_comms && i < module->size / module->ranks_per_host; i++) {
        ls_comm_free(module->host_comms[i]);
    }
    for (int i = 0; module->cross_comms && i < module->ranks_per_host; i++) {
        ls_comm_free(module->cross_comms[i]);
    }
}
