// Quantised rows against their plain reference, against recorded bytes of FBGEMM and torch, and
// against the lookup of the dequantised rows.
#include <criterion/criterion.h>

#include "kernels/cpu/quantise.h"
#include "oracle.h"

enum { ROWS = 19, DIM_MAX = 1031, BYTES_MAX = ROWS * (DIM_MAX * 2 + 64), FORMATS = 11 };

static const ls_row_format formats[FORMATS] = {
    {LS_ROW_INT8, true, false, 0},    {LS_ROW_INT8, true, true, 16},
    {LS_ROW_INT8, false, false, 1},   {LS_ROW_INT8, false, true, 16},
    {LS_ROW_INT4, false, false, 0},   {LS_ROW_INT4, false, true, 16},
    {LS_ROW_INT2, false, false, 0},   {LS_ROW_INT2, false, true, 1},
    {LS_ROW_F16, false, false, 16},   {LS_ROW_BF16, false, false, 0},
    {LS_ROW_F8E4M3, false, false, 16}};
static const ls_row_format f8e5m2 = {LS_ROW_F8E5M2, false, false, 7};
static const size_t dims[] = {0, 1, 3, 8, 17, 64, 511, 513, DIM_MAX};
enum { DIMS = sizeof dims / sizeof dims[0] };

static float table[ROWS * DIM_MAX];
static unsigned char fast[BYTES_MAX], plain[BYTES_MAX];
static float fast_floats[ROWS * DIM_MAX], plain_floats[ROWS * DIM_MAX];

// Rows of all sizes; row 1 of one value, row 2 of zeros of both signs, row 3 of few values, row 4
// far from 0, row 5 too small for f16.
static void draw_table(uint64_t seed, size_t dim) {
    uint64_t state = seed;
    for (size_t row = 0; row < ROWS; row++) {
        float size = ldexpf(1.0f, (int)(next_random(&state) % 20) - 12);
        for (size_t d = 0; d < dim; d++) {
            uint64_t random = next_random(&state);
            float x = (float)(int64_t)random / 0x1p63f;
            float zero = random % 2 == 0 ? 0.0f : -0.0f;
            float values[] = {x * size, 0.1f,        zero, (float)(random % 5) / 4,
                              1000 + x, x * 0x1p-40f};
            table[row * dim + d] = values[row < 6 ? row : 0];
        }
    }
}

static size_t bytes_of(const ls_row_format *format, size_t dim) {
    size_t bytes;
    cr_assert(ls_row_format_bytes(&bytes, format, dim) == LS_OK);
    return bytes;
}

static void check_rows(const ls_row_format *format, size_t dim, uint64_t seed) {
    const char *name = ls_row_element_name(format->element);
    size_t bytes = ROWS * bytes_of(format, dim);
    draw_table(seed, dim);
    memset(fast, 0x7B, sizeof fast);
    memset(plain, 0x7B, sizeof plain);
    cr_assert(ls_kernel_quantise_rows(fast, format, table, dim, ROWS, dim, NULL) == LS_OK);
    cr_assert(ls_kernel_quantise_rows_reference(plain, format, table, dim, ROWS, dim, NULL) ==
              LS_OK);
    cr_assert(bytes <= BYTES_MAX);
    for (size_t i = 0; i < sizeof fast; i++) {
        cr_assert(fast[i] == plain[i], "%s, dim %zu: byte %zu of %zu is %d, not %d", name, dim, i,
                  bytes, fast[i], plain[i]);
    }
    ls_kernel_dequantise_rows(fast_floats, fast, format, ROWS, dim);
    ls_kernel_dequantise_rows_reference(plain_floats, fast, format, ROWS, dim);
    cr_assert(memcmp(fast_floats, plain_floats, ROWS * dim * sizeof(float)) == 0, "%s, dim %zu",
              name, dim);
}

// Every format, at odd sizes and past the tile, in both directions, bit for bit.
Test(quantise, rows_match_the_reference) {
    for (size_t i = 0; i < FORMATS * DIMS; i++) {
        check_rows(&formats[i % FORMATS], dims[i / FORMATS], i);
    }
    check_rows(&f8e5m2, 17, 1);
}

