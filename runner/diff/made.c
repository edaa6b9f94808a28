// Linear and embedding layers, forward and backward, in f64 from the tensors' own inputs.
#include "runner/diff/made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "orders/bound.h"

// A tensor's values as rows. Ranks hold rows or columns; an owner is a piece's index.
typedef struct matrix {
    double *at;         // [rows, columns]
    int *row_owner;     // [rows]
    int *column_owner;  // [columns]
    size_t rows, columns, count;
    ls_shape shape;
    ls_dtype dtype;
    double scale;  // the factor of the values, until they have been multiplied by it
} matrix;

// The derived values of one tensor.
typedef struct expectation {
    const ls_capture *capture, *other;
    const ls_captured *how;
    const ls_assembled *tensor;
    ls_arena *arena;
    matrix input, weight, bias, gradient;
    double *exact;
    double *sizes;  // the sum of the magnitudes of all products
    double *parts;  // the sum of the magnitudes of the ranks' parts
    double *bounds;
    ls_dtype narrow;  // the coarsest type of operands and result
    int ranks;
} expectation;

static bool is_narrower(ls_dtype a, ls_dtype b) {
    return ls_dtype_is_float(a) && ls_bound_roundoff(a) > ls_bound_roundoff(b);
}

// ---- Operands -----------------------------------------------------------------------------------
static void set_owners(matrix *out, const ls_assembled *whole) {
    for (int p = 0; p < whole->piece_count; p++) {
        const ls_assembled_piece *piece = &whole->pieces[p];
        for (size_t b = 0; piece->copy == 0 && b < piece->block_count; b++) {
            const ls_block *block = &piece->blocks[b];
            int last = whole->shape.ndim - 1;
            size_t rows = 1;
            for (int d = 0; d < last; d++) {
                rows *= (size_t)block->size.dim[d];
            }
            for (size_t r = 0; r < rows && last >= 0 && block->size.dim[last] > 0; r++) {
                size_t rest = r, row = 0, stride = 1;
                for (int d = last - 1; d >= 0; d--) {
                    size_t size = (size_t)block->size.dim[d];
                    row += ((size_t)block->offset.dim[d] + rest % size) * stride;
                    stride *= (size_t)whole->shape.dim[d];
                    rest /= size;
                }
                out->row_owner[row] = p;
            }
            for (int64_t c = 0; last >= 0 && c < block->size.dim[last]; c++) {
                out->column_owner[block->offset.dim[last] + c] = p;
            }
        }
    }
}

// *out.at NULL: missing, or not equal on all ranks.
static int load(matrix *out, const expectation *e, const char *name) {
    const ls_captured *tensor = ls_capture_find(e->capture, name);
    const ls_captured *other = ls_capture_find(e->other, name);
    ls_assembled whole;
    *out = (matrix){.dtype = LS_F64, .scale = 1};
    if (tensor == NULL) {
        return LS_OK;
    }
    ls_captured written = *tensor;
    written.scale = 1;  // products of the scaled values would lack what their rounding loses
    bool alone = other != NULL && other->piece_count == 1 && !other->has_placements;
    int status = ls_assemble(&whole, e->arena, &written, alone ? &other->pieces[0].size : NULL);
    if (status == LS_ERR_MISMATCH) {
        ls_error_clear();
        return LS_OK;
    }
    LS_TRY(status);
    size_t bytes = ls_dtype_bytes(whole.dtype);
    const void *first = NULL;
    LS_TRY(ls_assembled_value(&first, e->arena, &whole, 0));
    for (int copy = 1; copy < whole.copies; copy++) {
        const void *value = NULL;
        LS_TRY(ls_assembled_value(&value, e->arena, &whole, copy));
        if (memcmp(value, first, whole.count * bytes) != 0) {
            return LS_OK;
        }
    }
    out->scale = tensor->scale;
    out->dtype = whole.dtype;
    out->count = whole.count;
    out->shape = whole.shape;
    out->columns = whole.shape.ndim > 0 ? (size_t)whole.shape.dim[whole.shape.ndim - 1] : 1;
    out->rows = out->columns > 0 ? whole.count / out->columns : 0;
    out->row_owner = ls_arena_alloc(e->arena, out->rows + 1, sizeof(int));
    out->column_owner = ls_arena_alloc(e->arena, out->columns + 1, sizeof(int));
    out->at = ls_arena_alloc_raw(e->arena, whole.count + 1, sizeof *out->at);
    LS_TRY_MEMORY(out->at != NULL && out->row_owner != NULL && out->column_owner != NULL);
    for (size_t i = 0; i < whole.count; i++) {
        out->at[i] = ls_element_to_f64((const char *)first + i * bytes, whole.dtype);
    }
    set_owners(out, &whole);
    return LS_OK;
}

