// Arrays of the oracle of programs: element movement and arithmetic.
#include "runner/program/program_cells.h"

#include <math.h>
#include <string.h>

#include "orders/bound.h"
#include "kernels/field.h"
#include "kernels/kernels.h"

// moved: with bits, which the caller fills.
static int make(ls_cells *out, ls_arena *arena, const ls_shape *shape, ls_dtype dtype, bool moved) {
    *out = (ls_cells){.shape = *shape};
    LS_TRY(ls_shape_count(&out->count, shape));
    bool real = ls_dtype_is_float(dtype);
    if (moved || !real) {
        out->bits = ls_arena_alloc(arena, out->count, ls_dtype_bytes(dtype));
        LS_TRY(out->bits != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    if (real) {
        out->exact = ls_arena_alloc(arena, out->count, sizeof(double));
        out->bounds = ls_arena_alloc(arena, out->count, sizeof(double));
        out->sizes = ls_arena_alloc(arena, out->count, sizeof(double));
        out->overflow = ls_arena_alloc(arena, out->count, 1);
        bool all = out->exact != NULL && out->bounds != NULL && out->sizes != NULL;
        LS_TRY(all && out->overflow != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    return LS_OK;
}

int ls_cells__new(ls_cells *out, ls_arena *arena, const ls_shape *shape, ls_dtype dtype) {
    return make(out, arena, shape, dtype, false);
}

int ls_cells__room(ls_cells *out, ls_arena *arena, const ls_shape *shape, ls_dtype dtype) {
    return make(out, arena, shape, dtype, true);
}

int ls_cells__of(ls_cells *out, ls_arena *arena, const void *data, const ls_shape *shape,
                 ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    LS_TRY(make(out, arena, shape, dtype, true));
    for (size_t i = 0; i < out->count && out->exact != NULL; i++) {
        out->exact[i] = ls_element_to_f64((const char *)data + i * bytes, dtype);
        out->sizes[i] = fabs(out->exact[i]);
    }
    if (out->count > 0) {
        memcpy(out->bits, data, out->count * bytes);
    }
    return LS_OK;
}

static void *bits_at(const ls_cells *cells, size_t index, ls_dtype dtype) {
    return (char *)cells->bits + index * ls_dtype_bytes(dtype);
}

void ls_cells__set(ls_cells *cells, size_t index, ls_dtype dtype, double value) {
    unsigned char element[8];
    ls_element_from_f64(element, dtype, value);
    if (cells->bits != NULL) {
        memcpy(bits_at(cells, index, dtype), element, ls_dtype_bytes(dtype));
    }
    if (cells->exact != NULL) {
        cells->exact[index] = ls_element_to_f64(element, dtype);
        cells->bounds[index] = 0;
        cells->sizes[index] = fabs(cells->exact[index]);
        cells->overflow[index] = LS_OVERFLOW_NONE;
    }
}

int ls_cells__neutral(ls_cells *cells, ls_arena *arena, ls_dtype dtype, ls_op op) {
    LS_TRY(ls_cells__new(cells, arena, &cells->shape, dtype));
    size_t bytes = ls_dtype_bytes(dtype);
    unsigned bits = 8 * (unsigned)bytes;
    bool is_signed = ls_dtype_is_signed(dtype);
    uint64_t top = UINT64_C(1) << (bits - 1);
    static const double neutral[LS_OP_COUNT] = {
        [LS_PROD] = 1, [LS_MAX] = -(double)INFINITY, [LS_MIN] = (double)INFINITY};
    const uint64_t whole[LS_OP_COUNT] = {[LS_PROD] = 1,
                                         [LS_MAX] = is_signed ? top : 0,
                                         [LS_MIN] = is_signed ? top - 1 : UINT64_MAX,
                                         [LS_BAND] = UINT64_MAX};
    for (size_t i = 0; i < cells->count; i++) {
        if (cells->exact != NULL) {
            cells->exact[i] = neutral[op];
            cells->sizes[i] = op == LS_PROD ? 1.0 : 0.0;
            continue;
        }
        memcpy(bits_at(cells, i, dtype), &whole[op], bytes);
    }
    return LS_OK;
}

void ls_cells__take_exact(ls_cells *cells, const ls_cells *from) {
    for (size_t i = 0; cells->exact != NULL && i < cells->count; i++) {
        double apart = fabs(cells->exact[i] - from->exact[i]);
        if (isfinite(apart)) {
            cells->bounds[i] += apart;
            cells->exact[i] = from->exact[i];
        }
    }
}

// ---- Moving -------------------------------------------------------------------------------------
void ls_cells__copy(ls_cells *to, size_t at, const ls_cells *from, size_t index, ls_dtype dtype) {
    if (to->bits != NULL) {
        memcpy(bits_at(to, at, dtype), bits_at(from, index, dtype), ls_dtype_bytes(dtype));
    }
    if (to->exact != NULL) {
        to->exact[at] = from->exact[index];
        to->bounds[at] = from->bounds[index];
        to->sizes[at] = from->sizes[index];
        to->overflow[at] = from->overflow[index];
    }
}

size_t ls_cells__global(const ls_shape *shape, const ls_block *block, size_t index) {
    size_t global = 0, stride = 1;
    for (int d = shape->ndim; d-- > 0;) {
        size_t at = index % (size_t)block->size.dim[d] + (size_t)block->offset.dim[d];
        index /= (size_t)block->size.dim[d];
        global += at * stride;
        stride *= (size_t)shape->dim[d];
    }
    return global;
}

int ls_cells__cut(ls_cells *out, ls_arena *arena, const ls_cells *whole, const ls_block *block,
                  ls_dtype dtype) {
    LS_TRY(make(out, arena, &block->size, dtype, whole->bits != NULL));
    for (size_t i = 0; i < out->count; i++) {
        ls_cells__copy(out, i, whole, ls_cells__global(&whole->shape, block, i), dtype);
    }
    return LS_OK;
}

void ls_cells__paste(ls_cells *whole, const ls_cells *part, const ls_block *block, ls_dtype dtype) {
    for (size_t i = 0; i < part->count; i++) {
        ls_cells__copy(whole, ls_cells__global(&whole->shape, block, i), part, i, dtype);
    }
}

static int dim_of(const ls_cells *cells, int dim) {
    return dim < 0 ? dim + cells->shape.ndim : dim;
}

int ls_cells__narrow(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, int64_t start,
                     int64_t length, ls_dtype dtype) {
    ls_block block = {.offset.ndim = in->shape.ndim, .size = in->shape};
    block.offset.dim[dim_of(in, dim)] = start;
    block.size.dim[dim_of(in, dim)] = length;
    return ls_cells__cut(out, arena, in, &block, dtype);
}

int ls_cells__chunk(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, int count,
                    int index, ls_dtype dtype) {
    int64_t n = in->shape.dim[dim_of(in, dim)];
    int64_t each = (n + count - 1) / count;
    int64_t start = each * index < n ? each * index : n;
    int64_t length = each < n - start ? each : n - start;
    return ls_cells__narrow(out, arena, in, dim, start, length, dtype);
}

int ls_cells__join(ls_cells *out, ls_arena *arena, const ls_cells *cells, const int *which,
                   int count, int dim, ls_dtype dtype) {
    ls_shape shape = cells[which[0]].shape;
    int d = dim_of(&cells[which[0]], dim);
    bool moved = true;
    shape.dim[d] = 0;
    for (int i = 0; i < count; i++) {
        shape.dim[d] += cells[which[i]].shape.dim[d];
        moved = moved && cells[which[i]].bits != NULL;
    }
    LS_TRY(make(out, arena, &shape, dtype, moved));
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        ls_block place = {.offset.ndim = shape.ndim, .size = cells[which[i]].shape};
        place.offset.dim[d] = start;
        ls_cells__paste(out, &cells[which[i]], &place, dtype);
        start += place.size.dim[d];
    }
    return LS_OK;
}

int ls_cells__meet(ls_cells *out, ls_arena *arena, const ls_cells *in, const ls_block *own,
                   const ls_shape *shape, const ls_block *want, ls_dtype dtype) {
    int shift = want->size.ndim - shape->ndim;
    LS_TRY(make(out, arena, &want->size, dtype, in->bits != NULL));
    for (size_t i = 0; i < out->count; i++) {
        size_t rest = i, index = 0, stride = 1;
        for (int d = want->size.ndim; d-- > shift;) {
            int64_t at = (int64_t)(rest % (size_t)want->size.dim[d]) + want->offset.dim[d];
            rest /= (size_t)want->size.dim[d];
            at = shape->dim[d - shift] == 1 ? 0 : at - own->offset.dim[d - shift];
            index += (size_t)at * stride;
            stride *= (size_t)own->size.dim[d - shift];
        }
        LS_ASSERT(index < in->count);
        ls_cells__copy(out, i, in, index, dtype);
    }
    return LS_OK;
}

int ls_cells__transpose(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype dtype) {
    ls_shape shape = in->shape;
    shape.dim[0] = in->shape.dim[1];
    shape.dim[1] = in->shape.dim[0];
    LS_TRY(make(out, arena, &shape, dtype, in->bits != NULL));
    size_t rows = (size_t)in->shape.dim[0], columns = (size_t)in->shape.dim[1];
    size_t rest = rows * columns > 0 ? in->count / (rows * columns) : 0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            for (size_t k = 0; k < rest; k++) {
                ls_cells__copy(out, (c * rows + r) * rest + k, in, (r * columns + c) * rest + k,
                               dtype);
            }
        }
    }
    return LS_OK;
}

// ---- Computing ----------------------------------------------------------------------------------
#define EITHER ((unsigned char)(LS_OVERFLOW_UP | LS_OVERFLOW_DOWN))

// Terms being folded.
typedef struct terms {
    double value, bound;     // bound: the sum of the terms' bounds
    double magnitude;        // the sum of the magnitudes of the finite terms, with their bounds
    double up, down;         // the sums of the positive and of the negative terms
    double low, high;        // the least and the greatest finite term
    double growth, reach;    // prod: of the magnitudes, and of those above 1
    double total, product;   // the vacuous bits of the terms
    double largest;          //
    bool zero;               // prod: a term may be zero
    unsigned char overflow;  // the ways in which a term may be infinite while its value is finite
    unsigned char any, all;  // overflow of any term, and of all terms
    size_t count;
} terms;

static unsigned char infinite_of(double value, unsigned char overflow) {
    if (!isinf(value)) {
        return overflow;
    }
    return overflow | (unsigned char)(value > 0 ? LS_OVERFLOW_UP : LS_OVERFLOW_DOWN);
}

static void add_value(terms *t, double value, double bound, ls_op op) {
    bool first = t->count++ == 0;
    if (op == LS_PROD) {
        t->value = first ? value : t->value * value;
        t->bound = bound;
    } else if (op == LS_MAX || op == LS_MIN) {
        bool better = op == LS_MAX ? value > t->value : value < t->value;
        t->value = first || better || isnan(t->value) ? value : t->value;
        t->bound = fmax(t->bound, bound);
    } else {
        t->value += value;
        t->bound += bound;
    }
}

static void add_term(terms *t, double value, double bound, unsigned char overflow, ls_op op) {
    unsigned char infinite = infinite_of(value, overflow);
    add_value(t, value, bound, op);
    t->overflow |= overflow;
    t->any |= infinite;
    t->all &= isnan(value) ? EITHER : infinite;
    t->zero = t->zero || fabs(value) <= bound;
    if (isfinite(value)) {
        double size = fabs(value) + bound;
        t->magnitude += size;
        t->up += fmax(value, 0) + bound;
        t->down += fmax(-value, 0) + bound;
        t->low = fmin(t->low, value);
        t->high = fmax(t->high, value);
        t->growth *= size;
        t->reach *= fmax(1.0, size);
    }
}

// No rounding. But if a term went to infinity the other way or to NaN, the others decide.
static void finish_extreme(double *bound, unsigned char *overflow, const terms *t, ls_op op) {
    unsigned char towards = op == LS_MAX ? LS_OVERFLOW_UP : LS_OVERFLOW_DOWN;
    unsigned char away = (unsigned char)(EITHER & ~towards);
    *bound = t->bound;
    if ((t->overflow & away) != 0 && t->high > t->low) {
        *bound += t->high - t->low;
    }
    *overflow = (t->any & towards) | (t->all & away);
}

static void finish_product(double *bound, unsigned char *overflow, const terms *t, ls_dtype dtype) {
    double steps = (double)(t->count - 1);
    *bound = t->growth - fabs(t->value) + ls_bound_roundings(dtype, t->count - 1, t->growth) +
             steps * ls_bound_step(dtype, 0) * t->reach +
             ls_bound_roundings(LS_F64, t->count - 1, t->growth);
    double reach = t->reach + ls_bound_roundings(dtype, t->count - 1, t->reach);
    unsigned char own = ls_bound_overflow(dtype, reach, reach);
    if (t->overflow != 0 || ((own | t->any) != 0 && t->zero)) {
        *overflow = EITHER;  // the sign, and a product with zero, are unknown
    } else if (own != 0) {
        *overflow = t->value > 0 ? LS_OVERFLOW_UP : LS_OVERFLOW_DOWN;
    }
}

static void finish_sum(double *value, double *bound, unsigned char *overflow, const terms *t,
                       ls_dtype dtype, bool mean) {
    size_t adds = t->count - 1;
    *overflow = t->any | ls_bound_overflow(dtype, t->up + ls_bound_roundings(dtype, adds, t->up),
                                           t->down + ls_bound_roundings(dtype, adds, t->down));
    // A mean is divided at the end, or every term is multiplied by the rounded reciprocal first.
    size_t roundings = mean ? adds + 2 : adds;
    double n = mean ? (double)t->count : 1.0;
    *value /= n;
    *bound = (t->bound + ls_bound_roundings(dtype, roundings, t->magnitude) +
              ls_bound_roundings(LS_F64, roundings, t->magnitude)) /
                 n +
             (mean ? (double)t->count * ls_bound_step(dtype, 0) : 0);
}

static int fold_integers(void *out, const ls_cell *in, int count, ls_dtype dtype, ls_op op) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(void *)));
    const void **bits = memory;
    for (int m = 0; m < count; m++) {
        bits[m] = bits_at(in[m].of, in[m].index, dtype);
    }
    ls_kernel_reduce_reference(out, bits, (size_t)count, dtype, op, NULL, 1);
    ls_free(memory, (size_t)count, sizeof(void *));
    return LS_OK;
}

