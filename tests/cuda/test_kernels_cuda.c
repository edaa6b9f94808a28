// Every CUDA kernel against the CPU's, bit for bit, on random and on edge inputs. Exit 77: no GPU.
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kernels/cuda/kernels_cuda.h"

static int checks, failures;
static bool brief;  // fewer cases, for tools that slow everything down
static uint64_t state = 0x9E3779B97F4A7C15u;

static uint64_t random_u64(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545F4914F6CDD1Du;
}

static size_t below(size_t limit) {
    return (size_t)(random_u64() % limit);
}

static void need(bool good, const char *what) {
    if (!good) {
        printf("FATAL %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
}

static void need_ok(int status, const char *what) {
    if (status != LS_OK) {
        printf("FATAL %s: %s\n", what, ls_error_last()->text);
        exit(1);
    }
}

// ---- Memory on both sides -----------------------------------------------------------------------
static void *host(size_t bytes) {
    void *memory = calloc(bytes + 1, 1);
    need(memory != NULL, "host memory");
    return memory;
}

// A copy of in [bytes] on the GPU; NULL: filled with 0xA5, which shows what is left unwritten.
static void *device(const void *in, size_t bytes) {
    void *memory = NULL;
    need(cudaMalloc(&memory, bytes + 1) == cudaSuccess, "cudaMalloc");
    if (in != NULL) {
        need(cudaMemcpy(memory, in, bytes, cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
    } else {
        need(cudaMemset(memory, 0xA5, bytes + 1) == cudaSuccess, "cudaMemset");
    }
    return memory;
}

static void *back(const void *from, size_t bytes) {
    void *memory = host(bytes);
    need(cudaDeviceSynchronize() == cudaSuccess, "the kernel");
    need(cudaMemcpy(memory, from, bytes, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
    return memory;
}

static bool nan_element(const void *element, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) && isnan(ls_element_to_f64(element, dtype));
}

// Same bits, or both NaN.
static void expect_same(const char *what, const void *expected, const void *device_actual,
                        ls_dtype dtype, size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    char *actual = back(device_actual, count * bytes);
    checks++;
    for (size_t i = 0; i < count; i++) {
        const char *a = (const char *)expected + i * bytes, *b = actual + i * bytes;
        if (memcmp(a, b, bytes) != 0 && !(nan_element(a, dtype) && nan_element(b, dtype))) {
            printf("FAIL %s: element %zu of %zu %s: expected %.17g, got %.17g\n", what, i, count,
                   ls_dtype_name(dtype), ls_element_to_f64(a, dtype), ls_element_to_f64(b, dtype));
            failures++;
            break;
        }
    }
    free(actual);
}

static void expect(bool good, const char *what) {
    checks++;
    if (!good) {
        printf("FAIL %s\n", what);
        failures++;
    }
}

// Any bits: also NaN, infinities, subnormals and both zeros.
static void random_bits(void *out, ls_dtype dtype, size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < count * bytes; i++) {
        ((unsigned char *)out)[i] = (unsigned char)(random_u64() >> 40);
    }
    const double edges[] = {0.0,  -0.0, INFINITY, -INFINITY, NAN,  1.0,
                            -1.0, 448,  57344,    65504,     1e300};
    for (size_t i = 0; i < sizeof edges / sizeof *edges && i < count; i++) {
        ls_element_from_f64((char *)out + below(count) * bytes, dtype, edges[i]);
    }
}

// Numbers of a size, so that sums round but stay finite.
static void random_numbers(void *out, ls_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double number = ((double)(random_u64() >> 11) * 0x1p-53 - 0.5) * 8;
        ls_element_from_f64((char *)out + i * ls_dtype_bytes(dtype), dtype, number);
    }
}

// ---- Elements -----------------------------------------------------------------------------------
// Fill and copies give every byte its value, for all types and odd sizes.
static void test_fill_copy(void) {
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        size_t counts[] = {0, 1, 255, 100003};
        for (size_t c = 0; c < 4; c++) {
            size_t count = counts[c], bytes = count * ls_dtype_bytes(d);
            uint64_t value = random_u64();
            void *expected = host(bytes), *to = device(NULL, bytes);
            ls_kernel_fill(expected, d, &value, count);
            need_ok(ls_kernel_fill_cuda(to, d, &value, count, NULL), "fill");
            expect_same("fill", expected, to, d, count);
            void *copy = device(NULL, bytes);
            need_ok(ls_kernel_copy_cuda(copy, to, bytes, NULL), "copy");
            expect_same("copy", expected, copy, d, count);
            cudaFree(copy);
            cudaFree(to);
            free(expected);
        }
    }
    enum { ROWS = 37, IN_STRIDE = 103, OUT_STRIDE = 211, ROW = 97 };
    char *in = host(ROWS * IN_STRIDE), *expected = host(ROWS * OUT_STRIDE);
    random_bits(in, LS_U8, ROWS * IN_STRIDE);
    memset(expected, 0xA5, ROWS * OUT_STRIDE);
    void *from = device(in, ROWS * IN_STRIDE), *to = device(NULL, ROWS * OUT_STRIDE);
    ls_kernel_copy_2d(expected, OUT_STRIDE, in, IN_STRIDE, ROW, ROWS);
    need_ok(ls_kernel_copy_2d_cuda(to, OUT_STRIDE, from, IN_STRIDE, ROW, ROWS, NULL), "copy_2d");
    expect_same("copy_2d", expected, to, LS_U8, ROWS * OUT_STRIDE);
    ls_kernel_copy_2d(expected, OUT_STRIDE, in, 0, ROW, ROWS);  // one row again and again
    need_ok(ls_kernel_copy_2d_cuda(to, OUT_STRIDE, from, 0, ROW, ROWS, NULL), "copy_2d");
    expect_same("copy_2d, stride 0", expected, to, LS_U8, ROWS * OUT_STRIDE);
    cudaFree(from);
    cudaFree(to);
    free(in);
    free(expected);
}

// Conversions between all pairs of types round as on the CPU.
static void test_convert(void) {
    enum { COUNT = 20000 };
    for (int from = 0; from < LS_DTYPE_COUNT; from++) {
        void *in = host(COUNT * 8);
        random_bits(in, from, COUNT);
        random_numbers((char *)in + COUNT / 2 * ls_dtype_bytes(from), from, COUNT / 2);
        void *in_device = device(in, COUNT * ls_dtype_bytes(from));
        for (int to = brief ? from % 5 : 0; to < LS_DTYPE_COUNT; to += brief ? 5 : 1) {
            void *expected = host(COUNT * 8), *out = device(NULL, COUNT * 8);
            char what[64];
            snprintf(what, sizeof what, "convert %s to %s", ls_dtype_name(from), ls_dtype_name(to));
            ls_kernel_convert(expected, to, in, from, COUNT);
            need_ok(ls_kernel_convert_cuda(out, to, in_device, from, COUNT, NULL), what);
            expect_same(what, expected, out, to, COUNT);
            cudaFree(out);
            free(expected);
        }
        cudaFree(in_device);
        free(in);
    }
}

static void reduce_case(ls_dtype dtype, ls_op op, size_t in_count, size_t count, bool in_place,
                        bool any_bits) {
    size_t bytes = count * ls_dtype_bytes(dtype);
    void *in[80], *in_device[80];
    const void *pointers[80], *pointers_device[80];
    double premul[80];
    for (size_t k = 0; k < in_count; k++) {
        in[k] = host(bytes);
        (any_bits ? random_bits : random_numbers)(in[k], dtype, count);
        in_device[k] = device(in[k], bytes);
        pointers[k] = in[k];
        pointers_device[k] = in_device[k];
        premul[k] = 0.25 * (double)(k % 7) + 0.3;
    }
    const double *factors = op == LS_PREMUL_SUM ? premul : NULL;
    void *expected = host(bytes), *out = in_place ? in_device[in_count - 1] : device(NULL, bytes);
    char what[96];
    snprintf(what, sizeof what, "reduce %s %s of %zu%s", ls_op_name(op), ls_dtype_name(dtype),
             in_count, in_place ? " in place" : "");
    ls_kernel_reduce(expected, pointers, in_count, dtype, op, factors, count);
    need_ok(ls_kernel_reduce_cuda(out, pointers_device, in_count, dtype, op, factors, count, NULL),
            what);
    expect_same(what, expected, out, dtype, count);
    if (!in_place) {
        cudaFree(out);
    }
    for (size_t k = 0; k < in_count; k++) {
        free(in[k]);
        cudaFree(in_device[k]);
    }
    free(expected);
}

// Reductions fold left in dtype, for all types and operations, also of bits that are no numbers.
static void test_reduce(void) {
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        for (int op = 0; op < LS_OP_COUNT; op++) {
            if (ls_op_supports(op, d) && !(brief && (d + op) % 4 != 0)) {
                reduce_case(d, op, 1, 1000, false, false);
                reduce_case(d, op, 4, 10007, false, false);
                reduce_case(d, op, 5, 3001, true, op <= LS_MIN);
                reduce_case(d, op, 70, 33, false, false);
            }
        }
    }
}

// Accumulating, scaling and fused multiply-adding give the CPU's bits.
static void test_accumulate(void) {
    enum { COUNT = 10007 };
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        size_t bytes = COUNT * ls_dtype_bytes(d);
        void *a = host(bytes), *b = host(bytes);
        uint64_t factor = 0;
        random_numbers(a, d, COUNT);
        random_numbers(b, d, COUNT);
        random_numbers(&factor, d, 1);
        void *b_device = device(b, bytes);
        for (int op = 0; op < LS_OP_COUNT; op++) {
            if (!ls_op_supports(op, d) || op == LS_AVG || op == LS_PREMUL_SUM) {
                continue;
            }
            void *a_device = device(a, bytes), *expected = host(bytes);
            memcpy(expected, a, bytes);
            ls_kernel_accumulate(expected, b, d, op, COUNT);
            need_ok(ls_kernel_accumulate_cuda(a_device, b_device, d, op, COUNT, NULL),
                    "accumulate");
            expect_same("accumulate", expected, a_device, d, COUNT);
            cudaFree(a_device);
            free(expected);
        }
        void *out = device(NULL, bytes), *expected = host(bytes);
        ls_kernel_scale(expected, b, &factor, d, COUNT);
        need_ok(ls_kernel_scale_cuda(out, b_device, &factor, d, COUNT, NULL), "scale");
        expect_same("scale", expected, out, d, COUNT);
        if (d == LS_F16 || d == LS_BF16 || d == LS_F32 || d == LS_F64) {
            void *a_device = device(a, bytes);
            memcpy(expected, a, bytes);
            ls_kernel_accumulate_fma(expected, b, &factor, d, COUNT);
            need_ok(ls_kernel_accumulate_fma_cuda(a_device, b_device, &factor, d, COUNT, NULL),
                    "accumulate_fma");
            expect_same("accumulate_fma", expected, a_device, d, COUNT);
            cudaFree(a_device);
        }
        cudaFree(out);
        cudaFree(b_device);
        free(expected);
        free(a);
        free(b);
    }
}

