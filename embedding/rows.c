// One row for every id that travelled from its source to its owner: rows that owners send back the
// way the ids came (a sequence's values, gradients of weights), and rows that sources send after
// their ids (a sequence's gradients).
#include "embedding/internal.h"

// One held rank's part in it.
typedef struct row_side {
    size_t *owner_counts;   // [world size] elements between this rank as an owner and each source
    size_t *source_counts;  // [world size] between this rank as a source and each owner
    size_t owned, sourced;  // their sums
    void *packed;           // (device) what the owner sends or gets, by source rank, then slot
} row_side;

static int64_t columns_of(const embedding_rows *rows, const embedding_slot *slot) {
    return rows->columns > 0 ? rows->columns : slot->block.columns;
}

static int count_side(const ls_embedding_pass *pass, const embedding_group *group,
                      const embedding_rows *rows, int held, ls_arena *arena, row_side *out) {
    const ls_embedding *module = pass->module;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    int own_rank = ls_world_held(module->world)[held], first = group->rank_first[own_rank];
    int own = slots_of(group, own_rank);
    int64_t *bags;
    ARENA_NEW(bags, arena, own);
    ARENA_NEW(out->owner_counts, arena, module->size);
    ARENA_NEW(out->source_counts, arena, module->size);
    for (int i = 0; i < module->size; i++) {
        int rank = ls_embedding__source(group, module->size, i);
        for (int k = 0; k < own; k++) {
            const embedding_slot *slot = &group->slots[first + k];
            size_t count, *sum = &out->owner_counts[rank];
            LS_TRY(ls_embedding__count(&count, ls_embedding__came(part, rank, slot, k, &bags[k]),
                                       columns_of(rows, slot), 1));
            LS_TRY(ls_size_add(sum, *sum, count));
        }
        for (int slot = group->rank_first[rank]; slot < group->rank_first[rank + 1]; slot++) {
            size_t count, *sum = &out->source_counts[rank];
            LS_TRY(ls_embedding__count(&count, part->sent_ids[slot],
                                       columns_of(rows, &group->slots[slot]), 1));
            LS_TRY(ls_size_add(sum, *sum, count));
        }
        LS_TRY(ls_size_add(&out->owned, out->owned, out->owner_counts[rank]));
        LS_TRY(ls_size_add(&out->sourced, out->sourced, out->source_counts[rank]));
    }
    return LS_OK;
}

// Between the owner's arrays, each in the group's order of sources, and what travels, which is in
// the order of the ranks.
static int pack_owner(const ls_embedding_pass *pass, const embedding_group *group,
                      const embedding_rows *rows, int held, const row_side *side, ls_arena *arena) {
    const ls_embedding *module = pass->module;
    ls_device *device = module->device;
    const embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    int first = group->rank_first[rank], own = slots_of(group, rank);
    size_t bytes = ls_dtype_bytes(rows->dtype), *at, *starts;
    int64_t *bags;
    ARENA_NEW(at, arena, own);
    ARENA_NEW(bags, arena, own);
    ARENA_NEW(starts, arena, module->size);
    for (int source = 1; source < module->size; source++) {
        starts[source] = starts[source - 1] + side->owner_counts[source - 1];
    }
    for (int i = 0; i < module->size; i++) {
        int source = ls_embedding__source(group, module->size, i);
        size_t packed = starts[source];
        for (int k = 0; k < own; k++) {
            const embedding_slot *slot = &group->slots[first + k];
            size_t count = (size_t)ls_embedding__came(part, source, slot, k, &bags[k]) *
                           (size_t)columns_of(rows, slot);
            char *travels = (char *)side->packed + packed * bytes;
            char *owned = (char *)rows->owned[held][k] + at[k] * bytes;
            if (count > 0) {
                LS_TRY(device->ops->copy(device, rows->to_owner ? owned : travels,
                                         rows->to_owner ? travels : owned, count * bytes));
            }
            packed += count;
            at[k] += count;
        }
    }
    return LS_OK;
}

int ls_embedding__exchange_rows(const ls_embedding_pass *pass, const embedding_group *group,
                                const embedding_rows *rows, embedding_pool *scratch) {
    const ls_embedding *module = pass->module;
    row_side *ways;
    embedding_side *sides;
    ARENA_NEW(ways, scratch->arena, pass->held_count);
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h];
        LS_TRY(count_side(pass, group, rows, h, scratch->arena, &ways[h]));
        LS_TRY(ls_embedding__take_elements(scratch, &ways[h].packed, rank, "an owner's rows",
                                           ways[h].owned, rows->dtype));
        if (rows->to_owner) {
            sides[h] = (embedding_side){.rank = rank,
                                        .send = rows->sourced[h],
                                        .recv = ways[h].packed,
                                        .send_counts = ways[h].source_counts,
                                        .recv_counts = ways[h].owner_counts};
            continue;
        }
        LS_TRY(pack_owner(pass, group, rows, h, &ways[h], scratch->arena));
        LS_TRY(ls_embedding__take_elements(scratch, &rows->sourced[h], rank, "rows that come back",
                                           ways[h].sourced, rows->dtype));
        sides[h] = (embedding_side){.rank = rank,
                                    .send = ways[h].packed,
                                    .recv = rows->sourced[h],
                                    .send_counts = ways[h].owner_counts,
                                    .recv_counts = ways[h].source_counts};
    }
    embedding_exchange exchange = {.kind = LS_ALL_TO_ALL,
                                   .comm = module->comm,
                                   .dtype = rows->dtype,
                                   .stage = rows->stage,
                                   .what = rows->what};
    LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, pass->held_count));
    for (int h = 0; h < pass->held_count && rows->to_owner; h++) {
        LS_TRY(pack_owner(pass, group, rows, h, &ways[h], scratch->arena));
    }
    return LS_OK;
}
