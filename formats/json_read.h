// Reading a JSON file with jansson. Private: a file that includes this needs jansson's header.
#pragma once

#include <jansson.h>

#include "base/status.h"

// The JSON of a regular file of at most bytes_max bytes; the caller drops *out with json_decref.
// LS_ERR_FORMAT as 'PATH':LINE:COLUMN, also for a key given twice; LS_ERR_IO, LS_ERR_LIMIT,
// LS_ERR_MEMORY.
int ls_json_read(json_t **out, const char *path, size_t bytes_max);
// The same from memory; `path` is what messages call it.
int ls_json_parse(json_t **out, const char *path, const char *text, size_t bytes);
