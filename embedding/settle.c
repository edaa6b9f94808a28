// The end of stage 1: what arrived, from the order of its senders to the order of an owner's slots.
#include "embedding/input_dist.h"

static const char *feature_of(const ls_embedding *module, const embedding_group *group, int rank,
                              int k) {
    const embedding_pair *pair = &module->pairs[group->slots[group->rank_first[rank] + k].pair];
    return module->tables[pair->table].config->features[pair->feature];
}

// Where slot k of source rank `from` begins in what arrived, [world size][own slots].
typedef struct arrival {
    size_t *lengths, *ids;
} arrival;

static int locate(const ls_embedding *module, const embedding_group *group,
                  const embedding_traffic *side, const embedding_part *part, ls_arena *scratch,
                  arrival *out) {
    int own = slots_of(group, side->rank);
    size_t cells;
    LS_TRY(ls_embedding__count(&cells, module->size, own, 1));
    out->lengths = ls_arena_alloc_raw(scratch, cells, sizeof *out->lengths);
    out->ids = ls_arena_alloc_raw(scratch, cells, sizeof *out->ids);
    if (!out->lengths || !out->ids) {
        return ls_error_last()->code;
    }
    size_t length_at = 0, id_at = 0;
    for (int from = 0; from < module->size; from++) {
        int64_t left = (int64_t)side->recv_counts[PAYLOAD_IDS][from];
        for (int k = 0; k < own; k++) {
            size_t cell = (size_t)from * (size_t)own + (size_t)k;
            out->lengths[cell] = length_at;
            out->ids[cell] = id_at;
            const embedding_slot *slot = &group->slots[group->rank_first[side->rank] + k];
            int64_t batch = ls_embedding__batch(part, from, slot);
            const int64_t *lengths = side->lengths + length_at;
            for (int64_t b = 0; b < batch; b++) {
                if (lengths[b] < 0 || lengths[b] > left) {
                    return LS_FAIL_RANK(LS_ERR_MISMATCH, side->rank,
                                        "input_dist: rank %d sent rank %d for feature %s a length "
                                        "of %lld with %lld ids left",
                                        from, side->rank, feature_of(module, group, side->rank, k),
                                        (long long)lengths[b], (long long)left);
                }
                left -= lengths[b];
                id_at += (size_t)lengths[b];
            }
            length_at += (size_t)batch;
        }
        if (own > 0 && left != 0) {
            return LS_FAIL_RANK(
                LS_ERR_MISMATCH, side->rank,
                "input_dist: rank %d sent rank %d %lld ids more than its lengths add up to", from,
                side->rank, (long long)left);
        }
    }
    return LS_OK;
}

// The lengths of slot k from every source, in the group's order of sources, and what follows from
// them. Of many ranks these are most of what input_dist writes.
static int gather_lengths(const ls_embedding *module, const embedding_group *group,
                          const embedding_traffic *side, const arrival *where, int k,
                          ls_arena *arena, embedding_part *part) {
    int own = slots_of(group, side->rank);
    const embedding_slot *slot = &group->slots[group->rank_first[side->rank] + k];
    int64_t bags = 0, bag = 0, upto = 0;
    for (int from = 0; from < module->size; from++) {
        bags += ls_embedding__batch(part, from, slot);
    }
    bool kept = keeps_lengths(module, group, side->rank);
    int64_t *lengths = kept ? side->recv[PAYLOAD_LENGTHS]
                            : ls_arena_alloc_raw(arena, (size_t)bags, sizeof *lengths);
    int64_t *offsets = ls_arena_alloc_raw(arena, (size_t)bags + 1, sizeof *offsets);
    if (!lengths || !offsets) {
        return ls_error_last()->code;
    }
    for (int i = 0; i < module->size; i++) {
        int from = ls_embedding__source(group, module->size, i);
        const int64_t *sent =
            side->lengths + where->lengths[(size_t)from * (size_t)own + (size_t)k];
        int64_t batch = ls_embedding__batch(part, from, slot);
        for (int64_t b = 0; b < batch; b++, bag++) {
            lengths[bag] = sent[b];  // kept: the same place
            offsets[bag] = upto;
            upto += sent[b];
        }
    }
    offsets[bags] = upto;
    part->bags[k] = bags;
    part->lengths[k] = lengths;
    part->offsets[k] = offsets;
    return LS_OK;
}

