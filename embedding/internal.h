// Shared by the files of this folder: the module's groups of tables, and what a pass keeps.
#pragma once

#include "embedding/module.h"
#include "embedding/training.h"
#include "embedding/stages.h"
#include "kernels/device.h"

// A (table, feature) pair: the unit of outputs.
typedef struct embedding_pair {
    int table, feature;
} embedding_pair;

// One shard serving one feature: the unit of routing.
typedef struct embedding_slot {
    int pair;   // index into module->pairs
    int shard;  // index into the table's shards in the plan
    ls_plan_shard block;
    int64_t node_column;    // pooled: first column in its node's row of partial results
    bool first_in_node;     // the first slot (of all ranks) with its node_column
    bool first_in_rank;     // the first slot of its rank with its node_column
    int node_block;         // of its node's blocks of columns, the one that it adds to
    int64_t local_padding;  // the table's padding id as a row of the shard, or -1
} embedding_slot;

// The row blocks of one column block of a pair, which share the pair's ids.
typedef struct embedding_route {
    int pair;
    int first, count;     // into group->route_slots
    bool sound;           // the blocks follow one another and cover all rows
    int64_t *row_starts;  // [count + 1] when sound
} embedding_route;

// Tables that share their collectives.
typedef struct embedding_group {
    ls_sharding sharding;
    bool weighted;
    ls_pooling pooling;     // NONE, SUM (sum and mean) or MAX
    ls_dtype dtype;         // of outputs
    int width;              // ranks over which partial results are reduced; sequence: 1
    bool local;             // data parallel: no communication
    embedding_slot *slots;  // [slot_count], by rank, then pair, then shard
    int slot_count;
    int *rank_first;  // [world size + 1]: slots of rank r are [rank_first[r], [r + 1])
    embedding_route *routes;
    int route_count;
    int *route_slots;       // [slot_count] slot indices, route by route
    int64_t *node_columns;  // [nodes] columns of each node's partial results
    int *blocks;            // the slots that are first in their node, node by node, by column
    int *block_first;       // [nodes + 1]: blocks of a node are [block_first[n], [n + 1])
    ls_comm **reduce;       // [nodes] the ranks of each node; NULL when width == 1 (borrowed)
    ls_comm **exchange;     // [width] the ranks with equal place in their nodes; NULL when there is
                            // one node (borrowed)
} embedding_group;

typedef struct embedding_table {
    const ls_table *config;
    const ls_plan_table *plan;
    int first_pair;
    int group;         // index into module->groups
    ls_shard *shards;  // [plan->shard_count]; data on the device, NULL when not held
    bool *held;        // [plan->shard_count]
    // Once training is prepared:
    ls_optimizer optimizer;
    void *(*states)[2];  // [plan->shard_count] (device) NULL where there is none
} embedding_table;

struct ls_embedding {
    ls_backend *backend;
    ls_device *device;  // memory of what the kernels work on; the backend's, or the host
    ls_world *world;
    ls_arena *arena;
    ls_comm *comm;          // of all ranks
    ls_comm **host_comms;   // [hosts] made when a group needs them, else NULL
    ls_comm **cross_comms;  // [ranks_per_host] likewise
    int size;               // ranks of the world
    int ranks_per_host;
    ls_id_policy id_policy;
    ls_torchrec_quirks quirks;
    embedding_table *tables;
    int table_count;
    embedding_pair *pairs;
    int pair_count;
    embedding_group *groups;
    int group_count;
    ls_bad_id bad_id;
    bool has_bad_id;
    bool trains;  // training is prepared: the tables have optimizers
    ls_gradient_division division;
    double clip_norm;
    int64_t step;                                                // updates made
    bool (*injected)(void *arg, ls_fault_type fault, int rank);  // NULL: nothing is
    void *injected_arg;
};

