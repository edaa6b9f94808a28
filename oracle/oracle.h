// The oracle: what every stage of a sharded collection must give, worked out from the unsharded
// tables in f64 by plain loops. It shares no code with what it judges: no kernel, no collective, no
// part of the module. Beside each expected value stands a derived bound on what rounding alone can
// do to it.
//
// The bound comes from orders/bound.h: a pooled sum of n terms w_i e_i, in any order and
// grouping, lies within ls_bound_sum (weighted: ls_bound_sum_of_products) of the exact one; the
// oracle's own f64 rounding is added; mean divides that and adds one rounding and the error of the
// sum of weights. Max, sequence and everything of input_dist must be exact. A bound that is not
// finite proves nothing: such an element must be exact, too.
//
// Of training it carries ranges instead: what each number can be when every operation on its way is
// rounded once (docs/bounds.md), from the gradients that are fed to the weights and states after
// the update, where the next step's oracle goes on.
//
// A table has one meaning, the unsharded one. Where the user chose by name that a sharding type
// gives something else (ls_mean_divisor, ls_torchrec_quirks, an optimizer that takes the norm of a
// row where shards hold parts of its columns), the oracle derives that as well, and
// an output is by design when it differs from the unsharded meaning and all of it is what its type
// is documented to give.
#pragma once

#include "embedding/module.h"
#include "embedding/training.h"

// Writes columns [column, column + columns) of row `row` of table `table` as f64 (the values as
// stored, after rounding to the table's dtype) to out [columns].
typedef int (*ls_oracle_row)(void *arg, int table, int64_t row, int64_t column, int64_t columns,
                             double *out);

// Writes what state `state` of table `table`'s optimizer (its place among the kind's states) holds
// of columns [column, column + columns) of row `row`: out [columns], per row one number.
typedef int (*ls_oracle_state)(void *arg, int table, int state, int64_t row, int64_t column,
                               int64_t columns, double *out);

typedef struct ls_oracle ls_oracle;

typedef struct ls_oracle_options {
    const ls_table *tables;  // borrowed, as everything here
    int table_count;
    const ls_plan *plan;                   // plan of the ids' owners; may be broken
    ls_id_policy id_policy;                //
    ls_torchrec_quirks quirks;             // as the module's
    const ls_keyed_jagged *const *inputs;  // [plan->ranks], of all ranks
    ls_oracle_row row;                     // before the first step of all
    void *row_arg;                         // of `row` and `state`
    ls_oracle_state state;                 // likewise; NULL: the optimizers' initial states
    int64_t first_step;                    // updates made before the first step of all
    // Of a batch that is trained with: then the outputs of backward and update are expected, too.
    // NULL: none.
    const ls_training *training;
    // The input of ls_embedding_backward, of all ranks: [plan->ranks][(table, feature) pairs].
    const void *const *const *gradients;
    bool backward_only;  // nothing is updated: the next batch finds tables and states as they were
    // The oracle of the step before, with the same tables and plan, which must outlive this one:
    // its update is where this batch finds tables and states. NULL: at `row` and initial states.
    const ls_oracle *previous;
} ls_oracle_options;

int ls_oracle_create(ls_oracle **out, const ls_oracle_options *options);
void ls_oracle_free(ls_oracle *oracle);  // NULL is allowed

// The expected value of one stage output. Either integers (lengths, ids) or numbers.
typedef struct ls_expected {
    ls_shape shape;
    size_t count;            // elements
    int64_t *ints;           // [count] or NULL
    double *values;          // [count] or NULL
    double *bounds;          // [count] with values: largest |difference| that rounding explains
    unsigned char *vacuous;  // [count] with values: LS_BOUND_VACUOUS where the bound proves nothing
    // [count] What the sharding type is documented to give instead, with its bounds; NULL: nothing
    // else.
    double *documented, *documented_bounds;
    unsigned char *documented_vacuous;
    bool reduces;    // false: every element must be exact
    bool moves;      // the data only moved: signs of zeros and the bits of NaN must be right too
    ls_dtype dtype;  // of the output
} ls_expected;

// Fills *out for the output that `key` names (stage, table, feature, field, rank; the rest of it is
// not read). LS_ERR_NOT_FOUND: this plan has no such output. Free it with ls_expected_free.
int ls_oracle_expect(const ls_oracle *oracle, const ls_stage_output *key, ls_expected *out);
void ls_expected_free(ls_expected *expected);

// Every output that a full run emits, so that a missing one is noticed: index from 0; fills stage,
// table, feature, field (borrowed from the oracle), rank, dtype and reduces. LS_ERR_NOT_FOUND past
// the last one.
int ls_oracle_output(const ls_oracle *oracle, size_t index, ls_stage_output *out);
size_t ls_oracle_output_count(const ls_oracle *oracle);

// One stage output judged.
typedef struct ls_judgement {
    uint64_t elements;
    uint64_t unknown;        // of these, where no value would be wrong: rounding decides whether it
                             // overflows, or whether 0 is divided by 0; and the vacuous ones
    uint64_t vacuous;        // of these, inexact values within a bound that proves nothing
    uint64_t differing;      // elements whose value is not the unsharded one, rounded to dtype
    uint64_t by_design;      // of these, elements that only the documented meaning explains
    uint64_t wrong;          // elements outside every bound; shape or dtype wrong: all
    uint64_t max_ulps;       // largest ls_element_ulps from the unsharded values; 0: the shape or
                             // dtype is wrong
    double bound_ratio;      // largest |difference| / bound, from the meaning that it was held to
    size_t first_wrong;      // element index, when wrong > 0; SIZE_MAX: the shape or dtype is wrong
    size_t first_differing;  // when differing > 0
    size_t first_by_design;  // when by_design > 0
    char text[1536];         // explains the first wrong element, or else the first one that differs
                             // by design; "" when there is neither
    size_t why;              // by_design > 0: where in it the reason begins, whatever the element
} ls_judgement;

// Judges an output (with its shape and data) against what is expected. Only errors of the judging
// itself are errors; a wrong output is reported in *out.
int ls_oracle_judge(const ls_oracle *oracle, const ls_stage_output *output, ls_judgement *out);

// Where an element comes from.
typedef struct ls_provenance {
    const char *table, *feature;
    int source_rank;   // owner of the sample; -1: the element is not of one sample
    int64_t sample;    // on the source rank
    bool is_bag;       // of a batch with a size per feature: `sample` is a bag, of several samples
    int64_t position;  // in the bag, of `id`
    int64_t column;    // of the table; -1 for lengths, ids and weights
    int64_t id;       // the id to blame: the first of the bag that not exactly one shard owns, else
                      // the first of the bag; -1: empty bag
    int owner_rank;   // owner of its row (and column); -1: none
    int owner_count;  // shards that hold that cell: 1 in a sound plan
    int64_t id_count;  // ids in the bag
} ls_provenance;

int ls_oracle_provenance(const ls_oracle *oracle, const ls_stage_output *key, size_t element,
                         ls_provenance *out);
