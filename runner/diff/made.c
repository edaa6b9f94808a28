// Linear and embedding layers, forward and backward, in f64 of their own inputs.
#include "runner/diff/made.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "orders/bound.h"

// A tensor's values, seen as rows.
typedef struct matrix {
    double *at;  // [rows, columns]
    size_t rows, columns, count;
} matrix;

// *out.at NULL: it is not there, or not the same on all ranks.
static int load(matrix *out, ls_arena *arena, const ls_capture *run, const ls_capture *ref,
                const char *name) {
    const ls_captured *tensor = ls_capture_find(run, name), *other = ls_capture_find(ref, name);
    ls_assembled whole;
    *out = (matrix){0};
    if (tensor == NULL) {
        return LS_OK;
    }
    bool alone = other != NULL && other->piece_count == 1 && !other->has_placements;
    int status = ls_assemble(&whole, arena, tensor, alone ? &other->pieces[0].size : NULL);
    if (status == LS_ERR_MISMATCH) {
        ls_error_clear();
        return LS_OK;
    }
    LS_TRY(status);
    size_t bytes = ls_dtype_bytes(whole.dtype);
    const void *first = NULL;
    LS_TRY(ls_assembled_value(&first, arena, &whole, 0));
    for (int copy = 1; copy < whole.copies; copy++) {
        const void *value = NULL;
        LS_TRY(ls_assembled_value(&value, arena, &whole, copy));
        if (memcmp(value, first, whole.count * bytes) != 0) {
            return LS_OK;
        }
    }
    out->at = ls_arena_alloc(arena, whole.count + 1, sizeof *out->at);
    if (out->at == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < whole.count; i++) {
        out->at[i] = ls_element_to_f64((const char *)first + i * bytes, whole.dtype);
    }
    out->count = whole.count;
    out->columns = whole.shape.ndim > 0 ? (size_t)whole.shape.dim[whole.shape.ndim - 1] : 1;
    out->rows = out->columns > 0 ? whole.count / out->columns : 0;
    return LS_OK;
}

// The bound of a sum of so many products in the tensor's type, and of the f64 that stands for it.
static double bound_of(ls_dtype dtype, size_t terms, double magnitudes) {
    return ls_bound_sum_of_products(dtype, terms, magnitudes) +
           ls_bound_sum_of_products(LS_F64, terms, magnitudes);
}

// exact [m, n] += a [m, k] b [n, k]^T, where steps say how far apart a row's and a term's elements
// lie; bounds get the magnitudes.
typedef struct operand {
    const double *at;
    size_t row, term;
} operand;

static void multiply(double *exact, double *magnitudes, const operand *a, const operand *b,
                     size_t m, size_t n, size_t k) {
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (size_t t = 0; t < k; t++) {
                double product = a->at[i * a->row + t * a->term] * b->at[j * b->row + t * b->term];
                sum += product;
                size += fabs(product);
            }
            exact[i * n + j] += sum;
            magnitudes[i * n + j] += size;
        }
    }
}

static bool too_many(size_t m, size_t n, size_t k) {
    size_t all = 0;
    return __builtin_mul_overflow(m, n, &all) || __builtin_mul_overflow(all, k, &all) ||
           all > LS_MADE_PRODUCTS_MAX;
}

// Gradients are scaled where ranks' parts make a mean: divided before or after, rounded each time.
static void finish(double *bounds, const double *exact, const ls_assembled *tensor, size_t terms,
                   int scalings) {
    for (size_t i = 0; i < tensor->count; i++) {
        bounds[i] = bound_of(tensor->dtype, terms, bounds[i]);
        for (int s = 0; s < scalings; s++) {
            bounds[i] += ls_bound_step(tensor->dtype, fabs(exact[i]) + bounds[i]);
        }
    }
}

static bool linear(double *exact, double *bounds, const ls_assembled *tensor, const matrix *input,
                   const matrix *weight, const matrix *bias) {
    size_t m = input->rows, n = weight->rows, k = weight->columns;
    if (input->at == NULL || weight->at == NULL || input->columns != k || tensor->count != m * n ||
        too_many(m, n, k) || (tensor->of->bias != NULL && bias->count != n)) {
        return false;
    }
    multiply(exact, bounds, &(operand){input->at, k, 1}, &(operand){weight->at, k, 1}, m, n, k);
    for (size_t i = 0; i < m * n && tensor->of->bias != NULL; i++) {
        exact[i] += bias->at[i % n];
        bounds[i] += fabs(bias->at[i % n]);
    }
    finish(bounds, exact, tensor, k + 1, 0);
    return true;
}