// Of a sum: twice the mean of its terms.
static double size_of(const terms *t, ls_op op) {
    double n = (double)t->count,
           of_each = op == LS_AVG ? 2.0 * t->total / (n * n) : 2.0 * t->total / n;
    if (t->count == 1) {
        return t->total;
    }
    if (op == LS_PROD) {
        return t->product;
    }
    return op == LS_MAX || op == LS_MIN ? t->largest : of_each;
}

// Numbers of the field have no bounds.
static void fold_field(ls_cells *out, size_t to, const ls_cell *in, int count, ls_op op) {
    double value = in[0].of->exact[in[0].index];
    for (int m = 1; m < count; m++) {
        double term = in[m].of->exact[in[m].index];
        value = op == LS_PROD ? ls_field_product_f64(value, term) : ls_field_sum_f64(value, term);
    }
    out->exact[to] = op == LS_AVG ? ls_field_quotient_f64(value, (double)count) : value;
}

int ls_cells__fold(ls_cells *out, size_t to, const ls_cell *in, int count, ls_dtype dtype,
                   ls_op op) {
    LS_ASSERT(count >= 1);
    if (dtype == LS_FIELD) {
        fold_field(out, to, in, count, op);
        return LS_OK;
    }
    if (out->exact == NULL) {
        return fold_integers(bits_at(out, to, dtype), in, count, dtype, op);
    }
    terms t = {
        .growth = 1, .reach = 1, .product = 1, .low = INFINITY, .high = -INFINITY, .all = EITHER};
    for (int m = 0; m < count; m++) {
        size_t i = in[m].index;
        add_term(&t, in[m].of->exact[i], in[m].of->bounds[i], in[m].of->overflow[i], op);
        t.total += in[m].of->sizes[i];
        t.product *= in[m].of->sizes[i];
        t.largest = fmax(t.largest, in[m].of->sizes[i]);
    }
    double value = t.value, bound = t.bound;
    unsigned char overflow = t.overflow;
    if (count > 1 && (op == LS_MAX || op == LS_MIN)) {
        finish_extreme(&bound, &overflow, &t, op);
    } else if (count > 1 && op == LS_PROD) {
        finish_product(&bound, &overflow, &t, dtype);
    } else if (count > 1) {
        finish_sum(&value, &bound, &overflow, &t, dtype, op == LS_AVG);
    }
    out->exact[to] = value;
    out->bounds[to] = isfinite(value) ? bound : 0;
    out->sizes[to] = size_of(&t, op);
    out->overflow[to] = overflow;
    return LS_OK;
}