// Operands of a wider type are rounded to the narrow one before they are multiplied (autocast).
static void narrow(matrix *operand, ls_dtype to) {
    for (size_t i = 0; operand->at != NULL && is_narrower(to, operand->dtype) && i < operand->count;
         i++) {
        unsigned char bytes[8];
        ls_element_from_f64(bytes, to, operand->at[i]);
        operand->at[i] = ls_element_to_f64(bytes, to);
    }
}

static void scale(matrix *operand) {
    for (size_t i = 0; operand->at != NULL && operand->scale != 1 && i < operand->count; i++) {
        operand->at[i] *= operand->scale;
    }
}

// ---- Products -----------------------------------------------------------------------------------
// Locates the elements of a row and a term.
typedef struct operand {
    const double *at;
    size_t row, term;
} operand;

// The terms of a sum in the order of the ranks that add them up.
typedef struct terms {
    size_t *order;  // [count]
    bool *last;     // [count] the last term of a rank
    size_t count;
    int ranks;
} terms;

static int order_terms(terms *out, ls_arena *arena, const int *owners, size_t count) {
    int most = 0;
    for (size_t t = 0; t < count; t++) {
        most = owners[t] > most ? owners[t] : most;
    }
    size_t *starts = ls_arena_alloc(arena, (size_t)most + 2, sizeof *starts);
    *out = (terms){ls_arena_alloc(arena, count + 1, sizeof(size_t)),
                   ls_arena_alloc(arena, count + 1, sizeof(bool)), count, 0};
    LS_TRY_MEMORY(starts != NULL && out->order != NULL && out->last != NULL);
    for (size_t t = 0; t < count; t++) {
        starts[owners[t] + 1] += 1;
    }
    for (int r = 0; r <= most; r++) {
        out->ranks += starts[r + 1] > 0 ? 1 : 0;
        starts[r + 1] += starts[r];
        if (starts[r + 1] > starts[r]) {
            out->last[starts[r + 1] - 1] = true;
        }
    }
    for (size_t t = 0; t < count; t++) {
        out->order[starts[owners[t]]++] = t;
    }
    return LS_OK;
}

// exact [m, n] = a [m, k] b [n, k]^T, a term at a time, so that columns are independent.
static int multiply(expectation *e, const operand *a, const operand *b, size_t m, size_t n,
                    const terms *k) {
    double *turned = NULL, *part = ls_arena_alloc(e->arena, n + 1, sizeof *part);
    size_t count = 0;
    LS_TRY(ls_size_mul(&count, k->count, n));
    turned = ls_arena_alloc_raw(e->arena, count + 1, sizeof *turned);  // [k, n]
    LS_TRY_MEMORY(turned != NULL && part != NULL);
    for (size_t t = 0; t < k->count; t++) {
        for (size_t j = 0; j < n; j++) {
            turned[t * n + j] = b->at[j * b->row + k->order[t] * b->term];
        }
    }
    for (size_t i = 0; i < m; i++) {
        double *sizes = e->sizes + i * n;
        for (size_t t = 0; t < k->count; t++) {
            double x = a->at[i * a->row + k->order[t] * a->term];
            const double *y = turned + t * n;
            for (size_t j = 0; j < n; j++) {
                double product = x * y[j];
                part[j] += product;
                sizes[j] += fabs(product);
            }
            for (size_t j = 0; k->last[t] && j < n; j++) {
                e->exact[i * n + j] += part[j];
                e->parts[i * n + j] += fabs(part[j]);
                part[j] = 0;
            }
        }
    }
    return LS_OK;
}

static bool too_many(size_t m, size_t n, size_t k) {
    size_t all = 0;
    return __builtin_mul_overflow(m, n, &all) || __builtin_mul_overflow(all, k, &all) ||
           all > LS_MADE_PRODUCTS_MAX;
}

// ---- Bounds -------------------------------------------------------------------------------------
// roundings: to the type of the result, of values no larger than the sum of the ranks' parts.
static void finish(expectation *e, ls_made *out, size_t terms_of_sum, int roundings) {
    ls_dtype dtype = e->narrow;
    ls_dtype in = e->how->wide && is_narrower(dtype, LS_F32) ? LS_F32 : dtype;
    // A program that writes scaled gradients has rounded them, unless it divides by a power of two.
    bool is_scaled =
        e->gradient.at != NULL && e->gradient.scale == 1 && (e->ranks & (e->ranks - 1)) != 0;
    size_t count = e->tensor->count;
    memset(e->bounds, 0, count * sizeof *e->bounds);
    ls_bound_add_sums_of_products(e->bounds, in, terms_of_sum, e->sizes, count);
    ls_bound_add_sums_of_products(e->bounds, LS_F64, terms_of_sum, e->sizes, count);
    for (size_t i = 0; is_scaled && i < count; i++) {
        e->bounds[i] += ls_bound_roundoff(dtype) * e->sizes[i];
    }
    ls_bound_add_roundings(e->bounds, out->overflow, dtype, roundings, e->parts, count);
    out->firm = in != dtype || !is_narrower(dtype, LS_F32);
}

