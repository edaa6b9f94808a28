// YAML as a tree of nodes with positions: what libyaml leaves to its user is settled here. A tree
// has one document; its keys are plain words without duplicates; aliases are resolved, may not
// refer to themselves, and expand to a bounded size; tags and merge keys are refused. Knows no
// schema.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/diagnostic.h"

#define LS_YAML_ANCHORS_MAX 256

typedef enum ls_yaml_kind {
    LS_YAML_SCALAR,
    LS_YAML_SEQUENCE,
    LS_YAML_MAPPING,
} ls_yaml_kind;

// A node. Children are linked by index: of a mapping key, value, key, value, ...
typedef struct ls_yaml_node {
    ls_yaml_kind kind;
    bool plain;       // a scalar without quotes: may be a number, a boolean or nothing
    ls_mark mark;     //
    uint32_t text;    // scalar: offset of its 0-terminated text in the tree's pool
    uint32_t first;   // first child, 0: none
    uint32_t next;    // next sibling, 0: none
    uint32_t count;   // children (mapping: pairs)
    uint32_t weight;  // nodes below and with this one, aliases written out
} ls_yaml_node;

typedef struct ls_yaml_tree ls_yaml_tree;

// The limits of a file.
typedef struct ls_yaml_limits {
    size_t bytes;
    int depth;
    uint32_t nodes;     // with every alias written out
    const char *whole;  // expected content, for an empty file; NULL: nothing to say
} ls_yaml_limits;

// Parses text [bytes]. LS_ERR_FORMAT: every error found is in diagnostics. The caller frees *out.
int ls_yaml_parse(ls_yaml_tree **out, ls_diagnostics *diagnostics, const char *text, size_t bytes,
                  const ls_yaml_limits *limits);
void ls_yaml_free(ls_yaml_tree *tree);  // NULL is allowed

const ls_yaml_node *ls_yaml_root(const ls_yaml_tree *tree);
const ls_yaml_node *ls_yaml_first(const ls_yaml_tree *tree, const ls_yaml_node *node);  // or NULL
const ls_yaml_node *ls_yaml_next(const ls_yaml_tree *tree, const ls_yaml_node *node);   // or NULL
const char *ls_yaml_text(const ls_yaml_tree *tree, const ls_yaml_node *scalar);
// The value of `key` in a mapping, or NULL.
const ls_yaml_node *ls_yaml_get(const ls_yaml_tree *tree, const ls_yaml_node *mapping,
                                const char *key);
// "a mapping", "a list", "nothing", "the text \"many\"", for messages; out [out_bytes].
void ls_yaml_describe(char *out, size_t out_bytes, const ls_yaml_tree *tree,
                      const ls_yaml_node *node);
bool ls_yaml_is_null(const ls_yaml_tree *tree, const ls_yaml_node *node);
