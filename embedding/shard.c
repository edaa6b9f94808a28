// A shard of a module: its data, its count and its padding.
#include "embedding/internal.h"

int64_t ls_embedding__padding(const ls_table *table) {
    return table->has_padding_id && table->pooling != LS_POOL_NONE ? table->padding_id : -1;
}

int ls_embedding__count(size_t *out, int64_t a, int64_t b, int64_t c) {
    LS_ASSERT(a >= 0 && b >= 0 && c >= 0);
    LS_TRY(ls_size_mul(out, (size_t)a, (size_t)b));
    return ls_size_mul(out, *out, (size_t)c);
}

ls_shard *ls_embedding_shard(ls_embedding *module, int table, int rank, int index) {
    LS_ASSERT(module && table >= 0 && table < module->table_count);
    const embedding_table *entry = &module->tables[table];
    if (index < 0 || index >= entry->plan->shard_count) {
        return NULL;
    }
    int shard = entry->plan->sharding == LS_DATA_PARALLEL ? -1 : index;
    for (int i = 0; shard < 0 && i < entry->plan->shard_count; i++) {
        shard = entry->plan->shards[i].rank == rank ? i : -1;
    }
    if (shard < 0 || !entry->held[shard] || entry->plan->shards[shard].rank != rank) {
        return NULL;
    }
    return &entry->shards[shard];
}
