// Parts of a scenario's structs: places in the file, lists, and generators of numbers.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "formats/diagnostic.h"

struct ls_schema_record;

// The place of a mapping. Invariant: users never copy it out of its struct.
typedef struct ls_node {
    const struct ls_schema_record *record;
    ls_mark mark;           // of the mapping; line 0: not given
    const ls_mark *values;  // for each field of the record: the place of its value; line 0: not
                            // given
} ls_node;

// The place of `key`'s value; the mapping's own place if the key was not given. Asserts that the
// record has such a key.
ls_mark ls_node_mark(const ls_node *node, const char *key);
// Whether the file gave the key (false: its default is in the struct).
bool ls_node_has(const ls_node *node, const char *key);

// ---- Pieces -------------------------------------------------------------------------------------
typedef struct ls_int_list {
    const int64_t *at;
    const ls_mark *marks;  // [count] the place of each element
    int count;
} ls_int_list;

int ls_int_list_find(const ls_int_list *list, int64_t value);  // its index; -1: it is not there

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

// A generator of numbers. The schema determines the kinds for each key (ids: uniform, zipf, values,
// file; ...). inputs.h generates the numbers.
typedef enum ls_generator_kind {
    LS_GENERATOR_DEFAULT,   // not given: the default of the key
    LS_GENERATOR_NORMAL,    // mean a, standard deviation b
    LS_GENERATOR_UNIFORM,   // reals in [a, b), integers in [a, b]
    LS_GENERATOR_ARANGE,    // a + b * index (row-major index into the whole logical array)
    LS_GENERATOR_CONSTANT,  // a
    LS_GENERATOR_EXACT,     // small dyadic values whose sums are exact in any order
    LS_GENERATOR_SPLITMIX,  // a hash of seed, rank and index, see numbers_splitmix.c
    LS_GENERATOR_REUSE,     // ids: production-like reuse of rows, see reuse.h
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
