// Gradients per row and renormalised rows.
#include "kernels/training.h"

void ls_kernel_group_ids(int64_t *rows, int64_t *starts, int64_t *order, size_t *unique,
                         int64_t *scratch, const int64_t *ids, size_t count, int64_t table_rows,
                         int64_t padding_id) {
    ls_kernel_group_ids_reference(rows, starts, order, unique, scratch, ids, count, table_rows,
                                  padding_id);
}

void ls_kernel_row_gradients(void *out, size_t dim, const void *gradients, size_t stride,
                             ls_dtype dtype, const int64_t *row_of, const float *scales,
                             const int64_t *starts, const int64_t *order, size_t unique) {
    ls_kernel_row_gradients_reference(out, dim, gradients, stride, dtype, row_of, scales, starts,
                                      order, unique);
}

void ls_kernel_weight_gradients(void *out, const void *table, ls_dtype table_dtype, int64_t rows,
                                size_t dim, const void *gradients, size_t stride,
                                const int64_t *row_of, const int64_t *ids, int64_t padding_id,
                                size_t count) {
    ls_kernel_weight_gradients_reference(out, table, table_dtype, rows, dim, gradients, stride,
                                         row_of, ids, padding_id, count);
}

void ls_kernel_norm_sums(double *sums, const void *weights, ls_dtype dtype, int64_t rows,
                         size_t dim, const int64_t *ids, size_t count, double norm_type) {
    ls_kernel_norm_sums_reference(sums, weights, dtype, rows, dim, ids, count, norm_type);
}

void ls_kernel_renormalise_rows(void *weights, ls_dtype dtype, int64_t rows, size_t dim,
                                const int64_t *ids, const double *sums, size_t count,
                                double max_norm, double norm_type, double eps) {
    ls_kernel_renormalise_rows_reference(weights, dtype, rows, dim, ids, sums, count, max_norm,
                                         norm_type, eps);
}

void ls_kernel_update_rows(const ls_optimizer *optimizer, const ls_row_update *update) {
    ls_kernel_update_rows_reference(optimizer, update);
}
