// Arrays of the oracle of programs: moving their elements, and arithmetic on them.
#include "runner/program/program_cells.h"

#include <math.h>
#include <string.h>

#include "orders/bound.h"
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
        LS_TRY(out->exact != NULL && out->bounds != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    return LS_OK;
}

int ls_cells__new(ls_cells *out, ls_arena *arena, const ls_shape *shape, ls_dtype dtype) {
    return make(out, arena, shape, dtype, false);
}

int ls_cells__of(ls_cells *out, ls_arena *arena, const void *data, const ls_shape *shape,
                 ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    LS_TRY(make(out, arena, shape, dtype, true));
    for (size_t i = 0; i < out->count && out->exact != NULL; i++) {
        out->exact[i] = ls_element_to_f64((const char *)data + i * bytes, dtype);
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
    }
}

int ls_cells__neutral(ls_cells *cells, ls_arena *arena, ls_dtype dtype, ls_op op) {
    LS_TRY(ls_cells__new(cells, arena, &cells->shape, dtype));
    size_t bytes = ls_dtype_bytes(dtype);
    unsigned bits = 8 * (unsigned)bytes;
    bool is_signed = ls_dtype_is_signed(dtype);
    uint64_t ones = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t top = UINT64_C(1) << (bits - 1);
    uint64_t least = is_signed ? top : 0, most = is_signed ? top - 1 : ones;
    for (size_t i = 0; i < cells->count; i++) {
        if (cells->exact != NULL) {
            cells->exact[i] = op == LS_PROD  ? 1.0
                              : op == LS_MAX ? -(double)INFINITY
                              : op == LS_MIN ? (double)INFINITY
                                             : 0.0;
            continue;
        }
        uint64_t value = op == LS_PROD   ? 1
                         : op == LS_MAX  ? least
                         : op == LS_MIN  ? most
                         : op == LS_BAND ? ones
                                         : 0;
        memcpy(bits_at(cells, i, dtype), &value, bytes);
    }
    return LS_OK;
}

void ls_cells__take_exact(ls_cells *cells, const ls_cells *from) {
    for (size_t i = 0; cells->exact != NULL && i < cells->count; i++) {
        double apart = fabs(cells->exact[i] - from->exact[i]);
        cells->bounds[i] += apart > 0 ? apart : 0;
        cells->exact[i] = from->exact[i];
    }
}

// ---- Moving -------------------------------------------------------------------------------------
static void copy(ls_cells *to, size_t at, const ls_cells *from, size_t index, ls_dtype dtype) {
    if (to->bits != NULL) {
        memcpy(bits_at(to, at, dtype), bits_at(from, index, dtype), ls_dtype_bytes(dtype));
    }
    if (to->exact != NULL) {
        to->exact[at] = from->exact[index];
        to->bounds[at] = from->bounds[index];
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
        copy(out, i, whole, ls_cells__global(&whole->shape, block, i), dtype);
    }
    return LS_OK;
}

void ls_cells__paste(ls_cells *whole, const ls_cells *part, const ls_block *block, ls_dtype dtype) {
    for (size_t i = 0; i < part->count; i++) {
        copy(whole, ls_cells__global(&whole->shape, block, i), part, i, dtype);
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
                copy(out, (c * rows + r) * rest + k, in, (r * columns + c) * rest + k, dtype);
            }
        }
    }
    return LS_OK;
}

// ---- Computing ----------------------------------------------------------------------------------
// Terms being folded: the value, the bound that the terms bring along, and what their magnitudes
// come to.
typedef struct terms {
    double value, bound, magnitude;
    double growth;  // prod: of the magnitudes with their bounds
    size_t count;
} terms;

static void add_term(terms *t, double value, double bound, ls_op op) {
    bool first = t->count++ == 0;
    t->magnitude += fabs(value) + bound;
    if (op == LS_PROD) {
        t->value = first ? value : t->value * value;
        t->growth = (first ? 1.0 : t->growth) * (fabs(value) + bound);
    } else if (op == LS_MAX || op == LS_MIN) {
        bool better = op == LS_MAX ? value > t->value : value < t->value;
        t->value = first || better || isnan(t->value) ? value : t->value;
        t->bound = fmax(t->bound, bound);
    } else {
        t->value += value;
        t->bound += bound;
    }
}

static void bound_of(double *value, double *bound, const terms *t, ls_dtype dtype, ls_op op,
                     size_t averaged) {
    double u = ls_bound_roundoff(dtype);
    *value = t->value;
    *bound = t->bound;
    if (op == LS_MAX || op == LS_MIN) {
        return;
    }
    if (op == LS_PROD) {
        double steps = (double)(t->count > 0 ? t->count - 1 : 0);
        *bound = t->growth - fabs(t->value) + expm1(steps * log1p(u)) * t->growth +
                 steps * ls_bound_step(dtype, 0) * fmax(1.0, t->growth) +
                 expm1(steps * 0x1p-53) * t->growth;
        *bound = steps > 0 ? *bound : t->bound;
        return;
    }
    *bound +=
        ls_bound_sum(dtype, t->count, t->magnitude) + ls_bound_sum(LS_F64, t->count, t->magnitude);
    if (averaged > 1) {
        // Divided at the end, or every term multiplied by the rounded reciprocal before.
        double n = (double)averaged;
        *value = t->value / n;
        *bound = *bound * (1 + u) / n + 2 * u * t->magnitude / n +
                 (double)t->count * ls_bound_step(dtype, 0);
        *bound += ls_bound_step(dtype, fabs(*value) + *bound);
    }
}

