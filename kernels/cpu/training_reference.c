// The kernels of training but the optimizers, plain references: one element at a time.
#include <math.h>

#include "kernels/cpu/reference.h"
#include "kernels/training.h"

static double rounded(bool wide, double x) {
    return wide ? x : (double)(float)x;
}

static double load(const void *in, ls_dtype dtype, size_t index) {
    return (double)ls_kernel__reference_load(in, dtype, index);
}

static void store(void *out, bool wide, size_t index, double value) {
    ls_kernel__reference_store(out, wide ? LS_F64 : LS_F32, index, (long double)value);
}

void ls_kernel_group_ids_reference(const ls_row_groups *out, size_t *unique, int64_t *scratch,
                                   const int64_t *ids, size_t count, int64_t table_rows,
                                   int64_t padding_id) {
    (void)scratch;
    *unique = 0;
    int64_t ordered = 0;
    int64_t last = -1;
    out->starts[0] = 0;
    for (;;) {
        int64_t next = table_rows;  // the smallest id above the last
        for (size_t k = 0; k < count; k++) {
            bool counts = padding_id == -1 || ids[k] != padding_id;
            next = counts && ids[k] > last && ids[k] < next ? ids[k] : next;
        }
        if (next == table_rows) {
            return;
        }
        for (size_t k = 0; k < count; k++) {
            if (ids[k] == next) {
                out->order[ordered++] = (int64_t)k;
            }
        }
        out->rows[*unique] = next;
        out->starts[++*unique] = ordered;
        last = next;
    }
}

void ls_kernel_row_gradients_reference(void *out, size_t dim, const ls_gradients *from,
                                       const int64_t *starts, const int64_t *order, size_t unique) {
    bool wide = from->dtype == LS_F64;
    for (size_t u = 0; u < unique; u++) {
        for (size_t c = 0; c < dim; c++) {
            double sum = 0;
            double run = 0;
            for (int64_t at = starts[u]; at < starts[u + 1]; at++) {
                size_t k = (size_t)order[at];
                size_t row = from->row_of != NULL ? (size_t)from->row_of[k] : k;
                double g = load(from->values, from->dtype, row * from->stride + c);
                g = from->scales != NULL ? rounded(wide, g * (double)from->scales[k]) : g;
                run = rounded(wide, run + g);
                if ((at - starts[u]) % LS_GRADIENT_RUN == LS_GRADIENT_RUN - 1) {
                    sum = rounded(wide, sum + run);
                    run = 0;
                }
            }
            store(out, wide, u * dim + c, rounded(wide, sum + run));
        }
    }
}

void ls_kernel_weight_gradients_reference(void *out, const void *table, const ls_table_shape *shape,
                                          const ls_gradients *from, const int64_t *ids,
                                          int64_t padding_id, size_t count) {
    bool wide = shape->dtype == LS_F64;
    for (size_t k = 0; k < count; k++) {
        double sum = 0;
        bool counts = padding_id == -1 || ids[k] != padding_id;
        for (size_t c = 0; counts && c < shape->dim; c++) {
            size_t row = from->row_of != NULL ? (size_t)from->row_of[k] : k;
            double g = load(from->values, wide ? LS_F64 : LS_F32, row * from->stride + c);
            double w = load(table, shape->dtype, (size_t)ids[k] * shape->dim + c);
            sum = rounded(wide, sum + rounded(wide, g * w));
        }
        store(out, wide, k, sum);
    }
}

void ls_kernel_norm_sums_reference(double *sums, const void *weights, const ls_table_shape *shape,
                                   const int64_t *ids, size_t count, double norm_type) {
    for (size_t i = 0; i < count; i++) {
        double part[8] = {0};
        double largest = 0;
        for (size_t c = 0; c < shape->dim; c++) {
            double x = fabs(load(weights, shape->dtype, (size_t)ids[i] * shape->dim + c));
            largest = x > largest || isnan(x) ? x : largest;
            if (norm_type == 2) {
                part[c % 8] += x * x;
            } else {
                part[c % 8] += norm_type == 1 ? x : pow(x, norm_type);
            }
        }
        double sum = ((part[0] + part[1]) + (part[2] + part[3])) +
                     ((part[4] + part[5]) + (part[6] + part[7]));
        sums[i] = isinf(norm_type) ? largest : sum;
    }
}

void ls_kernel_renormalise_rows_reference(void *weights, const ls_table_shape *shape,
                                          const int64_t *ids, const double *sums, size_t count,
                                          const ls_norm_limit *limit) {
    bool wide = shape->dtype == LS_F64;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        ls_kernel_norm_sums_reference(&sum, weights, shape, ids + i, 1, limit->norm_type);
        sum = sums != NULL ? sums[i] : sum;
        double root;
        if (limit->norm_type == 2) {
            root = sqrt(sum);
        } else {
            root = limit->norm_type == 1 || isinf(limit->norm_type)
                       ? sum
                       : pow(sum, 1 / limit->norm_type);
        }
        double norm = rounded(wide, root);
        double factor = rounded(wide, limit->max_norm / (norm + limit->eps));
        for (size_t c = 0; norm > limit->max_norm && c < shape->dim; c++) {
            size_t at = (size_t)ids[i] * shape->dim + c;
            double product = rounded(wide, load(weights, shape->dtype, at) * factor);
            ls_kernel__reference_store(weights, shape->dtype, at, (long double)product);
        }
    }
}
