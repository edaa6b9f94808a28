// A pass: one batch's way through a module, stage by stage, and what it leaves for readers.
#include "embedding/internal.h"

#include <stdio.h>

static int pass_create(ls_embedding_pass **out, ls_embedding *module) {
    embedding_pool pool;
    LS_TRY(ls_embedding__pool_create(&pool, module));
    ls_arena *arena = pool.arena;
    ls_embedding_pass *pass = ls_arena_alloc(arena, 1, sizeof(*pass));
    if (!pass) {
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    pass->module = module;
    pass->pool = pool;
    pass->arena = arena;
    pass->held_count = ls_world_held_count(module->world);
    size_t held = (size_t)pass->held_count;
    pass->inputs = ls_arena_alloc(arena, held, sizeof(*pass->inputs));
    pass->parts = pass->inputs ? ls_arena_alloc(arena, held, sizeof(*pass->parts)) : NULL;
    bool ok = pass->parts != NULL;
    for (size_t h = 0; h < held && ok; h++) {
        pass->inputs[h] = ls_arena_alloc(arena, (size_t)module->pair_count, sizeof(**pass->inputs));
        pass->parts[h] = ls_arena_alloc(arena, (size_t)module->group_count, sizeof(**pass->parts));
        ok = pass->inputs[h] && pass->parts[h];
    }
    if (!ok) {
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    *out = pass;
    return LS_OK;
}

void ls_embedding_pass_free(ls_embedding_pass *pass) {
    if (pass) {
        embedding_pool pool = pass->pool;  // whose arena holds the pass itself
        ls_embedding__pool_free(&pool);
    }
}

int ls_embedding_input_dist(ls_embedding_pass **out, ls_embedding *module,
                            const ls_keyed_jagged *const *inputs, const ls_stage_sink *sink) {
    LS_ASSERT(out && module && inputs);
    *out = NULL;
    ls_embedding_pass *pass = NULL;
    LS_TRY(pass_create(&pass, module));
    int status = ls_embedding__input_dist(pass, inputs, sink);
    if (status) {
        ls_embedding_pass_free(pass);
        return status;
    }
    pass->done = STAGE_INPUT_DIST;
    *out = pass;
    return LS_OK;
}

int ls_embedding_lookup(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass && pass->done == STAGE_INPUT_DIST);
    LS_TRY(ls_embedding__lookup(pass, sink));
    pass->done = STAGE_LOOKUP;
    return LS_OK;
}

int ls_embedding_output_dist(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass && pass->done == STAGE_LOOKUP);
    LS_TRY(ls_embedding__output_dist(pass, sink));
    pass->done = STAGE_OUTPUT_DIST;
    return LS_OK;
}

int ls_embedding_forward(ls_embedding_pass **out, ls_embedding *module,
                         const ls_keyed_jagged *const *inputs, const ls_stage_sink *sink) {
    LS_TRY(ls_embedding_input_dist(out, module, inputs, sink));
    int status = ls_embedding_lookup(*out, sink);
    if (!status) {
        status = ls_embedding_output_dist(*out, sink);
    }
    if (status) {
        ls_embedding_pass_free(*out);
        *out = NULL;
    }
    return status;
}

const void *ls_embedding_output(const ls_embedding_pass *pass, int rank, int table, int feature,
                                int64_t *rows, ls_dtype *dtype) {
    LS_ASSERT(pass && pass->done >= STAGE_OUTPUT_DIST);
    const ls_embedding *module = pass->module;
    LS_ASSERT(table >= 0 && table < module->table_count);
    const embedding_table *entry = &module->tables[table];
    LS_ASSERT(feature >= 0 && feature < entry->config->feature_count);
    int held = ls_world_held_index(module->world, rank);
    LS_ASSERT(held >= 0);
    const embedding_input *input = &pass->inputs[held][entry->first_pair + feature];
    const embedding_group *group = &module->groups[entry->group];
    if (rows) {
        int64_t batch = input->jagged.batch;
        *rows = group->pooling == LS_POOL_NONE
                    ? input->jagged.offsets[batch] - input->jagged.offsets[0]
                    : batch;
    }
    if (dtype) {
        *dtype = group->dtype;
    }
    return input->output;
}

// ---- Stage outputs ------------------------------------------------------------------------------

int ls_embedding__shard_label(const ls_embedding *module, int table, int shard) {
    const ls_plan_table *plan = module->tables[table].plan;
    int on_rank = 0;
    for (int i = 0; i < plan->shard_count; i++) {
        on_rank += plan->shards[i].rank == plan->shards[shard].rank;
    }
    return on_rank > 1 ? shard : -1;
}

// What lies on the device is copied out first.
static int emit_copy(const ls_embedding *module, const ls_stage_sink *sink,
                     const embedding_emission *emission) {
    size_t count, bytes = ls_dtype_bytes(emission->dtype);
    void *host;
    LS_TRY(ls_shape_count(&count, &emission->shape));
    LS_TRY(ls_alloc(&host, NULL, count, bytes));
    int status = module->device->ops->copy_out(module->device, host, emission->data, count * bytes);
    if (!status) {
        embedding_emission copy = *emission;
        copy.data = host;
        copy.in_host_memory = true;
        status = ls_embedding__emit(module, sink, &copy);
    }
    ls_free(NULL, host, count, bytes);
    return status;
}

int ls_embedding__emit(const ls_embedding *module, const ls_stage_sink *sink,
                       const embedding_emission *emission) {
    if (!sink) {
        return LS_OK;
    }
    if (!module->device->ops->is_host && !emission->in_host_memory) {
        return emit_copy(module, sink, emission);
    }
    const embedding_pair *pair = &module->pairs[emission->pair];
    const ls_table *table = module->tables[pair->table].config;
    char field[32];
    if (emission->shard >= 0) {
        snprintf(field, sizeof(field), "%s[%d]", emission->field, emission->shard);
    } else {
        snprintf(field, sizeof(field), "%s", emission->field);
    }
    ls_stage_output output = {.stage = emission->stage,
                              .table = table->name,
                              .feature = table->features[pair->feature],
                              .field = field,
                              .rank = emission->rank,
                              .dtype = emission->dtype,
                              .shape = emission->shape,
                              .data = emission->data,
                              .reduces = emission->reduces};
    return sink->emit(sink->arg, &output);
}
