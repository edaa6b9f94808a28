// max_norm: before a lookup, the rows that the batch needs and whose norm is larger are scaled down
// in place, as torch's embedding_renorm_ does. The norm is that of the whole row, whatever the
// sharding: column shards exchange their parts of it, and copies of a data parallel table treat the
// rows that any rank needs, so that they stay the same.
#include <math.h>

#include "embedding/internal.h"

#define RENORM_EPSILON 1e-7  // torch's

// One table of which each held rank has some shards.
typedef struct renorm {
    ls_embedding_pass *pass;
    embedding_table *table;
    int index;
    double norm_type;
    embedding_pool scratch;
    embedding_occurrences *needed;  // [count] by held rank
    int count;
} renorm;

static const ls_plan_shard *block_of(const renorm *r, const embedding_occurrences *of) {
    return &r->table->plan->shards[of->shard];
}

static bool cuts_columns(const embedding_table *table) {
    bool cut = false;
    for (int i = 0; i < table->plan->shard_count; i++) {
        cut = cut || table->plan->shards[i].columns < table->config->dim;
    }
    return cut;
}

static int list_needed(renorm *r) {
    const ls_embedding *module = r->pass->module;
    ARENA_NEW(r->needed, r->scratch.arena, r->table->plan->shard_count);
    for (int h = 0; h < r->pass->held_count; h++) {
        for (int s = 0; s < r->table->plan->shard_count; s++) {
            if (r->table->plan->shards[s].rank == ls_world_held(module->world)[h]) {
                LS_TRY(ls_embedding__occurrences(&r->needed[r->count++], r->pass, h, r->index, s,
                                                 -1, &r->scratch));
            }
        }
    }
    return LS_OK;
}

// One number of each row of the table, from all ranks: [rows] of dtype in ordinary memory for each
// held rank, reduced in place.
static int join(renorm *r, void *const *numbers, ls_dtype dtype, ls_op op, const char *what) {
    const ls_embedding *module = r->pass->module;
    embedding_side *sides;
    ARENA_NEW(sides, r->scratch.arena, r->pass->held_count);
    for (int h = 0; h < r->pass->held_count; h++) {
        sides[h] = (embedding_side){.rank = ls_world_held(module->world)[h],
                                    .send = numbers[h],
                                    .recv = numbers[h],
                                    .count = (size_t)r->table->config->rows};
    }
    const embedding_exchange exchange = {
        .kind = LS_ALL_REDUCE, .comm = module->comm, .dtype = dtype, .op = op, .what = what};
    return ls_embedding__exchange(module->backend, &exchange, sides, r->pass->held_count);
}

// ---- Copies -------------------------------------------------------------------------------------

// Lists, for every copy, the rows that any rank needs.
static int join_needed(renorm *r) {
    int64_t rows = r->table->config->rows;
    void **marks;
    ARENA_NEW(marks, r->scratch.arena, r->pass->held_count);
    for (int h = 0; h < r->pass->held_count; h++) {
        int32_t *marked;
        ARENA_NEW(marked, r->scratch.arena, rows);
        for (int i = 0; i < r->count; i++) {
            const embedding_occurrences *of = &r->needed[i];
            const void *fetched;
            LS_TRY(ls_embedding__fetch(&r->scratch, &fetched, of->rows, of->row_count,
                                       sizeof(int64_t)));
            bool own = of->rank == ls_world_held(r->pass->module->world)[h];
            for (size_t k = 0; own && k < of->row_count; k++) {
                marked[((const int64_t *)fetched)[k]] = 1;
            }
        }
        marks[h] = marked;
    }
    LS_TRY(join(r, marks, LS_I32, LS_MAX, "max_norm rows"));
    for (int i = 0; i < r->count; i++) {
        embedding_occurrences *of = &r->needed[i];
        const int32_t *marked = marks[ls_world_held_index(r->pass->module->world, of->rank)];
        int64_t *all;
        const void *uploaded;
        ARENA_NEW(all, r->scratch.arena, rows);
        of->row_count = 0;
        for (int64_t row = 0; row < block_of(r, of)->rows; row++) {
            if (marked[row]) {
                all[of->row_count++] = row;
            }
        }
        const embedding_array array = {of->rank, r->table->first_pair, "rows to renormalise",
                                       of->row_count, sizeof(*all)};
        LS_TRY(ls_embedding__upload(&r->scratch, &uploaded, &array, all));
        of->rows = uploaded;
    }
    return LS_OK;
}

// ---- Column shards ------------------------------------------------------------------------------

