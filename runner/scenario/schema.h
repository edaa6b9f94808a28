// The schema of scenario files: one table of records and fields. It drives parsing and validation
// (scenario_read.c), the text of --explain-schema, the JSON schema for editors and the "expected
// ..." of error messages. To add a key, add a line to schema_table.c and a member to scenario.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

typedef enum ls_field_type {
    LS_FIELD_INT,           // int64_t
    LS_FIELD_INT32,         // int
    LS_FIELD_UINT64,        // uint64_t
    LS_FIELD_REAL,          // double
    LS_FIELD_BOOL,          // bool
    LS_FIELD_STRING,        // const char *
    LS_FIELD_PATH,          // const char *, resolved against the file's folder; or one of `names`
    LS_FIELD_ORDER,         // const char *, the text of an order whose file is resolved like a path
    LS_FIELD_ENUM,          // an enum, names in `names`
    LS_FIELD_CLASS,         // a verdict class, or "off" (then the bool at `aux`)
    LS_FIELD_FLAG,          // an alternative without value: the word itself, or true
    LS_FIELD_RANGE,         // [a, b] into two doubles at offset and aux; sets has_range
    LS_FIELD_INTS,          // ls_int_list
    LS_FIELD_INT_ROWS,      // ls_int_rows
    LS_FIELD_REALS,         // ls_real_list
    LS_FIELD_STRINGS,       // ls_string_list
    LS_FIELD_VALUES,        // the values of a generator: numbers, or lists of numbers
    LS_FIELD_SHAPE,         // ls_shape
    LS_FIELD_MESH_SHAPE,    // the sizes of an ls_mesh
    LS_FIELD_MESH_NAMES,    // the names of an ls_mesh
    LS_FIELD_PLACEMENTS,    // ls_placements from its text; sets the bool at `aux`
    LS_FIELD_TABLES_STEPS,  // const ls_tables_step *, count at aux
    LS_FIELD_RECORD,        // a struct, embedded
    LS_FIELD_RECORDS,       // a list of mappings: pointer to structs, int count at aux
    LS_FIELD_RECORD_MAP,    // a mapping of names to mappings: the same, and name_offset
    LS_FIELD_INLINE,        // an alternative whose keys belong to the same struct
} ls_field_type;

enum {
    LS_FIELD_REQUIRED = 1,
    LS_FIELD_COMPANION = 2,     // of a one-of record: accompanies another key
    LS_FIELD_BARE = 4,          // of a one-of record: may be written as only the word
    LS_FIELD_SINGLE = 8,        // a list that may be written as its only element
    LS_FIELD_POSITIVE = 16,     // a real that must be greater than min, not equal
    LS_FIELD_INTEGERS = 32,     // range and values: integers, stored as such
    LS_FIELD_HIDDEN_BOOL = 64,  // sets the bool at aux when given
    LS_FIELD_SOME = 128,        // an empty list would mean as much as none, and is refused
    LS_FIELD_CHECKPOINT = 512,  // a path: a checkpoint's folder, not a file
    LS_FIELD_JUDGES = 256,      // affects the report and the verdict, not the run
};

typedef struct ls_schema_name {
    const char *text;
    int value;
} ls_schema_name;

typedef struct ls_schema_names {
    const ls_schema_name *at;
    int count;
} ls_schema_names;

struct ls_schema_record;

typedef struct ls_schema_field {
    const char *key;
    ls_field_type type;
    unsigned flags;
    size_t offset;                          // of the member in the record's struct
    size_t aux;                             // of the second member, see the type
    int64_t min, max;                       // of a number or of each number of a list
    int tag;                                // of an alternative: stored in the record's tag member
    const ls_schema_names *names;           // enums
    const struct ls_schema_record *record;  // records
    const char *fallback;                   // the default, parsed like a value given; NULL: none
    const char *otherwise;  // the effective value if it is not given and has no simple default
    const char *doc;        // one sentence
    const char *example;    //
} ls_schema_field;

typedef struct ls_schema_record {
    const char *name;  // "table"; unique
    const char *doc;
    const ls_schema_field *fields;
    int field_count;
    size_t size;         // of the struct; 0: shares another's (LS_FIELD_INLINE)
    bool has_node;       // the struct begins with an ls_node, to be filled
    bool one_of;         // exactly one key that is no companion
    bool partial;        // a missing key changes nothing: other keys have the values that it
                         // replaces
    size_t tag_offset;   // one_of: the member for the alternative's tag (an enum)
    size_t name_offset;  // of the member for the name, if LS_FIELD_RECORD_MAP uses it
} ls_schema_record;

// The two keys of a generator that reads a file.
#define LS_SCHEMA_FILE_FIELDS                                                                      \
    {"file",                                                                                       \
     LS_FIELD_PATH,                                                                                \
     .tag = LS_GENERATOR_FILE,                                                                     \
     .offset = offsetof(ls_generator, file),                                                       \
     .doc = "Read from a .npy or .safetensors file, by its path from the scenario's folder.",      \
     .example = "file: weights.npy"},                                                              \
    {                                                                                              \
        .key = "tensor", .type = LS_FIELD_STRING, .flags = LS_FIELD_COMPANION,                     \
        .offset = offsetof(ls_generator, tensor), .otherwise = "the file's only tensor",           \
        .doc = "Which tensor of a .safetensors file.", .example = "tensor: weight"                 \
    }

// Records that several parts of the table use.
extern const ls_schema_record ls_schema__numbers;  // schema_table.c
extern const ls_schema_record ls_schema__program;  // schema_program.c
extern const ls_schema_record ls_schema__except;
extern const ls_schema_names ls_schema__dtypes, ls_schema__ops;
extern const ls_schema_record ls_schema__optimizer;  // schema_training.c
extern const ls_schema_record ls_schema__train;
extern const ls_schema_record ls_schema__inputs;  // schema_inputs.c
// Creates the parts that depend on other tables: records of collectives, names of optimizers.
void ls_schema__make(void);
void ls_schema__make_training(void);  // called by it

// For tables of fields: the offset of a member of S, the record of its struct.
#define LS_MEMBER(name) .offset = offsetof(S, name)
#define LS_AUX(name)    .aux = offsetof(S, name)

// The record of a whole scenario.
const ls_schema_record *ls_schema_root(void);

#define LS_SCHEMA_RECORDS_MAX 96
// All records, each once, the root first: out [LS_SCHEMA_RECORDS_MAX]; returns their number.
int ls_schema_records(const ls_schema_record **out);

// Index of `key` in the record, or -1.
int ls_schema_find(const ls_schema_record *record, const char *key);

// The valid values of a field: "an integer from 1 to 65536", "one of sum, mean, max, none", ...
void ls_schema_describe(ls_text *out, const ls_schema_field *field);

// Every key with type, default and meaning, for people.
void ls_schema_explain(ls_text *out);

// The same as a JSON schema (draft 2020-12), for editors. `run --json-schema` prints it.
void ls_schema_json(ls_text *out);
