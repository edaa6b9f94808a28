// Quantised rows read on a GPU against the CPU's, bit for bit.
#include "kernels/quantise.h"
#include "tests/cuda/test.h"

enum { ROWS = 41, BAGS = 57, IDS = 700 };

static const ls_row_format formats[] = {
    {LS_ROW_INT8, true, false, 0},     {LS_ROW_INT8, true, true, 16},
    {LS_ROW_INT8, false, false, 0},    {LS_ROW_INT8, false, true, 16},
    {LS_ROW_INT4, false, false, 0},    {LS_ROW_INT4, false, true, 16},
    {LS_ROW_INT2, false, false, 0},    {LS_ROW_INT2, false, true, 1},
    {LS_ROW_F16, false, false, 16},    {LS_ROW_BF16, false, false, 0},
    {LS_ROW_F8E4M3, false, false, 16}, {LS_ROW_F8E5M2, false, false, 7}};

// Row 0 has one value, row 1 zeros of both signs.
static float *draw(size_t dim) {
    float *table = host((ROWS * dim + 1) * sizeof *table);
    random_numbers(table, LS_F32, ROWS * dim);
    for (size_t d = 0; d < dim; d++) {
        table[d] = 0.1f;
        table[dim + d] = below(2) == 0 ? 0.0f : -0.0f;
    }
    return table;
}

static void lookup_case(const ls_row_format *format, size_t dim, const void *rows, void *on_device,
                        int kind) {
    int64_t offsets[BAGS + 1] = {3}, ids[IDS];
    float weights[IDS];
    for (size_t b = 0; b < BAGS; b++) {
        offsets[b + 1] = offsets[b] + (int64_t)(b % 3 == 0 ? 0 : below(15));
    }
    for (size_t i = 0; i < IDS; i++) {
        ids[i] = (int64_t)below(ROWS);
    }
    random_numbers(weights, LS_F32, IDS);
    size_t bytes = BAGS * (dim + 1) * sizeof(float);
    float *expected = host(bytes);
    memset(expected, 0xA5, bytes);
    ls_pooling pooling = (ls_pooling)(LS_POOL_SUM + kind % 3);
    int64_t padding = kind / 6 ? 5 : -1;
    bool weighted = kind / 3 % 2;
    ls_kernel_quantised_lookup(
        expected, dim + 1, rows, format, ROWS, dim,
        &(const ls_bags){ids, offsets, weighted ? weights : NULL, padding, pooling, BAGS});
    void *out = device(NULL, bytes), *of = device(ids, sizeof ids);
    void *at = device(offsets, sizeof offsets), *by = device(weights, sizeof weights);
    need_ok(ls_kernel_quantised_lookup_cuda(
                out, dim + 1, on_device, format, ROWS, dim,
                &(const ls_bags){of, at, weighted ? by : NULL, padding, pooling, BAGS}, NULL),
            "quantised_lookup");
    expect_same("quantised_lookup", expected, out, LS_F32, BAGS * (dim + 1));
    cudaFree(out);
    cudaFree(of);
    cudaFree(at);
    cudaFree(by);
    free(expected);
}

static void rows_case(const ls_row_format *format, size_t dim) {
    size_t row_bytes = 0;
    need_ok(ls_row_format_bytes(&row_bytes, format, dim), "row_format_bytes");
    float *table = draw(dim), *values = host((ROWS * dim + 1) * sizeof *values);
    unsigned char *rows = host(ROWS * row_bytes + 1);
    need_ok(ls_kernel_quantise_rows(rows, format, table, dim, ROWS, dim, NULL), "quantise_rows");
    ls_kernel_dequantise_rows(values, rows, format, ROWS, dim);
    void *out = device(rows, ROWS * row_bytes + 1);
    void *floats = device(NULL, (ROWS * dim + 1) * sizeof *values);
    need_ok(ls_kernel_dequantise_rows_cuda(floats, out, format, ROWS, dim, NULL),
            "dequantise_rows");
    expect_same("dequantise_rows", values, floats, LS_F32, ROWS * dim);
    for (int kind = 0; kind < 12; kind += brief ? 5 : 1) {
        lookup_case(format, dim, rows, out, kind);
    }
    cudaFree(out);
    cudaFree(floats);
    free(table);
    free(values);
    free(rows);
}

void test_quantise(void) {
    static const size_t dims[] = {0, 1, 5, 8, 33, 130};
    size_t count = sizeof formats / sizeof *formats * 6;
    for (size_t c = 0; c < count; c += brief ? 7 : 1) {
        rows_case(&formats[c / 6], dims[c % 6]);
    }
}
