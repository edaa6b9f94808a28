// The contents of a scenario file as plain structs. ls_scenario_load (load.h) creates them from
// YAML by the schema table (schema.h), scenario_check.c checks their meaning, and the runner
// executes them. The scenario's arena owns everything; it is read-only after loading.
//
// The struct of each mapping begins with an ls_node: the places of the mapping and its keys in the
// file, and the keys that were given. See ls_node_mark, ls_node_has and ls_scenario_error.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "collectives/collectives.h"
#include "collectives/finding.h"
#include "embedding/training.h"
#include "kernels/optimizer.h"
#include "kernels/pooling.h"
#include "local_tensor/local_tensor.h"
#include "planner/plan.h"
#include "ranks/fault.h"
#include "formats/diagnostic.h"
#include "runner/result.h"
#include "runner/scenario/pieces.h"
#include "runner/scenario/load.h"

// ---- Limits, all of them stated in the schema ---------------------------------------------------
#define LS_SCENARIO_BYTES_MAX  (1 << 20)           // of a scenario file
#define LS_SCENARIO_DEPTH_MAX  32                  // of its nesting
#define LS_SCENARIO_ROWS_MAX   (INT64_C(1) << 40)  // rows of a table
#define LS_SCENARIO_DIM_MAX    65536               // columns of a table
#define LS_SCENARIO_BATCH_MAX  (INT64_C(1) << 24)  // samples of one rank
#define LS_SCENARIO_LENGTH_MAX (INT64_C(1) << 20)  // ids of one bag
#define LS_SCENARIO_STEPS_MAX  100000              // training steps
#define LS_SCENARIO_COUNT_MAX  (INT64_C(1) << 40)  // elements of a collective, sizes of a tensor

struct ls_input_files;

// ---- Training -----------------------------------------------------------------------------------
typedef struct ls_scenario_optimizer {
    ls_node node;       // mark.line 0: none was given
    ls_optimizer rule;  // missing values are the defaults of the kind and form
} ls_scenario_optimizer;

typedef enum ls_tables_step {
    LS_TABLES_FORWARD,
    LS_TABLES_BACKWARD,
    LS_TABLES_UPDATE
} ls_tables_step;

typedef struct ls_scenario_train {
    ls_node node;
    int steps;
    ls_gradient_division gradient_division;
    ls_generator gradients;  // of the outputs; default: normal
    double clip_norm;        // 0: none
} ls_scenario_train;

// ---- Tables -------------------------------------------------------------------------------------
typedef enum ls_quantise_order { LS_QUANTISE_THEN_SHARD, LS_SHARD_THEN_QUANTISE } ls_quantise_order;

typedef struct ls_scenario_sharding {
    ls_node node;          // mark.line 0: no `sharding:`; the planner chooses and places
    ls_string_list types;  // as given
    bool has_type;         // a single one, which is `type`
    ls_sharding type;      //
    unsigned allowed;      // bit per ls_sharding of `types`; 0: none was given
    ls_int_list ranks;     // ranks that hold blocks, in block order; count 0: the planner places
    ls_int_list sizes;  // rows (row wise) or columns (column wise) of each block; count 0: by rule
    int64_t columns;    // width of a column block; 0: by rule
    int64_t host;       // table_row_wise, grid: the host(s) by number; -1: not given
    ls_string_list kernels;  // compute kernels for the planner to choose from; count 0: not given
    ls_int_list only_ranks, not_ranks;  // the planner's constraints, if it places
    int64_t columns_min;                // 0: the planner's rule
    const char *together, *apart;       // NULL: any
    bool allow_broken;                  // sizes need not add up to the table; for testing the
                                        // checks
    const char *plan;  // path of a plan file that places this table, resolved; NULL: none
} ls_scenario_sharding;

typedef struct ls_scenario_quantise {
    ls_node node;             // mark.line 0: the rows have dtype (else inference rows)
    ls_row_format format;     // the same in one key
    ls_dtype scale;           // of scale and bias: f16 or f32
    bool scale_last;          //
    int64_t alignment;        // bytes
    ls_quantise_order order;  //
} ls_scenario_quantise;

