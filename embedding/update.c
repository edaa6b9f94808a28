// Update: one step of each table's optimizer on the held shards, with gradients clipped where that
// is asked for.
#include <math.h>

#include "embedding/internal.h"
#include "embedding/training.h"

// ---- Clipping -----------------------------------------------------------------------------------

// The sum of the squares of a shard's gradients: each row in f64, as in kernels/training.h, then
// the rows in ascending order.
static int sum_squares(const ls_embedding *module, const embedding_touched *touched,
                       embedding_pool *scratch, double *sum) {
    ls_device *device = module->device;
    const embedding_table *table = &module->tables[touched->table];
    const ls_plan_shard *block = &table->plan->shards[touched->shard];
    int64_t *numbers;
    void *sums;
    const void *uploaded, *fetched;
    ARENA_NEW(numbers, scratch->arena, touched->count);
    for (size_t i = 0; i < touched->count; i++) {
        numbers[i] = (int64_t)i;
    }
    const embedding_array array = {block->rank, table->first_pair, "norms of gradients",
                                   touched->count, sizeof(double)};
    LS_TRY(ls_embedding__upload(scratch, &uploaded, &array, numbers));
    LS_TRY(ls_embedding__take(scratch, &sums, &array));
    LS_TRY(device->ops->norm_sums(device, sums, touched->gradients,
                                  &(const ls_table_shape){ls_embedding__gradient_dtype(table),
                                                          (int64_t)touched->count,
                                                          (size_t)block->columns},
                                  uploaded, touched->count, 2));
    LS_TRY(ls_embedding__fetch(scratch, &fetched, sums, touched->count, sizeof(double)));
    for (size_t i = 0; i < touched->count; i++) {
        *sum += ((const double *)fetched)[i];
    }
    return LS_OK;
}

// The factor of the gradients: as torch.nn.utils.clip_grad_norm_ over all tables together. Copies
// of a data parallel table count once, on the first rank.
static int clip(ls_embedding_pass *pass, embedding_pool *scratch, const ls_stage_sink *sink,
                double *factor) {
    const ls_embedding *module = pass->module;
    embedding_side *sides;
    double *squares;
    ARENA_NEW(sides, scratch->arena, pass->held_count);
    ARENA_NEW(squares, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        int rank = ls_world_held(module->world)[h];
        for (int i = 0; i < pass->touched_count[h]; i++) {
            const embedding_touched *touched = &pass->touched[h][i];
            if (rank == 0 || !module->groups[module->tables[touched->table].group].local) {
                LS_TRY(sum_squares(module, touched, scratch, &squares[h]));
            }
        }
        sides[h] =
            (embedding_side){.rank = rank, .send = &squares[h], .recv = &squares[h], .count = 1};
    }
    const embedding_exchange exchange = {.kind = LS_ALL_REDUCE,
                                         .comm = module->comm,
                                         .dtype = LS_F64,
                                         .op = LS_SUM,
                                         .stage = LS_STAGE_CLIP,
                                         .what = "clip squares"};
    LS_TRY(ls_embedding__exchange(module->backend, &exchange, sides, pass->held_count));
    for (int h = 0; h < pass->held_count; h++) {
        double norm = sqrt(squares[h]);
        float rounded = (float)norm;
        factor[h] = module->clip_norm / (norm + 1e-6);
        factor[h] = factor[h] > 1 ? 1 : factor[h];  // NaN stays NaN
        const embedding_emission emission = {.stage = LS_STAGE_CLIP,
                                             .field = LS_STAGE_FIELD_NORM,
                                             .rank = sides[h].rank,
                                             .pair = 0,
                                             .shard = -1,
                                             .dtype = LS_F32,
                                             .shape = LS_SHAPE(1),
                                             .data = &rounded,
                                             .in_host_memory = true,
                                             .reduces = true};
        LS_TRY(ls_embedding__emit(module, sink, &emission));
    }
    return LS_OK;
}

// ---- Updating -----------------------------------------------------------------------------------

