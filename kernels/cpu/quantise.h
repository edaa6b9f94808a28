// What the kernels of quantised rows share, and their plain references. Private to kernels and its
// tests.
#ifndef LS_KERNELS_CPU_QUANTISE_H
#define LS_KERNELS_CPU_QUANTISE_H

#include "base/dtype.h"
#include "kernels/quantise.h"

// out [count] = elements first .. first + count of the row at `row`.
void ls_kernel__dequantise_columns(float *out, const void *row, const ls_row_format *format,
                                   size_t dim, size_t first, size_t count);

// Bits of an element, and the type of one that is a float (LS_DTYPE_COUNT: it is an integer).
int ls_row__element_bits(ls_row_element element);
ls_dtype ls_row__element_dtype(ls_row_element element);

// As quantise.h says, by plain code that shares nothing with the fast version.
int ls_kernel_quantise_rows_reference(void *out, const ls_row_format *format, const float *in,
                                      size_t in_stride, size_t rows, size_t dim, size_t *bad_row);
void ls_kernel_dequantise_rows_reference(float *out, const void *in, const ls_row_format *format,
                                         size_t rows, size_t dim);
void ls_kernel_quantised_lookup_reference(float *out, size_t out_stride, const void *table,
                                          const ls_row_format *format, int64_t rows, size_t dim,
                                          const int64_t *ids, const int64_t *offsets,
                                          const float *weights, int64_t padding_id,
                                          ls_pooling pooling, size_t bags);
// Element d of the row at `row`.
float ls_kernel__reference_dequantise(const void *row, const ls_row_format *format, size_t dim,
                                      size_t d);

#endif