typedef struct ls_scenario_table {
    ls_node node;
    const char *name;
    const char *module;  // path of its collection in a PyTorch model; NULL: the model itself
    int64_t rows, dim;
    ls_dtype dtype;  // f32, f16, bf16 or f64
    ls_scenario_quantise quantise;
    bool has_output_dtype;  // else ls_table_output_dtype
    ls_dtype output_dtype;
    ls_pooling pooling;
    bool weighted;  // ids have weights: as given, or by the inputs; only sum and mean
    ls_mean_divisor mean_divisor;
    ls_string_list features;          // at least one; the table's name when not given
    ls_generator weights;             // default: uniform in [-1/sqrt(rows), 1/sqrt(rows))
    int64_t padding_id;               // ids equal to it are ignored; -1: none
    double max_norm;                  // of a looked-up row; 0: none
    double norm_type;                 // the p of that norm
    ls_scenario_optimizer optimizer;  // of a table with its own
    ls_scenario_sharding sharding;
} ls_scenario_table;

// ---- Inputs -------------------------------------------------------------------------------------
typedef struct ls_scenario_feature {
    ls_node node;
    const char *name;
    int table;                     // index into tables: the first that it feeds
    int64_t rows;                  // of the smallest that it feeds
    bool weighted;                 // one of its tables is weighted
    ls_int_list strides;           // bags of each rank [ranks], always expanded; without strides:
                                   // the batch
    ls_generator inverse_indices;  // default: uniform; without its own strides: sample b has bag b
    ls_generator lengths;          // default: 1 id in each bag
    ls_generator ids;              // default: uniform over the rows
    ls_generator weights;          // per-sample weights, if any; default: uniform in [0, 1)
} ls_scenario_feature;

// A table and a feature that feeds it.
typedef struct ls_scenario_pair {
    int table, feature;  // indices
} ls_scenario_pair;

typedef struct ls_scenario_inputs {
    ls_node node;
    ls_int_list batch;  // samples of each rank [ranks], always expanded
    bool weighted;      // weights of ids of tables without the key; later: of some tables
    bool variable;      // a feature has its own strides or inverse indices
    ls_id_policy ids_out_of_range;
    ls_scenario_feature *features;  // every feature once, in the order of the tables
    int feature_count;
    ls_scenario_pair *pairs;  // table by table, each with its features
    int pair_count;
} ls_scenario_inputs;

// ---- Programs -----------------------------------------------------------------------------------
// One block of a tensor on one rank, for tensors whose blocks have no placements.
typedef struct ls_scenario_block {
    ls_node node;
    int rank;
    ls_int_list offset, size;  // [ndim]
} ls_scenario_block;

typedef struct ls_scenario_tensor {
    ls_node node;
    const char *name;
    ls_shape shape;
    ls_dtype dtype;
    ls_generator values;       // of the whole logical tensor; default: arange
    bool has_placements;       // false: blocks
    ls_placements placements;  // sizes point into this arena
    ls_int_list sizes;         // as given; also in placements
    ls_scenario_block *blocks;
    int block_count;
    int source;  // the rank that scatters it; -1: every rank cuts its own part
    int parts;   // partial placements: 0: coordinate 0 has the values; 1: every part differs
} ls_scenario_tensor;

// ---- Steps --------------------------------------------------------------------------------------
// The path of collectives of a redistribution.
typedef enum ls_redistribute_path {
    LS_PATH_IN_ORDER,  // mesh dimensions one after another, as ls_tensor_redistribute does
    LS_PATH_DTENSOR,   // as ls_reshard_greedy does
    LS_PATH_CHEAPEST,  // as ls_reshard_search finds
    LS_PATH_COUNT
} ls_redistribute_path;

