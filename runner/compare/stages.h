// Stage outputs in memory: what one run produced, by stage, table, feature, field and rank, so that
// two runs can be compared. Filled by a run through its sink or from a recording.
#ifndef LS_RUNNER_COMPARE_STAGES_H
#define LS_RUNNER_COMPARE_STAGES_H

#include "collectives/recording.h"
#include "runner/scenario/scenario.h"

// One rank's array.
typedef struct ls_stage_array {
    bool present;
    ls_shape shape;
    size_t count;  // elements
    void *data;    // [count] of the entry's dtype; owned by the store
    // Of what a run must give: [count] or NULL. Exact values; how far from them rounding alone can
    // move an element; how it may overflow (ls_overflow). Without them an element is `data`, bit by
    // bit.
    double *exact;
    double *bounds;
    unsigned char *overflow;
} ls_stage_array;

// The arrays of one key on all ranks.
typedef struct ls_stage_entry {
    char key[LS_STAGE_KEY_MAX];
    const char *stage, *table, *feature, *field;           // NULL where absent; owned by the store
    int stage_of_tables, field_of_tables, step_of_tables;  // as of an ls_stage_output
    ls_dtype dtype;
    bool reduces;
    int roundings;          // as of an ls_stage_output
    ls_stage_array *ranks;  // [ranks of the store]
} ls_stage_entry;

typedef struct ls_stages ls_stages;

int ls_stages_create(ls_stages **out, int ranks);
void ls_stages_free(ls_stages *stages);  // NULL is allowed
// From now on large outputs lie in a file without a name in `dir`, and are mapped: pages that the
// machine can take back, of a run that is too large for one process.
int ls_stages_to_file(ls_stages *stages, const char *dir);
// A sink that copies every output into the store. An output of the same key and rank given twice is
// LS_ERR_INVALID, as is a key whose dtype differs between ranks.
ls_stage_sink ls_stages_sink(ls_stages *stages);

// Puts the entries into the one order of a run of the scenario, however they came: stage by stage,
// in each by the first rank that has one, and of that rank as it gave them.
int ls_stages_arrange(ls_stages *stages, const ls_scenario *scenario);

int ls_stages_ranks(const ls_stages *stages);
int ls_stages_count(const ls_stages *stages);
// Entry `index` in the order of first appearance. Borrowed.
const ls_stage_entry *ls_stages_at(const ls_stages *stages, int index);
const ls_stage_entry *ls_stages_find(const ls_stages *stages, const char *key);  // NULL: none
// What a rank gave under an entry's key, as an output that borrows it.
ls_stage_output ls_stage_entry_output(const ls_stage_entry *entry, int rank);
// Bytes of all arrays held.
size_t ls_stages_bytes(const ls_stages *stages);

#endif
