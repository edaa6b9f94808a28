// Backward of tables pooled by max: a bag's gradient goes to the id whose row was the largest,
// column by column. The owner holds all rows of its bags, so it finds each again, by the lookup's
// rule: NaN loses against any number, -0 against 0, and of equal ones the first is taken.
#include <math.h>
#include <string.h>

#include "embedding/backward.h"
#include "kernels/element.h"

// A shard's arrays in ordinary memory.
typedef struct bag_maxima {
    const char *rows;    // [ids, columns] what each id looked up, of row_dtype
    const char *bags;    // [bags, columns] their gradients, of dtype
    char *out;           // [ids, columns] of dtype
    const int64_t *ids;  // [ids] local rows
    int64_t padding;     // a local row that does not count, or -1
    size_t columns;
    ls_dtype row_dtype, dtype;
} bag_maxima;

static bool beats(double value, double maximum) {
    if (isnan(value) || isnan(maximum)) {
        return isnan(maximum) && !isnan(value);
    }
    return value > maximum || (value == maximum && signbit(maximum) && !signbit(value));
}

// One bag, whose ids are those from `first` up to `end`.
static void choose(const bag_maxima *m, size_t bag, size_t first, size_t end) {
    size_t bytes = ls_dtype_bytes(m->dtype), row_bytes = ls_dtype_bytes(m->row_dtype);
    for (size_t c = 0; c < m->columns; c++) {
        size_t best = end;
        double maximum = 0;
        for (size_t id = first; id < end; id++) {
            const char *element = m->rows + (id * m->columns + c) * row_bytes;
            double value = ls_element_to_f64(element, m->row_dtype);
            if (m->ids[id] != m->padding && (best == end || beats(value, maximum))) {
                best = id;
                maximum = value;
            }
        }
        if (best < end) {
            memcpy(m->out + (best * m->columns + c) * bytes,
                   m->bags + (bag * m->columns + c) * bytes, bytes);
        }
    }
}

// The rows of a shard's ids, in ordinary memory.
static int fetch_rows(embedding_backward *b, const embedding_shard *shard, const void **out) {
    ls_device *device = b->pass->module->device;
    const embedding_table *table = &b->pass->module->tables[shard->table];
    size_t count, row_bytes, ids = shard->of.count;
    ls_dtype dtype = table->config->dtype;
    void *rows;
    LS_TRY(ls_size_mul(&count, ids, (size_t)shard->block.columns));
    LS_TRY(ls_size_mul(&row_bytes, (size_t)shard->block.columns, ls_dtype_bytes(dtype)));
    LS_TRY(
        ls_embedding__take_elements(&b->scratch, &rows, shard->rank, "rows of ids", count, dtype));
    LS_TRY(device->ops->gather_rows(device, rows, table->shards[shard->shard].data, row_bytes,
                                    shard->block.rows, shard->of.ids, ids));
    return ls_embedding__fetch(&b->scratch, out, rows, count, ls_dtype_bytes(dtype));
}

int ls_embedding__shard_choose(embedding_backward *b, embedding_shard *shard) {
    const embedding_table *table = &b->pass->module->tables[shard->table];
    const embedding_part *part = &b->pass->parts[shard->held][table->group];
    const embedding_occurrences *of = &shard->of;
    size_t columns = (size_t)shard->block.columns, count, arrived;
    const void *rows, *bags, *ids, *chosen;
    if (of->count == 0 || columns == 0) {
        return LS_OK;
    }
    bag_maxima m = {.padding = ls_embedding__shard_padding(table, &shard->block),
                    .columns = columns,
                    .row_dtype = table->config->dtype,
                    .dtype = shard->group->dtype};
    size_t bytes = ls_dtype_bytes(m.dtype);
    LS_TRY(ls_size_mul(&count, of->count, columns));
    LS_TRY(ls_size_mul(&arrived, shard->row_first[of->slot_count], columns));
    LS_TRY(fetch_rows(b, shard, &rows));
    void *own;
    LS_TRY(ls_embedding__shard_own_arrivals(b, shard, &own));
    LS_TRY(ls_embedding__fetch(&b->scratch, &bags, own, arrived, bytes));
    LS_TRY(ls_embedding__fetch(&b->scratch, &ids, of->ids, of->count, sizeof(int64_t)));
    m.rows = rows;
    m.bags = bags;
    m.ids = ids;
    m.out = ls_arena_alloc(b->scratch.arena, count, bytes);
    LS_TRY(m.out ? LS_OK : ls_error_last()->code);
    for (int i = 0; i < of->slot_count; i++) {
        const int64_t *offsets = part->offsets[of->slots[i]];
        for (int64_t bag = 0; bag < part->bags[of->slots[i]]; bag++) {
            choose(&m, shard->row_first[i] + (size_t)bag, of->first[i] + (size_t)offsets[bag],
                   of->first[i] + (size_t)offsets[bag + 1]);
        }
    }
    const embedding_array array = {shard->rank, table->first_pair, "gradients of maxima", count,
                                   bytes};
    LS_TRY(ls_embedding__upload(&b->scratch, &chosen, &array, m.out));
    shard->arrived = (void *)(uintptr_t)chosen;
    shard->stride = shard->block.columns;
    shard->row_of = NULL;
    return LS_OK;
}
