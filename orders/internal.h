// Shared by the files of orders. Not for other folders.
#pragma once

#include "base/text.h"
#include "orders/order.h"

#define LS_ORDER_RANKS_MAX    65536
#define LS_ORDER_CHANNELS_MAX 64
#define LS_ORDER_TEXT_MAX     ((size_t)1 << 20)
// The channels that the measured machine gives a communicator; channels= overrides it.
#define LS_ORDER_CHANNELS_DEFAULT 24

// ---- Folds: what is added to what ---------------------------------------------------------------
// A rank tree, compiled. Every binary summation tree can be written as one: each node starts with
// its own rank's term and adds its children's results one after another. The code runs on a stack
// of partial results.
typedef enum ls_fold_op {
    LS_FOLD_LOAD,  // push the rank's term
    LS_FOLD_OWN,   // top = the rank's term + top (a node's first child; fused where a product is)
    LS_FOLD_JOIN,  // pop x; top = top + x (a node's further children)
} ls_fold_op;

typedef struct ls_fold_step {
    ls_fold_op op;
    int rank;  // of LOAD and OWN
} ls_fold_step;

struct ls_fold {
    int ranks;
    int step_count;  // ranks loads and owns, and the joins
    int depth;       // stack entries needed
    bool linear;     // one load, then owns: a left fold
    ls_fold_step *steps;
};

// How a product and the add after it round.
typedef enum ls_fma {
    LS_FMA_NEVER,   // the product is rounded, then the sum
    LS_FMA_ALWAYS,  // once
    LS_FMA_LANES,   // LL128: by position in the line, see lane_fused in fold_run.c
} ls_fma;

// out: `a(b+c(d))`, all of 0 .. ranks-1 once each; -1: as many as the text names. The caller frees.
int ls_fold__parse(ls_fold **out, const char *text, size_t length, int ranks);
// A left fold of ranks_in_order [ranks].
int ls_fold__linear(ls_fold **out, const int *ranks_in_order, int ranks);
// From children lists: parents [ranks] (-1: the root), children added in the order of `sequence`,
// a permutation of the ranks.
int ls_fold__from_parents(ls_fold **out, const int *parents, const int *sequence, int ranks);
void ls_fold__free(ls_fold *fold);
void ls_fold__write(ls_text *out, const ls_fold *fold);

// The reduction's terms, prepared once per call.
typedef struct ls_fold_terms {
    const ls_reduction *reduction;
    unsigned char *factors;  // [in_count] elements of dtype, or NULL: no products
    bool accumulate_f32;     // partial results in f32, one rounding at the end
    void *workspace;         // the stack of partial results, kept from run to run
    size_t workspace_bytes;
} ls_fold_terms;
int ls_fold__terms(ls_fold_terms *out, const ls_reduction *reduction, bool accumulate_f32);
void ls_fold__terms_free(ls_fold_terms *terms);

// Whether the order of adding can change the bits: a sum or product of floats.
bool ls_fold__order_matters(const ls_reduction *reduction);
// out [length]: elements [first, first + length) folded; origin: where the chunk starts.
int ls_fold__run(void *out, ls_fold_terms *terms, const ls_fold *fold, ls_fma fma, size_t origin,
                 size_t first, size_t length);

// ---- Orders -------------------------------------------------------------------------------------
typedef enum ls_order_kind {
    LS_ORDER_RANK,
    LS_ORDER_RING,
    LS_ORDER_TREE,
    LS_ORDER_SYMMETRIC,
    LS_ORDER_MEASURED,
} ls_order_kind;

typedef enum ls_proto {
    LS_PROTO_LL,
    LS_PROTO_LL128,
    LS_PROTO_SIMPLE,
} ls_proto;

// One row per set of constants that decide which element goes where. docs/orders.md.
typedef struct ls_nccl_version {
    const char *name;            // the newest version it holds for, "2.28.9"
    int from;                    // versions as NCCL counts them: 2.28.9 is 22809
    int to;                      //
    size_t min_traffic_bytes;    // a channel's least traffic
    size_t traffic_round_bytes;  // traffic per channel is rounded up to it; 0: not rounded, but at
                                 // least min_traffic_bytes
    size_t grain_bytes[3];       // by ls_proto
    size_t ring_chunk_bytes[3];  // all_reduce and reduce_scatter, before rounding to grains
    size_t threads[3];           // of a block
    size_t thread_threshold_bytes[3];  // bytes a thread must have before another channel is used
} ls_nccl_version;