// One held rank's part of one group in one pass. (device): memory of the module's device.
typedef struct embedding_part {
    bool variable;     // the batch has a size per feature
    int kinds;         // 1; variable: blocks of the rank's node
    int64_t *batches;  // [world size][kinds] bags of each source rank
    // As an owner, per own slot k (of rank_first):
    int64_t *bags;                // [own slots] of all sources; local: of the rank itself
    int64_t **lengths;            // [own slots][bags], source ranks in the group's order
    int64_t **offsets;            // [own slots][bags + 1]
    const int64_t **bag_offsets;  // (device) the same
    int64_t **ids;                // (device) [own slots][offsets[bags]] local rows
    float **weights;              // (device) [own slots] or NULL
    void **values;   // (device) [own slots] sequence [ids, columns], local [bags, columns]
    void *partial;   // (device) pooled: [bags, columns of the node], own slots side by side;
                     // variable: source by source [bags, columns] of each block
    bool in_room;    // partial is in the sink's memory
    size_t *starts;  // variable, pooled: [world size][kinds] + 1, sources in the group's order:
                     // where each block begins in partial, in elements
    // As a source of sequences or weights:
    int64_t *sent_ids;          // [slot_count] ids sent to each slot
    const int64_t **positions;  // (device) [slot_count] their positions in the input
} embedding_part;

// One held rank's part of one pair in one pass.
typedef struct embedding_input {
    ls_jagged jagged;  // of the source; ids after the id policy
    ls_jagged bags;    // (device) the same
    void *values;      // (device) pooled [bags, dim], sequence [ids, dim]
    // samples.c: what its samples take of them.
    void *output;                  // (device) [output_rows, dim]; of a plain input values itself
    int64_t output_rows;           // pooled: samples; sequence: ids of all samples
    const int64_t *row_of;         // [output_rows] rows of values; plain: NULL
    const int64_t *device_row_of;  // (device) the same
} embedding_input;

typedef enum embedding_stage {
    STAGE_NONE,
    STAGE_UNDER_WAY,  // input_dist was begun
    STAGE_INPUT_DIST,
    STAGE_LOOKUP,
    STAGE_OUTPUT_DIST,
    STAGE_BACKWARD,
    STAGE_UPDATE
} embedding_stage;

// The results of backward for one held shard.
typedef struct embedding_touched {
    int table, shard;     // in the plan
    const int64_t *rows;  // (device) [count] local, ascending; NULL: all rows of the shard
    void *gradients;      // (device) [count, columns]
    size_t count;
} embedding_touched;

// memory.c: arrays that live until the pool is freed. On the host, all in its arena.
typedef struct embedding_pool {
    const ls_embedding *module;
    ls_arena *arena;  // ordinary memory
    ls_device *device;
    struct embedding_block *blocks;  // on a device that is not the host
} embedding_pool;
// An array for the kernels, and what to call it in messages.
typedef struct embedding_array {
    int rank, pair;  // owner; pair -1: of a whole group
    const char *what;
    size_t count, element_bytes;
} embedding_array;
int ls_embedding__pool_create(embedding_pool *out, const ls_embedding *module);
void ls_embedding__pool_free(embedding_pool *pool);
// Device memory, all of which is written before it is read; or zeroed.
int ls_embedding__take(embedding_pool *pool, void **out, const embedding_array *array);
int ls_embedding__take_zeroed(embedding_pool *pool, void **out, const embedding_array *array);
// Zeroed, on the host, and of the sink's memory where that has room: it will be emitted as it is.
int ls_embedding__take_room(embedding_pool *pool, void **out, bool *in_room,
                            const embedding_array *array, const ls_stage_sink *sink);
// The array that the kernels read in place of `host`: the array itself on the host, else a copy.
int ls_embedding__upload(embedding_pool *pool, const void **out, const embedding_array *array,
                         const void *host);
// The contents of device memory in ordinary memory: the array itself on the host, else a copy.
int ls_embedding__fetch(embedding_pool *pool, const void **out, const void *data, size_t count,
                        size_t element_bytes);

struct ls_embedding_pass {
    ls_embedding *module;
    embedding_pool pool;
    ls_arena *arena;        // the pool's
    embedding_pool filled;  // of arrays for each rank of each rank, which are written whole
    int held_count;
    embedding_stage done;
    embedding_input **inputs;             // [held][pairs]
    embedding_part **parts;               // [held][groups]
    embedding_touched **touched;          // [held][touched_count]
    int *touched_count;                   // [held]
    struct embedding_arrivals *arrivals;  // of an input_dist that is under way; else NULL
};

