// Embedding kernels against their plain references and against cases worked out by hand.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "kernels/cpu/quantise.h"
#include "oracle.h"

enum { ROWS = 37, DIM_MAX = 35, BAGS_MAX = 70, IDS_MAX = 2000 };

// One random lookup: ragged bags, many of them empty, repeated ids, signed zeros and NaN.
typedef struct {
    size_t bags;
    size_t total;
    int64_t lengths[BAGS_MAX];
    int64_t offsets[BAGS_MAX + 1];
    int64_t ids[IDS_MAX];
    float weights[IDS_MAX];
    _Alignas(8) unsigned char table[ROWS * DIM_MAX * 8];
} case_;

static case_ one;

static void draw_case(uint64_t seed, size_t bags, ls_dtype dtype) {
    uint64_t state = seed;
    one.bags = bags;
    for (size_t b = 0; b < bags; b++) {
        uint64_t random = next_random(&state);
        one.lengths[b] = random % 3 == 0 ? 0 : (int64_t)(random >> 8) & 15;
    }
    cr_assert(ls_kernel_offsets(one.offsets, one.lengths, bags, NULL) == LS_OK);
    one.total = (size_t)one.offsets[bags];
    cr_assert(one.total <= IDS_MAX);
    for (size_t i = 0; i < one.total; i++) {
        uint64_t random = next_random(&state);
        one.ids[i] = (int64_t)(random % ROWS);
        one.weights[i] = (float)((int)((random >> 32) & 1023) - 400) / 64.0f;
    }
    for (size_t i = 0; i < (size_t)ROWS * DIM_MAX; i++) {
        static const double special[] = {0.0, -0.0, (double)NAN, (double)INFINITY, 1e-7};
        uint64_t random = next_random(&state);
        double value = (double)(int64_t)random / 0x1p60;
        if (random % 16 == 0) {
            value = special[(random >> 8) % 5];
        }
        ls_element_from_f64(one.table + i * ls_dtype_bytes(dtype), dtype, value);
    }
}

static bool same_float(const void *a, const void *b, ls_dtype dtype) {
    double x = ls_element_to_f64(a, dtype);
    double y = ls_element_to_f64(b, dtype);
    return (isnan(x) && isnan(y)) || memcmp(a, b, ls_dtype_bytes(dtype)) == 0;
}

static void check_lookup(ls_dtype dtype, size_t dim, size_t bags, ls_pooling pooling,
                         const float *weights, int64_t padding_id) {
    static _Alignas(8) unsigned char fast[BAGS_MAX * (DIM_MAX + 2) * 8];
    static _Alignas(8) unsigned char plain[BAGS_MAX * (DIM_MAX + 2) * 8];
    ls_dtype out_dtype = dtype == LS_F64 ? LS_F64 : LS_F32;
    size_t bytes = ls_dtype_bytes(out_dtype);
    size_t stride = dim + 2;  // memory between rows must stay
    memset(fast, 0x7B, sizeof fast);
    memset(plain, 0x7B, sizeof plain);
    ls_kernel_pooled_lookup(
        fast, stride, one.table, &(const ls_table_shape){dtype, ROWS, dim},
        &(const ls_bags){one.ids, one.offsets, weights, padding_id, pooling, bags});
    ls_kernel_pooled_lookup_reference(
        plain, stride, one.table, &(const ls_table_shape){dtype, ROWS, dim},
        &(const ls_bags){one.ids, one.offsets, weights, padding_id, pooling, bags});
    for (size_t i = 0; i < bags * stride; i++) {
        cr_assert(same_float(fast + i * bytes, plain + i * bytes, out_dtype),
                  "%s pooling %d bag %zu of %zu, dim %zu of %zu", ls_dtype_name(dtype),
                  (int)pooling, i / stride, bags, i % stride, dim);
    }
}

// Every table type and pooling, with and without weights and padding, at odd sizes, bit for bit.
Test(lookup, matches_the_reference) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64, LS_F8E4M3, LS_F8E5M2};
    static const size_t dims[] = {0, 1, 7, 16, DIM_MAX};
    static const size_t bag_counts[] = {0, 1, 13, BAGS_MAX};
    for (size_t c = 0; c < 6 * 5 * 4; c++) {
        ls_dtype dtype = dtypes[c % 6];
        size_t bags = bag_counts[c / 30];
        draw_case(c, bags, dtype);
        for (int kind = 0; kind < 12; kind++) {
            ls_pooling pooling = (ls_pooling)(LS_POOL_SUM + kind % 3);
            check_lookup(dtype, dims[c / 6 % 5], bags, pooling, kind / 3 % 2 ? one.weights : NULL,
                         kind / 6 ? 5 : -1);
        }
    }
}

