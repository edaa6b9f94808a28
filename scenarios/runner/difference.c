// Counts differing elements, ulps and the ratio to a bound.
#include "scenarios/runner/difference.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

// An element's bits, widened.
static uint64_t element_bits(const void *element, ls_dtype dtype) {
    uint64_t bits = 0;
    memcpy(&bits, element, ls_dtype_bytes(dtype));
    return bits;
}

static bool element_is_nan(const void *element, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) && isnan(ls_element_to_f64(element, dtype));
}

bool ls_element_same(const void *a, const void *b, ls_dtype dtype) {
    if (memcmp(a, b, ls_dtype_bytes(dtype)) == 0) {
        return true;
    }
    return element_is_nan(a, dtype) && element_is_nan(b, dtype);
}

// Maps an element to an integer such that neighbouring values are neighbouring integers; both zeros
// map to the same one.
static int64_t ordered(uint64_t bits, ls_dtype dtype) {
    size_t width = 8 * ls_dtype_bytes(dtype);
    if (!ls_dtype_is_float(dtype)) {
        if (ls_dtype_is_signed(dtype) && width < 64) {
            return (int64_t)(bits << (64 - width)) >> (64 - width);
        }
        return (int64_t)bits;
    }
    uint64_t sign = (uint64_t)1 << (width - 1);
    int64_t magnitude = (int64_t)(bits & (sign - 1));
    return (bits & sign) != 0 ? -magnitude : magnitude;
}

uint64_t ls_element_ulps(const void *a, const void *b, ls_dtype dtype) {
    bool a_nan = element_is_nan(a, dtype);
    bool b_nan = element_is_nan(b, dtype);
    if (a_nan || b_nan) {
        return a_nan && b_nan ? 0 : UINT64_MAX;
    }
    uint64_t a_bits = element_bits(a, dtype);
    uint64_t b_bits = element_bits(b, dtype);
    if (dtype == LS_U64) {
        return a_bits > b_bits ? a_bits - b_bits : b_bits - a_bits;
    }
    int64_t x = ordered(a_bits, dtype);
    int64_t y = ordered(b_bits, dtype);
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

static void note_difference(ls_difference *out, size_t index, uint64_t ulps, double distance,
                            double bound) {
    if (out->differing == 0) {
        out->first = index;
    }
    out->differing += 1;
    if (ulps > out->max_ulps) {
        out->max_ulps = ulps;
    }
    // Zero against minus zero is a difference of nothing; NaN or an unequal infinity, of anything.
    double ratio = distance == 0 ? 0 : distance / bound;
    if (isnan(ratio) || isnan(distance) || isinf(distance)) {
        ratio = INFINITY;
    }
    if (ratio > out->bound_ratio) {
        out->bound_ratio = ratio;
        out->worst = index;
    }
}

void ls_difference_compute(ls_difference *out, const void *a, const void *b, ls_dtype dtype,
                           size_t count, const double *bound) {
    size_t bytes = ls_dtype_bytes(dtype);
    *out = (ls_difference){.elements = count, .first = count, .worst = count};
    if (count == 0 || memcmp(a, b, count * bytes) == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)a + i * bytes;
        const char *y = (const char *)b + i * bytes;
        if (ls_element_same(x, y, dtype)) {
            continue;
        }
        double distance = fabs(ls_element_to_f64(x, dtype) - ls_element_to_f64(y, dtype));
        note_difference(out, i, ls_element_ulps(x, y, dtype), distance, bound ? bound[i] : 0);
    }
}

void ls_difference_from_exact(ls_difference *out, const void *values, ls_dtype dtype,
                              const double *exact, const double *bound, size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    *out = (ls_difference){.elements = count, .first = count, .worst = count};
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)values + i * bytes;
        char wanted[8] = {0};
        ls_element_from_f64(wanted, dtype, exact[i]);
        if (ls_element_same(x, wanted, dtype)) {
            continue;
        }
        double distance = fabs(ls_element_to_f64(x, dtype) - exact[i]);
        note_difference(out, i, ls_element_ulps(x, wanted, dtype), distance, bound ? bound[i] : 0);
    }
}
