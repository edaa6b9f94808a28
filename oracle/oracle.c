// The oracle's expectations. Deliberately plain: every output is worked out anew, id by id, from
// the inputs of all ranks and the unsharded rows.
#include "oracle/internal.h"

#include <stdio.h>
#include <string.h>

// ---- Inputs -------------------------------------------------------------------------------------

static int check_input(const ls_oracle *oracle, int t, int f, int rank) {
    const ls_table *table = &oracle->options.tables[t];
    const ls_keyed_jagged *input = oracle->options.inputs[rank];
    int key = ls_oracle__key(input, table->features[f]);
    if (key < 0 || (table->weighted && !input->weights && input->value_count > 0)) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank, "oracle: the input of rank %d has no %s %s", rank,
                            key < 0 ? "feature" : "weights for feature", table->features[f]);
    }
    for (int64_t bag = input->starts[key]; bag < input->starts[key + 1]; bag++) {
        for (int64_t i = 0; i < input->lengths[bag]; i++) {
            int64_t id = input->values[input->offsets[bag] + i];
            if (ls_oracle__row(oracle->options.id_policy, table->rows, id) < 0) {
                return LS_FAIL_RANK(LS_ERR_FINDING, rank,
                                    "input.id_out_of_range: table %s, feature %s, rank %d, %s "
                                    "%lld, position %lld: id %lld is not in [0, %lld)",
                                    table->name, table->features[f], rank,
                                    input->inverse_indices ? "bag" : "sample",
                                    (long long)(bag - input->starts[key]), (long long)i,
                                    (long long)id, (long long)table->rows);
            }
        }
    }
    return LS_OK;
}

// ---- The list of outputs ------------------------------------------------------------------------

static int add_entry(ls_oracle *oracle, oracle_entry entry, bool labelled) {
    if (oracle->entry_count == oracle->entry_capacity) {
        size_t capacity = oracle->entry_capacity ? 2 * oracle->entry_capacity : 64;
        oracle_entry *grown;
        LS_TRY(ls_alloc((void **)&grown, capacity, sizeof(*grown)));
        if (oracle->entries) {
            memcpy(grown, oracle->entries, oracle->entry_count * sizeof(*grown));
            ls_free(oracle->entries, oracle->entry_capacity, sizeof(*grown));
        }
        oracle->entries = grown;
        oracle->entry_capacity = capacity;
    }
    if (labelled) {
        snprintf(entry.label, sizeof(entry.label), "%s[%d]", ls_stage_field_name(entry.field),
                 entry.shard);
    } else {
        snprintf(entry.label, sizeof(entry.label), "%s", ls_stage_field_name(entry.field));
    }
    oracle->entries[oracle->entry_count++] = entry;
    return LS_OK;
}

static int add_field(ls_oracle *oracle, oracle_entry entry, ls_stage stage, ls_stage_field field,
                     bool labelled) {
    entry.stage = stage;
    entry.field = field;
    return add_entry(oracle, entry, labelled);
}

// The outputs of training for a shard that serves a feature.
static int list_trained_shard(ls_oracle *oracle, oracle_entry entry, bool labelled) {
    const ls_optimizer *optimizer = &oracle->options.training->optimizers[entry.table];
    bool local = oracle->plans[entry.table]->sharding == LS_DATA_PARALLEL;
    if (!local) {
        LS_TRY(add_field(oracle, entry, LS_STAGE_OUTPUT_DIST_BACKWARD, LS_STAGE_FIELD_VALUES,
                         labelled));
    }
    if (oracle->options.tables[entry.table].weighted) {
        LS_TRY(
            add_field(oracle, entry, LS_STAGE_LOOKUP_BACKWARD, LS_STAGE_FIELD_WEIGHTS, labelled));
    }
    if (entry.feature > 0) {
        return LS_OK;
    }
    if (!local) {
        LS_TRY(add_field(oracle, entry, LS_STAGE_LOOKUP_BACKWARD, LS_STAGE_FIELD_ROWS, labelled));
    }
    LS_TRY(add_field(oracle, entry, LS_STAGE_LOOKUP_BACKWARD, LS_STAGE_FIELD_GRADIENTS, labelled));
    if (local) {
        LS_TRY(add_field(oracle, entry, LS_STAGE_ALL_REDUCE, LS_STAGE_FIELD_GRADIENTS, false));
    }
    if (oracle->options.backward_only) {
        return LS_OK;
    }
    LS_TRY(add_field(oracle, entry, LS_STAGE_UPDATE, LS_STAGE_FIELD_WEIGHTS, labelled));
    for (int state = 0; state < ls_optimizer_state_count(optimizer); state++) {
        ls_stage_field field = state == 0 ? LS_STAGE_FIELD_MOMENTUM1 : LS_STAGE_FIELD_MOMENTUM2;
        LS_TRY(add_field(oracle, entry, LS_STAGE_UPDATE, field, labelled));
    }
    return LS_OK;
}

