// Repeats a recorded update on any device: its arrays in the device's memory, the kernels of a
// training step, and the comparison with the simulator's weights.
#include <math.h>
#include "runner/scenario/inputs.h"
#include <stdio.h>
#include <stdlib.h>
#include "runner/plan/work_internal.h"
#include <string.h>

#include "runner/plan/work.h"

// In the dense form, a table that is not data parallel has gradients for all its rows.
static bool spreads(const ls_work_update *update) {
    return update->optimizer->form == LS_OPTIMIZER_DENSE && update->dense == NULL;
}

static size_t row_bytes_of(const ls_work_update *update) {
    return (size_t)update->block.columns * ls_dtype_bytes(update->sum_dtype);
}

// At least one byte: an empty array needs an address, too.
static int alloc_array(ls_work_shard *shard, void **out, size_t count, size_t element_bytes,
                       const void *host) {
    size_t bytes;
    LS_ASSERT(shard->array_count < LS_WORK_SHARD_ARRAYS);
    LS_TRY(ls_size_mul(&bytes, count, element_bytes));
    LS_TRY(shard->device->ops->alloc(shard->device, out, bytes > 0 ? bytes : 1));
    shard->arrays[shard->array_count] = *out;
    shard->array_bytes[shard->array_count++] = bytes > 0 ? bytes : 1;
    return host == NULL || bytes == 0
               ? LS_OK
               : shard->device->ops->copy_in(shard->device, *out, host, bytes);
}

static int fill_weights(ls_work_shard *shard, const ls_work *steps) {
    const ls_work_update *update = shard->update;
    size_t element = ls_dtype_bytes(update->dtype), cells;
    void *host = NULL;
    LS_TRY(ls_size_mul(&cells, (size_t)update->block.rows, (size_t)update->block.columns));
    LS_TRY(ls_alloc(&host, cells, element));
    int status = ls_work_weights(host, steps, update->table, &update->block);
    status = status == LS_OK ? alloc_array(shard, &shard->weights, cells, element, host) : status;
    ls_free(host, cells, element);
    return status;
}

static int fill_states(ls_work_shard *shard) {
    const ls_work_update *update = shard->update;
    const ls_optimizer_traits *about = ls_optimizer_about(update->optimizer->kind);
    for (int i = 0; i < ls_optimizer_state_count(update->optimizer); i++) {
        size_t count = (size_t)update->block.rows;
        if (!about->states[i].per_row) {
            LS_TRY(ls_size_mul(&count, count, (size_t)update->block.columns));
        }
        LS_TRY(
            alloc_array(shard, &shard->states[i], count, ls_dtype_bytes(update->sum_dtype), NULL));
    }
    return LS_OK;
}

static int fill_inputs(ls_work_shard *shard) {
    const ls_work_update *update = shard->update;
    size_t ids = update->id_count, rows = (size_t)update->block.rows;
    size_t bytes = row_bytes_of(update), cells;
    LS_TRY(ls_size_mul(&cells, update->row_count, (size_t)update->block.columns));
    LS_TRY(alloc_array(shard, (void **)&shard->ids, ids, sizeof(int64_t), update->ids));
    LS_TRY(alloc_array(shard, (void **)&shard->row_of, ids, sizeof(int64_t), update->row_of));
    LS_TRY(alloc_array(shard, &shard->arrived, cells, ls_dtype_bytes(update->dtype_in),
                       update->gradients));
    if (update->scales != NULL) {
        LS_TRY(alloc_array(shard, (void **)&shard->scales, ids, sizeof(float), update->scales));
    }
    if (update->dense != NULL) {
        LS_TRY(alloc_array(shard, &shard->dense, update->dense_count, bytes, update->dense));
    }
    if (update->dense_rows != NULL) {
        LS_TRY(alloc_array(shard, (void **)&shard->dense_rows, update->dense_count, sizeof(int64_t),
                           update->dense_rows));
    }
    LS_TRY(alloc_array(shard, (void **)&shard->rows, ids, sizeof(int64_t), NULL));
    LS_TRY(alloc_array(shard, (void **)&shard->starts, ids + 1, sizeof(int64_t), NULL));
    LS_TRY(alloc_array(shard, (void **)&shard->order, ids, sizeof(int64_t), NULL));
    LS_TRY(alloc_array(shard, (void **)&shard->sorting, ids, LS_GROUP_SCRATCH * sizeof(int64_t),
                       NULL));
    LS_TRY(alloc_array(shard, &shard->sums, ids < rows ? ids : rows, bytes, NULL));
    return spreads(update) ? alloc_array(shard, &shard->spread, rows, bytes, NULL) : LS_OK;
}

