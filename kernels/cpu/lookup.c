// Pooled lookup, forward: one bag at a time, the output row being the accumulator.
#include <math.h>

#include "kernels/cpu/bits.h"
#include "kernels/kernels.h"

// accumulator [dim] op= row [dim] * weight, one loop per table type and use.
typedef void (*row_fn)(void *restrict accumulator, const void *restrict row, double weight,
                       size_t dim);

// v replaces m as the maximum: NaN loses against a number, -0 < +0.
#define BEATS(v, m)                                                                                \
    ((v) > (m) || ((m) != (m) && (v) == (v)) || ((v) == (m) && !signbit(v) && signbit(m)))

#define ROWS(suffix, out_type, in_type, number, load)                                              \
    LS_CLONES static void add_##suffix(void *restrict accumulator, const void *restrict row,       \
                                       double weight, size_t dim) {                                \
        out_type *restrict out = accumulator;                                                      \
        const in_type *restrict in = row;                                                          \
        (void)weight;                                                                              \
        for (size_t d = 0; d < dim; d++) {                                                         \
            out[d] = out[d] + (number)load(in[d]);                                                 \
        }                                                                                          \
    }                                                                                              \
    LS_CLONES static void add_weighted_##suffix(                                                   \
        void *restrict accumulator, const void *restrict row, double weight, size_t dim) {         \
        out_type *restrict out = accumulator;                                                      \
        const in_type *restrict in = row;                                                          \
        number w = (number)weight;                                                                 \
        for (size_t d = 0; d < dim; d++) {                                                         \
            out[d] = out[d] + (number)load(in[d]) * w;                                             \
        }                                                                                          \
    }                                                                                              \
    LS_CLONES static void first_##suffix(void *restrict accumulator, const void *restrict row,     \
                                         double weight, size_t dim) {                              \
        out_type *restrict out = accumulator;                                                      \
        const in_type *restrict in = row;                                                          \
        number w = (number)weight;                                                                 \
        for (size_t d = 0; d < dim; d++) {                                                         \
            out[d] = (number)load(in[d]) * w;                                                      \
        }                                                                                          \
    }                                                                                              \
    LS_CLONES static void max_##suffix(void *restrict accumulator, const void *restrict row,       \
                                       double weight, size_t dim) {                                \
        out_type *restrict out = accumulator;                                                      \
        const in_type *restrict in = row;                                                          \
        number w = (number)weight;                                                                 \
        for (size_t d = 0; d < dim; d++) {                                                         \
            number m = out[d];                                                                     \
            number v = (number)load(in[d]) * w;                                                    \
            out[d] = BEATS(v, m) ? v : m;                                                          \
        }                                                                                          \
    }
#define AS_IS(x) (x)
ROWS(f16, any_f32, any_u16, float, f16_decode)
ROWS(bf16, any_f32, any_u16, float, bf16_decode)
ROWS(f32, any_f32, any_f32, float, AS_IS)
ROWS(f64, any_f64, any_f64, double, AS_IS)
ROWS(f8e4m3, any_f32, any_u8, float, f8e4m3_decode)
ROWS(f8e5m2, any_f32, any_u8, float, f8e5m2_decode)

typedef struct {
    row_fn add;           // += row
    row_fn add_weighted;  // += row * weight
    row_fn first;         // = row * weight
    row_fn max;           // = the larger of itself and row * weight
} row_functions;

#define ROW(suffix)                                                                                \
    { add_##suffix, add_weighted_##suffix, first_##suffix, max_##suffix }
static const row_functions functions[LS_DTYPE_COUNT] = {
    [LS_F16] = ROW(f16),   [LS_F32] = ROW(f32),       [LS_F64] = ROW(f64),
    [LS_BF16] = ROW(bf16), [LS_F8E4M3] = ROW(f8e4m3), [LS_F8E5M2] = ROW(f8e5m2),
};

static const row_functions *functions_of(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_is_float(dtype));
    return &functions[dtype];
}