static int list_shard(ls_oracle *oracle, int t, int f, int shard) {
    const ls_plan_table *plan = oracle->plans[t];
    int rank = plan->shards[shard].rank, on_rank = 0;
    for (int i = 0; i < plan->shard_count; i++) {
        on_rank += plan->shards[i].rank == rank ? 1 : 0;
    }
    oracle_entry entry = {.table = t, .feature = f, .shard = shard, .rank = rank};
    bool labelled = on_rank > 1;
    LS_TRY(add_field(oracle, entry, LS_STAGE_INPUT_DIST, LS_STAGE_FIELD_LENGTHS, labelled));
    LS_TRY(add_field(oracle, entry, LS_STAGE_INPUT_DIST, LS_STAGE_FIELD_IDS, labelled));
    if (oracle->options.tables[t].weighted) {
        LS_TRY(add_field(oracle, entry, LS_STAGE_INPUT_DIST, LS_STAGE_FIELD_WEIGHTS, labelled));
    }
    LS_TRY(add_field(oracle, entry, LS_STAGE_LOOKUP, LS_STAGE_FIELD_VALUES, labelled));
    return oracle->options.training ? list_trained_shard(oracle, entry, labelled) : LS_OK;
}

// The outputs of a rank for a feature as its source.
static int list_source(ls_oracle *oracle, int t, int f, int rank) {
    oracle_entry entry = {.table = t, .feature = f, .shard = -1, .rank = rank};
    LS_TRY(add_field(oracle, entry, LS_STAGE_OUTPUT_DIST, LS_STAGE_FIELD_VALUES, false));
    if (!oracle->options.training) {
        return LS_OK;
    }
    LS_TRY(add_field(oracle, entry, LS_STAGE_OUTPUT_GRAD, LS_STAGE_FIELD_VALUES, false));
    if (oracle->options.tables[t].weighted) {
        LS_TRY(
            add_field(oracle, entry, LS_STAGE_INPUT_DIST_BACKWARD, LS_STAGE_FIELD_WEIGHTS, false));
    }
    bool clips = oracle->options.training->clip_norm > 0 && !oracle->options.backward_only &&
                 t == 0 && f == 0;
    return clips ? add_field(oracle, entry, LS_STAGE_CLIP, LS_STAGE_FIELD_NORM, false) : LS_OK;
}

static int list_outputs(ls_oracle *oracle) {
    for (int t = 0; t < oracle->options.table_count; t++) {
        for (int f = 0; f < oracle->options.tables[t].feature_count; f++) {
            for (int shard = 0; shard < oracle->plans[t]->shard_count; shard++) {
                LS_TRY(list_shard(oracle, t, f, shard));
            }
            for (int rank = 0; rank < oracle->options.plan->ranks; rank++) {
                LS_TRY(list_source(oracle, t, f, rank));
                LS_TRY(check_input(oracle, t, f, rank));
            }
        }
    }
    return LS_OK;
}

static int find_plans(ls_oracle *oracle) {
    const ls_oracle_options *options = &oracle->options;
    size_t count = (size_t)options->table_count;
    LS_TRY(ls_alloc((void **)&oracle->plans, count, sizeof(*oracle->plans)));
    LS_TRY(ls_alloc((void **)&oracle->first_pair, count, sizeof(*oracle->first_pair)));
    for (int t = 0; t < options->table_count; t++) {
        oracle->first_pair[t] =
            t > 0 ? oracle->first_pair[t - 1] + options->tables[t - 1].feature_count : 0;
        for (int i = 0; i < options->plan->table_count; i++) {
            if (strcmp(options->plan->tables[i].name, options->tables[t].name) == 0) {
                oracle->plans[t] = &options->plan->tables[i];
            }
        }
        if (!oracle->plans[t]) {
            return LS_FAIL(LS_ERR_INVALID, "oracle: the plan has no table %s",
                           options->tables[t].name);
        }
        oracle->pair_count = (size_t)(oracle->first_pair[t] + options->tables[t].feature_count);
    }
    return ls_alloc((void **)&oracle->whole, oracle->pair_count, sizeof(*oracle->whole));
}