// Kinds of steps beside the collectives. Each has a file in runner/steps/, with its fields, checks,
// execution and judge.
#define LS_STEP_MAP(X)                                                                             \
    X(SEND_RECV, send_recv)                                                                        \
    X(REDISTRIBUTE, redistribute)                                                                  \
    X(FULL, full)                                                                                  \
    X(MATMUL, matmul)                                                                              \
    X(ADD, add)                                                                                    \
    X(SUB, sub)                                                                                    \
    X(MUL, mul)                                                                                    \
    X(SCALE, scale)                                                                                \
    X(TRANSPOSE, transpose)                                                                        \
    X(NARROW, narrow)                                                                              \
    X(CAT, cat)                                                                                    \
    X(SLICE, slice)                                                                                \
    X(VIEW, view)                                                                                  \
    X(SUM, sum)                                                                                    \
    X(MEAN, mean)                                                                                  \
    X(PROD, prod)                                                                                  \
    X(AMAX, amax)                                                                                  \
    X(AMIN, amin)                                                                                  \
    X(CAST, cast)                                                                                  \
    X(DROPOUT, dropout)                                                                            \
    X(SOFTMAX, softmax)                                                                            \
    X(LOG_SOFTMAX, log_softmax)                                                                    \
    X(CROSS_ENTROPY, cross_entropy)                                                                \
    X(NORM, norm)                                                                                  \
    X(PLACE, place)                                                                                \
    X(EMBEDDING, embedding)                                                                        \
    X(CHANGE, change)                                                                              \
    X(CHECK_EQUAL, check_equal)                                                                    \
    X(WAIT, wait)                                                                                  \
    X(TOUCH, touch)                                                                                \
    X(CHECK_REPLICA, check_replica)

// The collectives have the numbers of their kinds.
typedef enum ls_step_kind {
#define LS_STEP_ENUM(name, text) LS_STEP_##name,
    LS_COLLECTIVE_MAP(LS_STEP_ENUM) LS_STEP_MAP(LS_STEP_ENUM)
#undef LS_STEP_ENUM
        LS_STEP_KIND_COUNT
} ls_step_kind;

bool ls_step_is_collective(ls_step_kind kind);
// The call of a step on buffers; of send_recv the send.
ls_kind ls_step_call_kind(ls_step_kind kind);

// The exceptions of some ranks from their step: programs with a known bug.
typedef struct ls_scenario_except {
    ls_node node;       // ls_node_has tells which fields were given
    ls_int_list ranks;  //
    bool skip;          // makes no call at all
    bool repeat;        // makes the call twice
    ls_kind kind;       // `call:`
    int64_t count;
    ls_dtype dtype;
    ls_op op;
    int root;
    ls_int_list counts;
    bool exit;          // the ranks' program ends here
    bool swap;          // the ranks make the next step first
    bool reverse;       // send_recv: the messages in the opposite order
    ls_int_list group;  // the ranks use another group in `ranks`
    int64_t room;       // elements of their buffers; the call's need is unchanged
    bool unwritten;     // the last sent element is not written
    int64_t overlap;    // recv starts this many elements after send, in the same buffer
    int poke;           // 1: the first element they send is NaN; 2: Inf
} ls_scenario_except;

// Calls on buffers, one on each rank of a group: collectives and messages. A collective on a tensor
// uses the fields that do not concern buffers. A group is `ranks`, or one communicator for each
// fiber of mesh dimension `axis`, or (axis -1, ranks empty) the world. Counts are as in ls_call.
typedef struct ls_step_call {
    int axis;
    const char *axis_name;  // as given; axis is its number
    ls_int_list ranks;
    int64_t count;
    ls_int_list counts;      // per member: the uneven forms of all_gather, reduce_scatter, gather,
                             // scatter
    ls_int_rows splits;      // all_to_all [members][members]: elements from row to column; count 0:
                             // even
    ls_int_rows pairs;       // send_recv [messages][2]: from, to (ranks of the world)
    ls_dtype dtype;          // default f32
    ls_op op;                // default sum
    ls_real_list factors;    // premul_sum [members]
    int root;                // member of the group
    bool in_place;           //
    bool asynchronous;       // `async`: a wait step completes it
    bool replica;            // its result stays equal on all ranks: compared again later
    bool blocking;           // send_recv: message after message, not as one group
    ls_generator values;     // of rank r's send buffer: drawn for (seed, name, r, index)
    int dim;                 // on a tensor: all_gather, reduce_scatter
    int split_dim, cat_dim;  // on a tensor: all_to_all
} ls_step_call;

