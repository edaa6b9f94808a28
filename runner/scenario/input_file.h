// The arrays that a scenario names by file: read once, kept as long as the scenario. Private to the
// runner.
#pragma once

#include "runner/scenario/scenario.h"

typedef struct ls_input_array {
    ls_dtype dtype;
    int ndim;
    int64_t dim[LS_DIMS_MAX];
    size_t count;      // elements
    const void *data;  // [count]
} ls_input_array;

typedef struct ls_input_files ls_input_files;

int ls_input_files_create(ls_input_files **out);
void ls_input_files_free(ls_input_files *files);  // NULL is allowed

// The array in `path` (.npy), or tensor `tensor` of it (.safetensors; NULL: its only one). Borrowed
// from the scenario. Threads may call it at once. LS_ERR_IO, LS_ERR_FORMAT, LS_ERR_NOT_FOUND,
// LS_ERR_UNSUPPORTED.
int ls_input_file_get(const ls_input_array **out, const ls_scenario *scenario, const char *path,
                      const char *tensor);

// The array's shape and type without its data (NULL), for checks before the run.
int ls_input_file_describe(ls_input_array *out, const char *path, const char *tensor);

// "weights of table user: f64 of user.npy, rounded to f32; ..." for all files of numbers whose use
// loses precision; "" if none does.
void ls_scenario_conversions(ls_text *out, const ls_scenario *scenario);
