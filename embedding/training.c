// Training a module: its tables' optimizers and the states of the held shards.
#include "embedding/training.h"

#include "embedding/internal.h"
#include "kernels/device.h"

ls_dtype ls_embedding__gradient_dtype(const embedding_table *table) {
    return ls_optimizer_state_dtype(table->config->dtype);
}

bool ls_embedding__every_row(const embedding_table *table) {
    return table->optimizer.form == LS_OPTIMIZER_DENSE;
}

// ---- Checks -------------------------------------------------------------------------------------

static int check_training(const ls_embedding *module, const ls_training *training) {
    if (!training->optimizers && module->table_count > 0) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: training without optimizers");
    }
    if ((unsigned)training->division > LS_GRADIENTS_DIVIDED || !(training->clip_norm >= 0)) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: gradient division %d, clip norm %g",
                       (int)training->division, training->clip_norm);
    }
    for (int t = 0; t < module->table_count; t++) {
        const embedding_table *table = &module->tables[t];
        const ls_optimizer *optimizer = &training->optimizers[t];
        ls_dtype dtype = table->config->dtype;
        if (dtype != LS_F32 && dtype != LS_F64 && dtype != LS_F16 && dtype != LS_BF16 &&
            dtype != LS_FIELD) {
            return LS_FAIL(
                LS_ERR_UNSUPPORTED,
                "embedding: table %s has type %s; training supports f32, f64, f16 and bf16",
                table->config->name, ls_dtype_name(dtype));
        }
        if (table->config->row_format || table->config->has_output_dtype) {
            return LS_FAIL(LS_ERR_UNSUPPORTED,
                           "embedding: table %s has %s, which is for inference: no backward pass",
                           table->config->name,
                           table->config->row_format ? "quantised rows" : "an output_dtype");
        }
        if (ls_optimizer_check(optimizer)) {
            return ls_error_wrap("embedding: table %s", table->config->name);
        }
        // The numbers may change with each step (a learning rate schedule), the kind of state may
        // not.
        const ls_optimizer *before = &table->optimizer;
        if (module->trains &&
            (before->kind != optimizer->kind || before->form != optimizer->form ||
             ls_optimizer_state_count(before) != ls_optimizer_state_count(optimizer))) {
            return LS_FAIL(LS_ERR_INVALID,
                           "embedding: table %s is trained by %s; another optimizer has no state",
                           table->config->name, ls_optimizer_about(before->kind)->name);
        }
    }
    return LS_OK;
}

// ---- States -------------------------------------------------------------------------------------

static bool is_per_row(const embedding_table *table, int state) {
    return ls_optimizer_about(table->optimizer.kind)->states[state].per_row;
}

static size_t state_elements(const embedding_table *table, int shard, int state) {
    const ls_plan_shard *block = &table->plan->shards[shard];
    return is_per_row(table, state) ? (size_t)block->rows : table->shards[shard].count;
}

static int create_state(const ls_embedding *module, embedding_table *table, int shard, int state) {
    ls_device *device = module->device;
    ls_dtype dtype = ls_embedding__gradient_dtype(table);
    size_t bytes, count = state_elements(table, shard, state);
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(dtype)));
    if (device->ops->alloc(device, &table->states[shard][state], bytes > 0 ? bytes : 1)) {
        return ls_error_wrap("rank %d: state of table %s, shard %d, %zu bytes",
                             table->plan->shards[shard].rank, table->config->name, shard, bytes);
    }
    double first = 0;
    ls_element_from_f64(&first, dtype, ls_optimizer_start(&table->optimizer));
    return count > 0 && ls_optimizer_start(&table->optimizer) != 0
               ? device->ops->fill(device, table->states[shard][state], dtype, &first, count)
               : LS_OK;
}

static int create_states(const ls_embedding *module, embedding_table *table) {
    ARENA_NEW(table->states, module->arena, table->plan->shard_count);
    int count = ls_optimizer_state_count(&table->optimizer);
    for (int shard = 0; shard < table->plan->shard_count; shard++) {
        for (int state = 0; state < count && table->held[shard]; state++) {
            LS_TRY(create_state(module, table, shard, state));
        }
    }
    return LS_OK;
}

void ls_embedding__states_free(ls_embedding *module) {
    ls_device *device = module->device;
    for (int t = 0; t < module->table_count && module->tables; t++) {
        embedding_table *table = &module->tables[t];
        for (int s = 0; table->states && s < table->plan->shard_count; s++) {
            for (int state = 0; state < 2; state++) {
                size_t bytes = table->states[s][state]
                                   ? state_elements(table, s, state) *
                                         ls_dtype_bytes(ls_embedding__gradient_dtype(table))
                                   : 0;
                device->ops->free(device, table->states[s][state], bytes > 0 ? bytes : 1);
                table->states[s][state] = NULL;
            }
        }
        table->states = NULL;
    }
}

int ls_embedding_prepare_training(ls_embedding *module, const ls_training *training) {
    LS_ASSERT(module && training);
    LS_TRY(check_training(module, training));
    for (int t = 0; t < module->table_count; t++) {
        module->tables[t].optimizer = training->optimizers[t];
    }
    module->division = training->division;
    module->clip_norm = training->clip_norm;
    for (int t = 0; t < module->table_count && !module->trains; t++) {
        int status = create_states(module, &module->tables[t]);
        if (status) {
            ls_embedding__states_free(module);
            return status;
        }
    }
    module->trains = true;
    return LS_OK;
}

void *ls_embedding_state(ls_embedding *module, int table, int rank, int shard, int state,
                         ls_shape *shape, ls_dtype *dtype) {
    LS_ASSERT(module && table >= 0 && table < module->table_count && shape && dtype);
    const ls_shard *held = ls_embedding_shard(module, table, rank, shard);
    embedding_table *entry = &module->tables[table];
    if (!held || !module->trains || state < 0 ||
        state >= ls_optimizer_state_count(&entry->optimizer)) {
        return NULL;
    }
    int64_t index = held - entry->shards;
    const ls_plan_shard *block = &entry->plan->shards[index];
    *shape =
        is_per_row(entry, state) ? LS_SHAPE(block->rows) : LS_SHAPE(block->rows, block->columns);
    *dtype = ls_embedding__gradient_dtype(entry);
    return entry->states[index][state];
}

int64_t ls_embedding_step(const ls_embedding *module) {
    LS_ASSERT(module);
    return module->step;
}

void ls_embedding_set_step(ls_embedding *module, int64_t step) {
    LS_ASSERT(module && step >= 0);
    module->step = step;
}
