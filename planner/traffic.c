// Counts traffic group by group: the tables that share sharding type, weights, pooling and output
// type share their collectives.
#include "planner/traffic.h"

#include <string.h>

typedef struct counter {
    ls_traffic_rank *out;
    const ls_plan *plan;
    const ls_traffic_table *tables;
    const int64_t *batches;
    const ls_traffic_ids *const *ids;
    const int *first_feature;  // [tables] of the table, in ids
    uint64_t *columns;         // [ranks] scratch: columns of partial results per node
    bool overflow;
} counter;

static uint64_t times(counter *c, uint64_t a, uint64_t b) {
    uint64_t product;
    c->overflow = __builtin_mul_overflow(a, b, &product) || c->overflow;
    return product;
}

static void add(counter *c, uint64_t *sum, uint64_t value) {
    c->overflow = __builtin_add_overflow(*sum, value, sum) || c->overflow;
}

static bool same_group(const counter *c, int a, int b) {
    const ls_traffic_table *x = &c->tables[a];
    const ls_traffic_table *y = &c->tables[b];
    return c->plan->tables[a].sharding == c->plan->tables[b].sharding && x->pooling == y->pooling &&
           x->output == y->output && x->weighted == y->weighted;
}

// Ranks over which partial results are summed.
static int width_of(const counter *c, int table) {
    if (c->tables[table].pooling == LS_TRAFFIC_SEQUENCE) {
        return 1;
    }
    return ls_sharding_width(c->plan->tables[table].sharding, c->plan->ranks,
                             c->plan->ranks_per_host);
}

static void count_sizes(counter *c, int table) {
    uint64_t words = c->tables[table].weighted ? 4 : 3;
    for (int r = 0; r < c->plan->ranks; r++) {
        uint64_t bytes = times(c, words * sizeof(int64_t), (uint64_t)c->plan->ranks);
        add(c, &c->out[r].sizes.sent, bytes);
        add(c, &c->out[r].sizes.received, bytes);
    }
}

static uint64_t ids_inside(const ls_traffic_ids *ids, const ls_plan_shard *shard) {
    uint64_t count = 0;
    for (int64_t i = 0; i < ids->count; i++) {
        count += ids->at[i] >= shard->row_offset && ids->at[i] < shard->row_offset + shard->rows;
    }
    return count;
}

// What one source rank sends to one shard for one feature, and, for a sequence, gets back.
static void count_slot(counter *c, int table, const ls_plan_shard *shard, int from, int feature) {
    const ls_traffic_ids *ids = &c->ids[from][c->first_feature[table] + feature];
    ls_traffic_rank *source = &c->out[from];
    ls_traffic_rank *owner = &c->out[shard->rank];
    uint64_t lengths = times(c, (uint64_t)c->batches[from], sizeof(int64_t));
    uint64_t inside = ids_inside(ids, shard);
    add(c, &source->lengths.sent, lengths);
    add(c, &owner->lengths.received, lengths);
    add(c, &source->ids.sent, times(c, inside, sizeof(int64_t)));
    add(c, &owner->ids.received, times(c, inside, sizeof(int64_t)));
    if (c->tables[table].weighted) {
        add(c, &source->weights.sent, times(c, inside, sizeof(float)));
        add(c, &owner->weights.received, times(c, inside, sizeof(float)));
    }
    if (c->tables[table].pooling == LS_TRAFFIC_SEQUENCE) {
        uint64_t row = times(c, (uint64_t)shard->columns, ls_dtype_bytes(c->tables[table].output));
        add(c, &owner->outputs.sent, times(c, inside, row));
        add(c, &source->outputs.received, times(c, inside, row));
    }
}

static void count_inputs(counter *c, int table) {
    const ls_plan_table *plan = &c->plan->tables[table];
    for (int s = 0; s < plan->shard_count; s++) {
        for (int f = 0; f < c->tables[table].feature_count; f++) {
            for (int from = 0; from < c->plan->ranks; from++) {
                count_slot(c, table, &plan->shards[s], from, f);
            }
        }
    }
}

