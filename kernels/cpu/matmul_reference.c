// Matrix product, the plain reference.
#include "kernels/kernels.h"

void ls_kernel_matmul_reference(void *out, const void *a, const void *b, ls_dtype dtype, size_t m,
                                size_t k, size_t n) {
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            float narrow = 0;
            double wide = 0;
            for (size_t step = 0; step < k; step++) {
                if (dtype == LS_F32) {
                    narrow += ((const float *)a)[i * k + step] * ((const float *)b)[step * n + j];
                } else {
                    wide += ((const double *)a)[i * k + step] * ((const double *)b)[step * n + j];
                }
            }
            if (dtype == LS_F32) {
                ((float *)out)[i * n + j] = narrow;
            } else {
                ((double *)out)[i * n + j] = wide;
            }
        }
    }
}
