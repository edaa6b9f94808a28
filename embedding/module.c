// The module: checks tables against the plan, and holds the weights of the held ranks' shards.
#include "embedding/internal.h"

#include <string.h>

// ---- Checks -------------------------------------------------------------------------------------

static int check_features(const ls_table *table) {
    if (table->feature_count < 1 || !table->features) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: table %s has no features", table->name);
    }
    for (int i = 0; i < table->feature_count; i++) {
        if (!table->features[i] || !table->features[i][0]) {
            return LS_FAIL(LS_ERR_INVALID, "embedding: table %s: feature %d has no name",
                           table->name, i);
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(table->features[i], table->features[j]) == 0) {
                return LS_FAIL(LS_ERR_INVALID, "embedding: table %s names feature %s twice",
                               table->name, table->features[i]);
            }
        }
    }
    return LS_OK;
}

static int check_table(const ls_table *table, int index) {
    if (!table->name || !table->name[0]) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: table %d has no name", index);
    }
    if (table->rows < 0 || table->dim < 1) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: table %s has %lld rows of dim %lld", table->name,
                       (long long)table->rows, (long long)table->dim);
    }
    if (!ls_dtype_valid(table->dtype) || !ls_dtype_is_float(table->dtype)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "embedding: table %s: dtype %s; tables must hold floats",
                       table->name,
                       ls_dtype_valid(table->dtype) ? ls_dtype_name(table->dtype) : "?");
    }
    if ((unsigned)table->pooling > LS_POOL_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: table %s: unknown pooling %d", table->name,
                       (int)table->pooling);
    }
    if (table->weighted && (table->pooling == LS_POOL_NONE || table->pooling == LS_POOL_MAX)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "embedding: table %s: weights per id require sum or mean pooling",
                       table->name);
    }
    if ((unsigned)table->mean_divisor > LS_MEAN_TORCHREC ||
        (table->mean_divisor != LS_MEAN_WEIGHTS && table->pooling != LS_POOL_MEAN)) {
        return LS_FAIL(LS_ERR_INVALID,
                       "embedding: table %s: mean_divisor (%d) requires mean pooling", table->name,
                       (int)table->mean_divisor);
    }
    if (table->has_padding_id && (table->padding_id < 0 || table->padding_id >= table->rows)) {
        return LS_FAIL(LS_ERR_INVALID,
                       "embedding: table %s: padding id %lld is not a row from 0 to %lld",
                       table->name, (long long)table->padding_id, (long long)table->rows - 1);
    }
    if (!(table->max_norm >= 0) || !(table->norm_type >= 0) ||
        (table->max_norm > 0 && ls_dtype_bytes(table->dtype) < 2)) {
        return LS_FAIL(LS_ERR_INVALID,
                       "embedding: table %s of %s: max_norm %g of norm %g; neither may be "
                       "negative, and f8 tables cannot have one",
                       table->name, ls_dtype_name(table->dtype), table->max_norm, table->norm_type);
    }
    LS_TRY(ls_embedding__check_kept(table));
    return check_features(table);
}

// Conditions of a plan that need not tile the tables: every block is inside of its table, on an
// existing rank.
static int check_blocks(const ls_table *table, const ls_plan_table *plan, int ranks) {
    for (int i = 0; i < plan->shard_count; i++) {
        const ls_plan_shard *shard = &plan->shards[i];
        bool rank_ok = shard->rank >= 0 && shard->rank < ranks;
        bool rows_ok = shard->row_offset >= 0 && shard->rows >= 0 &&
                       shard->row_offset <= table->rows - shard->rows;
        bool columns_ok = shard->column_offset >= 0 && shard->columns >= 1 &&
                          shard->column_offset <= table->dim - shard->columns;
        if (!rank_ok || !rows_ok || !columns_ok) {
            return LS_FAIL_RANK(LS_ERR_INVALID, shard->rank,
                                "embedding: table %s: shard %d (rank %d, rows %lld + %lld, columns "
                                "%lld + %lld) is not in the table of %lld x %lld on ranks 0 to %d",
                                table->name, i, shard->rank, (long long)shard->row_offset,
                                (long long)shard->rows, (long long)shard->column_offset,
                                (long long)shard->columns, (long long)table->rows,
                                (long long)table->dim, ranks - 1);
        }
    }
    return LS_OK;
}

