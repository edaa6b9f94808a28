// Matrix product. The sum over k is a left fold for each output element, so tiles split rows and
// columns and never k.
#include "kernels/cpu/bits.h"
#include "kernels/field.h"
#include "kernels/kernels.h"

enum { TILE_ROWS = 4, TILE_COLUMNS = 32 };

// One tile of at most TILE_ROWS x TILE_COLUMNS; the whole tile goes through fixed loops that the
// compiler keeps in registers.
#define TILE(suffix, type)                                                                         \
    LS_CLONES static void tile_##suffix(type *restrict out, const type *restrict a,                \
                                        const type *restrict b, size_t k, size_t n) {              \
        type sum[TILE_ROWS][TILE_COLUMNS] = {{0}};                                                 \
        for (size_t step = 0; step < k; step++) {                                                  \
            const type *restrict row = b + step * n;                                               \
            for (size_t j = 0; j < TILE_COLUMNS; j++) {                                            \
                for (size_t i = 0; i < TILE_ROWS; i++) {                                           \
                    sum[i][j] += a[i * k + step] * row[j];                                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (size_t i = 0; i < TILE_ROWS; i++) {                                                   \
            for (size_t j = 0; j < TILE_COLUMNS; j++) {                                            \
                out[i * n + j] = sum[i][j];                                                        \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    LS_CLONES static void edge_##suffix(type *restrict out, const type *restrict a,                \
                                        const type *restrict b, size_t k, size_t n, size_t rows,   \
                                        size_t columns) {                                          \
        for (size_t i = 0; i < rows; i++) {                                                        \
            for (size_t j = 0; j < columns; j++) {                                                 \
                out[i * n + j] = 0;                                                                \
            }                                                                                      \
            for (size_t step = 0; step < k; step++) {                                              \
                type factor = a[i * k + step];                                                     \
                for (size_t j = 0; j < columns; j++) {                                             \
                    out[i * n + j] += factor * b[step * n + j];                                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void matmul_##suffix(type *out, const type *a, const type *b, size_t m, size_t k,       \
                                size_t n) {                                                        \
        for (size_t i = 0; i < m; i += TILE_ROWS) {                                                \
            size_t rows = m - i < TILE_ROWS ? m - i : TILE_ROWS;                                   \
            for (size_t j = 0; j < n; j += TILE_COLUMNS) {                                         \
                size_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;                      \
                if (rows == TILE_ROWS && columns == TILE_COLUMNS) {                                \
                    tile_##suffix(out + i * n + j, a + i * k, b + j, k, n);                        \
                } else {                                                                           \
                    edge_##suffix(out + i * n + j, a + i * k, b + j, k, n, rows, columns);         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
TILE(f32, float)
TILE(f64, double)

void ls_kernel_matmul(void *out, const void *a, const void *b, ls_dtype dtype, size_t m, size_t k,
                      size_t n) {
    LS_ASSERT(dtype == LS_F32 || dtype == LS_F64 || dtype == LS_FIELD);
    LS_ASSERT(m == 0 || n == 0 || (out != NULL && (k == 0 || (a != NULL && b != NULL))));
    if (m == 0 || n == 0) {
        return;
    }
    if (k == 0) {
        memset(out, 0, m * n * ls_dtype_bytes(dtype));
    } else if (dtype == LS_FIELD) {
        ls_field_matmul(&(ls_field_product){.out = out,
                                            .a = a,
                                            .b = b,
                                            .batch = 1,
                                            .m = m,
                                            .k = k,
                                            .n = n,
                                            .a_row = (ptrdiff_t)k,
                                            .a_column = 1,
                                            .b_row = (ptrdiff_t)n,
                                            .b_column = 1});
    } else if (dtype == LS_F32) {
        matmul_f32(out, a, b, m, k, n);
    } else {
        matmul_f64(out, a, b, m, k, n);
    }
}
