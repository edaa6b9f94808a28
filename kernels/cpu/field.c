// See field.h. Products of two elements have 62 bits: they are added up without a reduction as long
// as the sum fits.
#include "kernels/field.h"

#include <string.h>

#include "kernels/cpu/bits.h"

#define P        ((uint64_t)LS_FIELD_PRIME)
#define ROWS     6     // of a tile
#define COLUMNS  16    //
#define DEPTH    256   // of k at a time
#define BLOCK    192   // rows that are packed at a time
#define INVERTED 1024  // elements that are inverted together
#define LANES    16

// By instruction set, as in lookup_sum.c.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE 1
#include <immintrin.h>
#endif

static inline uint64_t fold(uint64_t x) {
    return (x & P) + (x >> 31);  // 2^31 is 1
}

static inline uint64_t reduce(uint64_t x) {
    x = fold(fold(x));
    return x >= P ? x - P : x;
}

// ---- Matrix products ----------------------------------------------------------------------------
// sums [ROWS, COLUMNS] = a [depth, ROWS] times b [depth, COLUMNS], each below 2^63.
typedef void tile_function(uint64_t *sums, const uint64_t *a, const uint64_t *b, size_t depth);

static void tile_plain(uint64_t *sums, const uint64_t *a, const uint64_t *b, size_t depth) {
    memset(sums, 0, ROWS * COLUMNS * sizeof *sums);
    for (size_t k = 0; k < depth; k++) {
        for (size_t i = 0; i < ROWS; i++) {
            for (size_t j = 0; j < COLUMNS; j++) {
                uint64_t *sum = &sums[i * COLUMNS + j];
                *sum = fold(*sum + a[k * ROWS + i] * b[k * COLUMNS + j]);
            }
        }
    }
}

#ifdef WIDE
// Four products of 62 bits and what fold() leaves fit into 64.
__attribute__((target("avx2"))) static void tile_avx2(uint64_t *sums, const uint64_t *a,
                                                      const uint64_t *b, size_t depth) {
    const __m256i prime = _mm256_set1_epi64x((long long)P);
    for (size_t first = 0; first < ROWS; first += 2) {
        __m256i sum[2][4] = {{_mm256_setzero_si256()}};
        for (size_t i = 0; i < 8; i++) {
            sum[i / 4][i % 4] = _mm256_setzero_si256();
        }
        for (size_t k = 0; k < depth; k++) {
            for (size_t i = 0; i < 2; i++) {
                __m256i factor = _mm256_set1_epi64x((long long)a[k * ROWS + first + i]);
                for (size_t j = 0; j < 4; j++) {
                    const void *at = b + k * COLUMNS + 4 * j;
                    __m256i product = _mm256_mul_epu32(factor, _mm256_loadu_si256(at));
                    sum[i][j] = _mm256_add_epi64(sum[i][j], product);
                }
            }
            for (size_t i = 0; k % 4 == 3 && i < 8; i++) {
                __m256i *x = &sum[i / 4][i % 4];
                *x = _mm256_add_epi64(_mm256_and_si256(*x, prime), _mm256_srli_epi64(*x, 31));
            }
        }
        for (size_t i = 0; i < 8; i++) {
            __m256i *x = &sum[i / 4][i % 4];
            *x = _mm256_add_epi64(_mm256_and_si256(*x, prime), _mm256_srli_epi64(*x, 31));
            void *at = sums + (first + i / 4) * COLUMNS + 4 * (i % 4);
            _mm256_storeu_si256(at, *x);
        }
    }
}

// The lower 52 bits of products and those above are added up apart: DEPTH of them fit into 64.
__attribute__((target("avx512f,avx512ifma"))) static void
tile_avx512(uint64_t *sums, const uint64_t *a, const uint64_t *b, size_t depth) {
    __m512i low[ROWS][2], high[ROWS][2];
    for (size_t i = 0; i < 2 * ROWS; i++) {
        low[i / 2][i % 2] = high[i / 2][i % 2] = _mm512_setzero_si512();
    }
    for (size_t k = 0; k < depth; k++) {
        __m512i left = _mm512_loadu_si512(b + k * COLUMNS);
        __m512i right = _mm512_loadu_si512(b + k * COLUMNS + 8);
#pragma GCC unroll 6
        for (size_t i = 0; i < ROWS; i++) {
            __m512i factor = _mm512_set1_epi64((long long)a[k * ROWS + i]);
            low[i][0] = _mm512_madd52lo_epu64(low[i][0], factor, left);
            high[i][0] = _mm512_madd52hi_epu64(high[i][0], factor, left);
            low[i][1] = _mm512_madd52lo_epu64(low[i][1], factor, right);
            high[i][1] = _mm512_madd52hi_epu64(high[i][1], factor, right);
        }
    }
    for (size_t i = 0; i < 2 * ROWS; i++) {  // 2^52 is 2^21; sums above are below 2^18
        __m512i above = _mm512_slli_epi64(high[i / 2][i % 2], 21);
        _mm512_storeu_si512(sums + i * 8, _mm512_add_epi64(low[i / 2][i % 2], above));
    }
}
#endif