// Allocates `count` elements from an arena or returns from the caller with the error.
#define ARENA_NEW(pointer, arena, count)                                                           \
    do {                                                                                           \
        (pointer) = ls_arena_alloc((arena), (size_t)(count), sizeof(*(pointer)));                  \
        if (!(pointer)) {                                                                          \
            return ls_error_last()->code;                                                          \
        }                                                                                          \
    } while (0)

// groups.c: builds module->groups out of the plan.
int ls_embedding__groups_create(ls_embedding *module);
void ls_embedding__groups_free(ls_embedding *module);

static inline int slots_of(const embedding_group *group, int rank) {
    return group->rank_first[rank + 1] - group->rank_first[rank];
}

// The bags that a source rank has for a slot of the part's node.
static inline int64_t ls_embedding__batch(const embedding_part *part, int source,
                                          const embedding_slot *slot) {
    return part->batches[(size_t)source * (size_t)part->kinds +
                         (size_t)(part->variable ? slot->node_block : 0)];
}

// The ids that a source rank sent for own slot k, whose bags begin at *bag: in the group's order of
// sources. *bag: behind them.
static inline int64_t ls_embedding__came(const embedding_part *part, int source,
                                         const embedding_slot *slot, int k, int64_t *bag) {
    int64_t first = *bag;
    *bag += ls_embedding__batch(part, source, slot);
    return part->offsets[k][*bag] - part->offsets[k][first];
}

// The k-th source rank in the order in which an owner of the group keeps batches.
int ls_embedding__source(const embedding_group *group, int world_size, int k);

// quantised.c: what a table can be kept as, room and contents of a shard, and the type that its
// lookup accumulates in or gathers (quantised: f32).
int ls_embedding__check_kept(const ls_table *table);
int ls_embedding__shard_room(size_t *count, size_t *element_bytes, const ls_table *table,
                             int64_t rows, int64_t columns);
int ls_embedding__fill_quantised(void *out, const ls_table *table, int index,
                                 const ls_plan_shard *block, const ls_embedding_options *options);
ls_dtype ls_embedding__looked_up_dtype(const ls_table *table);

// The padding id of a pooled table, -1 where none counts.
int64_t ls_embedding__padding(const ls_table *table);

// part.c: makes the lists of a part's slots, room for what slot k has (its offsets must be known),
// and hands slot k's arrays to the sink.
int ls_embedding__part_create(embedding_part *part, const embedding_group *group, int rank,
                              ls_arena *arena);
int ls_embedding__part_slot(embedding_pool *pool, const embedding_group *group, int rank, int k,
                            embedding_part *part);
int ls_embedding__part_emit(const ls_embedding_pass *pass, const embedding_group *group, int held,
                            int k, const ls_stage_sink *sink);

// One held rank's sends for one group in input_dist, cut up by slot (device).
typedef struct embedding_outgoing {
    int64_t *sent_ids;        // [slots], on the host
    const int64_t **lengths;  // [slots][batch]
    const int64_t **ids;      // [slots][sent_ids] rows of the owner's shard
    const float **weights;    // [slots][sent_ids]
} embedding_outgoing;

// routing.c: fills pass->inputs[held] from the rank's input and applies the id policy.
int ls_embedding__prepare_rank(ls_embedding_pass *pass, int held, const ls_keyed_jagged *input);
int ls_embedding__outgoing_create(embedding_outgoing *out, const embedding_group *group,
                                  ls_arena *arena);
// Cuts the rank's input up: fills *out and the source side of *part.
int ls_embedding__route_rank(ls_embedding_pass *pass, const embedding_group *group, int held,
                             embedding_pool *scratch, embedding_part *part,
                             embedding_outgoing *out);

// samples.c: a batch size per feature. Finds what each sample takes of its bag's values.
int ls_embedding__samples_prepare(ls_embedding_pass *pass, int rank, int pair,
                                  embedding_input *input);
// values -> output.
int ls_embedding__samples_take(ls_embedding_pass *pass, int rank, int pair, embedding_input *input);
// gradients [output_rows, dim] (device) of the output -> out [rows of values, dim], taken from
// memory, which is the same array for a plain input. Summed from +0 in the samples' order, as
// row_gradients does.
int ls_embedding__samples_fold(embedding_pool *memory, int rank, int pair,
                               const embedding_input *input, void *gradients, void **out);

