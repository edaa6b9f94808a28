// The .safetensors format: named dense arrays in one file. Files may be hostile: every size is
// checked against the file's own before anything is allocated.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

#define LS_SAFETENSORS_DIMS_MAX         8
#define LS_SAFETENSORS_HEADER_BYTES_MAX ((size_t)16 * 1024 * 1024)

typedef struct ls_safetensor {
    const char *name;
    const char *dtype_text;  // as in the file: "F32", "BOOL", ...
    int dtype;               // an ls_dtype (BOOL reads as u8), or -1: a type that lockstep lacks
    int ndim;
    int64_t dim[LS_SAFETENSORS_DIMS_MAX];
    size_t count;     // elements
    size_t bytes;     // of the data
    uint64_t offset;  // of the data in the file
    size_t position;  // in the header
} ls_safetensor;

// An open file: its header was read and checked (offsets ascending, without overlap or hole, and
// within the file); data is read on demand.
typedef struct ls_safetensors ls_safetensors;

// LS_ERR_IO, or LS_ERR_FORMAT saying what is wrong. The caller frees it.
int ls_safetensors_open(ls_safetensors **out, const char *path);
void ls_safetensors_free(ls_safetensors *file);  // NULL is allowed
size_t ls_safetensors_count(const ls_safetensors *file);
// Tensor `index`, in the order of the data. Borrowed.
const ls_safetensor *ls_safetensors_at(const ls_safetensors *file, size_t index);
// By name; NULL when there is none (no error is set).
const ls_safetensor *ls_safetensors_find(const ls_safetensors *file, const char *name);
// A value of __metadata__, or NULL. Borrowed.
const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key);
// out [tensor->bytes] = the tensor's data. LS_ERR_UNSUPPORTED for a type that lockstep lacks,
// LS_ERR_INVALID when out_bytes is not tensor->bytes.
int ls_safetensors_read(void *out, size_t out_bytes, const ls_safetensors *file,
                        const ls_safetensor *tensor);
// The same for `bytes` bytes of the data from byte `first` on; LS_ERR_INVALID past its end.
int ls_safetensors_read_part(void *out, size_t bytes, const ls_safetensors *file,
                             const ls_safetensor *tensor, size_t first);

// A tensor to be written; data [product of dim] is borrowed.
typedef struct ls_safetensor_source {
    const char *name;
    ls_dtype dtype;
    int ndim;
    int64_t dim[LS_SAFETENSORS_DIMS_MAX];
    const void *data;
} ls_safetensor_source;

// Writes tensors [tensor_count] in this order, with metadata [2 * metadata_count]: key, value, ...
// The file appears complete or not at all. LS_ERR_INVALID for a name given twice.
int ls_safetensors_write(const char *path, const ls_safetensor_source *tensors, size_t tensor_count,
                         const char *const *metadata, size_t metadata_count);
