// Which bags and ids an output of the oracle's is about.
#include "oracle/internal.h"

int ls_oracle__node_ranks(const ls_oracle *oracle, int t) {
    const ls_plan *plan = oracle->options.plan;
    if (oracle->options.tables[t].pooling == LS_POOL_NONE) {
        return 1;
    }
    return ls_sharding_width(oracle->plans[t]->sharding, plan->ranks, plan->ranks_per_host);
}

// An output that has, of a batch with a size per feature, a bag for each sample.
static bool takes_samples(const ls_keyed_jagged *input, const oracle_entry *entry) {
    return input->inverse_indices && entry->stage == LS_STAGE_OUTPUT_DIST;
}

// At least as many as select_source finds.
static int count_source(const ls_oracle *oracle, const oracle_entry *entry, int source,
                        size_t *bags, size_t *items) {
    const ls_keyed_jagged *input = oracle->options.inputs[source];
    const char *feature = oracle->options.tables[entry->table].features[entry->feature];
    int key = ls_oracle__key(input, feature);
    size_t ids = 0;
    for (int64_t b = 0; takes_samples(input, entry) && b < input->batch; b++) {
        int64_t bag = input->starts[key] + input->inverse_indices[key * input->batch + b];
        LS_TRY(ls_size_add(&ids, ids, (size_t)input->lengths[bag]));
    }
    if (takes_samples(input, entry)) {
        *bags += (size_t)input->batch;
        return ls_size_add(items, *items, ids);
    }
    *bags += (size_t)(input->starts[key + 1] - input->starts[key]);
    *items += (size_t)input->value_count;
    return LS_OK;
}

static void select_source(const ls_oracle *oracle, const oracle_entry *entry, int source,
                          oracle_selection *out) {
    const ls_table *table = &oracle->options.tables[entry->table];
    const ls_keyed_jagged *input = oracle->options.inputs[source];
    int key = ls_oracle__key(input, table->features[entry->feature]);
    int64_t first_row = 0, rows = table->rows;
    if (entry->shard >= 0) {
        first_row = oracle->plans[entry->table]->shards[entry->shard].row_offset;
        rows = oracle->plans[entry->table]->shards[entry->shard].rows;
    }
    int64_t count = input->starts[key + 1] - input->starts[key];
    bool by_sample = takes_samples(input, entry);
    ls_id_policy policy = oracle->options.id_policy;
    for (int64_t sample = 0; sample < (by_sample ? input->batch : count); sample++) {
        int64_t bag = input->starts[key] +
                      (by_sample ? input->inverse_indices[key * input->batch + sample] : sample);
        oracle_bag *chosen = &out->bags[out->bag_count++];
        *chosen = (oracle_bag){.source = source,
                               .sample = sample,
                               .is_bag = input->inverse_indices && !by_sample,
                               .first = out->item_count};
        for (int64_t i = 0; i < input->lengths[bag]; i++) {
            int64_t at = input->offsets[bag] + i;
            int64_t id = input->values[at];
            id = id >= 0 && id < table->rows ? id : ls_oracle__row(policy, table->rows, id);
            if (id >= first_row && id < first_row + rows) {
                double weight =
                    table->weighted ? ls_oracle__weight(table, &input->weights[at]) : 1.0;
                out->items[out->item_count++] = (oracle_item){id, i, weight};
                chosen->count++;
            }
        }
    }
}

// Room for what the sources [first, end) could have.
static int open_selection(const ls_oracle *oracle, const oracle_entry *entry, int first, int end,
                          oracle_selection *out) {
    size_t bags = 0, items = 0;
    for (int rank = first; rank < end; rank++) {
        LS_TRY(count_source(oracle, entry, rank, &bags, &items));
    }
    *out = (oracle_selection){.bag_capacity = bags, .item_capacity = items};
    LS_TRY(ls_alloc((void **)&out->bags, bags, sizeof(*out->bags)));
    return ls_alloc((void **)&out->items, items, sizeof(*out->items));
}

static int make_whole(const ls_oracle *oracle, const oracle_entry *any, oracle_whole *out) {
    oracle_selection *all = &out->all;
    int ranks = oracle->options.plan->ranks;
    LS_TRY(open_selection(oracle, any, 0, ranks, all));
    // Source ranks by their place in the node, then by node.
    int per_node = ls_oracle__node_ranks(oracle, any->table);
    for (int place = 0; place < per_node; place++) {
        for (int node = 0; node < ranks / per_node; node++) {
            select_source(oracle, any, node * per_node + place, all);
        }
    }
    out->ids = ls_arena_alloc(oracle->arena, all->item_count, sizeof(*out->ids));
    out->hits = ls_arena_alloc(oracle->arena, all->item_count + 1, sizeof(*out->hits));
    for (size_t i = 0; out->ids && i < all->item_count; i++) {
        out->ids[i] = all->items[i].id;
    }
    return out->ids && out->hits ? LS_OK : LS_ERR_MEMORY;
}