static tile_function *choose_tile(void) {
#ifdef WIDE
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma")) {
        return tile_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return tile_avx2;
    }
#endif
    return tile_plain;
}

// to [depth, width] of a matrix whose rows of the result have the distance `across`; zeros beyond
// `count`.
static void pack(uint64_t *to, const int32_t *from, size_t depth, size_t width, size_t count,
                 ptrdiff_t along, ptrdiff_t across) {
    for (size_t k = 0; k < depth; k++) {
        const int32_t *at = from + (ptrdiff_t)k * along;
        for (size_t i = 0; i < count; i++) {
            to[k * width + i] = (uint64_t)(uint32_t)at[(ptrdiff_t)i * across];
        }
        for (size_t i = count; i < width; i++) {
            to[k * width + i] = 0;
        }
    }
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// Adds a tile to the result, or sets it.
static void put_tile(int32_t *out, const uint64_t *sums, size_t rows, size_t columns, size_t n,
                     bool first) {
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            uint64_t before = first ? 0 : (uint64_t)(uint32_t)out[i * n + j];
            out[i * n + j] = (int32_t)reduce(fold(sums[i * COLUMNS + j]) + before);
        }
    }
}

// A block of rows: a packed [rows / ROWS] tiles of [depth, ROWS].
static void multiply_block(int32_t *out, const uint64_t *a, const int32_t *b,
                           const ls_field_product *p, const size_t size[3], tile_function *tile) {
    const size_t rows = size[0], depth = size[1], at = size[2];
    uint64_t packed[DEPTH * COLUMNS], sums[ROWS * COLUMNS];
    for (size_t j = 0; j < p->n; j += COLUMNS) {
        size_t columns = least(COLUMNS, p->n - j);
        pack(packed, b + (ptrdiff_t)j * p->b_column, depth, COLUMNS, columns, p->b_row,
             p->b_column);
        for (size_t i = 0; i < rows; i += ROWS) {
            tile(sums, a + i * depth, packed, depth);
            put_tile(out + i * p->n + j, sums, least(ROWS, rows - i), columns, p->n, at == 0);
        }
    }
}

static void multiply(int32_t *out, const int32_t *a, const int32_t *b, const ls_field_product *p,
                     tile_function *tile) {
    uint64_t packed[BLOCK * DEPTH];
    for (size_t at = 0; at < p->k; at += DEPTH) {
        size_t depth = least(DEPTH, p->k - at);
        for (size_t i = 0; i < p->m; i += BLOCK) {
            size_t rows = least(BLOCK, p->m - i);
            for (size_t r = 0; r < rows; r += ROWS) {
                pack(packed + r * depth,
                     a + (ptrdiff_t)(i + r) * p->a_row + (ptrdiff_t)at * p->a_column, depth, ROWS,
                     least(ROWS, rows - r), p->a_column, p->a_row);
            }
            multiply_block(out + i * p->n, packed, b + (ptrdiff_t)at * p->b_row, p,
                           (size_t[3]){rows, depth, at}, tile);
        }
    }
}

void ls_field_matmul(const ls_field_product *product) {
    LS_ASSERT(product != NULL);
    tile_function *tile = choose_tile();
    size_t size = product->m * product->n;
    if (product->k == 0) {
        memset(product->out, 0, product->batch * size * sizeof *product->out);
    }
    for (size_t i = 0; i < product->batch; i++) {
        multiply(product->out + i * size, product->a + (ptrdiff_t)i * product->a_batch,
                 product->b + (ptrdiff_t)i * product->b_batch, product, tile);
    }
}

void ls_field_matmul_reference(const ls_field_product *p) {
    for (size_t at = 0; at < p->batch * p->m * p->n; at++) {
        ptrdiff_t z = (ptrdiff_t)(at / (p->m * p->n)), i = (ptrdiff_t)(at / p->n % p->m);
        ptrdiff_t j = (ptrdiff_t)(at % p->n);
        uint64_t sum = 0;
        for (ptrdiff_t k = 0; k < (ptrdiff_t)p->k; k++) {
            uint64_t x = (uint64_t)p->a[z * p->a_batch + i * p->a_row + k * p->a_column];
            uint64_t y = (uint64_t)p->b[z * p->b_batch + k * p->b_row + j * p->b_column];
            sum = (sum + x * y % P) % P;
        }
        p->out[at] = (int32_t)sum;
    }
}

// ---- Element by element -------------------------------------------------------------------------
static inline uint32_t sum_of(uint32_t a, uint32_t b) {
    uint32_t sum = a + b;  // below 2^32
    return sum >= (uint32_t)P ? sum - (uint32_t)P : sum;
}

static inline uint32_t product_of(uint32_t a, uint32_t b) {
    uint64_t product = fold((uint64_t)a * b);
    uint32_t sum = (uint32_t)((product & P) + (product >> 31));
    return sum >= (uint32_t)P ? sum - (uint32_t)P : sum;
}

