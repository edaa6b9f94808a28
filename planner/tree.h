// A YAML (or JSON) file as a tree of nodes that know where they stand. Internal to planner/.
// Anchors, aliases and tags are refused: nothing in a small file can stand for something large.
#ifndef LS_PLANNER_TREE_H
#define LS_PLANNER_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#define LS_TREE_DEPTH_MAX 16
#define LS_TREE_BYTES_MAX (INT64_C(256) << 20)

typedef enum ls_tree_kind { LS_TREE_SCALAR, LS_TREE_LIST, LS_TREE_MAP } ls_tree_kind;

typedef struct ls_tree {
    ls_tree_kind kind;
    int line, column;  // from 1
    const char *text;  // scalar
    const char *key;   // in a map: the key of this node
    int key_line, key_column;
    struct ls_tree *first;  // children of lists and maps
    struct ls_tree *next;   // sibling
    int count;              // children
} ls_tree;

// Where errors go, each as "FILE:LINE:COL: error: TEXT", the line and a caret.
typedef struct ls_tree_source {
    const char *file, *text;
    size_t bytes;
    ls_text *errors;
    int error_count;
    int last_line, last_column;  // of the last error, and its text: it is not told twice
    char last_text[128];
    bool no_memory;  // reading stopped for want of it; no error of the file
    ls_arena *arena;
} ls_tree_source;

// NULL: the file is not YAML or breaks a limit; told in source->errors.
ls_tree *ls_tree__read(ls_tree_source *source);
void ls_tree__error(ls_tree_source *source, int line, int column, const char *format, ...)
    LS_PRINTF(4, 5);
// LS_OK, LS_ERR_MEMORY, or LS_ERR_FORMAT with the first error as the text of this thread's error.
int ls_tree__status(const ls_tree_source *source);

// The member of a map, or NULL (an error when required).
const ls_tree *ls_tree__member(ls_tree_source *source, const ls_tree *map, const char *key,
                               bool required);
// Reports keys that are not among names.
void ls_tree__only(ls_tree_source *source, const ls_tree *map, const char *const *names, int count);
// Values; on failure an error and false. NULL nodes fail silently (their absence was reported).
bool ls_tree__int(ls_tree_source *source, const ls_tree *node, int64_t least, int64_t most,
                  int64_t *out);
bool ls_tree__real(ls_tree_source *source, const ls_tree *node, double least, double most,
                   double *out);
bool ls_tree__bool(ls_tree_source *source, const ls_tree *node, bool *out);
const char *ls_tree__text(ls_tree_source *source, const ls_tree *node);

#endif
