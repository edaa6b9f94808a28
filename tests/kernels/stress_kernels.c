// Uses every kernel at sizes around its blocks, in exactly sized heap memory, so that valgrind and
// the sanitizers detect any access outside. Also the only kernel test that runs under TSan.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static int failures;

static void expect(bool condition, const char *what, size_t count) {
    if (!condition) {
        fprintf(stderr, "stress_kernels: %s, count %zu\n", what, count);
        failures++;
    }
}

// Heap memory of exactly `bytes` bytes, filled with small positive patterns.
static void *memory(size_t bytes) {
    unsigned char *block = malloc(bytes > 0 ? bytes : 1);
    if (block == NULL) {
        abort();
    }
    for (size_t i = 0; i < bytes; i++) {
        block[i] = (unsigned char)(0x30 + (i * 7 + bytes) % 13);
    }
    return block;
}

static void stress_conversions(size_t count) {
    for (int from = 0; from < (int)LS_DTYPE_COUNT; from++) {
        for (int to = 0; to < (int)LS_DTYPE_COUNT; to++) {
            void *in = memory(count * ls_dtype_bytes((ls_dtype)from));
            void *out = memory(count * ls_dtype_bytes((ls_dtype)to));
            void *plain = memory(count * ls_dtype_bytes((ls_dtype)to));
            ls_kernel_convert(out, (ls_dtype)to, in, (ls_dtype)from, count);
            // 64-bit integers need a long double of 64 bits, which valgrind does not give.
            if (from != LS_I64 && from != LS_U64 && to != LS_I64 && to != LS_U64) {
                ls_kernel_convert_reference(plain, (ls_dtype)to, in, (ls_dtype)from, count);
                expect(memcmp(out, plain, count * ls_dtype_bytes((ls_dtype)to)) == 0, "convert",
                       count);
            }
            free(in);
            free(out);
            free(plain);
        }
    }
}

static void stress_reduce(ls_dtype dtype, size_t count) {
    size_t bytes = count * ls_dtype_bytes(dtype);
    void *in[3] = {memory(bytes), memory(bytes), memory(bytes)};
    const void *sources[3] = {in[0], in[1], in[2]};
    const double premul[3] = {1, 2, 3};
    void *out = memory(bytes);
    void *plain = memory(bytes);
    for (int op = 0; op < (int)LS_OP_COUNT; op++) {
        if (ls_op_supports((ls_op)op, dtype)) {
            const double *factors = op == LS_PREMUL_SUM ? premul : NULL;
            ls_kernel_reduce(out, sources, 3, dtype, (ls_op)op, factors, count);
            ls_kernel_reduce_reference(plain, sources, 3, dtype, (ls_op)op, factors, count);
            expect(memcmp(out, plain, bytes) == 0, ls_op_name((ls_op)op), count);
        }
    }
    const unsigned char factor[8] = {0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38};
    ls_kernel_accumulate(out, in[1], dtype, LS_SUM, count);
    ls_kernel_accumulate(in[1], in[1], dtype, LS_MAX, count);
    ls_kernel_scale(out, in[0], factor, dtype, count);
    if (ls_dtype_bytes(dtype) > 1 && ls_dtype_is_float(dtype)) {
        ls_kernel_accumulate_fma(out, in[0], factor, dtype, count);
    }
    ls_kernel_fill(out, dtype, factor, count);
    ls_kernel_copy(plain, out, bytes);
    expect(memcmp(out, plain, bytes) == 0, "copy", count);
    for (size_t k = 0; k < 3; k++) {
        free(in[k]);
    }
    free(out);
    free(plain);
}

static void stress_embedding(size_t bags, size_t dim) {
    enum { ROWS = 11, OWNERS = 3 };
    const int64_t starts[OWNERS + 1] = {0, 4, 4, ROWS};
    size_t total = 0;
    int64_t *lengths = memory(bags * sizeof *lengths);
    int64_t *offsets = memory((bags + 1) * sizeof *offsets);
    for (size_t b = 0; b < bags; b++) {
        lengths[b] = (int64_t)(b % 4);
        total += b % 4;
    }
    expect(ls_kernel_offsets(offsets, lengths, bags, NULL) == LS_OK, "offsets", bags);
    int64_t *ids = memory(total * sizeof *ids);
    float *weights = memory(total * sizeof *weights);
    for (size_t i = 0; i < total; i++) {
        ids[i] = (int64_t)(i * 5);
    }
    expect(ls_kernel_resolve_ids(ids, total, ROWS, LS_ID_WRAP, NULL) == LS_OK, "wrap", total);
    float *table = memory(ROWS * dim * sizeof *table);
    float *out = memory(bags * dim * sizeof *out);
    float *plain = memory(bags * dim * sizeof *plain);
    float *gathered = memory(total * dim * sizeof *gathered);
    for (int pooling = LS_POOL_SUM; pooling <= LS_POOL_MAX; pooling++) {
        ls_kernel_pooled_lookup(
            out, dim, table, &(const ls_table_shape){LS_F32, ROWS, dim},
            &(const ls_bags){ids, offsets, weights, 3, (ls_pooling)pooling, bags});
        ls_kernel_pooled_lookup_reference(
            plain, dim, table, &(const ls_table_shape){LS_F32, ROWS, dim},
            &(const ls_bags){ids, offsets, weights, 3, (ls_pooling)pooling, bags});
        expect(memcmp(out, plain, bags * dim * sizeof *out) == 0, "lookup", bags);
    }
    ls_kernel_gather_rows(gathered, table, dim * sizeof *table, ROWS, ids, total);
    int64_t *out_lengths = memory(OWNERS * bags * sizeof *out_lengths);
    int64_t *out_ids = memory(total * sizeof *out_ids);
    int64_t *positions = memory(total * sizeof *positions);
    float *out_weights = memory(total * sizeof *out_weights);
    ls_kernel_bucketize(&(const ls_buckets){out_lengths, out_ids, out_weights, positions}, ids,
                        lengths, weights, starts, OWNERS, bags);
    int64_t sum = 0;
    for (size_t i = 0; i < OWNERS * bags; i++) {
        sum += out_lengths[i];
    }
    expect((size_t)sum == total, "bucketize", bags);
    void *blocks[] = {lengths, offsets,  ids,     weights,   table,       out,
                      plain,   gathered, out_ids, positions, out_weights, out_lengths};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        free(blocks[i]);
    }
}

static void stress_matmul(ls_dtype dtype, size_t m, size_t k, size_t n) {
    size_t bytes = ls_dtype_bytes(dtype);
    void *a = memory(m * k * bytes);
    void *b = memory(k * n * bytes);
    void *out = memory(m * n * bytes);
    void *plain = memory(m * n * bytes);
    ls_kernel_matmul(out, a, b, dtype, m, k, n);
    ls_kernel_matmul_reference(plain, a, b, dtype, m, k, n);
    expect(memcmp(out, plain, m * n * bytes) == 0, "matmul", m * n);
    free(a);
    free(b);
    free(out);
    free(plain);
}

int main(void) {
    static const size_t counts[] = {0, 1, 7, 33, 257, 2049};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        stress_conversions(counts[c] > 300 ? 300 : counts[c]);
        for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
            stress_reduce((ls_dtype)dtype, counts[c]);
        }
        stress_embedding(counts[c] % 100, 1 + c * 5);
        stress_matmul(LS_F32, counts[c] % 10, 5, counts[c] % 70);
        stress_matmul(LS_F64, 8, counts[c] % 10, 32 + c);
    }
    return failures == 0 ? 0 : 1;
}
