// The ids that reached one shard of an owner: those of all the slots that serve it, joined, and
// grouped by row.
#include "embedding/internal.h"

// An array of the shard on the device.
static int take(embedding_pool *pool, const embedding_occurrences *of, const char *what,
                size_t count, size_t bytes, void **out) {
    const embedding_array array = {of->rank, pool->module->tables[of->table].first_pair, what,
                                   count, bytes};
    return ls_embedding__take(pool, out, &array);
}

// The own slots that serve the shard: one for each feature of the table, in their order.
static int find_slots(const ls_embedding_pass *pass, const embedding_group *group,
                      const embedding_part *part, ls_arena *arena, embedding_occurrences *out) {
    const ls_embedding *module = pass->module;
    int features = module->tables[out->table].config->feature_count;
    int first = group->rank_first[out->rank], own = group->rank_first[out->rank + 1] - first;
    ARENA_NEW(out->slots, arena, features);
    ARENA_NEW(out->first, arena, features + 1);
    for (int k = 0; k < own; k++) {
        const embedding_slot *slot = &group->slots[first + k];
        if (module->pairs[slot->pair].table == out->table && slot->shard == out->shard) {
            int i = out->slot_count++;
            out->slots[i] = k;
            LS_TRY(ls_size_add(&out->first[i + 1], out->first[i],
                               (size_t)part->offsets[k][part->bags[k]]));
        }
    }
    LS_ASSERT(out->slot_count == features);
    out->count = out->first[features];
    return LS_OK;
}

int ls_embedding__occurrences(embedding_occurrences *out, const ls_embedding_pass *pass, int held,
                              int table, int shard, int64_t padding, embedding_pool *pool) {
    const ls_embedding *module = pass->module;
    ls_device *device = module->device;
    int g = module->tables[table].group;
    const embedding_part *part = &pass->parts[held][g];
    *out = (embedding_occurrences){
        .rank = ls_world_held(module->world)[held], .table = table, .shard = shard};
    LS_TRY(find_slots(pass, &module->groups[g], part, pool->arena, out));
    void *ids, *rows, *starts, *order, *sorting;
    size_t room;
    LS_TRY(take(pool, out, "ids of a shard", out->count, sizeof(int64_t), &ids));
    LS_TRY(take(pool, out, "rows of a shard", out->count, sizeof(int64_t), &rows));
    LS_TRY(take(pool, out, "ids of rows", out->count + 1, sizeof(int64_t), &starts));
    LS_TRY(take(pool, out, "ids by row", out->count, sizeof(int64_t), &order));
    LS_TRY(ls_size_mul(&room, out->count, LS_GROUP_SCRATCH));
    LS_TRY(take(pool, out, "ids being sorted", room, sizeof(int64_t), &sorting));
    for (int i = 0; i < out->slot_count; i++) {
        size_t count = out->first[i + 1] - out->first[i];
        if (count > 0) {
            LS_TRY(device->ops->copy(device, (int64_t *)ids + out->first[i],
                                     part->ids[out->slots[i]], count * sizeof(int64_t)));
        }
    }
    out->ids = ids;
    out->rows = rows;
    out->starts = starts;
    out->order = order;
    return device->ops->group_ids(device, &(const ls_row_groups){rows, starts, order},
                                  &out->row_count, sorting, ids, out->count,
                                  module->tables[table].plan->shards[shard].rows, padding);
}
