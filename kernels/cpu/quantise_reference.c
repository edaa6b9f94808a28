// Quantised rows, the plain reference: one element at a time, by the formulas of quantise.h.
#include <math.h>
#include <string.h>

#include "kernels/cpu/quantise.h"
#include "kernels/cpu/reference.h"

static bool is_integer(const ls_row_format *format) {
    return format->element <= LS_ROW_INT2;
}

static ls_dtype dtype_of(ls_row_element element) {
    return ls_row_element_dtype(element);
}

static size_t bits_of(ls_row_element element) {
    static const size_t bits[] = {8, 4, 2};
    return element <= LS_ROW_INT2 ? bits[element] : 8 * ls_dtype_bytes(dtype_of(element));
}

// Where things are in a row.
typedef struct {
    size_t codes, scale, used, bytes;
} places;

static places places_of(const ls_row_format *format, size_t dim) {
    size_t packed = (dim * bits_of(format->element) + 7) / 8;
    size_t scales = format->scale_f32 ? 8 : 4;
    if (!is_integer(format)) {
        scales = 0;
    }
    places p = {0, packed, packed + scales, packed + scales};
    if (format->scale_first) {
        p.codes = scales;
        p.scale = 0;
    }
    while (format->alignment > 1 && p.bytes % format->alignment != 0) {
        p.bytes++;
    }
    return p;
}

static float to_half(float value) {
    uint16_t half;
    ls_kernel__reference_store(&half, LS_F16, 0, (long double)value);
    return (float)ls_kernel__reference_load(&half, LS_F16, 0);
}

// The smallest element; of two zeros FBGEMM's choice: column 0 mod 8 first, there the last.
static float smallest(const float *in, size_t dim) {
    float least = INFINITY;
    size_t whole = dim / 8 * 8;
    for (size_t lane = 0; lane < 8 && lane < whole; lane++) {
        float of_lane = in[lane];
        for (size_t d = lane; d < whole; d += 8) {
            of_lane = in[d] <= of_lane ? in[d] : of_lane;
        }
        least = of_lane < least ? of_lane : least;
    }
    for (size_t d = whole; d < dim; d++) {
        least = in[d] < least ? in[d] : least;
    }
    return least;
}

static bool quantise_row(unsigned char *out, const ls_row_format *format, const float *in,
                         size_t dim) {
    places p = places_of(format, dim);
    float least = dim == 0 ? 0 : smallest(in, dim);
    float most = least;
    for (size_t d = 0; d < dim; d++) {
        if (!isfinite(in[d])) {
            return false;
        }
        most = in[d] > most ? in[d] : most;
    }
    size_t bits = bits_of(format->element);
    float levels = (float)((1 << bits) - 1);
    float bias = format->scale_f32 ? least : to_half(least);
    float range = most - bias;
    float scale = format->scale_f32 ? range / 255.0f : to_half(range / levels);
    if (!format->scale_f32 && scale == 0) {
        scale = 1;
    }
    if (!isfinite(bias) || !isfinite(scale)) {
        return false;
    }
    float inverse = format->scale_f32 ? 255.0f / (range + 1e-8f) : 1.0f / scale;
    ls_dtype scale_dtype = format->scale_f32 ? LS_F32 : LS_F16;
    unsigned char pair[8];
    ls_kernel__reference_store(pair, scale_dtype, 0, (long double)scale);
    ls_kernel__reference_store(pair, scale_dtype, 1, (long double)bias);
    memcpy(out + p.scale, pair, format->scale_f32 ? 8 : 4);
    for (size_t d = 0; d < dim; d++) {
        long q = lrintf((in[d] - bias) * inverse);
        if (q < 0) {
            q = 0;
        } else {
            q = q > (long)levels ? (long)levels : q;
        }
        out[p.codes + d * bits / 8] |= (unsigned char)((unsigned long)q << (d * bits % 8));
    }
    return true;
}

int ls_kernel_quantise_rows_reference(void *out, const ls_row_format *format, const float *in,
                                      size_t in_stride, size_t rows, size_t dim, size_t *bad_row) {
    places p = places_of(format, dim);
    for (size_t row = 0; row < rows; row++) {
        unsigned char *to = (unsigned char *)out + row * p.bytes;
        memset(to, 0, p.bytes);
        if (is_integer(format)) {
            if (!quantise_row(to, format, in + row * in_stride, dim)) {
                if (bad_row != NULL) {
                    *bad_row = row;
                }
                return LS_ERR_INVALID;
            }
            continue;
        }
        for (size_t d = 0; d < dim; d++) {
            ls_kernel__reference_store(to, dtype_of(format->element), d,
                                       (long double)in[row * in_stride + d]);
        }
    }
    return LS_OK;
}

float ls_kernel__reference_dequantise(const void *row, const ls_row_format *format, size_t dim,
                                      size_t d) {
    const unsigned char *bytes = row;
    places p = places_of(format, dim);
    size_t bits = bits_of(format->element);
    if (!is_integer(format)) {
        return (float)ls_kernel__reference_load(bytes, dtype_of(format->element), d);
    }
    ls_dtype scale_dtype = format->scale_f32 ? LS_F32 : LS_F16;
    unsigned char pair[8];
    memcpy(pair, bytes + p.scale, format->scale_f32 ? 8 : 4);
    unsigned q = (unsigned)bytes[p.codes + d * bits / 8] >> (d * bits % 8) & ((1u << bits) - 1u);
    return fmaf((float)q, (float)ls_kernel__reference_load(pair, scale_dtype, 0),
                (float)ls_kernel__reference_load(pair, scale_dtype, 1));
}

void ls_kernel_dequantise_rows_reference(float *out, const void *in, const ls_row_format *format,
                                         size_t rows, size_t dim) {
    size_t row_bytes = places_of(format, dim).bytes;
    for (size_t i = 0; i < rows * dim; i++) {
        const unsigned char *row = (const unsigned char *)in + i / dim * row_bytes;
        out[i] = ls_kernel__reference_dequantise(row, format, dim, i % dim);
    }
}
