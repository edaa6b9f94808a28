// Steps on pooled bags after the lookup: bags without ids, and means.
#include "kernels/cpu/field_rows.h"
#include "kernels/kernels.h"

// Ids of bag `bag` that count, and what mean divides by: their number, or the sum of their weights.
static int64_t count_bag(double *divisor, const ls_bags *of, size_t bag) {
    int64_t counted = 0;
    *divisor = 0;
    for (int64_t i = of->offsets[bag] - of->offsets[0]; i < of->offsets[bag + 1] - of->offsets[0];
         i++) {
        if (of->padding_id == -1 || of->ids[i] != of->padding_id) {
            counted++;
            *divisor += of->weights != NULL ? (double)of->weights[i] : 1.0;
        }
    }
    return counted;
}

void ls_kernel_fill_empty_bags(void *out, size_t out_stride, ls_dtype dtype, double value,
                               size_t dim, const ls_bags *bags) {
    LS_ASSERT(bags->count == 0 || (out != NULL && bags->offsets != NULL && out_stride >= dim));
    size_t bytes = ls_dtype_bytes(dtype);
    uint64_t element = 0;
    ls_element_from_f64(&element, dtype, value);
    for (size_t bag = 0; bag < bags->count; bag++) {
        double divisor;
        if (count_bag(&divisor, bags, bag) == 0) {
            ls_kernel_fill((char *)out + bag * out_stride * bytes, dtype, &element, dim);
        }
    }
}

void ls_kernel_divide_bags(void *out, size_t out_stride, ls_dtype dtype, size_t dim, double added,
                           const ls_bags *bags) {
    LS_ASSERT(dtype == LS_F32 || dtype == LS_F64 || dtype == LS_FIELD);
    LS_ASSERT(bags->count == 0 || (out != NULL && bags->offsets != NULL && out_stride >= dim));
    if (dtype == LS_FIELD) {
        ls_field__divide_bags(out, out_stride, dim, bags, added);
        return;
    }
    for (size_t bag = 0; bag < bags->count; bag++) {
        double divisor;
        if (count_bag(&divisor, bags, bag) == 0) {
            continue;
        }
        divisor += added;
        for (size_t c = 0; c < dim; c++) {
            size_t at = bag * out_stride + c;
            if (dtype == LS_F64) {
                ((double *)out)[at] /= divisor;
            } else {
                ((float *)out)[at] = (float)((double)((float *)out)[at] / divisor);
            }
        }
    }
}
