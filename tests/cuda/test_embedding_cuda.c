// The embedding kernels on a GPU against the CPU's, bit for bit.
#include "tests/cuda/test.h"

typedef struct bags {
    size_t count, ids_count;
    int64_t rows;
    int64_t *ids, *offsets;
    float *weights;
    void *ids_device, *offsets_device, *weights_device;
} bags;

static bags make_bags(size_t count, size_t pooling_max, int64_t rows, int64_t padding_id) {
    bags b = {.count = count, .rows = rows};
    b.offsets = host((count + 1) * sizeof(int64_t));
    b.offsets[0] = 3;  // offsets need not begin at 0
    for (size_t i = 0; i < count; i++) {
        size_t length = pooling_max == 0 ? 0 : below(pooling_max + 1);
        length = i % 17 == 3 ? 0 : length;
        b.offsets[i + 1] = b.offsets[i] + (int64_t)length;
    }
    b.ids_count = (size_t)(b.offsets[count] - b.offsets[0]);
    b.ids = host(b.ids_count * sizeof(int64_t));
    b.weights = host(b.ids_count * sizeof(float));
    random_numbers(b.weights, LS_F32, b.ids_count);
    for (size_t i = 0; i < b.ids_count; i++) {
        b.ids[i] = (int64_t)below((size_t)rows);
        if (padding_id < -1 && below(4) == 0) {
            b.ids[i] = padding_id;  // a padding id need not be a row
        }
    }
    b.ids_device = device(b.ids, b.ids_count * sizeof(int64_t));
    b.offsets_device = device(b.offsets, (count + 1) * sizeof(int64_t));
    b.weights_device = device(b.weights, b.ids_count * sizeof(float));
    return b;
}

static void free_bags(bags *b) {
    free(b->ids);
    free(b->offsets);
    free(b->weights);
    cudaFree(b->ids_device);
    cudaFree(b->offsets_device);
    cudaFree(b->weights_device);
}

static void lookup_case(ls_dtype dtype, size_t dim, size_t pooling_max, bool weighted,
                        int64_t padding_id, ls_pooling pooling) {
    enum { ROWS = 501, BAGS = 203 };
    bags b = make_bags(BAGS, pooling_max, ROWS, padding_id);
    size_t stride = dim + (dim % 4 == 0 ? 8 : 3), bytes = ls_dtype_bytes(dtype);
    ls_dtype out_dtype = dtype == LS_F64 ? LS_F64 : LS_F32;
    size_t out_bytes = BAGS * stride * ls_dtype_bytes(out_dtype);
    void *table = host(ROWS * dim * bytes), *expected = host(out_bytes);
    random_numbers(table, dtype, ROWS * dim);
    memset(expected, 0xA5, out_bytes);
    void *table_device = device(table, ROWS * dim * bytes), *out = device(NULL, out_bytes);
    char what[128];
    snprintf(what, sizeof what, "pooled_lookup %s dim %zu bags of %zu%s padding %lld pooling %d",
             ls_dtype_name(dtype), dim, pooling_max, weighted ? " weighted" : "",
             (long long)padding_id, (int)pooling);
    ls_kernel_pooled_lookup(
        expected, stride, table, &(const ls_table_shape){dtype, ROWS, dim},
        &(const ls_bags){b.ids, b.offsets, weighted ? b.weights : NULL, padding_id, pooling, BAGS});
    need_ok(ls_kernel_pooled_lookup_cuda(
                out, stride, table_device, &(const ls_table_shape){dtype, ROWS, dim},
                &(const ls_bags){b.ids_device, b.offsets_device, weighted ? b.weights_device : NULL,
                                 padding_id, pooling, BAGS},
                NULL),
            what);
    expect_same(what, expected, out, out_dtype, BAGS * stride);
    cudaFree(table_device);
    cudaFree(out);
    free(table);
    free(expected);
    free_bags(&b);
}

// Pooled lookups add in the order of the bag, in the fast form and in every other.
void test_lookup(void) {
    const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    const size_t dims[] = {1, 4, 36, 128, 130, 256};
    const int64_t paddings[] = {-1, 7, -5};
    for (size_t d = 0; d < 4; d++) {
        for (size_t k = 0; k < 6; k++) {
            for (int form = brief ? (int)(d + k) % 6 : 0; form < 18; form += brief ? 6 : 1) {
                lookup_case(dtypes[d], dims[k], form % 5 == 0 ? 75 : 9, form % 2 != 0,
                            paddings[form / 2 % 3], (ls_pooling)(LS_POOL_SUM + form / 6));
            }
        }
    }
    lookup_case(LS_F32, 128, 0, false, -1, LS_POOL_MEAN);
}

