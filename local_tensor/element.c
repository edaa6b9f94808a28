// One element as text and as bits.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

uint64_t ls_element_bits(const void *element, ls_dtype dtype) {
    uint8_t b1 = 0;
    uint16_t b2 = 0;
    uint32_t b4 = 0;
    uint64_t b8 = 0;
    switch (ls_dtype_bytes(dtype)) {
    case 1:
        memcpy(&b1, element, sizeof b1);
        return b1;
    case 2:
        memcpy(&b2, element, sizeof b2);
        return b2;
    case 4:
        memcpy(&b4, element, sizeof b4);
        return b4;
    default:
        memcpy(&b8, element, sizeof b8);
        return b8;
    }
}

static void format_integer(char *out, size_t out_bytes, const void *element, ls_dtype dtype) {
    uint64_t bits = ls_element_bits(element, dtype);
    if (!ls_dtype_is_signed(dtype)) {
        (void)snprintf(out, out_bytes, "%" PRIu64, bits);
        return;
    }
    unsigned unused = 64 - 8 * (unsigned)ls_dtype_bytes(dtype);
    int64_t value = (int64_t)(bits << unused) >> unused;  // sign extension
    (void)snprintf(out, out_bytes, "%" PRId64, value);
}

void ls_element_format(char *out, size_t out_bytes, const void *element, ls_dtype dtype) {
    LS_ASSERT(out_bytes >= LS_ELEMENT_TEXT_MAX);
    if (!ls_dtype_is_float(dtype)) {
        format_integer(out, out_bytes, element, dtype);
        return;
    }
    double value = ls_element_to_f64(element, dtype);
    for (int digits = 1; digits <= 17; digits++) {
        char back[8] = {0};
        (void)snprintf(out, out_bytes, "%.*g", digits, value);
        if (!isfinite(value)) {
            return;
        }
        ls_element_from_f64(back, dtype, strtod(out, NULL));
        if (memcmp(back, element, ls_dtype_bytes(dtype)) == 0) {
            return;
        }
    }
}
