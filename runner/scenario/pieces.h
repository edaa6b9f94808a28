// Parts of a scenario's structs: where a mapping stands in the file, lists, and how numbers come
// about.
#ifndef LS_RUNNER_SCENARIO_PIECES_H
#define LS_RUNNER_SCENARIO_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/diagnostic.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ls_schema_record;

// Where a mapping came from. Never copied out of its struct by users.
typedef struct ls_node {
    const struct ls_schema_record *record;
    ls_mark mark;           // of the mapping itself; line 0: it was not given at all
    const ls_mark *values;  // per field of the record: where its value stands; line 0: not given
} ls_node;

// Where the value of `key` stands; the mapping's own place when the key was not given. Asserts that
// the record has such a key.
ls_mark ls_node_mark(const ls_node *node, const char *key);
// Whether the file gave the key (false: its default is in the struct).
bool ls_node_has(const ls_node *node, const char *key);

// ---- Pieces -------------------------------------------------------------------------------------
typedef struct ls_int_list {
    const int64_t *at;
    const ls_mark *marks;  // [count] where each element stands
    int count;
} ls_int_list;

typedef struct ls_int_rows {  // a list of lists
    const ls_int_list *at;
    int count;
    ls_mark mark;
} ls_int_rows;

typedef struct ls_real_list {
    const double *at;
    int count;
} ls_real_list;

typedef struct ls_string_list {
    const char *const *at;
    const ls_mark *marks;  // [count]
    int count;
} ls_string_list;

// How numbers come about. Which kinds may stand where is the schema's to say (ids: uniform, zipf,
// values, file; ...). inputs.h turns a generator into numbers.
typedef enum ls_generator_kind {
    LS_GENERATOR_DEFAULT,   // not given: what the place's documentation says
    LS_GENERATOR_NORMAL,    // mean a, standard deviation b
    LS_GENERATOR_UNIFORM,   // reals in [a, b), integers in [a, b]
    LS_GENERATOR_ARANGE,    // a + b * index (row-major index into the whole logical array)
    LS_GENERATOR_CONSTANT,  // a
    LS_GENERATOR_EXACT,     // small dyadic values whose sums are exact in any order
    LS_GENERATOR_SPLITMIX,  // a hash of seed, rank and index, see numbers_splitmix.c
    LS_GENERATOR_REUSE,     // ids: rows used as often as in production, see reuse.h
    LS_GENERATOR_ZIPF,      // ids: P(id = k) proportional to 1 / (k + 1)^a
    LS_GENERATOR_VALUES,    // integers or reals, given in the file
    LS_GENERATOR_FILE,      // a .npy file or one tensor of a .safetensors file
} ls_generator_kind;

typedef struct ls_generator {
    ls_node node;
    ls_generator_kind kind;
    double a, b;             // see above
    bool has_range;          // uniform: a and b were given
    const double *reals;     // values [value_count], row-major; for weights and tensors
    const int64_t *ints;     // the same for lengths and ids
    int64_t value_count;     //
    ls_int_list row_counts;  // values given as a list of lists: the length of each; else count 0
    const char *file;        // file: its path, resolved (openable as it stands)
    const char *tensor;      // the tensor in a .safetensors file; NULL: it has just one
} ls_generator;

#ifdef __cplusplus
}
#endif
#endif