static int match_table(embedding_table *out, const ls_plan *plan, int size, bool allow_broken) {
    const ls_table *table = out->config;
    for (int i = 0; i < plan->table_count; i++) {
        if (strcmp(plan->tables[i].name, table->name) == 0) {
            out->plan = &plan->tables[i];
        }
    }
    if (!out->plan) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: the plan has no table %s", table->name);
    }
    if (out->plan->rows != table->rows || out->plan->columns != table->dim) {
        return LS_FAIL(LS_ERR_INVALID,
                       "embedding: table %s is %lld x %lld, in the plan %lld x %lld", table->name,
                       (long long)table->rows, (long long)table->dim, (long long)out->plan->rows,
                       (long long)out->plan->columns);
    }
    if (out->plan->sharding == LS_DATA_PARALLEL && allow_broken) {
        // Routing has no say here: a rank without its copy could give no answer at all.
        for (int rank = 0; rank < size; rank++) {
            bool found = false;
            for (int i = 0; i < out->plan->shard_count; i++) {
                found = found || out->plan->shards[i].rank == rank;
            }
            if (!found) {
                return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                    "embedding: data_parallel table %s has no copy on rank %d",
                                    table->name, rank);
            }
        }
    }
    return check_blocks(table, out->plan, size);
}

static int check_options(const ls_embedding *module, const ls_embedding_options *options) {
    const ls_plan *plan = options->plan;
    if (plan->ranks != module->size) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: the plan is for %d ranks, the world has %d",
                       plan->ranks, module->size);
    }
    if (plan->ranks_per_host < 1 || plan->ranks % plan->ranks_per_host != 0) {
        return LS_FAIL(LS_ERR_INVALID, "embedding: %d ranks do not fill hosts of %d", plan->ranks,
                       plan->ranks_per_host);
    }
    for (int i = 0; i < options->table_count; i++) {
        LS_TRY(check_table(&options->tables[i], i));
        for (int j = 0; j < i; j++) {
            if (strcmp(options->tables[i].name, options->tables[j].name) == 0) {
                return LS_FAIL(LS_ERR_INVALID, "embedding: two tables are called %s",
                               options->tables[i].name);
            }
        }
    }
    return options->allow_broken_plan ? LS_OK : ls_plan_check(plan);
}

// ---- Making -------------------------------------------------------------------------------------

// A shard's weights: made in ordinary memory, kept on the device.
static int fill_shard(const ls_embedding *module, int index, int number, ls_shard *shard,
                      const ls_embedding_options *options) {
    const embedding_table *table = &module->tables[index];
    const ls_plan_shard *block = &table->plan->shards[number];
    ls_device *device = module->device;
    size_t element_bytes, bytes;
    LS_TRY(ls_embedding__shard_room(&shard->count, &element_bytes, table->config, block->rows,
                                    block->columns));
    LS_TRY(ls_size_mul(&bytes, shard->count, element_bytes));
    LS_TRY(ls_world_ask_gate(module->world, bytes));
    void *host;
    LS_TRY(ls_alloc(&host, shard->count, element_bytes));
    if (device->ops->is_host) {
        shard->data = host;
    } else if (shard->count > 0 && device->ops->alloc(device, &shard->data, bytes)) {
        ls_free(host, shard->count, element_bytes);
        return ls_error_wrap("rank %d: table %s, shard %d, %zu bytes", block->rank,
                             table->config->name, number, bytes);
    }
    int status = LS_OK;
    if (shard->count > 0) {
        status = table->config->row_format
                     ? ls_embedding__fill_quantised(host, table->config, index, block, options)
                     : options->fill(options->fill_arg, index, block->rank, block->row_offset,
                                     block->rows, block->column_offset, block->columns, host);
    }
    if (status) {
        status = ls_error_wrap("weights of table %s, shard %d on rank %d", table->config->name,
                               number, block->rank);
    }
    if (!device->ops->is_host) {
        if (!status && shard->count > 0) {
            status = device->ops->copy_in(device, shard->data, host, bytes);
        }
        ls_free(host, shard->count, element_bytes);
    }
    return status;
}