// The stages, on a pass (input_dist.c, lookup.c, output_dist.c).
// `begins`: without waiting, where the backend can. Then a wait must follow, after a failure too.
int ls_embedding__input_dist_start(ls_embedding_pass *pass, const ls_keyed_jagged *const *inputs,
                                   bool begins);
// The started exchange completes; without `settle` it is only waited for.
int ls_embedding__input_dist_wait(ls_embedding_pass *pass, bool settle, const ls_stage_sink *sink);
int ls_embedding__lookup(ls_embedding_pass *pass, const ls_stage_sink *sink);
int ls_embedding__output_dist(ls_embedding_pass *pass, const ls_stage_sink *sink);

// exchange.c: one collective of the held ranks of `comm`, in the device's or in ordinary memory.
typedef struct embedding_exchange {
    ls_kind kind;  // LS_ALL_TO_ALL, LS_REDUCE_SCATTER, LS_ALL_GATHER or LS_ALL_REDUCE
    ls_comm *comm;
    ls_dtype dtype;
    ls_op op;
    ls_stage stage;    // that it belongs to
    const char *what;  // the stage and what moves, for messages: "input_dist lengths"
} embedding_exchange;
// One rank's side of it.
typedef struct embedding_side {
    int rank;
    const void *send;
    void *recv;
    bool recv_shared;
    const size_t *send_counts;  // [comm size]: all_to_all, reduce_scatter
    const size_t *recv_counts;  // [comm size]: all_to_all, all_gather
    size_t count;               // all_reduce
} embedding_side;
int ls_embedding__exchange(ls_backend *backend, const embedding_exchange *exchange,
                           const embedding_side *sides, int side_count);
// Whether held ranks receive data that is the same for all of them in one buffer, and send an
// output from the sink's memory: in a simulation, where it is not written. Separate copies would be
// most of the data that a simulated step moves.
bool ls_embedding__exchange_shares(const ls_backend *backend);
// The same under way, where the backend can begin a call without waiting; else it is over already.
typedef struct embedding_pending {
    const char *what;
    ls_call *calls;
    void **handles;
    int count, done;  // calls that were begun; of these, the first `done` are complete
} embedding_pending;
int ls_embedding__exchange_start(embedding_pending *out, ls_backend *backend,
                                 const embedding_exchange *exchange, const embedding_side *sides,
                                 int side_count, ls_arena *arena);
int ls_embedding__exchange_wait(embedding_pending *pending, ls_backend *backend);

// occurrences.c: the ids of all slots that serve a held shard, slot by slot, and its rows among
// them. `padding`: a local row whose ids do not count, or -1.
typedef struct embedding_occurrences {
    int rank, table, shard;  // in the plan
    int slot_count;
    int *slots;             // [slot_count] own slots (of rank_first), by feature
    size_t *first;          // [slot_count + 1] ids before each slot
    size_t count;           // ids
    const int64_t *ids;     // (device) [count] local rows
    const int64_t *rows;    // (device) [row_count] distinct, ascending
    size_t row_count;       //
    const int64_t *starts;  // (device) [row_count + 1]; see ls_kernel_group_ids
    const int64_t *order;   // (device)
} embedding_occurrences;
// defects.c: what faults of training do. Whether one is injected in a held rank.
bool ls_embedding__injected(const ls_embedding *module, ls_fault_type fault, int rank);
// Leaves the first of the ids of every row.
int ls_embedding__count_once(embedding_occurrences *of, embedding_pool *pool);
int ls_embedding__occurrences(embedding_occurrences *out, const ls_embedding_pass *pass, int held,
                              int table, int shard, int64_t padding, embedding_pool *pool);

// renormalise.c: max_norm, before a lookup.
int ls_embedding__renormalise(ls_embedding_pass *pass);

// transit.c: the way of one held rank's pooled results of a group to their sources, or of the
// gradients back. The same counts serve both: what one sends the other receives.
typedef struct embedding_transit {
    int rank, node, place;          // rank = node * width + place
    const embedding_part *part;     //
    const embedding_input *inputs;  // [pairs] of the rank
    // Elements:
    size_t *by_place;        // [width] of the node's partial results, by the place of the source
    size_t *by_source_node;  // [nodes] of those with this place, by the node of the source
    size_t *by_owner_node;   // [nodes] of this rank's own outputs, by the node of the owner
    size_t partials, outputs;
    // On the device:
    void *partial;   // [bags, columns of the node]
    void *reduced;   // [batches of the sources with equal place, by node][columns of the node]
    void *received;  // per node: [own batch, columns of that node]; variable: [bags, columns] of
                     // each of its blocks
} embedding_transit;
int ls_embedding__transits_create(embedding_transit **out, const ls_embedding_pass *pass,
                                  const embedding_group *group, ls_arena *arena);