// Long rows of f32 and of 8-bit codes, summed in column blocks, in long bags, whose ids are taken
// in blocks: with weights, and with a padding id.
Test(lookup, long_rows_and_bags_match_the_reference) {
    enum { LONG_ROWS = 20, LONG_DIM = 131, LONG_BAGS = 3, LONG_IDS = 1400 };
    static const ls_row_format format = {
        .element = LS_ROW_INT8, .scale_first = true, .alignment = 16};
    static float table[LONG_ROWS * LONG_DIM], weights[LONG_IDS], out[2][LONG_BAGS * LONG_DIM];
    static unsigned char packed[LONG_ROWS * (LONG_DIM + 32)];
    static int64_t ids[LONG_IDS];
    static const int64_t offsets[LONG_BAGS + 1] = {0, 1297, 1298, LONG_IDS};
    uint64_t state = 5;
    for (size_t i = 0; i < LONG_ROWS * LONG_DIM; i++) {
        table[i] = (float)(int64_t)next_random(&state) / 0x1p60f;
    }
    for (size_t i = 0; i < LONG_IDS; i++) {
        ids[i] = (int64_t)(next_random(&state) % LONG_ROWS);
        weights[i] = (float)(next_random(&state) % 1000) / 64.0f - 5;
    }
    for (int kind = 0; kind < 8; kind++) {
        const float *by = kind & 1 ? weights : NULL;
        int64_t padding = kind & 2 ? 7 : -1;
        ls_pooling pooling = kind & 4 ? LS_POOL_MEAN : LS_POOL_SUM;
        for (size_t dim = 60; dim <= LONG_DIM; dim += 71) {
            size_t bytes = LONG_BAGS * dim * sizeof(float);
            ls_kernel_pooled_lookup(
                out[0], dim, table, &(const ls_table_shape){LS_F32, LONG_ROWS, dim},
                &(const ls_bags){ids, offsets, by, padding, pooling, LONG_BAGS});
            ls_kernel_pooled_lookup_reference(
                out[1], dim, table, &(const ls_table_shape){LS_F32, LONG_ROWS, dim},
                &(const ls_bags){ids, offsets, by, padding, pooling, LONG_BAGS});
            cr_expect(memcmp(out[0], out[1], bytes) == 0, "f32, kind %d, dim %zu", kind, dim);
            cr_assert(ls_kernel_quantise_rows(packed, &format, table, dim, LONG_ROWS, dim, NULL) ==
                      LS_OK);
            ls_kernel_quantised_lookup(
                out[0], dim, packed, &format, LONG_ROWS, dim,
                &(const ls_bags){ids, offsets, by, padding, pooling, LONG_BAGS});
            ls_kernel_quantised_lookup_reference(
                out[1], dim, packed, &format, LONG_ROWS, dim,
                &(const ls_bags){ids, offsets, by, padding, pooling, LONG_BAGS});
            cr_expect(memcmp(out[0], out[1], bytes) == 0, "int8, kind %d, dim %zu", kind, dim);
        }
    }
}

// A lookup worked out by hand: offsets that do not start at 0, an empty bag, a padding id out of
// range, a repeated id, a maximum that ties.
Test(lookup, known_results) {
    const float table[4][2] = {{1, 8}, {2, 4}, {4, 2}, {4, 1}};
    const int64_t ids[6] = {0, 2, 3, 99, 1, 1};
    const int64_t offsets[4] = {10, 14, 14, 16};
    const float weights[6] = {1, 2, 3, 100, 0.5f, 0.5f};
    float out[3][2];
    ls_kernel_pooled_lookup(out, 2, table, &(const ls_table_shape){LS_F32, 4, 2},
                            &(const ls_bags){ids, offsets, NULL, 99, LS_POOL_MEAN, 3});
    cr_expect(out[0][0] == 3.0f && out[0][1] == 11.0f / 3.0f);
    cr_expect(out[1][0] == 0.0f && out[1][1] == 0.0f);
    cr_expect(out[2][0] == 2.0f && out[2][1] == 4.0f);
    ls_kernel_pooled_lookup(out, 2, table, &(const ls_table_shape){LS_F32, 4, 2},
                            &(const ls_bags){ids, offsets, weights, 99, LS_POOL_MEAN, 3});
    cr_expect(out[0][0] == 21.0f / 6.0f && out[0][1] == 15.0f / 6.0f);
    ls_kernel_pooled_lookup(out, 2, table, &(const ls_table_shape){LS_F32, 4, 2},
                            &(const ls_bags){ids, offsets, NULL, 99, LS_POOL_MAX, 3});
    cr_expect(out[0][0] == 4.0f && out[0][1] == 8.0f && out[1][0] == 0.0f);
}