// Any bytes are a valid row, including infinite and NaN scales.
Test(quantise, any_bytes_dequantise_as_the_reference) {
    uint64_t state = 3;
    for (size_t i = 0; i < FORMATS * 40; i++) {
        const ls_row_format *format = &formats[i % FORMATS];
        size_t bytes = 7 * bytes_of(format, 21);
        for (size_t b = 0; b < bytes; b++) {
            fast[b] = (unsigned char)next_random(&state);
        }
        ls_kernel_dequantise_rows(fast_floats, fast, format, 7, 21);
        ls_kernel_dequantise_rows_reference(plain_floats, fast, format, 7, 21);
        for (size_t d = 0; d < 7 * 21; d++) {
            cr_assert((isnan(fast_floats[d]) && isnan(plain_floats[d])) ||
                      memcmp(&fast_floats[d], &plain_floats[d], sizeof(float)) == 0);
        }
    }
}

static const float known[8] = {-0.5f, 0.25f, 1.5f, 3.0f, -0.0f, 2.2f, 0.1f, -0.4f};

static void check_bytes(ls_row_format format, const unsigned char *want, size_t count) {
    unsigned char out[32];
    cr_assert(bytes_of(&format, 8) == count);
    cr_assert(ls_kernel_quantise_rows(out, &format, known, 8, 1, 8, NULL) == LS_OK);
    for (size_t i = 0; i < count; i++) {
        cr_expect(out[i] == want[i], "%s: byte %zu is %02x, not %02x",
                  ls_row_element_name(format.element), i, out[i], want[i]);
    }
}

