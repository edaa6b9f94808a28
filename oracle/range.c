// See range.h.
#include "oracle/range.h"

#include <math.h>

#include "kernels/element.h"
#include "kernels/field.h"
#include "orders/bound.h"

double ls_range__rounded(double value, ls_dtype dtype) {
    if (dtype == LS_F64) {
        return value;
    }
    uint64_t bits = 0;
    ls_element_from_f64(&bits, dtype, value);
    return ls_element_to_f64(&bits, dtype);
}

// The largest effect on a number of this size of rounding to dtype, and of this file's f64.
static double step_of(double value, ls_dtype dtype) {
    double own = ls_bound_step(LS_F64, fabs(value));
    return dtype == LS_F64 ? 2 * own : own + ls_bound_step(dtype, fabs(value));
}

static oracle_range unknown(double guess) {
    return (oracle_range){guess, -INFINITY, INFINITY, fabs(guess)};
}

static oracle_range sized(oracle_range a, double size) {
    a.size = size;
    return a;
}

// Not hypot: the oracle asks this for every operation.
static double together(oracle_range a, oracle_range b) {
    return sqrt(a.size * a.size + b.size * b.size);
}

static bool is_unknown(oracle_range a) {
    return isinf(a.lo) && isinf(a.hi) && a.lo < a.hi;
}

static bool is_nan(oracle_range a) {
    return isnan(a.lo) && isnan(a.hi);
}

static oracle_range widened(double mid, double lo, double hi, ls_dtype dtype) {
    if ((isnan(lo) && isnan(hi)) || (isinf(lo) && lo == hi)) {
        return ls_range__point(lo);
    }
    lo -= step_of(lo, dtype);
    hi += step_of(hi, dtype);
    double least = ls_range__rounded(lo, dtype), most = ls_range__rounded(hi, dtype);
    if (isinf(least) && least == most) {
        return ls_range__point(least);
    }
    double near = ls_range__rounded(mid, dtype);
    return isfinite(least) && isfinite(most) ? (oracle_range){near, lo, hi, fabs(near)}
                                             : unknown(near);
}

oracle_range ls_range__point(double value) {
    return (oracle_range){value, value, value, fabs(value)};
}

oracle_range ls_range__about(double value, double of_inputs, double own) {
    if (!isfinite(value) && isfinite(of_inputs)) {
        return ls_range__point(value);
    }
    double error = of_inputs + own;
    return isfinite(value) && isfinite(error)
               ? (oracle_range){value, value - error, value + error, fabs(value)}
               : unknown(value);
}

oracle_range ls_range__constant(double value, ls_dtype dtype) {
    double stored = ls_range__rounded(value, dtype);
    value = dtype == LS_FIELD ? stored : value;
    return (oracle_range){stored, fmin(stored, value), fmax(stored, value), fabs(stored)};
}

// Of numbers of the field nothing but `mid` is known, and that exactly.
double ls_range__product(double a, double b, ls_dtype dtype) {
    return dtype == LS_FIELD ? ls_field_product_f64(a, b) : a * b;
}

oracle_range ls_range__add(oracle_range a, oracle_range b, ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return ls_range__point(ls_field_sum_f64(a.mid, b.mid));
    }
    return sized(widened(a.mid + b.mid, a.lo + b.lo, a.hi + b.hi, dtype), together(a, b));
}

oracle_range ls_range__sub(oracle_range a, oracle_range b, ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return ls_range__point(ls_field_sum_f64(a.mid, ls_field_product_f64(-1, b.mid)));
    }
    return sized(widened(a.mid - b.mid, a.lo - b.hi, a.hi - b.lo, dtype), together(a, b));
}

// The smallest and the largest of four corners. Of some that are NaN nothing is known.
static oracle_range corners(double mid, const double *corner, ls_dtype dtype) {
    double lo = corner[0], hi = corner[0];
    int nans = 0;
    for (int i = 0; i < 4; i++) {
        nans += isnan(corner[i]) ? 1 : 0;
        lo = fmin(lo, corner[i]);
        hi = fmax(hi, corner[i]);
    }
    return nans == 0 || nans == 4 ? widened(mid, lo, hi, dtype)
                                  : unknown(ls_range__rounded(mid, dtype));
}

oracle_range ls_range__mul(oracle_range a, oracle_range b, ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return ls_range__point(ls_field_product_f64(a.mid, b.mid));
    }
    if ((is_unknown(a) && !is_nan(b)) || (is_unknown(b) && !is_nan(a))) {
        return unknown(ls_range__rounded(a.mid * b.mid, dtype));
    }
    const double corner[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    return sized(corners(a.mid * b.mid, corner, dtype), a.size * b.size);
}

