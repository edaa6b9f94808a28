// Shared by the files of this folder.
#pragma once

#include "oracle/oracle.h"
#include "oracle/range.h"
#include "embedding/stages.h"

// The two meanings that a run may have (see oracle.h).
typedef enum oracle_sense { ORACLE_UNSHARDED, ORACLE_DOCUMENTED, ORACLE_SENSES } oracle_sense;

// One output that a full run emits.
typedef struct oracle_entry {
    ls_stage stage;
    ls_stage_field field;
    int table, feature;
    int shard;  // in the plan; -1 for output_dist
    int rank;
    char label[32];  // the field's name, with the shard's index where there are several
} oracle_entry;

// Some rows of a table, each with a record of what it and its states hold: weights [dim], then each
// state: [dim], or, where it is per row, one number for each part of the columns that keeps its
// own.
typedef struct oracle_records {
    size_t count, size;       // rows, numbers in a record
    int64_t *rows;            // [count] ascending
    bool *touched;            // [count] by the batch
    oracle_range *gradients;  // [count, dim] sums over all ranks, before clipping
    oracle_range *after;      // [count, size] after the step
} oracle_records;

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
    bool is_bag;          // of a batch with a size per feature: `sample` counts bags
    size_t first, count;  // into items
} oracle_bag;

typedef struct oracle_selection {
    oracle_bag *bags;
    size_t bag_count, bag_capacity;
    oracle_item *items;
    size_t item_count, item_capacity;
} oracle_selection;

// Every id of a feature. Thousands of shards each search theirs among them.
typedef struct oracle_whole {
    oracle_selection all;
    int64_t *ids;  // [item_count] of the items
    size_t *hits;  // [item_count] scratch
} oracle_whole;

struct ls_oracle {
    ls_oracle_options options;
    const ls_plan_table **plans;  // [table_count]
    int *first_pair;              // [table_count] pairs of the tables before it
    oracle_whole *whole;          // [pair_count] of all shards; without bags: not yet asked for
    size_t pair_count;            //
    oracle_entry *entries;
    size_t entry_count, entry_capacity;
    size_t found;  // the entry that was asked for last: the next one stands near it
    ls_arena *arena;
    // [table_count] of tables with max_norm: the rows that the batch looks up, ascending.
    int64_t **needed;
    size_t *needed_count;
    // Of training:
    int64_t step;  // updates up to and with this oracle's
    // [senses][ranks][pairs] [rows, dim] gradients of the outputs, divided as a mean is. Pooled by
    // max, there follows one for each id: its bag's where its row is the largest, else 0.
    oracle_range ***gradients[ORACLE_SENSES];
    oracle_records *records[ORACLE_SENSES];  // [table_count]
    oracle_range norm[ORACLE_SENSES], factor[ORACLE_SENSES];
};

// The divisors of a pooled output, one after another; why: the documented reason.
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
// The weight of an id as its table takes it.
double ls_oracle__weight(const ls_table *table, const float *weight);
// Whether a table is divided as TorchRec does it by the scenario's own words: there divisors, or
// what is multiplied by in their place, are of the output's type and rounded to it.
bool ls_oracle__divides_as_torchrec(const ls_table *table, const oracle_divisor *by);
// Adds a reason to `meaning`.
void ls_oracle__say(oracle_meaning *meaning, const char *what);
// Why an output is by design.
void ls_oracle__say_why(const ls_oracle *oracle, const oracle_entry *entry, oracle_meaning *out);
// The documented result of the table's sharding type; false: nothing else.
bool ls_oracle__documented(const ls_oracle *oracle, int table, oracle_meaning *out);

// quantised.c: a row [dim] as the table keeps it before the first step, of which columns
// [first, first + columns) at least are written, and whether its column shards have scales of their
// own.
int ls_oracle__kept_row(const ls_oracle *oracle, int table, oracle_sense sense, int64_t row,
                        int64_t first, int64_t columns, double *out);
bool ls_oracle__own_scales(const ls_oracle *oracle, int table);