// The row of a version such as "2.27.3"; NULL where none is known.
const ls_nccl_version *ls_nccl__version(const char *name, size_t length);
const ls_nccl_version *ls_nccl__version_at(int index);  // NULL: no more

typedef enum ls_tree_pattern {  // which rank of a host talks to other hosts
    LS_TREE_BALANCED,           // parent: first; children: second and first
    LS_TREE_SPLIT,              // parent: first; children: second
    LS_TREE_SINGLE,             // all: first
} ls_tree_pattern;

typedef enum ls_symmetric_kernel {
    LS_SYMMETRIC_LL,     // AllReduce_AGxLL_R, ReduceScatter_LL: rank order
    LS_SYMMETRIC_RSXLD,  // AllReduce_RSxLD_AGxST; ReduceScatter_LD, TmaLD: from the owner on
} ls_symmetric_kernel;

typedef struct ls_order_override {
    int target;  // only of this root or block; -1: of every one
    size_t first;
    size_t end;
    ls_fold *fold;
} ls_order_override;

// A measured order's class of elements.
typedef struct ls_measured_class {
    ls_fold *fold;
    int target;  // block or root; -1: every one
    size_t first;
    size_t end;
} ls_measured_class;

typedef struct ls_measured_call {
    ls_order_call call;
    int dtype;     // -1: every one
    bool counted;  // for one count only
    size_t count;
    bool accumulate_f32;
    ls_fma fma;
    int class_count;
    ls_measured_class *classes;
} ls_measured_call;

struct ls_order {
    ls_order_kind kind;
    char *text;
    const ls_nccl_version *nccl;
    ls_proto proto;
    int channels;        // of the communicator
    int allowed;         // by the tuner; 0: as the version computes it
    int hosts;           // 1: a chain of all ranks
    size_t chunk_bytes;  // 0: the version's
    bool fma_given;
    ls_fma fma;
    ls_tree_pattern pattern;
    ls_symmetric_kernel kernel;
    int blocks;       // of the symmetric kernel
    int fold_count;   // rings as linear folds, or trees; channel c uses folds[c % fold_count]
    ls_fold **folds;  //
    int override_count;
    ls_order_override *overrides;
    int measured_ranks;
    int measured_count;
    ls_measured_call *measured;
};

int ls_order__measured_read(ls_order *order, const char *path);
void ls_order__measured_free(ls_order *order);
// The double binary tree over order->hosts for channel `channel` of `ranks` ranks.
int ls_order__host_tree(ls_fold **out, const ls_order *order, int ranks, int channel);

// How a call's elements are split over channels: lo, then mid_count times mid, then hi.
typedef struct ls_nccl_partition {
    size_t lo;
    size_t mid;
    size_t hi;
    int mid_count;
    int channel_count;
} ls_nccl_partition;
int ls_nccl__partition(ls_nccl_partition *out, const ls_order *order, ls_order_call call, int ranks,
                       size_t element_bytes, size_t count);
// One channel's elements.
void ls_nccl__channel(size_t *first, size_t *length, const ls_nccl_partition *partition,
                      int channel);

// Runs of each kind of order, without overrides.
int ls_nccl__ring_runs(const ls_order *order, const ls_order_range *range, ls_order_visit visit,
                       void *arg);
int ls_nccl__tree_runs(const ls_order *order, const ls_order_range *range, ls_order_visit visit,
                       void *arg);
int ls_order__symmetric_runs(const ls_order *order, const ls_order_range *range,
                             ls_order_visit visit, void *arg);
int ls_order__measured_runs(const ls_order *order, const ls_order_range *range,
                            ls_order_visit visit, void *arg);
// The fma form of products of dtype under this order.
ls_fma ls_nccl__fma(const ls_order *order, ls_dtype dtype);
// The measured entry for a call, or LS_ERR_NOT_FOUND.
int ls_order__measured_find(const ls_measured_call **out, const ls_order *order,
                            const ls_order_range *range);