int ls_oracle_create(ls_oracle **out, const ls_oracle_options *options) {
    LS_ASSERT(out && options && options->plan && options->inputs && options->row);
    *out = NULL;
    ls_oracle *oracle = NULL;
    LS_TRY(ls_alloc((void **)&oracle, 1, sizeof(*oracle)));
    oracle->options = *options;
    int status = find_plans(oracle);
    status = status == LS_OK ? list_outputs(oracle) : status;
    status = status == LS_OK ? ls_oracle__train(oracle) : status;
    if (status) {
        ls_oracle_free(oracle);
        return status;
    }
    *out = oracle;
    return LS_OK;
}

void ls_oracle_free(ls_oracle *oracle) {
    if (oracle) {
        size_t tables = (size_t)oracle->options.table_count;
        ls_free(oracle->plans, tables, sizeof(*oracle->plans));
        ls_free(oracle->first_pair, tables, sizeof(*oracle->first_pair));
        for (size_t i = 0; oracle->whole && i < oracle->pair_count; i++) {
            ls_oracle__selection_free(&oracle->whole[i].all);
        }
        ls_free(oracle->whole, oracle->pair_count, sizeof(*oracle->whole));
        ls_arena_free(oracle->arena);
        ls_free(oracle->entries, oracle->entry_capacity, sizeof(*oracle->entries));
        ls_free(oracle, 1, sizeof(*oracle));
    }
}

int ls_oracle__find(const ls_oracle *oracle, const ls_stage_output *key, const oracle_entry **out) {
    for (size_t n = 0; n < oracle->entry_count; n++) {
        size_t i = (oracle->found + n) % oracle->entry_count;
        const oracle_entry *entry = &oracle->entries[i];
        const ls_table *table = &oracle->options.tables[entry->table];
        if (entry->rank == key->rank && key->stage && key->table && key->feature && key->field &&
            strcmp(key->stage, ls_stage_name(entry->stage)) == 0 &&
            strcmp(key->field, entry->label) == 0 && strcmp(key->table, table->name) == 0 &&
            strcmp(key->feature, table->features[entry->feature]) == 0) {
            ((ls_oracle *)(uintptr_t)oracle)->found = i;
            *out = entry;
            return LS_OK;
        }
    }
    return LS_FAIL_RANK(LS_ERR_NOT_FOUND, key->rank,
                        "oracle: rank %d has no output %s of stage %s, table %s, feature %s",
                        key->rank, key->field ? key->field : "-", key->stage ? key->stage : "-",
                        key->table ? key->table : "-", key->feature ? key->feature : "-");
}

ls_dtype ls_oracle__entry_dtype(const ls_oracle *oracle, const oracle_entry *entry) {
    const ls_table *table = &oracle->options.tables[entry->table];
    bool of_table = entry->stage == LS_STAGE_UPDATE && entry->field == LS_STAGE_FIELD_WEIGHTS;
    bool of_ids = entry->stage > LS_STAGE_OUTPUT_DIST && entry->field == LS_STAGE_FIELD_WEIGHTS;
    if (of_table) {
        return table->dtype;
    }
    return ls_oracle__dtype(table, of_ids ? LS_STAGE_FIELD_GRADIENTS : entry->field);
}

bool ls_oracle__entry_reduces(const ls_oracle *oracle, const oracle_entry *entry) {
    if (entry->stage > LS_STAGE_OUTPUT_DIST_BACKWARD) {
        return entry->field != LS_STAGE_FIELD_ROWS;
    }
    return entry->stage <= LS_STAGE_OUTPUT_DIST && entry->field == LS_STAGE_FIELD_VALUES &&
           ls_oracle__reduces(&oracle->options.tables[entry->table]);
}

size_t ls_oracle_output_count(const ls_oracle *oracle) {
    return oracle->entry_count;
}

int ls_oracle_output(const ls_oracle *oracle, size_t index, ls_stage_output *out) {
    if (index >= oracle->entry_count) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "oracle: no output %zu of %zu", index,
                       oracle->entry_count);
    }
    const oracle_entry *entry = &oracle->entries[index];
    const ls_table *table = &oracle->options.tables[entry->table];
    *out = (ls_stage_output){.stage = ls_stage_name(entry->stage),
                             .table = table->name,
                             .feature = table->features[entry->feature],
                             .field = entry->label,
                             .rank = entry->rank,
                             .dtype = ls_oracle__entry_dtype(oracle, entry),
                             .reduces = ls_oracle__entry_reduces(oracle, entry)};
    return LS_OK;
}
