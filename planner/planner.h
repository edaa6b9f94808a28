// The planner: chooses for every embedding table how it is cut and where its blocks lie, and proves
// how far from best the choice can be. Also what to say when nothing fits. Gathers the headers of
// this folder.
//
// Costs are milliseconds of one training step, sizes bytes. A rank's cost is the sum over its
// shards; a plan's cost is its most loaded rank's, plus the start-up time of each kind of
// collective it uses (cost model "lockstep"; none in "torchrec").
#ifndef LS_PLANNER_PLANNER_H
#define LS_PLANNER_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "kernels/quantise.h"
#include "planner/plan.h"
#include "planner/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Input --------------------------------------------------------------------------------------

#define LS_PLANNER_FEATURES_MAX 4096
#define LS_PLANNER_TABLES_MAX   100000

// Ids of one feature, as the planner needs to know them.
typedef struct ls_planner_feature {
    double pooling;   // mean ids per bag
    double poolings;  // bags per sample, usually 1
    double batch;     // samples per rank (mean over ranks)
} ls_planner_feature;

// How ids fall on a table's rows: from real or generated ids (ls_planner_profile_make). Bins cut
// the rows evenly.
#define LS_PLANNER_PROFILE_BINS 64
typedef struct ls_planner_profile {
    double ids[LS_PLANNER_PROFILE_BINS];  // share of all ids that fall into the bin; sums to 1
    double distinct;                      // distinct rows / ids, in (0, 1]
} ls_planner_profile;

// From ids [count] of one table of `rows` rows; ids outside it do not count. Without any: even.
int ls_planner_profile_make(ls_planner_profile *out, const int64_t *ids, size_t count,
                            int64_t rows);

typedef struct ls_planner_table {
    const char *name;
    const char *module;  // path of the collection in its model, for TorchRec; NULL: ""
    int64_t rows, columns;
    int element_bytes;                // of a weight
    const ls_row_format *row_format;  // rows are quantised, for inference: no backward pass, no
                                      // optimizer; NULL: element_bytes for each element
    int output_bytes;                 // of an output element; 0: element_bytes
    bool sequence;                    // one output per id instead of one per bag
    bool weighted;                    // ids carry weights
    const char *optimizer;  // "sgd", "rowwise_adagrad", ... (ls_planner_optimizer_find); NULL: none
    const ls_planner_feature *features;
    int feature_count;
    double cache_load_factor;           // fused_uvm_caching: share of rows in device memory; 0: 0.2
    const ls_planner_profile *profile;  // NULL: ids spread evenly, all distinct
    // Constraints
    unsigned shardings;    // bit per ls_sharding; 0: all but grid
    unsigned kernels;      // bit per ls_planner_kernel; 0: all
    int64_t columns_min;   // least width of a column block; 0: by the options
    const int *ranks;      // the only ranks for the shards (pin, device group); NULL: any
    int rank_count;        //
    const int *forbidden;  // and not on these
    int forbidden_count;   //
    const char *together;  // tables of one name here are on the same ranks; NULL: free
    const char *apart;     // tables of one name here share no rank; NULL: free
    // Exactly this layout; shardings, kernels and columns_min are ignored; NULL: free. The blocks
    // are on their ranks (then `ranks` and `forbidden` are ignored, and the table cannot be kept
    // together with or apart from others), or, if every rank is -1, the planner places them.
    const ls_plan_table *layout;
} ls_planner_table;

// Bytes of optimizer state, all of it f32: per weight and per row of each shard.
typedef struct ls_planner_optimizer {
    const char *name;
    int f32_per_weight, f32_per_row;
    double torchrec_multiplier;  // of the weights' bytes, in TorchRec's planner; -1: 1 / columns
} ls_planner_optimizer;
int ls_planner_optimizer_find(ls_planner_optimizer *out, const char *name);

typedef enum ls_planner_model { LS_PLANNER_LOCKSTEP, LS_PLANNER_TORCHREC } ls_planner_model;

#define LS_PLANNER_NODES_DEFAULT INT64_C(10000000)

typedef struct ls_planner_options {
    size_t size;  // sizeof this struct (LS_OPTIONS); 0: as this header has it
    ls_planner_model model;
    bool torchrec_options;  // enumerate only TorchRec's options (its one column width)
    bool exact_only;        // no heuristic start: for tests of the search itself
    double reserve_share;   // of each rank's device memory kept free, in [0, 1)
    int64_t reserve_bytes;  // and this much more (dense parameters, inputs in flight)
    double overlap;         // lockstep: share of communication hidden behind computation
    int pipeline_depth;     // batches in flight: input buffers held at once; 0: 1
    int64_t nodes_max;      // of the search; 0: LS_PLANNER_NODES_DEFAULT. The result depends only
                            // on this and the input, so it is the same on every machine
    double seconds_max;     // 0: none. An upper bound by the clock on making the problem, the
                            // search and a diagnosis; if it cuts, the result says timed_out
    bool cut;               // the tables' ids were cut by the clock already: timed_out, too
    double gap_goal;        // stop when the gap is no more than this
    uint64_t seed;          // of the improvement rounds
} ls_planner_options;

