// Stage 2, lookup: every shard pools or gathers the ids that reached it. Sums and maxima alone:
// what a bag is divided by is known to its source rank, which divides once, after the reduction.
// Pooled results go side by side into the rank's row of partial results, ready to be reduced or
// sent.
#include "embedding/internal.h"

#include <math.h>
#include <string.h>

// One shard's work: where its rows of results go, and with which stride.
typedef struct shard_lookup {
    const embedding_group *group;
    const embedding_slot *slot;
    const embedding_table *table;
    embedding_part *part;
    int k;           // own slot
    char *out;       // [rows, columns of the shard]
    int64_t stride;  // elements
    int64_t rows;
} shard_lookup;

static size_t element_bytes(const shard_lookup *l) {
    return ls_dtype_bytes(l->group->dtype);
}

// -infinity where a bag has no id that counts, so that a maximum over several shards passes it by.
static void mark_empty_bags(const shard_lookup *l) {
    const int64_t *offsets = l->part->offsets[l->k], *ids = l->part->ids[l->k];
    for (int64_t bag = 0; bag < l->rows; bag++) {
        bool empty = true;
        for (int64_t i = offsets[bag]; i < offsets[bag + 1] && empty; i++) {
            empty = ids[i] == l->slot->local_padding;
        }
        for (int64_t c = 0; c < l->slot->block.columns && empty; c++) {
            ls_element_from_f64(l->out + (size_t)(bag * l->stride + c) * element_bytes(l),
                                l->group->dtype, -(double)INFINITY);
        }
    }
}

static void pool(const shard_lookup *l) {
    if (l->rows == 0) {
        return;
    }
    ls_kernel_pooled_lookup(l->out, (size_t)l->stride, l->table->shards[l->slot->shard].data,
                            l->table->config->dtype, l->slot->block.rows,
                            (size_t)l->slot->block.columns, l->part->ids[l->k],
                            l->part->offsets[l->k], l->part->weights[l->k], l->slot->local_padding,
                            l->group->pooling, (size_t)l->rows);
    if (l->group->pooling == LS_POOL_MAX && l->group->width > 1) {
        mark_empty_bags(l);
    }
}

// The rank's row of partial results, [bags, columns of its node]. Where ranks reduce, columns that
// it has no shard for hold the operation's neutral element.
static int make_partial(ls_embedding_pass *pass, const embedding_group *group, int node,
                        embedding_part *part) {
    size_t count;
    LS_TRY(ls_embedding__count(&count, part->bags, group->node_columns[node], 1));
    part->partial = ls_arena_alloc(pass->arena, count, ls_dtype_bytes(group->dtype));
    if (!part->partial) {
        return ls_error_last()->code;
    }
    if (group->pooling == LS_POOL_MAX && group->width > 1 && count > 0) {
        double neutral;
        ls_element_from_f64(&neutral, group->dtype, -(double)INFINITY);
        ls_kernel_fill(part->partial, group->dtype, &neutral, count);
    }
    return LS_OK;
}

// A dense array for one shard's results.
static int make_dense(ls_arena *arena, shard_lookup *l) {
    size_t count;
    LS_TRY(ls_embedding__count(&count, l->rows, l->slot->block.columns, 1));
    l->out = ls_arena_alloc(arena, count, element_bytes(l));
    l->stride = l->slot->block.columns;
    return l->out ? LS_OK : ls_error_last()->code;
}

// Pools into the partial results; a further row block of the same columns is added to what is
// there. *dense, when asked for, gets the shard's own results side by side.
static int pool_partial(shard_lookup *l, int64_t stride, ls_arena *scratch, bool wants_dense,
                        const void **dense) {
    size_t bytes = element_bytes(l), row_bytes = (size_t)l->slot->block.columns * bytes;
    char *partial = (char *)l->part->partial + (size_t)l->slot->node_column * bytes;
    if (l->slot->first_in_rank) {
        l->out = partial;
        l->stride = stride;
        pool(l);
        if (wants_dense && l->rows > 0) {
            LS_TRY(make_dense(scratch, l));
            ls_kernel_copy_2d(l->out, row_bytes, partial, (size_t)stride * bytes, row_bytes,
                              (size_t)l->rows);
        }
    } else {
        LS_TRY(make_dense(scratch, l));
        pool(l);
        for (int64_t row = 0; row < l->rows; row++) {
            ls_kernel_accumulate(partial + (size_t)(row * stride) * bytes,
                                 l->out + (size_t)row * row_bytes, l->group->dtype,
                                 l->group->pooling == LS_POOL_MAX ? LS_MAX : LS_SUM,
                                 (size_t)l->slot->block.columns);
        }
    }
    *dense = l->out;
    return LS_OK;
}

static int lookup_slot(ls_embedding_pass *pass, const embedding_group *group, int held, int k,
                       ls_arena *scratch, const ls_stage_sink *sink) {
    ls_embedding *module = pass->module;
    embedding_part *part = &pass->parts[held][group - module->groups];
    int rank = ls_world_held(module->world)[held], index = group->rank_first[rank] + k;
    const embedding_slot *slot = &group->slots[index];
    bool sequence = group->pooling == LS_POOL_NONE;
    shard_lookup l = {.group = group,
                      .slot = slot,
                      .table = &module->tables[module->pairs[slot->pair].table],
                      .part = part,
                      .k = k,
                      .rows = sequence ? part->offsets[k][part->bags] : part->bags};
    LS_ASSERT(l.table->held[slot->shard]);
    const void *values;
    if (sequence || group->local) {
        LS_TRY(make_dense(pass->arena, &l));
        values = part->values[k] = l.out;
        if (!sequence) {
            pool(&l);
        } else if (l.rows > 0) {
            ls_kernel_gather_rows(l.out, l.table->shards[slot->shard].data,
                                  (size_t)slot->block.columns * element_bytes(&l), slot->block.rows,
                                  part->ids[k], (size_t)l.rows);
        }
    } else {
        LS_TRY(pool_partial(&l, group->node_columns[rank / group->width], scratch, sink != NULL,
                            &values));
    }
    embedding_emission emission = {.stage = "lookup",
                                   .field = "values",
                                   .rank = rank,
                                   .pair = slot->pair,
                                   .shard = ls_embedding__shard_label(module, group, index),
                                   .dtype = group->dtype,
                                   .shape = LS_SHAPE(l.rows, slot->block.columns),
                                   .data = values,
                                   .reduces = group->pooling == LS_POOL_SUM};
    return ls_embedding__emit(module, sink, &emission);
}

static int lookup_rank(ls_embedding_pass *pass, const embedding_group *group, int held,
                       const ls_stage_sink *sink) {
    const ls_embedding *module = pass->module;
    int rank = ls_world_held(module->world)[held];
    if (group->pooling != LS_POOL_NONE && !group->local) {
        LS_TRY(make_partial(pass, group, rank / group->width,
                            &pass->parts[held][group - module->groups]));
    }
    int status = LS_OK;
    for (int k = 0; k < group->rank_first[rank + 1] - group->rank_first[rank] && !status; k++) {
        ls_arena *scratch;
        LS_TRY(ls_arena_create(&scratch, ls_world_allocator(module->world)));
        status = lookup_slot(pass, group, held, k, scratch, sink);
        ls_arena_free(scratch);
    }
    return status;
}

int ls_embedding__lookup(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    for (int g = 0; g < pass->module->group_count; g++) {
        for (int h = 0; h < pass->held_count; h++) {
            LS_TRY(lookup_rank(pass, &pass->module->groups[g], h, sink));
        }
    }
    return LS_OK;
}