static void check_bucketize(const int64_t *starts, size_t owners, bool weighted, bool positions) {
    static int64_t lengths[2][40 * BAGS_MAX];
    static int64_t ids[2][IDS_MAX];
    static float weights[2][IDS_MAX];
    static int64_t places[2][IDS_MAX];
    memset(lengths, 0x55, sizeof lengths);
    ls_kernel_bucketize(&(const ls_buckets){lengths[0], ids[0], weighted ? weights[0] : NULL,
                                            positions ? places[0] : NULL},
                        one.ids, one.lengths, weighted ? one.weights : NULL, starts, owners,
                        one.bags);
    ls_kernel_bucketize_reference(
        &(const ls_buckets){lengths[1], ids[1], weighted ? weights[1] : NULL,
                            positions ? places[1] : NULL},
        one.ids, one.lengths, weighted ? one.weights : NULL, starts, owners, one.bags);
    cr_assert(memcmp(lengths[0], lengths[1], owners * one.bags * sizeof(int64_t)) == 0);
    cr_assert(memcmp(ids[0], ids[1], one.total * sizeof(int64_t)) == 0);
    cr_assert(!weighted || memcmp(weights[0], weights[1], one.total * sizeof(float)) == 0);
    cr_assert(!positions || memcmp(places[0], places[1], one.total * sizeof(int64_t)) == 0);
}

// Random cuts of the rows, with empty owners at the start, the end and in between.
Test(lookup, bucketize_matches_the_reference) {
    uint64_t state = 11;
    for (int round = 0; round < 200; round++) {
        int64_t starts[41];
        size_t owners = 1 + next_random(&state) % 40;
        draw_case(200 + (uint64_t)round, (size_t)round % (BAGS_MAX + 1), LS_F32);
        int64_t row = 0;
        for (size_t p = 0; p <= owners; p++) {
            starts[p] = row;
            row += (int64_t)(next_random(&state) % 7);
            row = row > ROWS ? ROWS : row;
        }
        starts[0] = 0;
        starts[owners] = ROWS;
        check_bucketize(starts, owners, round % 2 == 0, round % 3 == 0);
    }
}

// A bucketize worked out by hand, with rows that start at 100.
Test(lookup, bucketize_known_result) {
    const int64_t starts[4] = {100, 102, 102, 105};
    const int64_t ids[5] = {104, 100, 101, 102, 100};
    const int64_t lengths[3] = {2, 0, 3};
    int64_t out_lengths[9];
    int64_t out_ids[5];
    int64_t positions[5];
    ls_kernel_bucketize(&(const ls_buckets){out_lengths, out_ids, NULL, positions}, ids, lengths,
                        NULL, starts, 3, 3);
    const int64_t want_lengths[9] = {1, 0, 2, 0, 0, 0, 1, 0, 1};
    const int64_t want_ids[5] = {0, 1, 0, 2, 0};
    const int64_t want_positions[5] = {1, 2, 4, 0, 3};
    cr_expect(memcmp(out_lengths, want_lengths, sizeof want_lengths) == 0);
    cr_expect(memcmp(out_ids, want_ids, sizeof want_ids) == 0);
    cr_expect(memcmp(positions, want_positions, sizeof want_positions) == 0);
}

// Each policy does as named, and a refused array stays unchanged.
Test(lookup, id_policies) {
    const int64_t in[6] = {0, 9, 10, -1, INT64_MIN, INT64_MAX};
    int64_t ids[6];
    size_t bad = 99;
    memcpy(ids, in, sizeof in);
    cr_expect(ls_kernel_resolve_ids(ids, 6, 10, LS_ID_ERROR, &bad) == LS_ERR_INVALID && bad == 2);
    cr_expect(memcmp(ids, in, sizeof in) == 0);
    cr_expect(ls_kernel_resolve_ids(ids, 2, 10, LS_ID_ERROR, NULL) == LS_OK);
    cr_expect(ls_kernel_resolve_ids(ids, 6, 10, LS_ID_CLAMP, NULL) == LS_OK);
    const int64_t clamped[6] = {0, 9, 9, 0, 0, 9};
    cr_expect(memcmp(ids, clamped, sizeof ids) == 0);
    memcpy(ids, in, sizeof in);
    cr_expect(ls_kernel_resolve_ids(ids, 6, 10, LS_ID_WRAP, NULL) == LS_OK);
    const int64_t wrapped[6] = {0, 9, 0, 9, 2, 7};
    cr_expect(memcmp(ids, wrapped, sizeof ids) == 0);
    cr_expect(ls_kernel_resolve_ids(ids, 1, 0, LS_ID_CLAMP, &bad) == LS_ERR_INVALID && bad == 0);
    cr_expect(ls_kernel_resolve_ids(ids, 1, 0, LS_ID_WRAP, &bad) == LS_ERR_INVALID);
    cr_expect(ls_kernel_resolve_ids(NULL, 0, 0, LS_ID_WRAP, NULL) == LS_OK);
    int64_t huge = -1;
    cr_expect(ls_kernel_resolve_ids(&huge, 1, INT64_MAX, LS_ID_WRAP, NULL) == LS_OK);
    cr_expect(huge == INT64_MAX - 1);
}