// ---- Output -------------------------------------------------------------------------------------

typedef struct ls_planner_cost {
    double forward_compute_ms, forward_comms_ms, backward_compute_ms, backward_comms_ms,
        prefetch_ms;
    double input_comms_ms;  // lockstep: the part of forward_comms_ms that input_dist takes
} ls_planner_cost;
double ls_planner_cost_total(const ls_planner_cost *cost);

// One block with its cost and memory. rank -1: not placed yet.
typedef struct ls_planner_shard {
    ls_plan_shard block;
    ls_planner_cost cost;
    int64_t hbm_bytes, ddr_bytes;
    int64_t input_bytes,
        output_bytes;  // buffers, part of hbm_bytes (data parallel and fused alike)
} ls_planner_shard;

// One way to cut a table.
typedef struct ls_planner_option {
    int table;
    ls_sharding sharding;
    ls_planner_kernel kernel;
    int column_blocks;
    int shard_count;
    ls_planner_shard *shards;  // in the order of ls_plan_table.shards
    bool pinned;               // the shards' ranks are given
} ls_planner_option;

typedef struct ls_planner_rank {
    ls_planner_cost cost;
    double ms;
    int64_t hbm_bytes, ddr_bytes;        // used by shards
    int64_t hbm_capacity, ddr_capacity;  // after reservations
    int64_t input_bytes, output_bytes;
    int shards;
} ls_planner_rank;

typedef enum ls_planner_stop {
    LS_PLANNER_STOP_PROVEN,  // nothing is better
    LS_PLANNER_STOP_GAP,     // the gap asked for was reached
    LS_PLANNER_STOP_NODES,   //
    LS_PLANNER_STOP_TIME,    //
    LS_PLANNER_STOP_SIZE,    // found nothing, and too large for the exact search
} ls_planner_stop;

typedef struct ls_planner_problem ls_planner_problem;  // everything enumerated; opaque

typedef struct ls_planner_result {
    bool found;                        // false: no plan; see ls_planner_diagnose
    bool proven;                       // optimal, or (found false) proven that there is none
    ls_planner_stop stop;              //
    double ms;                         // cost of the plan
    double lower_bound_ms;             // no plan costs less
    double gap;                        // ms / lower_bound_ms - 1; 0 when proven
    double startup_ms;                 // part of ms that no rank's sum holds
    bool timed_out;                    // the clock cut the search: another run may find
                                       // another plan
    int64_t nodes;                     // examined, by all phases of the search together
    double seconds, first_seconds;     // all of the search; until the first plan
    const ls_planner_option **chosen;  // [tables]
    ls_plan plan;                      //
    ls_planner_shard **shards;         // [tables][shards of the chosen option], with ranks
    ls_planner_rank *ranks;            // [ranks]
} ls_planner_result;

// Enumerates all options and their costs. Input is copied. The caller frees with
// ls_planner_problem_free. LS_ERR_INVALID names the table and the field; LS_ERR_NOT_FOUND: the
// constraints leave a table without any option; LS_ERR_TIMEOUT: seconds_max were over before.
LS_API int ls_planner_problem_create(ls_planner_problem **out, const ls_topology *topology,
                                     const ls_planner_table *tables, int table_count,
                                     const ls_planner_options *options);
LS_API void ls_planner_problem_free(ls_planner_problem *problem);  // NULL is allowed
int ls_planner_table_count(const ls_planner_problem *problem);
const ls_planner_table *ls_planner_tables(const ls_planner_problem *problem);
const ls_topology *ls_planner_topology(const ls_planner_problem *problem);
int ls_planner_option_count(const ls_planner_problem *problem, int table);
const ls_planner_option *ls_planner_option_at(const ls_planner_problem *problem, int table,
                                              int index);

// Searches. Returns LS_OK also when there is no plan (result->found false). The result lives in the
// problem's memory and stays valid until the problem is freed.
LS_API int ls_planner_solve(ls_planner_result *result, ls_planner_problem *problem);

// How long each stage of a plan should take on one rank, by the model `lockstep`. A collective
// lasts as long as its most loaded rank needs, so all ranks have equal times there.
typedef struct ls_planner_stages {
    double input_dist_ms, lookup_ms, output_dist_ms;
    double gradients_ms;  // all that backward sends
    double update_ms;     // gradients summed by row, and the optimizer's step
} ls_planner_stages;
// out [ranks]. LS_ERR_INVALID under another model, and where there is no plan.
int ls_planner_stage_times(ls_planner_stages *out, const ls_planner_problem *problem,
                           const ls_planner_result *result);

