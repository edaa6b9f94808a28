// Arrays of the oracle of programs: products, casts, dropout, softmax, cross entropy, norms and
// rows scaled to a norm, of whole arrays, plain in f64, with the possible distance of a sharded
// computation.
#include "runner/program/program_cells.h"

#include <math.h>
#include <string.h>

#include "kernels/field.h"
#include "kernels/kernels.h"
#include "orders/bound.h"

#define F64_STEPS                                                                                  \
    16  // roundings of f64 in a value's computation, including functions of the C library
#define EITHER ((unsigned char)(LS_OVERFLOW_UP | LS_OVERFLOW_DOWN))

// Rounds a value with `error` once to the type.
static void set_rounded(ls_cells *out, size_t i, ls_dtype dtype, double value, double error) {
    double reach = fabs(value) + error;
    out->exact[i] = value;
    out->sizes[i] = fabs(value);
    out->bounds[i] = !isfinite(value) ? 0
                                      : error + ls_bound_roundings(dtype, 1, reach) +
                                            ls_bound_roundings(LS_F64, F64_STEPS, reach) +
                                            ls_bound_step(dtype, 0);
    if (isfinite(reach)) {
        out->overflow[i] = ls_bound_overflow(dtype, reach + out->bounds[i], reach);
    } else {
        out->overflow[i] = isnan(value) ? LS_OVERFLOW_NONE : EITHER;
    }
}

// ---- Products -----------------------------------------------------------------------------------
// One element of a product: row r of a by column c of b.
static void multiply(ls_cells *out, const ls_cells *a, size_t r, const ls_cells *b, size_t c,
                     ls_dtype dtype) {
    size_t inner = (size_t)b->shape.dim[0], stride = (size_t)b->shape.dim[1];
    size_t i = r * inner, j = c, to = r * stride + c;
    double sum = 0, brought = 0, magnitude = 0, squares = 0;
    bool unsure = false;
    for (size_t k = 0; dtype == LS_FIELD && k < inner; k++) {
        double product = ls_field_product_f64(a->exact[i + k], b->exact[j + k * stride]);
        out->exact[to] = ls_field_sum_f64(out->exact[to], product);
    }
    if (dtype == LS_FIELD) {
        return;
    }
    for (size_t k = 0; k < inner; k++, i++, j += stride) {
        double x = fabs(a->exact[i]), x_bound = a->bounds[i];
        double y = fabs(b->exact[j]), y_bound = b->bounds[j];
        sum += a->exact[i] * b->exact[j];
        squares += pow(a->sizes[i] * b->sizes[j], 2);
        if (isfinite(x) && isfinite(y)) {
            brought += x * y_bound + y * x_bound + x_bound * y_bound;
            magnitude += (x + x_bound) * (y + y_bound);
        } else {
            unsure = unsure || (x_bound > 0 && x <= x_bound) || (y_bound > 0 && y <= y_bound);
        }
        unsure = unsure || a->overflow[i] != 0 || b->overflow[j] != 0;
    }
    double error = ls_bound_roundings(dtype, inner, magnitude);
    unsure = unsure || ls_bound_overflow(dtype, magnitude + error, 0) != 0;
    out->exact[to] = sum;
    out->sizes[to] = fmax(fabs(sum), sqrt(squares));
    out->overflow[to] = unsure ? EITHER : LS_OVERFLOW_NONE;
    out->bounds[to] = brought + error + (double)inner * ls_bound_step(dtype, 0) +
                      ls_bound_roundings(LS_F64, inner, magnitude);
}

int ls_cells__matmul(ls_cells *out, ls_arena *arena, const ls_cells *a, const ls_cells *b,
                     ls_dtype dtype) {
    size_t rows = (size_t)a->shape.dim[0];
    size_t columns = (size_t)b->shape.dim[1];
    LS_TRY(ls_cells__new(out, arena, &LS_SHAPE((int64_t)rows, (int64_t)columns), dtype));
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            multiply(out, a, r, b, c, dtype);
        }
    }
    return LS_OK;
}