// Operations on the buffers of an earlier step: wait, touch, check_replica.
typedef struct ls_step_earlier {
    const char *of;     // its name
    int index;          // its number
    ls_int_list ranks;  // count 0: all
    int sent;           // touch: 1 what was sent, 0 what is received
    bool write;         //
} ls_step_earlier;

typedef struct ls_scenario_step {
    ls_node node;
    ls_step_kind kind;
    const struct ls_step_type *type;  // of its kind
    const char *name;  // of the stage; "STEP_KIND" with its number when not given: "2_all_reduce"
    ls_scenario_except *excepts;
    int except_count;
    // Names of tensors, or of the `into` of an earlier step.
    const char *tensor;  // its operand; NULL: none, or buffers
    const char *into;    // the result's name; NULL: `tensor` is replaced
    union {              // by kind
        ls_step_call call;
        ls_step_earlier earlier;
        struct {
            const char *other;  // the second operand
        } binary;               // matmul, add, sub, mul, check_equal
        struct {
            bool given;
            ls_placements placements;
            ls_shape shape;  // place
            ls_redistribute_path path;
        } to;           // redistribute, place
        double factor;  // scale
        struct {
            int dim;
            int64_t start, length;
        } narrow;  // slice too
        struct {
            ls_string_list tensors;
            int dim;
        } cat;
        struct {
            int dim;
            double p;       // norm
            int64_t count;  // mean: a rank's divisor instead of the size; 0: the size
        } fold;             // sum, mean, prod, amax, amin, norm, softmax, log_softmax
        struct {
            ls_dtype dtype;
        } cast;
        struct {
            double p;
            const char *stream;  // NULL: the step's name
            bool per_rank;
        } dropout;
        struct {
            const char *other, *weights;  // the targets; of classes, or NULL
            int64_t ignored;
            double smoothing;
            int reduction;  // of ls_loss_reduction
        } cross_entropy;
        struct {
            ls_shape shape;
        } view;
        struct {
            const char *other;       // the weight; `tensor` is the ids
            int exchanged, pooling;  // 1: rows by all_to_all, 0: masked; of ls_pooling
            int64_t padding_id;
            double max_norm, norm_type;  // max_norm 0: none
        } embedding;
        struct {
            ls_int_list ranks;
            int64_t element;  // of the shard, flat
            double value;
        } change;
    };
} ls_scenario_step;

// Whether it makes calls on buffers of each rank; whether it operates on tensors. Otherwise it
// refers to the buffers of an earlier step.
const char *ls_step_kind_name(const ls_scenario_step *step);
bool ls_step_on_buffers(const ls_scenario_step *step);
bool ls_step_on_tensors(const ls_scenario_step *step);
// The listed ranks that take part; count 0: all.
const ls_int_list *ls_step_ranks(const ls_scenario_step *step);

// ---- Checks, faults, expectations ---------------------------------------------------------------
typedef struct ls_scenario_reference {
    ls_node node;
    const char *stage;   // the stage whose output is compared; NULL: the scenario's last output
    const char *table;   // NULL: all outputs, side by side in feature order
    const char *file;    // resolved path
    const char *tensor;  // in a .safetensors file; NULL: its only one
    ls_class allow;      // the worst class that passes
} ls_scenario_reference;

