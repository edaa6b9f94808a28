// Sums of rows, the lookup that matters most: of f32 rows and of rows of 8-bit codes, with weights
// or without. Some columns of a bag are summed in registers over all its rows, so that nothing but
// the result is written, and rows are asked for a few ids ahead: they lie all over the table.
#include "kernels/cpu/lookup_sum.h"

#include <math.h>

#include "kernels/cpu/bits.h"

#define LANES       8    // floats of a vector
#define LINES_AHEAD 32   // cache lines asked for before they are needed
#define IDS_MAX     512  // of a bag at a time: what its rows lie in stays in the cache of addresses

// As LS_FMA_CLONES, by instruction sets and not by a processor's name: AVX2 and FMA together.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) ||       \
    !defined(__gnu_linux__) || defined(__clang__)
#define CLONES
#else
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef float any_vector __attribute__((vector_size(LANES * sizeof(float)), may_alias, aligned(1)));

// The lines of a row's bytes from `at` on, and that of its scale.
static inline void ask_for(const ls_sum_rows *rows, int64_t id, size_t at, size_t bytes,
                           bool scaled) {
    if ((uint64_t)id >= (uint64_t)rows->rows) {
        return;  // of a later bag: padding, or wrong, which is told when its turn comes
    }
    const char *row = rows->table + (size_t)id * rows->row_bytes;
    for (size_t byte = 0; byte < bytes; byte += 64) {
        __builtin_prefetch(row + at + byte);
    }
    if (scaled) {
        __builtin_prefetch(row + at + bytes - 1);  // codes begin anywhere in a line
        __builtin_prefetch(row + rows->scales);
    }
}

static inline void scale_f32(float *scale, float *bias, const ls_sum_rows *rows, const char *row) {
    (void)rows, (void)row;
    *scale = *bias = 0;
}

static inline void scale_int8(float *scale, float *bias, const ls_sum_rows *rows, const char *row) {
    const char *at = row + rows->scales;
    if (rows->scale_f32) {
        *scale = ((const any_f32 *)(const void *)at)[0];
        *bias = ((const any_f32 *)(const void *)at)[1];
    } else {
        *scale = f16_decode(((const any_u16 *)(const void *)at)[0]);
        *bias = f16_decode(((const any_u16 *)(const void *)at)[1]);
    }
}

// out [columns] += the rows of ids [count], column `first` on; ids of the call's other bags follow
// up to `ahead`.  Every column is a left fold, be it in a register.
typedef struct {
    any_f32 *out;
    const int64_t *ids;
    const float *weights;
    size_t count, ahead, first;
} piece;

// Values of a row as f32 [n vectors], from where they stand in it.
#define VALUES_f32(n)                                                                              \
    const any_vector *value = (const any_vector *)(const void *)(row + at);                        \
    (void)scale, (void)bias
#define VALUES_int8(n)                                                                             \
    vector value[n];                                                                               \
    float *number = (float *)value;                                                                \
    for (size_t c = 0; c < n * LANES; c++) {                                                       \
        number[c] = fmaf((float)((const any_u8 *)row)[at + c], scale, bias);                       \
    }

#define SUM(kind, bytes, n, how, product)                                                          \
    CLONES static void how##_##kind##_##n(const ls_sum_rows *rows, const piece *p) {               \
        vector sum[n];                                                                             \
        const size_t at = rows->elements + p->first * (bytes);                                     \
        const size_t lines = (n * LANES * (bytes) + 63) / 64 + 2 * ((bytes) == 1);                 \
        for (size_t j = 0; j < n; j++) {                                                           \
            sum[j] = ((const any_vector *)(const void *)p->out)[j];                                \
        }                                                                                          \
        for (size_t i = 0; i < p->count; i++) {                                                    \
            if (i + LINES_AHEAD / lines < p->ahead) {                                              \
                ask_for(rows, p->ids[i + LINES_AHEAD / lines], at, n *LANES *(bytes),              \
                        (bytes) == 1);                                                             \
            }                                                                                      \
            const char *row = rows->table + (size_t)p->ids[i] * rows->row_bytes;                   \
            float scale, bias;                                                                     \
            scale_##kind(&scale, &bias, rows, row);                                                \
            VALUES_##kind(n);                                                                      \
            for (size_t j = 0; j < n; j++) {                                                       \
                sum[j] += value[j] product;                                                        \
            }                                                                                      \
        }                                                                                          \
        for (size_t j = 0; j < n; j++) {                                                           \
            ((any_vector *)(void *)p->out)[j] = sum[j];                                            \
        }                                                                                          \
    }
#define UNWEIGHTED
#define WEIGHTED *p->weights[i]
#define SUMS(kind, bytes)                                                                          \
    SUM(kind, bytes, 8, plain, UNWEIGHTED)                                                         \
    SUM(kind, bytes, 4, plain, UNWEIGHTED)                                                         \
    SUM(kind, bytes, 2, plain, UNWEIGHTED)                                                         \
    SUM(kind, bytes, 1, plain, UNWEIGHTED)                                                         \
    SUM(kind, bytes, 8, weighted, WEIGHTED)                                                        \
    SUM(kind, bytes, 4, weighted, WEIGHTED)                                                        \
    SUM(kind, bytes, 2, weighted, WEIGHTED)                                                        \
    SUM(kind, bytes, 1, weighted, WEIGHTED)
SUMS(f32, 4)
SUMS(int8, 1)

typedef void (*sum_fn)(const ls_sum_rows *rows, const piece *p);
#define WIDTHS(name)                                                                               \
    { name##_8, name##_4, name##_2, name##_1 }
static const sum_fn sums[2][2][4] = {{WIDTHS(plain_f32), WIDTHS(weighted_f32)},
                                     {WIDTHS(plain_int8), WIDTHS(weighted_int8)}};

// The columns that fill no vector.
static void sum_rest(const ls_sum_rows *rows, const piece *p, size_t columns) {
    for (size_t i = 0; i < p->count; i++) {
        const char *row = rows->table + (size_t)p->ids[i] * rows->row_bytes;
        const char *at = row + rows->elements;
        float scale = 0, bias = 0;
        if (rows->is_int8) {
            scale_int8(&scale, &bias, rows, row);
        }
        for (size_t c = 0; c < columns; c++) {
            float value = rows->is_int8
                              ? fmaf((float)((const any_u8 *)at)[p->first + c], scale, bias)
                              : ((const any_f32 *)(const void *)at)[p->first + c];
            p->out[c] = p->out[c] + (p->weights != NULL ? value * p->weights[i] : value);
        }
    }
}

void ls_kernel__sum_rows(any_f32 *out, const ls_sum_rows *rows, const int64_t *ids,
                         const float *weights, size_t count, size_t ahead, bool begins) {
    const sum_fn *widths = sums[rows->is_int8][weights != NULL];
    size_t done = 0;
    if (begins) {
        memset(out, 0, rows->dim * sizeof *out);
    }
    do {
        piece p = {.ids = ids + done,
                   .weights = weights != NULL ? weights + done : NULL,
                   .count = count - done < IDS_MAX ? count - done : IDS_MAX,
                   .ahead = ahead - done};
        for (size_t w = 0; w < sizeof sums[0][0] / sizeof(sum_fn); w++) {
            size_t columns = ((size_t)LANES * 8) >> w;
            for (; rows->dim - p.first >= columns; p.first += columns) {
                p.out = out + p.first;
                widths[w](rows, &p);
            }
        }
        if (p.first < rows->dim) {
            p.out = out + p.first;
            sum_rest(rows, &p, rows->dim - p.first);
        }
        done += p.count;
    } while (done < count);
}