// The bytes that FBGEMM 1.6.0 (and torch 2.11) makes of a row, and the same with the scale first.
Test(quantise, bytes_of_fbgemm) {
    static const unsigned char fused8[] = {0x00, 0x37, 0x92, 0xFF, 0x24, 0xC5, 0x2C, 0x07,
                                           0xE1, 0xE0, 0x60, 0x3C, 0x00, 0x00, 0x00, 0xBF};
    static const unsigned char n8[] = {0x00, 0x37, 0x92, 0xFF, 0x24, 0xC5,
                                       0x2C, 0x07, 0x07, 0x23, 0x00, 0xB8};
    static const unsigned char n4[] = {0x30, 0xF9, 0xC2, 0x03, 0x77, 0x33, 0x00, 0xB8};
    static const unsigned char n2[] = {0xE4, 0x18, 0xAB, 0x3C, 0x00, 0xB8};
    static const unsigned char n4_first[] = {0x77, 0x33, 0x00, 0xB8, 0x30, 0xF9, 0xC2, 0x03,
                                             0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    check_bytes((ls_row_format){LS_ROW_INT8, true, false, 0}, fused8, sizeof fused8);
    check_bytes((ls_row_format){LS_ROW_INT8, false, false, 0}, n8, sizeof n8);
    check_bytes((ls_row_format){LS_ROW_INT4, false, false, 0}, n4, sizeof n4);
    check_bytes((ls_row_format){LS_ROW_INT2, false, false, 0}, n2, sizeof n2);
    check_bytes((ls_row_format){LS_ROW_INT4, false, true, 16}, n4_first, sizeof n4_first);
}

// Equal elements are restored exactly from an f32 scale, and from f16 as the f16 bias.
Test(quantise, equal_elements_come_back) {
    float row[5] = {0.1f, 0.1f, 0.1f, 0.1f, 0.1f}, back[5];
    unsigned char out[16];
    cr_assert(ls_kernel_quantise_rows(out, &formats[0], row, 5, 1, 5, NULL) == LS_OK);
    ls_kernel_dequantise_rows(back, out, &formats[0], 1, 5);
    cr_expect(memcmp(row, back, sizeof row) == 0);
    float half[5] = {0.375f, 0.375f, 0.375f, 0.375f, 0.375f};
    cr_assert(ls_kernel_quantise_rows(out, &formats[6], half, 5, 1, 5, NULL) == LS_OK);
    ls_kernel_dequantise_rows(back, out, &formats[6], 1, 5);
    cr_expect(memcmp(half, back, sizeof half) == 0);
}

// NaN, infinity and ranges beyond the scale's type are refused, and the first such row is named;
// rows of floats keep them.
Test(quantise, what_would_spoil_a_row_is_refused) {
    const struct {
        float value;
        bool f32_fails;
    } bad[] = {{NAN, true}, {INFINITY, true}, {-INFINITY, true}, {3e6f, false}, {-7e4f, false}};
    unsigned char out[256], want[256];
    for (size_t i = 0; i < 5; i++) {
        float rows[3][9] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
        rows[1][8] = bad[i].value;
        for (size_t f = 0; f < 8; f++) {
            size_t row = 99, row_reference = 99;
            bool fails = bad[i].f32_fails || !formats[f].scale_f32;
            int status = ls_kernel_quantise_rows(out, &formats[f], rows[0], 9, 3, 9, &row);
            // a byte of codes leaves f16's scale room for 3e6: 3e6 / 255 is below 65504
            fails = fails && !(bad[i].value > 1e6f && isfinite(bad[i].value) &&
                               formats[f].element == LS_ROW_INT8);
            cr_expect(status == (fails ? LS_ERR_INVALID : LS_OK), "value %zu format %zu", i, f);
            cr_expect(row == (fails ? 1 : 99));
            cr_expect(ls_kernel_quantise_rows_reference(want, &formats[f], rows[0], 9, 3, 9,
                                                        &row_reference) == status);
            cr_expect(row_reference == row);
        }
        cr_expect(ls_kernel_quantise_rows(out, &formats[9], rows[0], 9, 3, 9, NULL) == LS_OK);
    }
    float widest[2] = {-3e38f, 3e38f};  // finite, and their distance is not
    cr_expect(ls_kernel_quantise_rows(out, &formats[0], widest, 2, 1, 2, NULL) == LS_ERR_INVALID);
}

// Invalid formats are refused with the reason.
Test(quantise, formats_are_checked) {
    const ls_row_format bad[] = {{LS_ROW_INT4, true, false, 0},
                                 {LS_ROW_F16, false, true, 0},
                                 {LS_ROW_INT8, false, false, LS_ROW_ALIGNMENT_MAX + 1},
                                 {LS_ROW_ELEMENT_COUNT, false, false, 0}};
    size_t bytes;
    for (size_t i = 0; i < 4; i++) {
        cr_expect(ls_row_format_bytes(&bytes, &bad[i], 4) == LS_ERR_INVALID, "format %zu", i);
    }
    cr_expect(ls_row_format_bytes(&bytes, &formats[0], SIZE_MAX / 2 + 1) == LS_ERR_OVERFLOW);
    cr_expect(ls_row_format_bytes(&bytes, &formats[0], SIZE_MAX / 2) == LS_ERR_OVERFLOW);
    cr_expect(bytes_of(&formats[0], 5) == 13 && bytes_of(&formats[3], 5) == 16);
    cr_expect(bytes_of(&formats[4], 5) == 7 && bytes_of(&formats[6], 5) == 6);
    cr_expect(bytes_of(&formats[8], 5) == 16 && bytes_of(&f8e5m2, 8) == 14);
}

static void check_lookup(const ls_row_format *format, size_t dim, int kind) {
    static float out[3][9 * (DIM_MAX + 1)];
    static const int64_t offsets[10] = {7, 10, 10, 11, 15, 15, 16, 30, 31, 32};
    int64_t ids[25];
    float weights[25];
    uint64_t state = (uint64_t)kind;
    for (size_t i = 0; i < 25; i++) {
        uint64_t random = next_random(&state);
        ids[i] = i == 24 ? 5 : (int64_t)(random % ROWS);
        weights[i] = (float)((int)(random >> 40 & 255) - 90) / 32;
    }
    ls_pooling pooling = (ls_pooling)(LS_POOL_SUM + kind % 3);
    const float *by = kind / 3 % 2 ? weights : NULL;
    int64_t padding = kind / 6 ? 5 : -1;
    size_t stride = dim + 1;
    memset(out, 0x7B, sizeof out);
    ls_kernel_quantised_lookup(out[0], stride, fast, format, ROWS, dim,
                               &(const ls_bags){ids, offsets, by, padding, pooling, 9});
    ls_kernel_quantised_lookup_reference(out[1], stride, fast, format, ROWS, dim,
                                         &(const ls_bags){ids, offsets, by, padding, pooling, 9});
    ls_kernel_pooled_lookup(out[2], stride, plain_floats,
                            &(const ls_table_shape){LS_F32, ROWS, dim},
                            &(const ls_bags){ids, offsets, by, padding, pooling, 9});
    cr_assert(memcmp(out[0], out[1], sizeof out[0]) == 0, "%s, dim %zu, kind %d",
              ls_row_element_name(format->element), dim, kind);
    cr_assert(memcmp(out[0], out[2], sizeof out[0]) == 0, "%s, dim %zu, kind %d",
              ls_row_element_name(format->element), dim, kind);
}

// Every format and pooling, with and without weights and padding: the reference's bits, and those
// of a lookup of the reference's dequantised rows.
Test(quantise, lookup_matches_the_reference_and_the_dequantised_table) {
    for (size_t i = 0; i < FORMATS * DIMS; i++) {
        const ls_row_format *format = &formats[i % FORMATS];
        size_t dim = dims[i / FORMATS];
        check_rows(format, dim, 50 + i);
        for (int kind = 0; kind < 12; kind++) {
            check_lookup(format, dim, kind);
        }
    }
}

// Columns sharded and then quantised have their own scales: other bytes than the columns of the
// quantised rows, unless both ends of a row's range are in the shard.
Test(quantise, sharding_columns_comes_before_or_after) {
    const float row[8] = {0, 10, 4, 7, 1, 2, 1.5f, 1.25f};
    unsigned char whole[16], left[12], right[12];
    cr_assert(ls_kernel_quantise_rows(whole, &formats[0], row, 8, 1, 8, NULL) == LS_OK);
    cr_assert(ls_kernel_quantise_rows(left, &formats[0], row, 8, 1, 4, NULL) == LS_OK);
    cr_assert(ls_kernel_quantise_rows(right, &formats[0], row + 4, 8, 1, 4, NULL) == LS_OK);
    cr_expect(memcmp(whole, left, 4) == 0 && memcmp(whole + 8, left + 4, 8) == 0);
    cr_expect(right[0] == 0 && right[1] == 255 && whole[4] == 26 && whole[5] == 51);
}

// A column range of packed rows reads like the columns of the whole rows, wherever in a byte it
// begins, and packs like rows of that width; the codes of 1 2 3 out of 0 1 2 3 by hand.
Test(quantise, columns_are_cut_out_of_packed_rows) {
    enum { DIM = 17 };
    unsigned char cut[ROWS * 64];
    float part[ROWS * DIM];
    for (size_t i = 0; i < FORMATS; i++) {
        check_rows(&formats[i], DIM, 90 + i);  // leaves table, fast and fast_floats
        for (size_t first = 0; first < DIM; first++) {
            size_t left = DIM - first, count = left - left / 3;
            size_t bytes = bytes_of(&formats[i], count);
            memset(cut, 0x55, sizeof cut);
            ls_kernel_cut_quantised_rows(cut, fast, &formats[i], ROWS, DIM, first, count);
            ls_kernel_dequantise_rows_reference(part, cut, &formats[i], ROWS, count);
            for (size_t at = 0; at < ROWS * count; at++) {
                cr_assert(memcmp(&part[at], &fast_floats[at / count * DIM + first + at % count],
                                 sizeof(float)) == 0,
                          "format %zu, columns %zu + %zu: element %zu", i, first, count, at);
            }
            cr_assert(cut[ROWS * bytes] == 0x55);
        }
    }
    const float row[4] = {0, 1, 2, 3};
    ls_row_format int2 = {.element = LS_ROW_INT2, .alignment = 8};
    cr_assert(ls_kernel_quantise_rows(fast, &int2, row, 4, 1, 4, NULL) == LS_OK);
    ls_kernel_cut_quantised_rows(cut, fast, &int2, 1, 4, 1, 3);
    cr_expect(fast[0] == 0xE4 && cut[0] == 0x39);  // 3 2 1 0 and 3 2 1, two bits each
    cr_expect(memcmp(cut + 1, fast + 1, 4) == 0 && cut[5] == 0 && cut[6] == 0 && cut[7] == 0);
}

// No rows and empty rows: nothing is read; an empty row still has a scale.
Test(quantise, nothing_to_do) {
    unsigned char out[8];
    cr_expect(ls_kernel_quantise_rows(NULL, &formats[0], NULL, 0, 0, 5, NULL) == LS_OK);
    ls_kernel_dequantise_rows(NULL, NULL, &formats[4], 0, 5);
    cr_expect(ls_kernel_quantise_rows(out, &formats[2], NULL, 0, 1, 0, NULL) == LS_OK);
    cr_expect(memcmp(out, "\x00\x3C\x00\x00", 4) == 0);  // 1 and 0
}
