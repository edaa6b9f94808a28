// Counts differing elements, ulps and the ratio to a bound.
#include "runner/compare/difference.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "orders/bound.h"
#include "kernels/kernels.h"
#include "kernels/ulps.h"

static bool element_is_nan(const void *element, ls_dtype dtype) {
    return isnan(ls_element_to_f64(element, dtype));
}

bool ls_element_same(const void *a, const void *b, ls_dtype dtype) {
    switch (ls_dtype_bytes(dtype)) {  // fixed sizes, so that the compiler inlines the copies
    case 1:
        return memcmp(a, b, 1) == 0;
    case 2:
        return memcmp(a, b, 2) == 0;
    case 4:
        return memcmp(a, b, 4) == 0;
    default:
        return memcmp(a, b, ls_dtype_bytes(dtype)) == 0;
    }
}

bool ls_element_is_rounded(const void *element, double exact, ls_dtype dtype) {
    char wanted[8] = {0};
    ls_element_from_f64(wanted, dtype, exact);
    return ls_element_same(element, wanted, dtype) ||
           (element_is_nan(element, dtype) && element_is_nan(wanted, dtype));
}

static double ratio_of(const void *element, ls_dtype dtype, const ls_allowance *allowed, size_t i) {
    if (dtype == LS_FIELD) {
        return INFINITY;  // no bound applies to other types
    }
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
        if (ls_element_is_rounded(x, allowed->exact[i], dtype)) {
            continue;
        }
        char wanted[8] = {0};
        ls_element_from_f64(wanted, dtype, allowed->exact[i]);
        note_difference(out, i, ls_element_ulps(x, wanted, dtype), ratio_of(x, dtype, allowed, i),
                        allowed);
    }
}

void ls_difference_tell(ls_text *text, const void *data, ls_dtype dtype, size_t index) {
    size_t bytes = ls_dtype_bytes(dtype);
    const unsigned char *element = (const unsigned char *)data + index * bytes;
    if (dtype == LS_FIELD) {
        ls_text_printf(text, "%.0f", ls_element_to_f64(element, dtype));
        return;
    }
    if (ls_dtype_is_float(dtype)) {
        ls_text_printf(text, "%.9g (0x", ls_element_to_f64(element, dtype));
        for (size_t i = bytes; i-- > 0;) {
            ls_text_printf(text, "%02x", element[i]);
        }
        ls_text_puts(text, ")");
        return;
    }
    int64_t value = 0;
    memcpy(&value, element, bytes);
    if (dtype == LS_U64) {
        ls_text_printf(text, "%" PRIu64, (uint64_t)value);
    } else if (ls_dtype_is_signed(dtype)) {
        unsigned unused = 64u - 8u * (unsigned)bytes;
        ls_text_printf(text, "%" PRId64, (int64_t)((uint64_t)value << unused) >> unused);
    } else {
        ls_text_printf(text, "%" PRId64, value);
    }
}
