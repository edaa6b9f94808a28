// Arrays that live as long as a stage or a pass: control data in an arena, in ordinary memory, and
// what the kernels work on in the device's. On the host both are the arena.
#include "embedding/internal.h"

// One array on a device that is not the host.
struct embedding_block {
    struct embedding_block *next;
    void *data;
    size_t bytes;
};

int ls_embedding__pool_create(embedding_pool *out, const ls_embedding *module) {
    *out = (embedding_pool){.module = module, .device = module->device};
    return ls_arena_create(&out->arena);
}

void ls_embedding__pool_free(embedding_pool *pool) {
    for (struct embedding_block *block = pool->blocks; block; block = block->next) {
        pool->device->ops->free(pool->device, block->data, block->bytes);
    }
    pool->blocks = NULL;
    ls_arena_free(pool->arena);  // which holds the blocks, and perhaps the pool's owner
}

static int fail_array(const ls_embedding *module, const embedding_array *array, size_t bytes) {
    if (array->pair < 0) {
        return ls_error_wrap("rank %d: %s, %zu bytes", array->rank, array->what, bytes);
    }
    const embedding_pair *pair = &module->pairs[array->pair];
    const ls_table *table = module->tables[pair->table].config;
    return ls_error_wrap("rank %d: table %s, feature %s: %s, %zu bytes", array->rank, table->name,
                         table->features[pair->feature], array->what, bytes);
}

static int take(embedding_pool *pool, void **out, const embedding_array *array, bool zeroed) {
    size_t bytes;
    *out = NULL;
    LS_TRY(ls_size_mul(&bytes, array->count, array->element_bytes));
    if (ls_world_ask_gate(pool->module->world, bytes)) {
        return fail_array(pool->module, array, bytes);
    }
    if (pool->device->ops->is_host) {
        *out = (zeroed ? ls_arena_alloc : ls_arena_alloc_raw)(pool->arena, array->count,
                                                              array->element_bytes);
        return *out ? LS_OK : fail_array(pool->module, array, bytes);
    }
    struct embedding_block *block;
    ARENA_NEW(block, pool->arena, 1);
    block->bytes = bytes > 0 ? bytes : 1;
    if (pool->device->ops->alloc(pool->device, &block->data, block->bytes)) {
        return fail_array(pool->module, array, bytes);
    }
    block->next = pool->blocks;
    pool->blocks = block;
    *out = block->data;
    return LS_OK;
}

// A rank that makes its own calls may be injected to leave one out: what it lacks then is 0.
int ls_embedding__take(embedding_pool *pool, void **out, const embedding_array *array) {
    return take(pool, out, array, !ls_embedding__exchange_shares(pool->module->backend));
}

int ls_embedding__take_zeroed(embedding_pool *pool, void **out, const embedding_array *array) {
    return take(pool, out, array, true);
}

int ls_embedding__take_room(embedding_pool *pool, void **out, bool *in_room,
                            const embedding_array *array, const ls_stage_sink *sink) {
    size_t bytes;
    LS_TRY(ls_size_mul(&bytes, array->count, array->element_bytes));
    *out = sink && sink->room ? sink->room(sink->arg, bytes) : NULL;
    *in_room = *out != NULL;
    return *in_room ? LS_OK : ls_embedding__take_zeroed(pool, out, array);
}

int ls_embedding__upload(embedding_pool *pool, const void **out, const embedding_array *array,
                         const void *host) {
    if (pool->device->ops->is_host) {
        *out = host;
        return LS_OK;
    }
    void *taken;
    LS_TRY(ls_embedding__take(pool, &taken, array));
    *out = taken;
    return pool->device->ops->copy_in(pool->device, taken, host,
                                      array->count * array->element_bytes);
}

int ls_embedding__fetch(embedding_pool *pool, const void **out, const void *data, size_t count,
                        size_t element_bytes) {
    *out = data;
    if (pool->device->ops->is_host) {
        return LS_OK;
    }
    void *host = ls_arena_alloc(pool->arena, count, element_bytes);
    if (!host) {
        return ls_error_last()->code;
    }
    *out = host;
    return pool->device->ops->copy_out(pool->device, host, data, count * element_bytes);
}