// Gathered rows are the rows, whatever their size.
void test_gather(void) {
    const size_t sizes[] = {1, 4, 12, 16, 512, 516};
    enum { ROWS = 301, COUNT = 1009 };
    int64_t *ids = host(COUNT * sizeof(int64_t));
    for (int i = 0; i < COUNT; i++) {
        ids[i] = (int64_t)below(ROWS);
    }
    void *ids_device = device(ids, COUNT * sizeof(int64_t));
    for (size_t s = 0; s < 6; s++) {
        void *table = host(ROWS * sizes[s]), *expected = host(COUNT * sizes[s]);
        random_bits(table, LS_U8, ROWS * sizes[s]);
        void *table_device = device(table, ROWS * sizes[s]), *out = device(NULL, COUNT * sizes[s]);
        ls_kernel_gather_rows(expected, table, sizes[s], ROWS, ids, COUNT);
        need_ok(
            ls_kernel_gather_rows_cuda(out, table_device, sizes[s], ROWS, ids_device, COUNT, NULL),
            "gather_rows");
        expect_same("gather_rows", expected, out, LS_U8, COUNT * sizes[s]);
        cudaFree(table_device);
        cudaFree(out);
        free(table);
        free(expected);
    }
    cudaFree(ids_device);
    free(ids);
}

// Bucketize keeps the order of bags and ids within each owner, with empty owners and empty bags.
void test_bucketize(void) {
    enum { OWNERS = 5, BAGS = 307, ROWS = 1000 };
    const int64_t starts[OWNERS + 1] = {0, 300, 300, 301, 999, ROWS};
    bags b = make_bags(BAGS, 12, ROWS, -1);
    int64_t *lengths = host(BAGS * 8);
    for (int i = 0; i < BAGS; i++) {
        lengths[i] = b.offsets[i + 1] - b.offsets[i];
    }
    size_t n = b.ids_count;
    int64_t *out_lengths = host(OWNERS * BAGS * 8), *out_ids = host(n * 8),
            *positions = host(n * 8);
    float *weights = host(n * 4);
    ls_kernel_bucketize(&(const ls_buckets){out_lengths, out_ids, weights, positions}, b.ids,
                        lengths, b.weights, starts, OWNERS, BAGS);
    void *lengths_device = device(lengths, BAGS * 8),
         *starts_device = device(starts, sizeof starts);
    void *d_lengths = device(NULL, OWNERS * BAGS * 8), *d_ids = device(NULL, n * 8);
    void *d_positions = device(NULL, n * 8), *d_weights = device(NULL, n * 4);
    need_ok(ls_kernel_bucketize_cuda(&(const ls_buckets){d_lengths, d_ids, d_weights, d_positions},
                                     b.ids_device, lengths_device, b.weights_device, starts_device,
                                     OWNERS, BAGS, NULL),
            "bucketize");
    expect_same("bucketize lengths", out_lengths, d_lengths, LS_I64, OWNERS * BAGS);
    expect_same("bucketize ids", out_ids, d_ids, LS_I64, n);
    expect_same("bucketize weights", weights, d_weights, LS_F32, n);
    expect_same("bucketize positions", positions, d_positions, LS_I64, n);
    void *all[] = {lengths_device, starts_device, d_lengths, d_ids, d_positions, d_weights};
    for (size_t i = 0; i < 6; i++) {
        cudaFree(all[i]);
    }
    free(lengths);
    free(out_lengths);
    free(out_ids);
    free(positions);
    free(weights);
    free_bags(&b);
}

// Ids are clamped, wrapped or refused with the first bad position, as on the CPU.
void test_resolve(void) {
    enum { COUNT = 5003, ROWS = 100 };
    int64_t *ids = host(COUNT * 8), *expected = host(COUNT * 8);
    for (int i = 0; i < COUNT; i++) {
        ids[i] = (int64_t)below(4 * ROWS) - 2 * ROWS;
    }
    ids[5] = INT64_MIN;
    for (int policy = LS_ID_CLAMP; policy <= LS_ID_WRAP; policy++) {
        memcpy(expected, ids, COUNT * 8);
        void *on_device = device(ids, COUNT * 8);
        need_ok(ls_kernel_resolve_ids(expected, COUNT, ROWS, policy, NULL), "resolve_ids");
        need_ok(ls_kernel_resolve_ids_cuda(on_device, COUNT, ROWS, policy, NULL, NULL),
                "resolve_ids");
        expect_same("resolve_ids", expected, on_device, LS_I64, COUNT);
        cudaFree(on_device);
    }
    void *on_device = device(ids, COUNT * 8);
    size_t bad = 0, bad_cuda = 0;
    int status = ls_kernel_resolve_ids(ids, COUNT, ROWS, LS_ID_ERROR, &bad);
    int status_cuda =
        ls_kernel_resolve_ids_cuda(on_device, COUNT, ROWS, LS_ID_ERROR, &bad_cuda, NULL);
    expect(status == LS_ERR_INVALID && status_cuda == status && bad == bad_cuda,
           "resolve_ids names the first bad position");
    expect(ls_kernel_resolve_ids_cuda(on_device, 3, 0, LS_ID_CLAMP, &bad, NULL) == LS_ERR_INVALID,
           "no id is valid in a table without rows");
    cudaFree(on_device);
    free(ids);
    free(expected);
}

