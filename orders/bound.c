// The derived bound. See bound.h for what it promises and docs/bounds.md for why it holds.
#include "orders/bound.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static double power_of_two(int exponent) {
    LS_ASSERT(exponent >= -1074 && exponent < 1024);
    uint64_t bits =
        exponent < -1022 ? (uint64_t)1 << (exponent + 1074) : (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

static double half_ulp(const ls_float_format *f, double magnitude) {
    if (!(magnitude < INFINITY)) {
        return INFINITY;
    }
    // By bits, not by frexp and ldexp: the oracle asks this for every operation that it bounds.
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7FF) - 1022;  // magnitude < 2^exponent
    int ulp = exponent - f->precision;
    if (ulp < f->subnormal_exponent) {
        ulp = f->subnormal_exponent;
    }
    // Half of f64's smallest subnormal is not a double: the bound is rounded up.
    return power_of_two(ulp - 1 < -1074 ? -1074 : ulp - 1);
}

// ---- One step -----------------------------------------------------------------------------------
static double step_of(const ls_float_format *f, double magnitude) {
    double first = 0.0;  // of the rounding to f16 before
    if (f->saturates) {
        const ls_float_format half = ls_dtype_format(LS_F16);
        first = half_ulp(&half, magnitude);
    }
    return first + half_ulp(f, magnitude + first);
}

double ls_bound_step(ls_dtype dtype, double magnitude) {
    const ls_float_format format = ls_dtype_format(dtype);
    return ls_dtype_is_float(dtype) ? step_of(&format, magnitude) : 0.0;
}

double ls_bound_roundoff(ls_dtype dtype) {
    if (!ls_dtype_is_float(dtype)) {
        return 0.0;
    }
    const ls_float_format format = ls_dtype_format(dtype);
    double u = ldexp(1.0, -format.precision);
    return format.saturates ? u + 0x1p-11 + u * 0x1p-11 : u;
}

static bool passes_max(const ls_float_format *f, double magnitude) {
    return !(magnitude <= f->max);
}

// The error of a step of a saturating type when the exact value would pass the largest finite one:
// the distance to the limit.
static double saturation_error(const ls_float_format *f, double magnitude) {
    return f->saturates && passes_max(f, magnitude) ? magnitude + f->max : 0.0;
}

static unsigned char overflow_of(const ls_float_format *f, double up, double down) {
    if (f->saturates) {
        return LS_OVERFLOW_NONE;
    }
    return (unsigned char)((passes_max(f, up) ? LS_OVERFLOW_UP : 0) |
                           (passes_max(f, down) ? LS_OVERFLOW_DOWN : 0));
}

unsigned char ls_bound_overflow(ls_dtype dtype, double up, double down) {
    const ls_float_format format = ls_dtype_format(dtype);
    return overflow_of(&format, up, down);
}

void ls_bound_add_roundings(double *bounds, unsigned char *overflow, ls_dtype dtype, int roundings,
                            const double *sizes, size_t count) {
    LS_ASSERT(ls_dtype_is_float(dtype));
    const ls_float_format format = ls_dtype_format(dtype);
    for (size_t i = 0; i < count; i++) {
        double most = sizes[i] + bounds[i];
        double rounded = roundings * step_of(&format, most);
        bounds[i] += roundings * step_of(&format, most + rounded);
        overflow[i] = overflow_of(&format, most + rounded, most + rounded);
    }
}

// ---- Sums of known size -------------------------------------------------------------------------
// What rounding to a type does, looked up once for many elements.
typedef struct stepping {
    bool is_float;
    ls_float_format format;
    double roundoff, least;  // least: the error of a step at 0
} stepping;

static stepping stepping_to(ls_dtype dtype) {
    return (stepping){.is_float = ls_dtype_is_float(dtype),
                      .format = ls_dtype_format(dtype),
                      .roundoff = ls_bound_roundoff(dtype),
                      .least = ls_bound_step(dtype, 0.0)};
}

// underflow: what products can lose to it, half a subnormal each.
static double sum_bound(const stepping *of, size_t roundings, double underflow, double magnitudes) {
    if (!of->is_float || roundings == 0) {
        return 0.0;
    }
    double error = (double)roundings * of->roundoff * magnitudes + underflow;
    double largest = magnitudes + error;
    return passes_max(&of->format, largest) && !of->format.saturates
               ? INFINITY
               : error + saturation_error(&of->format, largest);
}

double ls_bound_roundings(ls_dtype dtype, size_t roundings, double magnitudes) {
    return expm1((double)roundings * log1p(ls_bound_roundoff(dtype))) * magnitudes;
}

bool ls_bound_proves(double bound, double size) {
    return bound == 0.0 || 2.0 * bound < size;
}