static bool linear_weight(double *exact, double *bounds, const ls_assembled *tensor,
                          const matrix *gradient, const matrix *input) {
    size_t n = gradient->columns, k = input->columns, rows = input->rows;
    if (gradient->at == NULL || input->at == NULL || gradient->rows != rows ||
        tensor->count != n * k || too_many(n, k, rows)) {
        return false;
    }
    multiply(exact, bounds, &(operand){gradient->at, 1, n}, &(operand){input->at, 1, k}, n, k,
             rows);
    finish(bounds, exact, tensor, rows, 2);
    return true;
}

static bool linear_bias(double *exact, double *bounds, const ls_assembled *tensor,
                        const matrix *gradient) {
    const double one = 1;
    if (gradient->at == NULL || tensor->count != gradient->columns) {
        return false;
    }
    multiply(exact, bounds, &(operand){gradient->at, 1, gradient->columns}, &(operand){&one, 0, 0},
             gradient->columns, 1, gradient->rows);
    finish(bounds, exact, tensor, gradient->rows, 2);
    return true;
}

// The row of `rows` that an id names; rows where it names none.
static size_t row_named(double id, size_t rows) {
    return id >= 0 && id < (double)rows ? (size_t)id : rows;
}

// Rows that only move: no rounding at all.
static bool embedding(double *exact, const ls_assembled *tensor, const matrix *ids,
                      const matrix *weight) {
    size_t width = weight->columns;
    if (ids->at == NULL || weight->at == NULL || tensor->count != ids->count * width) {
        return false;
    }
    for (size_t i = 0; i < ids->count; i++) {
        size_t row = row_named(ids->at[i], weight->rows);
        if (row == weight->rows) {
            return false;
        }
        memcpy(exact + i * width, weight->at + row * width, width * sizeof *exact);
    }
    return true;
}

static bool embedding_weight(double *exact, double *bounds, const ls_assembled *tensor,
                             const matrix *ids, const matrix *gradient) {
    size_t width = gradient->columns, rows = width > 0 ? tensor->count / width : 0;
    if (ids->at == NULL || gradient->at == NULL || ids->count != gradient->rows || rows == 0) {
        return false;
    }
    for (size_t i = 0; i < ids->count; i++) {
        size_t row = row_named(ids->at[i], rows);
        for (size_t c = 0; row < rows && c < width; c++) {
            exact[row * width + c] += gradient->at[i * width + c];
            bounds[row * width + c] += fabs(gradient->at[i * width + c]);
        }
    }
    finish(bounds, exact, tensor, ids->count, 2);
    return true;
}

int ls_made_expect(double **exact, double **bounds, ls_arena *arena, const ls_capture *run,
                   const ls_capture *ref, const ls_assembled *tensor) {
    const ls_captured *of = tensor->of;
    matrix input, weight, bias, gradient;
    *exact = *bounds = NULL;
    if (of->made == LS_MADE_UNKNOWN || !ls_dtype_is_float(tensor->dtype)) {
        return LS_OK;
    }
    LS_TRY(load(&input, arena, run, ref, of->input));
    LS_TRY(load(&weight, arena, run, ref, of->weight));
    LS_TRY(load(&bias, arena, run, ref, of->bias));
    LS_TRY(load(&gradient, arena, run, ref, of->gradient));
    double *values = ls_arena_alloc(arena, tensor->count + 1, sizeof *values);
    double *errors = ls_arena_alloc(arena, tensor->count + 1, sizeof *errors);
    if (values == NULL || errors == NULL) {
        return LS_ERR_MEMORY;
    }
    bool known = false;
    switch (of->made) {
    case LS_MADE_LINEAR:
        known = linear(values, errors, tensor, &input, &weight, &bias);
        break;
    case LS_MADE_EMBEDDING:
        known = embedding(values, tensor, &input, &weight);
        break;
    case LS_MADE_LINEAR_WEIGHT:
        known = linear_weight(values, errors, tensor, &gradient, &input);
        break;
    case LS_MADE_LINEAR_BIAS:
        known = linear_bias(values, errors, tensor, &gradient);
        break;
    default:
        known = embedding_weight(values, errors, tensor, &input, &gradient);
        break;
    }
    *exact = known ? values : NULL;
    *bounds = known ? errors : NULL;
    return LS_OK;
}