static int create_shards(ls_embedding *module, int index, const ls_embedding_options *options) {
    embedding_table *table = &module->tables[index];
    ARENA_NEW(table->shards, module->arena, table->plan->shard_count);
    ARENA_NEW(table->held, module->arena, table->plan->shard_count);
    for (int i = 0; i < table->plan->shard_count; i++) {
        const ls_plan_shard *block = &table->plan->shards[i];
        ls_shard *shard = &table->shards[i];
        shard->block.offset = LS_SHAPE(block->row_offset, block->column_offset);
        shard->block.size = LS_SHAPE(block->rows, block->columns);
        if (ls_world_held_index(module->world, block->rank) < 0) {
            continue;
        }
        table->held[i] = true;
        LS_TRY(fill_shard(module, index, i, shard, options));
    }
    return LS_OK;
}

static int create_tables(ls_embedding *module, const ls_embedding_options *options) {
    LS_TRY(check_options(module, options));
    module->table_count = options->table_count;
    ARENA_NEW(module->tables, module->arena, module->table_count);
    for (int i = 0; i < module->table_count; i++) {
        embedding_table *table = &module->tables[i];
        table->config = &options->tables[i];
        table->first_pair = module->pair_count;
        module->pair_count += table->config->feature_count;
        LS_TRY(match_table(table, options->plan, module->size, options->allow_broken_plan));
    }
    ARENA_NEW(module->pairs, module->arena, module->pair_count);
    for (int i = 0; i < module->table_count; i++) {
        for (int f = 0; f < module->tables[i].config->feature_count; f++) {
            module->pairs[module->tables[i].first_pair + f] = (embedding_pair){i, f};
        }
        LS_TRY(create_shards(module, i, options));
    }
    return LS_OK;
}

int ls_embedding_create(ls_embedding **out, ls_backend *backend,
                        const ls_embedding_options *given) {
    LS_ASSERT(out && backend && given);
    *out = NULL;
    ls_embedding_options own;
    const ls_embedding_options *options = &own;
    LS_TRY(ls_options_take(&own, sizeof own, given));
    LS_ASSERT(options->plan && options->fill);
    LS_ASSERT(options->table_count >= 0 && (options->tables || options->table_count == 0));
    ls_embedding *module;
    LS_TRY(ls_alloc((void **)&module, 1, sizeof(*module)));
    module->backend = backend;
    module->device = backend->device ? backend->device : ls_device_host();
    module->world = backend->world;
    module->size = ls_world_size(backend->world);
    module->ranks_per_host = options->plan->ranks_per_host;
    module->id_policy = options->id_policy;
    module->quirks = options->quirks;
    int status = ls_arena_create(&module->arena);
    status = status == LS_OK ? create_tables(module, options) : status;
    if (!status) {
        status = ls_comm_create(&module->comm, backend, NULL, module->size, "world");
    }
    status = status == LS_OK ? ls_embedding__groups_create(module) : status;
    if (status) {
        ls_embedding_free(module);
        return status;
    }
    *out = module;
    return LS_OK;
}

void ls_embedding_free(ls_embedding *module) {
    if (!module) {
        return;
    }
    ls_embedding__groups_free(module);
    ls_comm_free(module->comm);
    ls_embedding__states_free(module);
    for (int i = 0; i < module->table_count && module->tables; i++) {
        embedding_table *table = &module->tables[i];
        for (int s = 0; table->shards && table->held && s < table->plan->shard_count; s++) {
            size_t bytes = table->config->row_format ? 1 : ls_dtype_bytes(table->config->dtype);
            if (module->device->ops->is_host) {
                ls_free(table->shards[s].data, table->shards[s].count, bytes);
            } else {
                module->device->ops->free(module->device, table->shards[s].data,
                                          table->shards[s].count * bytes);
            }
        }
    }
    ls_arena_free(module->arena);
    ls_free(module, 1, sizeof(*module));
}

const ls_bad_id *ls_embedding_bad_id(const ls_embedding *module) {
    LS_ASSERT(module);
    return module->has_bad_id ? &module->bad_id : NULL;
}