// ---- Casts --------------------------------------------------------------------------------------
static int cast_moved(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype from,
                      ls_dtype to) {
    void *bits = ls_arena_alloc(arena, in->count, ls_dtype_bytes(to));
    LS_TRY(bits != NULL ? LS_OK : LS_ERR_MEMORY);
    if (in->count > 0) {
        ls_kernel_convert_reference(bits, to, in->bits, from, in->count);
    }
    return ls_cells__of(out, arena, bits, &in->shape, to);
}

int ls_cells__cast(ls_cells *out, bool *known, ls_arena *arena, const ls_cells *in, ls_dtype from,
                   ls_dtype to) {
    *known = true;
    if (from == LS_FIELD && to == LS_FIELD) {
        *out = *in;
        return LS_OK;
    }
    if (in->bits != NULL) {
        return cast_moved(out, arena, in, from, to);
    }
    LS_TRY(ls_cells__new(out, arena, &in->shape, to));
    double largest = ls_dtype_is_float(to) ? ls_dtype_format(to).max : 0;
    for (size_t i = 0; i < in->count && *known; i++) {
        double value = in->exact[i], bound = in->bounds[i];
        if (!ls_dtype_is_float(to)) {
            double low = trunc(value - bound), high = trunc(value + bound);
            *known = low == high && in->overflow[i] == LS_OVERFLOW_NONE;
            ls_cells__set(out, i, to, low);
            continue;
        }
        bool saturates = ls_bound_overflow(to, INFINITY, INFINITY) == LS_OVERFLOW_NONE;
        if (saturates && fabs(value) > largest) {
            value = copysign(largest, value);
        }
        set_rounded(out, i, to, value, bound);
        out->sizes[i] = in->sizes[i];
        out->overflow[i] |= saturates ? LS_OVERFLOW_NONE : in->overflow[i];
        *known = *known && !(saturates && in->overflow[i] != LS_OVERFLOW_NONE);
    }
    return LS_OK;
}

// ---- Dropout ------------------------------------------------------------------------------------
int ls_cells__drop(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype dtype, double p,
                   ls_cells_drops drops, void *arg) {
    LS_TRY(ls_cells__new(out, arena, &in->shape, dtype));
    for (size_t i = 0; i < in->count; i++) {
        if (drops(arg, i)) {
            ls_cells__set(out, i, dtype, 0);
            continue;
        }
        if (dtype == LS_FIELD) {
            out->exact[i] = ls_field_quotient_f64(in->exact[i], 1 - p);
            continue;
        }
        set_rounded(out, i, dtype, in->exact[i] / (1 - p), in->bounds[i] / (1 - p));
        out->sizes[i] = in->sizes[i] / (1 - p);
        out->overflow[i] |= in->overflow[i];
    }
    return LS_OK;
}

// ---- Lines along a dimension --------------------------------------------------------------------
typedef struct line {
    const ls_cells *of;
    size_t first, stride, length;
} line;

static line line_at(const ls_cells *in, int dim, size_t index) {
    size_t inner = 1, length = (size_t)in->shape.dim[dim];
    for (int d = dim + 1; d < in->shape.ndim; d++) {
        inner *= (size_t)in->shape.dim[d];
    }
    return (line){in, index / inner * length * inner + index % inner, inner, length};
}

static size_t at(const line *of, size_t k) {
    return of->first + k * of->stride;
}

// The terms of a line's softmax. A rank rounds each power and sums them in the type; the logarithm
// of a sum of powers moves by at most the largest change of a term.
typedef struct normaliser {
    double largest, sum;
    double brought;          // change of the logarithm of the sum with its terms
    double error;            // of the sum
    unsigned char overflow;  // of all, if a value may be infinite: then NaN
} normaliser;

// The sum of the powers of the line's values, each shifted by `bounds` of its bounds.
static double logarithm_of_sum(const line *of, double bounds) {
    double largest = -(double)INFINITY, sum = 0;
    for (size_t k = 0; k < of->length; k++) {
        largest = fmax(largest, of->of->exact[at(of, k)] + bounds * of->of->bounds[at(of, k)]);
    }
    for (size_t k = 0; k < of->length; k++) {
        sum += exp(of->of->exact[at(of, k)] + bounds * of->of->bounds[at(of, k)] - largest);
    }
    return largest + log(sum);
}