double ls_bound_sum(ls_dtype dtype, size_t terms, double magnitudes) {
    const stepping of = stepping_to(dtype);
    return sum_bound(&of, terms > 0 ? terms - 1 : 0, 0.0, magnitudes);
}

void ls_bound_add_sums_of_products(double *bounds, ls_dtype dtype, size_t terms,
                                   const double *magnitudes, size_t count) {
    const stepping of = stepping_to(dtype);
    const double underflow = (double)terms * of.least;
    for (size_t i = 0; i < count; i++) {
        // (1 + u) for the product and (terms - 1) u for the sum of the rounded products.
        bounds[i] += sum_bound(&of, terms, underflow, magnitudes[i] * (1.0 + of.roundoff));
    }
}

double ls_bound_sum_of_products(ls_dtype dtype, size_t terms, double magnitudes) {
    double bound = 0.0;
    ls_bound_add_sums_of_products(&bound, dtype, terms, &magnitudes, 1);
    return bound;
}

// ---- Exact values -------------------------------------------------------------------------------
// Double-double: error below 2^-104 of the magnitudes that went in.
typedef struct pair {
    double hi;
    double lo;
} pair;

static pair two_sum(double a, double b) {
    double sum = a + b;
    double b_part = sum - a;
    return (pair){sum, (a - (sum - b_part)) + (b - b_part)};
}

static pair pair_add(pair a, pair b) {
    pair high = two_sum(a.hi, b.hi);
    if (!isfinite(high.hi)) {
        return (pair){high.hi, 0.0};
    }
    pair low = two_sum(a.lo, b.lo);
    pair sum = two_sum(high.hi, high.lo + low.hi);
    return two_sum(sum.hi, sum.lo + low.lo);
}

static pair pair_multiply(pair a, double b) {
    double product = a.hi * b;
    if (!isfinite(product)) {
        return (pair){product, 0.0};
    }
    double low = fma(a.hi, b, -product) + a.lo * b;
    return two_sum(product, low);
}

static pair pair_divide(pair a, double b) {
    double quotient = a.hi / b;
    if (!isfinite(quotient)) {
        return (pair){quotient, 0.0};
    }
    double rest = fma(-quotient, b, a.hi) + a.lo;
    return two_sum(quotient, rest / b);
}

// ---- Bounds of one element ----------------------------------------------------------------------
static int descending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x < y) - (x > y);
}

// The largest partial results, above and below zero.
typedef struct reach {
    double up, down;
} reach;

// The summation error over every order of terms [count], whose magnitudes may be off by `slack`
// each; *largest becomes the largest partial sums. scratch [2 * count].
static double summation_error(const double *terms, size_t count, double slack, double total,
                              ls_dtype dtype, double *scratch, reach *largest) {
    double *positive = scratch;
    double *negative = scratch + count;
    size_t positives = 0;
    size_t negatives = 0;
    for (size_t i = 0; i < count; i++) {
        if (terms[i] > 0) {
            positive[positives++] = terms[i];
        } else if (terms[i] < 0) {
            negative[negatives++] = -terms[i];
        }
    }
    qsort(positive, positives, sizeof *positive, descending);
    qsort(negative, negatives, sizeof *negative, descending);
    // A partial sum of k terms is at most the k largest of one sign, plus the errors so far. The
    // sizes of a tree's nodes, ascending, are at most 2, 3, ..., count.
    double up = 0.0;
    double down = 0.0;
    double error = 0.0;
    for (size_t k = 1; k <= count; k++) {
        up += k <= positives ? positive[k - 1] : 0.0;
        down += k <= negatives ? negative[k - 1] : 0.0;
        double off = (double)k * slack + error;
        double partial = fmax(up, down) + off;
        largest->up = fmax(largest->up, up + off);
        largest->down = fmax(largest->down, down + off);
        if (k > 1) {
            // The last node is the whole sum.
            double node = k < count ? partial : fmin(partial, total + (double)k * slack + error);
            error += ls_bound_step(dtype, node);
        }
    }
    return error;
}

typedef struct element_scratch {
    double *terms;   // [ranks]
    double *second;  // [ranks]
    double *sort;    // [2 * ranks]
} element_scratch;

static double rounded(ls_dtype dtype, double value) {
    unsigned char bytes[8];
    ls_element_from_f64(bytes, dtype, value);
    return ls_element_to_f64(bytes, dtype);
}