// training.c: works the step out.
int ls_oracle__train(ls_oracle *oracle);
// maxima.c: hands a bag's gradient [dim] to its ids. out [ids, dim].
int ls_oracle__give_maxima(const ls_oracle *oracle, int table, oracle_sense sense,
                           const ls_keyed_jagged *input, int64_t bag, const oracle_range *gradient,
                           oracle_range *out);
// state.c
int ls_oracle__list_needed(ls_oracle *oracle);
int64_t ls_oracle__next_part(const ls_oracle *oracle, int table, int64_t column);
// Whether training gives the table another content under its sharding type than unsharded.
bool ls_oracle__departs(const ls_oracle *oracle, int table);
// And why: its optimizer; false: it does not.
bool ls_oracle__own_state(const ls_oracle *oracle, int table);
// The oracle's state of a row before the batch: its weights [dim] and states.
int ls_oracle__record(const ls_oracle *oracle, int table, oracle_sense sense, int64_t row,
                      oracle_range *out);
// Of the record's numbers [first, first + count) at least.
int ls_oracle__record_part(const ls_oracle *oracle, int table, oracle_sense sense, int64_t row,
                           size_t first, size_t count, oracle_range *out);
size_t ls_oracle__record_size(const ls_oracle *oracle, int table, oracle_sense sense);
// Where a state stands in a record, and how many numbers it has there.
size_t ls_oracle__state_at(const ls_oracle *oracle, int table, oracle_sense sense, int state,
                           size_t *count);
// The part of the columns that begins at `column`, among those that keep states of their own.
size_t ls_oracle__part_of(const ls_oracle *oracle, int table, int64_t column);
// Sums of only one rank's occurrences, dense [rows, dim].
int ls_oracle__rank_gradients(const ls_oracle *oracle, int table, oracle_sense sense, int rank,
                              oracle_range *out);
// Describes the difference of a row's sum, if it has a known pattern.
int ls_oracle__explain_gradient(const ls_oracle *oracle, const oracle_entry *entry, int64_t row,
                                int64_t column, const oracle_range *wanted, double got,
                                ls_text *text);
// 1 / ranks where gradients are divided, else 1.
oracle_range ls_oracle__share(const ls_oracle *oracle, ls_dtype dtype);
const ls_training *ls_oracle__training(const ls_oracle *oracle);
// expect_training.c
// The row (-1: of none) and the column (-1: of none) that an element of an output of backward or
// update is about; false: an output that is about samples.
bool ls_oracle__trace_row(const ls_oracle *oracle, const oracle_entry *entry, size_t element,
                          int64_t *row, int64_t *column);
int ls_oracle__expect_training(const ls_oracle *oracle, const oracle_entry *entry,
                               const oracle_selection *selection, ls_expected *out);

int ls_oracle__find(const ls_oracle *oracle, const ls_stage_output *key, const oracle_entry **out);
// Ranks per node: over how many ranks a table's partial results are reduced.
int ls_oracle__node_ranks(const ls_oracle *oracle, int t);
int ls_oracle__select(const ls_oracle *oracle, const oracle_entry *entry, oracle_selection *out);
void ls_oracle__selection_free(oracle_selection *selection);
// The columns that the entry's values have, of the table's.
void ls_oracle__columns(const ls_oracle *oracle, const oracle_entry *entry, int64_t *first,
                        int64_t *count);
// The feature's place in an input, or -1.
int ls_oracle__key(const ls_keyed_jagged *input, const char *feature);
// Where an id really looks under the id policy; -1: nowhere.
int64_t ls_oracle__row(ls_id_policy policy, int64_t rows, int64_t id);
ls_dtype ls_oracle__dtype(const ls_table *table, ls_stage_field field);
ls_dtype ls_oracle__entry_dtype(const ls_oracle *oracle, const oracle_entry *entry);
bool ls_oracle__entry_reduces(const ls_oracle *oracle, const oracle_entry *entry);
// Whether an id counts in a bag: it is not the padding id of a pooled table.
bool ls_oracle__counts(const ls_table *table, int64_t id);
// Whether the table's values are sums.
bool ls_oracle__reduces(const ls_table *table);
