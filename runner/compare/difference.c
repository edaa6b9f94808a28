// Counts differing elements, ulps and the ratio to a bound.
#include "runner/compare/difference.h"

#include <math.h>
#include <string.h>

#include "orders/bound.h"
#include "kernels/kernels.h"

// An element's bits, widened.
static uint64_t element_bits(const void *element, ls_dtype dtype) {
    uint64_t bits = 0;
    memcpy(&bits, element, ls_dtype_bytes(dtype));
    return bits;
}

static bool element_is_nan(const void *element, ls_dtype dtype) {
    return isnan(ls_element_to_f64(element, dtype));
}

bool ls_element_same(const void *a, const void *b, ls_dtype dtype) {
    return memcmp(a, b, ls_dtype_bytes(dtype)) == 0;
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

static double ratio_of(const void *element, ls_dtype dtype, const ls_allowance *allowed, size_t i) {
    return ls_bound_ratio_of(ls_element_to_f64(element, dtype), allowed->exact[i],
                             allowed->bounds[i],
                             allowed->overflow != NULL ? allowed->overflow[i] : 0);
}

static void note_difference(ls_difference *out, size_t index, uint64_t ulps, double ratio,
                            const ls_allowance *allowed) {
    bool vacuous = allowed != NULL && allowed->overflow != NULL && !allowed->proven &&
                   (allowed->overflow[index] & LS_BOUND_VACUOUS) != 0;
    if (vacuous && ratio <= 1.0) {
        out->unjudged += 1;
        out->vacuous += 1;
        return;
    }
    if (out->differing == 0) {
        out->first = index;
    }
    out->differing += 1;
    if (ulps > out->max_ulps) {
        out->max_ulps = ulps;
    }
    if (!(ratio <= 1.0) && out->first_wrong == out->elements) {
        out->first_wrong = index;
    }
    if (ratio > out->bound_ratio) {
        out->bound_ratio = ratio;
    }
}

void ls_difference_compute(ls_difference *out, const void *a, const void *b, ls_dtype dtype,
                           size_t count, const ls_allowance *allowed) {
    size_t bytes = ls_dtype_bytes(dtype);
    *out = (ls_difference){.elements = count, .first = count, .first_wrong = count};
    if (count == 0 || memcmp(a, b, count * bytes) == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)a + i * bytes;
        const char *y = (const char *)b + i * bytes;
        bool same_nan = allowed != NULL && element_is_nan(x, dtype) && element_is_nan(y, dtype);
        if (ls_element_same(x, y, dtype) || same_nan) {
            continue;
        }
        if (allowed != NULL && allowed->anything && isinf(allowed->bounds[i])) {
            out->unjudged += 1;
            continue;
        }
        note_difference(out, i, ls_element_ulps(x, y, dtype),
                        allowed != NULL ? ratio_of(y, dtype, allowed, i) : INFINITY, allowed);
    }
}

void ls_difference_from_exact(ls_difference *out, const void *values, ls_dtype dtype, size_t count,
                              const ls_allowance *allowed) {
    size_t bytes = ls_dtype_bytes(dtype);
    *out = (ls_difference){.elements = count, .first = count, .first_wrong = count};
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)values + i * bytes;
        char wanted[8] = {0};
        ls_element_from_f64(wanted, dtype, allowed->exact[i]);
        if (ls_element_same(x, wanted, dtype) ||
            (element_is_nan(x, dtype) && element_is_nan(wanted, dtype))) {
            continue;
        }
        note_difference(out, i, ls_element_ulps(x, wanted, dtype), ratio_of(x, dtype, allowed, i),
                        allowed);
    }
}
