// The updates of a recorded step: the gradients that arrive for each shard, and the resulting
// weights.
#include <math.h>
#include <string.h>

#include "runner/plan/work_internal.h"
#include "embedding/stages.h"

// ---- Watching -----------------------------------------------------------------------------------
static int table_of(const ls_work *steps, const ls_stage_output *output) {
    int table = 0;
    while (strcmp(steps->scenario->tables[table].name, output->table) != 0) {
        table++;
        LS_ASSERT(table < steps->scenario->table_count);
    }
    return table;
}

static const void *copy_of(ls_update_watch *w, const ls_stage_output *output) {
    size_t count = 0, bytes = 0;
    if (ls_shape_count(&count, &output->shape) != LS_OK ||
        ls_size_mul(&bytes, count, ls_dtype_bytes(output->dtype)) != LS_OK) {
        return NULL;
    }
    return ls_arena_copy(w->arena, bytes > 0 ? output->data : "", bytes > 0 ? bytes : 1);
}

static int see_arrival(ls_update_watch *w, const ls_stage_output *output, bool local) {
    int table = table_of(w->steps, output), feature = 0;
    const ls_plan_table *plan = &w->plan->tables[table];
    if (local && plan->sharding != LS_DATA_PARALLEL) {
        return LS_OK;
    }
    while (strcmp(w->steps->scenario->tables[table].features.at[feature], output->feature) != 0) {
        feature++;
    }
    ls_arrival *arrival = ls_arena_alloc(w->arena, 1, sizeof *arrival);
    const void *values = copy_of(w, output);
    LS_TRY_MEMORY(arrival != NULL && values != NULL);
    *arrival = (ls_arrival){.rank = output->rank,
                            .table = table,
                            .feature = feature,
                            .shard = ls_work__shard(plan, output->rank, output->field),
                            .dtype = output->dtype,
                            .values = values,
                            .next = w->arrivals};
    w->arrivals = arrival;
    return LS_OK;
}

static ls_work_update *find_update(const ls_work *steps, int rank, int table, int shard) {
    for (int i = 0; i < steps->update_count; i++) {
        ls_work_update *update = &steps->updates[i];
        if (update->rank == rank && update->table == table && update->shard == shard) {
            return update;
        }
    }
    return NULL;
}

// The update of a shard; created if it is new.
static int update_of(ls_work_update **out, ls_update_watch *w, const ls_stage_output *output) {
    ls_work *steps = w->steps;
    int table = table_of(steps, output);
    const ls_plan_table *plan = &w->plan->tables[table];
    int shard = ls_work__shard(plan, output->rank, output->field);
    *out = find_update(steps, output->rank, table, shard);
    if (*out != NULL) {
        return LS_OK;
    }
    ls_work_update *grown = ls_arena_grow(w->arena, steps->updates, steps->update_count,
                                          &w->update_room, sizeof *grown);
    LS_TRY_MEMORY(grown != NULL);
    steps->updates = grown;
    const ls_scenario_table *about = &steps->scenario->tables[table];
    *out = &steps->updates[steps->update_count++];
    **out = (ls_work_update){.rank = output->rank,
                             .table = table,
                             .shard = shard,
                             .block = plan->shards[shard],
                             .dtype = about->dtype,
                             .sum_dtype = ls_optimizer_state_dtype(about->dtype),
                             .optimizer = ls_scenario_optimizer_of(steps->scenario, table),
                             .padding_id = -1};
    int64_t padding = about->padding_id - plan->shards[shard].row_offset;
    if (about->padding_id >= 0 && padding >= 0 && padding < plan->shards[shard].rows) {
        (*out)->padding_id = padding;
    }
    return LS_OK;
}

int ls_work__see_update(ls_update_watch *w, const ls_stage_output *output) {
    if (output->stage_of_tables == LS_STAGE_OUTPUT_DIST_BACKWARD) {
        return see_arrival(w, output, false);
    }
    if (output->stage_of_tables == LS_STAGE_OUTPUT_GRAD) {
        return see_arrival(w, output, true);
    }
    bool reduced = output->stage_of_tables == LS_STAGE_ALL_REDUCE;
    if (!reduced && (output->stage_of_tables != LS_STAGE_UPDATE ||
                     output->field_of_tables != LS_STAGE_FIELD_WEIGHTS)) {
        return LS_OK;
    }
    ls_work_update *update = NULL;
    LS_TRY(update_of(&update, w, output));
    const void **kept = reduced ? &update->dense : &update->weights;
    *kept = copy_of(w, output);
    return *kept != NULL ? LS_OK : LS_ERR_MEMORY;
}

// ---- Joining ------------------------------------------------------------------------------------
static const ls_work_lookup *find_lookup(const ls_work *steps, const ls_work_update *update,
                                         int feature) {
    for (int i = 0; i < steps->lookup_count; i++) {
        const ls_work_lookup *lookup = &steps->lookups[i];
        if (lookup->rank == update->rank && lookup->table == update->table &&
            lookup->shard == update->shard && lookup->feature == feature) {
            return lookup;
        }
    }
    return NULL;
}

static const ls_arrival *find_arrival(const ls_update_watch *w, const ls_work_update *update,
                                      int feature) {
    const ls_arrival *arrival = w->arrivals;
    while (arrival != NULL && !(arrival->rank == update->rank && arrival->table == update->table &&
                                arrival->shard == update->shard && arrival->feature == feature)) {
        arrival = arrival->next;
    }
    return arrival;
}

