// From gradients of looked-up rows to gradients per row and of ids' weights.
#include "kernels/cpu/field_rows.h"
#include "kernels/training.h"

#include <math.h>

#include "kernels/cpu/bits.h"

// ---- Grouping -----------------------------------------------------------------------------------
// A radix sort from the last digit on, which is stable; an id and its position are one number.
enum { DIGIT_BITS_MAX = 11 };

static int bits_of(uint64_t largest) {
    return largest == 0 ? 1 : 64 - __builtin_clzll(largest);
}

typedef struct {
    int position_bits;
    int digits;
    int digit_bits;
    size_t count;  // of ids that count
} grouping;

static void pack_ids(grouping *g, any_u64 *restrict packed, const int64_t *ids, size_t count,
                     int64_t table_rows, int64_t padding_id) {
    for (size_t k = 0; k < count; k++) {
        if (padding_id != -1 && ids[k] == padding_id) {
            continue;
        }
        LS_ASSERT(ids[k] >= 0 && ids[k] < table_rows);
        packed[g->count++] = (uint64_t)ids[k] << g->position_bits | k;
    }
}

static void sort_digit(const grouping *g, int digit, any_u64 *restrict out,
                       const any_u64 *restrict in) {
    size_t places[(size_t)1 << DIGIT_BITS_MAX];
    size_t values = (size_t)1 << g->digit_bits;
    memset(places, 0, values * sizeof *places);
    int shift = g->position_bits + digit * g->digit_bits;
    for (size_t k = 0; k < g->count; k++) {
        places[(in[k] >> shift) & (values - 1)]++;
    }
    size_t total = 0;
    for (size_t value = 0; value < values; value++) {
        size_t here = places[value];
        places[value] = total;
        total += here;
    }
    for (size_t k = 0; k < g->count; k++) {
        out[places[(in[k] >> shift) & (values - 1)]++] = in[k];
    }
}

void ls_kernel_group_ids(const ls_row_groups *out, size_t *unique, int64_t *scratch,
                         const int64_t *ids, size_t count, int64_t table_rows, int64_t padding_id) {
    LS_ASSERT(out->starts != NULL && unique != NULL && table_rows >= 0);
    LS_ASSERT(count == 0 ||
              (out->rows != NULL && out->order != NULL && scratch != NULL && ids != NULL));
    int id_bits = bits_of(table_rows > 0 ? (uint64_t)table_rows - 1 : 0);
    grouping g = {.position_bits = bits_of(count), .count = 0};
    LS_ASSERT(id_bits + g.position_bits <= 64);  // more is no machine's memory
    g.digits = (id_bits + DIGIT_BITS_MAX - 1) / DIGIT_BITS_MAX;
    g.digit_bits = (id_bits + g.digits - 1) / g.digits;
    any_u64 *sorted = (any_u64 *)scratch;
    any_u64 *other = sorted + count;
    pack_ids(&g, sorted, ids, count, table_rows, padding_id);
    for (int digit = 0; digit < g.digits; digit++) {
        sort_digit(&g, digit, other, sorted);
        any_u64 *swap = sorted;
        sorted = other;
        other = swap;
    }
    size_t found = 0;
    for (size_t k = 0; k < g.count; k++) {
        int64_t id = (int64_t)(sorted[k] >> g.position_bits);
        out->order[k] = (int64_t)(sorted[k] & (((uint64_t)1 << g.position_bits) - 1));
        if (found == 0 || out->rows[found - 1] != id) {
            out->rows[found] = id;
            out->starts[found++] = (int64_t)k;
        }
    }
    out->starts[found] = (int64_t)g.count;
    *unique = found;
}

// ---- Sums over duplicates -----------------------------------------------------------------------
// out [dim] += four rows, one after the other; or one row.
typedef void (*add_fn)(void *restrict out, const void *const *rows, const float *scales,
                       size_t dim);

