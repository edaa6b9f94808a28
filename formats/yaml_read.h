// Reading a small YAML (or JSON) file without a schema: members of mappings and their values, each
// error reported where it stands. Scenarios are read by their schema (runner/scenario/schema.h).
#pragma once

#include "formats/yaml.h"

// A file being read; the caller gives its name and the sink of errors, the rest is the reader's.
typedef struct ls_yaml_reader {
    const char *file, *text;
    size_t bytes;
    ls_text *errors;  // gets every error, with its line and a caret
    ls_arena *arena;  // gets the words
    ls_yaml_tree *tree;
    ls_diagnostics *diagnostics;
    const ls_yaml_node *told;  // that it is no mapping
    int status;                // of what is no error of the file
} ls_yaml_reader;

// The file's root. NULL: it is not YAML or exceeds a limit; ls_yaml_close reports which.
const ls_yaml_node *ls_yaml_open(ls_yaml_reader *reader);
// Ends reading. Returns the status so far, or LS_ERR_MEMORY, or LS_ERR_FORMAT with the first error
// as the text of this thread's error.
int ls_yaml_close(ls_yaml_reader *reader, int status);

void ls_yaml_error(ls_yaml_reader *reader, const ls_yaml_node *at, const char *format, ...)
    LS_PRINTF(3, 4);
int ls_yaml_errors(const ls_yaml_reader *reader);  // so far

// The member of a mapping, or NULL (an error when required).
const ls_yaml_node *ls_yaml_member(ls_yaml_reader *reader, const ls_yaml_node *mapping,
                                   const char *key, bool required);
// Reports keys that are not among names.
void ls_yaml_only(ls_yaml_reader *reader, const ls_yaml_node *mapping, const char *const *names,
                  int count);
// Values; on failure an error and false. NULL nodes fail silently (their absence was reported).
bool ls_yaml_int(ls_yaml_reader *reader, const ls_yaml_node *node, int64_t least, int64_t most,
                 int64_t *out);
bool ls_yaml_real(ls_yaml_reader *reader, const ls_yaml_node *node, double least, double most,
                  double *out);
bool ls_yaml_bool(ls_yaml_reader *reader, const ls_yaml_node *node, bool *out);
const char *ls_yaml_word(ls_yaml_reader *reader, const ls_yaml_node *node);