static int linear(bool *known, expectation *e, ls_made *out) {
    size_t m = e->input.rows, n = e->weight.rows, k = e->weight.columns;
    const matrix *bias = &e->bias;
    terms of;
    if (e->input.at == NULL || e->weight.at == NULL || e->input.columns != k ||
        e->tensor->count != m * n || too_many(m, n, k) ||
        (e->how->bias != NULL && bias->count != n)) {
        return LS_OK;
    }
    LS_TRY(order_terms(&of, e->arena, e->input.column_owner, k));
    LS_TRY(multiply(e, &(operand){e->input.at, k, 1}, &(operand){e->weight.at, k, 1}, m, n, &of));
    for (size_t i = 0; i < m * n && e->how->bias != NULL; i++) {
        e->exact[i] += bias->at[i % n];
        e->sizes[i] += fabs(bias->at[i % n]);
        e->parts[i] = of.ranks > 1 ? e->parts[i] + fabs(bias->at[i % n]) : fabs(e->exact[i]);
    }
    finish(e, out, k + 1, of.ranks > 1 ? of.ranks + 1 : 1);
    *known = true;
    return LS_OK;
}

// The rounding of the ranks' parts, their sum, and the two ways to compute a mean.
static int gradient_roundings(const expectation *e) {
    return e->ranks > 1 ? e->ranks + 2 : 1;
}

static int linear_weight(bool *known, expectation *e, ls_made *out) {
    const matrix *gradient = &e->gradient, *input = &e->input;
    size_t n = gradient->columns, k = input->columns, rows = input->rows;
    terms of;
    if (gradient->at == NULL || input->at == NULL || gradient->rows != rows ||
        e->tensor->count != n * k || too_many(n, k, rows)) {
        return LS_OK;
    }
    LS_TRY(order_terms(&of, e->arena, input->row_owner, rows));
    LS_TRY(multiply(e, &(operand){gradient->at, 1, n}, &(operand){input->at, 1, k}, n, k, &of));
    finish(e, out, rows, gradient_roundings(e));
    *known = true;
    return LS_OK;
}

static int linear_bias(bool *known, expectation *e, ls_made *out) {
    const matrix *gradient = &e->gradient;
    const double one = 1;
    terms of;
    if (gradient->at == NULL || e->tensor->count != gradient->columns) {
        return LS_OK;
    }
    LS_TRY(order_terms(&of, e->arena, gradient->row_owner, gradient->rows));
    LS_TRY(multiply(e, &(operand){gradient->at, 1, gradient->columns}, &(operand){&one, 0, 0},
                    gradient->columns, 1, &of));
    finish(e, out, gradient->rows, gradient_roundings(e));
    *known = true;
    return LS_OK;
}

// In a convolution the gradient [batch, channels, ...] has the channels in its second dimension.
static int channel_bias(bool *known, expectation *e, ls_made *out) {
    matrix from = e->gradient, *to = &e->gradient;
    size_t channels = e->tensor->count;
    if (from.at == NULL || from.count == 0 || from.shape.ndim < 2 ||
        (size_t)from.shape.dim[1] != channels) {
        return LS_OK;
    }
    size_t batch = (size_t)from.shape.dim[0], inner = from.count / batch / channels;
    to->rows = batch * inner;
    to->columns = channels;
    to->at = ls_arena_alloc_raw(e->arena, from.count, sizeof *to->at);
    to->row_owner = ls_arena_alloc(e->arena, to->rows, sizeof *to->row_owner);
    LS_TRY_MEMORY(to->at != NULL && to->row_owner != NULL);
    for (size_t i = 0; i < from.count; i++) {
        size_t channel = i / inner % channels, row = i / inner / channels * inner + i % inner;
        to->at[row * channels + channel] = from.at[i];
        to->row_owner[row] = from.row_owner[i / from.columns];
    }
    return linear_bias(known, e, out);
}

// The row of `rows` for an id; rows if the id is out of range.
static size_t row_named(double id, size_t rows) {
    return id >= 0 && id < (double)rows ? (size_t)id : rows;
}

