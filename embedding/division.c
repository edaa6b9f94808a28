// The divisors of a source: a mean by its bags, with TorchRec's quirks where they are asked for.
// Linear, so the same acts on outputs (output_dist) and on their gradients (backward).
#include "embedding/internal.h"

// Sharding types whose means TorchRec divides on the source rank, after its reduce_scatter.
static bool by_rows(const embedding_group *group) {
    ls_sharding_traits of = ls_sharding_traits_of(group->sharding);
    return of.rows != LS_OVER_ONE && !of.columns;
}

// One pair's values [batch, dim] of one source.
typedef struct division {
    const ls_embedding *module;
    const ls_table *table;
    const embedding_group *group;
    const ls_jagged *bags;  // (device)
    void *values;           // (device)
} division;

static int divide_values(const division *d, void *values, ls_dtype dtype, bool by_weights,
                         double added) {
    ls_device *device = d->module->device;
    size_t dim = (size_t)d->table->dim;
    return device->ops->divide_bags(
        device, values, dim, dtype, dim, added,
        &(const ls_bags){.ids = d->bags->ids,
                         .offsets = d->bags->offsets,
                         .weights = by_weights && d->table->weighted ? d->bags->weights : NULL,
                         .padding_id = ls_embedding__padding(d->table),
                         .count = (size_t)d->bags->batch});
}

// Outputs narrower than f32 are divided in f32 and rounded once more.
static int divide(const division *d, bool by_weights, double added) {
    ls_device *device = d->module->device;
    ls_dtype dtype = d->group->dtype;
    if (dtype == LS_F32 || dtype == LS_F64 || dtype == LS_FIELD) {
        return divide_values(d, d->values, dtype, by_weights, added);
    }
    size_t count;
    LS_TRY(ls_embedding__count(&count, d->bags->batch, d->table->dim, 1));
    embedding_pool scratch;
    void *wide;
    LS_TRY(ls_embedding__pool_create(&scratch, d->module));
    int status = ls_embedding__take_elements(&scratch, &wide, LS_RANK_NONE, "means", count, LS_F32);
    if (!status) {
        status = device->ops->convert(device, wide, LS_F32, d->values, dtype, count);
    }
    status = status == LS_OK ? divide_values(d, wide, LS_F32, by_weights, added) : status;
    if (!status) {
        status = device->ops->convert(device, d->values, dtype, wide, LS_F32, count);
    }
    ls_embedding__pool_free(&scratch);
    return status;
}

static int divide_mean(const division *d) {
    if (d->group->sharding == LS_GRID && d->module->quirks.grid_mean_not_divided) {
        return LS_OK;
    }
    bool as_torchrec = d->table->mean_divisor == LS_MEAN_TORCHREC && by_rows(d->group);
    return divide(d, d->table->mean_divisor == LS_MEAN_WEIGHTS || as_torchrec,
                  as_torchrec ? LS_TORCHREC_MEAN_EPSILON : 0);
}

static bool has_mean_by_rows(const ls_embedding *module) {
    bool found = false;
    for (int t = 0; t < module->table_count; t++) {
        found = found || (module->tables[t].config->pooling == LS_POOL_MEAN &&
                          by_rows(&module->groups[module->tables[t].group]));
    }
    return found;
}

// The quirk row_wise_mean_divides_others.
static int divide_once_more(const division *d) {
    if (!d->module->quirks.row_wise_mean_divides_others || !has_mean_by_rows(d->module)) {
        return LS_OK;
    }
    if (!by_rows(d->group)) {
        return divide(d, true, LS_TORCHREC_MEAN_EPSILON);
    }
    if (d->table->pooling == LS_POOL_MEAN) {
        return LS_OK;
    }
    return ls_embedding__scale(d->module, d->values, 1 / (1 + LS_TORCHREC_MEAN_EPSILON),
                               d->group->dtype, d->bags->batch, d->table->dim);
}

int ls_embedding__scale(const ls_embedding *module, void *values, double factor, ls_dtype dtype,
                        int64_t rows, int64_t columns) {
    size_t count;
    double element;
    LS_TRY(ls_embedding__count(&count, rows, columns, 1));
    ls_element_from_f64(&element, dtype, factor);
    return count == 0
               ? LS_OK
               : module->device->ops->scale(module->device, values, values, &element, dtype, count);
}

int ls_embedding__divide(const ls_embedding *module, const embedding_input *pair, int index,
                         void *values) {
    const embedding_table *table = &module->tables[module->pairs[index].table];
    const division d = {.module = module,
                        .table = table->config,
                        .group = &module->groups[table->group],
                        .bags = &pair->bags,
                        .values = values};
    if (d.group->pooling != LS_POOL_SUM || pair->bags.batch == 0) {
        return LS_OK;
    }
    if (d.table->pooling == LS_POOL_MEAN) {
        LS_TRY(divide_mean(&d));
    }
    return divide_once_more(&d);
}