// partial -> reduced, over each node; backward: gathers them again.
int ls_embedding__transit_reduce(const ls_embedding_pass *pass, const embedding_group *group,
                                 embedding_transit *ways, bool backward, embedding_pool *scratch);
// Exchanges reduced -> received among the ranks of equal place; backward: the reverse.
int ls_embedding__transit_exchange(const ls_embedding_pass *pass, const embedding_group *group,
                                   embedding_transit *ways, bool backward, embedding_pool *scratch);
// received -> outputs [pairs] of the rank (of those that are the group's); backward: the other way.
int ls_embedding__transit_outputs(const ls_embedding_pass *pass, const embedding_group *group,
                                  const embedding_transit *way, void *const *outputs,
                                  bool backward);
// Variable: the pieces of a slot's values [bags, columns] in the partial results of its rank,
// source by source. op: LS_SUM and LS_MAX add the values to the contents, LS_OP_COUNT overwrites;
// backward: the values receive the contents.
int ls_embedding__transit_pieces(const ls_embedding_pass *pass, const embedding_group *group,
                                 const embedding_part *part, int slot, void *partial, void *values,
                                 ls_op op, bool backward);
int ls_embedding__take_elements(embedding_pool *memory, void **out, int rank, const char *what,
                                size_t count, ls_dtype dtype);

// Some columns of an array (device).
typedef struct embedding_columns {
    void *data;
    int64_t stride, column;  // of a row, and the first one
} embedding_columns;
int ls_embedding__copy_columns(ls_device *device, const embedding_columns *to,
                               const embedding_columns *from, int64_t columns, int64_t rows,
                               ls_dtype dtype);

// rows.c: one row for each id that a group's sources sent to its owners.
typedef struct embedding_rows {
    ls_dtype dtype;
    int64_t columns;   // of a row; 0: those of the slot's shard
    bool to_owner;     // else to the source
    ls_stage stage;    // that moves them
    const char *what;  // for messages
    void ***owned;     // [held][own slots] (device) [ids, columns], in the order of the slot's ids
    void **sourced;    // [held] (device) slot by slot: [sent ids, columns]; to the source: taken
} embedding_rows;
int ls_embedding__exchange_rows(const ls_embedding_pass *pass, const embedding_group *group,
                                const embedding_rows *rows, embedding_pool *scratch);

// division.c: divides values [batch, dim] (device), which are a pair's outputs or their gradients,
// by what its source divides by.
int ls_embedding__divide(const ls_embedding *module, const embedding_input *pair, int index,
                         void *values);
// values [rows, columns] (device) times a factor, in place.
int ls_embedding__scale(const ls_embedding *module, void *values, double factor, ls_dtype dtype,
                        int64_t rows, int64_t columns);

// pass.c: hands an array to the sink, if any. shard -1: no index in the field's name.
typedef struct embedding_emission {
    ls_stage stage;
    ls_stage_field field;
    int rank, pair, shard;
    ls_dtype dtype;
    ls_shape shape;
    const void *data;
    bool in_host_memory;  // else on the module's device
    bool in_room;         // as in ls_stage_output
    bool reduces;
} embedding_emission;
int ls_embedding__emit(const ls_embedding *module, const ls_stage_sink *sink,
                       const embedding_emission *emission);
// The shard's index where its rank holds several shards of the table, else -1.
int ls_embedding__shard_label(const ls_embedding *module, int table, int shard);

// training.c: of the sums of a table's gradients.
ls_dtype ls_embedding__gradient_dtype(const embedding_table *table);
// Whether its optimizer updates every row, not only those with a gradient.
bool ls_embedding__every_row(const embedding_table *table);
void ls_embedding__states_free(ls_embedding *module);

// *out = a * b * c; LS_ERR_OVERFLOW.
int ls_embedding__count(size_t *out, int64_t a, int64_t b, int64_t c);