// The shard's part of its rows' sums, added to (p infinite: largest with) those of the rank.
static int add_sums(renorm *r, const embedding_occurrences *of, const int64_t **rows,
                    double *numbers) {
    const ls_embedding *module = r->pass->module;
    ls_device *device = module->device;
    const ls_plan_shard *block = block_of(r, of);
    const embedding_array array = {of->rank, r->table->first_pair, "norms of rows", of->row_count,
                                   sizeof(double)};
    void *sums;
    const void *fetched, *fetched_rows;
    LS_TRY(ls_embedding__take(&r->scratch, &sums, &array));
    LS_TRY(device->ops->norm_sums(
        device, sums, r->table->shards[of->shard].data,
        &(const ls_table_shape){r->table->config->dtype, block->rows, (size_t)block->columns},
        of->rows, of->row_count, r->norm_type));
    LS_TRY(ls_embedding__fetch(&r->scratch, &fetched, sums, of->row_count, sizeof(double)));
    LS_TRY(
        ls_embedding__fetch(&r->scratch, &fetched_rows, of->rows, of->row_count, sizeof(int64_t)));
    *rows = fetched_rows;
    for (size_t i = 0; i < of->row_count; i++) {
        double *number = &numbers[block->row_offset + (*rows)[i]];
        double sum = ((const double *)fetched)[i];
        *number = isinf(r->norm_type) ? fmax(*number, sum) : *number + sum;
    }
    return LS_OK;
}

// sums [count]: for each shard's rows, the sums of the whole rows (device).
static int join_sums(renorm *r, const double **sums) {
    void **numbers;
    const int64_t **rows;
    ARENA_NEW(numbers, r->scratch.arena, r->pass->held_count);
    ARENA_NEW(rows, r->scratch.arena, r->count);
    for (int h = 0; h < r->pass->held_count; h++) {
        double *of_rank;
        ARENA_NEW(of_rank, r->scratch.arena, r->table->config->rows);
        numbers[h] = of_rank;
        for (int i = 0; i < r->count; i++) {
            if (r->needed[i].rank == ls_world_held(r->pass->module->world)[h]) {
                LS_TRY(add_sums(r, &r->needed[i], &rows[i], of_rank));
            }
        }
    }
    LS_TRY(join(r, numbers, LS_F64, isinf(r->norm_type) ? LS_MAX : LS_SUM, "max_norm sums"));
    for (int i = 0; i < r->count; i++) {
        const embedding_occurrences *of = &r->needed[i];
        const double *whole = numbers[ls_world_held_index(r->pass->module->world, of->rank)];
        double *picked;
        const void *uploaded;
        ARENA_NEW(picked, r->scratch.arena, of->row_count);
        for (size_t k = 0; k < of->row_count; k++) {
            picked[k] = whole[block_of(r, of)->row_offset + rows[i][k]];
        }
        const embedding_array array = {of->rank, r->table->first_pair, "norms of rows",
                                       of->row_count, sizeof(double)};
        LS_TRY(ls_embedding__upload(&r->scratch, &uploaded, &array, picked));
        sums[i] = uploaded;
    }
    return LS_OK;
}

// ---- A table ------------------------------------------------------------------------------------

static int renormalise(renorm *r) {
    ls_device *device = r->pass->module->device;
    const double **sums;
    LS_TRY(list_needed(r));
    if (r->table->plan->sharding == LS_DATA_PARALLEL) {
        LS_TRY(join_needed(r));
    }
    ARENA_NEW(sums, r->scratch.arena, r->count);
    if (cuts_columns(r->table)) {
        LS_TRY(join_sums(r, sums));
    }
    for (int i = 0; i < r->count; i++) {
        const embedding_occurrences *of = &r->needed[i];
        if (ls_embedding__injected(r->pass->module, LS_FAULT_STALE_ROWS, of->rank)) {
            continue;
        }
        LS_TRY(device->ops->renormalise_rows(
            device, r->table->shards[of->shard].data,
            &(const ls_table_shape){r->table->config->dtype, block_of(r, of)->rows,
                                    (size_t)block_of(r, of)->columns},
            of->rows, sums[i], of->row_count,
            &(const ls_norm_limit){r->table->config->max_norm, r->norm_type, RENORM_EPSILON}));
    }
    return LS_OK;
}

int ls_embedding__renormalise(ls_embedding_pass *pass) {
    ls_embedding *module = pass->module;
    for (int t = 0; t < module->table_count; t++) {
        const ls_table *table = module->tables[t].config;
        if (!(table->max_norm > 0)) {
            continue;
        }
        renorm r = {.pass = pass,
                    .table = &module->tables[t],
                    .index = t,
                    .norm_type = table->norm_type > 0 ? table->norm_type : 2};
        LS_TRY(ls_embedding__pool_create(&r.scratch, module));
        int status = renormalise(&r);
        ls_embedding__pool_free(&r.scratch);
        LS_TRY(status);
    }
    return LS_OK;
}