// A matrix product folds over k in order, whatever the tiles.
static void test_matmul(void) {
    const size_t shapes[][3] = {{1, 1, 1}, {17, 33, 5}, {64, 100, 64}, {3, 0, 4}, {40, 7, 130}};
    for (int d = LS_F32; d <= LS_F64; d++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            size_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2];
            void *a = host(m * k * 8), *b = host(k * n * 8), *expected = host(m * n * 8);
            random_numbers(a, d, m * k);
            random_numbers(b, d, k * n);
            void *a_device = device(a, m * k * 8), *b_device = device(b, k * n * 8);
            void *out = device(NULL, m * n * 8);
            ls_kernel_matmul(expected, a, b, d, m, k, n);
            need_ok(ls_kernel_matmul_cuda(out, a_device, b_device, d, m, k, n, NULL), "matmul");
            expect_same("matmul", expected, out, d, m * n);
            cudaFree(a_device);
            cudaFree(b_device);
            cudaFree(out);
            free(a);
            free(b);
            free(expected);
        }
    }
}

// ---- Embeddings ---------------------------------------------------------------------------------
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
    ls_kernel_pooled_lookup(expected, stride, table, dtype, ROWS, dim, b.ids, b.offsets,
                            weighted ? b.weights : NULL, padding_id, pooling, BAGS);
    need_ok(ls_kernel_pooled_lookup_cuda(out, stride, table_device, dtype, ROWS, dim, b.ids_device,
                                         b.offsets_device, weighted ? b.weights_device : NULL,
                                         padding_id, pooling, BAGS, NULL),
            what);
    expect_same(what, expected, out, out_dtype, BAGS * stride);
    cudaFree(table_device);
    cudaFree(out);
    free(table);
    free(expected);
    free_bags(&b);
}