int ls_work_shard_open(ls_work_shard *out, ls_device *device, const ls_work *steps,
                       const ls_work_update *update) {
    *out = (ls_work_shard){.device = device, .update = update};
    LS_TRY(fill_weights(out, steps));
    LS_TRY(fill_states(out));
    LS_TRY(fill_inputs(out));
    double first = 0;
    const ls_optimizer_traits *about = ls_optimizer_about(update->optimizer->kind);
    ls_element_from_f64(&first, update->sum_dtype, ls_optimizer_start(update->optimizer));
    for (int i = 0; i < ls_optimizer_state_count(update->optimizer); i++) {
        size_t count = (size_t)update->block.rows *
                       (about->states[i].per_row ? 1 : (size_t)update->block.columns);
        LS_TRY(device->ops->fill(device, out->states[i], update->sum_dtype, &first, count));
    }
    return LS_OK;
}

void ls_work_shard_close(ls_work_shard *shard) {
    for (int i = 0; i < shard->array_count; i++) {
        shard->device->ops->free(shard->device, shard->arrays[i], shard->array_bytes[i]);
    }
    shard->array_count = 0;
}

// The rows that the optimizer steps, with their gradients.
static int choose_rows(ls_row_update *out, const ls_work_shard *shard, size_t unique) {
    const ls_work_update *update = shard->update;
    ls_device *device = shard->device;
    size_t bytes = row_bytes_of(update), rows = (size_t)update->block.rows;
    *out = (ls_row_update){.row_ids = shard->rows, .gradients = shard->sums, .count = unique};
    if (update->dense != NULL) {
        *out = (ls_row_update){
            .row_ids = shard->dense_rows, .gradients = shard->dense, .count = update->dense_count};
    } else if (spreads(update)) {
        const double zero = 0;
        LS_TRY(device->ops->fill(device, shard->spread, update->sum_dtype, &zero,
                                 rows * (size_t)update->block.columns));
        LS_TRY(device->ops->scatter_rows(device, shard->spread, bytes, shard->sums, bytes,
                                         shard->rows, unique));
        *out = (ls_row_update){.gradients = shard->spread, .count = rows};
    }
    return LS_OK;
}

int ls_work_shard_update(const ls_work_shard *shard) {
    const ls_work_update *update = shard->update;
    ls_device *device = shard->device;
    size_t unique = 0, columns = (size_t)update->block.columns;
    ls_row_update step;
    LS_TRY(device->ops->group_ids(
        device, &(const ls_row_groups){shard->rows, shard->starts, shard->order}, &unique,
        shard->sorting, shard->ids, update->id_count, update->block.rows, update->padding_id));
    LS_TRY(
        device->ops->row_gradients(device, shard->sums, columns,
                                   &(const ls_gradients){shard->arrived, columns, update->dtype_in,
                                                         shard->row_of, shard->scales},
                                   shard->starts, shard->order, unique));
    LS_TRY(choose_rows(&step, shard, unique));
    step.weights = shard->weights;
    step.dtype = update->dtype;
    step.rows = update->block.rows;
    step.dim = columns;
    step.states[0] = shard->states[0];
    step.states[1] = shard->states[1];
    step.factor = update->factor;
    step.step = 1;
    step.first_row = update->block.row_offset;
    step.first_column = update->block.column_offset;
    step.key = (uint64_t)update->table;
    return step.count > 0 ? device->ops->update_rows(device, update->optimizer, &step) : LS_OK;
}

int ls_work_shard_check(const ls_work_shard *shard) {
    const ls_work_update *update = shard->update;
    size_t bytes =
        (size_t)update->block.rows * (size_t)update->block.columns * ls_dtype_bytes(update->dtype);
    void *got = NULL;
    LS_TRY(ls_alloc(&got, bytes, 1));
    int status = shard->device->ops->copy_out(shard->device, got, shard->weights, bytes);
    if (status == LS_OK && bytes > 0 && memcmp(got, update->weights, bytes) != 0) {
        status = LS_FAIL_RANK(
            LS_ERR_FINDING, update->rank,
            "update of table %d, shard %d, rank %d: the bits differ from the simulator's",
            update->table, update->shard, update->rank);
    }
    ls_free(got, bytes, 1);
    return status;
}

// Shard number `label` of the table, or, without one, the only shard on the rank.
int ls_work__shard(const ls_plan_table *table, int rank, const char *field) {
    const char *label = strchr(field, '[');
    if (label != NULL) {
        return (int)strtol(label + 1, NULL, 10);
    }
    for (int i = 0; i < table->shard_count; i++) {
        if (table->shards[i].rank == rank) {
            return i;
        }
    }
    return -1;
}

int ls_work_weights(void *out, const ls_work *steps, int table, const ls_plan_shard *block) {
    return ls_inputs_weights(out, steps->scenario, table, block->row_offset, block->rows,
                             block->column_offset, block->columns);
}