static int emit_shard(const ls_embedding *module, const embedding_touched *touched,
                      const ls_stage_sink *sink) {
    const embedding_table *table = &module->tables[touched->table];
    const ls_plan_shard *block = &table->plan->shards[touched->shard];
    const ls_optimizer_traits *about = ls_optimizer_about(table->optimizer.kind);
    embedding_emission emission = {
        .stage = LS_STAGE_UPDATE,
        .field = LS_STAGE_FIELD_WEIGHTS,
        .rank = block->rank,
        .pair = table->first_pair,
        .shard = ls_embedding__shard_label(module, touched->table, touched->shard),
        .dtype = table->config->dtype,
        .shape = LS_SHAPE(block->rows, block->columns),
        .data = table->shards[touched->shard].data,
        .reduces = true};
    LS_TRY(ls_embedding__emit(module, sink, &emission));
    emission.dtype = ls_embedding__gradient_dtype(table);
    for (int state = 0; state < ls_optimizer_state_count(&table->optimizer); state++) {
        emission.field = state == 0 ? LS_STAGE_FIELD_MOMENTUM1 : LS_STAGE_FIELD_MOMENTUM2;
        emission.data = table->states[touched->shard][state];
        emission.shape = about->states[state].per_row ? LS_SHAPE(block->rows)
                                                      : LS_SHAPE(block->rows, block->columns);
        LS_TRY(ls_embedding__emit(module, sink, &emission));
    }
    return LS_OK;
}

// The shard whose states a shard of the held rank is updated with: its own, but where the fault is
// injected.
static const embedding_touched *state_owner(const ls_embedding_pass *pass, int held, int index) {
    const ls_embedding *module = pass->module;
    const embedding_touched *own = &pass->touched[held][index];
    const embedding_table *table = &module->tables[own->table];
    const ls_plan_shard *block = &table->plan->shards[own->shard];
    int count = pass->touched_count[held];
    for (int i = 1; i < count; i++) {
        const embedding_touched *other = &pass->touched[held][(index + i) % count];
        const embedding_table *of = &module->tables[other->table];
        const ls_plan_shard *its = &of->plan->shards[other->shard];
        if (of->optimizer.kind == table->optimizer.kind && its->rows == block->rows &&
            its->columns == block->columns && of->config->dtype == table->config->dtype) {
            bool injected = ls_embedding__injected(module, LS_FAULT_OTHER_STATE, block->rank);
            return injected ? other : own;
        }
    }
    return own;
}

static int update_shard(const ls_embedding *module, const embedding_touched *touched,
                        const embedding_touched *states, double factor) {
    const embedding_table *table = &module->tables[touched->table];
    const ls_plan_shard *block = &table->plan->shards[touched->shard];
    if (touched->count == 0) {
        return LS_OK;
    }
    const ls_row_update update = {
        .weights = table->shards[touched->shard].data,
        .dtype = table->config->dtype,
        .rows = block->rows,
        .dim = (size_t)block->columns,
        .states = {module->tables[states->table].states[states->shard][0],
                   module->tables[states->table].states[states->shard][1]},
        .row_ids = touched->rows,
        .gradients = touched->gradients,
        .count = touched->count,
        .factor = factor,
        .step = module->step + 1,
        .first_row = block->row_offset,
        .first_column = block->column_offset,
        .key = (uint64_t)touched->table};
    return module->device->ops->update_rows(module->device, &table->optimizer, &update);
}

static int run(ls_embedding_pass *pass, embedding_pool *scratch, const ls_stage_sink *sink) {
    ls_embedding *module = pass->module;
    double *factors;
    ARENA_NEW(factors, scratch->arena, pass->held_count);
    for (int h = 0; h < pass->held_count; h++) {
        factors[h] = 1;
    }
    if (module->clip_norm > 0 && module->table_count > 0) {
        LS_TRY(clip(pass, scratch, sink, factors));
    }
    for (int h = 0; h < pass->held_count; h++) {
        for (int i = 0; i < pass->touched_count[h]; i++) {
            LS_TRY(update_shard(module, &pass->touched[h][i], state_owner(pass, h, i), factors[h]));
        }
    }
    for (int h = 0; h < pass->held_count; h++) {
        for (int i = 0; i < pass->touched_count[h]; i++) {
            LS_TRY(emit_shard(module, &pass->touched[h][i], sink));
        }
    }
    return LS_OK;
}

int ls_embedding_update(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass);
    if (pass->done != STAGE_BACKWARD) {
        return LS_FAIL(LS_ERR_INVALID, pass->done == STAGE_UPDATE
                                           ? "embedding: this pass was used for an update already"
                                           : "embedding: an update needs a backward before it");
    }
    pass->done = STAGE_UPDATE;  // whether or not it succeeds: some shards may have moved
    embedding_pool scratch;
    LS_TRY(ls_embedding__pool_create(&scratch, pass->module));
    int status = run(pass, &scratch, sink);
    ls_embedding__pool_free(&scratch);
    if (!status) {
        pass->module->step++;
    }
    return status;
}