// A sum of products factor * terms, each rounded to dtype, then added in any order.
static double products_error(const double *terms, const double *factors, double factor,
                             size_t count, double total, ls_dtype dtype, element_scratch *scratch,
                             reach *largest) {
    double rounding = 0.0;
    double slack = 0.0;
    for (size_t i = 0; i < count; i++) {
        scratch->second[i] = terms[i] * (factors == NULL ? factor : factors[i]);
        double step = ls_bound_step(dtype, fabs(scratch->second[i]));
        rounding += step;
        slack = fmax(slack, step);
    }
    return rounding +
           summation_error(scratch->second, count, slack, total, dtype, scratch->sort, largest);
}

static unsigned char vacuous(double bound, double size) {
    return ls_bound_proves(bound, size) ? LS_OVERFLOW_NONE : LS_BOUND_VACUOUS;
}

static ls_bound_element bound_sum(const double *terms, size_t count, const ls_reduction *reduction,
                                  const double *factors, element_scratch *scratch) {
    ls_dtype dtype = reduction->dtype;
    pair sum = {0.0, 0.0};
    double magnitudes = 0.0;
    double ranks = (double)count;
    for (size_t i = 0; i < count; i++) {
        pair term = {terms[i], 0.0};
        if (reduction->op == LS_PREMUL_SUM) {
            term = pair_multiply(term, factors[i]);
        }
        sum = pair_add(sum, term);
        magnitudes += fabs(term.hi);
    }
    reach largest = {0.0, 0.0};
    double error = 0.0;
    if (reduction->op == LS_PREMUL_SUM) {
        error = products_error(terms, factors, 1.0, count, fabs(sum.hi), dtype, scratch, &largest);
    } else {
        error = summation_error(terms, count, 0.0, fabs(sum.hi), dtype, scratch->sort, &largest);
    }
    if (reduction->op == LS_AVG) {
        // Either divided at the end, or every term multiplied by the rounded reciprocal.
        double sum_exact = fabs(sum.hi);
        double divided = error / ranks;
        divided += ls_bound_step(dtype, sum_exact / ranks + divided);
        double reciprocal = rounded(dtype, 1.0 / ranks);
        double multiplied = products_error(terms, NULL, reciprocal, count, sum_exact * reciprocal,
                                           dtype, scratch, &largest);
        // fma: 1/ranks is not a double, the difference of the two must not cancel away.
        multiplied += fabs(fma(reciprocal, ranks, -1.0)) * sum_exact / ranks;
        error = fmax(divided, multiplied);
        sum = pair_divide(sum, ranks);
        magnitudes /= ranks;
    }
    const ls_float_format format = ls_dtype_format(dtype);
    error += saturation_error(&format, fmax(largest.up, largest.down));
    error += 0x1p-100 * magnitudes;  // of the double-double value itself
    return (ls_bound_element){sum.hi, sum.lo, error,
                              (unsigned char)(ls_bound_overflow(dtype, largest.up, largest.down) |
                                              vacuous(error, 2.0 * magnitudes / ranks))};
}

static ls_bound_element bound_product(const double *terms, size_t count, ls_dtype dtype) {
    pair product = {1.0, 0.0};
    double growth = 1.0;  // the largest that any partial product can be
    for (size_t i = 0; i < count; i++) {
        product = pair_multiply(product, terms[i]);
        growth *= fmax(1.0, fabs(terms[i]));
    }
    if (count == 1) {
        return (ls_bound_element){product.hi, product.lo, 0.0, LS_OVERFLOW_NONE};
    }
    double steps = (double)(count - 1);
    double u = ls_bound_roundoff(dtype);
    // ((1 + u)^steps - 1) |product|, and half a subnormal per step times what it can still grow by.
    double error = expm1(steps * log1p(u)) * fabs(product.hi);
    error += steps * ls_bound_step(dtype, 0.0) * growth * (1.0 + steps * u);
    double largest = growth * (1.0 + u * steps);
    const ls_float_format format = ls_dtype_format(dtype);
    error += saturation_error(&format, largest);
    error += 0x1p-100 * fabs(product.hi) + DBL_TRUE_MIN;
    // A partial product may have either sign.
    return (ls_bound_element){product.hi, product.lo, error,
                              (unsigned char)(ls_bound_overflow(dtype, largest, largest) |
                                              vacuous(error, fabs(product.hi)))};
}