int ls_cells__reduce(ls_cells *out, ls_arena *arena, const ls_cells *cells, const int *members,
                     int count, ls_dtype dtype, ls_op op) {
    LS_TRY(ls_cells__new(out, arena, &cells[members[0]].shape, dtype));
    ls_cell *in = ls_arena_alloc(arena, (size_t)count, sizeof *in);
    LS_TRY_MEMORY(in != NULL);
    for (size_t i = 0; i < out->count; i++) {
        for (int m = 0; m < count; m++) {
            in[m] = (ls_cell){&cells[members[m]], i};
        }
        LS_TRY(ls_cells__fold(out, i, in, count, dtype, op));
    }
    return LS_OK;
}

int ls_cells__elementwise(ls_cells *out, ls_arena *arena, const ls_cells *a, const ls_cells *b,
                          ls_dtype dtype, ls_op op) {
    const ls_cells both[2] = {*a, *b};
    const int members[2] = {0, 1};
    return ls_cells__reduce(out, arena, both, members, 2, dtype, op);
}

int ls_cells__scale(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype dtype,
                    double factor) {
    ls_cells factors, both[2] = {*in};
    const int members[2] = {0, 1};
    LS_TRY(ls_cells__new(&factors, arena, &in->shape, dtype));
    for (size_t i = 0; i < factors.count; i++) {
        ls_cells__set(&factors, i, dtype, factor);
    }
    both[1] = factors;
    return ls_cells__reduce(out, arena, both, members, 2, dtype, LS_PROD);
}

