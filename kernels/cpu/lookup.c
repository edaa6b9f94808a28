// Pooled lookup, forward: one bag at a time, the output row being the accumulator.
#include <math.h>

#include "kernels/cpu/field_rows.h"
#include "kernels/cpu/bits.h"
#include "kernels/cpu/lookup_sum.h"
#include "kernels/cpu/quantise.h"
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
ROWS(f32, any_f32, any_f32, float, AS_IS)
ROWS(f64, any_f64, any_f64, double, AS_IS)
#define NARROW_ROWS(name, value, suffix, bytes, ...)                                               \
    ROWS(suffix, any_f32, any_bits_##bytes, float, suffix##_decode)
LS_DTYPE_NARROW_MAP(NARROW_ROWS)

typedef struct {
    row_fn add;           // += row
    row_fn add_weighted;  // += row * weight
    row_fn first;         // = row * weight
    row_fn max;           // = the larger of itself and row * weight
} row_functions;

#define ROW(name, value, suffix, ...)                                                              \
    [LS_##name] = {add_##suffix, add_weighted_##suffix, first_##suffix, max_##suffix},
static const row_functions functions[LS_DTYPE_COUNT] = {LS_DTYPE_FLOAT_MAP(ROW)};

static const row_functions *functions_of(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_is_float(dtype));
    return &functions[dtype];
}

// The arguments of one bag, so that the loop over its ids has few arguments.
typedef struct {
    const row_functions *rows_do;
    const ls_row_places *places;  // of quantised rows; NULL: they are as rows_do takes them
    const char *table;
    size_t row_bytes;
    int64_t rows;
    size_t dim;
    int64_t padding_id;
    ls_pooling pooling;
    bool wide;                // f64: weights are summed in f64
    const ls_sum_rows *sums;  // where sums have loops of their own, else NULL
} lookup;

// Rows are scattered in the table: prefetches one this many ids ahead, even of a later bag.
enum { PREFETCH = 8, TILE = 512, PADDED = 64 };

static void divide_row(void *row, bool wide, size_t dim, double divisor) {
    for (size_t d = 0; d < dim; d++) {
        if (wide) {
            ((any_f64 *)row)[d] /= divisor;
        } else {
            ((any_f32 *)row)[d] /= (float)divisor;
        }
    }
}

// accumulator op= row * weight, by way of f32 where the row is quantised, some columns at a time.
static void add_row(row_fn op, void *accumulator, const lookup *l, const char *row, double weight) {
    if (l->places == NULL) {
        op(accumulator, row, weight, l->dim);
        return;
    }
    for (size_t first = 0; first < l->dim; first += TILE) {
        float values[TILE];
        size_t count = l->dim - first < TILE ? l->dim - first : TILE;
        ls_kernel__dequantise_columns(values, row, l->places, first, count);
        op((any_f32 *)accumulator + first, values, weight, count);
    }
}

// Sums a bag in which some ids do not count: the others, as many as there is room for at a time.
static void sum_others(void *out, const lookup *l, const int64_t *ids, const float *weights,
                       size_t count) {
    int64_t kept[PADDED];
    float kept_weights[PADDED];
    size_t waiting = 0;
    bool begins = true;
    for (size_t i = 0; i <= count; i++) {
        if (waiting == PADDED || i == count) {
            ls_kernel__sum_rows(out, l->sums, kept, weights != NULL ? kept_weights : NULL, waiting,
                                waiting, begins);
            waiting = 0;
            begins = false;
        }
        if (i < count && ids[i] != l->padding_id) {
            kept_weights[waiting] = weights != NULL ? weights[i] : 1;
            kept[waiting++] = ids[i];
        }
    }
}

// A sum or a mean, by the loops for it.
static void sum_bag(void *out, const lookup *l, const int64_t *ids, const float *weights,
                    size_t count, size_t ahead) {
    size_t counted = 0;
    float weight_sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (l->padding_id == -1 || ids[i] != l->padding_id) {
            LS_ASSERT(ids[i] >= 0 && ids[i] < l->rows);
            weight_sum += weights != NULL ? weights[i] : 1;
            counted++;
        }
    }
    if (counted == count) {
        ls_kernel__sum_rows(out, l->sums, ids, weights, count, ahead, true);
    } else {
        sum_others(out, l, ids, weights, count);
    }
    if (l->pooling == LS_POOL_MEAN && counted > 0) {
        divide_row(out, false, l->dim, weights != NULL ? (double)weight_sum : (double)counted);
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
            add_row(counted == 0 ? l->rows_do->first : l->rows_do->max, out, l, row, weight);
        } else if (weights != NULL) {
            add_row(l->rows_do->add_weighted, out, l, row, weight);
            weight_sum = l->wide ? weight_sum + weight : (double)((float)weight_sum + weights[i]);
        } else {
            add_row(l->rows_do->add, out, l, row, 1.0);
        }
        counted++;
    }
    if (l->pooling == LS_POOL_MEAN && counted > 0) {
        divide_row(out, l->wide, l->dim, weights != NULL ? weight_sum : (double)counted);
    }
}