static normaliser normalise(const line *of, ls_dtype dtype) {
    normaliser n = {.largest = -(double)INFINITY};
    bool any = false;
    for (size_t k = 0; k < of->length; k++) {
        double x = of->of->exact[at(of, k)];
        n.brought = fmax(n.brought, of->of->bounds[at(of, k)]);
        n.largest = isnan(x) || (any && x <= n.largest) ? n.largest : x;
        any = any || !isnan(x);
        n.overflow |= of->of->overflow[at(of, k)] != LS_OVERFLOW_NONE ? EITHER : LS_OVERFLOW_NONE;
    }
    for (size_t k = 0; k < of->length; k++) {
        n.sum += exp(of->of->exact[at(of, k)] - n.largest);
    }
    // At most the largest bound; less if that bound belongs to a term that adds little.
    double up = logarithm_of_sum(of, 1), down = logarithm_of_sum(of, -1);
    double between = fmax(up - n.largest - log(n.sum), n.largest + log(n.sum) - down) +
                     ls_bound_roundings(LS_F64, of->length + F64_STEPS, fabs(up) + fabs(down));
    n.brought = between < n.brought ? between : n.brought;
    n.error = ls_bound_roundings(dtype, of->length + 1, n.sum) +
              ls_bound_roundings(LS_F64, of->length + F64_STEPS, n.sum) +
              (double)of->length * ls_bound_step(dtype, 0);
    return n;
}

static ls_shape without(const ls_shape *shape, int dim) {
    ls_shape out = *shape;
    for (int d = dim; d + 1 < out.ndim; d++) {
        out.dim[d] = out.dim[d + 1];
    }
    out.ndim -= 1;
    return out;
}

// The error of a logarithm of the sum, including that of the values; the largest is rounded, too.
static double logarithm_error(const normaliser *n, double bound) {
    double relative = n->error / n->sum;
    return bound + n->brought + (relative < 1 ? -log1p(-relative) : (double)INFINITY) +
           ls_bound_roundings(LS_F64, F64_STEPS, fabs(log(n->sum)) + fabs(n->largest));
}

int ls_cells__softmax(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, ls_dtype dtype,
                      bool logarithm) {
    ls_shape lines = without(&in->shape, dim);
    size_t count = 0;
    LS_TRY(ls_shape_count(&count, &lines));
    LS_TRY(ls_cells__new(out, arena, &in->shape, dtype));
    for (size_t i = 0; i < count && out->count > 0; i++) {
        line of = line_at(in, dim, i);
        normaliser n = normalise(&of, dtype);
        for (size_t k = 0; k < of.length; k++) {
            size_t e = at(&of, k);
            double above = in->exact[e] - n.largest, error = logarithm_error(&n, in->bounds[e]);
            double value = logarithm ? above - log(n.sum) : exp(above) / n.sum;
            double up = value > 0 ? value * expm1(error) : exp(above + error) / n.sum;
            set_rounded(out, e, dtype, value, logarithm ? error : up);
            out->sizes[e] = logarithm ? fmax(1, fabs(value)) : value;  // the sum of powers is >= 1
            out->overflow[e] |= n.overflow;
        }
    }
    return LS_OK;
}

// ---- Cross entropy ------------------------------------------------------------------------------
// A number with its error.
typedef struct about {
    double value, error;
} about;

static about weight_of(const ls_cells_loss *loss, size_t class) {
    return loss->weights == NULL
               ? (about){1, 0}
               : (about){loss->weights->exact[class], loss->weights->bounds[class]};
}

static about product(about a, about b) {
    return (about){a.value * b.value,
                   fabs(a.value) * b.error + fabs(b.value) * a.error + a.error * b.error};
}