#define ROW_OF(name, expression)                                                                   \
    LS_CLONES static void name(int32_t *restrict out, const int32_t *a, const int32_t *b,          \
                               size_t count, ptrdiff_t a_step, ptrdiff_t b_step) {                 \
        if (a_step == 1 && b_step == 1) {                                                          \
            for (size_t i = 0; i < count; i++) {                                                   \
                uint32_t x = (uint32_t)a[i], y = (uint32_t)b[i];                                   \
                out[i] = (int32_t)(expression);                                                    \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            uint32_t x = (uint32_t)a[(ptrdiff_t)i * a_step];                                       \
            uint32_t y = (uint32_t)b[(ptrdiff_t)i * b_step];                                       \
            out[i] = (int32_t)(expression);                                                        \
        }                                                                                          \
    }
ROW_OF(add_row, sum_of(x, y))
ROW_OF(sub_row, sum_of(x, (uint32_t)P - y))
ROW_OF(mul_row, product_of(x, y))

void ls_field_pairwise(const ls_field_pairs *pairs, ls_field_op op) {
    LS_ASSERT(pairs != NULL && op <= LS_FIELD_MUL);
    void (*const row[])(int32_t *restrict, const int32_t *, const int32_t *, size_t, ptrdiff_t,
                        ptrdiff_t) = {add_row, sub_row, mul_row};
    for (size_t i = 0; i < pairs->rows; i++) {
        row[op](pairs->out + i * pairs->columns, pairs->a + (ptrdiff_t)i * pairs->a_row,
                pairs->b + (ptrdiff_t)i * pairs->b_row, pairs->columns, pairs->a_column,
                pairs->b_column);
    }
}

static uint32_t power(uint32_t a, uint32_t exponent) {
    uint32_t result = 1;
    for (; exponent > 0; exponent /= 2, a = product_of(a, a)) {
        result = exponent % 2 == 1 ? product_of(result, a) : result;
    }
    return result;
}

// out [size <= INVERTED]. Lanes are chains of products of their own, which a processor overlaps.
LS_CLONES static void invert(int32_t *out, const int32_t *a, size_t size) {
    uint32_t value[INVERTED], before[INVERTED];  // before: the lane's product of the elements above
    uint32_t product[LANES], inverse[LANES];
    for (size_t i = 0; i < INVERTED; i++) {
        value[i] = i < size && a[i] != 0 ? (uint32_t)a[i] : 1;
    }
    for (size_t l = 0; l < LANES; l++) {
        product[l] = 1;
    }
    for (size_t i = 0; i < INVERTED; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            before[i + l] = product[l];
            product[l] = product_of(product[l], value[i + l]);
        }
    }
    uint32_t all = 1, left = 0, above[LANES];
    for (size_t l = 0; l < LANES; l++) {
        above[l] = all;
        all = product_of(all, product[l]);
    }
    left = power(all, (uint32_t)P - 2);
    for (size_t l = LANES; l-- > 0;) {
        inverse[l] = product_of(left, above[l]);
        left = product_of(left, product[l]);
    }
    for (size_t i = INVERTED; i > 0; i -= LANES) {
        for (size_t l = 0; l < LANES; l++) {
            uint32_t *at = &value[i - LANES + l], own = *at;
            *at = product_of(inverse[l], before[i - LANES + l]);
            inverse[l] = product_of(inverse[l], own);
        }
    }
    for (size_t i = 0; i < size; i++) {
        out[i] = a[i] != 0 ? (int32_t)value[i] : 0;
    }
}

void ls_field_inverse(int32_t *out, const int32_t *a, size_t count) {
    for (size_t at = 0; at < count; at += INVERTED) {
        invert(out + at, a + at, least(INVERTED, count - at));
    }
}

// splitmix64's finaliser of the element and the key.
LS_CLONES static void hash(int32_t *out, const int32_t *a, size_t count, uint64_t key) {
    for (size_t i = 0; i < count; i++) {
        uint64_t z = (uint64_t)(uint32_t)a[i] + key;
        z = (z ^ (z >> 30)) * UINT64_C(0xFF51AFD7ED558CCD);
        z = (z ^ (z >> 27)) * UINT64_C(0xC4CEB9FE1A85EC53);
        out[i] = (int32_t)reduce((z ^ (z >> 31)) >> 2);
    }
}

// Clones are exported whatever their visibility, unless they are static.
void ls_field_hash(int32_t *out, const int32_t *a, size_t count, uint64_t key) {
    hash(out, a, count, key);
}

void ls_field_sum(int32_t *out, const int32_t *a, size_t outer, size_t middle, size_t inner) {
    enum { WIDTH = 512 };
    uint64_t sums[WIDTH];  // 2^32 elements fit
    for (size_t o = 0; o < outer; o++) {
        for (size_t at = 0; at < inner; at += WIDTH) {
            size_t width = least(WIDTH, inner - at);
            memset(sums, 0, width * sizeof *sums);
            for (size_t m = 0; m < middle; m++) {
                const int32_t *row = a + (o * middle + m) * inner + at;
                for (size_t i = 0; i < width; i++) {
                    sums[i] += (uint64_t)(uint32_t)row[i];
                }
            }
            for (size_t i = 0; i < width; i++) {
                out[o * inner + at + i] = (int32_t)reduce(sums[i]);
            }
        }
    }
}
