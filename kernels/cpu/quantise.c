// Quantised rows: formats, and rows from and to f32.
#include "kernels/quantise.h"

#include <math.h>

#include "base/base.h"
#include "kernels/cpu/bits.h"
#include "kernels/cpu/quantise.h"
#include "kernels/kernels.h"

// ---- Formats ------------------------------------------------------------------------------------
static const struct {
    const char *name;
    int bits;
    ls_dtype dtype;
} elements[LS_ROW_ELEMENT_COUNT] = {[LS_ROW_INT8] = {"int8", 8, LS_DTYPE_COUNT},
                                    [LS_ROW_INT4] = {"int4", 4, LS_DTYPE_COUNT},
                                    [LS_ROW_INT2] = {"int2", 2, LS_DTYPE_COUNT},
#define FLOAT_ROW(name, value, text, bytes, ...) [LS_ROW_##name] = {#text, 8 * (bytes), LS_##name},
                                    LS_DTYPE_NARROW_MAP(FLOAT_ROW)};

static bool is_element(ls_row_element element) {
    return (int)element >= 0 && element < LS_ROW_ELEMENT_COUNT;
}

const char *ls_row_element_name(ls_row_element element) {
    LS_ASSERT(is_element(element));
    return elements[element].name;
}

ls_dtype ls_row_element_dtype(ls_row_element element) {
    LS_ASSERT(is_element(element));
    return elements[element].dtype;
}

int ls_row_format_check(const ls_row_format *format) {
    LS_ASSERT(format != NULL);
    if (!is_element(format->element)) {
        return LS_FAIL(LS_ERR_INVALID, "rows: there is no element number %d", (int)format->element);
    }
    const char *name = elements[format->element].name;
    if (format->scale_f32 && format->element != LS_ROW_INT8) {
        return LS_FAIL(LS_ERR_INVALID, "rows of %s: only int8 has an f32 scale", name);
    }
    if (format->scale_first && elements[format->element].dtype != LS_DTYPE_COUNT) {
        return LS_FAIL(LS_ERR_INVALID, "rows of %s: floats have no scale, so it cannot come first",
                       name);
    }
    if (format->alignment > LS_ROW_ALIGNMENT_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "rows of %s: an alignment of %zu bytes is above %d", name,
                       format->alignment, LS_ROW_ALIGNMENT_MAX);
    }
    return LS_OK;
}

// Of a format that is one, and a dim that does not overflow.
static ls_row_places place(const ls_row_format *format, size_t dim) {
    size_t bits = (size_t)elements[format->element].bits;
    bool integer = elements[format->element].dtype == LS_DTYPE_COUNT;
    size_t packed = bits >= 8 ? dim * (bits / 8) : dim / (8 / bits) + (dim % (8 / bits) != 0);
    size_t scales = format->scale_f32 ? 8 : 4;
    if (!integer) {
        scales = 0;
    }
    size_t alignment = format->alignment == 0 ? 1 : format->alignment;
    return (ls_row_places){.dtype = elements[format->element].dtype,
                           .bits = (int)bits,
                           .scale_f32 = format->scale_f32,
                           .codes = format->scale_first ? scales : 0,
                           .scales = format->scale_first ? 0 : packed,
                           .used = packed + scales,
                           .bytes = (packed + scales + alignment - 1) / alignment * alignment};
}

int ls_row_format_bytes(size_t *out, const ls_row_format *format, size_t dim) {
    LS_ASSERT(out != NULL);
    LS_TRY(ls_row_format_check(format));
    size_t widest;  // two bytes an element, scale and bias, and what aligns them
    LS_TRY(ls_size_mul(&widest, dim, 2));
    LS_TRY(ls_size_add(&widest, widest, LS_ROW_ALIGNMENT_MAX + 8));
    *out = place(format, dim).bytes;
    return LS_OK;
}

ls_row_places ls_row__places(const ls_row_format *format, size_t dim) {
    size_t bytes;
    int status = ls_row_format_bytes(&bytes, format, dim);
    LS_ASSERT(status == LS_OK);
    (void)status;
    return place(format, dim);
}

// ---- From f32 -----------------------------------------------------------------------------------
enum { LANES = 8, TILE = 512 };