// Every id of a feature, in any shard. Computed at the first use.
static int select_whole(const ls_oracle *oracle, const oracle_entry *entry,
                        const oracle_whole **out) {
    oracle_whole *whole = &oracle->whole[oracle->first_pair[entry->table] + entry->feature];
    oracle_entry any = *entry;
    any.shard = -1;
    *out = whole;
    int status = whole->all.bags ? LS_OK : make_whole(oracle, &any, whole);
    if (status) {
        ls_oracle__selection_free(&whole->all);
    }
    return status;
}

#define RUN 16  // items that are processed together

// Whether any of a run of ids is a row in [first, last].
static bool any_between(const int64_t *ids, int64_t first, int64_t last) {
    int64_t outside = -1;  // negative as long as all are
    for (size_t k = 0; k < RUN; k++) {
        outside &= (ids[k] - first) | (last - ids[k]);
    }
    return outside >= 0;
}

// Lists the items whose ids are rows in [first, first + rows), as few are where shards are many.
static size_t find_hits(const oracle_whole *whole, int64_t first, int64_t rows) {
    size_t items = whole->all.item_count, count = 0;
    for (size_t i = 0, end; i < items; i = end) {
        end = items - i < RUN ? items : i + RUN;
        if (end == i + RUN && !any_between(whole->ids + i, first, first + rows - 1)) {
            continue;
        }
        for (size_t k = i; k < end; k++) {
            whole->hits[count] = k;
            count += whole->ids[k] >= first && whole->ids[k] < first + rows ? 1 : 0;
        }
    }
    return count;
}

static int select_of_whole(const ls_oracle *oracle, const oracle_entry *entry,
                           oracle_selection *out) {
    const oracle_whole *whole = NULL;
    int64_t first_row = 0, rows = oracle->options.tables[entry->table].rows;
    if (entry->shard >= 0) {
        first_row = oracle->plans[entry->table]->shards[entry->shard].row_offset;
        rows = oracle->plans[entry->table]->shards[entry->shard].rows;
    }
    LS_TRY(select_whole(oracle, entry, &whole));
    const oracle_selection *all = &whole->all;
    size_t count = find_hits(whole, first_row, rows), next = 0;
    *out = (oracle_selection){.bag_count = all->bag_count,
                              .bag_capacity = all->bag_count,
                              .item_count = count,
                              .item_capacity = count};
    LS_TRY(ls_alloc((void **)&out->bags, out->bag_capacity, sizeof(*out->bags)));
    LS_TRY(ls_alloc((void **)&out->items, out->item_capacity, sizeof(*out->items)));
    for (size_t b = 0; b < all->bag_count; b++) {
        const oracle_bag *bag = &all->bags[b];
        oracle_bag *chosen = &out->bags[b];
        *chosen = *bag;
        chosen->first = next;
        for (; next < count && whole->hits[next] < bag->first + bag->count; next++) {
            out->items[next] = all->items[whole->hits[next]];
        }
        chosen->count = next - chosen->first;
    }
    return LS_OK;
}

int ls_oracle__select(const ls_oracle *oracle, const oracle_entry *entry, oracle_selection *out) {
    bool own_only = entry->stage == LS_STAGE_OUTPUT_DIST || entry->stage == LS_STAGE_OUTPUT_GRAD ||
                    entry->stage == LS_STAGE_INPUT_DIST_BACKWARD ||
                    oracle->plans[entry->table]->sharding == LS_DATA_PARALLEL;
    *out = (oracle_selection){0};
    int status = own_only ? open_selection(oracle, entry, entry->rank, entry->rank + 1, out)
                          : select_of_whole(oracle, entry, out);
    if (status) {
        ls_oracle__selection_free(out);
    } else if (own_only) {
        select_source(oracle, entry, entry->rank, out);
    }
    return status;
}

void ls_oracle__selection_free(oracle_selection *selection) {
    ls_free(selection->bags, selection->bag_capacity, sizeof(*selection->bags));
    ls_free(selection->items, selection->item_capacity, sizeof(*selection->items));
    *selection = (oracle_selection){0};
}