static void pool_bags(void *out, size_t out_stride, const lookup *l, const ls_bags *bags) {
    const int64_t *offsets = bags->offsets;
    LS_ASSERT(l->pooling == LS_POOL_SUM || l->pooling == LS_POOL_MEAN || l->pooling == LS_POOL_MAX);
    LS_ASSERT(bags->count <= 1 || out_stride >= l->dim);
    LS_ASSERT(offsets != NULL && l->rows >= 0);
    size_t out_bytes = l->wide ? sizeof(double) : sizeof(float);
    if (l->dim == 0) {
        return;
    }
    for (size_t bag = 0; bag < bags->count; bag++) {
        LS_ASSERT(offsets[bag] >= offsets[0] && offsets[bag + 1] >= offsets[bag]);
        size_t first = (size_t)(offsets[bag] - offsets[0]);
        size_t count = (size_t)(offsets[bag + 1] - offsets[bag]);
        void *to = (char *)out + bag * out_stride * out_bytes;
        if (count == 0) {
            memset(to, 0, l->dim * out_bytes);
            continue;
        }
        (l->sums != NULL ? sum_bag : pool_bag)(
            to, l, bags->ids + first, bags->weights == NULL ? NULL : bags->weights + first, count,
            (size_t)(offsets[bags->count] - offsets[0]) - first);
    }
}

void ls_kernel_pooled_lookup(void *out, size_t out_stride, const void *table,
                             const ls_table_shape *shape, const ls_bags *bags) {
    if (shape->dtype == LS_FIELD) {
        ls_field__lookup(out, out_stride, table, shape, bags);
        return;
    }
    const ls_sum_rows sums = {.table = table,
                              .rows = shape->rows,
                              .row_bytes = shape->dim * sizeof(float),
                              .dim = shape->dim};
    const lookup l = {.sums = shape->dtype == LS_F32 && bags->pooling != LS_POOL_MAX ? &sums : NULL,
                      .rows_do = functions_of(shape->dtype),
                      .table = table,
                      .row_bytes = shape->dim * ls_dtype_bytes(shape->dtype),
                      .rows = shape->rows,
                      .dim = shape->dim,
                      .padding_id = bags->padding_id,
                      .pooling = bags->pooling,
                      .wide = shape->dtype == LS_F64};
    pool_bags(out, out_stride, &l, bags);
}

void ls_kernel_quantised_lookup(float *out, size_t out_stride, const void *table,
                                const ls_row_format *format, int64_t rows, size_t dim,
                                const ls_bags *bags) {
    const ls_row_places places = ls_row__places(format, dim);
    const ls_sum_rows sums = {.table = table,
                              .rows = rows,
                              .row_bytes = places.bytes,
                              .dim = dim,
                              .is_int8 = true,
                              .elements = places.codes,
                              .scales = places.scales,
                              .scale_f32 = places.scale_f32};
    bool is_int8 = places.dtype == LS_DTYPE_COUNT && places.bits == 8;
    const lookup l = {.sums = is_int8 && bags->pooling != LS_POOL_MAX ? &sums : NULL,
                      .rows_do = functions_of(LS_F32),
                      .places = &places,
                      .table = table,
                      .row_bytes = places.bytes,
                      .rows = rows,
                      .dim = dim,
                      .padding_id = bags->padding_id,
                      .pooling = bags->pooling};
    pool_bags(out, out_stride, &l, bags);
}