// Columns of partial results that each node holds for the table: its column blocks, once each.
static void count_columns(counter *c, int table, int width) {
    const ls_plan_table *plan = &c->plan->tables[table];
    uint64_t features = (uint64_t)c->tables[table].feature_count;
    for (int s = 0; s < plan->shard_count; s++) {
        const ls_plan_shard *shard = &plan->shards[s];
        int node = shard->rank / width;
        bool seen = false;
        // Row blocks of one column block stand next to one another.
        for (int before = s - 1; before >= 0 && !seen; before--) {
            const ls_plan_shard *other = &plan->shards[before];
            if (other->column_offset != shard->column_offset) {
                break;
            }
            seen = other->rank / width == node;
        }
        if (!seen) {
            add(c, &c->columns[node], times(c, features, (uint64_t)shard->columns));
        }
    }
}

// Pooled outputs of a group whose nodes' columns are counted: reduced over the node, then sent to
// the ranks that the samples came from.
static void count_outputs(counter *c, int width, uint64_t element) {
    int ranks = c->plan->ranks;
    int nodes = ranks / width;
    bool exchanged = width < ranks || width == 1;  // a world of one rank still calls itself
    uint64_t all_columns = 0;
    for (int n = 0; n < nodes; n++) {
        add(c, &all_columns, c->columns[n]);
    }
    for (int r = 0; r < ranks; r++) {
        int place = r % width;
        uint64_t row = times(c, c->columns[r / width], element);
        for (int from = 0; from < ranks; from++) {
            uint64_t bytes = times(c, (uint64_t)c->batches[from], row);
            if (width > 1) {
                add(c, &c->out[r].reduce.sent, bytes);
                add(c, &c->out[r].reduce.received, from % width == place ? bytes : 0);
            }
            if (exchanged && from % width == place) {
                add(c, &c->out[r].outputs.sent, bytes);
            }
        }
        if (exchanged) {
            add(c, &c->out[r].outputs.received,
                times(c, (uint64_t)c->batches[r], times(c, all_columns, element)));
        }
    }
}

static void count_group(counter *c, int first) {
    int width = width_of(c, first);
    memset(c->columns, 0, (size_t)c->plan->ranks * sizeof(*c->columns));
    count_sizes(c, first);
    for (int t = first; t < c->plan->table_count; t++) {
        if (same_group(c, first, t)) {
            count_inputs(c, t);
            count_columns(c, t, width);
        }
    }
    if (c->tables[first].pooling != LS_TRAFFIC_SEQUENCE) {
        count_outputs(c, width, ls_dtype_bytes(c->tables[first].output));
    }
}

int ls_plan_traffic(ls_traffic_rank *out, const ls_plan *plan, const ls_traffic_table *tables,
                    const int64_t *batches, const ls_traffic_ids *const *ids) {
    LS_ASSERT(out && plan && batches && ids);
    LS_ASSERT(plan->ranks >= 1 && (tables || plan->table_count == 0));
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    size_t count = plan->table_count ? (size_t)plan->table_count : 1;
    int *first_feature = ls_arena_alloc(arena, count, sizeof(*first_feature));
    counter c = {.out = out, .plan = plan, .tables = tables, .batches = batches, .ids = ids};
    c.columns = ls_arena_alloc(arena, (size_t)plan->ranks, sizeof(*c.columns));
    c.first_feature = first_feature;
    if (!first_feature || !c.columns) {
        ls_arena_free(arena);
        return LS_ERR_MEMORY;
    }
    memset(out, 0, (size_t)plan->ranks * sizeof(*out));
    for (int t = 1; t < plan->table_count; t++) {
        first_feature[t] = first_feature[t - 1] + tables[t - 1].feature_count;
    }
    for (int t = 0; t < plan->table_count; t++) {
        bool first = plan->tables[t].sharding != LS_DATA_PARALLEL;
        for (int before = 0; before < t && first; before++) {
            first = !same_group(&c, before, t);
        }
        if (first) {
            count_group(&c, t);
        }
    }
    ls_arena_free(arena);
    return c.overflow ? LS_FAIL(LS_ERR_OVERFLOW, "plan: the bytes of a stage overflow") : LS_OK;
}
