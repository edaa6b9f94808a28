// A batch size per feature, at the source: the values of a feature's bags are handed to the samples
// that take them (several may take the same), and the gradients of those come back to the bags.
#include "embedding/internal.h"

static bool is_sequence(const ls_embedding *module, int pair) {
    return module->tables[module->pairs[pair].table].config->pooling == LS_POOL_NONE;
}

static int64_t value_rows(const ls_embedding *module, int pair, const embedding_input *input) {
    const ls_jagged *jagged = &input->jagged;
    return is_sequence(module, pair) ? jagged->offsets[jagged->batch] - jagged->offsets[0]
                                     : jagged->batch;
}

int ls_embedding__samples_prepare(ls_embedding_pass *pass, int rank, int pair,
                                  embedding_input *input) {
    const ls_jagged *jagged = &input->jagged;
    bool sequence = is_sequence(pass->module, pair);
    input->output_rows = sequence ? ls_jagged_sample_ids(jagged) : jagged->samples;
    if (!jagged->inverse_indices) {
        return LS_OK;
    }
    int64_t *rows, at = 0;
    ARENA_NEW(rows, pass->arena, input->output_rows);
    for (int64_t b = 0; b < jagged->samples; b++) {
        int64_t bag = jagged->inverse_indices[b], first = sequence ? jagged->offsets[bag] : bag;
        for (int64_t i = 0; i < (sequence ? jagged->lengths[bag] : 1); i++) {
            rows[at++] = first + i - (sequence ? jagged->offsets[0] : 0);
        }
    }
    LS_ASSERT(at == input->output_rows);
    const void *uploaded;
    const embedding_array array = {rank, pair, "bags of samples", (size_t)at, sizeof(int64_t)};
    LS_TRY(ls_embedding__upload(&pass->pool, &uploaded, &array, rows));
    input->row_of = rows;
    input->device_row_of = uploaded;
    return LS_OK;
}

int ls_embedding__samples_take(ls_embedding_pass *pass, int rank, int pair,
                               embedding_input *input) {
    if (!input->row_of) {
        input->output = input->values;
        return LS_OK;
    }
    const ls_embedding *module = pass->module;
    const embedding_table *table = &module->tables[module->pairs[pair].table];
    size_t bytes = ls_dtype_bytes(module->groups[table->group].dtype), count;
    size_t dim = (size_t)table->config->dim;
    LS_TRY(ls_embedding__count(&count, input->output_rows, table->config->dim, 1));
    const embedding_array array = {rank, pair, "the output", count, bytes};
    LS_TRY(ls_embedding__take(&pass->pool, &input->output, &array));
    if (count == 0) {
        return LS_OK;
    }
    return module->device->ops->gather_rows(module->device, input->output, input->values,
                                            dim * bytes, value_rows(module, pair, input),
                                            input->device_row_of, (size_t)input->output_rows);
}

int ls_embedding__samples_fold(embedding_pool *memory, int rank, int pair,
                               const embedding_input *input, void *gradients, void **out) {
    *out = gradients;
    if (!input->row_of) {
        return LS_OK;
    }
    const ls_embedding *module = memory->module;
    const embedding_table *table = &module->tables[module->pairs[pair].table];
    ls_dtype dtype = module->groups[table->group].dtype;
    ls_dtype sum_dtype = ls_optimizer_state_dtype(dtype);
    int64_t rows = value_rows(module, pair, input), *starts, *order;
    size_t count, dim = (size_t)table->config->dim;
    LS_TRY(ls_embedding__count(&count, rows, table->config->dim, 1));
    ARENA_NEW(starts, memory->arena, rows + 2);
    ARENA_NEW(order, memory->arena, input->output_rows);
    for (int64_t i = 0; i < input->output_rows; i++) {
        starts[input->row_of[i] + 2]++;
    }
    for (int64_t row = 0; row < rows; row++) {
        starts[row + 2] += starts[row + 1];
    }
    for (int64_t i = 0; i < input->output_rows; i++) {
        order[starts[input->row_of[i] + 1]++] = i;
    }
    const void *starts_there, *order_there;
    embedding_array array = {rank, pair, "samples of bags", (size_t)rows + 1, sizeof(*starts)};
    LS_TRY(ls_embedding__upload(memory, &starts_there, &array, starts));
    array.count = (size_t)input->output_rows;
    LS_TRY(ls_embedding__upload(memory, &order_there, &array, order));
    void *sums;
    LS_TRY(ls_embedding__take_elements(memory, &sums, rank, "gradients of bags", count, sum_dtype));
    if (count > 0) {
        LS_TRY(module->device->ops->row_gradients(
            module->device, sums, dim, &(const ls_gradients){gradients, dim, dtype, NULL, NULL},
            starts_there, order_there, (size_t)rows));
    }
    *out = sums;
    if (dtype == sum_dtype || count == 0) {
        return LS_OK;
    }
    LS_TRY(ls_embedding__take_elements(memory, out, rank, "gradients of bags", count, dtype));
    return module->device->ops->convert(module->device, *out, dtype, sums, sum_dtype, count);
}