// TorchRec's own search on the same options and costs, as a baseline: proposers (grid, greedy by
// depth and by sum, uniform; dynamic programming) each with the greedy-perf or the memory-balanced
// partitioner. proposals_max bounds the plans tried; 0: 10,000.
typedef enum ls_planner_proposer {
    LS_PROPOSE_GREEDY_DEPTH,
    LS_PROPOSE_GREEDY_SUM,
    LS_PROPOSE_UNIFORM,
    LS_PROPOSE_GRID,
    LS_PROPOSE_DYNAMIC,
    LS_PROPOSE_ALL  // as TorchRec's planner: grid, both greedy ones, uniform
} ls_planner_proposer;
typedef enum ls_planner_partitioner {
    LS_PARTITION_GREEDY_PERF,
    LS_PARTITION_MEMORY_BALANCED
} ls_planner_partitioner;
int ls_planner_baseline(ls_planner_result *result, ls_planner_problem *problem,
                        ls_planner_proposer proposer, ls_planner_partitioner partitioner,
                        int64_t proposals_max);

// A made-up model, the same for the same seed: features [count] and tables [count], names in
// `arena`. LS_INSTANCE_PRODUCTION: rows log-normal over about three decades (a stand-in: production
// sizes are not published), ids per bag log-normal with the published mean of 13.6 and 12.7 uses of
// a touched row. LS_INSTANCE_RANDOM: everything uniform over its range.
typedef enum ls_instance_kind { LS_INSTANCE_RANDOM, LS_INSTANCE_PRODUCTION } ls_instance_kind;
int ls_planner_instance(ls_planner_table **tables, ls_arena *arena, ls_instance_kind kind,
                        int count, uint64_t seed);

// ---- When nothing fits --------------------------------------------------------------------------

// One change to the input with which a plan exists: planned again to be sure. tables [as many as in
// the problem] and topology are the changed input.
typedef struct ls_planner_change {
    char text[256];
    ls_topology topology;
    const ls_planner_table *tables;
    double ms;  // of the plan found with it
} ls_planner_change;

#define LS_PLANNER_CHANGES_MAX 32
typedef struct ls_planner_diagnosis {
    bool shortage;        // all memory together is too little; else it is fragmentation: there is
                          // enough in sum, but not in the pieces that the tables need
    int64_t hbm_missing;  // shortage: bytes of device memory missing in all
    int64_t ddr_missing;  // and of host memory
    int64_t either_missing;  // and of both together, for tables that may use either
    int unplaced;            // tables without a place in the fullest plan that was found
    int first_unplaced;      // a table; -1: none
    unsigned blocked;        // its constraints without which it has a place (problem.h); 0: memory
                             // is what lacks
    int roomiest_rank;       // the rank with most device memory left there
    int64_t roomiest_bytes;  // that is left on it
    int64_t roomiest_ddr;    // most host memory left in one place
    int64_t needed_bytes;    // device memory of the largest shard of first_unplaced, cut in the way
    int64_t needed_ddr;      // that comes nearest to fitting, and host memory of its largest
    const ls_planner_option *needed_as;  // that way
    int64_t *hbm_used;                   // [ranks] in that fullest plan
    int64_t *ddr_used;                   // [ranks, or hosts where host memory is shared]
    ls_planner_change changes[LS_PLANNER_CHANGES_MAX];  // smallest first
    int change_count;
    int tried;          // changes planned again
    bool out_of_nodes;  // changes were left untried: the nodes (as many as the search has) were
    bool out_of_time;   // spent, or the time was; then another run may offer others
} ls_planner_diagnosis;

// Finds out why a problem has no plan (result->found false). Lives in the problem's memory. Has
// nodes_max for itself, and what the search has left of seconds_max.
int ls_planner_diagnose(ls_planner_diagnosis *out, ls_planner_problem *problem);
// The same for people, with the cheapest option of each table that fits anywhere.
int ls_planner_write_diagnosis(ls_text *out, const ls_planner_problem *problem,
                               const ls_planner_diagnosis *diagnosis);

// ---- Reports ------------------------------------------------------------------------------------

// The plan as tables for people: the verdict, per rank, per table, imbalance and what dominates.
int ls_planner_write_text(ls_text *out, const ls_planner_problem *problem,
                          const ls_planner_result *result);
// The documented JSON of `lockstep plan` (format 1). `why` (may be NULL): text of a report on why
// there is no plan.
int ls_planner_write_json(ls_text *out, const ls_planner_problem *problem,
                          const ls_planner_result *result, const char *why);
// Load and memory of every rank as an SVG picture. LS_ERR_INVALID when there is no plan.
int ls_planner_write_svg(ls_text *out, const ls_planner_problem *problem,
                         const ls_planner_result *result);
// Why table `name` went where it went: what the plan would cost with each other way to cut it, all
// else as it is, and the next best. LS_ERR_NOT_FOUND suggests a near name.
int ls_planner_explain(ls_text *out, const ls_planner_problem *problem,
                       const ls_planner_result *result, const char *name);

// The whole problem as a mixed-integer program in CPLEX LP format, for other solvers. The optimum
// of variable C (plus start-up terms in the objective) is that of ls_planner_solve.
int ls_planner_write_lp(ls_text *out, const ls_planner_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
