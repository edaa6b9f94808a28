// Stage 2, lookup: every shard pools or gathers the ids that reached it. Sums and maxima alone:
// what a bag is divided by is known to its source rank, which divides once, after the reduction.
#include "embedding/internal.h"

#include <math.h>

// -infinity where a bag has no id that counts, so that a maximum over several shards passes it by.
static void mark_empty_bags(void *values, ls_dtype dtype, int64_t columns, const int64_t *offsets,
                            const int64_t *ids, int64_t padding, int64_t bags) {
    double minus_infinity = -(double)INFINITY;
    for (int64_t bag = 0; bag < bags; bag++) {
        bool empty = true;
        for (int64_t i = offsets[bag]; i < offsets[bag + 1] && empty; i++) {
            empty = ids[i] == padding;
        }
        for (int64_t c = 0; c < columns && empty; c++) {
            size_t at = (size_t)(bag * columns + c) * ls_dtype_bytes(dtype);
            ls_element_from_f64((char *)values + at, dtype, minus_infinity);
        }
    }
}

static int lookup_slot(ls_embedding_pass *pass, const embedding_group *group, int held, int k,
                       ls_shape *shape) {
    ls_embedding *module = pass->module;
    embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held];
    const embedding_slot *slot = &group->slots[group->rank_first[rank] + k];
    const embedding_table *table = &module->tables[module->pairs[slot->pair].table];
    LS_ASSERT(table->held[slot->shard]);
    const void *weights = table->shards[slot->shard].data;
    int64_t rows = slot->block.rows, columns = slot->block.columns;
    bool sequence = group->pooling == LS_POOL_NONE;
    int64_t ids = part->offsets[k][part->bags], out_rows = sequence ? ids : part->bags;
    *shape = LS_SHAPE(out_rows, columns);

    size_t count, element_bytes = ls_dtype_bytes(group->dtype);
    LS_TRY(ls_embedding__count(&count, out_rows, columns, 1));
    part->values[k] = ls_arena_alloc(pass->arena, count, element_bytes);
    if (!part->values[k]) {
        return ls_error_last()->code;
    }
    if (count == 0) {
        return LS_OK;
    }
    if (sequence) {
        ls_kernel_gather_rows(part->values[k], weights, (size_t)columns * element_bytes, rows,
                              part->ids[k], (size_t)ids);
        return LS_OK;
    }
    ls_kernel_pooled_lookup(part->values[k], (size_t)columns, weights, table->config->dtype, rows,
                            (size_t)columns, part->ids[k], part->offsets[k], part->weights[k],
                            slot->local_padding, group->pooling, (size_t)part->bags);
    if (group->pooling == LS_POOL_MAX && group->width > 1) {
        mark_empty_bags(part->values[k], group->dtype, columns, part->offsets[k], part->ids[k],
                        slot->local_padding, part->bags);
    }
    return LS_OK;
}

int ls_embedding__lookup(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    for (int g = 0; g < module->group_count; g++) {
        const embedding_group *group = &module->groups[g];
        for (int h = 0; h < pass->held_count; h++) {
            int rank = ls_world_held(module->world)[h];
            int first = group->rank_first[rank];
            for (int k = 0; k < group->rank_first[rank + 1] - first; k++) {
                embedding_emission emission = {
                    .stage = "lookup",
                    .field = "values",
                    .rank = rank,
                    .pair = group->slots[first + k].pair,
                    .shard = ls_embedding__shard_label(module, group, first + k),
                    .dtype = group->dtype,
                    .reduces = group->pooling == LS_POOL_SUM};
                LS_TRY(lookup_slot(pass, group, h, k, &emission.shape));
                emission.data = pass->parts[h][g].values[k];
                LS_TRY(ls_embedding__emit(module, sink, &emission));
            }
        }
    }
    return LS_OK;
}
