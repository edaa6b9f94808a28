// Short words for the rows of the schema_*.c tables; S is the struct that a record describes.
#pragma once

#include <stddef.h>

#include "runner/scenario/schema.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define NAMES(names) (&(const ls_schema_names){.at = (names), .count = COUNT(names)})
#define MEMBER(name) .offset = offsetof(S, name)
#define AUX(name)    .aux = offsetof(S, name)
#define RECORD(name_, doc_, fields_)                                                               \
    .name = (name_), .doc = (doc_), .fields = (fields_), .field_count = COUNT(fields_)
// Of a struct that begins with an ls_node.
#define NODE_RECORD(name_, doc_, fields_)                                                          \
    RECORD(name_, doc_, fields_), .size = sizeof(S), .has_node = true