// The sum of w[c] (-log p[c]): ranks sum w[c] (x[c] - largest), rounding their terms and all sums,
// and compute the rest in f64.
static about of_all_classes(const ls_cells_loss *loss, const line *of, const normaliser *n,
                            ls_dtype dtype) {
    about sum = {0, 0};
    double size = 0, weights = 0;
    for (size_t c = 0; c < of->length; c++) {
        size_t e = at(of, c);
        about w = weight_of(loss, c);
        double below = n->largest - of->of->exact[e];
        about term =
            product(w, (about){below + log(n->sum), logarithm_error(n, of->of->bounds[e])});
        sum.value += term.value;
        sum.error += term.error;
        size += (fabs(w.value) + w.error) * (fabs(below) + of->of->bounds[e] + n->brought);
        weights += fabs(w.value) + w.error;
    }
    sum.error +=
        ls_bound_roundings(dtype, of->length + 1, size) +
        ls_bound_roundings(LS_F64, of->length + F64_STEPS, size + weights * fabs(log(n->sum))) +
        (double)of->length * ls_bound_step(dtype, 0);
    return sum;
}

int ls_cells__cross_entropy(ls_cells *out, ls_arena *arena, const ls_cells_loss *loss,
                            ls_dtype dtype) {
    const ls_cells *logits = loss->logits;
    double smoothing = loss->smoothing, classes = (double)logits->shape.dim[1];
    LS_TRY(ls_cells__new(out, arena, &loss->targets->shape, dtype));
    for (size_t i = 0; i < out->count; i++) {
        int64_t target = ((const int64_t *)loss->targets->bits)[i];
        if (target == loss->ignored) {
            ls_cells__set(out, i, dtype, 0);
            continue;
        }
        line of = line_at(logits, 1, i);
        normaliser n = normalise(&of, dtype);
        size_t e = at(&of, (size_t)target);
        about own = product(weight_of(loss, (size_t)target),
                            (about){n.largest - logits->exact[e] + log(n.sum),
                                    logarithm_error(&n, logits->bounds[e])});
        if (smoothing > 0) {
            about all = of_all_classes(loss, &of, &n, dtype);
            own.value = (1 - smoothing) * own.value + smoothing / classes * all.value;
            own.error = (1 - smoothing) * own.error + smoothing / classes * all.error;
        }
        set_rounded(out, i, dtype, own.value, own.error);
        out->sizes[i] = fmax(weight_of(loss, (size_t)target).value, fabs(own.value));
        out->overflow[i] |= logits->overflow[e];
    }
    return LS_OK;
}

int ls_cells__sum_losses(ls_cells *out, ls_arena *arena, const ls_cells *losses,
                         const ls_cells_loss *loss, bool mean, ls_dtype dtype) {
    about sum = {0, 0}, by = {0, 0};
    double size = 0, weights = 0, squares = 0;
    LS_TRY(ls_cells__new(out, arena, &(ls_shape){.ndim = 0}, dtype));
    for (size_t i = 0; i < losses->count; i++) {
        int64_t target = ((const int64_t *)loss->targets->bits)[i];
        about w = target == loss->ignored ? (about){0, 0} : weight_of(loss, (size_t)target);
        sum.value += losses->exact[i];
        sum.error += losses->bounds[i];
        size += fabs(losses->exact[i]) + losses->bounds[i];
        by.value += w.value;
        by.error += w.error;
        weights += fabs(w.value) + w.error;
        squares += pow(losses->sizes[i], 2);
        out->overflow[0] |= losses->overflow[i];
    }
    sum.error +=
        ls_bound_sum(dtype, losses->count, size) + ls_bound_sum(LS_F64, losses->count, size);
    by.error +=
        ls_bound_sum(dtype, losses->count, weights) + ls_bound_sum(LS_F64, losses->count, weights);
    if (mean) {
        double least = fabs(by.value) - by.error;
        sum.value /= by.value;
        sum.error = least > 0 ? (sum.error + fabs(sum.value) * by.error) / least : (double)INFINITY;
    }
    unsigned char overflow = out->overflow[0];
    set_rounded(out, 0, dtype, sum.value, sum.error);
    out->sizes[0] = fmax(fabs(sum.value), sqrt(squares) / (mean ? fabs(by.value) : 1));
    out->overflow[0] |= overflow;
    return LS_OK;
}

