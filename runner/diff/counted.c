// Integers that count from the start of each rank's rows.
#include <string.h>

#include "kernels/kernels.h"
#include "runner/diff/rows.h"

static double at_row(const char *row, ls_dtype dtype) {
    return ls_element_to_f64(row, dtype);
}

// The distance of every element of the rows to the reference's. False: they differ.
static bool is_apart(double *out, const ls_diff_rows *of, size_t first, size_t count) {
    size_t bytes = ls_dtype_bytes(of->dtype);
    *out = count > 0 ? at_row(of->ref[first], of->dtype) - at_row(of->at[first], of->dtype) : 0;
    for (size_t i = first; i < first + count; i++) {
        for (size_t at = 0; at < of->bytes; at += bytes) {
            if (at_row(of->ref[i] + at, of->dtype) - at_row(of->at[i] + at, of->dtype) != *out) {
                return false;
            }
        }
    }
    return true;
}

// Whether an input of the first module has `rows` rows on the ranks before part `part`.
static bool has_before(const ls_diff_sides *sides, const ls_captured *of, size_t part,
                       double rows) {
    for (size_t i = 0; i < sides->run->count; i++) {
        const ls_captured *other = &sides->run->tensors[i];
        if (!ls_diff__is_of(of->name, other->name) || other->piece_count != of->piece_count) {
            continue;
        }
        for (int d = 0; d < other->pieces[0].size.ndim; d++) {
            double before = 0;
            for (size_t p = 0; p < part; p++) {
                const ls_shape *size = &other->pieces[p].size;
                before += size->ndim > d ? (double)size->dim[d] : 0;
            }
            if (before == rows) {
                return true;
            }
        }
    }
    return false;
}

bool ls_diff__is_counted(const ls_diff_sides *sides, const ls_diff_pair *pair) {
    const ls_captured *first = ls_diff__first_input(sides->ref, pair->ref_of->name);
    const ls_captured *run = pair->run.of;
    int dim = ls_diff__cut_dim(pair);
    ls_diff_rows of;
    if (first == NULL || dim < 0 || run->deal != NULL || ls_dtype_is_float(run->dtype) ||
        !ls_diff__is_of(first->name, run->name) ||
        ls_diff__rows(&of, sides->arena, pair, dim) != LS_OK ||
        of.parts != (size_t)run->piece_count) {
        ls_error_clear();
        return false;
    }
    for (size_t p = 0, row = 0; p < of.parts; p++) {
        double apart = 0;
        if (!is_apart(&apart, &of, row, of.of_part[p])) {
            return false;
        }
        bool follows = row > 0 && of.of_part[p] > 0 && at_row(of.at[row], of.dtype) == 0 &&
                       apart == at_row(of.ref[row - 1], of.dtype) + 1;
        if (of.of_part[p] > 0 && !follows && !has_before(sides, run, p, apart)) {
            return false;
        }
        row += of.of_part[p];
    }
    return true;
}
