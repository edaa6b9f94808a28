// A scenario as a tree of JSON values, and as the text of its file: what is tried is exactly what
// is written. Knows no schema.
#pragma once

#include <jansson.h>

#include "base/text.h"

// The file's text: a line for each table, tensor, step and fault.
void ls_fuzz_write(ls_text *out, const json_t *scenario);
// The tree of a scenario file, without its comments. LS_ERR_FORMAT: it is no YAML; the caller drops
// *out with json_decref.
int ls_fuzz_read(json_t **out, const char *path);
