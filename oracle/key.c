// Keys, element types and columns, for all files of the oracle.
#include <string.h>

#include "oracle/internal.h"
#include "kernels/element.h"

void ls_oracle__columns(const ls_oracle *oracle, const oracle_entry *entry, int64_t *first,
                        int64_t *count) {
    *first = 0;
    *count = oracle->options.tables[entry->table].dim;
    if (entry->shard >= 0) {
        *first = oracle->plans[entry->table]->shards[entry->shard].column_offset;
        *count = oracle->plans[entry->table]->shards[entry->shard].columns;
    }
}

bool ls_oracle__counts(const ls_table *table, int64_t id) {
    return table->pooling == LS_POOL_NONE || !table->has_padding_id || id != table->padding_id;
}

// The feature's place in an input, or -1.
int ls_oracle__key(const ls_keyed_jagged *input, const char *feature) {
    for (int i = 0; i < input->key_count; i++) {
        if (strcmp(input->keys[i], feature) == 0) {
            return i;
        }
    }
    return -1;
}

// The row that an id refers to: the policy, implemented independently. -1: none.
int64_t ls_oracle__row(ls_id_policy policy, int64_t rows, int64_t id) {
    if (id >= 0 && id < rows) {
        return id;
    }
    if (rows == 0 || policy == LS_ID_ERROR) {
        return -1;
    }
    if (policy == LS_ID_CLAMP) {
        return id < 0 ? 0 : rows - 1;
    }
    int64_t rest = id % rows;
    return rest < 0 ? rest + rows : rest;
}

static ls_dtype values_dtype(const ls_table *table) {
    if (table->has_output_dtype) {
        return table->output_dtype;
    }
    if (table->row_format) {
        return LS_F32;
    }
    return table->pooling == LS_POOL_NONE ? table->dtype : ls_optimizer_state_dtype(table->dtype);
}

bool ls_oracle__reduces(const ls_table *table) {
    return table->pooling == LS_POOL_SUM || table->pooling == LS_POOL_MEAN;
}

double ls_oracle__weight(const ls_table *table, const float *weight) {
    return ls_element_to_f64(weight, ls_oracle__dtype(table, LS_STAGE_FIELD_WEIGHTS));
}

ls_dtype ls_oracle__dtype(const ls_table *table, ls_stage_field field) {
    switch (field) {
    case LS_STAGE_FIELD_VALUES:
        return values_dtype(table);
    case LS_STAGE_FIELD_WEIGHTS:
    case LS_STAGE_FIELD_NORM:
        return table->dtype == LS_FIELD ? LS_FIELD : LS_F32;
    case LS_STAGE_FIELD_GRADIENTS:
    case LS_STAGE_FIELD_MOMENTUM1:
    case LS_STAGE_FIELD_MOMENTUM2:
        return ls_optimizer_state_dtype(table->dtype);
    default:
        return LS_I64;
    }
}