// ---- Norms --------------------------------------------------------------------------------------
// A norm changes by at most the norm of the changes of its terms.
int ls_cells__norm(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, double p,
                   ls_dtype dtype) {
    ls_shape lines = without(&in->shape, dim);
    LS_TRY(ls_cells__new(out, arena, &lines, dtype));
    for (size_t i = 0; i < out->count; i++) {
        line of = line_at(in, dim, i);
        double sum = 0, moved = 0, size = 0;
        unsigned char overflow = LS_OVERFLOW_NONE;
        for (size_t k = 0; k < of.length; k++) {
            double x = fabs(in->exact[at(&of, k)]);
            if (isinf(p)) {
                sum = x > sum || isnan(x) ? x : sum;
            } else {
                sum = sum + pow(x, p);
            }
            moved = isinf(p) ? fmax(moved, in->bounds[at(&of, k)])
                             : moved + pow(in->bounds[at(&of, k)], p);
            size += pow(in->sizes[at(&of, k)], 2);
            overflow |= in->overflow[at(&of, k)];
        }
        double value = isinf(p) ? sum : pow(sum, 1 / p);
        double error = (isinf(p) ? moved : pow(moved, 1 / p)) +
                       ls_bound_roundings(LS_F64, of.length + F64_STEPS, value);
        set_rounded(out, i, dtype, value, error);
        out->sizes[i] = fmax(value, sqrt(size));
        out->overflow[i] |= overflow != 0 ? LS_OVERFLOW_UP : LS_OVERFLOW_NONE;
    }
    return LS_OK;
}

// One row in place. The norm and the factor are rounded to the compute type, the product to that
// type and to the row's.
static void scale_row(ls_cells *out, size_t row, double max_norm, double p, double eps,
                      ls_dtype dtype) {
    size_t columns = (size_t)out->shape.dim[1];
    ls_dtype wide = dtype == LS_F64 ? LS_F64 : LS_F32;
    double sum = 0;
    for (size_t c = 0; c < columns; c++) {
        double x = fabs(out->exact[row * columns + c]);
        sum = isinf(p) ? fmax(sum, x) : sum + pow(x, p);
    }
    double norm = isinf(p) ? sum : pow(sum, 1 / p);
    double unsure = ls_bound_roundings(wide, 2, norm) + ls_bound_roundings(LS_F64, columns, norm);
    if (norm + unsure <= max_norm) {
        return;
    }
    double factor = norm > max_norm ? max_norm / (norm + eps) : 1;
    for (size_t c = 0; c < columns; c++) {
        size_t i = row * columns + c;
        double value = out->exact[i] * factor, size = fabs(value), made_of = out->sizes[i] * factor;
        double error = out->bounds[i] + ls_bound_roundings(wide, 4, size) +
                       (fabs(norm - max_norm) <= unsure ? size * (unsure + eps) / norm : 0);
        set_rounded(out, i, dtype, value, error);
        out->sizes[i] = made_of;
    }
}

int ls_cells__renormalise(ls_cells *out, ls_arena *arena, const ls_cells *weight,
                          const ls_cells *ids, double max_norm, double p, double eps,
                          ls_dtype dtype) {
    size_t rows = (size_t)weight->shape.dim[0];
    ls_block all = {.offset.ndim = weight->shape.ndim, .size = weight->shape};
    unsigned char *seen = ls_arena_alloc(arena, rows, 1);
    LS_TRY(seen != NULL ? ls_cells__cut(out, arena, weight, &all, dtype) : LS_ERR_MEMORY);
    out->bits = NULL;
    for (size_t k = 0; k < ids->count; k++) {
        int64_t row = ((const int64_t *)ids->bits)[k];
        if (seen[row] == 0) {
            seen[row] = 1;
            scale_row(out, (size_t)row, max_norm, p, eps, dtype);
        }
    }
    return LS_OK;
}
