// Rows and their updates over the field. Private to the kernels, which choose these by the type.
#pragma once

#include "kernels/training.h"

// As kernels.h and training.h describe ls_kernel_pooled_lookup (sum and mean),
// ls_kernel_divide_bags, ls_kernel_row_gradients, ls_kernel_weight_gradients and
// ls_kernel_update_rows.
void ls_field__lookup(void *out, size_t out_stride, const void *table, const ls_table_shape *shape,
                      const ls_bags *bags);
void ls_field__divide_bags(void *out, size_t out_stride, size_t dim, const ls_bags *bags,
                           double added);
void ls_field__row_gradients(void *out, size_t dim, const ls_gradients *from, const int64_t *starts,
                             const int64_t *order, size_t unique);
void ls_field__weight_gradients(void *out, const void *table, size_t dim, const ls_gradients *from,
                                const int64_t *ids, int64_t padding_id, size_t count);
void ls_field__update_rows(const ls_optimizer *optimizer, const ls_row_update *update);