// Pooled lookups add in the order of the bag, in the fast form and in every other.
static void test_lookup(void) {
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

static void backward_case(size_t dim, bool weighted, int64_t padding_id, ls_pooling pooling,
                          int64_t rows) {
    enum { BAGS = 203 };
    bags b = make_bags(BAGS, 30, rows, padding_id);
    size_t stride = dim + 3, cells = (size_t)rows * dim;
    float *table = host(cells * 4), *grad_out = host(BAGS * stride * 4),
          *gradient = host(cells * 4);
    random_numbers(table, LS_F32, cells);
    random_numbers(grad_out, LS_F32, BAGS * stride);
    random_numbers(gradient, LS_F32, cells);
    void *table_device = device(table, cells * 4), *out = device(gradient, cells * 4);
    void *grad_device = device(grad_out, BAGS * stride * 4);
    const float *given_table = pooling == LS_POOL_MAX ? table : NULL;
    char what[128];
    snprintf(what, sizeof what, "backward dim %zu%s padding %lld pooling %d rows %lld", dim,
             weighted ? " weighted" : "", (long long)padding_id, (int)pooling, (long long)rows);
    ls_kernel_pooled_lookup_backward(gradient, dim, rows, grad_out, stride, given_table, b.ids,
                                     b.offsets, weighted ? b.weights : NULL, padding_id, pooling,
                                     BAGS);
    need_ok(ls_kernel_pooled_lookup_backward_cuda(
                out, dim, rows, grad_device, stride, given_table != NULL ? table_device : NULL,
                b.ids_device, b.ids_count, b.offsets_device, weighted ? b.weights_device : NULL,
                padding_id, pooling, BAGS, NULL),
            what);
    expect_same(what, gradient, out, LS_F32, cells);
    cudaFree(table_device);
    cudaFree(out);
    cudaFree(grad_device);
    free(table);
    free(grad_out);
    free(gradient);
    free_bags(&b);
}

// Row gradients add in the order of bags and ids, also where all ids are one row.
static void test_backward(void) {
    for (int pooling = LS_POOL_SUM; pooling <= LS_POOL_MAX; pooling++) {
        for (int form = 0; form < 6; form++) {
            const int64_t paddings[] = {-1, 7, -5};
            backward_case(form % 2 == 0 ? 5 : 64, form % 2 != 0, paddings[form / 2], pooling, 97);
        }
        backward_case(16, true, -1, pooling, 1);
    }
}

// Gathered rows are the rows, whatever their size.
static void test_gather(void) {
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
static void test_bucketize(void) {
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
    ls_kernel_bucketize(out_lengths, out_ids, weights, positions, b.ids, lengths, b.weights, starts,
                        OWNERS, BAGS);
    void *lengths_device = device(lengths, BAGS * 8),
         *starts_device = device(starts, sizeof starts);
    void *d_lengths = device(NULL, OWNERS * BAGS * 8), *d_ids = device(NULL, n * 8);
    void *d_positions = device(NULL, n * 8), *d_weights = device(NULL, n * 4);
    need_ok(ls_kernel_bucketize_cuda(d_lengths, d_ids, d_weights, d_positions, b.ids_device,
                                     lengths_device, b.weights_device, starts_device, OWNERS, BAGS,
                                     NULL),
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
static void test_resolve(void) {
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

// Offsets are prefix sums; a negative length and an overflow are refused where they stand.
static void test_offsets(void) {
    enum { COUNT = 100003 };
    int64_t *lengths = host(COUNT * 8), *expected = host((COUNT + 1) * 8);
    for (int i = 0; i < COUNT; i++) {
        lengths[i] = (int64_t)below(30);
    }
    void *in = device(lengths, COUNT * 8), *out = device(NULL, (COUNT + 1) * 8);
    need_ok(ls_kernel_offsets(expected, lengths, COUNT, NULL), "offsets");
    need_ok(ls_kernel_offsets_cuda(out, in, COUNT, NULL, NULL), "offsets");
    expect_same("offsets", expected, out, LS_I64, COUNT + 1);
    for (int form = 0; form < 2; form++) {
        lengths[777] = form == 0 ? -1 : INT64_MAX;
        lengths[999] = -1;
        cudaFree(in);
        in = device(lengths, COUNT * 8);
        size_t bad = 0, bad_cuda = 0;
        int status = ls_kernel_offsets(expected, lengths, COUNT, &bad);
        int status_cuda = ls_kernel_offsets_cuda(out, in, COUNT, &bad_cuda, NULL);
        expect(status != LS_OK && status == status_cuda && bad == bad_cuda,
               "offsets refuses as the CPU does");
    }
    need_ok(ls_kernel_offsets_cuda(out, in, 0, NULL, NULL), "offsets");
    expected[0] = 0;
    expect_same("offsets of nothing", expected, out, LS_I64, 1);
    cudaFree(in);
    cudaFree(out);
    free(lengths);
    free(expected);
}

// test_kernels_cuda [short]
int main(int argc, char **argv) {
    brief = argc > 1 && strcmp(argv[1], "short") == 0;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no GPU\n");
        return 77;
    }
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"fill and copy", test_fill_copy}, {"convert", test_convert},
        {"reduce", test_reduce},           {"accumulate", test_accumulate},
        {"matmul", test_matmul},           {"pooled lookup", test_lookup},
        {"backward", test_backward},       {"gather", test_gather},
        {"bucketize", test_bucketize},     {"resolve ids", test_resolve},
        {"offsets", test_offsets},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        int before = failures, checks_before = checks;
        tests[i].run();
        printf("%s: %d checks, %d failed\n", tests[i].name, checks - checks_before,
               failures - before);
    }
    need(cudaDeviceSynchronize() == cudaSuccess, "the last kernel");
    printf("%d checks, %d failed\n", checks, failures);
    return failures == 0 && checks > 0 ? 0 : 1;
}
