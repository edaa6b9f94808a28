// Pooled lookup, backward: what each id of each bag adds to its row's gradient.
#include <math.h>

#include "kernels/kernels.h"

// One bag of a lookup and the gradient of its output row.
typedef struct {
    float *gradient;        // [rows, dim]
    size_t dim;             //
    int64_t rows;           //
    const float *grad_out;  // [dim]
    const float *table;     // [rows, dim], for max
    const int64_t *ids;     // [count]
    const float *weights;   // [count] or NULL
    int64_t padding_id;     //
    size_t count;           //
} bag_gradient;

static bool counts(const bag_gradient *bag, size_t i) {
    if (bag->padding_id != -1 && bag->ids[i] == bag->padding_id) {
        return false;
    }
    LS_ASSERT(bag->ids[i] >= 0 && bag->ids[i] < bag->rows);
    return true;
}

static void add_sum(const bag_gradient *bag, ls_pooling pooling) {
    float weight_sum = 0;
    size_t counted = 0;
    for (size_t i = 0; pooling == LS_POOL_MEAN && i < bag->count; i++) {
        if (counts(bag, i)) {
            weight_sum += bag->weights != NULL ? bag->weights[i] : 0.0f;
            counted++;
        }
    }
    float divisor = bag->weights != NULL ? weight_sum : (float)counted;
    for (size_t i = 0; i < bag->count; i++) {
        if (!counts(bag, i)) {
            continue;
        }
        float *restrict row = bag->gradient + (size_t)bag->ids[i] * bag->dim;
        const float *restrict grad_out = bag->grad_out;
        float weight = bag->weights != NULL ? bag->weights[i] : 1.0f;
        if (pooling == LS_POOL_MEAN) {
            for (size_t d = 0; d < bag->dim; d++) {
                row[d] += grad_out[d] * weight / divisor;
            }
        } else {
            for (size_t d = 0; d < bag->dim; d++) {
                row[d] += grad_out[d] * weight;
            }
        }
    }
}

// Whether v replaces m as the maximum, as in the lookup: NaN loses, -0 < +0, the first one stays.
static bool beats(float v, float m) {
    if (isnan(v) || isnan(m)) {
        return isnan(m) && !isnan(v);
    }
    return v > m || (v == m && signbit(m) && !signbit(v));
}

static void add_max(const bag_gradient *bag) {
    LS_ASSERT(bag->table != NULL);
    for (size_t d = 0; d < bag->dim; d++) {
        size_t best = bag->count;
        float maximum = 0;
        for (size_t i = 0; i < bag->count; i++) {
            if (!counts(bag, i)) {
                continue;
            }
            float weight = bag->weights != NULL ? bag->weights[i] : 1.0f;
            float value = bag->table[(size_t)bag->ids[i] * bag->dim + d] * weight;
            if (best == bag->count || beats(value, maximum)) {
                best = i;
                maximum = value;
            }
        }
        if (best < bag->count) {
            float weight = bag->weights != NULL ? bag->weights[best] : 1.0f;
            bag->gradient[(size_t)bag->ids[best] * bag->dim + d] += bag->grad_out[d] * weight;
        }
    }
}

void ls_kernel_pooled_lookup_backward(float *gradient, const ls_table_shape *shape,
                                      const float *grad_out, size_t grad_stride, const float *table,
                                      const ls_bags *bags) {
    LS_ASSERT(bags->pooling == LS_POOL_SUM || bags->pooling == LS_POOL_MEAN ||
              bags->pooling == LS_POOL_MAX);
    LS_ASSERT(bags->count <= 1 || grad_stride >= shape->dim);
    LS_ASSERT(bags->offsets != NULL && shape->rows >= 0);
    for (size_t b = 0; b < bags->count; b++) {
        LS_ASSERT(bags->offsets[b] >= bags->offsets[0] && bags->offsets[b + 1] >= bags->offsets[b]);
        size_t first = (size_t)(bags->offsets[b] - bags->offsets[0]);
        size_t count = (size_t)(bags->offsets[b + 1] - bags->offsets[b]);
        if (count == 0 || shape->dim == 0) {
            continue;
        }
        const bag_gradient bag = {gradient,
                                  shape->dim,
                                  shape->rows,
                                  grad_out + b * grad_stride,
                                  table,
                                  bags->ids + first,
                                  bags->weights != NULL ? bags->weights + first : NULL,
                                  bags->padding_id,
                                  count};
        if (bags->pooling == LS_POOL_MAX) {
            add_max(&bag);
        } else {
            add_sum(&bag, bags->pooling);
        }
    }
}
