// Quantised rows: tables whose rows are kept in few bits, in the layouts of FBGEMM and torch, byte
// for byte. Integer elements have a scale and a bias for each row: value = q scale + bias. Floats
// are narrower, and have neither. Pure functions, which allocate nothing.
#ifndef LS_KERNELS_QUANTISE_H
#define LS_KERNELS_QUANTISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/pooling.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_row_element {
    LS_ROW_INT8,
    LS_ROW_INT4,  // two to a byte, the first in the low bits
    LS_ROW_INT2,  // four to a byte, likewise
#define LS_ROW_ENUM(name, ...) LS_ROW_##name,
    LS_DTYPE_NARROW_MAP(LS_ROW_ENUM)  // LS_ROW_F16, ...
#undef LS_ROW_ENUM
    LS_ROW_ELEMENT_COUNT
} ls_row_element;

// How one row lies in memory: elements, scale and bias (behind or ahead of them), zeros up to the
// alignment. FBGEMM's names of the layouts:
//   Fused8BitRowwise             {LS_ROW_INT8, .scale_f32 = true}        dim + 8 bytes
//   FusedNBitRowwise 8, 4, 2     {LS_ROW_INT8}, {LS_ROW_INT4}, {LS_ROW_INT2}
//                                                     dim + 4, ceil(dim / 2) + 4, ceil(dim / 4) + 4
//   inference (IntNBit tables)   {LS_ROW_INT8, .scale_first = true, .alignment = 16}; 1 on CPUs
//   inference, 16 and 8 bits     {LS_ROW_F16, .alignment = 16}           2 dim; f8: dim
typedef struct ls_row_format {
    ls_row_element element;
    bool scale_f32;    // scale and bias are f32 (only INT8), else f16
    bool scale_first;  // they stand ahead of the elements
    size_t alignment;  // a row's bytes are a multiple of it; 0 is 1
} ls_row_format;

enum { LS_ROW_ALIGNMENT_MAX = 4096 };

// "int8", "int4", ..., "f8e5m2". Asserts that there is such an element.
const char *ls_row_element_name(ls_row_element element);
// The type of an element that is a float; LS_DTYPE_COUNT of an integer.
ls_dtype ls_row_element_dtype(ls_row_element element);
// LS_ERR_INVALID: there is no such format, and why.
int ls_row_format_check(const ls_row_format *format);
// Bytes of a row of `dim` elements. LS_ERR_INVALID as above, LS_ERR_OVERFLOW.
int ls_row_format_bytes(size_t *out, const ls_row_format *format, size_t dim);

// ---- Kernels. The format holds its check, and its bytes do not overflow (asserted) --------------
// out [rows, ls_row_format_bytes] = in [rows, dim] (row stride in_stride elements). The computation
// of FBGEMM and torch, in f32, rounded to nearest even:
//   f32 scale: bias = min; scale = (max - min) / 255; q = rint((x - bias) (255 / (max - min +
//   1e-8))). b bits, f16 scale: bias = min in f16; scale = (max - bias) / (2^b - 1) in f16, 1 where
//   that is 0; q = rint((x - bias) (1 / scale)), clamped to 0 .. 2^b - 1.
// A row of equal elements comes back as they were, but for the rounding of its bias. Floats are
// rounded once, as ls_kernel_convert does: f16 overflows to infinity, f8 saturates, NaN stays.
// LS_ERR_INVALID: a row with a NaN or an infinity, or whose scale or bias is beyond its type: one
// such element would spoil the whole row (FBGEMM stores what comes of it). *bad_row (may be NULL)
// is the first; out is then unspecified. Floats do not fail. Nothing overlaps.
int ls_kernel_quantise_rows(void *out, const ls_row_format *format, const float *in,
                            size_t in_stride, size_t rows, size_t dim, size_t *bad_row);

// out [rows, dim] = in [rows, ls_row_format_bytes]: q scale + bias, rounded once (fma), as FBGEMM's
// CPU kernels do; floats exactly. Any bytes are a row.
void ls_kernel_dequantise_rows(float *out, const void *in, const ls_row_format *format, size_t rows,
                               size_t dim);

// out [rows, ls_row_format_bytes of `columns`] = columns [column, column + columns) of in [rows,
// ls_row_format_bytes of `dim`]: the same elements under the scale and bias of the whole row, as a
// column shard of a quantised table holds them.
void ls_kernel_cut_quantised_rows(void *out, const void *in, const ls_row_format *format,
                                  size_t rows, size_t dim, size_t column, size_t columns);

#ifdef __cplusplus
}
#endif
#endif