oracle_range ls_range__div(oracle_range a, oracle_range b, ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return ls_range__point(ls_field_quotient_f64(a.mid, b.mid));
    }
    bool nan = is_nan(a) || is_nan(b), zero = b.lo == 0 && b.hi == 0 && a.lo == a.hi;
    if (nan || zero) {
        return ls_range__point(nan ? NAN : a.mid / b.mid);
    }
    if (!(b.lo > 0 || b.hi < 0) || is_unknown(a)) {
        return unknown(ls_range__rounded(a.mid / b.mid, dtype));
    }
    const double corner[] = {a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi};
    return sized(corners(a.mid / b.mid, corner, dtype), a.size / fabs(b.mid));
}

double ls_range__least_size(oracle_range a) {
    if (is_nan(a)) {
        return NAN;
    }
    if (a.lo > 0) {
        return a.lo;
    }
    return a.hi < 0 ? -a.hi : 0;
}

oracle_range ls_range__square(oracle_range a, ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return ls_range__mul(a, a, dtype);
    }
    double largest = fmax(fabs(a.lo), fabs(a.hi)), smallest = ls_range__least_size(a);
    oracle_range out = widened(a.mid * a.mid, smallest * smallest, largest * largest, dtype);
    out.lo = isfinite(out.hi) ? fmax(out.lo, 0) : out.lo;  // no rounding makes it negative
    return sized(out, a.size * a.size);
}

oracle_range ls_range__sqrt(oracle_range a, ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return ls_range__point((double)ls_field_root(ls_field_of(a.mid), 0));
    }
    double least = a.lo < 0 && a.hi >= 0 ? 0 : sqrt(a.lo);
    oracle_range out = widened(sqrt(a.mid), least, sqrt(a.hi), dtype);
    out.lo = out.lo < 0 && isfinite(out.lo) ? 0 : out.lo;
    return sized(out, sqrt(a.size));
}

oracle_range ls_range__limit(oracle_range a, double limit) {
    if (isfinite(limit) && fabs(a.mid) <= limit) {
        a.lo = fmax(a.lo, -limit);
        a.hi = fmin(a.hi, limit);
        a.size = fmin(a.size, limit);
    }
    return a;
}

void ls_squares__add(oracle_squares *sum, oracle_range value) {
    if (sum->field) {
        sum->mid += ls_field_product_f64(value.mid, value.mid);
        return;
    }
    double largest = fmax(fabs(value.lo), fabs(value.hi)), smallest = ls_range__least_size(value);
    sum->mid += value.mid * value.mid;
    sum->lo += smallest * smallest;
    sum->hi += largest * largest;
    sum->count++;
}

oracle_range ls_squares__sum(const oracle_squares *sum, ls_dtype dtype) {
    if (sum->field) {
        return ls_range__point(ls_field_sum_f64(sum->mid, 0));
    }
    double error = ls_bound_sum_of_products(dtype, sum->count, sum->hi) +
                   ls_bound_sum_of_products(LS_F64, sum->count, sum->hi);
    if (!isfinite(sum->hi) || !isfinite(error)) {
        return widened(sum->mid, sum->lo, isnan(sum->hi) ? sum->hi : INFINITY, dtype);
    }
    double mid = ls_range__rounded(sum->mid, dtype);
    return (oracle_range){mid, fmax(sum->lo - error, 0), sum->hi + error, mid};
}

oracle_range ls_range__stored(oracle_range a, ls_dtype dtype, bool to_either_side) {
    if (dtype == LS_FIELD) {
        return ls_range__point(a.mid);
    }
    oracle_range out = widened(a.mid, a.lo, a.hi, dtype);
    double largest = ls_dtype_format(dtype).max;
    if (!isfinite(out.lo)) {
        return out;
    }
    if (to_either_side) {
        out.lo -= ls_bound_step(dtype, fabs(a.lo));
        out.hi += ls_bound_step(dtype, fabs(a.hi));
    }
    return out.lo < -largest || out.hi > largest ? unknown(out.mid) : sized(out, a.size);
}

double ls_range__bound(oracle_range a) {
    if (is_nan(a) || (isinf(a.lo) && a.lo == a.hi)) {
        return 0;
    }
    return isfinite(a.lo) && isfinite(a.hi) && isfinite(a.mid) ? fmax(a.hi - a.mid, a.mid - a.lo)
                                                               : INFINITY;
}

unsigned char ls_range__vacuous(oracle_range a) {
    double bound = ls_range__bound(a);
    bool proves = isinf(bound) || ls_bound_proves(bound, fmax(fabs(a.mid), a.size));
    return proves ? LS_OVERFLOW_NONE : LS_BOUND_VACUOUS;
}
