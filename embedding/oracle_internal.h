// What the two files of the oracle share. Nothing here is used by the module.
#ifndef LS_EMBEDDING_ORACLE_INTERNAL_H
#define LS_EMBEDDING_ORACLE_INTERNAL_H

#include "embedding/oracle.h"

typedef enum oracle_stage { ORACLE_INPUT_DIST, ORACLE_LOOKUP, ORACLE_OUTPUT_DIST } oracle_stage;
typedef enum oracle_field {
    ORACLE_LENGTHS,
    ORACLE_IDS,
    ORACLE_WEIGHTS,
    ORACLE_VALUES
} oracle_field;

// One output that a full run emits.
typedef struct oracle_entry {
    oracle_stage stage;
    oracle_field field;
    int table, feature;
    int shard;  // in the plan; -1 for output_dist
    int rank;
    char label[32];  // the field's name, with the shard's index where there are several
} oracle_entry;

struct ls_oracle {
    ls_oracle_options options;
    const ls_plan_table **plans;  // [table_count]
    oracle_entry *entries;
    size_t entry_count, entry_capacity;
};

// One id of a bag.
typedef struct oracle_item {
    int64_t id;        // after the id policy
    int64_t position;  // in the source's whole bag
    double weight;     // 1 where there is none
} oracle_item;

// The bags that one output is about, in its order, each with the ids that take part.
typedef struct oracle_bag {
    int source;           // rank
    int64_t sample;       // on it
    size_t first, count;  // into items
} oracle_bag;

typedef struct oracle_selection {
    oracle_bag *bags;
    size_t bag_count, bag_capacity;
    oracle_item *items;
    size_t item_count, item_capacity;
} oracle_selection;

// What a pooled output is divided by, one after another; why says what is documented.
typedef enum oracle_by { ORACLE_BY_ONE, ORACLE_BY_IDS, ORACLE_BY_WEIGHTS } oracle_by;
typedef struct oracle_divisor {
    oracle_by by;
    double added;
} oracle_divisor;
typedef struct oracle_meaning {
    oracle_divisor divisors[2];
    int count;
    char why[512];
} oracle_meaning;
void ls_oracle__unsharded(const ls_oracle *oracle, int table, oracle_meaning *out);
// What the table's sharding type is documented to give instead; false: nothing else.
bool ls_oracle__documented(const ls_oracle *oracle, int table, oracle_meaning *out);

int ls_oracle__find(const ls_oracle *oracle, const ls_stage_output *key, const oracle_entry **out);
int ls_oracle__select(const ls_oracle *oracle, const oracle_entry *entry, oracle_selection *out);
void ls_oracle__selection_free(oracle_selection *selection);
// The columns that the entry's values have, of the table's.
void ls_oracle__columns(const ls_oracle *oracle, const oracle_entry *entry, int64_t *first,
                        int64_t *count);
// The feature's place in an input, or -1.
int ls_oracle__key(const ls_keyed_jagged *input, const char *feature);
// Where an id really looks under the id policy; -1: nowhere.
int64_t ls_oracle__row(ls_id_policy policy, int64_t rows, int64_t id);
ls_dtype ls_oracle__dtype(const ls_table *table, oracle_field field);
// Whether an id counts in a bag: it is not the padding id of a pooled table.
bool ls_oracle__counts(const ls_table *table, int64_t id);
// Whether the table's values are sums.
bool ls_oracle__reduces(const ls_table *table);

#endif
