// Shared by the readers of captures.
#pragma once

#include "formats/json_read.h"
#include "runner/diff/capture.h"

#define INDEX_BYTES_MAX ((size_t)256 * 1024 * 1024)

// Lists a tensor as not compared; the first reason stays.
int ls_capture__omit(ls_capture *capture, const char *name, const char *why);
// Adds a rank's piece of a tensor. *out NULL: lockstep lacks its type, and it is omitted.
int ls_capture__add(ls_captured **out, ls_capture *capture, const char *name, int rank,
                    const ls_safetensors *file, const ls_safetensor *at);
// LS_ERR_FORMAT: `key` of `name` in the file `path` has the wrong form.
int ls_capture__malformed(const char *path, const char *name, const char *key);
// The numbers of an array, each in [0, at_most]. *count: -1 if there is no such key.
int ls_capture__numbers(int64_t *out, int *count, int room, const json_t *array, int64_t at_most);
// Reads the index at `path` of a rank's file.
int ls_capture__index(ls_capture *capture, const char *path, int rank, const ls_safetensors *file);

// Detects a lockstep checkpoint in a folder, and reads its tables' arrays, each as one tensor.
// (capture_checkpoint.c)
bool ls_capture__is_checkpoint(const char *dir);
int ls_capture__checkpoint(ls_capture *capture, const char *dir);

size_t ls_capture__slot(const ls_capture *capture, const char *name);  // of the table of names