#define ADD(name, out_type, in_type, number, load, product)                                        \
    LS_CLONES static void add_four_##name(void *restrict out_, const void *const *rows,            \
                                          const float *scales, size_t dim) {                       \
        out_type *restrict out = out_;                                                             \
        const in_type *restrict a = rows[0];                                                       \
        const in_type *restrict b = rows[1];                                                       \
        const in_type *restrict c = rows[2];                                                       \
        const in_type *restrict d = rows[3];                                                       \
        const float s[4] = {scales[0], scales[1], scales[2], scales[3]};                           \
        (void)s;                                                                                   \
        for (size_t i = 0; i < dim; i++) {                                                         \
            number sum = out[i];                                                                   \
            sum = sum + product((number)load(a[i]), (number)s[0]);                                 \
            sum = sum + product((number)load(b[i]), (number)s[1]);                                 \
            sum = sum + product((number)load(c[i]), (number)s[2]);                                 \
            sum = sum + product((number)load(d[i]), (number)s[3]);                                 \
            out[i] = sum;                                                                          \
        }                                                                                          \
    }                                                                                              \
    LS_CLONES static void add_one_##name(void *restrict out_, const void *const *rows,             \
                                         const float *scales, size_t dim) {                        \
        out_type *restrict out = out_;                                                             \
        const in_type *restrict a = rows[0];                                                       \
        const float s = scales[0];                                                                 \
        (void)s;                                                                                   \
        for (size_t i = 0; i < dim; i++) {                                                         \
            out[i] = out[i] + product((number)load(a[i]), (number)s);                              \
        }                                                                                          \
    }
#define AS_IS(x)        (x)
#define UNSCALED(g, s)  (g)
#define SCALED(g, s)    ((g) * (s))
#define ADDS(name, ...) ADD(name, __VA_ARGS__, UNSCALED) ADD(scaled_##name, __VA_ARGS__, SCALED)
#define ADD_ROW(name)                                                                              \
    {                                                                                              \
        {add_one_##name, add_four_##name}, {                                                       \
            add_one_scaled_##name, add_four_scaled_##name                                          \
        }                                                                                          \
    }
ADDS(f32, any_f32, any_f32, float, AS_IS)
ADDS(f64, any_f64, any_f64, double, AS_IS)
ADDS(f16, any_f32, any_u16, float, f16_decode)
ADDS(bf16, any_f32, any_u16, float, bf16_decode)
static const add_fn adds[LS_DTYPE_COUNT][2][2] = {
    [LS_F32] = ADD_ROW(f32),
    [LS_F64] = ADD_ROW(f64),
    [LS_F16] = ADD_ROW(f16),
    [LS_BF16] = ADD_ROW(bf16),
};

// The gradients of one call, seen from some of their columns on.
typedef struct {
    const char *gradients;
    size_t row_bytes;
    const int64_t *row_of;
    const float *scales;
    const int64_t *order;
    const add_fn *add;  // [2]: one row, four rows
} occurrences;

// sum [dim] += the occurrences from .. to, one after the other.
static void add_run(char *sum, const occurrences *o, int64_t from, int64_t to, size_t dim) {
    while (from < to) {
        int64_t count = to - from >= 4 ? 4 : 1;
        const void *rows[4] = {NULL};
        float factors[4] = {0};
        for (int64_t i = 0; i < count; i++) {
            size_t k = (size_t)o->order[from + i];
            rows[i] = o->gradients + (o->row_of != NULL ? (size_t)o->row_of[k] : k) * o->row_bytes;
            factors[i] = o->scales != NULL ? o->scales[k] : 1;
        }
        o->add[count == 4](sum, rows, factors, dim);
        from += count;
    }
}

// The same for a row of several runs: each is summed separately.
enum { RUN_COLUMNS = 512 };

static void add_runs(char *sum, const occurrences *o, int64_t from, int64_t to, size_t dim,
                     bool wide) {
    double run[RUN_COLUMNS];
    const void *rows[4] = {run};
    const float factors[4] = {1};
    LS_ASSERT(dim <= RUN_COLUMNS);
    for (; from < to; from += LS_GRADIENT_RUN) {
        memset(run, 0, sizeof run);
        add_run((char *)run, o, from, to - from < LS_GRADIENT_RUN ? to : from + LS_GRADIENT_RUN,
                dim);
        adds[wide ? LS_F64 : LS_F32][false][false](sum, rows, factors, dim);
    }
}