static size_t rows_of(const ls_work_lookup *lookup) {
    return (size_t)(lookup->pooling == LS_POOL_NONE ? lookup->id_count : lookup->bags);
}

// Appends one feature's occurrences.
static void append(ls_work_update *out, const ls_work_lookup *lookup, const ls_arrival *arrival) {
    size_t ids = (size_t)lookup->id_count, rows = rows_of(lookup);
    size_t row_bytes = (size_t)out->block.columns * ls_dtype_bytes(arrival->dtype);
    for (size_t i = 0; i < ids; i++) {
        out->ids[out->id_count + i] = lookup->ids[i];
        if (out->scales != NULL) {
            out->scales[out->id_count + i] = lookup->weights[i];
        }
    }
    for (int64_t b = 0; b < lookup->bags && lookup->pooling != LS_POOL_NONE; b++) {
        for (int64_t i = lookup->offsets[b]; i < lookup->offsets[b + 1]; i++) {
            out->row_of[out->id_count + (size_t)i] = (int64_t)out->row_count + b;
        }
    }
    for (size_t i = 0; i < ids && lookup->pooling == LS_POOL_NONE; i++) {
        out->row_of[out->id_count + i] = (int64_t)(out->row_count + i);
    }
    if (rows > 0) {
        memcpy((char *)out->gradients + out->row_count * row_bytes, arrival->values,
               rows * row_bytes);
    }
    out->id_count += ids;
    out->row_count += rows;
}

// The factor of all gradients, from the sum of squares that the ranks reduced.
static double clip_factor(const ls_work *steps) {
    for (int i = 0; i < steps->collective_count; i++) {
        const ls_work_collective *collective = &steps->collectives[i];
        if (collective->calls[0].stage_of_tables == LS_STAGE_CLIP) {
            double norm = sqrt(*(const double *)collective->calls[0].recv);
            double factor = steps->scenario->train.clip_norm / (norm + 1e-6);
            return factor > 1 ? 1 : factor;
        }
    }
    return 1;
}

static int join(ls_update_watch *w, ls_work_update *update) {
    const ls_work *steps = w->steps;
    int features = steps->scenario->tables[update->table].features.count;
    size_t ids = 0, rows = 0;
    bool weighted = false;
    update->factor = clip_factor(steps);
    for (int f = 0; f < features; f++) {
        const ls_work_lookup *lookup = find_lookup(steps, update, f);
        const ls_arrival *arrival = find_arrival(w, update, f);
        LS_ASSERT(lookup != NULL && arrival != NULL);
        ids += (size_t)lookup->id_count;
        rows += rows_of(lookup);
        weighted = weighted || lookup->weights != NULL;
        update->dtype_in = arrival->dtype;
    }
    size_t cells;
    LS_TRY(ls_size_mul(&cells, rows, (size_t)update->block.columns));
    update->ids = ls_arena_alloc(w->arena, ids, sizeof *update->ids);
    update->row_of = ls_arena_alloc(w->arena, ids, sizeof *update->row_of);
    update->scales = weighted ? ls_arena_alloc(w->arena, ids, sizeof *update->scales) : NULL;
    update->gradients = ls_arena_alloc(w->arena, cells, ls_dtype_bytes(update->dtype_in));
    LS_TRY_MEMORY(update->ids != NULL && update->row_of != NULL && update->gradients != NULL &&
                  (!weighted || update->scales != NULL));
    for (int f = 0; f < features; f++) {
        append(update, find_lookup(steps, update, f), find_arrival(w, update, f));
    }
    return LS_OK;
}

// The rows of a data parallel table that any rank's batch touched, in the fused form: their part of
// the reduced gradients.
static int keep_touched(ls_update_watch *w, ls_work_update *update) {
    const ls_work *steps = w->steps;
    size_t row_bytes = (size_t)update->block.columns * ls_dtype_bytes(update->sum_dtype);
    size_t rows = (size_t)update->block.rows;
    bool *touched = ls_arena_alloc(w->arena, rows, sizeof *touched);
    char *dense = ls_arena_alloc(w->arena, rows, row_bytes);
    update->dense_rows = ls_arena_alloc(w->arena, rows, sizeof *update->dense_rows);
    LS_TRY_MEMORY(touched != NULL && dense != NULL && update->dense_rows != NULL);
    for (int i = 0; i < steps->update_count; i++) {
        const ls_work_update *other = &steps->updates[i];
        for (size_t k = 0; k < other->id_count && other->table == update->table; k++) {
            touched[other->ids[k]] = other->ids[k] != other->padding_id;
        }
    }
    for (size_t row = 0; row < rows; row++) {
        if (touched[row]) {
            memcpy(dense + update->dense_count * row_bytes,
                   (const char *)update->dense + row * row_bytes, row_bytes);
            update->dense_rows[update->dense_count++] = (int64_t)row;
        }
    }
    update->dense = dense;
    return LS_OK;
}

int ls_work__join_updates(ls_update_watch *w) {
    for (int i = 0; i < w->steps->update_count; i++) {
        LS_TRY(join(w, &w->steps->updates[i]));
    }
    for (int i = 0; i < w->steps->update_count; i++) {
        ls_work_update *update = &w->steps->updates[i];
        update->dense_count = (size_t)update->block.rows;
        if (update->dense != NULL && update->optimizer->form != LS_OPTIMIZER_DENSE) {
            update->dense_count = 0;
            LS_TRY(keep_touched(w, update));
        }
    }
    return LS_OK;
}