void test_scatter(void) {
    enum { ROWS = 501, COUNT = 301, SIZE = 12, STRIDE = 20 };
    int64_t *positions = host(COUNT * sizeof(int64_t));
    for (int i = 0; i < COUNT; i++) {
        positions[i] = (i * 5 + 3) % ROWS;  // distinct: 5 and 501 share no factor
    }
    unsigned char *in = host(COUNT * SIZE), *expected = host(ROWS * STRIDE);
    random_bits(in, LS_U8, COUNT * SIZE);
    memset(expected, 0xA5, ROWS * STRIDE);
    void *in_device = device(in, COUNT * SIZE), *out = device(NULL, ROWS * STRIDE);
    void *positions_device = device(positions, COUNT * sizeof(int64_t));
    ls_kernel_scatter_rows(expected, STRIDE, in, SIZE, positions, COUNT);
    need_ok(
        ls_kernel_scatter_rows_cuda(out, STRIDE, in_device, SIZE, positions_device, COUNT, NULL),
        "scatter_rows");
    expect_same("scatter_rows", expected, out, LS_U8, ROWS * STRIDE);
    cudaFree(in_device);
    cudaFree(out);
    cudaFree(positions_device);
    free(positions);
    free(in);
    free(expected);
}

static void bags_case(ls_dtype dtype, bool weighted, int64_t padding_id) {
    enum { ROWS = 501, BAGS = 203, DIM = 13, STRIDE = 17 };
    bags b = make_bags(BAGS, 9, ROWS, padding_id);
    size_t bytes = BAGS * STRIDE * ls_dtype_bytes(dtype);
    void *values = host(bytes);
    random_numbers(values, dtype, BAGS * STRIDE);
    void *out = device(values, bytes);
    ls_kernel_fill_empty_bags(
        values, STRIDE, dtype, -3.5, DIM,
        &(const ls_bags){
            .ids = b.ids, .offsets = b.offsets, .padding_id = padding_id, .count = BAGS});
    need_ok(ls_kernel_fill_empty_bags_cuda(out, STRIDE, dtype, -3.5, DIM,
                                           &(const ls_bags){.ids = b.ids_device,
                                                            .offsets = b.offsets_device,
                                                            .padding_id = padding_id,
                                                            .count = BAGS},
                                           NULL),
            "fill_empty_bags");
    expect_same("fill_empty_bags", values, out, dtype, BAGS * STRIDE);
    if (dtype == LS_F32 || dtype == LS_F64) {
        ls_kernel_divide_bags(values, STRIDE, dtype, DIM, 1e-6,
                              &(const ls_bags){.ids = b.ids,
                                               .offsets = b.offsets,
                                               .weights = weighted ? b.weights : NULL,
                                               .padding_id = padding_id,
                                               .count = BAGS});
        need_ok(ls_kernel_divide_bags_cuda(
                    out, STRIDE, dtype, DIM, 1e-6,
                    &(const ls_bags){.ids = b.ids_device,
                                     .offsets = b.offsets_device,
                                     .weights = weighted ? b.weights_device : NULL,
                                     .padding_id = padding_id,
                                     .count = BAGS},
                    NULL),
                "divide_bags");
        expect_same("divide_bags", values, out, dtype, BAGS * STRIDE);
    }
    cudaFree(out);
    free(values);
    free_bags(&b);
}

void test_bags(void) {
    const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_F16, LS_BF16};
    const int64_t paddings[] = {-1, 7, -5};
    for (size_t d = 0; d < 4; d++) {
        for (size_t p = 0; p < 3; p++) {
            bags_case(dtypes[d], false, paddings[p]);
            bags_case(dtypes[d], true, paddings[p]);
        }
    }
}