// Rows that only move: no rounding at all.
static int embedding(bool *known, expectation *e, ls_made *out) {
    const matrix *ids = &e->input, *weight = &e->weight;
    size_t width = weight->columns;
    if (ids->at == NULL || weight->at == NULL || e->tensor->count != ids->count * width) {
        return LS_OK;
    }
    for (size_t i = 0; i < ids->count; i++) {
        size_t row = row_named(ids->at[i], weight->rows);
        if (row == weight->rows) {
            return LS_OK;
        }
        memcpy(e->exact + i * width, weight->at + row * width, width * sizeof *e->exact);
    }
    out->firm = *known = true;
    return LS_OK;
}

// The kernel sums rows in the table's type, one after another.
static int embedding_weight(bool *known, expectation *e, ls_made *out) {
    const matrix *ids = &e->input, *gradient = &e->gradient;
    size_t width = gradient->columns, rows = width > 0 ? e->tensor->count / width : 0;
    if (ids->at == NULL || gradient->at == NULL || ids->count != gradient->rows || rows == 0) {
        return LS_OK;
    }
    size_t *counts = ls_arena_alloc(e->arena, rows, sizeof *counts);
    LS_TRY_MEMORY(counts != NULL);
    for (size_t i = 0; i < ids->count; i++) {
        size_t row = row_named(ids->at[i], rows);
        for (size_t c = 0; row < rows && c < width; c++) {
            e->exact[row * width + c] += gradient->at[i * width + c];
            e->sizes[row * width + c] += fabs(gradient->at[i * width + c]);
        }
        counts[row < rows ? row : 0] += row < rows ? 1 : 0;
    }
    for (size_t i = 0; i < e->tensor->count; i++) {
        size_t roundings = counts[i / width] + (size_t)gradient_roundings(e);
        e->bounds[i] = ls_bound_sum_of_products(e->narrow, roundings, e->sizes[i]) +
                       ls_bound_sum_of_products(LS_F64, roundings, e->sizes[i]);
        out->overflow[i] = ls_bound_overflow(e->narrow, e->sizes[i], e->sizes[i]);
    }
    out->firm = *known = true;
    return LS_OK;
}

static ls_dtype narrowest(const expectation *e) {
    const matrix *all[] = {&e->input, &e->weight, &e->bias, &e->gradient};
    ls_dtype type = e->tensor->dtype;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        type = all[i]->at != NULL && is_narrower(all[i]->dtype, type) ? all[i]->dtype : type;
    }
    return type;
}

int ls_made_expect(ls_made *out, ls_arena *arena, const ls_capture *capture,
                   const ls_capture *other, const ls_captured *how, const ls_assembled *tensor) {
    static int (*const ways[LS_MADE_COUNT])(bool *, expectation *, ls_made *) = {
        [LS_MADE_LINEAR] = linear,
        [LS_MADE_EMBEDDING] = embedding,
        [LS_MADE_LINEAR_WEIGHT] = linear_weight,
        [LS_MADE_LINEAR_BIAS] = linear_bias,
        [LS_MADE_CHANNEL_BIAS] = channel_bias,
        [LS_MADE_EMBEDDING_WEIGHT] = embedding_weight,
    };
    size_t count = tensor->count + 1;
    expectation e = {.capture = capture,
                     .other = other,
                     .how = how,
                     .tensor = tensor,
                     .arena = arena,
                     .ranks = capture->ranks};
    *out = (ls_made){0};
    if (ways[how->made] == NULL || !ls_dtype_is_float(tensor->dtype)) {
        return LS_OK;
    }
    LS_TRY(load(&e.input, &e, how->input));
    LS_TRY(load(&e.weight, &e, how->weight));
    LS_TRY(load(&e.bias, &e, how->bias));
    LS_TRY(load(&e.gradient, &e, how->gradient));
    e.narrow = narrowest(&e);
    e.exact = ls_arena_alloc(arena, count, sizeof(double));
    e.sizes = ls_arena_alloc(arena, count, sizeof(double));
    e.parts = ls_arena_alloc(arena, count, sizeof(double));
    e.bounds = ls_arena_alloc(arena, count, sizeof(double));
    out->overflow = ls_arena_alloc(arena, count, 1);
    LS_TRY_MEMORY(e.exact != NULL && e.sizes != NULL && e.parts != NULL && e.bounds != NULL &&
                  out->overflow != NULL);
    if (how->made != LS_MADE_EMBEDDING && how->made != LS_MADE_EMBEDDING_WEIGHT) {
        narrow(&e.input, e.narrow);
        narrow(&e.weight, e.narrow);
        narrow(&e.bias, e.narrow);
        narrow(&e.gradient, e.narrow);
    }
    scale(&e.gradient);
    bool known = false;
    LS_TRY(ways[how->made](&known, &e, out));
    out->exact = known ? e.exact : NULL;
    out->bounds = known ? e.bounds : NULL;
    return LS_OK;
}