// Of a zero of either sign, the bias takes the one that FBGEMM's eight lanes come upon: the last of
// each lane, then the first lane's.
LS_CLONES static void row_range(float *low, float *high, const float *in, size_t dim) {
    float least[LANES];
    float most[LANES];
    for (size_t i = 0; i < LANES; i++) {
        least[i] = INFINITY;
        most[i] = -INFINITY;
    }
    size_t d = 0;
    for (; d + LANES <= dim; d += LANES) {
        for (size_t i = 0; i < LANES; i++) {
            float x = in[d + i];
            least[i] = least[i] < x ? least[i] : x;
            most[i] = most[i] > x ? most[i] : x;
        }
    }
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < LANES; i++) {
        *low = least[i] < *low ? least[i] : *low;
        *high = most[i] > *high ? most[i] : *high;
    }
    for (; d < dim; d++) {
        *low = in[d] < *low ? in[d] : *low;
        *high = in[d] > *high ? in[d] : *high;
    }
}

// q [count], each in 0 .. most: what is rounded is finite.
LS_CLONES static void round_row(uint8_t *restrict q, const float *restrict in, float bias,
                                float inverse, int most, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float x = (in[i] - bias) * inverse;
        x = x < 0.0f ? 0.0f : x;
        x = x > (float)most ? (float)most : x;
        // 2^23 leaves no room for a fraction: the sum is rounded to the nearest even integer.
        q[i] = (uint8_t)bits_of_f32(x + 0x1p23f);
    }
}

static void pack(unsigned char *out, const uint8_t *q, int bits, size_t count) {
    size_t per_byte = (size_t)(8 / bits);
    for (size_t i = 0; i < count; i++) {
        unsigned shift = (unsigned)(i % per_byte) * (unsigned)bits;
        out[i / per_byte] = (unsigned char)((shift == 0 ? 0u : out[i / per_byte]) | q[i] << shift);
    }
}

// False: the row has no scale and bias.
static bool quantise_row(unsigned char *out, const ls_row_places *p, const float *in, size_t dim) {
    float low = 0;
    float high = 0;
    float scale;
    float inverse;
    int most = (1 << p->bits) - 1;
    if (dim > 0) {
        row_range(&low, &high, in, dim);
    }
    unsigned char *scales = out + p->scales;
    if (p->scale_f32) {
        scale = (high - low) / 255.0f;
        inverse = 255.0f / (high - low + 1e-8f);
        memcpy(scales, &scale, sizeof scale);
        memcpy(scales + 4, &low, sizeof low);
    } else {
        uint16_t half_bias = f16_encode(low);
        low = f16_decode(half_bias);
        uint16_t half_scale = f16_encode((high - low) / (float)most);
        scale = f16_decode(half_scale);
        if (scale == 0.0f) {  // also of equal elements; any other inverse is finite
            scale = 1.0f;
            half_scale = f16_encode(scale);
        }
        inverse = 1.0f / scale;
        memcpy(scales, &half_scale, sizeof half_scale);
        memcpy(scales + 2, &half_bias, sizeof half_bias);
    }
    if (!isfinite(low) || !isfinite(scale)) {
        return false;
    }
    for (size_t first = 0; first < dim; first += TILE) {
        uint8_t q[TILE];
        size_t count = dim - first < TILE ? dim - first : TILE;
        round_row(q, in + first, low, inverse, most, count);
        pack(out + p->codes + first * (size_t)p->bits / 8, q, p->bits, count);
    }
    return true;
}

static int not_quantised(const ls_row_format *format, size_t row) {
    return LS_FAIL(LS_ERR_INVALID,
                   "row %zu cannot be quantised to %s: it holds NaN or infinity, or its range is "
                   "too wide for an %s scale",
                   row, elements[format->element].name, format->scale_f32 ? "f32" : "f16");
}

int ls_kernel_quantise_rows(void *out, const ls_row_format *format, const float *in,
                            size_t in_stride, size_t rows, size_t dim, size_t *bad_row) {
    const ls_row_places p = ls_row__places(format, dim);
    LS_ASSERT(rows <= 1 || in_stride >= dim);
    for (size_t row = 0; row < rows; row++) {
        unsigned char *to = (unsigned char *)out + row * p.bytes;
        const float *from = dim == 0 ? in : in + row * in_stride;
        if (p.dtype != LS_DTYPE_COUNT) {
            ls_kernel_convert(to, p.dtype, from, LS_F32, dim);
        } else if (ls_kernel_any_special(from, dim, LS_F32) || !quantise_row(to, &p, from, dim)) {
            if (bad_row != NULL) {
                *bad_row = row;
            }
            return not_quantised(format, row);
        }
        memset(to + p.used, 0, p.bytes - p.used);
    }
    return LS_OK;
}

