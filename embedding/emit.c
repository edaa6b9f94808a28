// The outputs of a module's stages.
#include "embedding/internal.h"

#include <stdio.h>

int ls_embedding__shard_label(const ls_embedding *module, int table, int shard) {
    const ls_plan_table *plan = module->tables[table].plan;
    int on_rank = 0;
    for (int i = 0; i < plan->shard_count; i++) {
        on_rank += plan->shards[i].rank == plan->shards[shard].rank;
    }
    return on_rank > 1 ? shard : -1;
}

// Data on the device is copied out first.
static int emit_copy(const ls_embedding *module, const ls_stage_sink *sink,
                     const embedding_emission *emission) {
    size_t count, bytes = ls_dtype_bytes(emission->dtype);
    void *host;
    LS_TRY(ls_shape_count(&count, &emission->shape));
    LS_TRY(ls_alloc(&host, count, bytes));
    int status = module->device->ops->copy_out(module->device, host, emission->data, count * bytes);
    if (!status) {
        embedding_emission copy = *emission;
        copy.data = host;
        copy.in_host_memory = true;
        status = ls_embedding__emit(module, sink, &copy);
    }
    ls_free(host, count, bytes);
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
        snprintf(field, sizeof(field), "%s[%d]", ls_stage_field_name(emission->field),
                 emission->shard);
    } else {
        snprintf(field, sizeof(field), "%s", ls_stage_field_name(emission->field));
    }
    ls_stage_output output = {.stage = ls_stage_name(emission->stage),
                              .stage_of_tables = (int)emission->stage,
                              .field_of_tables = (int)emission->field,
                              .table = table->name,
                              .feature = table->features[pair->feature],
                              .field = field,
                              .rank = emission->rank,
                              .dtype = emission->dtype,
                              .shape = emission->shape,
                              .data = emission->data,
                              .in_room = emission->in_room,
                              .reduces = emission->reduces};
    return sink->emit(sink->arg, &output);
}

const char *ls_stage_name(ls_stage stage) {
    static const char *const names[] = {[LS_STAGE_NONE] = "",
#define LS_STAGE_NAME(name, text, step) [LS_STAGE_##name] = (text),
                                        LS_STAGE_MAP(LS_STAGE_NAME)
#undef LS_STAGE_NAME
    };
    LS_ASSERT((int)stage >= 0 && stage < LS_STAGE_COUNT);
    return names[stage];
}

const char *ls_stage_field_name(ls_stage_field field) {
    static const char *const names[] = {[LS_STAGE_FIELD_NONE] = "",
#define LS_STAGE_FIELD_NAME(name, text) [LS_STAGE_FIELD_##name] = (text),
                                        LS_STAGE_FIELD_MAP(LS_STAGE_FIELD_NAME)
#undef LS_STAGE_FIELD_NAME
    };
    LS_ASSERT((int)field >= 0 && field < LS_STAGE_FIELD_COUNT);
    return names[field];
}
