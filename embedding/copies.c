// Backward of data parallel tables: the copies' gradients are summed over all ranks.
#include "embedding/backward.h"

// One all_reduce over the copies of a table: in place, or into one array of all copies held here.
static int reduce_copies(embedding_backward *b, const embedding_exchange *exchange, int table,
                         void **arrays, int64_t columns) {
    const ls_embedding *module = b->pass->module;
    bool shares = ls_embedding__exchange_shares(module->backend);
    embedding_side *sides;
    ARENA_NEW(sides, b->scratch.arena, b->pass->held_count);
    int count = 0;
    void *shared = NULL;
    for (int s = 0; s < b->shard_count; s++) {
        const embedding_shard *shard = &b->shards[s];
        if (shard->table != table) {
            continue;
        }
        embedding_side *side = &sides[count];
        *side = (embedding_side){.rank = shard->rank, .send = arrays[count]};
        LS_TRY(ls_embedding__count(&side->count, shard->block.rows, columns, 1));
        if (shares && !shared) {
            LS_TRY(ls_embedding__take_elements(&b->pass->pool, &shared, shard->rank, exchange->what,
                                               side->count, exchange->dtype));
        }
        side->recv_shared = shares;
        side->recv = arrays[count] = shares ? shared : arrays[count];
        count++;
    }
    return ls_embedding__exchange(module->backend, exchange, sides, count);
}

// The rows that any rank touched, and their gradients: an optimizer of the fused form skips the
// others.
static int keep_touched(embedding_backward *b, const embedding_shard *shard, const void *marks) {
    ls_device *device = b->pass->module->device;
    embedding_touched *touched = shard->touched;
    const embedding_table *table = &b->pass->module->tables[shard->table];
    ls_dtype dtype = ls_embedding__gradient_dtype(table);
    size_t columns = (size_t)shard->block.columns, bytes = columns * ls_dtype_bytes(dtype), count;
    const void *fetched, *uploaded;
    int64_t *rows;
    LS_TRY(ls_embedding__fetch(&b->scratch, &fetched, marks, (size_t)shard->block.rows,
                               sizeof(int32_t)));
    ARENA_NEW(rows, b->pass->arena, shard->block.rows);
    touched->count = 0;
    for (int64_t row = 0; row < shard->block.rows; row++) {
        if (((const int32_t *)fetched)[row] > 0) {
            rows[touched->count++] = row;
        }
    }
    const embedding_array array = {shard->rank, table->first_pair, "rows with a gradient",
                                   touched->count, sizeof(*rows)};
    LS_TRY(ls_embedding__upload(&b->pass->pool, &uploaded, &array, rows));
    void *gradients;
    LS_TRY(ls_size_mul(&count, touched->count, columns));
    LS_TRY(ls_embedding__take_elements(&b->pass->pool, &gradients, shard->rank, "gradients of rows",
                                       count, dtype));
    if (touched->count > 0) {
        LS_TRY(device->ops->gather_rows(device, gradients, touched->gradients, bytes,
                                        shard->block.rows, uploaded, touched->count));
    }
    touched->rows = uploaded;
    touched->gradients = gradients;
    return LS_OK;
}

// 1 for each row that this rank's batch touched. marks [rows] i32, zeroed.
static int mark_rows(embedding_backward *b, const embedding_shard *shard, void **marks) {
    ls_device *device = b->pass->module->device;
    const embedding_touched *touched = shard->touched;
    static const int32_t one = 1;
    void *ones;
    const embedding_array array = {shard->rank, -1, "marks of rows", (size_t)shard->block.rows,
                                   sizeof(one)};
    LS_TRY(ls_embedding__take_zeroed(&b->scratch, marks, &array));
    LS_TRY(ls_embedding__take_elements(&b->scratch, &ones, shard->rank, "marks of rows",
                                       touched->count, LS_I32));
    if (touched->count == 0) {
        return LS_OK;
    }
    LS_TRY(device->ops->fill(device, ones, LS_I32, &one, touched->count));
    return device->ops->scatter_rows(device, *marks, sizeof(one), ones, sizeof(one), touched->rows,
                                     touched->count);
}

// The sums and the rows that count, for the update of every copy.
static int keep_reduced(embedding_backward *b, int t, void *const *gradients, void *const *marks,
                        const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    const embedding_table *table = &module->tables[t];
    const embedding_touched *kept = NULL;  // of another copy with the same sums
    bool shares = ls_embedding__exchange_shares(module->backend);
    int count = 0;
    for (int s = 0; s < b->shard_count; s++) {
        const embedding_shard *shard = &b->shards[s];
        if (shard->table != t) {
            continue;
        }
        shard->touched->gradients = gradients[count];
        const embedding_emission emission = {.stage = LS_STAGE_ALL_REDUCE,
                                             .field = LS_STAGE_FIELD_GRADIENTS,
                                             .rank = shard->rank,
                                             .pair = table->first_pair,
                                             .shard = -1,
                                             .dtype = ls_embedding__gradient_dtype(table),
                                             .shape =
                                                 LS_SHAPE(shard->block.rows, shard->block.columns),
                                             .data = shard->touched->gradients,
                                             .reduces = true};
        LS_TRY(ls_embedding__emit(module, sink, &emission));
        if (ls_embedding__every_row(table)) {
            shard->touched->rows = NULL;
            shard->touched->count = (size_t)shard->block.rows;
        } else if (kept) {
            shard->touched->rows = kept->rows;
            shard->touched->count = kept->count;
            shard->touched->gradients = kept->gradients;
        } else {
            LS_TRY(keep_touched(b, shard, marks[count]));
        }
        kept = shares ? shard->touched : NULL;
        count++;
    }
    return LS_OK;
}

static int reduce_table(embedding_backward *b, int t, const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    const embedding_table *table = &module->tables[t];
    void **gradients, **marks;
    ARENA_NEW(gradients, b->scratch.arena, b->pass->held_count);
    ARENA_NEW(marks, b->scratch.arena, b->pass->held_count);
    int count = 0;
    for (int s = 0; s < b->shard_count; s++) {
        if (b->shards[s].table == t) {
            gradients[count] = b->shards[s].touched->gradients;
            LS_TRY(mark_rows(b, &b->shards[s], &marks[count++]));
        }
    }
    embedding_exchange exchange = {.kind = LS_ALL_REDUCE,
                                   .comm = module->comm,
                                   .dtype = ls_embedding__gradient_dtype(table),
                                   .op = LS_SUM,
                                   .stage = LS_STAGE_ALL_REDUCE,
                                   .what = "all_reduce gradients"};
    LS_TRY(reduce_copies(b, &exchange, t, gradients, table->config->dim));
    if (!ls_embedding__every_row(table)) {
        exchange.dtype = LS_I32;
        exchange.op = LS_MAX;
        exchange.what = "all_reduce rows";
        LS_TRY(reduce_copies(b, &exchange, t, marks, 1));
    }
    return keep_reduced(b, t, gradients, marks, sink);
}

int ls_embedding__shards_reduce(embedding_backward *b, const ls_stage_sink *sink) {
    const ls_embedding *module = b->pass->module;
    for (int t = 0; t < module->table_count; t++) {
        if (module->groups[module->tables[t].group].local) {
            LS_TRY(reduce_table(b, t, sink));
        }
    }
    return LS_OK;
}