// ---- To f32 -------------------------------------------------------------------------------------
LS_FMA_CLONES static void scale_row(float *restrict out, const uint8_t *restrict q, float scale,
                                    float bias, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i] = fmaf((float)q[i], scale, bias);
    }
}

static void unpack(uint8_t *q, const unsigned char *in, int bits, size_t count) {
    size_t per_byte = (size_t)(8 / bits);
    unsigned mask = (1u << bits) - 1u;
    size_t i = 0;
    for (; i + per_byte <= count; i += per_byte) {
        unsigned byte = in[i / per_byte];
        for (size_t k = 0; k < per_byte; k++) {
            q[i + k] = (uint8_t)(byte >> (k * (size_t)bits) & mask);
        }
    }
    for (; i < count; i++) {
        q[i] = (uint8_t)((unsigned)in[i / per_byte] >> (i % per_byte * (size_t)bits) & mask);
    }
}

static void read_scale(float *scale, float *bias, const unsigned char *at, bool is_f32) {
    if (is_f32) {
        *scale = ((const any_f32 *)at)[0];
        *bias = ((const any_f32 *)at)[1];
    } else {
        *scale = f16_decode(((const any_u16 *)at)[0]);
        *bias = f16_decode(((const any_u16 *)at)[1]);
    }
}

void ls_kernel__dequantise_columns(float *out, const void *row, const ls_row_places *places,
                                   size_t first, size_t count) {
    const unsigned char *at = row;
    size_t bits = (size_t)places->bits;
    if (places->dtype != LS_DTYPE_COUNT) {
        ls_kernel_convert(out, LS_F32, at + first * bits / 8, places->dtype, count);
        return;
    }
    float scale;
    float bias;
    read_scale(&scale, &bias, at + places->scales, places->scale_f32);
    LS_ASSERT(first % 4 == 0);  // whole bytes
    const unsigned char *codes = at + places->codes + first * bits / 8;
    if (bits == 8) {
        scale_row(out, codes, scale, bias, count);
        return;
    }
    for (size_t done = 0; done < count; done += TILE) {
        uint8_t q[TILE];
        size_t part = count - done < TILE ? count - done : TILE;
        unpack(q, codes + done * bits / 8, places->bits, part);
        scale_row(out + done, q, scale, bias, part);
    }
}

void ls_kernel_dequantise_rows(float *out, const void *in, const ls_row_format *format, size_t rows,
                               size_t dim) {
    const ls_row_places p = ls_row__places(format, dim);
    for (size_t row = 0; row < rows && dim > 0; row++) {
        ls_kernel__dequantise_columns(out + row * dim, (const char *)in + row * p.bytes, &p, 0,
                                      dim);
    }
}

// ---- Columns of rows ----------------------------------------------------------------------------
void ls_kernel_cut_quantised_rows(void *out, const void *in, const ls_row_format *format,
                                  size_t rows, size_t dim, size_t column, size_t columns) {
    const ls_row_places from = ls_row__places(format, dim), to = ls_row__places(format, columns);
    LS_ASSERT(column <= dim && columns <= dim - column);
    size_t bits = (size_t)from.bits, scales = format->scale_f32 ? 8 : 4;
    for (size_t row = 0; row < rows; row++) {
        const unsigned char *whole = (const unsigned char *)in + row * from.bytes;
        unsigned char *cut = (unsigned char *)out + row * to.bytes;
        memset(cut, 0, to.bytes);
        if (from.dtype == LS_DTYPE_COUNT) {
            memcpy(cut + to.scales, whole + from.scales, scales);
        }
        if (bits >= 8) {
            memcpy(cut + to.codes, whole + from.codes + column * (bits / 8), columns * (bits / 8));
            continue;
        }
        unsigned mask = (1u << bits) - 1u;
        for (size_t c = 0; c < columns; c++) {  // elements may begin inside of a byte
            size_t at = (column + c) * bits, put = c * bits;
            unsigned q = (unsigned)whole[from.codes + at / 8] >> at % 8 & mask;
            cut[to.codes + put / 8] = (unsigned char)(cut[to.codes + put / 8] | q << put % 8);
        }
    }
}
