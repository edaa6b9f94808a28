// Shared by the kernels of quantised rows, and their plain references. Private to kernels and its
// tests.
#pragma once

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/quantise.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where things are in a row, in bytes.
typedef struct ls_row_places {
    ls_dtype dtype;  // of elements that are floats; LS_DTYPE_COUNT: they are integers
    int bits;        // of an element
    bool scale_f32;
    size_t codes, scales;  // where the elements begin, and where scale and bias do
    size_t used, bytes;    // without the zeros behind it, and with them
} ls_row_places;

// Asserts that there is such a format and that its bytes do not overflow.
ls_row_places ls_row__places(const ls_row_format *format, size_t dim);

// out [count] = elements first (a multiple of 4) .. first + count of the row at `row`.
void ls_kernel__dequantise_columns(float *out, const void *row, const ls_row_places *places,
                                   size_t first, size_t count);

// The reference for quantise.h: plain code that shares nothing with the fast version.
int ls_kernel_quantise_rows_reference(void *out, const ls_row_format *format, const float *in,
                                      size_t in_stride, size_t rows, size_t dim, size_t *bad_row);
void ls_kernel_dequantise_rows_reference(float *out, const void *in, const ls_row_format *format,
                                         size_t rows, size_t dim);
void ls_kernel_quantised_lookup_reference(float *out, size_t out_stride, const void *table,
                                          const ls_row_format *format, int64_t rows, size_t dim,
                                          const ls_bags *bags);
// Element d of the row at `row`.
float ls_kernel__reference_dequantise(const void *row, const ls_row_format *format, size_t dim,
                                      size_t d);

#ifdef __cplusplus
}
#endif