typedef struct ls_scenario_checks {
    ls_node node;
    bool oracle_off, real_off;          //
    ls_class oracle;                    // worst class against the unsharded oracle that passes
    ls_class real;                      // worst class against a real run that passes
    ls_scenario_reference *references;  // outputs of another system
    int reference_count;
} ls_scenario_checks;

typedef struct ls_scenario_fault {
    ls_node node;
    ls_fault_type type;
    int rank;
    int64_t call;   // at this call of the rank (from 0)
    int64_t index;  // bit_flip: which bit of the buffer; allocation: which one fails (from 1)
} ls_scenario_fault;

typedef struct ls_scenario_expect {
    ls_node node;  // mark.line 0: no `expect:`, everything must hold
    bool has_finding;
    ls_finding_id finding;
    ls_string_list also;  // names of accompanying findings
    bool has_class;
    ls_class class_;        // a verdict that must appear ("wrong")
    ls_string_list stages;  // the stages that end in it; count 0: one, any
    bool unnoticed;         // no check notices an injected defect
    ls_int_list ranks;      // the ranks at fault; count 0: any
    const char *table;      // of the first divergence; NULL: any
    const char *feature;    //
    int64_t sample;         // -1: any
    const char *where;      // the end of the finding's place ("file.yaml:12"); NULL: any
    const char *contains;   // a part of its text; NULL: any
} ls_scenario_expect;

// ---- The scenario -------------------------------------------------------------------------------
#define LS_SCENARIO_MACHINE "h100"

struct ls_scenario {
    ls_node node;
    ls_arena *arena;               // owns all members
    struct ls_input_files *files;  // arrays read from files so far, see input_file.h
    const char *file;              // as the user wrote it
    int64_t format;                // 1
    const char *name;
    const char *description;  // or NULL
    uint64_t seed;
    int draw;             // number of the draw from the field, from 1; 0: ordinary values
    const char *machine;  // to plan for: a preset of planner/topology.h, or the real path of a
                          // machine file; NULL: LS_SCENARIO_MACHINE
    ls_mesh mesh;
    int ranks;           // product of the mesh's sizes
    int ranks_per_host;  // from the mesh dimension called host; `ranks` when there is none
    ls_scenario_table *tables;
    int table_count;  // 0: a program
    ls_torchrec_quirks quirks;
    ls_scenario_inputs inputs;
    const ls_tables_step *tables_steps;  // `steps:`, in order
    int tables_step_count;
    ls_scenario_optimizer optimizer;
    ls_scenario_train train;
    const char *checkpoint;  // the real path of the folder that tables and optimizers start from
    int first_step;          // of the checkpoint: updates before the first step
    bool pipeline;           // the next step's input_dist overlaps this step's lookup
    bool is_program;
    ls_scenario_tensor *tensors;
    int tensor_count;
    ls_scenario_step *steps;
    int step_count;
    const char *order;  // reduction order for the simulator (ls_order_parse); NULL: rank order
    ls_scenario_checks checks;
    ls_scenario_fault *faults;
    int fault_count;
    ls_scenario_expect expect;
};

// Whether it injects defects: faults, or exceptions of ranks.
bool ls_scenario_injects(const ls_scenario *scenario);
// Whether it stores rows of a table quantised.
bool ls_scenario_quantises(const ls_scenario *scenario);
// The stage name of a program's initial tensors: "tensors", or, if a step has that name, "the
// tensors".
const char *ls_scenario_start_stage(const ls_scenario *scenario);
// The place of a step, table, feature, ... as "FILE:LINE". Borrowed from the scenario's arena.
const char *ls_scenario_where(const ls_scenario *scenario, const ls_node *node);
// A table in the form of the embedding module; borrows from the scenario.
ls_table ls_scenario_table_config(const ls_scenario *scenario, int table);
// Whether its tables' training includes `step`.
bool ls_scenario_runs(const ls_scenario *scenario, ls_tables_step step);
// The optimizer of a table, if the scenario updates its weights.
const ls_optimizer *ls_scenario_optimizer_of(const ls_scenario *scenario, int table);
