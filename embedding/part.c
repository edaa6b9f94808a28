// An owner's part of one group: the bags that reached its slots, and handing them to the sink.
#include "embedding/internal.h"

int ls_embedding__part_create(embedding_part *part, const embedding_group *group, int rank,
                              ls_arena *arena) {
    int own = slots_of(group, rank);
    ARENA_NEW(part->bags, arena, own);
    ARENA_NEW(part->lengths, arena, own);
    ARENA_NEW(part->offsets, arena, own);
    ARENA_NEW(part->bag_offsets, arena, own);
    ARENA_NEW(part->ids, arena, own);
    ARENA_NEW(part->weights, arena, own);
    ARENA_NEW(part->values, arena, own);
    return LS_OK;
}

int ls_embedding__part_slot(embedding_pool *pool, const embedding_group *group, int rank, int k,
                            embedding_part *part) {
    int pair = group->slots[group->rank_first[rank] + k].pair;
    size_t bags = (size_t)part->bags[k], total = (size_t)part->offsets[k][bags];
    const void *offsets;
    void *taken;
    embedding_array array = {rank, pair, "offsets", bags + 1, sizeof(int64_t)};
    LS_TRY(ls_embedding__upload(pool, &offsets, &array, part->offsets[k]));
    part->bag_offsets[k] = offsets;
    array = (embedding_array){rank, pair, "local ids", total, sizeof(int64_t)};
    LS_TRY(ls_embedding__take(pool, &taken, &array));
    part->ids[k] = taken;
    if (group->weighted) {
        array = (embedding_array){rank, pair, "weights", total, sizeof(float)};
        LS_TRY(ls_embedding__take(pool, &taken, &array));
        part->weights[k] = taken;
    }
    return LS_OK;
}

int ls_embedding__part_emit(const ls_embedding_pass *pass, const embedding_group *group, int held,
                            int k, const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    int slot = group->rank_first[rank] + k;
    embedding_emission emission = {
        .stage = LS_STAGE_INPUT_DIST,
        .field = LS_STAGE_FIELD_LENGTHS,
        .rank = rank,
        .pair = group->slots[slot].pair,
        .shard = ls_embedding__shard_label(module, module->pairs[group->slots[slot].pair].table,
                                           group->slots[slot].shard),
        .dtype = LS_I64,
        .shape = LS_SHAPE(part->bags[k]),
        .data = part->lengths[k],
        .in_host_memory = true};
    LS_TRY(ls_embedding__emit(module, sink, &emission));
    emission.field = LS_STAGE_FIELD_IDS;
    emission.shape = LS_SHAPE(part->offsets[k][part->bags[k]]);
    emission.data = part->ids[k];
    emission.in_host_memory = false;
    LS_TRY(ls_embedding__emit(module, sink, &emission));
    if (!group->weighted) {
        return LS_OK;
    }
    emission.field = LS_STAGE_FIELD_WEIGHTS;
    emission.dtype = group->dtype == LS_FIELD ? LS_FIELD : LS_F32;
    emission.data = part->weights[k];
    return ls_embedding__emit(module, sink, &emission);
}
