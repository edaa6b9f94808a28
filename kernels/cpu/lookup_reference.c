// Pooled lookup, the plain reference: one output element at a time.
#include <math.h>

#include "kernels/cpu/quantise.h"
#include "kernels/cpu/reference.h"
#include "kernels/kernels.h"

// A table of plain elements, or of quantised rows.
typedef struct {
    const void *rows;
    size_t dim;
    ls_dtype dtype;               // f32 where the rows are quantised
    const ls_row_format *format;  // NULL: they are not
    size_t row_bytes;             // of a quantised row
} table_;

static double load(const table_ *t, int64_t id, size_t d) {
    if (t->format == NULL) {
        return (double)ls_kernel__reference_load(t->rows, t->dtype, (size_t)id * t->dim + d);
    }
    const char *row = (const char *)t->rows + (size_t)id * t->row_bytes;
    return (double)ls_kernel__reference_dequantise(row, t->format, t->dim, d);
}

// A maximum so far.
typedef struct {
    bool found;
    double value;
} maximum;

static void maximum_offer(maximum *best, double value) {
    bool better = !best->found || (isnan(best->value) && !isnan(value)) || value > best->value ||
                  (value == 0 && best->value == 0 && signbit(best->value) && !signbit(value));
    if (better) {
        *best = (maximum){true, value};
    }
}

static bool is_padding(int64_t id, int64_t padding_id) {
    return padding_id != -1 && id == padding_id;
}

// Element d of one bag, every step rounded to float unless the table is f64.
static double pool_element(const table_ *table, size_t d, const ls_bags *bags, size_t bag) {
    size_t first = (size_t)(bags->offsets[bag] - bags->offsets[0]);
    size_t count = (size_t)(bags->offsets[bag + 1] - bags->offsets[bag]);
    const int64_t *ids = bags->ids + first;
    const float *weights = bags->weights == NULL ? NULL : bags->weights + first;
    bool narrow = table->dtype != LS_F64;
    double sum = 0;
    double weight_sum = 0;
    maximum best = {false, 0};
    for (size_t i = 0; i < count; i++) {
        if (is_padding(ids[i], bags->padding_id)) {
            continue;
        }
        double value = load(table, ids[i], d);
        double weight = weights == NULL ? 1.0 : (double)weights[i];
        double product = narrow ? (double)((float)value * (float)weight) : value * weight;
        sum = narrow ? (double)((float)sum + (float)product) : sum + product;
        weight_sum = narrow ? (double)((float)weight_sum + (float)weight) : weight_sum + weight;
        maximum_offer(&best, product);
    }
    if (!best.found) {
        return 0;  // no id counted
    }
    if (bags->pooling == LS_POOL_MAX) {
        return best.value;
    }
    if (bags->pooling == LS_POOL_MEAN) {
        return narrow ? (double)((float)sum / (float)weight_sum) : sum / weight_sum;
    }
    return sum;
}

static void pool_bags(void *out, size_t out_stride, const table_ *table, const ls_bags *bags) {
    for (size_t bag = 0; bag < bags->count; bag++) {
        for (size_t d = 0; d < table->dim; d++) {
            double value = pool_element(table, d, bags, bag);
            if (table->dtype == LS_F64) {
                ((double *)out)[bag * out_stride + d] = value;
            } else {
                ((float *)out)[bag * out_stride + d] = (float)value;
            }
        }
    }
}

void ls_kernel_pooled_lookup_reference(void *out, size_t out_stride, const void *table,
                                       const ls_table_shape *shape, const ls_bags *bags) {
    const table_ plain = {table, shape->dim, shape->dtype, NULL, 0};
    pool_bags(out, out_stride, &plain, bags);
}

void ls_kernel_quantised_lookup_reference(float *out, size_t out_stride, const void *table,
                                          const ls_row_format *format, int64_t rows, size_t dim,
                                          const ls_bags *bags) {
    (void)rows;
    table_ quantised = {table, dim, LS_F32, format, 0};
    int status = ls_row_format_bytes(&quantised.row_bytes, format, dim);
    LS_ASSERT(status == LS_OK);
    (void)status;
    pool_bags(out, out_stride, &quantised, bags);
}
