// Sums of rows, the most important lookup: of f32 rows and of rows of 8-bit codes, with weights or
// without. Some columns of a bag are summed in registers over all its rows, so only the result is
// written. Rows are prefetched a few ids ahead, since they are scattered in the table.
#include "kernels/cpu/lookup_sum.h"

#include <math.h>

#include "kernels/cpu/bits.h"

#define LANES      8    // floats of a vector
#define AHEAD_f32  8    // ids whose rows are asked for before they are needed
#define AHEAD_int8 20   // their rows have fewer lines
#define IDS_MAX    512  // of a bag at a time: the pages of its rows stay in the TLB

// Compiled a second time for AVX2, FMA and F16C, selected by instruction set, not by the
// processor's name. Written by hand, since target_clones splits vectors before it clones.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define V3 __attribute__((target("avx2,fma,f16c")))
#include <immintrin.h>
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef float any_vector __attribute__((vector_size(LANES * sizeof(float)), may_alias, aligned(1)));

// The lines of a row's bytes from `at` on, and that of its scale.
static inline void ask_for(const ls_sum_rows *rows, int64_t id, size_t at, size_t bytes,
                           bool scaled) {
    if ((uint64_t)id >= (uint64_t)rows->rows) {
        return;  // of a later bag: padding, or wrong, which is reported when its turn comes
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

static inline void scale_of_row(float *scale, float *bias, const ls_sum_rows *rows,
                                const char *row) {
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

// How a loop takes a row: its scale and bias, and eight of its values.
#define PREPARE_f32
#define LOAD_f32(j) value = ((const any_vector *)(const void *)(row + at))[j]
#define PREPARE_int8                                                                               \
    float scale, bias;                                                                             \
    scale_of_row(&scale, &bias, rows, row);
#define LOAD_int8(j)                                                                               \
    for (size_t c = 0; c < LANES; c++) {                                                           \
        value[c] = fmaf((float)((const any_u8 *)row)[at + (j)*LANES + c], scale, bias);            \
    }
#ifdef V3
// The same by instructions, of which the compiler finds longer ways.
#define PREPARE_f32_v3
#define LOAD_f32_v3 LOAD_f32
#define PREPARE_int8_v3                                                                            \
    __m256 scale, bias;                                                                            \
    scale_of_row_v3(&scale, &bias, rows, row);
#define LOAD_int8_v3(j)                                                                            \
    value = (vector)_mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(       \
                                        (const __m128i *)(const void *)(row + at + (j)*LANES)))),  \
                                    scale, bias)
V3 static inline void scale_of_row_v3(__m256 *scale, __m256 *bias, const ls_sum_rows *rows,
                                      const char *row) {
    const char *at = row + rows->scales;
    if (rows->scale_f32) {
        *scale = _mm256_set1_ps(((const any_f32 *)(const void *)at)[0]);
        *bias = _mm256_set1_ps(((const any_f32 *)(const void *)at)[1]);
    } else {
        *scale = _mm256_set1_ps(_cvtsh_ss(((const any_u16 *)(const void *)at)[0]));
        *bias = _mm256_set1_ps(_cvtsh_ss(((const any_u16 *)(const void *)at)[1]));
    }
}
#endif

#define SUM(kind, way, target, bytes, n, how, product)                                             \
    target static void how##_##kind##way##_##n(const ls_sum_rows *rows, const piece *p) {          \
        vector sum[n];                                                                             \
        const size_t at = rows->elements + p->first * (bytes);                                     \
        for (size_t j = 0; j < n; j++) {                                                           \
            sum[j] = ((const any_vector *)(const void *)p->out)[j];                                \
        }                                                                                          \
        for (size_t i = 0; i < p->count; i++) {                                                    \
            if (i + AHEAD_##kind < p->ahead) {                                                     \
                ask_for(rows, p->ids[i + AHEAD_##kind], at, n *LANES *(bytes), (bytes) == 1);      \
            }                                                                                      \
            const char *row = rows->table + (size_t)p->ids[i] * rows->row_bytes;                   \
            PREPARE_##kind##way for (size_t j = 0; j < n; j++) {                                   \
                vector value;                                                                      \
                LOAD_##kind##way(j);                                                               \
                sum[j] += value product;                                                           \
            }                                                                                      \
        }                                                                                          \
        for (size_t j = 0; j < n; j++) {                                                           \
            ((any_vector *)(void *)p->out)[j] = sum[j];                                            \
        }                                                                                          \
    }
#define UNWEIGHTED
#define WEIGHTED *p->weights[i]
#define SUMS_HOW(kind, way, target, bytes, how, product)                                           \
    SUM(kind, way, target, bytes, 8, how, product)                                                 \
    SUM(kind, way, target, bytes, 4, how, product)                                                 \
    SUM(kind, way, target, bytes, 2, how, product)                                                 \
    SUM(kind, way, target, bytes, 1, how, product)
#define SUMS(way, target)                                                                          \
    SUMS_HOW(f32, way, target, 4, plain, UNWEIGHTED)                                               \
    SUMS_HOW(f32, way, target, 4, weighted, WEIGHTED)                                              \
    SUMS_HOW(int8, way, target, 1, plain, UNWEIGHTED)                                              \
    SUMS_HOW(int8, way, target, 1, weighted, WEIGHTED)

typedef void (*sum_fn)(const ls_sum_rows *rows, const piece *p);
#define WIDTHS(name)                                                                               \
    { name##_8, name##_4, name##_2, name##_1 }
#define WAYS(way)                                                                                  \
    {                                                                                              \
        {WIDTHS(plain_f32##way), WIDTHS(weighted_f32##way)}, {                                     \
            WIDTHS(plain_int8##way), WIDTHS(weighted_int8##way)                                    \
        }                                                                                          \
    }
typedef const sum_fn sum_ways[2][2][4];  // [int8][weighted], by width
SUMS(, )
static sum_ways sums = WAYS();
#ifdef V3
SUMS(_v3, V3)
static sum_ways sums_v3 = WAYS(_v3);
#endif

static const sum_fn *widths_of(const ls_sum_rows *rows, bool weighted) {
#ifdef V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c")) {
        return sums_v3[rows->is_int8][weighted];
    }
#endif
    return sums[rows->is_int8][weighted];
}

// The columns that fill no vector.
static void sum_rest(const ls_sum_rows *rows, const piece *p, size_t columns) {
    for (size_t i = 0; i < p->count; i++) {
        const char *row = rows->table + (size_t)p->ids[i] * rows->row_bytes;
        const char *at = row + rows->elements;
        float scale = 0, bias = 0;
        if (rows->is_int8) {
            scale_of_row(&scale, &bias, rows, row);
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
    const sum_fn *widths = widths_of(rows, weights != NULL);
    size_t done = 0;
    if (begins) {
        memset(out, 0, rows->dim * sizeof *out);
    }
    do {
        piece p = {.ids = ids + done,
                   .weights = weights != NULL ? weights + done : NULL,
                   .count = count - done < IDS_MAX ? count - done : IDS_MAX,
                   .ahead = ahead - done};
        for (size_t w = 0; w < sizeof sums[0][0] / sizeof sums[0][0][0]; w++) {
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
