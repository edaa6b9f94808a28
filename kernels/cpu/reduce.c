// Reduce: a left fold over the inputs, block by block, so that the accumulator stays in the first
// level cache and every input is read once.
#include "kernels/cpu/accumulate.h"
#include "kernels/cpu/bits.h"
#include "kernels/cpu/fold_sum.h"
#include "kernels/kernels.h"

#define BLOCK_BYTES 8192

void ls_kernel_reduce(void *out, const void *const *in, size_t in_count, ls_dtype dtype, ls_op op,
                      const double *premul, size_t count) {
    LS_ASSERT(in != NULL && in_count >= 1);
    LS_ASSERT(ls_op_supports(op, dtype));
    LS_ASSERT((premul != NULL) == (op == LS_PREMUL_SUM));
    ls_fold_sum_fn fold_sum = op == LS_SUM ? ls_kernel__fold_sum_fn(dtype) : NULL;
    if (fold_sum != NULL) {
        fold_sum(out, in, in_count, 0, count);
        return;
    }
    // Aligned for vectors; both stay in L1 with a block of one input.
    _Alignas(64) unsigned char accumulator[BLOCK_BYTES];
    _Alignas(64) unsigned char scaled[BLOCK_BYTES];
    size_t bytes = ls_dtype_bytes(dtype);
    size_t step = BLOCK_BYTES / bytes;
    ls_op step_op = op == LS_AVG || op == LS_PREMUL_SUM ? LS_SUM : op;
    ls_accumulate_fn accumulate = ls_kernel__accumulate_fn(dtype, step_op);
    for (size_t first = 0; first < count; first += step) {
        size_t length = count - first < step ? count - first : step;
        size_t offset = first * bytes;
        for (size_t k = 0; k < in_count; k++) {
            const void *source = (const char *)in[k] + offset;
            if (premul != NULL) {
                uint64_t factor = 0;
                ls_element_from_f64(&factor, dtype, premul[k]);
                ls_kernel_scale(scaled, source, &factor, dtype, length);
                source = scaled;
            }
            if (k == 0) {
                memcpy(accumulator, source, length * bytes);
            } else {
                accumulate(accumulator, source, length);
            }
        }
        if (op == LS_AVG) {
            ls_kernel__divide(accumulator, dtype, in_count, length);
        }
        // out may be one of the inputs: all of them have been read up to here.
        memcpy((char *)out + offset, accumulator, length * bytes);
    }
}