// Fills slot k: what every source sent for it, in the group's order of sources.
static int gather_slot(const ls_embedding *module, const embedding_group *group,
                       const embedding_traffic *side, const arrival *where, int k,
                       embedding_pool *pool, ls_arena *filled, embedding_part *part) {
    ls_device *device = module->device;
    int own = slots_of(group, side->rank);
    LS_TRY(gather_lengths(module, group, side, where, k, filled, part));
    LS_TRY(ls_embedding__part_slot(pool, group, side->rank, k, part));
    const embedding_slot *slot = &group->slots[group->rank_first[side->rank] + k];
    int64_t at = 0, bag = 0;
    for (int i = 0; i < module->size; i++) {
        int from = ls_embedding__source(group, module->size, i);
        size_t first = where->ids[(size_t)from * (size_t)own + (size_t)k];
        size_t count = (size_t)ls_embedding__came(part, from, slot, k, &bag);
        if (count > 0) {
            LS_TRY(device->ops->copy(device, part->ids[k] + at, side->ids + first,
                                     count * sizeof(int64_t)));
        }
        if (count > 0 && group->weighted) {
            LS_TRY(device->ops->copy(device, part->weights[k] + at, side->weights + first,
                                     count * sizeof(float)));
        }
        at += (int64_t)count;
    }
    return LS_OK;
}

// Ids that arrived must be rows of the shard: other processes are not trusted with our memory.
static int check_rows(const ls_embedding *module, const embedding_group *group, int rank, int k,
                      const embedding_part *part) {
    ls_device *device = module->device;
    const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
    size_t bad = 0, count = (size_t)part->offsets[k][part->bags[k]];
    int status =
        device->ops->resolve_ids(device, part->ids[k], count, slot->block.rows, LS_ID_ERROR, &bad);
    if (status == LS_ERR_INVALID) {
        ls_error error = *ls_error_last();
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "input_dist: rank %d was sent for feature %s local rows of a shard of "
                            "%lld rows: %s",
                            rank, feature_of(module, group, rank, k), (long long)slot->block.rows,
                            error.text);
    }
    return status;
}

// The places of all sources' blocks in the rank's partial results.
static int start_blocks(const ls_embedding *module, const embedding_group *group, int rank,
                        embedding_part *part, ls_arena *arena) {
    const int *blocks = group->blocks + group->block_first[rank / group->width];
    ARENA_NEW(part->starts, arena, (size_t)module->size * (size_t)part->kinds + 1);
    size_t at = 0;
    for (int i = 0; i < module->size; i++) {
        int from = ls_embedding__source(group, module->size, i);
        for (int b = 0; b < part->kinds; b++, at++) {
            const embedding_slot *slot = &group->slots[blocks[b]];
            size_t count;
            LS_TRY(ls_embedding__count(&count, ls_embedding__batch(part, from, slot),
                                       slot->block.columns, 1));
            LS_TRY(ls_size_add(&part->starts[at + 1], part->starts[at], count));
        }
    }
    return LS_OK;
}

static int settle(ls_embedding_pass *pass, const embedding_group *group,
                  const embedding_traffic *side, ls_arena *scratch, embedding_part *part) {
    arrival where = {0};
    LS_TRY(locate(pass->module, group, side, part, scratch, &where));
    LS_TRY(ls_embedding__part_create(part, group, side->rank, pass->arena));
    int own = slots_of(group, side->rank);
    for (int k = 0; k < own; k++) {
        LS_TRY(gather_slot(pass->module, group, side, &where, k, &pass->pool, pass->filled.arena,
                           part));
        LS_TRY(check_rows(pass->module, group, side->rank, k, part));
    }
    if (part->variable && group->pooling != LS_POOL_NONE) {
        LS_TRY(start_blocks(pass->module, group, side->rank, part, pass->arena));
    }
    return LS_OK;
}

int ls_embedding__settle_rank(ls_embedding_pass *pass, const embedding_group *group,
                              const embedding_traffic *side, embedding_part *part) {
    ls_arena *scratch = NULL;
    LS_TRY(ls_arena_create(&scratch));
    int status = settle(pass, group, side, scratch, part);
    ls_arena_free(scratch);
    return status;
}
