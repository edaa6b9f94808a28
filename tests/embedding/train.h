// Trains a test case (case.h) for some steps, each with its own inputs and gradients, while the
// step's oracle judges every output.
#pragma once

#include "case.h"
#include "kernels/optimizer.h"

#define TRAIN_STEPS_MAX 4

typedef struct train_case {
    embedding_case *c;
    int steps;
    const int64_t *batches;  // as case_inputs
    int length_max;
    bool given_inputs;  // the case's own, for its only step
    ls_optimizer optimizers[CASE_TABLES_MAX];
    ls_gradient_division division;
    double clip_norm;
    // A gradient's element; NULL: normal. index: of the element, in its rank's output.
    double (*gradient)(const struct train_case *t, int step, int rank, int pair, uint64_t index);
    // Corrupts an output before it is judged; returns whether it did. NULL: none.
    bool (*spoil)(const struct train_case *t, int step, const ls_stage_output *output, void *data,
                  size_t count);
    // Corrupts the module after a step's backward. NULL: none.
    void (*meddle)(const struct train_case *t, int step, ls_embedding *module);
    struct ls_device *device;  // of the simulator; NULL: the host
    ls_stage_sink sink;        // receives every output too; emit NULL: none
} train_case;

typedef struct train_outcome {
    uint64_t judged, elements, wrong, by_design, spoilt;
    double bound_ratio;
    double relative_bound;         // largest bound / (|value| + 1) of updated weights and states
    char text[LS_ERROR_TEXT_MAX];  // of the first output that is wrong or by design, or the error
    char stage[32];                // its place
    // The tables' weights and states after the last step, unsharded, as bits: [table][0: weights].
    void *tables[CASE_TABLES_MAX][3];
    size_t bytes[CASE_TABLES_MAX][3];
} train_outcome;

// One table over features a and b, on `ranks` ranks.
typedef struct train_table {
    int ranks, per_host;
    ls_sharding sharding;
    ls_pooling pooling;
    bool weighted;
    int64_t rows, dim;
    ls_dtype dtype;
    ls_optimizer optimizer;
} train_table;
// Four ranks on two hosts, a sum of 7 x 5 of f32, the fused form.
train_table train_table_small(ls_optimizer_kind kind);
// Gradients are divided by the number of ranks. Returns false if the sharding type does not apply.
bool train_table_set_up(const train_table *how, embedding_case *c, train_case *t);
const char *train_table_name(const train_table *how);
// For tests of every sharding type.
extern const ls_sharding train_types[LS_SHARDING_COUNT];

// The optimizer for every table.
void train_init(train_case *t, embedding_case *c, const ls_optimizer *optimizer);
// Training of a random collection (case_random): optimizers, divisions, clipping, max_norm; on
// `ranks` ranks (0: any number up to 8).
int train_random(train_case *t, embedding_case *c, uint64_t seed, int ranks);
// The same on a given backend, whose world may hold only some ranks.
int train_run_on(const train_case *t, ls_backend *backend, train_outcome *out);
int train_run(const train_case *t, train_outcome *out);
void train_outcome_free(train_outcome *out);
