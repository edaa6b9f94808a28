// Shared by the tests of the CUDA kernels: memory on both sides, inputs, and comparison of bits.
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kernels/cuda/kernels_cuda.h"

extern int checks, failures;
extern bool brief;  // fewer cases, for tools that slow everything down

uint64_t random_u64(void);
size_t below(size_t limit);                  // a random number
void need(bool good, const char *what);      // ends the program where CUDA fails
void need_ok(int status, const char *what);  //
void *host(size_t bytes);                    // zeroed
// A copy of in [bytes] on the GPU; NULL: filled with 0xA5, which reveals unwritten bytes.
void *device(const void *in, size_t bytes);
void *back(const void *from, size_t bytes);
// Same bits, or both NaN.
void expect_same(const char *what, const void *expected, const void *device_actual, ls_dtype dtype,
                 size_t count);
void expect(bool good, const char *what);
// Any bits: also NaN, infinities, subnormals and both zeros.
void random_bits(void *out, ls_dtype dtype, size_t count);
// Numbers of similar size, so that sums round but stay finite.
void random_numbers(void *out, ls_dtype dtype, size_t count);

// test_embedding_cuda.c
void test_lookup(void);
void test_gather(void);
void test_scatter(void);
void test_bags(void);
void test_bucketize(void);
void test_resolve(void);

// test_training_cuda.c
void test_training(void);

// test_quantise_cuda.c
void test_quantise(void);