// What is stored when the value passes the largest finite one is what later steps go on with.
static void finish(double *value, double *bound, const terms *t, ls_dtype dtype, ls_op op,
                   size_t averaged) {
    unsigned char element[8];
    bound_of(value, bound, t, dtype, op, averaged);
    ls_element_from_f64(element, dtype, *value);
    double stored = ls_element_to_f64(element, dtype);
    *value = isinf(stored) ? stored : *value;
}

static int fold_integers(void *out, const ls_cells *cells, const int *members, int count,
                         size_t index, ls_dtype dtype, ls_op op, size_t averaged) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)count, sizeof(void *)));
    const void **in = memory;
    for (int m = 0; m < count; m++) {
        in[m] = bits_at(&cells[members[m]], index, dtype);
    }
    bool mean = averaged == (size_t)count && averaged > 1;
    ls_kernel_reduce_reference(out, in, (size_t)count, dtype, mean ? LS_AVG : op, NULL, 1);
    if (averaged > 1 && !mean) {
        ls_element_from_f64(out, dtype, trunc(ls_element_to_f64(out, dtype) / (double)averaged));
    }
    ls_free(NULL, memory, (size_t)count, sizeof(void *));
    return LS_OK;
}

int ls_cells__fold(ls_cells *out, size_t to, const ls_cells *cells, const int *members, int count,
                   size_t index, ls_dtype dtype, ls_op op, size_t averaged) {
    if (out->exact == NULL) {
        return fold_integers(bits_at(out, to, dtype), cells, members, count, index, dtype, op,
                             averaged);
    }
    terms t = {0};
    for (int m = 0; m < count; m++) {
        const ls_cells *from = &cells[members[m]];
        add_term(&t, from->exact[index], from->bounds[index], op);
    }
    finish(&out->exact[to], &out->bounds[to], &t, dtype, op, averaged);
    return LS_OK;
}

int ls_cells__reduce(ls_cells *out, ls_arena *arena, const ls_cells *cells, const int *members,
                     int count, ls_dtype dtype, ls_op op) {
    LS_TRY(ls_cells__new(out, arena, &cells[members[0]].shape, dtype));
    bool mean = op == LS_AVG;
    for (size_t i = 0; i < out->count; i++) {
        LS_TRY(ls_cells__fold(out, i, cells, members, count, i, dtype, mean ? LS_SUM : op,
                              mean ? (size_t)count : 1));
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

int ls_cells__matmul(ls_cells *out, ls_arena *arena, const ls_cells *a, const ls_cells *b,
                     ls_dtype dtype) {
    size_t rows = (size_t)a->shape.dim[0], inner = (size_t)a->shape.dim[1];
    size_t columns = (size_t)b->shape.dim[1];
    LS_TRY(ls_cells__new(out, arena, &LS_SHAPE((int64_t)rows, (int64_t)columns), dtype));
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            double sum = 0, brought = 0, magnitude = 0;
            for (size_t k = 0; k < inner; k++) {
                size_t i = r * inner + k, j = k * columns + c;
                double x = fabs(a->exact[i]), y = fabs(b->exact[j]);
                sum += a->exact[i] * b->exact[j];
                brought += x * b->bounds[j] + y * a->bounds[i] + a->bounds[i] * b->bounds[j];
                magnitude += (x + a->bounds[i]) * (y + b->bounds[j]);
            }
            out->exact[r * columns + c] = sum;
            out->bounds[r * columns + c] = brought +
                                           ls_bound_sum_of_products(dtype, inner, magnitude) +
                                           ls_bound_sum_of_products(LS_F64, inner, magnitude);
        }
    }
    return LS_OK;
}

int ls_cells__sum(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, ls_dtype dtype) {
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
    int *which = ls_arena_alloc(arena, length, sizeof *which);
    ls_cells *slices = ls_arena_alloc(arena, length, sizeof *slices);
    if (which == NULL || slices == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t k = 0; k < length; k++) {
        which[k] = (int)k;
        LS_TRY(ls_cells__narrow(&slices[k], arena, in, d, (int64_t)k, 1, dtype));
    }
    for (size_t i = 0; i < out->count && length > 0; i++) {
        LS_TRY(ls_cells__fold(out, i, slices, which, (int)length, i, dtype, LS_SUM, 1));
    }
    return LS_OK;
}