// What one bag needs, so that the loop over its ids has few arguments.
typedef struct {
    const row_functions *rows_do;
    const char *table;
    size_t row_bytes;
    int64_t rows;
    size_t dim;
    int64_t padding_id;
    ls_pooling pooling;
    bool wide;  // f64: weights are summed in f64
} lookup;

// Rows lie all over the table: ask for one this many ids ahead, be it of a later bag.
enum { PREFETCH = 8 };

static void divide_row(void *row, bool wide, size_t dim, double divisor) {
    for (size_t d = 0; d < dim; d++) {
        if (wide) {
            ((any_f64 *)row)[d] /= divisor;
        } else {
            ((any_f32 *)row)[d] /= (float)divisor;
        }
    }
}

// ids [ahead]: those of the bag [count], and those of the bags behind it.
static void pool_bag(void *out, const lookup *l, const int64_t *ids, const float *weights,
                     size_t count, size_t ahead) {
    memset(out, 0, l->dim * (l->wide ? sizeof(double) : sizeof(float)));
    size_t counted = 0;
    double weight_sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + PREFETCH < ahead && ids[i + PREFETCH] >= 0 && ids[i + PREFETCH] < l->rows) {
            const char *later = l->table + (size_t)ids[i + PREFETCH] * l->row_bytes;
            for (size_t byte = 0; byte < l->row_bytes && byte < 512; byte += 64) {
                __builtin_prefetch(later + byte);
            }
        }
        if (l->padding_id != -1 && ids[i] == l->padding_id) {
            continue;
        }
        LS_ASSERT(ids[i] >= 0 && ids[i] < l->rows);
        const char *row = l->table + (size_t)ids[i] * l->row_bytes;
        double weight = weights != NULL ? (double)weights[i] : 1.0;
        if (l->pooling == LS_POOL_MAX) {
            (counted == 0 ? l->rows_do->first : l->rows_do->max)(out, row, weight, l->dim);
        } else if (weights != NULL) {
            l->rows_do->add_weighted(out, row, weight, l->dim);
            weight_sum = l->wide ? weight_sum + weight : (double)((float)weight_sum + weights[i]);
        } else {
            l->rows_do->add(out, row, 1.0, l->dim);
        }
        counted++;
    }
    if (l->pooling == LS_POOL_MEAN && counted > 0) {
        divide_row(out, l->wide, l->dim, weights != NULL ? weight_sum : (double)counted);
    }
}

void ls_kernel_pooled_lookup(void *out, size_t out_stride, const void *table, ls_dtype table_dtype,
                             int64_t rows, size_t dim, const int64_t *ids, const int64_t *offsets,
                             const float *weights, int64_t padding_id, ls_pooling pooling,
                             size_t bags) {
    LS_ASSERT(pooling == LS_POOL_SUM || pooling == LS_POOL_MEAN || pooling == LS_POOL_MAX);
    LS_ASSERT(bags <= 1 || out_stride >= dim);
    LS_ASSERT(offsets != NULL && rows >= 0);
    const lookup l = {functions_of(table_dtype),
                      table,
                      dim * ls_dtype_bytes(table_dtype),
                      rows,
                      dim,
                      padding_id,
                      pooling,
                      table_dtype == LS_F64};
    size_t out_bytes = l.wide ? sizeof(double) : sizeof(float);
    if (dim == 0) {
        return;
    }
    for (size_t bag = 0; bag < bags; bag++) {
        LS_ASSERT(offsets[bag] >= offsets[0] && offsets[bag + 1] >= offsets[bag]);
        size_t first = (size_t)(offsets[bag] - offsets[0]);
        size_t count = (size_t)(offsets[bag + 1] - offsets[bag]);
        pool_bag((char *)out + bag * out_stride * out_bytes, &l, count == 0 ? NULL : ids + first,
                 weights == NULL || count == 0 ? NULL : weights + first, count,
                 (size_t)(offsets[bags] - offsets[0]) - first);
    }
}
