// Norms of rows, and rows scaled to a maximal one.
#include <math.h>

#include "kernels/cpu/bits.h"
#include "kernels/training.h"

// The sum of a row [dim], in f64 and eight partial sums; infinity: its largest magnitude, where NaN
// wins.
#define SUM_ROW(name, in_type, load)                                                               \
    LS_CLONES static double squares_##name(const void *row, size_t dim) {                          \
        const in_type *in = row;                                                                   \
        double part[8] = {0};                                                                      \
        for (size_t block = 0; block + 8 <= dim; block += 8) {                                     \
            for (size_t lane = 0; lane < 8; lane++) {                                              \
                double x = (double)load(in[block + lane]);                                         \
                part[lane] = part[lane] + x * x;                                                   \
            }                                                                                      \
        }                                                                                          \
        for (size_t c = dim / 8 * 8; c < dim; c++) {                                               \
            double x = (double)load(in[c]);                                                        \
            part[c % 8] = part[c % 8] + x * x;                                                     \
        }                                                                                          \
        return ((part[0] + part[1]) + (part[2] + part[3])) +                                       \
               ((part[4] + part[5]) + (part[6] + part[7]));                                        \
    }                                                                                              \
    static double powers_##name(const void *row, size_t dim, double norm_type) {                   \
        const in_type *in = row;                                                                   \
        double part[8] = {0};                                                                      \
        double largest = 0;                                                                        \
        for (size_t c = 0; c < dim; c++) {                                                         \
            double x = fabs((double)load(in[c]));                                                  \
            largest = x > largest || isnan(x) ? x : largest;                                       \
            if (!isinf(norm_type)) {                                                               \
                part[c % 8] += norm_type == 1 ? x : pow(x, norm_type);                             \
            }                                                                                      \
        }                                                                                          \
        double sum = ((part[0] + part[1]) + (part[2] + part[3])) +                                 \
                     ((part[4] + part[5]) + (part[6] + part[7]));                                  \
        return isinf(norm_type) ? largest : sum;                                                   \
    }
#define AS_IS(x) (x)
#define SCALE_ROW(name, in_type, number, load, store)                                              \
    LS_CLONES static void scale_##name(void *row, size_t dim, double factor) {                     \
        in_type *out = row;                                                                        \
        number by = (number)factor;                                                                \
        for (size_t c = 0; c < dim; c++) {                                                         \
            out[c] = store((number)load(out[c]) * by);                                             \
        }                                                                                          \
    }
#define BOTH(name, in_type, number, load, store)                                                   \
    SUM_ROW(name, in_type, load)                                                                   \
    SCALE_ROW(name, in_type, number, load, store)
BOTH(f32, any_f32, float, AS_IS, AS_IS)
BOTH(f64, any_f64, double, AS_IS, AS_IS)
BOTH(f16, any_u16, float, f16_decode, f16_encode)
BOTH(bf16, any_u16, float, bf16_decode, bf16_encode)

typedef struct {
    double (*squares)(const void *row, size_t dim);
    double (*powers)(const void *row, size_t dim, double norm_type);
    void (*scale)(void *row, size_t dim, double factor);
} row_functions;

#define ROW(name)                                                                                  \
    { squares_##name, powers_##name, scale_##name }
static const row_functions functions[LS_DTYPE_COUNT] = {
    [LS_F32] = ROW(f32), [LS_F64] = ROW(f64), [LS_F16] = ROW(f16), [LS_BF16] = ROW(bf16)};

static double sum_row(ls_dtype dtype, const void *row, size_t dim, double norm_type) {
    return norm_type == 2 ? functions[dtype].squares(row, dim)
                          : functions[dtype].powers(row, dim, norm_type);
}

void ls_kernel_norm_sums(double *sums, const void *weights, const ls_table_shape *shape,
                         const int64_t *ids, size_t count, double norm_type) {
    LS_ASSERT(ls_dtype_valid((int)shape->dtype) && functions[shape->dtype].squares != NULL &&
              norm_type > 0);
    size_t row_bytes = shape->dim * ls_dtype_bytes(shape->dtype);
    for (size_t i = 0; i < count; i++) {
        LS_ASSERT(ids[i] >= 0 && ids[i] < shape->rows);
        sums[i] = sum_row(shape->dtype, (const char *)weights + (size_t)ids[i] * row_bytes,
                          shape->dim, norm_type);
    }
}

void ls_kernel_renormalise_rows(void *weights, const ls_table_shape *shape, const int64_t *ids,
                                const double *sums, size_t count, const ls_norm_limit *limit) {
    LS_ASSERT(ls_dtype_valid((int)shape->dtype) && functions[shape->dtype].squares != NULL &&
              limit->norm_type > 0);
    size_t row_bytes = shape->dim * ls_dtype_bytes(shape->dtype);
    for (size_t i = 0; i < count; i++) {
        LS_ASSERT(ids[i] >= 0 && ids[i] < shape->rows);
        char *row = (char *)weights + (size_t)ids[i] * row_bytes;
        double norm =
            sums != NULL ? sums[i] : sum_row(shape->dtype, row, shape->dim, limit->norm_type);
        if (limit->norm_type == 2) {
            norm = sqrt(norm);
        } else if (limit->norm_type != 1 && !isinf(limit->norm_type)) {
            norm = pow(norm, 1 / limit->norm_type);
        }
        norm = shape->dtype == LS_F64 ? norm : (double)(float)norm;
        if (norm > limit->max_norm) {
            double factor = limit->max_norm / (norm + limit->eps);
            functions[shape->dtype].scale(row, shape->dim, factor);
        }
    }
}
