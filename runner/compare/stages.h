// Stage outputs of one run in memory, by stage, table, feature, field and rank. A run fills it
// through its sink; so does a recording.
#pragma once

#include "collectives/recording.h"
#include "runner/scenario/scenario.h"

// One rank's array.
typedef struct ls_stage_array {
    bool present;
    ls_shape shape;
    size_t count;  // elements
    void *data;    // [count] of the entry's dtype; owned by the store
    // Of an expected run: [count] or NULL. Exact values, the largest distance by rounding, and the
    // allowed overflow (ls_overflow). Without them the bits of `data` are expected.
    double *exact;
    double *bounds;
    unsigned char *overflow;
} ls_stage_array;

// The arrays of one key on all ranks.
typedef struct ls_stage_entry {
    char key[LS_STAGE_KEY_MAX];
    const char *stage, *table, *feature, *field;           // NULL if absent; owned by the store
    int stage_of_tables, field_of_tables, step_of_tables;  // as of an ls_stage_output
    ls_dtype dtype;
    bool reduces;
    int roundings;          // as of an ls_stage_output
    ls_stage_array *ranks;  // [ranks of the store]
} ls_stage_entry;

typedef struct ls_stages ls_stages;

int ls_stages_create(ls_stages **out, int ranks);
void ls_stages_free(ls_stages *stages);  // NULL is allowed
// From now on large outputs are mapped from an unnamed file in `dir`: the system can reclaim their
// pages. For runs that are too large for one process.
int ls_stages_to_file(ls_stages *stages, const char *dir);
// A sink that copies every output into the store. LS_ERR_INVALID: an output of the same key and
// rank was given twice, or the ranks' dtypes of a key differ.
ls_stage_sink ls_stages_sink(ls_stages *stages);

// Sorts the entries into the order of a single-process run: by stage, in each by the first rank
// that has one, then in that rank's order.
int ls_stages_arrange(ls_stages *stages, const ls_scenario *scenario);

int ls_stages_ranks(const ls_stages *stages);
int ls_stages_count(const ls_stages *stages);
// Entry `index` in the order of first appearance. Borrowed.
const ls_stage_entry *ls_stages_at(const ls_stages *stages, int index);
const ls_stage_entry *ls_stages_find(const ls_stages *stages, const char *key);  // NULL: none
// A rank's output under an entry's key; borrows the data.
ls_stage_output ls_stage_entry_output(const ls_stage_entry *entry, int rank);
// Bytes of all arrays held.
size_t ls_stages_bytes(const ls_stages *stages);
