// Every CUDA kernel against the CPU's, bit for bit, on random and on edge inputs. Exit 77: no GPU.
#include "tests/cuda/test.h"

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

// One NaN or infinity is detected at any position; the largest finite number of either sign is not.
static void test_any_special(void) {
    enum { COUNT = 70001 };
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        if (!ls_dtype_is_float(d)) {
            continue;
        }
        size_t bytes = ls_dtype_bytes(d);
        uint64_t least = ls_dtype_special_bits(d), sign = UINT64_C(1) << (8 * bytes - 1);
        size_t places[] = {0, 1, 255, 256, 4096, COUNT / 2, COUNT - 1};
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            for (int i = 0; i < 4; i++) {
                uint64_t bits = (least - (i % 2 == 0 ? 1 : 0)) | (i > 1 ? sign : 0);
                char *data = calloc(COUNT, bytes);
                memcpy(data + places[p] * bytes, &bits, bytes);
                void *on_device = device(data, COUNT * bytes);
                bool found = i % 2 == 0;
                need_ok(ls_kernel_any_special_cuda(&found, on_device, COUNT, d, NULL),
                        "any_special");
                if (found != (i % 2 != 0)) {
                    fprintf(stderr, "any_special: %s at %zu, case %d\n", ls_dtype_name(d),
                            places[p], i);
                    exit(1);
                }
                cudaFree(on_device);
                free(data);
            }
        }
    }
}

// One differing byte is detected at any position, also in unaligned memory.
static void test_equal(void) {
    enum { BYTES = 100003 };
    char *data = host(BYTES);
    random_bits(data, LS_U8, BYTES);
    for (size_t shift = 0; shift < 8; shift += 3) {
        for (size_t bytes = BYTES / 8 * 8 - 8; bytes < BYTES - 8; bytes += 5) {
            size_t places[] = {bytes, 0, 7, 4096, bytes / 2, bytes - 1};  // the first: none
            for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
                char *a = device(data, BYTES);
                data[shift + places[p]] = (char)(data[shift + places[p]] ^ 1);
                char *b = device(data, BYTES);
                data[shift + places[p]] = (char)(data[shift + places[p]] ^ 1);
                bool same = p != 0;
                need_ok(ls_kernel_equal_cuda(&same, a + shift, b + shift, bytes, NULL), "equal");
                if (same != (p == 0)) {
                    fprintf(stderr, "equal: %zu bytes, another at %zu\n", bytes, places[p]);
                    exit(1);
                }
                cudaFree(a);
                cudaFree(b);
            }
        }
    }
    free(data);
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

// test_kernels_cuda [short]
static void test_select(void) {
    enum { BYTES = 10007, PERIOD = 960 };
    unsigned char *mask = host(PERIOD), *a = host(BYTES), *b = host(BYTES);
    for (int i = 0; i < PERIOD; i++) {
        mask[i] = below(2) ? 0xff : 0;
    }
    random_bits(a, LS_U8, BYTES);
    random_bits(b, LS_U8, BYTES);
    void *a_device = device(a, BYTES), *b_device = device(b, BYTES);
    for (size_t start = 0; start < 3000; start += 997) {
        ls_kernel_select_bytes(a, b, mask, PERIOD, start, BYTES);
        need_ok(ls_kernel_select_bytes_cuda(a_device, b_device, mask, PERIOD, start, BYTES, NULL),
                "select_bytes");
        expect_same("select_bytes", a, a_device, LS_U8, BYTES);
    }
    cudaFree(a_device);
    cudaFree(b_device);
    free(mask);
    free(a);
    free(b);
}

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
        {"fill and copy", test_fill_copy},
        {"convert", test_convert},
        {"reduce", test_reduce},
        {"any_special", test_any_special},
        {"equal", test_equal},
        {"accumulate", test_accumulate},
        {"matmul", test_matmul},
        {"pooled lookup", test_lookup},
        {"gather", test_gather},
        {"bucketize", test_bucketize},
        {"resolve ids", test_resolve},
        {"training", test_training},
        {"quantised rows", test_quantise},
        {"scatter", test_scatter},
        {"bags", test_bags},
        {"select bytes", test_select},
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
