// Test cases for the embedding room, generated from a few numbers: tables, plans of every sharding
// type, inputs with empty bags, empty ranks and uneven batches; and a run of all three stages in
// which the oracle judges every output. Unit tests and the stress program use it, so it has no
// framework: failures are returned as text.
#pragma once

#include "embedding/embedding.h"
#include "oracle/oracle.h"

#include "kernels/device.h"
#include "kernels/pooling.h"

#define CASE_TABLES_MAX 8
#define CASE_RANKS_MAX  16

typedef struct embedding_case {
    int ranks, ranks_per_host;
    uint64_t seed;
    ls_table tables[CASE_TABLES_MAX];
    ls_plan_table plans[CASE_TABLES_MAX];
    int table_count;
    ls_plan plan;
    ls_keyed_jagged *inputs[CASE_RANKS_MAX];
    bool variable;  // case_inputs makes batches with a size for each feature
    ls_id_policy id_policy;
    ls_torchrec_quirks quirks;
    bool allow_broken_plan;
    ls_device *device;          // NULL: the host
    ls_call_observer observer;  // receives every collective of the run; NULL: none
    void *observer_arg;
    ls_stage_sink sink;  // receives every stage output too; emit NULL: none
    double (*weight)(const struct embedding_case *c, int table, int64_t row, int64_t column);
} embedding_case;

// The outcome of a run: the outputs, and the oracle's verdict.
typedef struct case_outcome {
    int status;                    // of the run
    uint64_t judged;               // outputs
    uint64_t elements;             //
    uint64_t wrong;                // elements
    uint64_t by_design;            // elements
    double bound_ratio;            // largest
    char text[LS_ERROR_TEXT_MAX];  // the first output that is wrong or by design, or the error
    char stage[32];                // its place
    ls_bad_id bad_id;              // of the module, if any
    bool has_bad_id;
    // [rank][table][feature 0 or 1] output_dist values, copied; sizes in bytes
    void *outputs[CASE_RANKS_MAX][CASE_TABLES_MAX][2];
    size_t output_bytes[CASE_RANKS_MAX][CASE_TABLES_MAX][2];
} case_outcome;

void case_init(embedding_case *c, int ranks, int ranks_per_host, uint64_t seed);
void case_free(embedding_case *c);
// Adds a table over one feature, or two ("a,b": split at the comma); returns its index.
int case_table(embedding_case *c, const char *name, int64_t rows, int64_t dim, ls_pooling pooling,
               bool weighted, const char *features);
// Places table t. cuts: column blocks of column_wise and table_column_wise (0: 2). Returns 0 if the
// type does not apply to this world or table; then nothing is placed.
int case_place(embedding_case *c, int t, ls_sharding sharding, int cuts);
// Row-wise with row blocks of these sizes on ranks 0, 1, ...
void case_place_rows(embedding_case *c, int t, const int64_t *sizes, int count);
// Inputs with random bags of up to `length_max` ids for features "a", "b" and "c", with weights.
// batches [ranks]; NULL: 3 on each rank. In a variable case a feature has up to that many bags, of
// which each sample takes any.
int case_inputs(embedding_case *c, const int64_t *batches, int length_max);
// Runs and judges. The caller frees the outcome.
int case_run(embedding_case *c, case_outcome *out);
// Runs and judges on a given backend, whose world may hold only some ranks.
int case_run_on(embedding_case *c, ls_backend *backend, case_outcome *out);
void case_outcome_free(case_outcome *out);
// Builds c->plan from the tables' plans.
void case_make_plan(embedding_case *c);
// The weights, as callbacks of the module (ls_table_fill) and the oracle (ls_oracle_row).
int case_fill(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
              int64_t columns, void *out);
int case_row(void *arg, int table, int64_t row, int64_t column, int64_t columns, double *out);
// A random collection with plan and inputs, on `ranks` ranks (0: any number up to 8).
int case_random(embedding_case *c, uint64_t seed, int ranks);
// The first rank, table and feature whose output_dist bits differ, as text; "" if none.
const char *case_difference(const embedding_case *c, const case_outcome *a, const case_outcome *b);