// All terms may be one rank's: not each of them need be visible.
static void size_of_line(ls_cells *out, size_t to, const ls_cell *in, size_t count, ls_op op) {
    double squares = 0;
    if (out->exact == NULL || count == 1 || (op != LS_SUM && op != LS_AVG)) {
        return;
    }
    for (size_t k = 0; k < count; k++) {
        squares += pow(in[k].of->sizes[in[k].index], 2);
    }
    double root = sqrt(squares) / (op == LS_AVG ? (double)count : 1.0);
    out->sizes[to] = fmax(fabs(out->exact[to]), root);
}

int ls_cells__fold_dim(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, ls_dtype dtype,
                       ls_op op) {
    int d = dim_of(in, dim);
    ls_shape shape = in->shape;
    for (int k = d; k + 1 < shape.ndim; k++) {
        shape.dim[k] = shape.dim[k + 1];
    }
    shape.ndim -= 1;
    LS_TRY(ls_cells__new(out, arena, &shape, dtype));
    size_t length = (size_t)in->shape.dim[d], inner = 1;
    for (int k = d + 1; k < in->shape.ndim; k++) {
        inner *= (size_t)in->shape.dim[k];
    }
    ls_cell *terms_of = ls_arena_alloc(arena, length, sizeof *terms_of);
    LS_TRY_MEMORY(terms_of != NULL);
    if (length == 0) {
        return ls_cells__neutral(out, arena, dtype, op);
    }
    for (size_t i = 0; i < out->count; i++) {
        for (size_t k = 0; k < length; k++) {
            terms_of[k] = (ls_cell){in, (i / inner * length + k) * inner + i % inner};
        }
        LS_TRY(ls_cells__fold(out, i, terms_of, (int)length, dtype, op));
        size_of_line(out, i, terms_of, length, op);
    }
    return LS_OK;
}

void ls_cells__divide(ls_cells *cells, ls_dtype dtype, int64_t count) {
    double n = (double)count;
    for (size_t i = 0; dtype == LS_FIELD && i < cells->count; i++) {
        cells->exact[i] = ls_field_quotient_f64(cells->exact[i], n);
    }
    for (size_t i = 0; dtype != LS_FIELD && cells->exact != NULL && i < cells->count; i++) {
        double value = cells->exact[i] / n;
        cells->exact[i] = value;
        cells->sizes[i] /= n;
        if (isfinite(value)) {
            double reach = fabs(value) + cells->bounds[i] / n;
            cells->bounds[i] = cells->bounds[i] / n + ls_bound_roundings(dtype, 1, reach) +
                               ls_bound_roundings(LS_F64, 1, reach) + ls_bound_step(dtype, 0);
        }
    }
    cells->bits = cells->exact != NULL ? NULL : cells->bits;
}

void ls_cells__view(ls_cells *out, const ls_cells *in, const ls_shape *shape) {
    size_t count = 0;
    *out = *in;
    out->shape = *shape;
    LS_ASSERT(ls_shape_count(&count, shape) == LS_OK && count == in->count);
}
