// NumPy's .npy format, versions 1 to 3: one dense array in C order. Files may be hostile: every
// size is checked against the file's own before anything is allocated.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

#define LS_NPY_DIMS_MAX 8

typedef struct ls_npy {
    ls_dtype dtype;  // bool reads as u8
    int ndim;
    int64_t dim[LS_NPY_DIMS_MAX];
    size_t count;  // elements
    void *data;    // [count], 64-byte aligned, in this machine's byte order; owned
} ls_npy;

// The content of a file: all of *out but the data, which stays NULL. Checks what ls_npy_read
// checks.
int ls_npy_describe(ls_npy *out, const char *path);
// Reads a file. LS_ERR_IO; LS_ERR_FORMAT for a broken file; LS_ERR_UNSUPPORTED for Fortran order,
// objects, and types that lockstep lacks, naming them. Free *out with ls_npy_free.
int ls_npy_read(ls_npy *out, const char *path);
void ls_npy_free(ls_npy *array);

// Writes dim [ndim], data [product of dim] as version 1. The file appears complete or not at all.
// LS_ERR_UNSUPPORTED for bf16 and f8, which NumPy lacks.