// Operations without rounding: the fold itself, through the kernel.
static int bound_exact(ls_bound_element *out, const ls_reduction *reduction, size_t first,
                       size_t length) {
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    void *values = NULL;
    LS_TRY(ls_alloc(&values, length, bytes));
    int status = ls_order_reduce(NULL, LS_ORDER_ALL_REDUCE, values, reduction, 0, first, length);
    for (size_t i = 0; status == LS_OK && i < length; i++) {
        const char *value = (const char *)values + i * bytes;
        out[i] = (ls_bound_element){.hi = ls_element_to_f64(value, reduction->dtype)};
        if (reduction->dtype == LS_I64) {
            int64_t exact = 0;
            memcpy(&exact, value, sizeof exact);
            out[i].hi = (double)(exact >> 32) * 0x1p32;
            out[i].lo = (double)(exact & 0xffffffff);
        } else if (reduction->dtype == LS_U64) {
            uint64_t exact = 0;
            memcpy(&exact, value, sizeof exact);
            out[i].hi = (double)(exact >> 32) * 0x1p32;
            out[i].lo = (double)(exact & 0xffffffff);
        }
    }
    ls_free(values, length, bytes);
    return status;
}

static bool rounds(const ls_reduction *reduction) {
    ls_op op = reduction->op;
    return ls_dtype_is_float(reduction->dtype) &&
           (op == LS_SUM || op == LS_AVG || op == LS_PREMUL_SUM || op == LS_PROD);
}

int ls_bound_reduction(ls_bound_element *out, const ls_reduction *reduction, size_t first,
                       size_t length) {
    LS_ASSERT(out != NULL && reduction != NULL && reduction->in_count >= 1);
    LS_ASSERT(first <= reduction->count && length <= reduction->count - first);
    if (!rounds(reduction)) {
        return bound_exact(out, reduction, first, length);
    }
    size_t ranks = (size_t)reduction->in_count;
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, ranks, 5 * sizeof(double)));
    double *numbers = memory;
    double *factors = numbers + ranks;
    element_scratch scratch = {numbers, numbers + 2 * ranks, numbers + 3 * ranks};
    for (size_t k = 0; reduction->op == LS_PREMUL_SUM && k < ranks; k++) {
        factors[k] = rounded(reduction->dtype, reduction->premul[k]);
    }
    for (size_t i = 0; i < length; i++) {
        for (size_t k = 0; k < ranks; k++) {
            const char *in = reduction->in[k];
            numbers[k] = ls_element_to_f64(in + (first + i) * bytes, reduction->dtype);
        }
        out[i] = reduction->op == LS_PROD ? bound_product(numbers, ranks, reduction->dtype)
                                          : bound_sum(numbers, ranks, reduction, factors, &scratch);
    }
    ls_free(memory, ranks, 5 * sizeof(double));
    return LS_OK;
}

// actual - exact, without the rounding of a 64-bit integer to a double.
static double difference(const ls_bound_element *element, ls_dtype dtype, const void *actual) {
    if (dtype == LS_I64 || dtype == LS_U64) {
        uint64_t bits = 0;
        memcpy(&bits, actual, sizeof bits);
        double high = dtype == LS_I64 ? (double)((int64_t)bits >> 32) : (double)(bits >> 32);
        double low = (double)(bits & 0xffffffff);
        return (high * 0x1p32 - element->hi) + (low - element->lo);
    }
    return (ls_element_to_f64(actual, dtype) - element->hi) - element->lo;
}

double ls_bound_ratio_of(double actual, double exact, double bound, unsigned char overflow) {
    const unsigned char either = LS_OVERFLOW_UP | LS_OVERFLOW_DOWN;
    if (isnan(actual)) {
        bool can = isnan(exact) || (overflow & either) == either;
        if (isnan(exact)) {
            return 0.0;
        }
        return can ? 1.0 : INFINITY;
    }
    if (actual == exact) {
        return 0.0;
    }
    if (isinf(actual)) {
        if ((overflow & (actual > 0 ? LS_OVERFLOW_UP : LS_OVERFLOW_DOWN)) != 0) {
            return 1.0;
        }
        return INFINITY;
    }
    double distance = fabs(actual - exact);
    return bound > 0.0 && isfinite(bound) && isfinite(distance) ? distance / bound : INFINITY;
}

double ls_bound_ratio(const ls_bound_element *element, ls_dtype dtype, const void *actual) {
    LS_ASSERT(element != NULL && actual != NULL);
    double value = ls_element_to_f64(actual, dtype);
    if (!isfinite(value) || !isfinite(element->hi)) {
        return ls_bound_ratio_of(value, element->hi, element->bound, element->overflow);
    }
    return ls_bound_ratio_of(difference(element, dtype, actual), 0.0, element->bound, 0);
}

bool ls_bound_is_vacuous(const double *exact, const double *bounds, size_t count) {
    LS_ASSERT(count == 0 || (exact != NULL && bounds != NULL));
    size_t proven = 0, loose = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_loose = bounds[i] > 0 && !(bounds[i] < fabs(exact[i]));
        loose += is_loose ? 1 : 0;
        proven += !is_loose && (bounds[i] > 0 || exact[i] != 0) ? 1 : 0;
    }
    return loose > proven;
}
