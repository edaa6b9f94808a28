// Lookups and gradients over the field, by plain loops: no order of a sum matters.
#include "kernels/field.h"
#include "kernels/cpu/field_rows.h"
#include "kernels/cpu/bits.h"

static uint32_t at(const void *numbers, size_t index) {
    return ((const any_u32 *)numbers)[index];
}

// The sum of a bag's weights or, without weights, its number of ids; *counted: the ids that count.
static uint32_t divisor_of(size_t *counted, const int64_t *ids, size_t count, const float *weights,
                           int64_t padding_id) {
    uint32_t sum = 0;
    *counted = 0;
    for (size_t i = 0; i < count; i++) {
        if (padding_id == -1 || ids[i] != padding_id) {
            sum = ls_field_plus(sum, weights != NULL ? at(weights, i) : 1);
            *counted += 1;
        }
    }
    return sum;
}

void ls_field__lookup(void *out, size_t out_stride, const void *table, const ls_table_shape *shape,
                      const ls_bags *bags) {
    LS_ASSERT(bags->pooling == LS_POOL_SUM || bags->pooling == LS_POOL_MEAN);
    for (size_t b = 0; b < bags->count; b++) {
        any_u32 *to = (any_u32 *)out + b * out_stride;
        size_t first = (size_t)(bags->offsets[b] - bags->offsets[0]);
        size_t length = (size_t)(bags->offsets[b + 1] - bags->offsets[b]), counted;
        const int64_t *ids = bags->ids + first;
        const float *weights = bags->weights != NULL ? bags->weights + first : NULL;
        for (size_t c = 0; c < shape->dim; c++) {
            to[c] = 0;
        }
        for (size_t i = 0; i < length; i++) {
            if (bags->padding_id != -1 && ids[i] == bags->padding_id) {
                continue;
            }
            LS_ASSERT(ids[i] >= 0 && ids[i] < shape->rows);
            uint32_t weight = weights != NULL ? at(weights, i) : 1;
            for (size_t c = 0; c < shape->dim; c++) {
                uint32_t cell = at(table, (size_t)ids[i] * shape->dim + c);
                to[c] = ls_field_plus(to[c], ls_field_times(weight, cell));
            }
        }
        uint32_t divisor = divisor_of(&counted, ids, length, weights, bags->padding_id);
        for (size_t c = 0; c < shape->dim && bags->pooling == LS_POOL_MEAN && counted > 0; c++) {
            to[c] = ls_field_over(to[c], divisor);
        }
    }
}

void ls_field__divide_bags(void *out, size_t out_stride, size_t dim, const ls_bags *bags,
                           double added) {
    for (size_t b = 0; b < bags->count; b++) {
        size_t first = (size_t)(bags->offsets[b] - bags->offsets[0]), counted;
        uint32_t divisor = divisor_of(
            &counted, bags->ids + first, (size_t)(bags->offsets[b + 1] - bags->offsets[b]),
            bags->weights != NULL ? bags->weights + first : NULL, bags->padding_id);
        divisor = ls_field_plus(divisor, ls_field_of(added));
        for (size_t c = 0; c < dim && counted > 0; c++) {
            any_u32 *to = (any_u32 *)out + b * out_stride + c;
            *to = ls_field_over(*to, divisor);
        }
    }
}

void ls_field__row_gradients(void *out, size_t dim, const ls_gradients *from, const int64_t *starts,
                             const int64_t *order, size_t unique) {
    for (size_t u = 0; u < unique; u++) {
        for (size_t c = 0; c < dim; c++) {
            uint32_t sum = 0;
            for (int64_t k = starts[u]; k < starts[u + 1]; k++) {
                size_t place = (size_t)order[k];
                size_t row = from->row_of != NULL ? (size_t)from->row_of[place] : place;
                uint32_t scale = from->scales != NULL ? at(from->scales, place) : 1;
                sum = ls_field_plus(
                    sum, ls_field_times(at(from->values, row * from->stride + c), scale));
            }
            ((any_u32 *)out)[u * dim + c] = sum;
        }
    }
}

void ls_field__weight_gradients(void *out, const void *table, size_t dim, const ls_gradients *from,
                                const int64_t *ids, int64_t padding_id, size_t count) {
    for (size_t k = 0; k < count; k++) {
        size_t row = from->row_of != NULL ? (size_t)from->row_of[k] : k;
        uint32_t sum = 0;
        for (size_t c = 0; c < dim && (padding_id == -1 || ids[k] != padding_id); c++) {
            sum = ls_field_plus(sum, ls_field_times(at(from->values, row * from->stride + c),
                                                    at(table, (size_t)ids[k] * dim + c)));
        }
        ((any_u32 *)out)[k] = sum;
    }
}
