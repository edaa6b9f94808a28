// Counts traffic group by group: the tables that share sharding type, weights, pooling and output
// type share their collectives.
#include "planner/traffic.h"

#include <string.h>

typedef struct counter {
    ls_traffic_rank *out;
    const ls_plan *plan;
    const ls_traffic_table *tables;
    const ls_traffic_ids *const *ids;
    const int *first_feature;  // [tables] of the table, in ids
    bool variable, overflow;
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

static const ls_traffic_ids *input_of(const counter *c, int table, int from, int feature) {
    return &c->ids[from][c->first_feature[table] + feature];
}

static uint64_t ids_inside(const ls_traffic_ids *ids, const ls_plan_shard *shard) {
    uint64_t count = 0;
    for (int64_t i = 0; i < ids->count; i++) {
        count += ids->at[i] >= shard->row_offset && ids->at[i] < shard->row_offset + shard->rows;
    }
    return count;
}

// The data that one source rank sends to one shard for one feature, and, for a sequence, gets back.
static void count_slot(counter *c, int table, const ls_plan_shard *shard, int from, int feature) {
    const ls_traffic_ids *ids = input_of(c, table, from, feature);
    ls_traffic_rank *source = &c->out[from];
    ls_traffic_rank *owner = &c->out[shard->rank];
    uint64_t lengths = times(c, (uint64_t)ids->bags, sizeof(int64_t));
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

// Every rank sends every rank of the node its bags of one block of the node's columns.
static void count_batches(counter *c, int node, int width) {
    uint64_t sent = times(c, (uint64_t)width, sizeof(int64_t));
    uint64_t received = times(c, (uint64_t)c->plan->ranks, sizeof(int64_t));
    for (int r = 0; r < c->plan->ranks; r++) {
        add(c, &c->out[r].batches.sent, sent);
        add(c, &c->out[r].batches.received, r / width == node ? received : 0);
    }
}

// Pooled results of one feature in one block of a node's columns: reduced over the node, then sent
// to the ranks that the bags came from.
static void count_results(counter *c, int table, const ls_plan_shard *block, int feature,
                          int width) {
    int first = block->rank / width * width;
    bool exchanged =
        width < c->plan->ranks || width == 1;  // a world of one rank still calls itself
    uint64_t row = times(c, (uint64_t)block->columns, ls_dtype_bytes(c->tables[table].output));
    uint64_t all = 0;
    for (int from = 0; from < c->plan->ranks; from++) {
        ls_traffic_rank *reducer = &c->out[first + from % width];
        uint64_t bytes = times(c, (uint64_t)input_of(c, table, from, feature)->bags, row);
        add(c, &all, bytes);
        add(c, &reducer->reduce.received, width > 1 ? bytes : 0);
        add(c, &reducer->outputs.sent, exchanged ? bytes : 0);
        add(c, &c->out[from].outputs.received, exchanged ? bytes : 0);
    }
    for (int r = first; r < first + width && width > 1; r++) {
        add(c, &c->out[r].reduce.sent, all);
    }
}

// Whether the node of a shard has the shard's columns from an earlier one, too. Row blocks of one
// column block stand next to one another.
static bool node_has_columns(const ls_plan_table *plan, int shard, int width) {
    const ls_plan_shard *at = &plan->shards[shard];
    for (int s = shard - 1; s >= 0 && plan->shards[s].column_offset == at->column_offset; s--) {
        if (plan->shards[s].rank / width == at->rank / width) {
            return true;
        }
    }
    return false;
}

// Data sent by blocks of columns of a node, rather than by shards.
static void count_blocks(counter *c, int table, int width) {
    const ls_plan_table *plan = &c->plan->tables[table];
    for (int s = 0; s < plan->shard_count; s++) {
        if (node_has_columns(plan, s, width)) {
            continue;
        }
        for (int f = 0; f < c->tables[table].feature_count; f++) {
            if (c->variable) {
                count_batches(c, plan->shards[s].rank / width, width);
            }
            if (c->tables[table].pooling != LS_TRAFFIC_SEQUENCE) {
                count_results(c, table, &plan->shards[s], f, width);
            }
        }
    }
}

static void count_group(counter *c, int first) {
    int width = width_of(c, first);
    count_sizes(c, first);
    for (int t = first; t < c->plan->table_count; t++) {
        if (same_group(c, first, t)) {
            count_inputs(c, t);
            count_blocks(c, t, width);
        }
    }
}

int ls_plan_traffic(ls_traffic_rank *out, const ls_plan *plan, const ls_traffic_table *tables,
                    const ls_traffic_ids *const *ids, bool variable) {
    LS_ASSERT(out && plan && ids);
    LS_ASSERT(plan->ranks >= 1 && (tables || plan->table_count == 0));
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    size_t count = plan->table_count ? (size_t)plan->table_count : 1;
    int *first_feature = ls_arena_alloc(arena, count, sizeof(*first_feature));
    counter c = {.out = out,
                 .plan = plan,
                 .tables = tables,
                 .ids = ids,
                 .first_feature = first_feature,
                 .variable = variable};
    if (!first_feature) {
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