void ls_kernel_row_gradients(void *out, size_t dim, const ls_gradients *from, const int64_t *starts,
                             const int64_t *order, size_t unique) {
    if (from->dtype == LS_FIELD) {
        ls_field__row_gradients(out, dim, from, starts, order, unique);
        return;
    }
    LS_ASSERT(ls_dtype_valid((int)from->dtype) && adds[from->dtype][0][0] != NULL);
    LS_ASSERT(unique == 0 || (starts != NULL && order != NULL));
    size_t element = ls_dtype_bytes(from->dtype);
    size_t out_element = from->dtype == LS_F64 ? sizeof(double) : sizeof(float);
    occurrences o = {NULL,         from->stride * element,
                     from->row_of, from->scales,
                     order,        adds[from->dtype][from->scales != NULL]};
    for (size_t u = 0; u < unique && dim > 0; u++) {
        char *sum = (char *)out + u * dim * out_element;
        o.gradients = from->values;
        memset(sum, 0, dim * out_element);
        if (starts[u + 1] - starts[u] <= LS_GRADIENT_RUN) {
            add_run(sum, &o, starts[u], starts[u + 1], dim);
            continue;
        }
        for (size_t c = 0; c < dim; c += RUN_COLUMNS) {
            o.gradients = (const char *)from->values + c * element;
            add_runs(sum + c * out_element, &o, starts[u], starts[u + 1],
                     dim - c < RUN_COLUMNS ? dim - c : RUN_COLUMNS, from->dtype == LS_F64);
        }
    }
}

// ---- Gradients of weights -----------------------------------------------------------------------
// A fold has an order, so that only several folds at once are fast: eight of them.
enum { FOLDS = 8 };

#define FOLD(name, number, gradient_type, in_type, load)                                           \
    static void fold_##name(void *out, const void *const *gradients, const void *const *rows,      \
                            size_t dim) {                                                          \
        number sum[FOLDS] = {0};                                                                   \
        for (size_t c = 0; c < dim; c++) {                                                         \
            for (int f = 0; f < FOLDS; f++) {                                                      \
                number g = ((const gradient_type *)gradients[f])[c];                               \
                sum[f] = sum[f] + g * (number)load(((const in_type *)rows[f])[c]);                 \
            }                                                                                      \
        }                                                                                          \
        memcpy(out, sum, sizeof sum);                                                              \
    }
FOLD(f32, float, any_f32, any_f32, AS_IS)
FOLD(f64, double, any_f64, any_f64, AS_IS)
FOLD(f16, float, any_f32, any_u16, f16_decode)
FOLD(bf16, float, any_f32, any_u16, bf16_decode)

void ls_kernel_weight_gradients(void *out, const void *table, const ls_table_shape *shape,
                                const ls_gradients *from, const int64_t *ids, int64_t padding_id,
                                size_t count) {
    if (shape->dtype == LS_FIELD) {
        ls_field__weight_gradients(out, table, shape->dim, from, ids, padding_id, count);
        return;
    }
    bool wide = shape->dtype == LS_F64;
    LS_ASSERT(wide || shape->dtype == LS_F32 || shape->dtype == LS_F16 || shape->dtype == LS_BF16);
    size_t bytes = wide ? sizeof(double) : sizeof(float);
    size_t row_bytes = shape->dim * ls_dtype_bytes(shape->dtype);
    static void (*const folds[LS_DTYPE_COUNT])(void *, const void *const *, const void *const *,
                                               size_t) = {
        [LS_F32] = fold_f32, [LS_F64] = fold_f64, [LS_F16] = fold_f16, [LS_BF16] = fold_bf16};
    double sums[FOLDS] = {0};
    const void *g[FOLDS];
    const void *w[FOLDS];
    size_t positions[FOLDS];
    int waiting = 0;
    for (size_t k = 0; k < count; k++) {
        memset((char *)out + k * bytes, 0, bytes);
        if (padding_id == -1 || ids[k] != padding_id) {
            LS_ASSERT(ids[k] >= 0 && ids[k] < shape->rows);
            positions[waiting] = k;
            g[waiting] =
                (const char *)from->values +
                (from->row_of != NULL ? (size_t)from->row_of[k] : k) * from->stride * bytes;
            w[waiting++] = (const char *)table + (size_t)ids[k] * row_bytes;
        }
        if (waiting == 0 || (waiting < FOLDS && k + 1 < count)) {
            continue;
        }
        for (int f = waiting; f < FOLDS; f++) {
            g[f] = g[0];
            w[f] = w[0];
        }
        folds[shape->dtype](sums, g, w, shape->dim);
        for (int f = 0; f < waiting; f++) {
            memcpy((char *)out + positions[f] * bytes, (const char *)sums + (size_t)f * bytes,
                   bytes);
        }
        waiting = 0;
    }
}