// Offsets are the running totals; bad lengths are named.
Test(lookup, offsets_and_their_errors) {
    int64_t offsets[4] = {7, 7, 7, 7};
    size_t bad = 99;
    cr_expect(ls_kernel_offsets(offsets, NULL, 0, NULL) == LS_OK && offsets[0] == 0);
    cr_expect(ls_kernel_offsets(offsets, (const int64_t[]){2, 0, 5}, 3, NULL) == LS_OK);
    cr_expect(memcmp(offsets, (const int64_t[]){0, 2, 2, 7}, sizeof offsets) == 0);
    cr_expect(ls_kernel_offsets(offsets, (const int64_t[]){2, -1}, 2, &bad) == LS_ERR_INVALID);
    cr_expect(bad == 1);
    const int64_t large[3] = {INT64_MAX, 0, 1};
    cr_expect(ls_kernel_offsets(offsets, large, 2, &bad) == LS_OK);
    cr_expect(ls_kernel_offsets(offsets, large, 3, &bad) == LS_ERR_OVERFLOW && bad == 2);
}

// Rows are copied whole, in the requested order.
Test(lookup, gather_rows) {
    const char table[] = "aaabbbcccddd";
    char out[] = "............";
    ls_kernel_gather_rows(out, table, 3, 4, (const int64_t[]){3, 0, 3}, 3);
    cr_expect_str_eq(out, "dddaaaddd...");
    ls_kernel_gather_rows(NULL, NULL, 0, 4, (const int64_t[]){1}, 1);
    ls_kernel_gather_rows(NULL, NULL, 3, 0, NULL, 0);
}

// Sizes around the tile, against the plain triple loop; a fold from +0, so a sum of -0 is +0.
Test(matmul, matches_the_reference) {
    enum { SIDE = 71 };
    static double a[SIDE * SIDE];
    static double b[SIDE * SIDE];
    static double fast[SIDE * SIDE + 1];
    static double plain[SIDE * SIDE + 1];
    static const size_t sizes[][3] = {{0, 3, 4},  {3, 0, 4},   {3, 4, 0},   {1, 1, 1},
                                      {4, 9, 32}, {5, 7, 33},  {8, 64, 64}, {13, 3, 31},
                                      {4, 1, 65}, {71, 71, 71}};
    uint64_t state = 21;
    for (int dtype = LS_F32; dtype <= LS_F64; dtype++) {
        size_t bytes = ls_dtype_bytes((ls_dtype)dtype);
        for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) {
            double value = (double)(int64_t)next_random(&state) / 0x1p60;
            ls_element_from_f64((char *)a + i * bytes, (ls_dtype)dtype, i % 11 ? value : -0.0);
            ls_element_from_f64((char *)b + i * bytes, (ls_dtype)dtype, value / 3 + 1);
        }
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            size_t m = sizes[s][0];
            size_t k = sizes[s][1];
            size_t n = sizes[s][2];
            memset(fast, 0x55, sizeof fast);
            memset(plain, 0x55, sizeof plain);
            ls_kernel_matmul(fast, a, b, (ls_dtype)dtype, m, k, n);
            ls_kernel_matmul_reference(plain, a, b, (ls_dtype)dtype, m, k, n);
            cr_assert(memcmp(fast, plain, sizeof fast) == 0, "%zu x %zu x %zu", m, k, n);
        }
    }
    const float zero[1] = {-0.0f};
    const float x[1] = {5.0f};
    float out = -7;
    ls_kernel_matmul(&out, zero, x, LS_F32, 1, 1, 1);
    cr_expect(out == 0.0f && !signbit(out));
}
